# MarksTest.pm -- what the tests of the mark, and of marks that travel, share
#
# Writers that commit late, roll back, go back to savepoints and prepare; a job
# that publishes marks; readers that remember their last id; and a comparison of
# what they read with what is there.

package MarksTest;

use strict;
use warnings;

use Exporter 'import';

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

our @EXPORT = qw(
  $FIND_ENDS create_events begin_events end_events begin_publishing
  begin_reading read_so_far all_are_read missed_by
  begin_watching end_watching
);

# Seconds between two marks of a job, and between two pages of a reader
my $PAUSE = 0.05;

# Each time they look for the rows "end".
our $FIND_ENDS = q{CREATE INDEX ON events (id) WHERE how = 'end'};

# The tables, and the procedures of a writer.  "how" says in which way a row was written.
# Where shards change hands, a writer must not name one: "names_none".
sub create_events
{
	my ($node, %options) = @_;
	my $shard = $options{names_none} ? '' : 'snowflake_shard(snowflake_nextval())';
	my $rows = PostgreSQL::Test::Utils::tempdir() . '/rows';

	append_to_file($rows, "copied\n" x 50);
	$node->safe_psql('postgres', <<"SQL");
CREATE TABLE events (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), how text NOT NULL);
$FIND_ENDS;
CREATE TABLE snowflake_marks (server text PRIMARY KEY, mark bigint NOT NULL, published_at timestamptz NOT NULL);

-- A transaction, in one of the ways in which rows are written
CREATE PROCEDURE write(way integer, pause float8) LANGUAGE plpgsql AS \$\$
BEGIN
    CASE way
    WHEN 0 THEN
        INSERT INTO events (how) VALUES ('one');
    WHEN 1 THEN
        INSERT INTO events (how) SELECT 'many' FROM generate_series(1, 100);
    WHEN 2 THEN
        INSERT INTO events VALUES (snowflake_nextval($shard), 'named shard');
    WHEN 3 THEN
        WITH first AS (INSERT INTO events (how) SELECT 'cte' FROM generate_series(1, 5) RETURNING id)
        INSERT INTO events (how) SELECT 'after ' || id FROM first;
    WHEN 4 THEN
        COPY events (how) FROM '$rows';
    WHEN 5 THEN
        BEGIN
            INSERT INTO events (how) VALUES ('undone');
            RAISE division_by_zero;
        EXCEPTION WHEN division_by_zero THEN
            INSERT INTO events (how) VALUES ('after an exception');
        END;
    WHEN 6 THEN
        PERFORM snowflake_nextval();      -- no row at all, or one much later
        IF random() < 0.5 THEN
            PERFORM pg_sleep(random() * 0.01);
            INSERT INTO events (how) VALUES ('minted before');
        END IF;
    ELSE
        BEGIN
            INSERT INTO events (how) SELECT 'in a block' FROM generate_series(1, 3);
        EXCEPTION WHEN division_by_zero THEN
        END;
        INSERT INTO events (how) VALUES ('after a block');
    END CASE;
    IF random() < 0.3 THEN      -- a late commit
        PERFORM pg_sleep(random() * random() * (0.02 + pause));
    END IF;
END \$\$;

-- All transactions of a writer, with pauses of so many seconds at most
CREATE PROCEDURE write_all(transactions integer, pause float8) LANGUAGE plpgsql AS \$\$
BEGIN
    FOR n IN 1 .. transactions LOOP
        CALL write(n % 8, pause);
        IF random() < 0.1 THEN ROLLBACK; ELSE COMMIT; END IF;
        IF pause > 0 THEN
            PERFORM pg_sleep(random() * pause);
        END IF;
    END LOOP;
END \$\$;
SQL
	return;
}

# What a writer does that has savepoints, and transactions that are prepared.  Their
# names begin with "name".
sub prepares
{
	my ($transactions, $name, $pause) = @_;
	my $script = '';

	for my $n (1 .. $transactions)
	{
		$script .= <<"SQL";
BEGIN;
INSERT INTO events (how) VALUES ('before a savepoint');
SAVEPOINT s; INSERT INTO events (how) VALUES ('undone'); ROLLBACK TO s;
SAVEPOINT t; INSERT INTO events (how) VALUES ('in a savepoint'); RELEASE t;
COMMIT;
BEGIN;
INSERT INTO events (how) SELECT 'prepared' FROM generate_series(1, 3);
SAVEPOINT s; INSERT INTO events (how) VALUES ('undone'); ROLLBACK TO s;
PREPARE TRANSACTION '$name $n';
INSERT INTO events (how) VALUES ('meanwhile');
SELECT pg_sleep(random() * $pause) \\g /dev/null
SQL
		$script .= ($n % 4 ? 'COMMIT' : 'ROLLBACK') . " PREPARED '$name $n';\n";
	}
	return $script;
}

# Start writers of so many transactions each: "writers" that call the procedure, 3 if it
# is not said, and one that prepares.  They leave the processor to others in "pause".
sub begin_events
{
	my ($node, $transactions, $name, %options) = @_;
	my $pause = delete $options{pause} // 0.03;
	my $writers = delete $options{writers} // 3;

	return map { start_session($node, $_, %options) } ("CALL write_all($transactions, $pause)") x $writers,
	  prepares($pause > 0 ? $transactions / 4 : $transactions, $name, $pause);
}

# Wait for the writers, and write the row that tells readers that they are done.
sub end_events
{
	my ($node, @sessions) = @_;

	finish_session($_) or die $_->{err} for @sessions;
	$node->safe_psql('postgres', q{INSERT INTO events (how) VALUES ('end')});
	return;
}

