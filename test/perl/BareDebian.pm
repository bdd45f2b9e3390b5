# BareDebian.pm -- Debians without anything, in which a test types what a user would
#
# Needs root, the network, and mmdebstrap.  Commands run in copies of a Debian that
# is made once.  However the test ends, so does the command that runs, and all
# copies are removed.

package BareDebian;

use strict;
use warnings;

use Exporter 'import';
use File::Basename qw(basename);
use File::Path qw(make_path);
use File::Temp qw(tempdir);
use POSIX qw(WNOHANG);
use Test::More;
use Tool;

our @EXPORT = qw(
  $dir $root $home slurp run enter as_user check logged
  make_debian copy_debian install_in use_debian own nothing_is_left blocks_under
);

our $dir;     # of all Debians
our $root;    # the one in use,
our $home;    # and as seen in there, the user's directory, with the tree

my $main = $$;
my $user;
my $log;      # of the last command
my $child;

sub slurp { local (@ARGV, $/) = @_; return scalar <> }

# What the last command printed
sub logged { return slurp($log) }

END
{
	my $status = $?;
	if ($$ == $main && $dir)
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
		system('setsid', 'rm', '-rf', '--one-file-system', $dir);
	}
	$? = $status;
}

# --- Commands

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

# In the user's copy of the tree, with these variables.  A child of a script may
# start out deaf to SIGINT, which a test may need.
sub as_user
{
	my ($commands, @environment) = @_;
	return enter(
		$root, qw(runuser -u), $user, qw(-- env -i --default-signal PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin),
		"HOME=$home", qw(SHELL=/bin/sh LC_ALL=C), @environment, qw(bash -euxc), "cd ~/tree\n$commands");
}

# A test, whose reason to fail is at the end of the log
sub check
{
	my ($name, $good) = @_;
	return ok($good, $name) || diag_tail(logged());
}

# --- The Debians

# A bare one, with these packages, where apt-get does not ask; and its user, who may
# use sudo if there is any.  Skips all tests if it cannot be had.  The directory
# SNOWFLAKE_ROOTS may have it, as SUITE.tar.
sub make_debian
{
	my ($suite, $name, @packages) = @_;
	my $tar = ($ENV{SNOWFLAKE_ROOTS} || '/nowhere') . "/$suite.tar";

	die "making a Debian needs root\n" if $> != 0;
	$SIG{$_} = sub { exit(1) } for qw(INT TERM HUP);
	$ENV{LC_ALL} = 'C';
	$dir = tempdir(($ENV{SNOWFLAKE_RUN} || '/var/tmp') . '/snowflake-debian.XXXXXX');
	chmod(0755, $dir);
	($log, $user) = ("$dir/log", $name);
	if (!run(-f $tar ? ('sh', '-c', 'mkdir "$1" && tar -C "$1" -xf "$0"', $tar, "$dir/bare") : (
			qw(mmdebstrap --variant=apt --format=directory --dpkgopt=force-unsafe-io),
			'--aptopt=Acquire::Check-Valid-Until "false"', '--aptopt=APT::Get::Assume-Yes "true"',
			'--include=' . join(',', 'passwd', @packages), $suite, "$dir/bare")))
	{
		diag_tail(logged());
		plan(skip_all => "Debian $suite could not be downloaded");
	}
	# sudo looks for this machine's name
	run('sh', '-euc', 'echo "127.0.0.1 localhost $(uname -n)" >"$0/etc/hosts"', "$dir/bare") or die logged();
	return 1 if $user eq 'root';
	return run(qw(chroot), "$dir/bare", 'useradd', '--create-home', $user)
	  && run('sh', '-c', 'echo "$1 ALL=(ALL) NOPASSWD: ALL" >"$0/etc/sudoers.d/$1"', "$dir/bare", $user);
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

# From now on, commands run in a new Debian that has the tree, in a directory of the
# user below this one.
sub use_debian
{
	my ($name, $below) = @_;
	copy_debian('bare', $name) or die logged();
	$root = "$dir/$name";
	$home = "$below/" . basename(tempdir("$root$below/snowflake.XXXXXX"));
	make_path("$root$home/tree", "$root$home/tmp");
	run(qw(bash -euo pipefail -c), <<'SH', $top, "$root$home/tree") && own($home) or die logged();
tar -C "$0" -cf - --exclude-vcs --exclude='*.o' --exclude='*.bc' --exclude='*.so' --exclude=./results \
    --exclude=./output_iso --exclude='./tmp_check*' --exclude=./log --exclude='./regression.*' . |
    tar -C "$1" -xf - --no-same-owner
SH
	return;
}

sub nothing_is_left
{
	return run('bash', '-c', 'cd "$0" && ! find "$@" -name "*snowflake*" | grep .', $root, @_);
}

# --- Pages

# The blocks of these languages that a page has under a heading, up to the next one
# of that rank: each a language and a text.
sub blocks_under
{
	my ($page, $heading, $wanted) = @_;
	my ($marks, $rest) = slurp("$top/$page") =~ /^(#+) \Q$heading\E\n(.*)/ms or die "$page has no heading \"$heading\"";
	my $rank = length($marks);
	my ($section) = $rest =~ /\A((?:^```(?s:.*?)^```\n|(?!#{1,$rank} ).*\n)*)/m;
	my @blocks;

	while ($section =~ /^```(\w*)\n(.*?)^```\n/msg)
	{
		push @blocks, [ $1, $2 ] if grep { $_ eq $1 } @$wanted;
	}
	return @blocks;
}

1;
