# packages.pl -- build snowflake's packages, install them and run their tests
#
#   perl test/packages.pl MAJOR SUITE
#
# for a Debian release and the major of PostgreSQL that it has, such as
# 15 bookworm.  Needs root, the network, and mmdebstrap.  Everything happens in
# copies of a bare Debian that is made for this.  It checks
#
#   doc/install.md  by a user with sudo, with the commands and the SQL of the page
#                 and no other: the package is built with its tests, installed,
#                 configured, mints, is upgraded, and is uninstalled without a
#                 trace, and all rows stay; the same from source
#   debian/       lintian looks at that package, and autopkgtest tests it in a
#                 Debian that has the server alone
#   make dist     of the last commit: both archives, built and installed by
#                 PGXN's client
#   rpm/          built from the archive with rpmbuild, in PGDG's directories

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/perl";

use BareDebian;
use Test::More;
use Tool;

die "usage: perl test/packages.pl MAJOR SUITE\n" if @ARGV != 2;
my ($major, $suite) = @ARGV;
my @tools = qw(elfutils git lintian pgxnclient rpm rpmlint unzip);

# Commands of the user
sub build
{
	my ($commands) = @_;
	return as_user($commands, "PATH=/usr/lib/postgresql/$major/bin:/usr/local/bin:/usr/bin:/bin", "TMPDIR=$home/tmp");
}

# Of another Debian, which has the server
sub prepare_plain { return copy_debian('bare', 'plain') && install_in("$dir/plain", "postgresql-$major") }

# --- The page

# What the page has under a heading: commands as they are, SQL for psql, for this
# major.  With "text", what it shows.
sub page
{
	my ($heading, $wanted) = @_;
	my $text = '';

	for my $block (blocks_under('doc/install.md', $heading, $wanted ? [$wanted] : [ 'sh', 'sql' ]))
	{
		my ($language, $code) = @$block;
		$code = "sudo -u postgres psql -X -v ON_ERROR_STOP=1 <<'END OF SQL'\n${code}END OF SQL\n"
		  if $language eq 'sql';
		$text .= $code;
	}
	return $text =~ s/\b15\b/$major/gr;
}

