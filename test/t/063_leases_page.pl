# doc/leases.md does what it says: a registry and servers are set up as it tells,
# and each example runs on the server that it names.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeaseTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $text = page_text('doc/leases.md');
my $registry = PostgreSQL::Test::Cluster->new('registry');

$registry->init;
$registry->append_conf('postgresql.conf', "shared_preload_libraries = ''\n");
$registry->start;

my $setting = registry_setting($registry);
my %server = (
	registry => $registry,
	lima => new_server('lima', conf => "snowflake.shards = '40-41'\n"));

# In a schema of its own, in the database of somebody who is no superuser, all that the
# pages say is typed as it stands: set up, lease, look, and export.
sub in_own_schema
{
	my ($begin) = @_;
	my ($set_up) = grep { $_->[1] =~ /CREATE ROLE ids/ } fenced_blocks($text);
	my ($grant) = page_text('doc/monitoring.md') =~ /^(GRANT SELECT ON snowflake_registry_summary TO exporter;)$/m;
	my ($export) = page_text('doc/monitoring/registry_exporter.yaml') =~ /query: (?:"|[|>]-?\s*)?(SELECT.*?)(?:"?\n\s*(?:master|metrics|cache))/s;
	my ($usage) = page_text('doc/monitoring.md') =~ /`(GRANT USAGE ON SCHEMA[^`]+)`/;

	$registry->safe_psql('postgres', 'CREATE ROLE owner LOGIN; CREATE DATABASE own OWNER owner');
	$registry->safe_psql('own', $begin =~ s/ALTER DATABASE registry/ALTER DATABASE own/r);
	$registry->safe_psql('own', $set_up->[1] =~ s/CREATE (?:EXTENSION|ROLE).*//gr);
	my $server = new_server('own_schema', conf => "snowflake.registry = '" . registry_setting($registry, 'own') . "'\nsnowflake.shards = 'auto:2'\n");
	is_holding($server, '0,1', 'a registry in a schema of its own leases');
	for my $block (grep { $_->[1] =~ /-- on registry\n.*(?:_leases|_summary|_reserve|_fence)/s } fenced_blocks($text))
	{
		ok(defined eval { $registry->safe_psql('own', $block->[1]) }, 'it has what the page shows: ' . ($block->[1] =~ /\n(.*)/)[0]) or diag($@);
	}
	$registry->safe_psql('own', "CREATE ROLE exporter LOGIN; $usage; $grant");
	like($registry->safe_psql('own', $export, extra_params => [ '-U', 'exporter' ]), qr/^1024\|2\|1\|/, 'and is exported');
	$server->stop;
	return;
}

# Run an example, again and again if it says so.
sub run_one
{
	my ($sql, $shown) = @_;
	my ($name, $how) = $sql =~ /\A-- on (\w+)(.*)\n/ or die "not said where to run: $sql";
	my $node = $server{$name} // die "there is no server $name";

	if ($how eq ', in a schema of its own')
	{
		in_own_schema($sql);
	}
	elsif ($how eq ', until it says t')
	{
		ok(wait_until($node, $sql), "$name: " . ($sql =~ /\n(\S.*)/)[0]);
	}
	elsif ($how eq ', then restart it')
	{
		$node->safe_psql('postgres', $_) for grep { /\S/ } split(/(?<=;)\n/, $sql);
		$node->restart;
	}
	elsif ($how =~ /^, fails with (\w+)$/)
	{
		fails_with($node, $sql, $1, qr/./, "$name: refused");
	}
	else
	{
		page_runs($node, "leases, on $name", "```sql\n$sql```\n" . (defined $shown ? "```text\n$shown```\n" : ''));
	}
	return;
}

my @blocks = map { [ $_->[0], $_->[1] =~ s/host=registry\.example dbname=registry user=ids/$setting/gr ] } fenced_blocks($text);

for my $i (0 .. $#blocks)
{
	my ($language, $what) = @{ $blocks[$i] };

	if ($language eq 'conf')
	{
		# on all servers but that with a list, one after the other
		for my $name ('paris', 'tokyo')
		{
			$server{$name} = new_server($name, conf => $what);
			is_holding($server{$name}, $name eq 'paris' ? '0,1' : '2,3', "$name has two shards of its own");
		}
	}
	elsif ($language eq 'sql')
	{
		run_one($what, $i < $#blocks && $blocks[ $i + 1 ][0] eq 'text' ? $blocks[ $i + 1 ][1] : undef);
	}
}

$_->stop for values %server;
done_testing();
