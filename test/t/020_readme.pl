# README.md does what it says: its first screen shows what it is for; its SQL runs in order, on a server set up by its
# own configuration; output that it shows is what comes out.  The id that it
# shows as an example is taken apart correctly.  The tables of layouts and
# settings in the reference are the server's; 029_reference.pl looks at the rest
# of that page.  CONTRIBUTING.md names every file of src/, in an order in which
# each file includes only headers of files below it; leases stand on top.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

# --- the README, in a database of its own, which makes the extension itself
my $node = new_server('readme', conf => "timezone = 'UTC'");
$node->safe_psql('postgres', 'CREATE DATABASE readme');
my $readme = page_text('README.md');
page_runs($node, 'README', $readme, dbname => 'readme');

# its dates are today's: a partition or a page of last year would be of no use
my @sql = map { $_->[1] } grep { $_->[0] eq 'sql' } fenced_blocks($readme);
is_deeply([ grep { /\b20\d\d-\d/ } @sql ], [], 'no SQL of README has a date');

# --- its first screen: a table, an INSERT, its id and its time; then for whom it is not,
# --- and the languages.  It is short.
my ($screen) = $readme =~ /\A((?:.*\n){20})/;

like($screen, qr/^CREATE TABLE .*^INSERT .*RETURNING id, snowflake_timestamp\(id\);\n.*^ (\d{19}) \| 20\d\d-/ms, 'the first 20 lines have a table, an INSERT, its id and its time');
like($readme, qr/\A(?:.*\n){20,35}\*\*Do not use it\*\* if/, 'then it says who should not use it');
like($readme, qr/\A(?:.*\n){30,50}.*\(doc\/javascript\.md\).*\n.*\(doc\/languages\.md\)/, 'and where the languages are');
like($readme, qr/\A(?:.*\n){30,55}.*consumer skips events.*\(doc\/events\.md\).*\(doc\/leases\.md\).*\n.*\(doc\/monitoring\.md\).*\(doc\/failures\.md\)/, 'where to read for events, and for who runs servers');
cmp_ok(scalar(split(' ', $readme)), '<=', 1800, 'README has at most 1,800 words');

# --- its example: an id that test/demo.sh minted.  Another run mints another id,
# --- but what an id tells does not change, and neither do its bits.
my $example = join('', map { $_->[1] } grep { $_->[0] eq 'console' } fenced_blocks($readme));
my ($id, $time) = $screen =~ /^ (\d{19}) \| (.*)$/m;
my $demo = page_text('test/demo.sql') =~ s/\s+/ /gr;

