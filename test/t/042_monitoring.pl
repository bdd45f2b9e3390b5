# What doc/monitoring offers works: the queries for postgres_exporter run as a
# role that may monitor and nothing else, give the columns that they say, and
# the values that there are; the dashboard and the alerts use metrics that there
# are.  If they are installed, the exporter itself serves them, and Prometheus
# understands the expressions and raises the alerts.
#
# Takes: long
# Unpacked: prometheus-postgres-exporter prometheus

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use HTTP::Tiny;
use JSON::PP;
use LeaseTest;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $tools = $ENV{SNOWFLAKE_TOOLS} // '/nonexistent';
my $dir = PostgreSQL::Test::Utils::tempdir_short();

sub tool
{
	my ($name) = @_;
	my ($found) = grep { -x } "$tools/usr/bin/$name", "/usr/bin/$name";
	return $found;
}

# --- The queries, by name: a query, and for each column its usage and its
# --- description.  The file is as plain as that.

my %queries;
my ($query, $column);

for (split(/\n/, join('', map { page_text("doc/monitoring/$_.yaml") } 'postgres_exporter', 'registry_exporter')))
{
	next if /^(#|$)/;
	if (/^(\w+):$/) { $query = $queries{$1} = { sql => '', columns => [] } }
	elsif (/^  (query: \||metrics:)$/) { next }
	elsif (/^    - (\w+):$/) { push @{ $query->{columns} }, $column = { name => $1 } }
	elsif (/^        (usage|description): "([^"]+)"$/) { $column->{$1} = $2 }
	elsif (/^    (.*)$/) { $query->{sql} .= "$1\n" }
	else { die "this is not understood: $_" }
}
cmp_ok(scalar(keys %queries), '>=', 5, 'there are queries');

# What is exported: the name of each metric, and its labels.
my %labels;

for my $name (sort keys %queries)
{
	my @columns = @{ $queries{$name}{columns} };
	my @of_query = map { $_->{name} } grep { $_->{usage} eq 'LABEL' } @columns;

	is_deeply([ map { $_->{name} } grep { !$_->{description} || $_->{usage} !~ /^(LABEL|GAUGE|COUNTER)$/ } @columns ],
		[], "$name: columns have a usage and a description");
	is_deeply([ map { $_->{name} } grep { ($_->{usage} eq 'COUNTER') != ($_->{name} =~ /_total$/) } @columns ],
		[], "$name: counters are named so");
	$labels{"${name}_$_"} = \@of_query for map { $_->{name} } grep { $_->{usage} ne 'LABEL' } @columns;
}

# The page has them all, and all alerts.
my $page = page_text('doc/monitoring.md');
my $alerts = page_text('doc/monitoring/alerts.yaml');
is_deeply([ sort map { /`(\w+)`/g } $page =~ /^- ((?:`snowflake_\w+`(?:, )?)+):/mg ],
	[ sort keys %labels ], 'the page has the metrics');
my @alerts = $alerts =~ /alert: (\w+)/g;
is_deeply([ $page =~ /^- \[`(Snowflake\w+)`\]/mg ], \@alerts, 'and the alerts');

