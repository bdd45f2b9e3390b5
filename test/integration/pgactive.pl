# pgactive: its ids are read by the specification of doc/formats.md, repeat where
# doc/tools.md says so, and both extensions mint in one server.
#
# pgactive is not in Debian.  Where it is not installed for this PostgreSQL, only an
# id of its own tests is read, and the rest is skipped.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my ($layout) = page_text('doc/formats.md') =~ /^- \*\*pgactive\*\* .*?`(epoch=[^`]*)`/m;
my $library = `pg_config --pkglibdir`;
chomp($library);
my $is_there = -e "$library/pgactive.so";
my $node = PostgreSQL::Test::Cluster->new('pgactive');

$node->init(allows_streaming => 'logical');
$node->append_conf('postgresql.conf', "snowflake.shards = '0'\ntimezone = 'UTC'\nmax_worker_processes = 20\n");
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'pgactive, snowflake'\ntrack_commit_timestamp = on\n") if $is_there;
# from some minor release on, a server lists what may decode its WAL
$node->append_conf('postgresql.conf', "output_plugin_libraries = 'pgactive, pgoutput'\n")
  if $is_there && `postgres --describe-config` =~ /^output_plugin_libraries\t/m;
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION snowflake');
sub query { my ($sql) = @_; return $node->safe_psql('postgres', $sql) }

is(query("SELECT * FROM snowflake_decode(25074801076895745, '$layout')"), '2016-10-24 06:31:54.245+00|2|1', 'an id of its tests');

SKIP:
{
	skip('pgactive is not installed', 1) unless $is_there;

	query('CREATE EXTENSION pgactive');
	note('pgactive ' . query(q{SELECT extversion FROM pg_extension WHERE extname = 'pgactive'}));
	query("SELECT pgactive.pgactive_create_group('here', '" . sprintf('host=%s port=%s user=%s dbname=postgres', $node->host, $node->port, scalar(getpwuid($<))) . "')");
	query('SELECT pgactive.pgactive_wait_for_node_ready(' . $PostgreSQL::Test::Utils::timeout_default . ')');
	query('CREATE SEQUENCE s');

	# its own ids, by its clock and its node
	is(query(<<"SQL"), 't|t|100', 'the specification reads what it mints now');
SELECT bool_and(d.created_at BETWEEN date_trunc('ms', now()) AND clock_timestamp()),
       bool_and(d.shard = (SELECT node_seq_id FROM pgactive.pgactive_nodes)), count(DISTINCT d.sequence)
  FROM (SELECT pgactive.pgactive_snowflake_id_nextval('s') AS id FROM generate_series(1, 100)) AS minted, snowflake_decode(id, '$layout') AS d
SQL

	# at times of our choice, which its tests use too: in microseconds since 2000
	my $at = sub { return "pgactive._pgactive_snowflake_id_nextval_private('s', (extract(epoch FROM timestamptz '$_[0]') * 1000000 - 946684800000000)::bigint)" };
	is(query('SELECT count(DISTINCT id) FROM (SELECT ' . $at->('2026-01-01') . ' AS id FROM generate_series(1, 16384)) AS minted'), 16383,
		'of 16384 ids of a millisecond two are the same');
	is(query('SELECT ' . $at->('2034-03-09 21:19:13.521') . ' > 0, ' . $at->('2034-03-09 21:19:13.522') . ' > 0'), 't|f', 'they become negative on the day that the page names');

	# and ours, beside it
	is(query('SELECT count(DISTINCT id) FROM (SELECT snowflake_nextval() AS id FROM generate_series(1, 100000)) AS minted'), 100_000, 'snowflake mints in the same server');
}

done_testing();
