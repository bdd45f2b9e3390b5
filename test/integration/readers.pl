# What doc/events.md says of readers of new rows, by test/readers/readers.js, in seconds: who
# reads by the last id misses events; by transaction ids or by the mark none, and none
# twice; and each of these two stands still for what the page says, and for nothing else.
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

my $program = "$FindBin::RealBin/../readers/readers.js";
my ($has) = grep { -x "$_/node" } split(/:/, $ENV{PATH});
plan skip_all => 'Node.js or node-postgres is not installed'
  unless $has && system("cd '$FindBin::RealBin/../readers' && node -e 'require(\"pg\")' 2>/dev/null") == 0;

my $node = new_server('readers', conf => "snowflake.shards = '5'");
my ($out, $err) = ('', '');
local @ENV{qw(PGHOST PGPORT PGDATABASE PGUSER)} = ($node->host, $node->port, 'postgres', scalar(getpwuid($<)));
ok(IPC::Run::run([ 'node', $program, 2 ], '<', '/dev/null', '>', \$out, '2>', \$err, IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default)), 'the readers run') or diag($err);
my @lines = map { decode_json($_) } split(/\n/, $out);
my ($page) = page_text('doc/events.md') =~ /^## Measured\n(.*?)^## /ms;

is(scalar(() = $page =~ /^\|[^|\n]*\|[^|\n]+\| \d+ \|/mg), scalar(@lines), 'the page has a line for each');
is(join(' ', grep { $_ } map { $_->{twice} } @lines), '', 'none is read twice');
for my $line (@lines)
{
	my $name = "$line->{reader}, idle meanwhile: $line->{disturbance}";
	my $stops = $line->{reader} eq 'transaction ids' && $line->{disturbance} =~ /wrote/ || $line->{reader} eq 'the mark' && $line->{disturbance} =~ /minted/;

	cmp_ok($line->{committed}, '>', 0, "$name: events are committed");
	if ($line->{reader} eq 'the last id')
	{
		cmp_ok($line->{missed}, '>', 0, 'and missed');
		next;
	}
	is($line->{missed}, 0, 'none is missed');
	is($line->{in_time}, $stops ? 0 : $line->{committed}, $stops ? 'none is read before the other transaction ends' : 'all are read in time');
}

done_testing();
