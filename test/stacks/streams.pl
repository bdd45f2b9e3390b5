# What the readers of a change stream get for a column of ids, of each type: from
# test_decoding, from wal2json and from pgoutput, the plugin of logical replication
# and of most programs.  The server's part of doc/tools.md, "Change streams", runs
# here.
#
# Packages: postgresql-17-wal2json

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use StackTest;
use Test::More;

my $id = '175928847299117063';    # more than a double holds
my $page = page_text('doc/tools.md');
my ($allowed) = $page =~ /^(output_plugin_libraries = .*)$/m;

# a release of the server may not have the setting yet
$allowed = '' if `postgres --describe-config` !~ /^output_plugin_libraries\t/m;
my $node = stack_server('streams', conf => <<"CONF");
wal_level = logical
max_wal_senders = 5
$allowed
CONF

# --- The page: two tables, a slot, what it gives

my ($section) = $page =~ /^## Change streams\n(.*?)^## /ms;
page_runs($node, 'change streams', $section);

# --- The same changes, for each plugin

$node->safe_psql('postgres', <<'SQL');
CREATE TABLE s (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), ids snowflake[]);
CREATE TABLE b (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), ids bigint[]);
CREATE PUBLICATION p FOR TABLE s, b;
SELECT pg_create_logical_replication_slot('of_' || plugin, plugin) FROM unnest('{test_decoding,wal2json,pgoutput}'::text[]) AS plugin;
SQL
my $change = join("\n", map { "INSERT INTO $_ VALUES ($id, '{$id}'); INSERT INTO $_ DEFAULT VALUES; UPDATE $_ SET id = 7 WHERE id = $id; DELETE FROM $_ WHERE id = 7;" } 's', 'b');
$node->safe_psql('postgres', $change);
my ($of_s, $of_b) = map { $node->safe_psql('postgres', "SELECT id FROM $_") } 's', 'b';

