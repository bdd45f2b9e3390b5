# To be woken up: the recipe of doc/pagination.md.  A notification tells the id of a
# row that is committed; another transaction still holds the mark below it.  So a poll
# gets nothing yet; when the wait for the mark has ended, it gets both rows.  And a long
# wait costs next to nothing.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $node = new_server('wake_up');
my ($section) = page_text('doc/pagination.md') =~ /^## Reading what is new\n(.*?)^### /ms;
my @blocks = map { $_->[1] } grep { $_->[0] eq 'sql' } fenced_blocks($section);
my ($table) = grep { /CREATE TABLE outbox/ } @blocks;
my ($poll) = grep { /PREPARE new_rows/ } @blocks;
my ($trigger) = grep { /CREATE TRIGGER/ } @blocks;
my ($wait) = grep { /PREPARE wait_for/ } @blocks;
my $psql = "psql -Xq -d '" . $node->connstr('postgres') . "'";

$node->safe_psql('postgres', "$table$trigger DELETE FROM outbox; CREATE SEQUENCE gate MINVALUE 0 START 0");
my $late = start_session($node, <<'SQL');
BEGIN;
INSERT INTO outbox (body) VALUES ('late');
DO $$ BEGIN WHILE (SELECT last_value FROM gate) < 1 LOOP PERFORM pg_sleep(0.01); END LOOP; END $$;
COMMIT;
SQL
ok(wait_until($node, 'SELECT count(*) = 1 FROM pg_stat_snowflake_backends WHERE holding_since IS NOT NULL'), 'a transaction is open');

my $poller = start_session($node, <<"SQL");
LISTEN outbox;
$poll$wait
\\! $psql -c "INSERT INTO outbox (body) SELECT 'none' WHERE false"
\\! $psql -c "INSERT INTO outbox (body) VALUES ('quick')"
SELECT max(id) AS told FROM outbox \\gset
SELECT 'poll';
EXECUTE new_rows(0);
SELECT snowflake_wait_settled(:told, '100 ms');
SELECT snowflake_wait_settled(:told, '2 min');
EXECUTE wait_for(:told);
EXECUTE new_rows(0);
SQL
ok(wait_until($node, q{SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE '%2 min%' AND wait_event_type = 'Extension'}), 'it waits');
$node->safe_psql('postgres', "SELECT setval('gate', 1)");
ok(finish_session($poller), 'the poller comes to its end') or diag($poller->{err});
ok(finish_session($late), 'and the late one, too') or diag($late->{err});
like($poller->{out}, qr/^Asynchronous notification "outbox" with payload "\d+" received/m, 'it is woken up');
is($poller->{out} =~ s/^Asynch.*\n//mgr =~ s/^\d+\|//mgr, "poll\nf\nt\nt\nlate\nquick", 'first there is nothing below the mark, and after the wait all, in order');
is(scalar(() = $poller->{out} =~ /^Asynchronous notification/mg), 2, 'once by each of the two, and not by a statement that inserts no row');
my ($told) = $poller->{out} =~ /payload "(\d+)"/;
is($node->safe_psql('postgres', "SELECT body FROM outbox WHERE id = $told"), 'quick', 'and what it was told is the id of the row');

# --- A long wait: it looks ever more seldom, but still twenty times a second

my $long = start_session($node, "SELECT snowflake_wait_settled(snowflake_ceil(clock_timestamp() + interval '1 h'), '1 h')");
my $is_long = q{query LIKE 'SELECT snowflake_wait%'};
ok(wait_until($node, "SELECT count(*) = 1 FROM pg_stat_activity WHERE $is_long"), 'a session waits for long');
looks_seldom($node, $is_long, 'a long wait');
end_sessions($node, $is_long, $long);

done_testing();
