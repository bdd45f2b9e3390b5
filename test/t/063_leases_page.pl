# doc/leases.md does what it says: a registry and servers are set up as it tells,
# and each example runs on the server that it names.
#
# Majors: ends

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

# Run an example, again and again if it says so.
sub run_one
{
	my ($sql, $shown) = @_;
	my ($name, $how) = $sql =~ /\A-- on (\w+)(.*)\n/ or die "not said where to run: $sql";
	my $node = $server{$name} // die "there is no server $name";

	if ($how eq ', until it says t')
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
