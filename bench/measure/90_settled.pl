# What a poller of snowflake_settled() costs, and costs writers: 8 clients insert a
# row a transaction, alone and beside a poller that reads what is new, without a
# pause or ten times a second.

use strict;
use warnings FATAL => 'all';
use Bench;

my %pause = ('no poller' => undef, 'ten polls a second' => 0.1, 'polls without a pause' => 0);

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

measurement(
	'settled',
	rounds => by_mode(1, 5, 5),
	setup => sub {
		query([ 'CREATE TABLE written (id snowflake PRIMARY KEY DEFAULT snowflake_nextval())', 'CREATE SEQUENCE stop', $poll ]);
	},
	turns => [ map { [$_] } sort keys %pause ],
	take => sub {
		my ($subject) = @_;
		my $poller;

		query([ 'TRUNCATE written', q(SELECT setval('stop', 1, false)) ]);
		if (defined $pause{$subject})
		{
			open($poller, '-|', 'psql', '-XAtq', '-c', "CALL poll($pause{$subject})") or die "could not start psql: $!\n";
		}
		my $rate = pgbench('INSERT INTO written DEFAULT VALUES', 8, by_mode(1, 1, 4), synchronous_commit => 'off');
		record($subject, 8, $rate, 'rows/s');
		query(q(SELECT nextval('stop')));
		record($subject, 8, readline($poller) =~ s/.*\|//sr, 'us') if $poller;
	});

1;
