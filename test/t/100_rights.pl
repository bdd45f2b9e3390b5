# What doc/security.md says that each kind of role can do, and cannot: each cell of its
# second table is tried, and each line of the one of roles that lease.  A line of the page
# without statements here fails, and so do statements without a line.
#
# Majors: one

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $node = new_server('rights', conf => "snowflake.shards = '5'\n");

# The columns of the table, and who they are here.
my %role = (
	'everybody' => 'stranger',
	'reader' => 'reader',
	'owner' => 'shop',
	'monitor' => 'watcher',
	'owner of the database' => 'landlord',
	'superuser' => 'admin',);

# Each statement of a line succeeds for those who can do it, and fails for the others
# with 42501; or its only value is true or false.
my %statements = (
	"mint on the server's shards; read an id's time" => [ 'SELECT snowflake_nextval()', 'SELECT snowflake_timestamp(0::bigint)' ],
	'mint on another shard, set `snowflake.shards`' => [ q{SET snowflake.shards = '7'}, q{SELECT set_config('snowflake.shards', '7', true)} ],
	'learn the greatest id of a table: `snowflake_check`' => [
		q{SELECT EXISTS (SELECT FROM snowflake_check() WHERE finding ~ '^the newest id of table shop.photos is of 2060')},
		q{SELECT newest FROM snowflake_newest('shop.photos', 'id', true, 100)} ],
	'audit a table; read its marks' => [ q{SELECT count(*) FROM snowflake_audit('shop.photos', 'id')}, q{SELECT count(*) FROM snowflake_parts('shop.photos', 'id')},
		q{SELECT snowflake_read_ids('shop.photos', 'id', 0, 100)}, q{SELECT snowflake_least_mark('shop.photos', '{paris}', 'shop.marks')} ],
	q{audit a view of the owner's} => [ q{SELECT count(*) FROM snowflake_audit('shop.pictures', 'id')}, q{SELECT snowflake_read_view('shop.pictures', 'id')} ],
	'adopt or revert a key, make partitions' => [
		q{SELECT snowflake_adopt('shop.orders', 'id')}, q{SELECT snowflake_adopt('shop.orders', 'id', dry_run => false)},
		q{SELECT snowflake_revert('shop.films', 'id')}, q{SELECT snowflake_revert('shop.films', 'id', false)},
		q{SELECT snowflake_make_partitions('shop.clicks', '2026-01-01Z', '2026-02-01Z', '1 month')} ],
	'run a statement as the owner of a table' => [ q{SELECT snowflake_run_as_owner('shop.photos', 'SELECT 1')} ],
	'see the horizon, the leases, what was minted' => [ map { "SELECT count(*) FROM $_" }
		  qw(snowflake_horizon() snowflake_leases() snowflake_lease_status() pg_stat_snowflake pg_stat_snowflake_backends) ],
	'reset statistics; accept a layout or a clone' => [ map { "SELECT $_" } qw(snowflake_stat_reset() snowflake_accept_layout() snowflake_accept_clone()) ],
	'create the extension' => ['CREATE EXTENSION snowflake'],
	'create the extension of the registry' => ['CREATE SCHEMA registry; CREATE EXTENSION snowflake_registry SCHEMA registry'],
	'have code run with the rights of those who look at a table' => [],);

$node->safe_psql('postgres', <<'SQL');
CREATE ROLE stranger LOGIN; CREATE ROLE reader LOGIN; CREATE ROLE shop LOGIN; CREATE ROLE watcher LOGIN; CREATE ROLE landlord LOGIN; CREATE ROLE admin LOGIN SUPERUSER;
GRANT pg_monitor TO watcher;
ALTER DATABASE postgres OWNER TO landlord;
CREATE DATABASE bare OWNER landlord;
CREATE SCHEMA shop AUTHORIZATION shop;
GRANT USAGE ON SCHEMA shop TO PUBLIC;
SET ROLE shop;
CREATE TABLE shop.photos (id snowflake PRIMARY KEY DEFAULT snowflake_nextval());
INSERT INTO shop.photos VALUES (snowflake_encode('2060-01-01Z', 5, 0));
CREATE TABLE shop.films (id snowflake PRIMARY KEY DEFAULT snowflake_nextval());
CREATE TABLE shop.orders (id bigserial PRIMARY KEY);
CREATE TABLE shop.clicks (id snowflake PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE shop.marks (server text PRIMARY KEY, mark bigint);
CREATE VIEW shop.pictures AS SELECT id FROM shop.photos;
GRANT SELECT ON ALL TABLES IN SCHEMA shop TO reader;
SQL

# Whether the role can do it; undef if it fails otherwise.
sub can
{
	my ($role, $statement) = @_;
	my $dbname = $statement =~ /CREATE EXTENSION/ ? 'bare' : 'postgres';
	my ($status, $out, $err) = $node->psql($dbname, "\\set VERBOSITY sqlstate\nBEGIN;\n$statement;\nROLLBACK;", extra_params => [ '-U', $role ], on_error_stop => 0);

	return $out ne 'f' if $err !~ /ERROR/;
	return $err =~ /ERROR:  42501$/m ? 0 : undef;
}

# --- The lines of the page

my ($head, $lines) = page_text('doc/security.md') =~ /^\| \| (everybody .*) \|\n\|[-|]+\n((?:\|.*\n)+)/m;
my @columns = split(/ \| /, $head);
is_deeply([ sort @columns ], [ sort keys %role ], 'the columns are the roles');

for my $line (split(/\n/, $lines))
{
	my (undef, $what, @cells) = split(/ ?\| ?/, $line);
	my $tried = delete $statements{$what};

	ok(defined $tried, "what is tried: $what");
	for my $statement (@{ $tried // [] })
	{
		is(join(' ', map { my $can = can($role{$_}, $statement); "$_: " . (!defined $can ? 'fails' : $can ? 'yes' : 'no') } @columns),
			join(' ', map { "$columns[$_]: $cells[$_]" } 0 .. $#columns), $statement);
	}
}
is(join(', ', sort keys %statements), '', 'each is on the page');

# a role that somebody drops meanwhile has no name that a hint could tell
fails_with($node, <<"SQL", '42704', qr/invalid role OID/, 'a role that is gone');
CREATE ROLE gone;
SET ROLE gone;
\\! psql -XAtq -d '@{[ $node->connstr('postgres') ]}' -U admin -c 'DROP ROLE gone'
SELECT snowflake_run_as_owner('shop.photos', 'SELECT 1');
SQL

# --- Whose code runs: test/sql/owners.sql lays lures in each place; here each role lays
# --- one, and a superuser looks.

for my $column (grep { $_ ne 'superuser' } @columns)
{
	my $role = $role{$column};

	$node->safe_psql('postgres', <<"SQL");
CREATE SCHEMA lures_of_$role AUTHORIZATION $role;
SET ROLE $role; SET search_path = lures_of_$role, public;
CREATE FUNCTION lure(n bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS
    \$\$ BEGIN IF current_user <> '$role' THEN RAISE WARNING 'lured as %', current_user; END IF; RETURN n; END \$\$;
CREATE TABLE lured (id integer PRIMARY KEY, n bigint CHECK (lures_of_$role.lure(n) > 0));
CREATE INDEX ON lured (n) WHERE lures_of_$role.lure(1) > 0;
SQL
	my ($status, $out, $err) = $node->psql('postgres', <<"SQL", on_error_stop => 0);
SELECT max(id) FROM lures_of_$role.lured;
\\warn look
SELECT count(*) FROM snowflake_check();
SELECT count(*) FROM snowflake_adopt('lures_of_$role.lured', 'id');
SELECT count(*) FROM snowflake_adopt('lures_of_$role.lured', 'id', dry_run => false);
SELECT count(*) FROM snowflake_audit('lures_of_$role.lured', 'id');
SELECT count(*) FROM snowflake_revert('lures_of_$role.lured', 'id', false);
SQL
	my ($before, $after) = split(/^look$/m, $err);
	like($before, qr/lured as/, "the lure of $column catches a query");
	unlike($after, qr/lured as|ERROR/, 'and none of ours');
}

# --- Roles that lease: "others" tries each line, beside the server of "ids", which holds
# --- shard 0.  (078_registry_rights.pl has more of each.)

$node->append_conf('postgresql.conf', 'max_prepared_transactions = 5');
$node->restart;
$node->safe_psql('postgres', <<'SQL');
CREATE ROLE ids LOGIN; CREATE ROLE others LOGIN;
CREATE SCHEMA registry;
CREATE EXTENSION snowflake_registry SCHEMA registry;
SELECT registry.snowflake_registry_grant('ids'), registry.snowflake_registry_grant('others');
SELECT registry.snowflake_registry_open('0'), registry.snowflake_registry_limit('10 min', 2);
SQL
my $fence = 100;

# A call with this changed, as SQL, and which of its answer is asked for.
sub call_of
{
	my ($function, %change) = @_;
	my $next = $fence + 1;
	my %call = (
		holder => "'others'", fence => $fence++, next => $next, confirmed => 0, host => "'tokyo'", layout => "'epoch=x'", last_shard => 7, registry => 'NULL',
		$function eq 'release'
		? (shards => "'{}'", ends => "'{}'")
		: (held => "'{}'", held_from => "'{}'", held_until => "'{}'", wanted => "'{}'", auto => 'NULL', preferred => "'{}'", lease => "'10 min'"));
	my $what = delete $change{what} // q{string_agg(concat_ws(' ', state, shard), ', ') FILTER (WHERE state <> 'set_aside')};

	$call{$_} = $change{$_} for keys %change;
	return "SELECT $what FROM registry.snowflake_registry_$function(" . join(', ', map { "$_ => $call{$_}" } sort keys %call) . ')';
}

# What the role gets: the answer, or the SQLSTATE.
sub gets
{
	my ($role, $sql) = @_;
	my (undef, $out, $err) = $node->psql('postgres', "\\set VERBOSITY sqlstate\n$sql", extra_params => [ '-U', $role ], on_error_stop => 0);

	return $err =~ /ERROR:  (\w+)/ ? $1 : $out;
}

sub lease { return gets($_[0], call_of('lease', @_[ 1 .. $#_ ])) }

# the server of "ids", which renews what it has
sub renewal { return lease('ids', holder => "'ids'", held => "'{0}'", held_from => "'{-infinity}'", held_until => "ARRAY[now() + interval '1 s']", wanted => "'{0}'", @_) }

is(lease('ids', holder => "'ids'", layout => "'epoch=y'"), 'accepted', 'the first call of all');
is(lease('others', layout => "'epoch=x'"), '55000', 'fixes the layout, and a later one does not change it');
$node->safe_psql('postgres', "SELECT registry.snowflake_registry_open('0', 'epoch=x', 7)");
is(lease('ids', holder => "'ids'", wanted => "'{0}'"), 'accepted, held 0', 'a server of another role');

my %lease_lines = (
	'take free shards, up to the limit for each holder number that it invents' => sub {
		is(lease('others', wanted => "'{1,2}'"), 'accepted, held 1, held 2', 'free shards up to the limit');
		is(lease('others', wanted => "'{3}'"), 'accepted, fenced 3', 'and not one more');
		is(lease('others', wanted => "'{3}'", holder => "'invented'"), 'accepted, held 3', 'but for another number');
		is(lease('others', wanted => "'{0}'", holder => "'poor'"), 'accepted, taken 0', "another role's shard: not taken");
		is(lease('others', wanted => "'{0}'", holder => "'ids'"), '42501', 'nor renewed');
		is(gets('others', call_of('release', holder => "'ids'", shards => "'{0}'", ends => "'{-infinity}'")), '42501', 'nor released');
	},
	'fence the registry, by claiming what it never had, for the longest lease at most' => sub {
		is(lease('others', holder => "'liar'", confirmed => 99, held => "'{5}'", held_from => "'{-infinity}'", held_until => "'{tomorrow}'"), 'accepted, lost, lost 5, fenced 5', 'a claim of what it never had');
		is($node->safe_psql('postgres', q(SELECT not_before BETWEEN clock_timestamp() + interval '8 min' AND clock_timestamp() + interval '10 min' FROM registry.snowflake_registry_state)), 't',
			'fences it for the longest lease, and no longer');
		is(renewal(), 'accepted, held 0', "the others' shards are renewed");
		$node->safe_psql('postgres', "SELECT registry.snowflake_registry_unfence('0')");
	},
	'keep others waiting for 5 s, by an open transaction' => sub {
		my $hog = start_session($node, "BEGIN; " . call_of('lease') . '; SELECT pg_sleep(600)', connection => ' user=others', errors => '/dev/null');
		ok(wait_until($node, q(SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND usename = 'others')), 'an open transaction');
		ok(wait_for(sub { renewal() eq 'accepted, held 0' }), 'who waits ends its session');
		is($node->safe_psql('postgres', q(SELECT count(*) FROM pg_stat_activity WHERE usename = 'others')), 0, 'and it is gone');
		finish_session($hog);
		is(gets('others', 'BEGIN; ' . call_of('lease') . "; PREPARE TRANSACTION 'hog'"), '0A000', 'it cannot prepare it');
	},
	'write a name of 256 bytes of its server' => sub {
		is(lease('others', host => "repeat('x', 257)"), '22023', 'a longer name is refused');
		is(renewal(host => "repeat(E'\\xc3\\xa9', 128)"), 'accepted, held 0', 'one of 256 bytes');
		like(lease('others', holder => "'poor'", wanted => "'{0}'", what => q{max(other) FILTER (WHERE state = 'taken')}), qr/\A\?{128,150}\z/, 'another server is told printable characters');
		is(renewal(host => "repeat('x', 256)"), 'accepted, held 0', 'another name');
		is(lease('others', holder => "'poor'", wanted => "'{0}'", what => q{max(other) FILTER (WHERE state = 'taken')}), 'x' x 150, 'and 150 of them');
	},
	'read the names of servers that have what it asks for' => sub {
		is(renewal(), 'accepted, held 0', 'a name as usual');
		is(lease('others', holder => "'poor'", wanted => "'{0}'", what => q{max(other) FILTER (WHERE state = 'taken')}), 'tokyo', 'the name, and no number');
		is(lease('ids', holder => "'rich'", wanted => "'{0}'", what => q{max(other) FILTER (WHERE state = 'taken')}), 'tokyo (holder ids)', 'but that of the same role');
		# (an ordinary user of a server: 060_leases.pl)
	},
	'fix the layout of the registry, by the first call of all' => sub {
		is(lease('others', layout => "'epoch=z'"), '55000', 'not later');
		is(gets('others', "SELECT registry.snowflake_registry_open('0', 'epoch=z', 7)"), '42501', 'nor otherwise');
	},
	'call with as many shards as the limit' => sub {
		is(lease('others', holder => "'full'", wanted => "'{6,7}'"), 'accepted, held 6, held 7', 'as many as the limit');
		is(lease('others', holder => "'new'", wanted => "'{4,5,6}'"), '53400', 'a new server asks for more');
		is(lease('others', map { ($_ => "array_fill(now(), '{2000}')") } qw(held_from held_until)), '53400', 'or claims more');
	},);

my (undef, $lease_rows) = page_text('doc/security.md') =~ /^\| (it can \| it cannot) \|\n\|[-|]+\n((?:\|.*\n)+)/m;
for my $line (split(/\n/, $lease_rows))
{
	my (undef, $it_can) = split(/ ?\| ?/, $line);
	my $try = delete $lease_lines{$it_can};

	ok(defined $try, "what is tried: $it_can");
	$try->() if defined $try;
}
is(join(', ', sort keys %lease_lines), '', 'each of these is on the page');

# ... and it can do no more
is($node->safe_psql('postgres', <<'SQL'), 'snowflake_registry_lease, snowflake_registry_release', 'it has rights on two functions, and on no table');
SELECT string_agg(name, ', ' ORDER BY name) FROM (
    SELECT proname::text AS name FROM pg_proc WHERE pronamespace = 'registry'::regnamespace AND has_function_privilege('others', oid, 'EXECUTE')
     UNION ALL
    SELECT relname FROM pg_class WHERE relnamespace = 'registry'::regnamespace AND relkind IN ('r', 'v')
       AND (has_table_privilege('others', oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER') OR has_any_column_privilege('others', oid, 'SELECT'))) AS may
SQL

$node->stop;
done_testing();
