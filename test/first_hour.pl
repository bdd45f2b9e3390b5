# first_hour.pl -- what somebody types who has just got the source
#
#   perl test/first_hour.pl SUITE user|root
#
# in a bare Debian, as a user with sudo or as root without it.  Needs root, the
# network, and mmdebstrap.
#
#   README.md     the demo, then Install, in that order: there is a running server
#                 with the extension
#   check.sh      says what it installs before it does, installs what its test needs
#                 and no more, says nothing that looks like a failure, and after Ctrl-C
#                 says how far it came
#   Ctrl-C        while apt unpacks leaves a machine that says what to do
#   /tmp          has nothing of ours after any of it, also if the tree is one that
#                 its user may not write to

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/perl";

use BareDebian;
use Test::More;
use Tool;

my %MAJOR = (bookworm => 15, trixie => 17);

die "usage: perl test/first_hour.pl SUITE user|root\n" if @ARGV != 2 || !$MAJOR{ $ARGV[0] } || $ARGV[1] !~ /\A(?:user|root)\z/;
my ($suite, $who) = @ARGV;
my $is_root = $who eq 'root';
my $major = $MAJOR{$suite};

# What README's Install has, as this user types it.
sub typed
{
	my ($heading, @languages) = @_;
	my $text = join('', map { $_->[1] } blocks_under('README.md', $heading, \@languages)) =~ s/\b15\b/$major/gr;

	$text =~ s/\bsudo -u (\w+)/runuser -u $1 --/g, $text =~ s/\bsudo //g if $is_root;
	return $text;
}

sub left_in
{
	my ($name) = @_;
	check("$name: nothing is left in /tmp",
		run('bash', '-c', 'cd "$0" && ! find tmp var/tmp -mindepth 1 ! -path "*/hsperfdata*" | grep .', $root));
	return;
}

# What was installed since this was asked last, without what it depends on.
my %known;

sub new_packages
{
	run('chroot', $root, 'apt-mark', 'showmanual') or die logged();
	return join(' ', grep { !$known{$_}++ } split(/\n/, logged()));
}

# What the last command printed comes in this order.
sub in_order
{
	my ($name, @patterns) = @_;
	my $printed = logged();
	my @missing = grep { $printed !~ /\G.*?$_/gcs } @patterns;

	is("@missing", '', "$name: all is printed, in this order") or diag_tail($printed);
	return;
}

my $INSTALLING = qr/^Installing [^\n]* with apt: \d+ packages, [\d.,]+ [kM]B to download, [\d.,]+ [kM]B on disk, about \d+ (?:s|min)$/m;
my $TOTALS = qr/^\d+ passed, 0 failed$/m;

my ($sudo, $superuser) = $is_root ? ('', 'runuser -u postgres --') : ('sudo', 'sudo -u postgres');
if (!check('Debian: is prepared', make_debian($suite, $is_root ? 'root' : 'stranger', $is_root ? () : 'sudo')))
{
	done_testing();
	exit;
}

# --- Ctrl-C while apt unpacks: the machine says what to do, and that is all there is to do

use_debian('bare.2', $is_root ? '/root' : '/home');
check('the demo is interrupted while apt unpacks', as_user(<<'SH'));
setsid env --default-signal=INT test/demo.sh >../out 2>&1 &
until grep -c ' status unpacked ' /var/log/dpkg.log; do
    kill -0 $!
    sleep 0.1
done
kill -INT -- -$!
status=0
wait $! || status=$?
cat ../out
test $status = 130
test ! -e /etc/postgresql-common/createcluster.d/snowflake-test.conf
SH
like(logged(), qr/^apt was interrupted, and may have left packages half installed\. To finish: dpkg --configure -a, as root$/m, 'it says what to do');
left_in('the interrupted demo');
check('which is all there is to do', as_user("$sudo dpkg --configure -a && $sudo apt-get -qq check && dpkg --audit >../out && ! grep . ../out"));

# --- The demo, then Install

