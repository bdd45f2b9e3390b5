# The shell scripts of doc/servers.md, which give servers their shards, as the
# page has them; and a server that gets them on its command line.  The SQL of
# the page is run by 021_doc.pl.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $page = slurp_file("$FindBin::RealBin/../../doc/servers.md");
my %blocks;
push @{ $blocks{$1} }, $2 while $page =~ /^```(\w*)\n(.*?)^```$/msg;
my ($by_list, $by_pod) = @{ $blocks{sh} };
my (undef, $list) = @{ $blocks{''} };    # first, the registry's
my ($include) = $page =~ /`(include_dir = [^`]+)`/;

my $node = new_server('identity', conf => '');
my $data = $node->data_dir;
my $conf = "$data/conf.d/shards.conf";

mkdir "$data/conf.d";
append_to_file("$data/shards.txt", $list);
$node->append_conf('postgresql.conf', $include);

# Run a script in the data directory, on a host of that name.
my $bin = PostgreSQL::Test::Utils::tempdir();
append_to_file("$bin/hostname", "#!/bin/sh\necho \"\$HOST\"\n");
chmod(0755, "$bin/hostname");

sub run_on
{
	my ($host, $script) = @_;
	my ($out, $err) = ('', '');

	local $ENV{HOST} = $host;
	local $ENV{PER_POD} = 4;
	local $ENV{PATH} = "$bin:$ENV{PATH}";
	unlink $conf;
	my $good = IPC::Run::run([ 'sh', '-c', "cd '$data' && $script" ], '>', \$out, '2>', \$err);
	return ($good, $err);
}

sub mints_on
{
	my ($shard, $name) = @_;

	reload($node);
	ok(wait_until($node, "SELECT snowflake_shard(snowflake_nextval()) = $shard"), $name);
	return;
}

append_to_file($conf, "snowflake.shards = '99'\n");
reload($node);
mints_on(99, 'include_dir is in force');
for ([ 'db-b', 16, '16-23' ], [ 'db-a', 8, '8-15' ])
{
	my ($host, $shard, $shards) = @$_;

	ok((run_on($host, $by_list))[0], "$host is in the list");
	mints_on($shard, "and mints on shard $shard");
	is($node->safe_psql('postgres', 'SHOW snowflake.shards'), $shards, "one of $shards");
}
ok(!(run_on('db-c', $by_list))[0], 'db-c is not, and the script fails');

for ([ 'ids-3', 12, '12-15' ], [ 'my-own-ids-10', 40, '40-43' ])
{
	my ($pod, $shard, $shards) = @$_;

	is_deeply([ run_on($pod, $by_pod) ], [ 1, '' ], "pod $pod has a number");
	mints_on($shard, "and mints on shard $shard");
	is($node->safe_psql('postgres', 'SHOW snowflake.shards'), $shards, "one of $shards");
}
for my $pod ('ids', 'ids-', 'ids-x7', 'ids-0-a')
{
	my ($good, $err) = run_on($pod, $by_pod);

	ok(!$good && $err eq "no number at the end of \"$pod\"\n", "pod $pod has none, and the script says so");
	ok(!-e $conf, 'and writes nothing');
}

# Cut off anywhere, they leave the file as it was: on a server that is not named, and killed in
# any command that they call.
for my $script ($by_list, $by_pod)
{
	for my $cut ('', grep { $script =~ /\b$_\b/ } 'hostname', 'awk', 'mv')
	{
		my $stubs = PostgreSQL::Test::Utils::tempdir();

		unlink $conf;
		append_to_file($conf, "snowflake.shards = '99'\n");
		append_to_file("$stubs/$_", $_ eq $cut ? "#!/bin/sh\nkill -KILL \$PPID\n" : "#!/bin/sh\necho nobody\n") for grep { $_ } 'hostname', $cut;
		chmod(0755, glob("$stubs/*"));
		local $ENV{PATH} = "$stubs:$ENV{PATH}";
		local $ENV{PER_POD} = 4;
		IPC::Run::run([ 'sh', '-c', "cd '$data' && $script" ], '>', \my $out, '2>', \my $err);
		is(slurp_file($conf), "snowflake.shards = '99'\n", 'the file of shards stays' . ($cut && ", cut off in $cut"));
	}
}

# --- on the command line, which goes before files and ALTER SYSTEM
append_to_file($conf, "snowflake.shards = '99'\n");
$node->safe_psql('postgres', "ALTER SYSTEM SET snowflake.shards = '98'");
$node->stop;
# the manifest's argument, as Kubernetes would expand it
my ($argument) = $page =~ /"(snowflake\.shards=\$\(POD_INDEX\))"/;
$argument =~ s/\$\(POD_INDEX\)/3/;
system_or_bail('pg_ctl', '-w', '-D', $data, '-l', $node->logfile, '-o', "-c $argument", 'start');
is($node->safe_psql('postgres', 'SELECT snowflake_shard(snowflake_nextval())'), 3, '-c goes before files and ALTER SYSTEM');
$node->safe_psql('postgres', "ALTER DATABASE postgres SET snowflake.shards = '97'");
is($node->safe_psql('postgres', 'SELECT snowflake_shard(snowflake_nextval())'), 97, 'but not before ALTER DATABASE');
fails_with($node, 'SELECT snowflake_nextval(3)', '42501', qr/shard 3 is not one of this server's/,
	"whose sessions mint on no other's");

# --- and by role, in one database
$node->safe_psql('postgres', <<'SQL');
CREATE ROLE importer LOGIN;
ALTER ROLE importer IN DATABASE postgres SET snowflake.shards = '900-907';
SQL
is($node->safe_psql('postgres', 'SELECT snowflake_shard(snowflake_nextval())', extra_params => [ '-U', 'importer' ]),
	900, 'nor before ALTER ROLE');
system_or_bail('pg_ctl', '-w', '-D', $data, 'stop');

done_testing();
