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

use File::Basename qw(basename);
use File::Path qw(make_path);
use File::Temp qw(tempdir);
use POSIX qw(WNOHANG);
use Test::More;
use Tool;

my $main = $$;
die "usage: perl test/packages.pl MAJOR SUITE\n" if @ARGV != 2;
die "making a Debian needs root\n" if $> != 0;
my ($major, $suite) = @ARGV;
my $page = slurp("$top/doc/install.md");
my @tools = qw(elfutils git lintian pgxnclient rpm rpmlint unzip);
my $user = 'builder';
my $dir = tempdir('/var/tmp/snowflake-packages.XXXXXX');
my $log = "$dir/log";    # of the last command
my $root;                # the Debian in use,
my $home;                # and as seen in there, the user's directory, with the tree

$ENV{LC_ALL} = 'C';
chmod(0755, $dir);

# --- Commands
#
# However this ends, so does the command that runs, and the directory is removed.

my $child;

$SIG{$_} = sub { exit(1) } for qw(INT TERM HUP);

END
{
	my $status = $?;
	if ($$ == $main)
	{
		$SIG{$_} = 'IGNORE' for qw(INT TERM HUP);
		# mmdebstrap unmounts what it has mounted; unshare takes no polite word
		kill('TERM', $child) if $child;
		for (1 .. 70)
		{
			last if !$child || waitpid($child, WNOHANG);
			select(undef, undef, undef, 0.1);
		}
		kill('KILL', $child) && waitpid($child, 0) if $child;
		# takes long, and check.sh kills the group of its tests after some seconds
		system('setsid', 'rm', '-rf', '--one-file-system', $dir) if $dir;
	}
	$? = $status;
}

sub slurp { local (@ARGV, $/) = @_; return scalar <> }

# Does it succeed?  Its output is in the log.
sub run
{
	my @command = @_;

	$child = fork() // die "could not fork: $!";
	if (!$child)
	{
		open(STDIN, '<', '/dev/null') or die;
		open(STDOUT, '>', $log) or die;
		open(STDERR, '>&', \*STDOUT) or die;
		exec(@command) or do { print "could not run $command[0]: $!\n"; exit(127) };
	}
	waitpid($child, 0);
	$child = 0;
	return $? == 0;
}

# Run a command in another root.  Mounts and processes live in namespaces of
# their own, so both are gone with the command, however it ends; and the
# binding of /dev can be met by no rm -rf of ours.  The shell stays, as
# process 1 in there, to reap the orphans.
sub enter
{
	my ($into, @command) = @_;
	return run(qw(unshare --mount --propagation unchanged --pid --fork --kill-child bash -c), <<'SH', $into, @command);
mount --make-rprivate / 2>/dev/null     # fails, harmless, in a chroot
mount --rbind /dev "$0/dev" && mount -t proc proc "$0/proc" || exit 125
chroot "$0" "$@"
exit $?
SH
}

# In the user's copy of the tree.  A child of a script may start out deaf to
# SIGINT, which a test may need.
sub build
{
	my ($commands) = @_;
	return enter(
		$root, qw(runuser -u), $user, qw(-- env -i --default-signal),
		"PATH=/usr/lib/postgresql/$major/bin:/usr/local/bin:/usr/bin:/bin", "HOME=$home", "TMPDIR=$home/tmp",
		qw(SHELL=/bin/sh LC_ALL=C bash -euxc), "cd ~/tree\n$commands");
}

# A test, whose reason to fail is at the end of the log
sub check
{
	my ($name, $good) = @_;
	return ok($good, $name) || diag_tail(slurp($log));
}

# --- The Debians

# A bare one, where apt-get does not ask.
sub make_debian
{
	return run(
		qw(mmdebstrap --variant=apt --format=directory), '--aptopt=Acquire::Check-Valid-Until "false"',
		'--aptopt=APT::Get::Assume-Yes "true"', '--include=passwd,sudo', $suite, "$dir/bare");
}

sub install_in
{
	my ($into, @packages) = @_;
	return enter($into, qw(env DEBIAN_FRONTEND=noninteractive sh -c), <<'SH', 'sh', @packages);
apt-get -qq -o Acquire::Check-Valid-Until=false update &&
apt-get -qq -y --no-install-recommends install "$@"
SH
}

sub copy_debian { my ($from, $to) = @_; return run('cp', '-a', "$dir/$from", "$dir/$to") }

sub own { return run('chroot', $root, 'chown', '-R', "$user:", @_) }

