# The image of the extension for Kubernetes: kubernetes/Dockerfile puts exactly the
# files into it that CloudNativePG looks for, and a server that has the extension
# from such a directory alone runs with the settings of kubernetes/photos.yaml.
#
# From PostgreSQL 18 on, which has extension_control_path.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use File::Copy qw(copy);
use File::Find;
use File::Path qw(make_path);
use LeaseTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $top = "$FindBin::RealBin/../..";
my $pg_config = sub { chomp(my $value = `pg_config --$_[0]`); return $value };

plan skip_all => 'extensions are found in other directories from PostgreSQL 18 on' if $pg_config->('version') =~ / (\d+)/ && $1 < 18;

my $dockerfile = page_text('kubernetes/Dockerfile') =~ s/\\\n//gr;
my $manifest = page_text('kubernetes/photos.yaml');

# --- The files: "make install", as the Dockerfile calls it, and its COPY lines.  This
# --- server may have its files in other directories than the image's.

my $stage = PostgreSQL::Test::Utils::tempdir();
my $image = PostgreSQL::Test::Utils::tempdir();
my ($install) = $dockerfile =~ /&&\s+make -C \S+ \S+ (.* install DESTDIR=)\/stage$/m;
{
	# not those of the "make installcheck" that runs this
	delete local @ENV{qw(MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES IN_INSTALLCHECK)};
	command_ok([ 'make', '-s', '-C', $top, split(/ /, $install . $stage) ], "make $install...");
}

my ($last) = $dockerfile =~ /^FROM scratch\n(.*)/ms;
while ($last =~ /^COPY --from=build (\S+) (\S+)\/$/mg)
{
	my ($from, $to) = ($1, "$image$2");

	$from =~ s/^\/usr\/src\/snowflake/$top/;
	$from =~ s/^\/stage/$stage/;
	$from =~ s/\/usr\/lib\/postgresql\/\$\{PG_MAJOR\}\/lib\b/$pg_config->('pkglibdir')/e;
	$from =~ s/\/usr\/share\/postgresql\/\$\{PG_MAJOR\}(?=\/)/$pg_config->('sharedir')/e;
	make_path($to);
	copy($_, $to) or die "could not copy $_: $!" for $from =~ /\/$/ ? glob("$from*") : $from;
}

# The instructions of the image itself, and its user, as for each of CloudNativePG's
is_deeply([ $last =~ /^([A-Z]+) /mg ], [ qw(ARG ARG COPY COPY COPY LABEL USER) ], 'the image runs nothing: it is files');
is((split(/\n/, $last))[-1], 'USER 65532:65532', 'its user is nobody of the image of the server');
my ($base) = $dockerfile =~ /^FROM (\S+) AS build$/m;
$base =~ s/\$\{(\w+)\}/($dockerfile =~ m{^ARG $1=(\w+)$}m)[0]/ge;
is($base, ($manifest =~ /^  imageName: (\S+)$/m)[0], 'it is built in the image of the server that the manifest runs');
is(($last =~ /sql\.version="([^"]*)"/)[0], (page_text('snowflake.control') =~ /^default_version = '(.*)'$/m)[0], 'its label has the version of the extension');
is(($last =~ /licenses="([^"]*)"/)[0], (page_text('META.json') =~ /"license": "(.*)"/)[0] =~ s/postgresql/PostgreSQL/r, 'and the licence');

my @hidden;
find({ no_chdir => 1, wanted => sub { push @hidden, $_ if ((stat)[2] & 0444) != 0444 } }, $stage . $pg_config->('pkglibdir'), $stage . $pg_config->('sharedir'));
is_deeply(\@hidden, [], 'and the server, which is another user, can read each file');

