# doc/migration.md, rows with numbers and rows with UUIDs: tables of three levels, one
# of which refers to itself, get keys with the times of their rows.  Both sections run
# as they are.  The second one runs while others write by UUID, and later by id: no row is
# lost, no write fails, and no reference changes.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

# --- in one transaction

my $serial = new_server('serial', conf => "timezone = 'UTC'");
my ($by_number, $by_uuid) = page_text('doc/migration.md') =~ /^(## Rows with numbers\n.*?)(^## Rows with UUIDs\n.*)/ms;
page_runs($serial, 'rows with numbers', $by_number);
is($serial->safe_psql('postgres', <<'SQL'), '301|10000|20000|t', 'all is there, and the tables of ids have the old numbers');
SELECT (SELECT count(*) FROM accounts), (SELECT count(*) FROM orders), (SELECT count(*) FROM lines),
       (SELECT bool_and(name = 'account ' || old) FROM accounts JOIN accounts_ids ON new = id)
SQL
is($serial->safe_psql('postgres', <<'SQL'), 'snowflake|t', 'with the type of an id, and all keys');
SELECT (SELECT string_agg(DISTINCT format_type(atttypid, NULL), ',') FROM pg_attribute
         WHERE attrelid IN ('accounts'::regclass, 'orders'::regclass, 'lines'::regclass) AND attname IN ('id', 'invited_by', 'account', 'order_id')),
       (SELECT count(*) = 3 AND bool_and(convalidated) FROM pg_constraint WHERE contype = 'f')
SQL
$serial->stop;

# --- while others write

my $node = new_server('uuid', conf => "timezone = 'UTC'\nfsync = off");
my ($example, $add, $fill_to_refer, $swap_and_on) =
  $by_uuid =~ /^(.*?)(?=^### 1\. Add)(.*?)(?=^### 2\. Fill)(.*?)(?=^### 4\. Swap)(.*)/ms;
my ($swap, $check, $back, $remove) =
  $swap_and_on =~ /^(.*?)(?=^### 5\.)(.*?)(?=^### Back)(.*?)(?=^### 6\.)(.*)/ms;

page_runs($node, 'the example', $example);

# Run a part of the page.  A transaction that meets a lock is run again, as the
# page says.
sub runs_on
{
	my ($name, $part) = @_;
	my @blocks = $part =~ /(^```(?:sql|conf)\n.*?^```\n(?:^```text\n.*?^```\n)?)/msg;

	for my $block (@blocks)
	{
		my ($sql) = $block =~ /\A```sql\n(BEGIN;\nSET LOCAL lock_timeout.*?)^```/ms;
		my ($tries, $err) = (0, '');

		if (!defined $sql)
		{
			page_runs($node, $name, $block);
			next;
		}
		do
		{
			(undef, undef, $err) = $node->psql('postgres', $sql, on_error_stop => 1);
			$tries++;
		} while ($tries < 180 && $err =~ /canceling statement due to lock timeout/);
		unlike($err, qr/ERROR/, "$name runs: " . ($sql =~ /^((?:ALTER|CREATE|DROP).*)/m)[0]);
		note("after $tries times");
	}
	return;
}

# Write until told to stop.  Each turn notes what it did, by UUID; a turn that
# fails ends the session.
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE gate (open boolean);
CREATE TABLE written (kind text, uuid uuid, parent uuid);
CREATE PROCEDURE write_on(by_id boolean) LANGUAGE plpgsql AS $$
DECLARE
    a uuid;
    o uuid;
    parent uuid;
    taker uuid;
BEGIN
    WHILE NOT EXISTS (SELECT FROM gate) LOOP
        parent := (SELECT accounts.uuid FROM accounts WHERE accounts.uuid >= gen_random_uuid() ORDER BY accounts.uuid LIMIT 1);
        IF parent IS NOT NULL THEN
            a := gen_random_uuid();
            o := gen_random_uuid();
            IF by_id THEN
                INSERT INTO accounts (uuid, invited_by_id, name) SELECT a, id, 'written' FROM accounts WHERE uuid = parent;
                INSERT INTO orders (uuid, account_id) SELECT o, id FROM accounts WHERE uuid = a;
                INSERT INTO lines (order_id, n) SELECT id, 1 FROM orders WHERE uuid = o;
            ELSE
                INSERT INTO accounts (uuid, invited_by, name) VALUES (a, parent, 'written');
                INSERT INTO orders (uuid, account) VALUES (o, a);
                INSERT INTO lines ("order", n) VALUES (o, 1);
            END IF;
            -- somebody else's order goes to this account, and the account is renamed
            IF by_id THEN
                UPDATE orders SET account_id = (SELECT id FROM accounts WHERE uuid = a)
                 WHERE uuid = (SELECT uuid FROM orders WHERE uuid > gen_random_uuid() ORDER BY uuid LIMIT 1) AND created_at < '2026-01-01'
                RETURNING account INTO taker;
            ELSE
                UPDATE orders SET account = a
                 WHERE uuid = (SELECT uuid FROM orders WHERE uuid > gen_random_uuid() ORDER BY uuid LIMIT 1) AND created_at < '2026-01-01'
                RETURNING account INTO taker;
            END IF;
            IF taker <> a THEN
                RAISE EXCEPTION 'the order did not go to the account';
            END IF;
            UPDATE accounts SET name = 'written again' WHERE uuid = parent AND name = 'written';
            INSERT INTO written VALUES ('account', a, parent), ('order', o, a);
        END IF;
        COMMIT;
        PERFORM pg_sleep(0.002);
    END LOOP;
END $$;
SQL

sub start_writers
{
	my ($by_id) = @_;
	my $before = count_of($node, 'written');
	my @writers = map { start_session($node, "CALL write_on($by_id); -- $_") } 1 .. 2;

	ok(wait_until($node, "SELECT count(*) > $before + 20 FROM written"), 'the writers write');
	return @writers;
}

sub stop_writers
{
	my ($when, @writers) = @_;
	my $before = count_of($node, 'written');

	ok(wait_until($node, "SELECT count(*) > $before + 20 FROM written"), "$when: the writers still write");
	$node->safe_psql('postgres', 'INSERT INTO gate VALUES (true)');
	for my $writer (@writers)
	{
		ok(finish_session($writer), "$when: no write failed") or diag($writer->{err});
	}
	$node->safe_psql('postgres', 'TRUNCATE gate');
	return;
}

# What was written is there, and both forms of each reference agree.
sub is_sound
{
	my ($when) = @_;

	is($node->safe_psql('postgres', <<'SQL'), '0|0|0|0', "$when: nothing is lost, and nothing refers elsewhere");
SELECT (SELECT count(*) FROM written AS w LEFT JOIN accounts AS a USING (uuid)
         WHERE kind = 'account' AND a.invited_by IS DISTINCT FROM w.parent),
       (SELECT count(*) FROM written AS w LEFT JOIN orders AS o USING (uuid)
         WHERE kind = 'order' AND o.account IS DISTINCT FROM w.parent),
       (SELECT count(*) FROM written AS w LEFT JOIN lines AS l ON l."order" = w.uuid WHERE kind = 'order' AND l.n IS NULL),
       (SELECT 300 - count(*) FROM accounts WHERE created_at < '2026-01-01')
SQL
	is($node->safe_psql('postgres', <<'SQL'), '0|0|0|0', "$when: both forms agree");
SELECT (SELECT count(*) FROM accounts AS a LEFT JOIN accounts AS i ON i.uuid = a.invited_by WHERE a.invited_by_id IS DISTINCT FROM i.id),
       (SELECT count(*) FROM orders AS o LEFT JOIN accounts AS a ON a.uuid = o.account WHERE o.account_id IS DISTINCT FROM a.id),
       (SELECT count(*) FROM lines AS l LEFT JOIN orders AS o ON o.uuid = l."order" WHERE l.order_id IS DISTINCT FROM o.id),
       (SELECT count(*) FROM accounts WHERE id IS NULL) + (SELECT count(*) FROM orders WHERE id IS NULL)
SQL
	return;
}

my @writers = start_writers('false');
runs_on('add', $add);
runs_on('fill and refer', $fill_to_refer);
runs_on('swap', $swap);
stop_writers('up to the swap', @writers);
is_sound('after the swap');

@writers = start_writers('true');
push @writers, start_writers('false');
runs_on('back', $back);
runs_on('forth', <<'MD');
```sql
CREATE UNIQUE INDEX CONCURRENTLY accounts_id ON accounts (id);
CREATE UNIQUE INDEX CONCURRENTLY orders_id ON orders (id);
CREATE UNIQUE INDEX CONCURRENTLY lines_id ON lines (order_id, n);
```
```sql
BEGIN;
SET LOCAL lock_timeout = '500ms';
LOCK TABLE accounts, orders, lines;
ALTER TABLE lines DROP CONSTRAINT lines_order_fkey, DROP CONSTRAINT lines_pkey, ADD CONSTRAINT lines_pkey PRIMARY KEY USING INDEX lines_id;
ALTER TABLE orders DROP CONSTRAINT orders_account_fkey, DROP CONSTRAINT orders_pkey, ADD CONSTRAINT orders_pkey PRIMARY KEY USING INDEX orders_id;
ALTER TABLE accounts DROP CONSTRAINT accounts_invited_by_fkey, DROP CONSTRAINT accounts_pkey, ADD CONSTRAINT accounts_pkey PRIMARY KEY USING INDEX accounts_id;
ALTER TABLE accounts ADD FOREIGN KEY (invited_by_id) REFERENCES accounts;
ALTER TABLE orders ADD FOREIGN KEY (account_id) REFERENCES accounts ON DELETE CASCADE;
ALTER TABLE lines ADD FOREIGN KEY (order_id) REFERENCES orders ON DELETE CASCADE;
COMMIT;
```
MD
stop_writers('back and forth', @writers);
is_sound('after back and forth');
page_runs($node, 'check', $check =~ s/^SELECT bool_and\(id::timestamptz BETWEEN.*?;\n//msr =~ s/( times_kept\n-+\n t\n\n)(?=\1)//r);

my $lines = count_of($node, 'lines');
runs_on('remove', $remove);
is(count_of($node, 'lines JOIN orders ON order_id = orders.id JOIN accounts ON account_id = accounts.id'), $lines,
	'without the UUIDs all lines have their orders and accounts');
is($node->safe_psql('postgres', 'INSERT INTO accounts DEFAULT VALUES RETURNING id > (SELECT max(id) FROM accounts)'), 't', 'and new rows ids');

done_testing();