# A job that publishes the mark until it has passed the row "end", or so many of them.
sub begin_publishing
{
	my ($node, $server, %options) = @_;
	my $ends = delete $options{ends} // 1;

	return start_session($node, <<"SQL", %options);
DO \$\$
BEGIN
    LOOP
        EXIT WHEN snowflake_publish_mark('$server') > (SELECT max(id) FROM events WHERE how = 'end' HAVING count(*) >= $ends);
        COMMIT;
        PERFORM pg_sleep($PAUSE);
    END LOOP;
END \$\$
SQL
}

# Start a reader that begins above "last", and reads what is below "mark", until it has
# read as many rows "end" as there are servers.  One statement gives both the page
# and whether it was the last.  With an empty mark, it reads what it sees.
sub begin_reading
{
	my ($node, $mark, %options) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir() . '/read';
	my $below = $mark eq '' ? '' : "AND id < ($mark)";
	my $servers = $options{servers} // 1;
	my $last = $options{last} // 0;
	my $poll = <<"SQL";
SELECT coalesce(string_agg(id::text, E'\\n' ORDER BY id), '') AS ids, coalesce(max(id), :last) AS last,
       count(*) = 0 AND (SELECT count(*) >= $servers AND max(id) <= :last FROM events WHERE how = 'end') AS is_done
  FROM (SELECT id FROM events WHERE id > :last $below ORDER BY id LIMIT 1000) AS page \\gset
\\echo :ids
\\if :is_done
\\q
\\endif
SELECT pg_sleep($PAUSE) \\g /dev/null
SQL

	# with what the last poll of a reader before it has printed
	my $session = start_session($node, "\\set last $last\n" . $poll x 40_000 . "SELECT 'has no end'::int;\n",
		%options, to => $file);
	@$session{qw(file offset ids)} = ($file, 0, []);
	return $session;
}

# The ids that readers have read: what each has printed, but for a line that is not whole.
sub read_so_far
{
	return map { note_new_ids($_); @{ $_->{ids} } } @_;
}

# Those that it has printed since they were noted last.
sub note_new_ids
{
	my ($session) = @_;

	open(my $file, '<', $session->{file}) or return;
	seek($file, $session->{offset}, 0);
	while (my $line = <$file>)
	{
		last if $line !~ /\n$/;
		$session->{offset} += length($line);
		push @{ $session->{ids} }, $1 if $line =~ /^(\d+)$/;
	}
	close($file);
	return;
}

# Start sessions that ask for the mark until there is a table "unwatched".  A mark that
# another session, or the same one, was given before the statement began is in the
# sequence "last_mark"; an exception if the new one is less.
sub begin_watching
{
	my ($node, $sessions, %options) = @_;

	$node->safe_psql($options{dbname} // 'postgres', <<'SQL');
DROP TABLE IF EXISTS unwatched;
CREATE SEQUENCE IF NOT EXISTS last_mark MINVALUE -9223372036854775808 START -9223372036854775808;
CREATE OR REPLACE PROCEDURE watch_mark() LANGUAGE plpgsql AS $$
DECLARE
    marks bigint := 0;
    before bigint;
    mark bigint;
BEGIN
    WHILE to_regclass('unwatched') IS NULL OR marks = 0 LOOP
        before := last_value FROM last_mark;
        mark := snowflake_settled();
        IF mark < before THEN
            RAISE EXCEPTION 'the mark went back from % to %, after % marks', before, mark, marks;
        END IF;
        marks := marks + 1;
        PERFORM pg_advisory_lock(7321);
        PERFORM setval('last_mark', mark) FROM last_mark WHERE last_value < mark;
        PERFORM pg_advisory_unlock(7321);
        COMMIT;
    END LOOP;
    RAISE NOTICE '% marks', marks;
END $$;
SQL
	return map { start_session($node, 'CALL watch_mark()', %options) } 1 .. $sessions;
}

sub end_watching
{
	my ($node, $name, @sessions) = @_;
	my @wrong;
	my $marks = 0;

	$node->safe_psql('postgres', 'CREATE TABLE unwatched ()');
	for my $session (@sessions)
	{
		push @wrong, $session->{err} if !finish_session($session);
		$marks += $1 if $session->{err} =~ /NOTICE:  (\d+) marks/;
	}
	is("@wrong", '', "$name: of $marks marks, none goes back");
	return;
}

# How many rows of a table were not read, and how many were read that are not there.
sub missed_by
{
	my ($node, $ids, %options) = @_;
	my %read = map { $_ => 1 } @$ids;
	my @there = split(/\n/, $node->safe_psql($options{dbname} // 'postgres', 'SELECT id FROM events'));
	my $missed = grep { !$read{$_} } @there;

	return ($missed, keys(%read) - (@there - $missed));
}

# Each row of the table was read, once, in order.
sub all_are_read
{
	my ($node, $name, $ids, %options) = @_;
	my $rows = $node->safe_psql($options{dbname} // 'postgres', 'SELECT count(*) FROM events');
	my ($missed, $alien) = missed_by($node, $ids, %options);
	my $in_order = grep { $ids->[ $_ - 1 ] < $ids->[$_] } 1 .. $#$ids;
	my %distinct = map { $_ => 1 } @$ids;

	is($missed, 0, "$name: of $rows rows, none is missed");
	is(@$ids - keys(%distinct), 0, "$name: none is read twice");
	is($alien, 0, "$name: nor one that is not there");
	is($in_order, @$ids - 1, "$name: in order");
	return;
}

1;
