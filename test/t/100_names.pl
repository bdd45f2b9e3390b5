# Names: our packages and those of another extension of the same name.  dpkg, with dummies
# that have the fields of both, refuses the second one in either order, and removes none
# unasked.  The packages, CloudNativePG's metadata and llms.txt say what is true.
#
# Majors: one

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $top = "$FindBin::RealBin/../..";
my $control = slurp_file("$top/debian/control.in") =~ s/^#.*\n//mgr =~ s/PGVERSION/17/gr;
my ($package) = $control =~ /^Package: (\S+)$/m;
my ($conflicts) = $control =~ /^Conflicts:\n?((?: .*\n)+)/m;
my $spec = slurp_file("$top/rpm/postgresql-snowflake.spec");

# --- Debian's: theirs has these fields since 2026-07-31

my %fields = (
	ours => "Package: $package\nConflicts: " . join(', ', $conflicts =~ /([\w-]+)/g) . "\n",
	theirs => "Package: pgedge-postgresql-17-snowflake\n" . join('', map { "$_: postgresql-17-snowflake\n" } qw(Conflicts Provides Replaces Breaks)));
my $dir = PostgreSQL::Test::Utils::tempdir();

sub dpkg
{
	my ($root, @arguments) = @_;
	my ($out, $err) = ('', '');
	local $ENV{PATH} = "$ENV{PATH}:/usr/sbin:/sbin";
	my $good = IPC::Run::run([ 'dpkg', "--root=$root", '--force-not-root', '--force-script-chrootless', '--log=/dev/null', @arguments ], '<', '/dev/null', '>', \$out, '2>', \$err);
	return ($good, $out . $err);
}

sub installed
{
	my ($root) = @_;
	return join(' ', sort((dpkg($root, '--list'))[1] =~ /^ii +([\w-]+)/mg));
}

# A Debian without anything but dpkg's own files
sub empty_root
{
	my $root = "$dir/root" . scalar(() = glob("$dir/root*"));
	system_or_bail('mkdir', '-p', "$root/var/lib/dpkg/updates", "$root/var/lib/dpkg/info");
	append_to_file("$root/var/lib/dpkg/$_", '') for qw(status available);
	return $root;
}

sub names_of { return $fields{ $_[0] } =~ /^Package: (\S+)/ ? $1 : die; }

SKIP:
{
	skip('there is no dpkg', 1) unless grep { -x "$_/dpkg-deb" } split(/:/, $ENV{PATH});

	for my $which (sort keys %fields)
	{
		mkdir("$dir/$_") for $which, "$which/DEBIAN";
		append_to_file("$dir/$which/DEBIAN/control", $fields{$which} . "Version: 1.0\nArchitecture: all\nMaintainer: nobody\nDescription: a dummy\n");
		system_or_bail('dpkg-deb', '--root-owner-group', '--build', "$dir/$which", "$dir/$which.deb");
	}
	for my $order ([qw(ours theirs)], [qw(theirs ours)])
	{
		my ($first, $second) = @$order;
		my $root = empty_root();

		ok((dpkg($root, '--install', "$dir/$first.deb"))[0], "$first is installed");
		my ($good, $said) = dpkg($root, '--install', "$dir/$second.deb");
		ok(!$good, "$second is refused");
		like($said, qr/conflict/, 'with the reason');
		is(installed($root), names_of($first), "$first is still there, alone");
	}
}

# --- RPM: the field's form of a name, with what has the same files

my ($name) = $spec =~ /^Name: +(\S+)$/m;
like($name, qr/^\w+_%\{pgmajorversion\}$/, "the RPM's name is NAME_MAJOR, as in the field");
my @rivals = $spec =~ /^Conflicts: +(\S+)$/mg;
is(join(' ', @rivals), 'snowflake_%{pgmajorversion} pgedge-snowflake_%{pgmajorversion}', 'and it says what it conflicts with');
unlike($spec, qr/^(?:Obsoletes|Provides):.*snowflake/m, 'and takes the place of none');

# --- CloudNativePG's metadata

my $metadata = slurp_file("$top/kubernetes/metadata.hcl");
my ($version) = slurp_file("$top/debian/changelog") =~ /\((\S+)\)/;
my ($sql) = slurp_file("$top/snowflake.control") =~ /default_version = '(.*)'/;
is_deeply([ $metadata =~ /package = "(.*)"\n\s+sql +=\s"(.*)"/ ], [ $version, $sql ], 'the metadata has the versions');
like($metadata, qr/sql_name += "snowflake".*shared_preload_libraries = \["snowflake"\]/s, 'and what is created and preloaded');

# --- llms.txt: its statements run, and its links lead somewhere

my $facts = slurp_file("$top/llms.txt");
my $node = new_server('llms', conf => "snowflake.shards = '5'");
page_runs($node, 'llms.txt', $facts);
is_deeply([ grep { !-e "$top/$_" } $facts =~ /\]\(([^)#]+)/g ], [], 'its links lead somewhere');
is(scalar(() = $facts =~ /^\d+\. /mg), 10, 'it has ten facts');
is_deeply([ grep { $node->safe_psql('postgres', "SELECT count(*) FROM pg_proc WHERE proname = '$_'") eq '0' } $facts =~ /\b(snowflake_\w+)\(/g ], [], 'its functions exist');

done_testing();
