# Who looks at others' tables waits neither for their locks nor for their servers: each
# lock for a short time, all together for a limited one, and no longer than the
# statement may; a foreign table is not asked.  What was not looked at is named.
# And nobody gets a table in place of another one while he looks.
#
# Majors: ends

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use IO::Socket::INET;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;
use Time::HiRes qw(time);

my $tables = 60;
my $node = new_server('node', conf => "snowflake.shards = '5'\nmax_locks_per_transaction = 200\n");
my $not_seen = q{SELECT finding FROM snowflake_check() WHERE area = 'visibility'};

# What a check could not see, and how long it took.
sub not_seen
{
	my $began = time;
	my $found = $node->safe_psql('postgres', $not_seen);

	return ($found, time - $began);
}

# A session that holds a lock on tables until it is ended.
sub lock_tables
{
	my ($list, $count) = @_;
	my $session = start_session($node, "BEGIN; LOCK TABLE $list; SELECT pg_sleep(120)");

	wait_until($node, "SELECT count(*) >= $count FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND relation >= 16384 AND granted");
	return $session;
}

sub unlock
{
	my ($session) = @_;

	$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query ~ '^SELECT pg_sleep'});
	finish_session($session);
	wait_until($node, q{SELECT NOT EXISTS (SELECT FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND relation >= 16384)});
	return;
}

# --- Locks

$node->safe_psql('postgres', <<SQL);
DO \$\$ BEGIN
    FOR n IN 1..$tables LOOP
        EXECUTE format('CREATE TABLE t_%s (id snowflake PRIMARY KEY DEFAULT snowflake_nextval())', n);
    END LOOP;
END \$\$;
CREATE TABLE marks (server text PRIMARY KEY, mark bigint);
INSERT INTO marks VALUES ('paris', 5);
SQL
is($node->safe_psql('postgres', $not_seen), '', 'nothing is locked');

my $locker = lock_tables('t_1, marks', 2);
my ($found, $one) = not_seen();
like($found, qr/^not seen: the greatest id of 1 tables: public\.t_1 \(locked\)$/, 'one table is locked');
for my $statement (q{SELECT snowflake_audit('t_1', 'id')}, q{SELECT snowflake_least_mark('t_2', '{paris}', 'marks')})
{
	fails_with($node, $statement, '55P03', qr/could not obtain lock on table public\.(t_1|marks)\n.*waited for 2\d\d ms.*pg_locks/s, "$statement does not wait");
}
fails_with($node, "SELECT snowflake_$_('t_1', 'id')", '55P03', qr/lock timeout/, "nor does a dry run of $_") for qw(adopt revert);
fails_with($node, q{SET statement_timeout = '50ms'; SELECT newest FROM snowflake_newest('t_1', 'id', true, 5000)}, '57014', qr/statement timeout/, 'nor longer than the statement may');
unlock($locker);

$locker = lock_tables(join(', ', map { "t_$_" } 1 .. $tables), $tables);
($found, my $all) = not_seen();
cmp_ok($all, '<', $one * $tables * 0.7, "$tables locked tables take less than $tables times one") or diag("$one s and $all s");
like($found, qr/^not seen: the greatest id of $tables tables: public\.t_1 \(locked\), .*, \.\.\.$/, 'and are counted');
unlock($locker);
is($node->safe_psql('postgres', $not_seen), '', 'nothing is locked any more');
is($node->safe_psql('postgres', q{BEGIN; SELECT count(*) FROM snowflake_check(); SELECT count(*) FROM pg_locks WHERE relation::regclass::text ~ '^t_'; COMMIT}) =~ s/.*\n//r,
	'0', 'it leaves no locks behind');

# --- More partitions than are looked at