is($node->safe_psql('readme', "SELECT snowflake_timestamp($id), snowflake_shard($id), snowflake_sequence($id)"), "$time|5|0", 'its time, and what the drawing says');
is((map { s/ //gr } $readme =~ /^```\n([01 ]{64,})$/m)[0], sprintf('%064b', $id), 'the drawing shows the bits of that id');
my @statements = $example =~ /^((?:CREATE|INSERT|SELECT) .*?;)$/msg;
is(scalar(@statements), 2, 'it has two statements');
ok(index($demo, $_ =~ s/\s+/ /gr) >= 0, 'test/demo.sh runs: ' . s/\n.*//sr) for @statements;

# --- its figures of the long runs are those of test/results.csv
my ($names, @runs) = map { [ split(/,/, $_, -1) ] } split(/\n/, page_text('test/results.csv'));
my %sum;
for my $run (grep { $_->[-1] eq '' } @runs)    # the others are of schedules
{
	$sum{ $names->[$_] } += $run->[$_] for grep { $names->[$_] =~ /^(?:faults|minutes|ids|duplicates)$/ } 0 .. $#$names;
}
is(join(' ', $readme =~ /with (\d+) faults .*?\bin\s(\d+) minutes.*?\s(\d+) ids, (\d+) of them twice/s),
	join(' ', @sum{qw(faults minutes ids duplicates)}), 'the long runs');

# --- each mutant of test/mutants.csv has one verdict
my (undef, @rooms) = map { [ split(/,/, $_, -1) ] } split(/\n/, page_text('test/mutants.csv'));
is_deeply([ map { "@$_" } grep { $_->[5] != $_->[6] + $_->[7] + $_->[8] + $_->[9] } @rooms ], [], 'the verdicts of each row are as many as its mutants');
cmp_ok(scalar(@rooms), '>', 0, 'of some rooms');

# --- the reference: rows of its tables, as the server would write them
my $reference = page_text('doc/reference.md');

sub has_rows
{
	my ($query, $count, $name) = @_;
	my @rows = split(/\n/, $node->safe_psql('readme', $query));
	my @missing = grep { index($reference, "\n$_") < 0 } @rows;

	is(@rows, $count, "$count $name");
	is("@missing", '', "each of the $name is in the reference");
	return;
}

has_rows(<<'SQL', 10, 'presets');
SELECT format('| `%s` | %s | %s ms | `%s` | %s | %s | %s | %s |', name,
	(extract(epoch FROM epoch) * 1000)::bigint, (extract(epoch FROM tick) * 1000)::int,
	fields, shards, capacity, expires_at::date, source)
FROM snowflake_layouts
SQL
has_rows(<<'SQL', 9, 'settings');
SELECT format('| `%s` | %s | %s |', name, context,
	CASE WHEN boot_val = '' THEN 'empty'
		WHEN unit = 'ms' THEN format('`%ss`', boot_val::int / 1000)
		ELSE format('`%s`', boot_val) END)
FROM pg_settings WHERE name LIKE 'snowflake.%'
SQL

# --- the rooms: every file of src/ has one, and the arrows lead downwards
my $top = "$FindBin::RealBin/../..";
my @rooms = page_text('CONTRIBUTING.md') =~ /^\| `([\w\/]+\.[ch])` \|/mg;
my %place = map { $rooms[$_] => $_ } 0 .. $#rooms;
my %room_of;    # of each file: a header is in the room of its .c
my %file_of;    # of each header, as #include names it
my (%arrows, @upward, @into_leases);
my $MAX_ARROWS = 110;
my $MAX_LINES = 700;

for my $file (map { s/.*\/src\///r } glob("$top/src/*.[ch] $top/src/lease/*.[ch]"))
{
	my $room = $file =~ s/\.h$/.c/r;
	$room_of{$file} = defined $place{$room} ? $room : $file;
	$file_of{ $file =~ s/.*\///r } = $file;
}
is_deeply([ grep { !defined $place{ $room_of{$_} } } sort keys %room_of ], [], 'each file of src has a room');
is_deeply([ grep { !$room_of{$_} } @rooms ], [], 'and each room is a file');
for my $file (sort keys %room_of)
{
	for my $header (grep { defined } map { $file_of{$_} } page_text("src/$file") =~ /^#include "(\w+\.h)"/mg)
	{
		next if $room_of{$header} eq $room_of{$file};
		$arrows{"$room_of{$file} $room_of{$header}"} = 1;
		push @upward, "$file includes $header" if $place{ $room_of{$header} } <= $place{ $room_of{$file} };
		push @into_leases, "$file includes $header" if $header =~ /^lease\// && $file !~ /^lease\// && $file ne 'module.c';
	}
}
is_deeply(\@upward, [], 'no file includes a header of a room above its own');
is_deeply(\@into_leases, [], 'only module.c includes headers of leases');
cmp_ok(keys %arrows, '<=', $MAX_ARROWS, 'arrows: ' . keys %arrows);
is_deeply([ grep { (() = page_text("src/$_") =~ /\n/g) > $MAX_LINES } sort keys %room_of ], [], "no file has more than $MAX_LINES lines");

# --- an old major is told so, and not that a header is missing
like(page_text('src/compat.h') =~ s/#include.*//sr, qr/#error "snowflake needs PostgreSQL 15/, 'compat.h looks at the major before it includes anything');

# --- its links lead somewhere
my @links = grep { !/^https?:/ } page_text('CONTRIBUTING.md') =~ /\]\(([^)#]+)/g;
is_deeply([ grep { !-e "$top/$_" } @links ], [], 'the links of CONTRIBUTING.md lead somewhere');

done_testing();
