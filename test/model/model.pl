# Have spin check the models: of minting and the horizon, of leases, of reading what is
# new, and of snowflake_plain.
#
#   model.pl                  check all of them
#   model.pl NAME             check this one
#   model.pl --show SWITCH    how this switch mints an id twice, or misses a row
#
# minting.pml, lease.pml, settled.pml and plain.pml tell what is modelled and what the switches
# do.  A model as it is must hold in every interleaving, and with each switch it must
# not, or it proves nothing.  A search that was not completed, for lack of memory, depth or time,
# or that never came to some step of the model, is a failure.
#
# Packages: spin gcc libc6-dev

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use File::Copy qw(copy);
use Test::More;
use Tool;

my $LIMIT = 300;    # seconds of processor time for one search
my $MEMORY = 1500;    # megabytes, likewise
my $DEPTH = 1000000;    # steps

# Of each model: the configurations that it holds in, and its switches, each with its
# definitions; what goes wrong with a switch, the message that tells so, and the
# definitions that all searches for it have.  If the states are too many to find the
# shortest way to a failure, "depths" are how far to look for some way.
my @MODELS = (
	{
		name => 'minting',
		holds => [
			[ 'one server, 5 ticks', '-DTICKS=5' ],
			[ 'one server, 4 ticks of 2 ids', '-DTICKS=4', '-DPER_TICK=2' ],
			[ 'a server and its standby, 3 ticks', '-DPROMOTION', '-DTICKS=3' ],
		],
		fails => 'mints an id twice',
		message => qr/assertion violated  *!\(\(minted&/,
		definitions => [ '-DTICKS=3', '-DONLY_TWICE' ],
		switches => [
			qw(PUBLISH_BEFORE_DURABLE NO_FLOOR LATEST_BEFORE_HORIZON UNLOCKED_TAKE),
			'SPREAD_ANEW -DPER_TICK=2',
			qw(RECORD_GOES_DOWN STOP_TOO_SOON),
			'PUBLISH_BEFORE_LOGGED -DPROMOTION',
			'WAIT_CUT_SHORT -DPROMOTION',
		],
	},
	{
		name => 'order',
		holds => [ [ 'one order for two sessions', '-DTICKS=3' ] ],
		fails => 'gives a lesser id to a later call',
		message => qr/assertion violated .*>floor/,
		definitions => ['-DTICKS=3'],
		switches => [
			qw(OPEN_FROM_TICK READ_BEFORE_LOCK OPEN_BEFORE_NOTED LISTED_IF_OPEN NO_LOOK LOOK_BEFORE_TICK APART),
		],
	},
	{
		name => 'lease',
		holds => [
			[ 'leases, two servers and their clones, 4 ticks', '-DPLACES', '-DTICKS=4' ],
			[ 'leases and a poller that follows', '-DPLACES', '-DFEED' ],
			[ 'a registry that is put back or made new', '-DREGISTRY', '-DOUTSIDE' ],
		],
		fails => 'mints an id twice, or misses a row',
		message => qr/assertion violated/,
		definitions => ['-DONLY_TWICE'],
		depths => [ 120, 220, 400 ],
		switches => [
			qw(FROM_ZERO ANY_HOLDER NO_FLOOR MINT_BEFORE_DURABLE HORIZON_PAST_UNTIL OPEN_BELOW_HORIZON),
			'RENEW_KEEPS_FROM -DLEASE=1',
			qw(RELEASE_WHILE_OPEN RELEASE_BEFORE_DISK RELEASE_BELOW_FROM RELEASE_BELOW_FLOOR),
			qw(CALLS_REPEAT LEAVES_BY_RELOAD),
			map({ "$_ -DPLACES" } qw(ANY_PLACE KEEPS_OLD_LEASES)),
			map({ "$_ -DPLACES -DFEED" } qw(FLOOR_OF_HOLDER MARK_PAST_HORIZON MARK_NOT_RAISED STOP_BELOW_MARK)),
			map({ "$_ -DREGISTRY" } qw(NOT_NOTICED NOT_PROVEN BORN_OPEN OPENED_UNFENCED FENCE_BEHIND)),
			map({ "$_ -DREGISTRY" } qw(RENEWS_UNCLAIMED RENEWS_EXPIRED RENEW_LOWERS_FROM)),
			map({ "$_ -DREGISTRY -DOUTSIDE" } qw(RENEWS_RESERVED NOT_RESERVED RESERVE_FENCED RESERVE_LEASED)),
		],
	},
	{
		name => 'settled',
		holds => [
			[ 'reading what is new, 3 transactions', '-DXIDS=3', '-DONCE' ],
			[ 'transactions that mint more than once', '-DTICKS=3' ],
			[ 'reading twice', '-DPOLLS=2' ],
			[ 'the mark of some shards', '-DSHARDS', '-DPOLLS=2', '-DONCE' ],
			[ 'transactions that are prepared', '-DPREPARED', '-DTICKETS=2', '-DONCE' ],
			[ 'snapshots that are imported', '-DIMPORTED', '-DXIDS=3', '-DONCE' ],
		],
		fails => 'misses a row, or the mark goes back',
		message => qr/assertion violated/,
		definitions => [],
		depths => [ 100, 160, 320 ],
		switches => [
			qw(NO_SLOTS NO_RING NO_RAISE MINT_BEFORE_HOLD RING_BEFORE_SLOTS CLEAR_BEFORE_RING RING_BEFORE_VISIBLE NO_REACH),
			qw(TICKETS_BEFORE_SLOTS FILLED_BEFORE_UNDER_WAY NO_SECOND_LOOK),
			'NO_LOCK -DPOLLS=2',
			'NOT_HELD_ANEW -DSHARDS',
			'HELD_SINCE_FIRST -DSHARDS -DPOLLS=2',
			'COMPLETED_BEFORE_TICKET -DXIDS=3 -DONCE',
			'WRITTEN_BEFORE_FILLED -DRING=2',
			'NO_CLAIM -DXIDS=3 -DONCE -DRING=2',
			'TRUSTS_IMPORTED -DIMPORTED',
			map { "$_ -DPREPARED -DTICKETS=2" } qw(TABLE_BEFORE_RING NO_TABLE TABLE_TO_NOWHERE),
		],
	},
	{
		name => 'plain',
		holds => [
			[ 'snowflake_plain, two sessions', '-DTICKS=4' ],
			[ 'snowflake_plain, a crash', '-DCRASH', '-DTICKS=4' ],
		],
		fails => 'mints an id twice',
		message => qr/assertion violated  *!\(\(minted&/,
		definitions => [],
		depths => [ 100, 200, 400 ],
		switches => [
			qw(NO_GATE NO_CLOSE READ_BEFORE_CLOSE MORE_SESSIONS),
			map { "$_ -DCRASH" } qw(OPEN_AFTER_CRASH PRESENT_TICK NO_WAIT CLOCK_BEHIND),
		],
	},
);
my $WHO = qr/a minter|server|the standby|power|the registry|transaction|the reader/;    # acts

my $log;    # what spin, gcc and the search say

sub run
{
	my ($output, $status) = output_of(@_);

	$log .= $output;
	return $status == 0;
}

# Make a search of a model: "-DSAFETY" is depth first, "-DBFS" breadth first, which
# finds the shortest way to an error.  The other definitions are the model's.  With -o3
# spin keeps statements apart, so that it can tell which were reached.  The program of a
# short search takes longer to optimize than to run.
sub make_search
{
	my ($model, $how, $optimize, @definitions) = @_;

	$log = '';
	unlink(glob('*'));
	copy("$top/test/model/$model->{name}.pml", 'model.pml') or die "$model->{name}: $!";
	return run('spin', '-a', '-o3', @definitions, 'model.pml')
	  && run('gcc', $optimize, '-w', $how, "-DMEMLIM=$MEMORY", '-o', 'pan', 'pan.c');
}

sub search { return run('sh', '-c', "ulimit -t $LIMIT; exec ./pan \"\$@\"", 'sh', @_) }

# A failure's reason, without the steps that were not reached.
sub diag_log { return diag_tail($log =~ s/^unreached in.*//msr) }

# A test: the model holds.
sub holds
{
	my ($model, $what, @definitions) = @_;
	my $began = time();
	my $ended = make_search($model, '-DSAFETY', '-O2', @definitions) && search('-b', "-m$DEPTH");
	my ($states) = $log =~ /^ *(\d+) states, stored/m;
	my ($unreached) = $log =~ /^(unreached in.*)/ms;
	# but for the ends of processes that have none
	my @missed = grep { $_ ne '-end-' } ($unreached // '') =~ /state \d+, "(.*)"$/mg;
	my $wrong =
		!$ended ? 'the search did not end'
	  : $log !~ /errors: 0$/m ? 'there is an error'
	  : !$states || $log =~ /not completed|too small|MEMLIM bound|out of memory/ ? 'the search is not complete'
	  : @missed ? "never came to: @missed"
	  : '';

	return ok(!$wrong, "$what: " . ($wrong || "$states states, " . (time() - $began) . ' s')) || diag_log();
}

sub definitions { my ($model, $switch) = @_; return (@{ $model->{definitions} }, split(/ /, "-D$switch")) }

# With that switch it fails.
sub fails
{
	my ($model, $switch) = @_;
	my @depths = @{ $model->{depths} // [] };

	make_search($model, @depths ? '-DSAFETY' : '-DBFS', '-O0', definitions($model, $switch)) or return 0;
	for my $depth (@depths, $DEPTH)
	{
		search(@depths ? () : '-b', "-m$depth");
		last if -f 'model.pml.trail';
	}
	return -f 'model.pml.trail' && $log =~ $model->{message};
}

sub show
{
	my ($model, $switch) = @_;

	fails($model, $switch) or die "with $switch it is not so that $model->{name} $model->{fails}\n$log";
	my ($trail) = output_of('spin', '-t', definitions($model, $switch), 'model.pml');
	print "In $model->{name}.pml:\n", map { "$_\n" } $trail =~ /^ +((?:$WHO) .*)/mg;
	return;
}

my ($option, $name) = (@ARGV, '', '');
if (my @named = grep { $_->{name} eq $option } @MODELS)
{
	@MODELS = @named;
	$option = '';
}
my @switches = map { my $model = $_; map { [ $model, $_ ] } @{ $model->{switches} } } @MODELS;
my $work = scratch();
chdir($work) or die "$work: $!";
for my $program (qw(spin gcc))
{
	die "$program is not installed\n" if !is_program($program);
}
if ($option)
{
	die "unknown option \"$option\"\n" if $option ne '--show';
	my @wanted = grep { $_->[1] =~ /^\Q$name\E(?: |$)/ } @switches;
	die "there is no switch $name\n" if !@wanted;
	show(@$_) for @wanted;
	exit;
}
for my $model (@MODELS)
{
	holds($model, @$_) for @{ $model->{holds} };
}
for (@switches)
{
	my ($model, $switch) = @$_;
	my $good = fails($model, $switch);
	my $what = !$good ? "does not: $model->{fails}" : $log =~ /violated .*>floor/ ? 'gives a lesser id to a later call'
	  : $log =~ /violated .*found>=mark/ ? 'makes the mark go back' : $log =~ /violated .*mark/ ? 'misses a row' : 'mints an id twice';
	my ($states) = $log =~ /^ *(\d+) states, stored/m;
	ok($good, "$model->{name}: " . $switch =~ s/ .*//r . " $what, found in " . ($states // 0) . " states") or diag_log();
}
done_testing();