# a server of another test may have the port
run('sh', '-euc', 'mkdir -p "$0" && echo "listen_addresses = \'\'" >"$0/socket.conf"', "$dir/bare/etc/postgresql-common/createcluster.d")
  or die logged();
use_debian('bare.1', $is_root ? '/root' : '/home');
new_packages();

# Somebody looks at it with a clock.
my $CLOCK = <<'PERL' =~ s/\n\s*/ /gr;
$| = 1; my ($at, $most) = (time, 0);
while (sysread(STDIN, my $said, 4096)) { my $silent = time - $at; $most = $silent if $silent > $most; $at = time; print $said }
print "\nSilent for $most s at most\n"
PERL

# A dot comes every five seconds, and on a busy machine later.
my $NEVER_SILENT = qr/^Silent for [12]?\d s at most$/m;

check('the demo runs', as_user("set -o pipefail; chmod -R a-w .; test/demo.sh 2>&1 | perl -e '$CLOCK'; chmod -R u+w ."));
like(logged(), $NEVER_SILENT, 'and is never silent for long');
in_order('the demo', qr/^Fetching apt's lists/m, $INSTALLING, qr/^Building snowflake for PostgreSQL $major/m,
	qr/^CREATE TABLE photos/m, qr/^ timestamp  \|/m);
left_in('the demo');
is(new_packages(), "gcc libc6-dev make postgresql-$major postgresql-server-dev-$major", 'the demo installs what it needs');

my $commands = typed('Install', 'sh');
my $settings = typed('Install', 'conf');
my $sql = typed('Install', 'sql');
my $config = "/etc/postgresql/$major/main/postgresql.conf";
my ($restart) = slurp("$top/README.md") =~ /`sudo (pg_ctlcluster 15 main restart)`/ or die 'README restarts no server';

check('Install: a server has the extension', as_user(<<"SH"));
$commands
$sudo tee -a $config <<'END'
${settings}END
$sudo @{[ $restart =~ s/15/$major/r ]}
$superuser psql -X -v ON_ERROR_STOP=1 <<'END OF SQL'
$sql
SELECT 'it runs with ' || setting || ' on shard ' || snowflake_shard(snowflake_nextval())
  FROM pg_settings WHERE name = 'shared_preload_libraries';
END OF SQL
SH
like(logged(), qr/^ it runs with snowflake on shard 5$/m, 'Install: it mints');
left_in('Install');

# --- The tests

check('check.sh runs one test', as_user("set -o pipefail; chmod -R a-w .; test/check.sh --only mint 2>&1 | perl -e '$CLOCK'; chmod -R u+w ."));
like(logged(), $NEVER_SILENT, 'and is never silent for long');
in_order('check.sh', $INSTALLING, qr/^2 tests$/m, qr/ ok +$major\/build: /m, qr/ ok +$major\/regress: 1 passed/m, $TOTALS);
left_in('check.sh');
like(new_packages(), qr/^(?:libipc-run-perl)?$/, 'it installs what that needs, and no more');

# This one takes a Node.js, and npm for more; Debian's Node.js comes without.
check('check.sh runs a test without npm', as_user('test/check.sh --only 094_plain_elsewhere >../out 2>&1; cat ../out; ! grep -iE "error|could not|cannot|No such|not ok" ../out'));
like(logged(), qr/^\d+ passed, 0 failed(?:, \d+ skipped)?$/m, 'and nothing looks like a failure');

# Ctrl-C goes to all processes of the terminal, here of a session.
check('check.sh is interrupted', as_user(<<'SH'));
setsid env --default-signal=INT test/check.sh regress isolation >../out 2>&1 &
until grep ' ok .*/build' ../out; do
    kill -0 $!
    sleep 0.1
done
kill -INT -- -$!
status=0
wait $! || status=$?
cat ../out
test $status = 130
! grep -qaP '(?<!/var)/tmp/snowflake\.' /proc/[0-9]*/cmdline
SH
in_order('Ctrl-C', qr/^Interrupted after 1 of 3 tests, in /m, qr/^Took /m, $TOTALS);
left_in('Ctrl-C');

done_testing();