my @files;
find({ no_chdir => 1, wanted => sub { push @files, $File::Find::name =~ s/^\Q$image\E//r if -f } }, $image);
is_deeply([ sort @files ], [
		'/lib/snowflake.so', '/licenses/snowflake/LICENSE',
		map { "/share/extension/$_" } 'snowflake--1.0.sql', 'snowflake.control', 'snowflake_plain--1.0.sql', 'snowflake_plain.control', 'snowflake_registry--1.0.sql', 'snowflake_registry.control'
	], 'the image has what CloudNativePG looks for, and nothing else');
my @needed = `readelf -d '$image/lib/snowflake.so'` =~ /\(NEEDED\).*\[(.*)\]/g;
ok((grep { /^libpq\.so/ } @needed), 'its library is a client of libpq');
is_deeply([ grep { !/^(?:libpq\.so\.5|libc\.so\.6|ld-linux.*)$/ } @needed ], [], 'and needs no library that the image of a server lacks');

# --- The manifest

my ($major) = $dockerfile =~ /^ARG PG_MAJOR=(\d+)$/m;
my ($debian) = $dockerfile =~ /^ARG DEBIAN=(\w+)$/m;
like($manifest, qr/^  imageName: \S+:$major-minimal-$debian$/m, 'the manifest has the image of a server that fits');
like($manifest, qr/^          reference: \S+-$major-$debian$/m, 'and that of the extension');
ok(index($dockerfile, ($manifest =~ /reference: (\S+)/)[0]) >= 0, 'by the name under which it is built');
SKIP:
{
	skip('Python has no YAML here', 1) if system(q{python3 -c 'import yaml' 2>/dev/null});
	my ($documents) = run_command([ 'python3', '-c', 'import sys, yaml; print(len(list(yaml.safe_load_all(open(sys.argv[1])))))', "$top/kubernetes/photos.yaml" ]);
	is($documents, 2, 'it is YAML');
}
my ($shown) = map { $_->[1] } grep { $_->[0] eq 'yaml' } fenced_blocks(page_text('doc/install.md'));
is_deeply([ grep { index($manifest, "$_\n") < 0 } split(/\n/, $shown) ], [], 'doc/install.md shows lines of it');

# --- A server with these settings, and the extension from that directory

my $registry = new_registry('registry');
my ($parameters) = $manifest =~ /^    parameters:\n((?:      .*\n)+)/m;
my ($libraries) = $manifest =~ /^    shared_preload_libraries:\n((?:      - .*\n)+)/m;
my %setting = $parameters =~ /^      ([\w.]+): (.*)$/mg;

is_deeply([ sort keys %setting ], [ map { "snowflake.$_" } 'layout', 'registry', 'shards' ], 'the manifest has the settings');
like($setting{'snowflake.registry'}, qr/\/projected\/$_\b/, "and where its $_ is") for $manifest =~ /^              path: (\S+)$/mg;
my ($mode) = $manifest =~ /^  projectedVolumeTemplate:.*\n    defaultMode: (\d+) /m;
is(oct($mode // '0644') & 037, 0, 'libpq takes a key of root that its group can read, and others cannot');
$setting{'snowflake.registry'} = registry_setting($registry);    # ours knows no certificate

my $node = PostgreSQL::Test::Cluster->new('photos');
$node->init;
$node->append_conf('postgresql.conf', join("\n",
		"shared_preload_libraries = '" . join(', ', $libraries =~ /- (\w+)/g) . "'",
		(map { "$_ = '$setting{$_}'" } sort keys %setting),
		"dynamic_library_path = '$image/lib:\$libdir'",
		"extension_control_path = '$image/share:\$system'"));
$node->start;

my $pid = postmaster_pid($node);
like(slurp_file("/proc/$pid/maps"), qr/\Q$image\E\/lib\/snowflake\.so$/m, 'the server has the library of the image');
$node->safe_psql('postgres', 'CREATE EXTENSION snowflake');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_extension WHERE extname = 'snowflake'}), 1, 'and finds the extension');
ok(wait_until($node, q(SELECT state = 'held' AND shards = 2 FROM snowflake_lease_status())), 'it leases shards');
is($node->safe_psql('postgres', q{SELECT id > now() - interval '1 min' FROM (SELECT snowflake_nextval() AS id) AS minted}), 't', 'and mints');

# --- Nothing of that came from elsewhere: without the two lines it does not start

$node->stop;
$node->append_conf('postgresql.conf', "dynamic_library_path = '\$libdir'");
SKIP:
{
	skip('this server has snowflake installed', 1) if -e $pg_config->('pkglibdir') . '/snowflake.so';
	ok(!$node->start(fail_ok => 1), 'without the directory the server does not start');
}

done_testing();
