# doc/failures.md tells what happens when something fails, with the messages, some
# of them without their detail or hint.
# Here each failure is brought about, and what the server says is compared with
# what the page shows under that heading, but for times and paths.  No block of
# messages on the page is left without a failure, and no failure without a
# heading.  The messages in tables are 045_messages.pl's, and the paragraphs to
# which alerts lead are 042_monitoring.pl's.
#
# Takes: long

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Time::HiRes qw(sleep);
use Test::More;

my $mint = 'SELECT snowflake_nextval(1)';

my $node = new_server('plain', init => { allows_streaming => 1 }, conf => "timezone = 'UTC'");
my $clocked = new_server('clocked', clock => 1, conf => '');
my @servers = map { new_server($_, conf => <<'CONF') } 'one', 'two';
snowflake.layout = 'epoch=2020-01-01 unit=86400s fields=timestamp:20,shard:10,sequence:1'
CONF

# --- what servers say: of what psql shows with VERBOSITY verbose, the message
# --- with its SQLSTATE, the detail and the hint

sub errors_of
{
	my ($server, $sql, %options) = @_;
	my ($status, $out, $err) =
	  $server->psql($options{dbname} // 'postgres', "\\set VERBOSITY verbose\n$sql", on_error_stop => 0);

	$err =~ s/^psql:<stdin>:\d+: //mg;
	return split(/\n(?=ERROR:)/, join("\n", grep { /^(ERROR|DETAIL|HINT):/ } split(/\n/, $err)));
}

# The last message of its log that matches, with what belongs to it.
sub logged
{
	my ($server, $pattern, $offset) = @_;
	my $message;

	# who logs it may do so after a session has its error
	wait_for(sub {
		my $log = slurp_file($server->logfile, $offset // 0);

		$log =~ s/^\d{4}-\d\d-\d\d [^\]]*\] (?:\S+ )?(?=[A-Z]+:  )//mg;
		($message) = reverse grep { $_ =~ $pattern } split(/\n(?!DETAIL|HINT)/, $log);
		return defined $message;
	});
	return $message // "nothing like $pattern in the log";
}

# What a server that does not start says, with the configuration given.
sub refusal
{
	my ($conf) = @_;
	my $file = $node->data_dir . '/postgresql.conf';
	my $good = slurp_file($file);
	my $offset = -s $node->logfile;

	$node->stop;
	$node->append_conf('postgresql.conf', $conf);
	ok(!$node->start(fail_ok => 1), "$conf: the server does not start");
	unlink $file;
	append_to_file($file, $good);
	$node->start;
	return logged($node, qr/^FATAL/, $offset);
}

sub minted
{
	my ($server) = @_;
	return mints_at_last($server, $mint);
}

# Kill it, and start it as soon as what it left behind has gone.
sub crash
{
	my ($server) = @_;

	$server->kill9;
	for (1 .. 300)
	{
		$server->{_pid} = undef;
		return if start_with_clock($server, 0, fail_ok => 1);
		sleep(0.1);
	}
	die 'the server does not start any more';
}

# --- the horizon file

my $file = $node->data_dir . '/snowflake.horizon';

sub with_horizon_file
{
	my ($change) = @_;
	my $last = minted($node);

	$node->stop;
	my $bytes = slurp_file($file);
	$change->(\$bytes);
	unlink $file;
	append_to_file($file, $bytes) if $bytes ne '';
	$node->start;
	my @messages = $bytes eq '' ? logged($node, qr/^LOG:  file/) : errors_of($node, $mint);
	unlink $file;
	cmp_ok(minted($node), '>', $last, 'the file removed, minting goes on');
	return @messages;
}

# What a standby says of an id when its page is cut off.  Its primary has
# stopped, and it has replayed that: nothing that is replayed mends the page.
sub error_without_page
{
	my ($server) = @_;

	wait_until($server, 'SELECT pg_last_wal_replay_lsn() = pg_last_wal_receive_lsn()');
	is($server->safe_psql('postgres', 'SELECT snowflake_shard(1)'), '0', 'with its page a standby reads ids');
	$server->stop;
	truncate($server->data_dir . "/global/$_", 0) for 11111, 11112;
	$server->start;
	my ($message) = errors_of($server, 'SELECT snowflake_shard(1)');
	is($server->safe_psql('postgres', q{SELECT snowflake_shard(1, 'twitter')}), '0', 'a layout named, it reads the id');
	$server->stop;
	return $message;
}

