# doc/managed.md: what it shows is what comes out, for an owner of a database who
# has no other right, and the ways to the C extension and back are as it says, while
# an application runs and never gets an error.
#
# Majors: ends

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Time::HiRes qw(sleep);
use Test::More;

my $page = page_text('doc/managed.md');
my $file = slurp_file("$FindBin::RealBin/../../sql/snowflake_plain.sql");
my $node = new_server('managed', conf => "timezone = 'UTC'\nsnowflake.shards = '6'");

# As the page says, by a role that owns its database and nothing else.
$node->safe_psql('postgres', 'CREATE ROLE owner LOGIN; CREATE ROLE app LOGIN');
sub owned_database
{
	my ($name) = @_;

	$node->safe_psql('postgres', "CREATE DATABASE $name OWNER owner");
	$node->safe_psql($name, "SET ROLE owner; CREATE SCHEMA plain; SET search_path = plain;\n$file");
	return;
}

owned_database('page');
$node->safe_psql('postgres', 'CREATE DATABASE pasted OWNER owner');
$ENV{PGUSER} = 'owner';
page_runs($node, 'managed', $page, dbname => 'page');
delete $ENV{PGUSER};
is($node->safe_psql('page', q{SELECT count(*) FROM pg_extension WHERE extname LIKE 'snow%'}), 0, 'without any extension');
is($node->safe_psql('page', 'SET ROLE owner; GRANT USAGE ON SCHEMA plain TO app; SET ROLE app; SELECT plain.snowflake_shard(plain.snowflake_nextval())'),
	5, 'a role with USAGE on the schema mints');
fails_with($node, q{SET ROLE app; SELECT setval('plain.snowflake_shard_5', 1)}, '42501', qr/permission denied/, 'and moves no sequence', dbname => 'page');
fails_with($node, q{BEGIN READ ONLY; SELECT plain.snowflake_nextval()}, '25006', qr/read-only transaction/, 'nor in a read-only transaction', dbname => 'page');

# --- The way to the C extension, and back.  The application inserts by DEFAULT.
owned_database('app');
$node->safe_psql('app', q{SET ROLE owner; SELECT plain.snowflake_plain_setup('twitter', '5');
	CREATE TABLE photos (id bigint PRIMARY KEY DEFAULT plain.snowflake_nextval(), n int);
	CREATE TABLE videos (id bigint PRIMARY KEY DEFAULT plain.snowflake_nextval(), n int);
	CREATE TABLE minted (id bigint, at timestamptz); CREATE INDEX ON minted (at)});

# The statement of the page, with the schemas exchanged for the way back.
my ($format) = $page =~ /^(SELECT format\('ALTER TABLE.*?);$/ms;
sub change_over
{
	my ($from, $to) = @_;
	my %other = (plain => $from, public => $to);
	my $statements = $format =~ s/\b(plain|public)\./$other{$1}./gr;

	return $node->safe_psql('app', "SET search_path = pg_catalog; $statements \\gexec");
}

my @application = map { start_session($node, <<'SQL' x 100_000, dbname => 'app', errors => \my $error) } 1 .. 4;
WITH p AS (INSERT INTO photos (n) SELECT generate_series(1, 5) RETURNING id), v AS (INSERT INTO videos (n) SELECT generate_series(1, 5) RETURNING id)
INSERT INTO minted SELECT id, clock_timestamp() FROM (SELECT id FROM p UNION ALL SELECT id FROM v) AS ids;
SQL

# Whether the application goes on, on these shards alone.
sub mints_on
{
	my ($shard, $name) = @_;
	my $now = $node->safe_psql('app', 'SELECT max(at) FROM minted');

	wait_for(sub { $node->safe_psql('app', "SELECT count(*) > 100 FROM minted WHERE public.snowflake_shard(id, 'twitter') = $shard AND at > '$now'") eq 't' });
	is($node->safe_psql('app', <<"SQL"), $shard, "$name: the newest ids are of shard $shard");
SELECT string_agg(DISTINCT public.snowflake_shard(id, 'twitter')::text, ',') FROM (SELECT id FROM minted ORDER BY at DESC LIMIT 50) AS newest
SQL
	return;
}

$node->safe_psql('app', 'CREATE EXTENSION snowflake SCHEMA public');
mints_on(5, 'before');
my $last = $node->safe_psql('app', 'SELECT max(id) FROM minted');
change_over('plain', 'public');
mints_on(6, 'the way to C');
is($node->safe_psql('app', "SELECT bool_and(id > $last) FROM minted WHERE public.snowflake_shard(id) = 6"), 't', 'the first id of C is above those of before');
change_over('public', 'plain');
mints_on(5, 'the way back');
is(join('', stop_minters_of(@application)), '', 'the application never got an error');
is($node->safe_psql('app', 'SELECT count(*) - count(DISTINCT id) FROM minted'), 0, 'no id twice');
is($node->safe_psql('app', 'SELECT count(*) FROM (SELECT id, lag(at) OVER (PARTITION BY public.snowflake_shard(id) ORDER BY id) - at AS later FROM minted) AS m WHERE later > interval \'1 min\''), 0, 'ids have their times');

# when nothing depends on the one any more, it goes
change_over('plain', 'public');
$node->safe_psql('app', 'DROP SCHEMA plain CASCADE');
is($node->safe_psql('app', 'INSERT INTO photos (n) VALUES (1) RETURNING public.snowflake_shard(id)'), 6, 'without plain the application goes on');

# Ends the application between two statements, as one that is stopped; gives what went wrong.
sub stop_minters_of
{
	my @sessions = @_;
	my @wrong;

	$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'app' AND query LIKE 'WITH p AS%'});
	for my $session (@sessions)
	{
		eval { finish_session($session) };
	}
	my $log = slurp_file($node->logfile);
	return grep { !/terminating connection due to administrator command/ && /WITH p AS|duplicate|deadlock/ } $log =~ /^.*(?:ERROR|FATAL):  .*$/mg;
}

done_testing();
