# What doc/security.md says that each kind of role can do, and cannot: each cell of its
# second table is tried.  A line of the page without statements here fails, and so do
# statements without a line.
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

$node->stop;
done_testing();