# In it, a user who builds and may use sudo; and another one with the server.
sub prepare_debians
{
	return run('chroot', "$dir/bare", 'useradd', '--create-home', $user)
	  && run('sh', '-c', 'echo "$1 ALL=(ALL) NOPASSWD: ALL" >"$0/etc/sudoers.d/$1"', "$dir/bare", $user)
	  && copy_debian('bare', 'plain')
	  && install_in("$dir/plain", "postgresql-$major");
}

# From now on, commands run in a new Debian that has the tree.
sub use_debian
{
	my ($name) = @_;
	copy_debian('bare', $name) or die slurp($log);
	$root = "$dir/$name";
	$home = '/tmp/' . basename(tempdir("$root/tmp/snowflake.XXXXXX"));
	make_path("$root$home/tree", "$root$home/tmp");
	run(qw(bash -euo pipefail -c), <<'SH', $top, "$root$home/tree") && own($home) or die slurp($log);
tar -C "$0" -cf - --exclude-vcs --exclude='*.o' --exclude='*.bc' --exclude='*.so' --exclude=./results \
    --exclude=./output_iso --exclude='./tmp_check*' --exclude=./log --exclude='./regression.*' . |
    tar -C "$1" -xf - --no-same-owner
SH
	return;
}

# --- The page

# What the page has under a heading, up to the next one of that rank: commands
# as they are, SQL for psql, for this major.  With "text", what it shows.
sub page
{
	my ($heading, $wanted) = (@_, 'sh|sql');
	my ($marks, $rest) = $page =~ /^(#+) \Q$heading\E\n(.*)/ms or die "install.md has no heading \"$heading\"";
	my $rank = length($marks);
	my ($section) = $rest =~ /\A((?:^```(?s:.*?)^```\n|(?!#{1,$rank} ).*\n)*)/m;
	my $text = '';

	while ($section =~ /^```(\w*)\n(.*?)^```\n/msg)
	{
		my ($language, $block) = ($1, $2);
		next if $language !~ /\A(?:$wanted)\z/;
		$block = "sudo -u postgres psql -X -v ON_ERROR_STOP=1 <<'END OF SQL'\n${block}END OF SQL\n"
		  if $language eq 'sql';
		$text .= $block;
	}
	return $text =~ s/\b15\b/$major/gr;
}

sub lines_of { return map { s/-+/-/gr =~ s/ +/ /gr =~ s/ $//r } split(/\n/, $_[0]) }

# Is each line that the page shows under a heading in the log?
sub is_shown
{
	my ($heading) = @_;
	my @shown = lines_of(page($heading, 'text'));
	my %printed = map { $_ => 1 } lines_of(slurp($log));
	my @missing = grep { !$printed{$_} } @shown;

	open(my $out, '>>', $log) or die "could not open $log: $!";
	print $out "not in the output: $_\n" for @missing;
	close($out);
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
mv ../postgresql-$major-snowflake_*.deb ../released/
dpkg-deb --raw-extract ../released/*.deb ../later
sed -i 's/^Version: .*/&.1/' ../later/DEBIAN/control
dpkg-deb --root-owner-group --build ../later ..
sudo pg_ctlcluster $major main start
$upgrade
sudo pg_ctlcluster $major main stop
dpkg-query --show postgresql-$major-snowflake | grep '\\.1\$'
rm ../postgresql-$major-snowflake_*.deb
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

sub nothing_is_left
{
	return run('bash', '-c', 'cd "$0" && ! find "$@" -name "*snowflake*" | grep .', $root, @_);
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
	  && enter($tested, 'bash', '-euxc', "cd /tmp\nautopkgtest ./postgresql-$major-snowflake_*.deb ./tree -- null");
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
rpm -qlp ~/rpmbuild/RPMS/*/postgresql$major-snowflake-[0-9]*.rpm | grep /usr/pgsql-$major/lib/snowflake.so
! rpm -qlp ~/rpmbuild/RPMS/*/postgresql$major-snowflake-[0-9]*.rpm | grep /usr/lib/postgresql
SH
}

# ---------------------------------------------------------------------------

if (!make_debian())
{
	diag_tail(slurp($log));
	plan(skip_all => "Debian $suite could not be downloaded");
}
if (!check('Debian: is prepared', prepare_debians()))
{
	done_testing();
	exit;
}

use_debian('sourced');
if (check('install.md: builds and installs from source', build(page('From source'))))
{
	check('install.md: the server mints', sets_up());
	check('install.md: make uninstall leaves nothing', build('sudo make uninstall') && nothing_is_left('usr'));
}

use_debian('builder');
if (check('install.md: builds a Debian package, which passes its tests, and installs it', build(page('From packages'))))
{
	check('install.md: the server mints', sets_up());
	check('install.md: upgrades', upgrades());
	check('install.md: uninstalls without a trace, and all rows stay', uninstalls());
	install_in($root, @tools) or die slurp($log);
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
