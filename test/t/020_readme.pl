# README.md does what it says: its SQL runs in order, on a server set up by its
# own configuration; output that it shows is what comes out; its tables of
# layouts and settings are the server's; and it names every function there is.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $readme = slurp_file("$FindBin::RealBin/../../README.md");

# Fenced blocks in order, each a language and a text
my @blocks;
push @blocks, [ $1, $2 ] while $readme =~ /^```(\w*)\n(.*?)^```$/msg;
my ($conf) = map { $_->[1] } grep { $_->[0] eq 'conf' } @blocks;

my $node = new_server('readme', conf => "timezone = 'UTC'\n$conf");
$node->safe_psql('postgres', 'CREATE DATABASE readme');

# psql pads its columns, and editors take that away
sub without_padding
{
	my ($text) = @_;
	return join("\n", map { s/\s+$//r } split(/\n/, $text));
}

# --- the SQL, and the output shown below it
for my $i (0 .. $#blocks)
{
	my ($language, $text) = @{ $blocks[$i] };
	my ($title) = $text =~ /(.*)/;
	my ($out, $err) = ('', '');

	next unless $language eq 'sql';
	ok( IPC::Run::run(
			[ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('readme') ],
			'<', \$text, '>', \$out, '2>', \$err), "runs: $title")
	  or diag($err);
	is(without_padding($out), without_padding($blocks[ $i + 1 ][1]), "shows: $title")
	  if $i < $#blocks && $blocks[ $i + 1 ][0] eq 'text';
}

# --- rows of its tables, as the server would write them
sub has_rows
{
	my ($query, $count, $name) = @_;
	my @rows = split(/\n/, $node->safe_psql('readme', $query));
	my @missing = grep { index($readme, "\n$_") < 0 } @rows;

	is(@rows, $count, "$count $name");
	is("@missing", '', "each of the $name is in its table");
	return;
}

has_rows(<<'SQL', 6, 'presets');
SELECT format('| `%s` | %s | %s ms | `%s` | %s | %s | %s | %s |', name,
	(extract(epoch FROM epoch) * 1000)::bigint, (extract(epoch FROM tick) * 1000)::int,
	fields, shards, capacity, expires_at::date, source)
FROM snowflake_layouts
SQL
has_rows(<<'SQL', 4, 'settings');
SELECT format('| `%s` | %s | %s |', name, context,
	CASE WHEN boot_val = '' THEN 'empty'
		WHEN unit = 'ms' THEN format('`%ss`', boot_val::int / 1000)
		ELSE format('`%s`', boot_val) END)
FROM pg_settings WHERE name LIKE 'snowflake.%'
SQL

# --- no function is left out, but for those that types and operators are made of
my @functions = split(/\n/, $node->safe_psql('postgres', <<'SQL'));
SELECT DISTINCT proname FROM pg_proc
JOIN pg_depend AS member ON member.classid = 'pg_proc'::regclass AND member.objid = pg_proc.oid AND member.deptype = 'e'
JOIN pg_extension ON pg_extension.oid = member.refobjid AND extname = 'snowflake'
WHERE NOT EXISTS (SELECT FROM pg_depend WHERE refclassid = 'pg_proc'::regclass AND refobjid = pg_proc.oid)
SQL
is_deeply([ grep { $readme !~ /`$_\(/ } @functions ], [], scalar(@functions) . ' functions are in the reference');

done_testing();
