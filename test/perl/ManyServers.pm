# ManyServers.pm -- what the tests of many servers share
#
# Servers that know each other by name, the examples of doc/servers.md and
# doc/sharding.md, run on the servers that they name, and four servers that write at the same time.

package ManyServers;

use strict;
use warnings;

use Exporter 'import';
use File::Basename qw(dirname);
use IPC::Run ();

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

our @EXPORT = qw(
  $ROWS small_server run_section section run_example run_on
  begin_writing end_writing same_rows_as no_conflict
);

# How many rows four servers write; check.sh --whole wants millions.
our $ROWS = $ENV{SNOWFLAKE_ROWS} // 400_000;

# One of many on a machine.
sub small_server
{
	my ($name, $shards, %options) = @_;

	return new_server($name, %options,
		init => { allows_streaming => 'logical' },
		conf => <<"CONF");
snowflake.shards = '$shards'
shared_buffers = 64MB
max_replication_slots = 20
max_wal_senders = 20
max_logical_replication_workers = 20
max_sync_workers_per_subscription = 2
autovacuum = off
@{[ $options{conf} // '' ]}
CONF
}

# --- The page
#
# An example says in its first line where it runs:
#
#	-- on paris and tokyo           on both, one after the other
#	-- on tokyo, until it says t    again and again
#
# Names of hosts are those of the servers, and the database of the examples is
# "app"; :'here' is how to connect to the server itself.  What \gset keeps,
# later examples know.

my $page;
my %variable;

# The examples of a section: the SQL between its heading and the next one.
sub section
{
	my ($title) = @_;

	$page //= join('', map { slurp_file(dirname(__FILE__) . "/../../doc/$_.md") } 'servers', 'sharding');
	my ($text) = $page =~ /^##+ \Q$title\E\n(.*?)(?=^##|\z)/ms
	  or die "there is no section \"$title\"";
	my @examples;

	while ($text =~ /^( *)```sql\n(.*?)^\1```$/msg)
	{
		my ($indent, $sql) = ($1, $2);

		push @examples, $sql =~ s/^$indent//mgr;
	}
	die "section \"$title\" has no example" unless @examples;
	return @examples;
}

# Run one on its servers, with the names of all that it may connect to.
sub run_example
{
	my ($sql, %server) = @_;
	my ($where, $until) = $sql =~ /\A-- on (.*?)(, until it says t)?\n/
	  or die "not said where to run: $sql";
	my ($title) = $sql =~ /\n(\S.*)/;
	my @names = split(/, | and /, $where);
	my $keep = $sql =~ s/ \\gset$/;/mg;

	for my $name (keys %server)
	{
		my ($host, $port) = ($server{$name}->host, $server{$name}->port);

		$sql =~ s/host=$name dbname=app/host=$host port=$port dbname=postgres/g;
		$sql =~ s/host '$name', dbname 'app'/host '$host', port '$port', dbname 'postgres'/g;
	}
	for my $name (@names)
	{
		my $node = $server{$name};
		my $loaded = $sql =~ /pg_reload_conf/ ? SnowflakeTest::load_time($node) : undef;
		my $out;

		local $variable{here} = $node->connstr('postgres');
		wait_for(sub {
			$out = run_on($node, $sql, "$title, on $name");
			return !defined $out || !$until || $out =~ /^t$/m;
		});
		return if !defined $out;
		SnowflakeTest::has_reloaded($node, $loaded) if defined $loaded;
		ok(!$until || $out =~ /^t$/m, "on $name: $title") or diag($out);
		next unless $keep;

		my ($heads, $values) = map { [ split(/,/) ] } split(/\n/, $out);
		@variable{@$heads} = @$values;
	}
	return;
}

# What it shows on one server, as CSV.
sub run_on
{
	my ($node, $sql, $what) = @_;
	my ($out, $err) = ('', '');

	return $out
	  if IPC::Run::run([
			'psql', '-Xq', '--csv', '-v', 'ON_ERROR_STOP=1',
			(map { ('-v', "$_=$variable{$_}") } keys %variable),
			'-d', $node->connstr('postgres')
		],
		'<', \$sql, '>', \$out, '2>', \$err);
	fail($what);
	diag($err);
	return;
}

sub run_section
{
	my ($title, %server) = @_;

	run_example($_, %server) for section($title);
	return;
}

# --- Writing on several servers at once

# Have each server insert its part of so many rows, in two sessions and large
# transactions; gives the sessions.
sub begin_writing
{
	my ($table, $rows, @servers) = @_;
	my $batches = 20;
	my $each = $rows / (@servers * 2 * $batches);
	my $insert = "INSERT INTO $table (url) SELECT 'photo ' || n FROM generate_series(1, $each) AS n;\n";

	return map { my $node = $_; map { start_session($node, $insert x $batches) } 1, 2 } @servers;
}

sub end_writing
{
	my (@sessions) = @_;
	my @failed = grep { !finish_session($_) } @sessions;

	is(scalar(@failed), 0, 'every session could write') or diag($failed[0]{err});
	return;
}

# Does a server have, of each shard, what the server of that shard minted?
sub same_rows_as
{
	my ($gatherer, $table, $expected, @writers) = @_;
	my $name = $gatherer->name;
	my $digest = "SELECT snowflake_shard(id), count(*), sum(id::bigint), sum(hashtext(url)) FROM $table"
	  . ' WHERE snowflake_shard(id) = ANY (%s) GROUP BY 1 ORDER BY 1';
	my $own = sprintf($digest, q{string_to_array(current_setting('snowflake.shards'), ',')::int[]});
	my $minted = join("\n", map { $_->safe_psql('postgres', $own) } @writers);

	is(count_of($gatherer, $table), $expected, "$name: $expected rows of $table");
	is($gatherer->safe_psql('postgres', "SELECT count(DISTINCT id) FROM $table"),
		$expected, "$name: no duplicate in $table");
	is($gatherer->safe_psql('postgres', sprintf($digest, q{'{0,1,2,3}'})),
		$minted, "$name: of each shard what its server minted");
	return;
}

# The server applied all without an error.
sub no_conflict
{
	my ($node) = @_;
	my $name = $node->name;

	# the columns' names differ from major to major
	is( $node->safe_psql('postgres', q{
		SELECT sum(value::bigint) FROM pg_stat_subscription_stats AS s, jsonb_each_text(to_jsonb(s))
		 WHERE key ~ '_error_count$'}),
		0, "$name: no error is counted");
	unlike(slurp_file($node->logfile), qr/ERROR|conflict/, "$name: nor logged");
	return;
}

1;
