# What doc/events.md says of readers of new rows, by test/readers/readers.mjs, in seconds:
# who misses events, and who none and reads none twice; and which idle transaction stops
# whom, and which does not.  Some are libraries of npm.
#
# Majors: one
# Packages: nodejs
# Npm: readers

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use JSON::PP;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $program = "$FindBin::RealBin/../readers/readers.mjs";
my ($has) = grep { -x "$_/node" } split(/:/, $ENV{PATH});
plan skip_all => 'Node.js or node-postgres is not installed'
  unless $has && system("cd '$FindBin::RealBin/../readers' && node -e 'require(\"pg\")' 2>/dev/null") == 0;

# of each reader, whether it misses events, and what stops it
my $MISSES = 'misses';
my $NONE = 'none is missed, none read twice';
my $SOME = 'some may be missed or read twice';    # by how a library is made: the page says why
my %known = (
	'last id' => [$MISSES],
	'gaps' => [$NONE],
	'transaction ids' => [ $NONE, 'wrote here', 'wrote elsewhere' ],
	'mark' => [ $NONE, 'minted here' ],
	'turns' => [$NONE],
	'schemeless' => [$SOME],    # as the last id; but a busy machine asks it too seldom
	'emmett' => [ $SOME, 'wrote here', 'wrote elsewhere' ],
	'emmett, mark' => [ $NONE, 'minted here' ],
	'message-db' => [$NONE],
	'message-db, mark' => [ $NONE, 'minted here' ],
	'outbox, polling' => [$SOME],
	'outbox, decoding' => [$SOME],
);

# a server for each, as it takes minutes, in which mostly nobody does anything
my @parts = ([ 'table', 'turns', 'schemeless' ], [ 'emmett', 'emmett, mark', 'message-db' ], [ 'message-db, mark', 'outbox', 'outbox, decoding' ]);
my @runs;
for my $part (@parts)
{
	my $node = new_server('readers_' . @runs, conf => "snowflake.shards = '5'\nwal_level = logical\nmax_wal_senders = 5");
	my %run = (node => $node, out => '', err => '');

	local @ENV{qw(PGHOST PGPORT PGDATABASE PGUSER)} = ($node->host, $node->port, 'postgres', scalar(getpwuid($<)));
	$run{run} = IPC::Run::start([ 'node', $program, 1, @$part ], '<', '/dev/null', '>', \$run{out}, '2>', \$run{err},
		IPC::Run::timeout(3 * $PostgreSQL::Test::Utils::timeout_default));
	push @runs, \%run;
}
ok(IPC::Run::finish($_->{run}), 'the readers run') || diag($_->{err}) for @runs;
my $source = slurp_file($program) =~ s/\s+/ /gr =~ s/;//gr;
for my $statement (map { split(/;\n/, $_->[1]) } grep { $_->[0] eq 'console' } fenced_blocks(page_text('doc/events.md')))
{
	ok(index($source, $statement =~ s/\s+/ /gr =~ s/;//gr) >= 0, 'what the page says of a library is what is run: ' . $statement =~ s/\n.*//sr);
}
my @lines = map { decode_json($_) } split(/\n/, join('', map { $_->{out} } @runs));
my $readers = keys %known;

for my $line (grep { $_->{not_installed} } @lines)
{
	SKIP: { skip("$line->{not_installed} is not installed", 1); }
	delete @known{ grep { /^\Q$line->{store}\E/ } keys %known };
}
@lines = grep { $_->{reader} } @lines;
is(scalar(() = page_text('doc/events.md') =~ /^\| [^|\n]+\| \d+ \|/mg), $readers, 'the page has a line for each reader');
is(scalar(@lines), 4 * keys %known, 'and all have run, beside each idle transaction');
my %missed;
for my $line (@lines)
{
	my ($misses, @stops) = @{ $known{ $line->{reader} } };
	my $name = "$line->{reader}, idle: $line->{idle}";

	cmp_ok($line->{committed}, '>', 0, "$name: events are committed");
	if (grep { $_ eq $line->{idle} } @stops) { is($line->{in_time}, 0, 'none is read before the other transaction ends') }
	elsif ($misses eq $NONE) { is($line->{in_time}, $line->{committed}, 'all are read in time') }
	else { cmp_ok($line->{in_time}, '>', 0, 'events are read in time') }
	is("$line->{missed} $line->{twice}", '0 0', $misses) if $misses eq $NONE;
	$missed{ $line->{reader} } += $line->{missed} if $misses eq $MISSES;
	cmp_ok($line->{cpu_us}, '>', 0, 'its processor time is known');
}
cmp_ok($missed{$_}, '>', 0, "by the $_ events are missed") for sort keys %missed;

done_testing();