sub lines_of { return map { s/-+/-/gr =~ s/ +/ /gr =~ s/ $//r } split(/\n/, $_[0]) }

# Is each line that the page shows under a heading in the log?
sub is_shown
{
	my ($heading) = @_;
	my @shown = lines_of(page($heading, 'text'));
	my %printed = map { $_ => 1 } lines_of(logged());
	my @missing = grep { !$printed{$_} } @shown;

	diag("not in the output: $_") for @missing;
	return @shown && !@missing;
}

# What is installed: set up the server, and mint.  No process outlives a build.
sub sets_up
{
	return build(page('Before the first start: layout and shards')
		  . page('The first id')
		  . "sudo pg_ctlcluster $major main stop")
	  && is_shown('The first id');
}

# A later package is this one with another version.
sub upgrades
{
	my $upgrade = page('Upgrade');
	return build(<<"SH");
mkdir ../released
mv ../postgresql-$major-snowflake-ids_*.deb ../released/
dpkg-deb --raw-extract ../released/*.deb ../later
sed -i 's/^Version: .*/&.1/' ../later/DEBIAN/control
dpkg-deb --root-owner-group --build ../later ..
sudo pg_ctlcluster $major main start
$upgrade
sudo pg_ctlcluster $major main stop
dpkg-query --show postgresql-$major-snowflake-ids | grep '\\.1\$'
rm ../postgresql-$major-snowflake-ids_*.deb
mv ../released/*.deb ..
SH
}

# Afterwards the server runs, has the rows, and nothing of ours stays.
sub uninstalls
{
	my $uninstall = page('Uninstall');
	return build(<<"SH") && is_shown('Uninstall') && nothing_is_left(qw(etc usr var));
sudo pg_ctlcluster $major main start
$uninstall
sudo pg_ctlcluster $major main restart
sudo -u postgres psql -XAtc 'SELECT count(*), pg_typeof(max(id)) FROM photos' | grep -x '3|bigint'
sudo pg_ctlcluster $major main stop
SH
}

# --- Debian's package

# In a Debian that has the server, and that nobody has made ready for us.
sub test_package
{
	my $tested = "$dir/tested";
	return
		 copy_debian('plain', 'tested')
	  && install_in($tested, 'autopkgtest')
	  && run('sh', '-c', 'cp -a "$0"/*.deb "$0/tree" "$1/tmp/"', "$root$home", $tested)    # debian/control is of this major
	  && enter($tested, 'bash', '-euxc', "cd /tmp\nautopkgtest ./postgresql-$major-snowflake-ids_*.deb ./tree -- null");
}

# --- The archives, of the last commit

# "make dist" wants git, and the source tree may be somebody else's.
sub clone
{
	return run(qw(git -c safe.directory=* clone --quiet --no-local --depth 1), "file://$top", "$root$home/clone")
	  && own("$home/clone");
}

# As PGXN's users install it
sub install_from_pgxn
{
	return enter($root, 'bash', '-euxc', <<"SH");
pgxn install --nosudo --pg_config /usr/lib/postgresql/$major/bin/pg_config $home/clone/snowflake-*.zip
ls /usr/lib/postgresql/$major/lib/snowflake.so
SH
}

# --- The RPM

# PGDG has each major in a directory of its own; Debian's pg_config tells of
# Debian's.  This one says where things would go.
sub make_pgdg_directory
{
	return enter($root, 'sh', '-euc', <<"SH");
mkdir -p /usr/pgsql-$major/bin
cat >/usr/pgsql-$major/bin/pg_config <<'END'
#!/bin/sh
case \$1 in
    --sharedir) echo /usr/pgsql-$major/share ;;
    --pkglibdir) echo /usr/pgsql-$major/lib ;;
    --docdir) echo /usr/pgsql-$major/doc ;;
    *) exec /usr/lib/postgresql/$major/bin/pg_config "\$@" ;;
esac
END
chmod 755 /usr/pgsql-$major/bin/pg_config
SH
}

# Its dependencies are those of another distribution.
sub builds_rpm
{
	my $commands = page('As an RPM') =~ s/rpmbuild -bb/$& --nodeps/r;
	return make_pgdg_directory() && build(<<"SH");
cd ../clone
$commands
rpm -qlp ~/rpmbuild/RPMS/*/snowflake_ids_$major-[0-9]*.rpm | grep /usr/pgsql-$major/lib/snowflake.so
! rpm -qlp ~/rpmbuild/RPMS/*/snowflake_ids_$major-[0-9]*.rpm | grep /usr/lib/postgresql
SH
}

# ---------------------------------------------------------------------------

if (!check('Debian: is prepared', make_debian($suite, 'builder', 'sudo') && prepare_plain()))
{
	done_testing();
	exit;
}

use_debian('sourced', '/tmp');
if (check('install.md: builds and installs from source', build(page('From source'))))
{
	check('install.md: the server mints', sets_up());
	check('install.md: make uninstall leaves nothing', build('sudo make uninstall') && nothing_is_left('usr'));
}

use_debian('builder', '/tmp');
if (check('install.md: builds a Debian package, which passes its tests, and installs it', build(page('From packages'))))
{
	check('install.md: the server mints', sets_up());
	check('install.md: upgrades', upgrades());
	check('install.md: uninstalls without a trace, and all rows stay', uninstalls());
	install_in($root, @tools) or die logged();
	check('Debian: lintian finds no error', build('lintian --fail-on error ../*.changes'));
	check('Debian: autopkgtest passes on the installed package', test_package());
}

SKIP:
{
	skip('no git repository here', 1) if !-e "$top/.git";
	check('make dist: is made of what is committed', clone()) or last;
	check('make dist: makes two archives of the same files', build(<<'SH')) or last;
cd ../clone
make dist
mkdir tar zip
tar -xf snowflake-*.tar.gz -C tar
unzip -q snowflake-*.zip -d zip
diff -r tar zip
SH
	check("make dist: PGXN's client builds and installs the zip", install_from_pgxn());
	check('RPM: rpmlint finds no error in the spec', build('rpmlint ../clone/rpm/postgresql-snowflake.spec'));
	check('install.md: builds an RPM', builds_rpm());
}

done_testing();