$node->safe_psql('postgres', <<'SQL');
CREATE TABLE events (id snowflake PRIMARY KEY DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
DO $$ BEGIN
    FOR n IN 1..1000 LOOP
        EXECUTE format('CREATE TABLE events_%s PARTITION OF events FOR VALUES FROM (%s) TO (%s)', n, n, n + 1);
    END LOOP;
END $$;
INSERT INTO events SELECT generate_series(1, 1000);
SQL
is($node->safe_psql('postgres', q{SELECT newest > 990, unseen FROM snowflake_newest('events', 'id', false, 0)}), 't|{"public.events (more than 1000 parts)"}', 'of a table with many partitions, most');
is($node->safe_psql('postgres', q{SELECT newest, unseen FROM snowflake_newest('events', 'id', true, 0)}), '1000|', 'or all');
$node->safe_psql('postgres', 'DROP TABLE events');

# --- A server that accepts and stays silent

my $silent = IO::Socket::INET->new(Listen => 5, LocalAddr => '127.0.0.1') or die "could not listen: $!";
SKIP:
{
	skip 'no postgres_fdw', 3 if $node->safe_psql('postgres', q{SELECT count(*) FROM pg_available_extensions WHERE name = 'postgres_fdw'}) eq '0';
	$node->safe_psql('postgres', <<SQL);
CREATE EXTENSION postgres_fdw;
CREATE SERVER silent FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '${\$silent->sockport}');
CREATE USER MAPPING FOR PUBLIC SERVER silent;
CREATE TABLE clicks (id snowflake DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
CREATE TABLE clicks_here PARTITION OF clicks FOR VALUES FROM (0) TO (MAXVALUE);
CREATE INDEX ON clicks_here (id);
CREATE FOREIGN TABLE clicks_far PARTITION OF clicks DEFAULT SERVER silent;
INSERT INTO clicks DEFAULT VALUES;
SQL
	# the old way would wait for ever, so that only a signal of ours ends it
	my $session = start_session($node, $not_seen);
	ok(finish_session($session), 'snowflake_check() ends');
	like($session->{out}, qr/^not seen: the greatest id of 1 tables: public\.clicks_far \(foreign table\)$/m, 'and names the table');
	my ($status, $out, $err) = $node->psql('postgres', q{SELECT ids FROM snowflake_audit('clicks', 'id') WHERE finding = 'all ids'});
	is("$status $out", '0 1', 'so does an audit');
	like($err, qr/WARNING:  1 parts of "clicks" were not audited\nDETAIL:  They are public\.clicks_far \(foreign table\)\./, 'of the rest');
	$node->safe_psql('postgres', 'DROP TABLE clicks');
}

# --- A table that is made, filled and dropped, and views in its place

my $changes = start_session($node, <<'SQL');
CREATE ROLE tenant; CREATE SCHEMA tenant AUTHORIZATION tenant; SET ROLE tenant;
CREATE FUNCTION tenant.lure(n bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS
    $$ BEGIN IF current_user <> 'tenant' THEN RAISE WARNING 'lured %', current_user; END IF; RETURN n; END $$;
DO $$
BEGIN
    WHILE to_regclass('public.t_2') IS NOT NULL LOOP
        CREATE TABLE tenant.t (id bigint PRIMARY KEY DEFAULT public.snowflake_nextval(), n bigint);
        CREATE INDEX ON tenant.t (n) WHERE tenant.lure(1) > 0;
        INSERT INTO tenant.t (n) VALUES (1);
        COMMIT;
        ALTER TABLE tenant.t RENAME TO u;
        CREATE VIEW tenant.t AS SELECT tenant.lure(id) AS id FROM tenant.u;
        COMMIT;
        DROP VIEW tenant.t;
        DROP TABLE tenant.u;
        COMMIT;
    END LOOP;
END $$;
SQL
my $looks = start_session($node, <<'SQL');
DO $$
DECLARE problem text;
BEGIN
    FOR n IN 1..50 LOOP
        PERFORM * FROM snowflake_check();
        BEGIN
            PERFORM snowflake_audit('tenant.t', 'id');
        EXCEPTION WHEN OTHERS THEN
            problem := sqlerrm;
        END;
        SELECT finding INTO problem FROM snowflake_check() WHERE finding ~ 'could not be looked into';
        IF problem IS NOT NULL THEN
            RAISE WARNING '%', problem;
        END IF;
        COMMIT;
    END LOOP;
END $$
SQL
ok(finish_session($looks), 'looked while tables and views were changed');
unlike($looks->{err}, qr/lured/, 'no code of theirs ran');
unlike($looks->{err}, qr/could not be looked into/, 'and nothing could not be looked into') or diag($looks->{err});
$node->safe_psql('postgres', 'DROP TABLE t_2');
ok(finish_session($changes), 'they were changed') or diag($changes->{err});

$node->stop;
done_testing();
