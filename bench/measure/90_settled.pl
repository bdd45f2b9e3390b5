# What a poller of snowflake_settled() costs, and costs writers: 8 clients insert a
# row a transaction, alone and beside one session: a poller that reads what is new,
# without a pause or ten times a second; one that reads the same without a mark; one that
# asks for the mark of an old snapshot again and again; and one that computes.  The one
# without a mark and the one that computes take a processor as the others do, and nothing
# of ours.

use strict;
use warnings FATAL => 'all';
use Bench;

my %beside = (
	'no poller' => undef,
	'ten polls a second' => 'CALL poll(0.1)',
	'polls without a pause' => 'CALL poll(0)',
	'reads without a mark' => 'CALL read(0)',
	'an old snapshot' => 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1; CALL repeat_mark()',
	'a session that computes' => 'CALL compute()');

my $poll = <<'SQL';
CREATE PROCEDURE poll(pause float8, INOUT polls bigint DEFAULT 0, INOUT us float8 DEFAULT 0) LANGUAGE plpgsql AS $$
DECLARE
	last bigint := 0;
	page record;
	began timestamptz;
BEGIN
	WHILE (SELECT NOT is_called FROM stop) LOOP
		began := clock_timestamp();
		SELECT count(*) AS rows, max(id) AS last INTO page
		  FROM (SELECT id FROM written WHERE id > last AND id < snowflake_settled() ORDER BY id LIMIT 1000) AS new;
		COMMIT;
		us := us + extract(epoch FROM clock_timestamp() - began) * 1e6;
		polls := polls + 1;
		last := coalesce(page.last, last);
		IF page.rows < 1000 THEN
			PERFORM pg_sleep(pause);
		END IF;
	END LOOP;
	us := us / greatest(polls, 1);
END $$
SQL
my $read = $poll =~ s/poll\(/read(/r =~ s/ AND id < snowflake_settled\(\)//r;
my $repeat_mark = <<'SQL';
CREATE PROCEDURE repeat_mark(INOUT polls bigint DEFAULT 0, INOUT us float8 DEFAULT 0) LANGUAGE plpgsql AS $$
DECLARE
	began timestamptz := clock_timestamp();
BEGIN
	WHILE (SELECT NOT is_called FROM stop) LOOP
		BEGIN
			PERFORM snowflake_settled();
		EXCEPTION WHEN object_not_in_prerequisite_state THEN    -- it is too old
		END;
		polls := polls + 1;
	END LOOP;
	us := extract(epoch FROM clock_timestamp() - began) * 1e6 / greatest(polls, 1);
END $$
SQL
my $compute = <<'SQL';
CREATE PROCEDURE compute() LANGUAGE plpgsql AS $$
BEGIN
	WHILE (SELECT NOT is_called FROM stop) LOOP
		PERFORM sum(n) FROM generate_series(1, 100) AS n;
	END LOOP;
END $$
SQL

measurement(
	'settled',
	rounds => by_mode(1, 5, 5),
	setup => sub {
		query([ 'CREATE TABLE written (id snowflake PRIMARY KEY DEFAULT snowflake_nextval())', 'CREATE SEQUENCE stop', $poll, $read, $repeat_mark, $compute ]);
	},
	turns => [ map { [$_] } sort keys %beside ],
	take => sub {
		my ($subject) = @_;
		my $session;

		query([ 'TRUNCATE written', q(SELECT setval('stop', 1, false)) ]);
		if ($beside{$subject})
		{
			open($session, '-|', 'psql', '-XAtq', map { ('-c', $_) } split(/; /, $beside{$subject})) or die "could not start psql: $!\n";
		}
		my $rate = pgbench('INSERT INTO written DEFAULT VALUES', 8, by_mode(1, 1, 4), synchronous_commit => 'off');
		record($subject, 8, $rate, 'rows/s');
		query(q(SELECT nextval('stop')));
		my $said = $session ? join('', readline($session)) : '';
		record($subject, 8, $1, 'us') if $said =~ /\|([0-9.e+-]+)\s*\z/;
	});

1;