# What is in a slot, by a function of the server.
sub changes
{
	my ($slot, $options, $how) = @_;
	return split(/\n/, $node->safe_psql('postgres', "SELECT data FROM pg_logical_slot_" . ($how // 'peek') . "_changes('$slot', NULL, NULL$options)"));
}

is(join("\n", grep { /table/ } changes('of_test_decoding', '')), <<"TEXT" =~ s/\n\z//r, 'test_decoding: quoted or not');
table public.s: INSERT: id[snowflake]:'$id' ids[snowflake[]]:'{$id}'
table public.s: INSERT: id[snowflake]:'$of_s' ids[snowflake[]]:null
table public.s: UPDATE: old-key: id[snowflake]:'$id' new-tuple: id[snowflake]:'7' ids[snowflake[]]:'{$id}'
table public.s: DELETE: id[snowflake]:'7'
table public.b: INSERT: id[bigint]:$id ids[bigint[]]:'{$id}'
table public.b: INSERT: id[bigint]:$of_b ids[bigint[]]:null
table public.b: UPDATE: old-key: id[bigint]:$id new-tuple: id[bigint]:7 ids[bigint[]]:'{$id}'
table public.b: DELETE: id[bigint]:7
TEXT

# wal2json, as a reader gets it by the protocol: it names types with their schema
my $file = $node->basedir . '/changes';
my $lsn = $node->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
command_ok([ 'pg_recvlogical', '-d', $node->connstr('postgres'), '--slot', 'of_wal2json', '--start', '--no-loop', '--endpos', $lsn,
		'-o', 'format-version=2', '-o', 'include-transaction=0', '-f', $file ], 'wal2json: pg_recvlogical reads');
is(slurp_file($file), <<"JSON", 'wal2json: a string for a snowflake, a number for a bigint');
{"action":"I","schema":"public","table":"s","columns":[{"name":"id","type":"public.snowflake","value":"$id"},{"name":"ids","type":"public.snowflake[]","value":"{$id}"}]}
{"action":"I","schema":"public","table":"s","columns":[{"name":"id","type":"public.snowflake","value":"$of_s"},{"name":"ids","type":"public.snowflake[]","value":null}]}
{"action":"U","schema":"public","table":"s","columns":[{"name":"id","type":"public.snowflake","value":"7"},{"name":"ids","type":"public.snowflake[]","value":"{$id}"}],"identity":[{"name":"id","type":"public.snowflake","value":"$id"}]}
{"action":"D","schema":"public","table":"s","identity":[{"name":"id","type":"public.snowflake","value":"7"}]}
{"action":"I","schema":"public","table":"b","columns":[{"name":"id","type":"bigint","value":$id},{"name":"ids","type":"bigint[]","value":"{$id}"}]}
{"action":"I","schema":"public","table":"b","columns":[{"name":"id","type":"bigint","value":$of_b},{"name":"ids","type":"bigint[]","value":null}]}
{"action":"U","schema":"public","table":"b","columns":[{"name":"id","type":"bigint","value":7},{"name":"ids","type":"bigint[]","value":"{$id}"}],"identity":[{"name":"id","type":"bigint","value":$id}]}
{"action":"D","schema":"public","table":"b","identity":[{"name":"id","type":"bigint","value":7}]}
JSON

# pgoutput: each relation's columns have types; a type that is not the server's own
# is announced by its name; values are digits, or 8 bytes if the reader asks for binary
sub pgoutput
{
	my ($binary) = @_;
	return map { pack('H*', s/^\\x//r) } changes('of_pgoutput', ", 'proto_version', '1', 'publication_names', 'p', 'binary', '$binary'", 'peek_binary');
}
my @messages = pgoutput('false');
my ($oid_s, $oid_b) = map { $node->safe_psql('postgres', "SELECT '$_'::regtype::oid") } 'snowflake', 'bigint';

is_deeply([ map { (unpack('x N Z* Z* C n C Z* N', $_))[ 6, 7 ] } grep { /^R/ } @messages ], [ 'id', $oid_s, 'id', $oid_b ],
	'pgoutput: a relation gives the number of the type');
my %announced = map { my ($oid, $schema, $name) = unpack('x N Z* Z*', $_); ($oid => "$schema.$name") } grep { /^Y/ } @messages;
is($announced{$oid_s}, 'public.snowflake', 'pgoutput: and for a snowflake its name');
ok(!$announced{$oid_b}, 'pgoutput: which a bigint needs not');

# the first value of each inserted row
sub inserted { return map { (unpack('x N a1 n a1 N/a', $_))[ 3, 4 ] } grep { /^I/ } @_ }
is_deeply([ inserted(@messages) ], [ map { ('t', $_) } $id, $of_s, $id, $of_b ], 'pgoutput: digits for both');
is_deeply([ inserted(pgoutput('true')) ], [ map { ('b', pack('q>', $_)) } $id, $of_s, $id, $of_b ], 'pgoutput, binary: 8 bytes for both');

# --- Logical replication, from each type to the other

my $subscriber = stack_server('subscriber');
$subscriber->safe_psql('postgres', <<"SQL");
CREATE TABLE s (id bigint PRIMARY KEY, ids bigint[]);
CREATE TABLE b (id snowflake PRIMARY KEY, ids snowflake[]);
CREATE SUBSCRIPTION sub CONNECTION 'host=${\$node->host} port=${\$node->port} dbname=postgres' PUBLICATION p;
SQL
ok(wait_until($subscriber, q{SELECT count(*) = 2 AND bool_and(srsubstate = 'r') FROM pg_subscription_rel}), 'subscribed');
$node->safe_psql('postgres', "INSERT INTO s VALUES (9, '{$id}'); INSERT INTO b VALUES (9, '{$id}');");
$node->wait_for_catchup('sub');
is($subscriber->safe_psql('postgres', 'SELECT id, ids FROM s ORDER BY id'), "9|{$id}\n$of_s|", 'snowflake to bigint');
is($subscriber->safe_psql('postgres', 'SELECT id, ids FROM b ORDER BY id'), "9|{$id}\n$of_b|", 'bigint to snowflake');

# a table that is published can change its mind
$node->safe_psql('postgres', 'ALTER TABLE s ALTER id TYPE bigint; INSERT INTO s VALUES (10)');
$node->wait_for_catchup('sub');
is($subscriber->safe_psql('postgres', 'SELECT id FROM s WHERE id = 10'), 10, 'and after a change of the type');

done_testing();