# Each leads to its paragraph, by the same link as on the page, and is in the
# table at the top of failures.md.
my $failures = page_text('doc/failures.md');
my %heading = map { lc($_) =~ s/[^\w -]//gr =~ s/ /-/gr => 1 } $failures =~ /^### (.*)/mg;
my %runbook = $alerts =~ /alert: (\w+)\n(?:(?!\n\n).)*?runbook_url: "doc\/failures\.md#([\w-]+)"/gs;
is_deeply([ grep { !$heading{ $runbook{$_} // '' } } @alerts ], [], 'each alert leads to a paragraph');
is_deeply({ $page =~ /^- \[`(Snowflake\w+)`\]\(failures\.md#([\w-]+)\)/mg }, \%runbook, 'the page leads to the same ones');
my ($triage) = $failures =~ /^\| you see \|(.*?)\n\n/ms;
is_deeply([ grep { $triage !~ /`$_`/ } @alerts ], [], 'and the list of what you see has each');

# --- A server with room for 16 ids in a hundredth of a second on a shard

my $node = new_server('monitored', clock => 1, conf => <<'CONF');
snowflake.layout = 'epoch=2025-01-01 unit=10ms fields=timestamp:40,shard:4,sequence:4'
snowflake.reserve = 2s
max_prepared_transactions = 5
CONF
$node->stop;
set_disk($node, '');
start_with_clock($node, 0, disk => 1);
$node->safe_psql('postgres', <<'SQL');
CREATE ROLE exporter LOGIN IN ROLE pg_monitor;
REVOKE EXECUTE ON FUNCTION snowflake_horizon() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION snowflake_horizon() TO pg_monitor;
SQL

# The rows of a query, each by column, as the exporter's role gets them, here or on
# another server.
sub rows_of
{
	my ($name, $server) = @_;
	my ($out, $err) = ('', '');

	IPC::Run::run([ 'psql', '-XAq', '-P', 'footer=off', '-v', 'ON_ERROR_STOP=1', '-d', ($server // $node)->connstr('postgres') . ' user=exporter' ],
		'<', \$queries{$name}{sql}, '>', \$out, '2>', \$err)
	  or diag($err);
	my ($names, @rows) = map { [ split(/\|/, $_, -1) ] } split(/\n/, $out);
	my @given = map { my %row; @row{@$names} = @$_; \%row } @rows;

	return ($names // [], @given);
}

sub values_of
{
	my ($name, $column, $server) = @_;
	my (undef, @rows) = rows_of($name, $server);
	return join(' ', map { $_->{$column} } @rows);
}

for my $name (grep { $_ ne 'snowflake_registry' } sort keys %queries)
{
	my ($names) = rows_of($name);
	is_deeply($names, [ map { $_->{name} } @{ $queries{$name}{columns} } ], "$name gives its columns");
}

# --- what they say is what there is
is(values_of('snowflake_shard', 'shard'), '', 'a server that minted nothing has no shards');
is(values_of('snowflake_horizon', 'failing'), 0, 'and nothing fails');
is(values_of('snowflake_horizon', 'clone'), 0, 'nor is it a clone');

my $session = IPC::Run::start(
	[ 'psql', '-XAtq', '-d', $node->connstr('postgres') . ' application_name=minter' ],
	'<', \my $statements, '>', \my $printed, IPC::Run::timeout(3 * $PostgreSQL::Test::Utils::timeout_default));
$statements = "SELECT count(snowflake_nextval(1)) FROM generate_series(1, 100);\nSELECT count(snowflake_nextval(3)) FROM generate_series(1, 7);\n";
$session->pump until $printed =~ /100\n7\n/;

is(values_of('snowflake_shard', 'shard'), '1 3', 'shards that minted');
is(values_of('snowflake_shard', 'minted_total'), '100 7', 'what they minted');
my ($exhausted) = split(/ /, values_of('snowflake_shard', 'exhausted_total'));
my ($waited) = split(/ /, values_of('snowflake_shard', 'waited_seconds_total'));
cmp_ok($exhausted, '>', 0, 'exhausted ticks: a hundred ids take seven');
cmp_ok($waited, '>', 0, 'and some time');
is(values_of('snowflake_shard', 'clock_behind_total'), '0 0', 'the clock was right');
is(values_of('snowflake_layout', 'ids_per_second'), 1600, 'what a shard has room for');
is( values_of('snowflake_layout', 'expires_timestamp_seconds'),
	$node->safe_psql('postgres', 'SELECT extract(epoch FROM expires_at)::float8 FROM snowflake_layouts WHERE in_use'),
	'when the layout expires');
my $ahead = values_of('snowflake_horizon', 'seconds_ahead');
ok($ahead > -60 && $ahead < 60, 'how far the horizon is ahead');
my $renewed = values_of('snowflake_horizon', 'last_renewal_timestamp_seconds');
ok($renewed > time() - 60 && $renewed <= time() + 1, 'when it was renewed');

my (undef, $minter) = grep { ref eq 'ARRAY' || $_->{application_name} eq 'minter' } rows_of('snowflake_sessions');
is($minter->{minted}, 107, 'a session, by its application');
is($minter->{datname}, 'postgres', 'its database');
cmp_ok($minter->{waits}, '>', 0, 'how often it waited');
cmp_ok($minter->{waited_seconds}, '>', 0, 'and how long');

# the clock set back: calls meet it, and those that wait are seen from 17 on
set_clock($node, -3600);
fails_with($node, "SET snowflake.clock_tolerance = 0;\nSELECT snowflake_nextval(1)", '58000', qr/behind/, 'the clock is set back');
is(values_of('snowflake_shard', 'clock_behind_total'), '1 0', 'that is counted');
my $waiting = start_session($node, "SET snowflake.clock_tolerance = '1h'; SELECT snowflake_nextval(1)");
my $event = $node->safe_psql('postgres', 'SHOW server_version_num') >= 170000 ? 'SnowflakeClockBehind' : '';
my $waits = 'FROM pg_stat_activity WHERE ' . ($event ? "wait_event = '$event'"
	: "wait_event_type = 'Extension' AND backend_type = 'client backend'");
ok(wait_until($node, "SELECT count(*) = 1 $waits"), 'a call waits');
# it looks at the clock again and again
ok(wait_for(sub { values_of('snowflake_waiting', 'event') eq $event }), 'that is seen, if waits have names');
ok(wait_for(sub { values_of('snowflake_waiting', 'sessions') eq ($event && 1) }), 'and how many there are');
$node->safe_psql('postgres', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE 'SELECT snowflake\_nextval(1)%' AND state = 'active'});
finish_session($waiting);
set_clock($node, 0);

# a transaction that has minted and stays open
is(values_of('snowflake_mark', 'datname'), '', 'nobody holds the mark');
$statements = "BEGIN; SELECT 'holds ' || count(snowflake_nextval(3));\n";
$session->pump until $printed =~ /holds 1\n/;
is(values_of('snowflake_mark', 'datname'), 'postgres', 'a transaction that has minted holds it');
cmp_ok(values_of('snowflake_mark', 'held_seconds'), '>=', 0, 'and since when');
$statements = "COMMIT;\nBEGIN; CREATE TABLE of_no_id (); PREPARE TRANSACTION 'has minted nothing';\n"
  . "SELECT 'lets go ' || count(*) FROM pg_prepared_xacts;\n";
$session->pump until $printed =~ /lets go 1\n/;
is(values_of('snowflake_mark', 'datname'), '', 'one that is prepared and has minted nothing does not');
$statements = "BEGIN; SELECT count(snowflake_nextval(3)); PREPARE TRANSACTION 'has minted';\nSELECT 'prepared ' || count(*) FROM pg_prepared_xacts;\n";
$session->pump until $printed =~ /prepared 2\n/;
is(values_of('snowflake_mark', 'datname'), 'postgres', 'one that has minted does');
cmp_ok(values_of('snowflake_mark', 'held_seconds'), '<', 600, 'since it minted');
$node->safe_psql('postgres', q{ROLLBACK PREPARED 'has minted'; ROLLBACK PREPARED 'has minted nothing'});
$statements = "BEGIN; SELECT 'holds again ' || count(snowflake_nextval(3));\n";
$session->pump until $printed =~ /holds again 1\n/;

# the disk full
set_disk($node, 'write=ENOSPC');
wait_for(sub { $node->psql('postgres', 'SELECT snowflake_nextval(1)') != 0 });
is(values_of('snowflake_horizon', 'failing'), 1, 'a full disk: it fails');
is(values_of('snowflake_last', 'reason'), 'could not write file "snowflake.horizon.tmp": No space left on device', 'and why');
is(values_of('snowflake_last', 'error'), 1, 'is a metric, too');

# --- The exporter, while there is an error to be told

SKIP:
{
	my $exporter = tool('prometheus-postgres-exporter');

	skip 'postgres_exporter is not installed', 1 unless $exporter;
	my $port = PostgreSQL::Test::Cluster::get_free_port();
	my $log = '';
	local $ENV{DATA_SOURCE_NAME} =
	  'user=exporter dbname=postgres sslmode=disable host=' . $node->host . ' port=' . $node->port;
	my $run = IPC::Run::start([ $exporter, "--web.listen-address=127.0.0.1:$port", '--disable-default-metrics',
			'--extend.query-path=' . "$FindBin::RealBin/../../doc/monitoring/postgres_exporter.yaml" ],
		'<', '/dev/null', '>&', \$log);
	my $served = '';

	wait_for(sub {
		IPC::Run::pump_nb($run);
		$served = HTTP::Tiny->new(timeout => 30)->get("http://127.0.0.1:$port/metrics")->{content} // '';
		return $served =~ /^snowflake/m;
	});
	$run->kill_kill;
	my @missing = grep { $served !~ /^\Q$_\E(\{|\s)/m } grep { !/^snowflake_(?:waiting|lease|registry)/ } sort keys %labels;
	is("@missing", '', 'the exporter serves the metrics') or diag($log);
	like($served, qr/^# TYPE snowflake_shard_minted_total counter$/m, 'with their types');
	like($served, qr/^snowflake_shard_minted_total\{[^}]*shard="3"[^}]*\} 10$/m, 'and their values');
	like($served, qr/^snowflake_last_error\{reason="could not write file .*No space left on device"[^}]*\} 1$/m, 'and the reason');
}
set_disk($node, '');
is(values_of('snowflake_lease', 'shards'), '', 'a server without a registry has no lease to tell of');
$statements = "\\q\n";
$session->finish;
$node->stop;

# --- A registry and servers that lease from it, each of which has an exporter

my $registry = new_registry('registry');

$registry->safe_psql('postgres', "SELECT snowflake_registry_reserve(5, 'the test')");
my $leasing = leasing_server('leasing', $registry, '4,6', '60s');
my $unlucky = leasing_server('unlucky', $registry, '4,5,7', '60s');
$_->safe_psql('postgres', 'CREATE ROLE exporter LOGIN IN ROLE pg_monitor') for $leasing, $unlucky;
$registry->safe_psql('postgres', 'CREATE ROLE exporter LOGIN; GRANT SELECT ON snowflake_registry_summary TO exporter');
is_holding($leasing, '4,6', 'two shards are leased');
is_holding($unlucky, '7', 'and one of three');
is(values_of('snowflake_lease', 'shards', $leasing), 2, 'how many a server has');
is(values_of('snowflake_lease', 'refused', $leasing), 0, 'it lacks none');
is(values_of('snowflake_lease', 'refused', $unlucky), 2, 'the other server lacks two');
my $left = values_of('snowflake_lease', 'seconds_left', $leasing);
ok($left > 0 && $left <= 60, 'until when');
is(values_of('snowflake_lease', 'failing', $leasing), 0, 'the registry answers');
ok(abs(values_of('snowflake_lease', 'clock_ahead_seconds', $leasing)) < 5, 'the clocks agree');
is(values_of('snowflake_lease', 'losses', $leasing), 0, 'nothing is lost');
is_deeply([ (rows_of('snowflake_registry', $registry))[0] ], [ [ map { $_->{name} } @{ $queries{snowflake_registry}{columns} } ] ],
	'snowflake_registry gives its columns');
is( join(' ', map { values_of('snowflake_registry', $_, $registry) } 'shards', 'leased', 'reserved', 'free', 'holders'),
	'1024 3 1 1020 2', 'the whole fleet');
$registry->safe_psql('postgres', q(UPDATE snowflake_registry_shards SET holder = (SELECT holder FROM snowflake_registry_shards WHERE shard = 7) WHERE shard = 6));
change_settings($leasing, lease => '6s');
ok(wait_until($leasing, q(SELECT losses > 0 FROM snowflake_lease_status())), 'a lease is lost');
cmp_ok(values_of('snowflake_lease', 'losses', $leasing), '>', 0, 'that is seen, too');
$registry->stop('immediate');
ok(wait_until($leasing, q(SELECT state = 'ended' FROM snowflake_lease_status())), 'the registry is away');
is(values_of('snowflake_lease', 'failing', $leasing), 1, 'that is seen');
like(values_of('snowflake_last', 'reason', $leasing), qr/^could not reach the registry/, 'and why');
cmp_ok(values_of('snowflake_lease', 'seconds_left', $leasing), '<=', 0, 'the lease has ended');
$_->stop for $leasing, $unlucky;

# --- The dashboard and the alerts

sub strings_at
{
	my ($key, $in) = @_;

	return map { strings_at($key, $_) } @$in if ref $in eq 'ARRAY';
	return () unless ref $in eq 'HASH';
	return map { $_ eq $key && !ref $in->{$_} ? $in->{$_} : strings_at($key, $in->{$_}) } sort keys %$in;
}

my $dashboard = decode_json(page_text('doc/monitoring/grafana.json'));
my @shown = map { @{ $_->{targets} } } @{ $dashboard->{panels} };
my @exprs = (strings_at('expr', $dashboard), $alerts =~ /^ +expr: (.*)$/mg);
my @used = map { /\b(snowflake_\w+)/g } @exprs, strings_at('query', $dashboard->{templating});

cmp_ok(scalar(@exprs), '>', 15, 'there are expressions');
is_deeply([ grep { !$labels{$_} } @used ], [], 'they use metrics that there are');
is_deeply([ grep { my $metric = $_; !grep { $_ eq $metric } @used } sort keys %labels ], [], 'and all of them');
for my $target (@shown)
{
	my ($metric) = $target->{expr} =~ /\b(snowflake_\w+)/;
	my @unknown = grep { my $label = $_; !grep { $_ eq $label } 'instance', @{ $labels{$metric} } }
	  $target->{legendFormat} =~ /\{\{(\w+)\}\}/g;
	is("@unknown", '', "$metric: its legend is of its labels");
}
is(scalar(keys %{ { map { $_->{id} => 1 } @{ $dashboard->{panels} } } }), scalar(@{ $dashboard->{panels} }), 'panels have ids of their own');

SKIP:
{
	my $promtool = tool('promtool');

	skip 'promtool, of Prometheus, is not installed', 1 unless $promtool;
	# the dashboard's expressions, with its variables filled in, as rules
	append_to_file("$dir/dashboard.yaml", "groups:\n  - name: dashboard\n    rules:\n");
	append_to_file("$dir/dashboard.yaml", "      - record: panel:$_:x\n        expr: "
		  . ($exprs[$_] =~ s/\$__rate_interval/5m/gr =~ s/\$instance/.*/gr) . "\n") for 0 .. $#exprs;
	command_ok([ $promtool, 'check', 'rules', "$dir/dashboard.yaml" ], 'Prometheus understands the expressions');
	append_to_file("$dir/alerts.yaml", $alerts);
	command_ok([ $promtool, 'check', 'rules', "$dir/alerts.yaml" ], 'and the alerts');

	# a server to which all of it happens, and one to which nothing does but
	# that the first one mints its shard
	append_to_file("$dir/test.yaml", <<'YAML');
rule_files: [alerts.yaml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'snowflake_horizon_failing{instance="bad"}', values: '1x30'}
      - {series: 'snowflake_horizon_failing{instance="good"}', values: '0x30'}
      - {series: 'snowflake_horizon_clone{instance="bad"}', values: '1x30'}
      - {series: 'snowflake_horizon_clone{instance="good"}', values: '0x30'}
      - {series: 'snowflake_waiting_sessions{instance="bad",event="SnowflakeHorizon"}', values: '2x30'}
      - {series: 'snowflake_waiting_sessions{instance="good",event="SnowflakeExhausted"}', values: '2x30'}
      - {series: 'snowflake_shard_clock_behind_total{instance="bad",shard="5"}', values: '0+1x30'}
      - {series: 'snowflake_shard_clock_behind_total{instance="good",shard="5"}', values: '7x30'}
      - {series: 'snowflake_shard_waited_seconds_total{instance="bad",shard="5"}', values: '0+30x30'}
      - {series: 'snowflake_shard_waited_seconds_total{instance="good",shard="5"}', values: '0+1x30'}
      - {series: 'snowflake_shard_minted_total{instance="bad",shard="5"}', values: '0+9x30'}
      - {series: 'snowflake_shard_minted_total{instance="good",shard="5"}', values: '0+9x30'}
      - {series: 'snowflake_shard_minted_total{instance="good",shard="6"}', values: '0+9x30'}
      - {series: 'snowflake_lease_seconds_left{instance="bad"}', values: '-5x30'}
      - {series: 'snowflake_lease_seconds_left{instance="good"}', values: '300x30'}
      - {series: 'snowflake_lease_failing{instance="bad"}', values: '1x30'}
      - {series: 'snowflake_lease_failing{instance="good"}', values: '0x30'}
      - {series: 'snowflake_lease_refused{instance="bad"}', values: '2x30'}
      - {series: 'snowflake_lease_refused{instance="good"}', values: '0x30'}
      - {series: 'snowflake_lease_clock_ahead_seconds{instance="bad"}', values: '-60x30'}
      - {series: 'snowflake_lease_clock_ahead_seconds{instance="good"}', values: '0.3x30'}
      - {series: 'snowflake_lease_losses{instance="bad"}', values: '1x30'}
      - {series: 'snowflake_lease_losses{instance="good"}', values: '0x30'}
      - {series: 'snowflake_registry_free{instance="bad"}', values: '5x30'}
      - {series: 'snowflake_registry_free{instance="good"}', values: '900x30'}
      - {series: 'snowflake_registry_shards{instance="bad"}', values: '1024x30'}
      - {series: 'snowflake_registry_shards{instance="good"}', values: '1024x30'}
      - {series: 'snowflake_layout_expires_timestamp_seconds{instance="bad"}', values: '31000000x30'}
      - {series: 'snowflake_layout_expires_timestamp_seconds{instance="good"}', values: '33000000x30'}
      - {series: 'snowflake_mark_held_seconds{instance="bad",datname="shop"}', values: '0+60x30'}
      - {series: 'snowflake_mark_held_seconds{instance="good",datname="shop"}', values: '1x30'}
    promql_expr_test:
      - expr: count by (alertname, instance, shard) (ALERTS{alertstate="firing"})
        eval_time: 30m
        exp_samples:
          - {labels: '{alertname="SnowflakeCannotMint", instance="bad"}', value: 1}
          - {labels: '{alertname="SnowflakeHorizonStuck", instance="bad"}', value: 1}
          - {labels: '{alertname="SnowflakeClone", instance="bad"}', value: 1}
          - {labels: '{alertname="SnowflakeClockBehind", instance="bad"}', value: 1}
          - {labels: '{alertname="SnowflakeShardExhausted", instance="bad", shard="5"}', value: 1}
          - {labels: '{alertname="SnowflakeShardOfTwo", shard="5"}', value: 1}
          - {labels: '{alertname="SnowflakeMarkHeld", instance="bad"}', value: 1}
          - {labels: '{alertname="SnowflakeLeaseEnded", instance="bad"}', value: 1}
          - {labels: '{alertname="SnowflakeRegistryAway", instance="bad"}', value: 1}
          - {labels: '{alertname="SnowflakeLeaseRefused", instance="bad"}', value: 1}
          - {labels: '{alertname="SnowflakeLeaseClock", instance="bad"}', value: 1}
          - {labels: '{alertname="SnowflakeLeaseLost", instance="bad"}', value: 1}
          - {labels: '{alertname="SnowflakeRegistryExhausted", instance="bad"}', value: 1}
          - {labels: '{alertname="SnowflakeLayoutExpires", instance="bad"}', value: 1}
YAML
	my ($out, $err) = run_command([ $promtool, 'test', 'rules', "$dir/test.yaml" ]);
	like($out, qr/SUCCESS/, 'each alert comes when it should, and for whom') or diag($out, $err);
}

done_testing();
