# A feed by ways that doc/pagination.md warns of: DEFERRABLE, whose snapshot waits and may
# be too old at last, and postgres_fdw, by which a function is another server's than the rows.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $paris = new_server('paris', conf => "snowflake.shards = '1'");
my $tokyo = new_server('tokyo', conf => "snowflake.shards = '2'");

$paris->safe_psql('postgres', <<'SQL');
CREATE TABLE events (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), name text);
INSERT INTO events (name) VALUES ('first');
SQL

# --- DEFERRABLE
#
# Such a transaction takes a snapshot, and then waits for those that were open.  One of them
# commits what the snapshot does not see.

my $open = $paris->background_psql('postgres', on_error_die => 1);
$open->query_safe("BEGIN ISOLATION LEVEL SERIALIZABLE; INSERT INTO events (name) VALUES ('open')");
my $reader = start_session($paris, <<'SQL');
BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE;
SELECT string_agg(name, ' ' ORDER BY id) FROM events;
SELECT snowflake_settled();
SQL
ok(wait_until($paris, q(SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'SafeSnapshot')), 'DEFERRABLE: a reader waits');
$paris->safe_psql('postgres', "INSERT INTO events (name) VALUES ('later')");
$open->query_safe('COMMIT');
$open->quit;
ok(finish_session($reader), 'it gets a mark, as so little happened meanwhile') or diag($reader->{err});
my ($seen, $mark) = split(/\n/, $reader->{out});
is($seen, 'first', 'it does not see what was committed since');
is($paris->safe_psql('postgres', "SELECT $mark <= min(id) FROM events WHERE name <> 'first'"), 't', 'and its mark is not above that');
is($paris->safe_psql('postgres', "SELECT string_agg(name, ' ' ORDER BY id) FROM events WHERE id < snowflake_settled()"), 'first open later',
	'READ COMMITTED: all');

# --- postgres_fdw
#
# The function of the server where one asks says nothing of the rows of another one.

$tokyo->safe_psql('postgres', sprintf(<<'SQL', $paris->host, $paris->port));
CREATE EXTENSION postgres_fdw;
CREATE SERVER paris FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '%s', port '%s', dbname 'postgres', extensions 'snowflake');
CREATE USER MAPPING FOR PUBLIC SERVER paris;
SQL
$paris->safe_psql('postgres', 'CREATE VIEW mark AS SELECT snowflake_settled() AS mark');
$tokyo->safe_psql('postgres', 'IMPORT FOREIGN SCHEMA public LIMIT TO (events, mark) FROM SERVER paris INTO public');
$open = $paris->background_psql('postgres', on_error_die => 1);
$open->query_safe("BEGIN; INSERT INTO events (name) VALUES ('late')");
$paris->safe_psql('postgres', "INSERT INTO events (name) VALUES ('early')");
my $page = "SELECT coalesce(string_agg(name, ' ' ORDER BY id), '') FROM events WHERE name IN ('late', 'early') AND id <";
is($tokyo->safe_psql('postgres', "$page (SELECT mark FROM mark)"), '', "postgres_fdw: the view's mark is below what is open");
ok(wait_until($tokyo, "SELECT ($page snowflake_settled()) = 'early'"), "tokyo's own mark is not: the control misses a row");
$open->query_safe('COMMIT');
$open->quit;
ok(wait_until($tokyo, "SELECT ($page (SELECT mark FROM mark)) = 'late early'"), 'each row comes, in order');

done_testing();