# --- what is brought about, and said; in the order of the page

my $standby;

my %happens = (
	'The clock is set back' => sub {
		my $last = minted($clocked);

		set_clock($clocked, -3600);
		my @messages = (errors_of($clocked, $mint), logged($clocked, qr/^LOG:  clock is/));
		set_clock($clocked, 0);
		cmp_ok(minted($clocked), '>', $last, 'the clock put right, minting goes on');
		return @messages;
	},
	'The clock was far ahead' => sub {
		set_clock($clocked, 86400);
		my $last = minted($clocked);
		set_clock($clocked, 0);
		like((errors_of($clocked, $mint))[0], qr/^ERROR:  58000: clock is 2[34] h .* behind the last snowflake id\n/, 'the message is the one above');

		# the way out
		$clocked->stop;
		unlink $clocked->data_dir . "/$_" for 'snowflake.horizon', 'global/11111';
		$clocked->append_conf('postgresql.conf', "snowflake.shards = '2'");
		start_with_clock($clocked, 0);
		cmp_ok($clocked->safe_psql('postgres', 'SELECT snowflake_nextval()'), '<', $last,
			'on another shard minting goes on at the present time');
		$clocked->append_conf('postgresql.conf', "snowflake.shards = ''");
		reload($clocked);
		return;
	},
	'A shard is exhausted' => sub {
		return errors_of($servers[0],
			"SET statement_timeout = '200ms';\nSELECT snowflake_nextval(6) FROM generate_series(1, 5)");
	},
	'The server crashes, or loses power' => sub {
		$clocked->append_conf('postgresql.conf', 'snowflake.reserve = 60s');
		$clocked->stop;
		start_with_clock($clocked, 0);
		my $last = $clocked->safe_psql('postgres', 'SELECT snowflake_nextval(2)');
		crash($clocked);
		my @messages = errors_of($clocked, 'SELECT snowflake_nextval(2)');
		set_clock($clocked, 120);
		cmp_ok($clocked->safe_psql('postgres', 'SELECT snowflake_nextval(2)'), '>', $last,
			'past the horizon minting goes on');
		return @messages;
	},
	'The disk is full' => sub {
		$node->stop;
		start_with_slow_disk($node);
		my $last = minted($node);
		set_disk($node, 'write=ENOSPC');
		my @messages;
		# up to the horizon minting goes on
		wait_for(sub { @messages = errors_of($node, $mint) });
		is(logged($node, qr/^LOG:  cannot mint/) =~ s/^LOG: /ERROR:  58030:/r, $messages[0], 'the log has the same');
		set_disk($node, '');
		cmp_ok(minted($node), '>', $last, 'the disk good again, minting goes on');
		$node->restart;
		return @messages;
	},
	'The horizon file is damaged' => sub {
		return with_horizon_file(sub { substr(${ $_[0] }, 20, 1) ^= "\1" });
	},
	'The horizon page is damaged' => sub {
		minted($node);
		$node->stop('immediate');
		$node->start;
		$node->backup('page');
		my $follower = PostgreSQL::Test::Cluster->new('follower');
		$follower->init_from_backup($node, 'page', has_streaming => 1);
		$follower->start;
		$node->wait_for_catchup($follower);
		$node->stop;
		my $page = $node->data_dir . '/global/11111';
		ok(-s $page, 'a server that was recovered has the page');
		my $message_of_standby = error_without_page($follower);
		truncate($page, 0) or die;
		$node->start;
		my @messages = errors_of($node, $mint);
		$node->stop;
		unlink $page;
		$node->start;
		like(minted($node), qr/^\d+$/, 'the hint followed, minting goes on');
		return (@messages, $message_of_standby);
	},
	'The horizon file is missing' => sub {
		return with_horizon_file(sub { ${ $_[0] } = '' });
	},
	'The file of the layout is damaged' => sub {
		my $damaged = new_server('damaged', conf => '');
		is($damaged->safe_psql('postgres', 'SELECT snowflake_nextval(1) > 0'), 't', 'both files are there');
		$damaged->stop;
		my @files = map { $damaged->data_dir . "/snowflake.$_" } 'layout', 'horizon';
		my @good = map { slurp_file($_) } @files;
		my $bytes = $good[0];
		substr($bytes, 20, 1) ^= "\1";
		my $damage = sub { unlink $files[0]; append_to_file($files[0], $bytes) };

		$damage->();
		$damaged->start;
		my @messages = map { logged($damaged, $_) } qr/^LOG:  the layout of snowflake/, qr/^LOG:  could not use file "snowflake.layout"/;
		is($damaged->safe_psql('postgres', 'SELECT snowflake_shard(1)'), 0, 'the layout is known by the other file');
		$damaged->stop;
		$damage->();
		unlink $files[1];
		$damaged->start;
		push @messages, errors_of($damaged, 'SELECT snowflake_shard(1)');
		$damaged->stop;
		unlink @files;
		append_to_file($files[$_], $good[$_]) for 0, 1;
		$damaged->start;
		is($damaged->safe_psql('postgres', 'SELECT snowflake_shard(1)'), 0, 'the hint followed, ids are read');
		$damaged->stop;

		my $new = PostgreSQL::Test::Cluster->new('unrecorded');
		$new->init;
		mkdir $new->data_dir . '/snowflake.layout.tmp' or die;
		$new->start;
		$new->safe_psql('postgres', 'CREATE EXTENSION snowflake');
		push @messages, errors_of($new, 'SELECT snowflake_shard(1)');
		$new->stop;

		my $unloaded = PostgreSQL::Test::Cluster->new('unloaded');
		$unloaded->init(allows_streaming => 1);
		$unloaded->append_conf('postgresql.conf', "shared_preload_libraries = ''");
		$unloaded->start;
		$unloaded->safe_psql('postgres', 'CREATE EXTENSION snowflake');
		$unloaded->backup('unloaded');
		my $waiting = PostgreSQL::Test::Cluster->new('waiting');
		$waiting->init_from_backup($unloaded, 'unloaded', has_streaming => 1);
		$waiting->append_conf('postgresql.conf', "shared_preload_libraries = 'snowflake'");
		$waiting->start;
		push @messages, errors_of($waiting, 'SELECT snowflake_shard(1)');
		$_->stop for $waiting, $unloaded;
		return @messages;
	},
	'The horizon file is of a later version' => sub {
		return with_horizon_file(sub { substr(${ $_[0] }, 4, 4) = pack('L', 99) });
	},
	'This is a standby' => sub {
		$node->backup('base');
		$standby = PostgreSQL::Test::Cluster->new('standby');
		$standby->init_from_backup($node, 'base', has_streaming => 1);
		$standby->start;
		return errors_of($standby, "$mint;\nSELECT snowflake_accept_layout();\nSELECT snowflake_adopt('pg_class', 'oid', 5);\nSELECT snowflake_settled()");
	},
	'A standby is promoted' => sub {
		my $last = minted($node);

		$node->wait_for_catchup($standby);
		$standby->promote;
		cmp_ok(minted($standby), '>', $last, 'it goes on above the primary');
		$standby->stop;
		return;
	},
	'A backup is restored, or a clone is started' => sub {
		my $clone = PostgreSQL::Test::Cluster->new('clone');

		minted($node);
		$node->backup('copied');
		$clone->init_from_backup($node, 'copied');
		$clone->append_conf('postgresql.conf', 'snowflake.refuse_clone = on');
		$clone->start;
		my @messages = errors_of($clone, $mint);
		is(logged($clone, qr/^LOG:  this server is a clone/) =~ s/^LOG: /ERROR:  55000:/r, $messages[0], 'the log has the same');
		$clone->safe_psql('postgres', 'SELECT snowflake_accept_clone()');
		like(minted($clone), qr/^\d+$/, 'accepted, it mints');
		$clone->stop;
		return @messages;
	},
	'Two servers mint on the same shard' => sub {
		$_->safe_psql('postgres', <<'SQL') for @servers;
CREATE TABLE photos (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(5));
INSERT INTO photos DEFAULT VALUES
SQL
		my $theirs = $servers[1]->safe_psql('postgres', 'SELECT id FROM photos');

		return errors_of($servers[0], "INSERT INTO photos VALUES ($theirs)");
	},
	'The library is not preloaded' => sub {
		$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
		$node->restart;
		my @messages = errors_of($node, $mint);
		my ($status, $out, $err) = $node->psql('template1', "\\set VERBOSITY verbose\nCREATE EXTENSION snowflake; DROP EXTENSION snowflake");
		my $warning = join("\n", map { s/^psql:<stdin>:\d+: //r } grep { /(?:WARNING|HINT):/ } split(/\n/, $err));
		$node->safe_psql('postgres', 'CREATE TABLE legacy (id bigserial PRIMARY KEY)');
		is_deeply([ errors_of($node, "SELECT snowflake_adopt('legacy', 'id', 5)") ], \@messages, 'adopting says the same');
		is_deeply([ errors_of($node, 'SELECT snowflake_accept_layout()') ], \@messages, 'and so does accepting a layout');
		$node->safe_psql('postgres', 'DROP TABLE legacy');
		$node->append_conf('postgresql.conf', "shared_preload_libraries = 'snowflake'");
		$node->restart;
		return (@messages, $warning);
	},
	'The library is not installed' => sub {
		return refusal("dynamic_library_path = '/nonexistent'");
	},
	'No shard is configured' => sub { return errors_of($node, 'SELECT snowflake_nextval()') },
	'The shard is not this server\'s' => sub {
		return errors_of($node, "SET snowflake.shards = '5';\nSELECT snowflake_nextval(6);\nSELECT snowflake_nextval(1024)");
	},
	'A setting is wrong' => sub {
		return (refusal("snowflake.layout = 'twiter'"), errors_of($node, "SET snowflake.shards = '5x'"));
	},
	'The layout was changed' => sub {
		minted($node);
		$node->safe_psql('postgres', <<'SQL');
CREATE TABLE customers (id snowflake PRIMARY KEY) PARTITION BY HASH (id snowflake_shard_ops);
CREATE TABLE customers_0 PARTITION OF customers FOR VALUES WITH (MODULUS 1, REMAINDER 0);
INSERT INTO customers VALUES (5);
SQL
		$node->append_conf('postgresql.conf', 'max_prepared_transactions = 1');
		$node->restart;
		minted($node);
		$node->safe_psql('postgres', "BEGIN; SELECT snowflake_nextval(5); PREPARE TRANSACTION 'order 17'");
		$node->append_conf('postgresql.conf', "snowflake.layout = 'discord'");
		$node->restart;
		my @messages = errors_of($node, $mint);
		$node->backup('changed');
		my $reader = PostgreSQL::Test::Cluster->new('reader');
		$reader->init_from_backup($node, 'changed', has_streaming => 1);
		$reader->start;
		push @messages, errors_of($reader, 'SELECT snowflake_shard(1)');
		$reader->stop;
		push @messages, (
			errors_of($node, "CREATE ROLE app; SET ROLE app; SELECT snowflake_accept_layout()"),
			errors_of($node, 'SELECT snowflake_accept_layout()'),
			errors_of($node, "ROLLBACK PREPARED 'order 17'; SELECT snowflake_accept_layout()"));
		$node->append_conf('postgresql.conf', "snowflake.layout = 'twitter'");
		$node->restart;
		$node->safe_psql('postgres', 'DROP TABLE customers');
		like(minted($node), qr/^\d+$/, 'with the old layout minting goes on');
		return @messages;
	},
	'The background worker is not running' => sub {
		$node->append_conf('postgresql.conf', 'max_worker_processes = 0');
		$node->restart;
		my @messages = errors_of($node, $mint);
		$node->append_conf('postgresql.conf', 'max_worker_processes = 8');
		$node->restart;
		return @messages;
	},
	'Library and SQL are of different versions' => sub {
		$node->safe_psql('postgres', 'CREATE DATABASE old');
		$node->safe_psql('old', <<'SQL');
CREATE EXTENSION snowflake;
ALTER EXTENSION snowflake DROP VIEW pg_stat_snowflake;
ALTER EXTENSION snowflake DROP FUNCTION snowflake_stat_shards();
DROP VIEW pg_stat_snowflake;
DROP FUNCTION snowflake_stat_shards();
CREATE FUNCTION snowflake_stat_shards(OUT shard integer, OUT minted bigint) RETURNS SETOF record
	LANGUAGE C STRICT AS 'snowflake';
SQL
		my @messages = (
			errors_of($node, 'SELECT * FROM snowflake_stat_shards()', dbname => 'old'),
			errors_of($node, "CREATE FUNCTION snowflake_of_tomorrow() RETURNS void LANGUAGE C AS 'snowflake'"));
		is($node->safe_psql('old', "SELECT snowflake_nextval(5) > 0"), 't', 'minting works meanwhile');
		return @messages;
	},
	'A function runs in a parallel worker' => sub {
		$node->safe_psql('postgres', <<'SQL');
CREATE TABLE scanned AS SELECT generate_series(1, 10000) AS n;
CREATE FUNCTION minted_for(n int) RETURNS bigint LANGUAGE plpgsql PARALLEL SAFE AS 'BEGIN RETURN snowflake_nextval(5); END';
CREATE FUNCTION mark_for(n int) RETURNS bigint LANGUAGE plpgsql PARALLEL SAFE AS 'BEGIN RETURN snowflake_settled(); END';
SQL
		my $parallel = 'SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET parallel_leader_participation = off;';
		my @messages = map { errors_of($node, "$parallel SELECT max($_(n)) FROM scanned") } qw(minted_for mark_for);
		$node->safe_psql('postgres', 'DROP TABLE scanned; DROP FUNCTION minted_for, mark_for');
		return @messages;
	},
	'A stored mark is replaced' => sub {
		$node->safe_psql('postgres', q(CREATE TABLE snowflake_marks (server text PRIMARY KEY, mark bigint NOT NULL, published_at timestamptz NOT NULL);
			INSERT INTO snowflake_marks VALUES ('paris', 9e18, now())));
		my (undef, undef, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\nSELECT snowflake_publish_mark('paris')");
		$node->safe_psql('postgres', 'DROP TABLE snowflake_marks');
		return $err =~ /(WARNING:  .*\nDETAIL:  .*\nHINT:  .*)/;
	},
	'The server is in single-user mode' => sub {
		$node->stop;
		my ($out, $err) = run_command([ 'sh', '-c',
			"echo '$mint' | postgres --single -D '" . $node->data_dir . "' postgres" ]);
		$node->start;
		return $err =~ /(ERROR:  .*)/;
	},
	'The layout has expired' => sub {
		restart_with_layout($node, 'epoch=2020-01-01 unit=1ms fields=timestamp:31,shard:10,sequence:12');
		my @messages = errors_of($node, $mint);
		restart_with_layout($node, 'epoch=2090-01-01 unit=1ms fields=timestamp:41,shard:10,sequence:12');
		push @messages, errors_of($node, $mint);
		# and one that expires in a year
		my $epoch = 1000 * (time() - 2**33 / 100 + 365 * 86400);
		restart_with_layout($node, "epoch=$epoch unit=10ms fields=timestamp:33,shard:10,sequence:12");
		minted($node);
		push @messages, logged($node, qr/^LOG:  the layout/);
		restart_with_layout($node, 'twitter');
		return @messages;
	},
	'A time, a shard or a sequence number is out of range' => sub {
		return errors_of($node, <<'SQL');
SELECT snowflake_encode('2090-01-01Z', 5, 0);
SELECT snowflake_encode('2026-01-01Z', 5, 4096);
SQL
	},
	'A time is read as a number, or not at all' => sub {
		return errors_of($node, <<'SQL');
CREATE TABLE photos (id snowflake PRIMARY KEY);
CREATE TABLE legacy (id bigint PRIMARY KEY);
SELECT * FROM photos WHERE id >= '2026-01-01';
SELECT * FROM legacy WHERE id >= timestamptz '2026-01-01Z';
CREATE SCHEMA ext;
UPDATE pg_extension SET extrelocatable = true WHERE extname = 'snowflake';
ALTER EXTENSION snowflake SET SCHEMA ext;
SELECT * FROM photos WHERE id >= timestamptz '2026-01-01Z';
ALTER EXTENSION snowflake SET SCHEMA public;
DROP SCHEMA ext;
SQL
	},
	'A type does not fit' => sub {
		return errors_of($node, <<'SQL');
SELECT COALESCE(id, 3) FROM photos;
SELECT id::int FROM photos;
SELECT ARRAY[id] = '{1}'::bigint[] FROM photos;
CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY);
ALTER TABLE orders ALTER id TYPE snowflake;
SQL
	},
	'A column cannot be adopted' => sub {
		return errors_of($node, <<'SQL');
CREATE TABLE users (id bigint PRIMARY KEY DEFAULT floor(random() * 1000000), name text);
SELECT snowflake_adopt('users', 'id', 5);
ALTER TABLE users ALTER COLUMN id DROP DEFAULT;
INSERT INTO users VALUES (9000000000000000000);
SELECT snowflake_adopt('users', 'id', 5);
DELETE FROM users;
CREATE VIEW names AS SELECT id, name FROM users;
SELECT snowflake_adopt('users', 'id', 5);
DROP VIEW names;
SET allow_system_table_mods = on;
CREATE TABLE pg_catalog.pg_dist_partition (logicalrelid regclass, partmethod "char", partkey text);
INSERT INTO pg_dist_partition VALUES ('users', 'h', '{VAR :varno 1 :varattno 1}');
SELECT snowflake_adopt('users', 'id', 5);
DROP TABLE pg_catalog.pg_dist_partition;
SQL
	},
	'There is no last id' => sub { return errors_of($node, 'SELECT snowflake_lastval()') },
	'The reader is in an old transaction' => sub {
		my ($section) = page_text('doc/failures.md') =~ /^### The reader is in an old transaction\n(.*?)^###/ms;
		my ($query) = map { $_->[1] } grep { $_->[0] eq 'sql' } fenced_blocks($section);
		my $file = PostgreSQL::Test::Utils::tempdir_short() . '/query.sql';

		append_to_file($file, $query);
		like($node->safe_psql('postgres', <<"SQL"), qr/^reader (\d+)\n\1\|.*snowflake_settled/, 'the page\'s query finds the reader');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT 'reader ' || pg_backend_pid() FROM (SELECT snowflake_settled()) AS poll;
\\! psql -XAtq -d '@{[ $node->connstr('postgres') ]}' -f $file
SQL
		return ();
	},
	'The snapshot is too old' => sub {
		my $psql = "psql -Xq -d '" . $node->connstr('postgres') . "'";

		return errors_of($node, <<"SQL");
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT 1;
\\! $psql -c "SET synchronous_commit = off" -c "DO 'BEGIN FOR n IN 1 .. 36000 LOOP PERFORM snowflake_nextval(1), pg_current_xact_id(); COMMIT; END LOOP; END'"
SELECT snowflake_settled();
SQL
	},
	'Waiting would be in vain' => sub {
		return errors_of($node, <<'SQL');
BEGIN;
SELECT snowflake_wait_settled(snowflake_nextval(1), '1 h');
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT snowflake_wait_settled(9223372036854775807, '1 h');
SQL
	},
	'There is no table for marks' => sub { return errors_of($node, "SELECT snowflake_publish_mark('paris')") },
	'A mark of several servers cannot be told' => sub {
		# as if they had connected and copied
		my $subscribe = 'SET allow_system_table_mods = on; SET client_min_messages = error; CREATE SUBSCRIPTION from_%1$s CONNECTION $$$$ PUBLICATION p WITH (connect = false);'
		  . q{ INSERT INTO pg_subscription_rel SELECT oid, relation, 'r', NULL FROM pg_subscription, unnest('{%2$s}'::regclass[]) AS relation WHERE subname = 'from_%1$s';};
		my $forget = join('', map { "ALTER SUBSCRIPTION from_$_ SET (slot_name = NONE); DROP SUBSCRIPTION from_$_;" } 'paris', 'tokyo');
		my $ask = "SELECT snowflake_least_mark('photos', '{paris}');";
		my $came_by = sub { "CREATE OR REPLACE FUNCTION snowflake_came_by(mark bigint) RETURNS oid LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $_[0]; END';" };

		$node->safe_psql('postgres', 'CREATE DATABASE gathering');
		my @messages = errors_of($node, join("\n",
			'CREATE EXTENSION snowflake; CREATE TABLE snowflake_marks (server text, mark bigint); CREATE TABLE photos (id bigint PRIMARY KEY); CREATE VIEW recent AS SELECT * FROM photos;',
			"SELECT snowflake_least_mark('recent', '{paris}');",
			sprintf($subscribe, 'paris', 'photos'), $ask,
			q{UPDATE pg_subscription_rel SET srrelid = 'snowflake_marks'::regclass;}, $ask,
			q{INSERT INTO pg_subscription_rel SELECT oid, 'photos'::regclass, 'r', NULL FROM pg_subscription;},
			'ALTER TABLE snowflake_marks ADD came_by oid GENERATED ALWAYS AS (snowflake_came_by(mark)) STORED;',
			q{INSERT INTO snowflake_marks VALUES ('paris', 5); SELECT snowflake_least_mark('photos', '{pariss}');},
			$came_by->('1'), q{UPDATE snowflake_marks SET mark = 6;}, $ask, $came_by->('NULL'), q{UPDATE snowflake_marks SET mark = 7;},
			sprintf($subscribe, 'tokyo', 'photos,snowflake_marks'),
			$came_by->(q{(SELECT oid FROM pg_subscription WHERE subname = ''from_tokyo'')}), q{INSERT INTO snowflake_marks VALUES ('tokyo', 8);}, $ask, $forget), dbname => 'gathering');
		$node->safe_psql('postgres', 'DROP DATABASE gathering');
		return @messages;
	},
	'A short text is no id' => sub { return errors_of($node, "SELECT snowflake_from_base62('xyz')") },);

# --- the page says the same

sub without_values
{
	my ($message) = @_;

	$message =~ s/\d{4}-\d\d-\d\dT[\d:.]+Z/TIME/g;
	$message =~ s/\b(\d+ min \d+ s|\d+ h \d+ min|[\d.]+ (?:ms|s|days))\b/DURATION/g;
	$message =~ s/\b[0-9a-f]{16}\b/X/g;
	$message =~ s/\bMore than \d+ transactions/More than N transactions/g;
	$message =~ s/\(id\)=\(\d+\)/(id)=(N)/g;
	$message =~ s/\b\d{19}\b/N/g;
	$message =~ s{"/[^"]*/}{"}g;
	# the server's own advice, which each major words differently
	$message =~ s/^(ERROR:  42883: operator [^\n]*)\n.*/$1/s;
	$message =~ s/\s+$//;
	return $message;
}

my @sections = split(/^### /m, page_text('doc/failures.md'));
my %seen;

shift @sections;
for my $section (@sections)
{
	my ($heading) = $section =~ /(.*)/;
	my $code = delete $happens{$heading};
	my @blocks = fenced_blocks($section);
	my @shown;

	# a block of text below SQL is its output
	for my $i (0 .. $#blocks)
	{
		push @shown, $blocks[$i][1] if $blocks[$i][0] eq 'text' && ($i == 0 || $blocks[ $i - 1 ][0] ne 'sql');
	}
	next unless $code || @shown;
	my @said = $code ? $code->() : ();
	is(scalar(@said), scalar(@shown), "$heading: so many messages");
	for my $i (0 .. $#shown)
	{
		my $said = $said[$i] // '';

		for my $part ('DETAIL', 'HINT')
		{
			$said =~ s/^$part:.*\n?//mg if $shown[$i] !~ /^$part:/m;
		}
		is(without_values($said), without_values($shown[$i]), "$heading: what the server says");
	}
	page_runs($node, $heading, $section);
}
is_deeply([ sort keys %happens ], [], 'the page has a heading for each');

done_testing();
