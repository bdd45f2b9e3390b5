# Marks that travel to a hot standby: while the primary is written to in many ways,
# a reader of the standby that goes by snowflake_marks reads each row once, also
# when the standby is promoted in between and its clock is behind.  One that
# remembers its last id alone misses rows.  And the calls that publish and wait:
# what they lock, and what they do when they are in each other's way.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use MarksTest;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $TRANSACTIONS = $ENV{SNOWFLAKE_TRANSACTIONS} // 300;
my $MARK = q{SELECT mark FROM snowflake_marks WHERE server = 'paris'};

my $primary = new_server('marks_primary', clock => 1, init => { allows_streaming => 1 }, conf => <<'CONF');
snowflake.shards = '0-3'
snowflake.clock_tolerance = 60s
max_prepared_transactions = 20
CONF

create_events($primary);
$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('marks_standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
start_with_clock($standby);
set_clock($primary, 3);

# --- On the primary, under load

my %reader = (
	'by the mark' => begin_reading($standby, $MARK),
	'by the last id alone' => begin_reading($standby, ''));
my $publisher = begin_publishing($primary, 'paris', errors => '/dev/null');
my @writers = begin_events($primary, 100 * $TRANSACTIONS, 'of the primary', errors => '/dev/null');

$primary->safe_psql('postgres', q{BEGIN; INSERT INTO events (how) VALUES ('over the promotion'); PREPARE TRANSACTION 'over'});
ok(wait_until($standby, 'SELECT count(*) > 2000 FROM events'), 'rows come to the standby');
fails_with($standby, q{SELECT snowflake_publish_mark('paris')}, '25006',
	qr/cannot tell which ids are settled during recovery\nHINT:  Call snowflake_settled\(\) on the primary server/,
	'a standby publishes none');

# What is prepared holds the mark: before that, readers get on.
my $held = () = read_so_far($reader{'by the mark'});
$primary->safe_psql('postgres', q{COMMIT PREPARED 'over'});
ok(wait_for(sub { $held + 1000 < (() = read_so_far($reader{'by the mark'})) }), 'and are read there');
my $over = $primary->safe_psql('postgres', q{BEGIN; INSERT INTO events (how) VALUES ('over the promotion') RETURNING id; PREPARE TRANSACTION 'over'});
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));

# --- The standby is promoted, and goes on

$primary->stop('immediate');
finish_session($_) for $publisher, @writers;
my $at_promotion = () = read_so_far($reader{'by the mark'});
$standby->promote;
# what was being prepared when the primary ended
for my $gid (split(/\n/, $standby->safe_psql('postgres', q{SELECT gid FROM pg_prepared_xacts WHERE gid <> 'over'})))
{
	$standby->safe_psql('postgres', "ROLLBACK PREPARED '$gid'");
}
$publisher = begin_publishing($standby, 'paris');
@writers = begin_events($standby, $TRANSACTIONS, 'of the new primary');
ok(wait_until($standby, q{SELECT count(*) > 500 FROM events WHERE id > (SELECT id FROM events WHERE how = 'over the promotion')}),
	'the new primary is written to');
ok(wait_for(sub { ((read_so_far($reader{'by the last id alone'}))[-1] // 0) > $over }), 'and read, also above what is not committed');
$standby->safe_psql('postgres', q{COMMIT PREPARED 'over'});
end_events($standby, @writers);
finish_session($publisher) or die $publisher->{err};
for my $name (sort keys %reader)
{
	ok(finish_session($reader{$name}), "$name: the reader comes to its end") or diag($reader{$name}{err});
}
all_are_read($standby, 'by the mark', [ read_so_far($reader{'by the mark'}) ]);
cmp_ok(scalar(() = read_so_far($reader{'by the mark'})), '>', $at_promotion, "$at_promotion of them before the promotion, the rest after it");
my ($missed) = missed_by($standby, [ read_so_far($reader{'by the last id alone'}) ]);
cmp_ok($missed, '>', 0, "by the last id alone, $missed rows are missed");

# --- A server that is idle does not stop its mark

my $before = $standby->safe_psql('postgres', q{SELECT snowflake_publish_mark('paris')});
ok( wait_until($standby, "SELECT snowflake_publish_mark('paris')::timestamptz > $before\::bigint::snowflake::timestamptz + interval '5 s'"),
	'where nobody mints, the published mark goes on');

# --- Calls that are in each other's way

my $open = start_session($standby, q{BEGIN; SELECT snowflake_publish_mark('paris') IS NULL; SELECT pg_sleep(600)}, errors => '/dev/null');
ok(wait_until($standby, q{SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE '%pg\_sleep(600)%' AND wait_event = 'PgSleep' AND pid <> pg_backend_pid()}),
	'a transaction has published, and stays open');
fails_with($standby, q{SET statement_timeout = '1min'; SELECT snowflake_publish_mark('paris')}, '55P03', qr/canceling statement due to lock timeout/,
	'another one gives up after a moment');
is($standby->safe_psql('postgres', q{SELECT snowflake_publish_mark('tokyo') IS NOT NULL}), 't', 'another name is free');
$standby->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg\_sleep(600)%' AND pid <> pg_backend_pid()});
finish_session($open);

my $many = <<'SQL';
DO $$
DECLARE
    last bigint := 0;
    mark bigint;
BEGIN
    FOR n IN 1 .. 300 LOOP
        IF n % 5 = 0 THEN
            PERFORM snowflake_nextval();
        END IF;
        -- the one that has the row may be stopped for longer than the others wait
        BEGIN
            mark := snowflake_publish_mark('paris');
        EXCEPTION WHEN lock_not_available THEN
            mark := last;
        END;
        COMMIT;
        ASSERT mark >= last, 'the mark went back';
        last := mark;
    END LOOP;
END $$
SQL
in_parallel($standby, 6, $many);
pass('six at once publish no mark that goes back');

# --- Waiting for a mark holds nothing

my $waiter = start_session($standby, 'BEGIN; SELECT snowflake_wait_settled(9223372036854775807, $$1 h$$)', errors => '/dev/null');
my $which = q{backend_type = 'client backend' AND query LIKE '%snowflake\_wait\_settled%' AND pid <> pg_backend_pid()};
ok(wait_until($standby, "SELECT count(*) = 1 FROM pg_stat_activity WHERE $which AND wait_event_type = 'Extension'"), 'a session waits');
is($standby->safe_psql('postgres', "SELECT backend_xid IS NULL, (SELECT string_agg(locktype, ' ') FROM pg_locks AS l WHERE l.pid = a.pid) FROM pg_stat_activity AS a WHERE $which"),
	't|virtualxid', 'it has no xid, and no lock but that of being there');
$standby->safe_psql('postgres', 'INSERT INTO events (how) VALUES ($$meanwhile$$); VACUUM events; TRUNCATE events; ALTER TABLE events ADD more int');
pass('and is in nobody\'s way');
$standby->safe_psql('postgres', "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE $which");
ok(!finish_session($waiter), 'it can be cancelled');

done_testing();
