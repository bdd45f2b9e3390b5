# Have a model checker for weak memory, GenMC, run the real files of src in every order of
# steps, and with every value that a processor may let a read give.
#
#   memory.pl              all scenarios, faults and barriers
#   memory.pl NAME...      these, by the names that it prints
#   memory.pl --show NAME  in which scenarios this fault shows
#
# A scenario is a small program of some processes: see test/memory/*.c.  It must hold in
# every execution, with the models RC11 and IMM.  With each fault of Faults.pm that is
# named here, and without each barrier of these files, it must not.
#
# GENMC is the checker, or GENMC_SRC a directory to build it from; without it, the scenarios
# are made, and not searched.  SNOWFLAKE_LONG also runs what takes minutes.
# Packages: clang-14 llvm-14

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use Faults;
use Test::More;
use Time::HiRes qw(time);
use Tool;

my $LIMIT = 120;    # seconds for one search
my $LONG_LIMIT = 3600;

# What is searched, and what of it each process has to itself.
my @SEARCHED = qw(mint positions sessions mark horizon worker layout lease/lease_table);
my @OWN = qw(my_layout my_last_own_id my_last_own_shard my_shards my_settings_seen my_index met_others my_call
  my_shards_hold current_tick my_slot my_held i_know_prepared has_imported my_openings_seen expected_us woken_us);

# What the checker cannot do otherwise: the file, the text and its replacement.
my @REPLACED = (
	[ 'src/mark.c', '#define RING_SIZE 32768', '#define RING_SIZE (ring_entries - 2 * (MaxBackends + prepared_size()))' ],
	[ 'src/record.h', 'char reason[256];', 'char reason[1];' ],
	[ 'src/mint.c', 'bool met_behind;', 'int32 met_behind;' ],
	[ 'src/worker.h', 'bool begun;', 'int64 begun;' ],
	[ 'src/lease/lease_table.h', 'bool is_counted;', 'int64 is_counted;' ],
	[ 'src/lease/lease_table.c', '= memcpy(palloc(size), table->held, size); int nbefore', '= copy_held(table->held, table->count); int nbefore' ],
);

# Each with its program and definitions; "faults" are those that show there.  What is slow is
# searched with IMM only where there is time, and what is long not at all else.
my @SCENARIOS = (
	{
		name => 'feed',
		program => 'feed',
		faults => [
			qw(slots_read ring_entered ring_before_clear slots_before_ring barrier_slot_taken barrier_slot_cleared
			  barrier_filled barrier_raised barrier_entry_read)
		],
	},
	{
		name => 'feed while the clock goes on',
		program => 'feed',
		definitions => [ '-DCLOCK=1,2', '-DMINTS=2', '-DREADER=3' ],
	},
	{
		name => 'clock set back',
		program => 'feed',
		definitions => [ '-DCLOCK=2,1', '-DMINTS=2', '-DREADER=2' ],
		faults => [qw(latest_raised)],
	},
	{
		name => 'old snapshot',
		program => 'feed',
		definitions => [ '-DTRANSACTIONS=2', '-DRING=1', '-DOLD_SNAPSHOT', '-DCLOCK=number+1,number+1', '-DREADER=3' ],
		options => ['--unroll=6'],
		faults => [qw(ring_read_whole barrier_claimed barrier_entry_again)],
	},
	{
		name => 'old snapshot, and two writers',
		program => 'feed',
		definitions => [ '-DWRITERS=2', '-DRING=1', '-DOLD_SNAPSHOT', '-DCLOCK=number+1,number+1', '-DREADER=3' ],
		options => ['--unroll=6'],
		long => 1,
	},
	{
		name => 'feed of two transactions',
		program => 'feed',
		definitions => [ '-DTRANSACTIONS=2', '-DRING=1', '-DCLOCK=number+1,number+1', '-DREADER=3' ],
		options => ['--unroll=6'],
	},
	{
		name => 'feed of two writers',
		program => 'feed',
		definitions => ['-DWRITERS=2'],
		long => 1,
	},
	{
		name => 'one mark after another',
		program => 'back',
		faults => [qw(hold_locked hold_in_two_steps)],
	},
	{
		name => 'one mark after another, and a commit',
		program => 'back',
		definitions => ['-DCOMMITS'],
	},
	{
		name => 'prepared',
		program => 'prepared',
		definitions => ['-DPREPARED=1'],
		faults => [qw(prepared_entered barrier_moved barrier_table_after_slots barrier_ring_after_table)],
	},
	{
		name => 'the mark of a shard',
		program => 'shards',
		faults => [qw(held_for_all held_for_all_locked)],
	},
	{
		name => 'the mark of a shard, and a commit',
		program => 'shards',
		definitions => ['-DCOMMITS'],
		faults => [qw(others_in_ring)],
	},
	{
		name => 'the mark of a shard that is prepared on another',
		program => 'shards',
		definitions => [ '-DPREPARED=1', '-DPREPARES', '-DFIRST_READ=1' ],
	},
	{
		name => 'one mark of a shard after another',
		program => 'back',
		definitions => ['-DSHARD=1'],
		faults => [qw(others_from_now)],
	},
	{
		name => 'one mark of a shard after another, and a commit',
		program => 'back',
		definitions => [ '-DSHARD=1', '-DCOMMITS' ],
	},
	{
		name => 'imported snapshot',
		program => 'imported',
		faults => [qw(imported)],
	},
	{
		name => 'a slot used again',
		program => 'slots',
	},
	{
		name => 'minters and the horizon',
		slow => 1,
		program => 'minters',
		faults => [qw(successor shard_lock file_before_bound)],
	},
	{
		name => 'minters, a clock behind, and the horizon',
		slow => 1,
		program => 'minters',
		definitions => ['-DTICK=0,0'],
		faults => [qw(horizon_found horizon_read_first barrier_bounds)],
	},
	{
		name => 'minters and their counters',
		program => 'counters',
		faults => [qw(behind_lock wait_lock read_lock is_open_lock end_lock reset_lock)],
	},
	{
		name => 'the mark and the disk',
		program => 'disk',
		definitions => ['-DLEASES=true'],
		faults => [qw(mark_on_disk file_written)],
	},
	{
		name => 'a lease ends',
		program => 'closed',
		definitions => [ '-DLEASES=true', '-DTICK=3,3' ],
		faults => [qw(closed_before_release lease_until)],
	},
	{
		name => 'a shard is given back',
		program => 'closed',
		definitions => [ '-DLEASES=true', '-DTICK=3,3', '-DEND=900', '-DGIVES_BACK' ],
		faults => [qw(shard_lock)],
	},
	{
		name => 'the server is known',
		program => 'known',
		definitions => ['-DLEASES=true'],
		faults => [qw(barrier_opened barrier_known)],
	},
	{
		name => 'a shard is opened',
		slow => 1,
		program => 'order',
		definitions => ['-DLEASES=true'],
		faults => [qw(open_from_tick barrier_noted barrier_look)],
	},
	{
		name => 'a shard is opened in the next tick',
		slow => 1,
		program => 'order',
		definitions => [ '-DLEASES=true', '-DTWICE', '-DFIRST=2,3', '-DNEXT=3,3' ],
		faults => [qw(open_before_noted no_look)],
	},
	{
		name => 'a shard is closed, and opened again',
		long => 1,
		program => 'order',
		definitions => [ '-DLEASES=true', '-DCLOSES' ],
	},
	{
		name => 'a shard is closed, opened again, and read',
		slow => 1,
		program => 'order',
		definitions => [ '-DLEASES=true', '-DCLOSES', '-DREADER' ],
	},
);

# ---------------------------------------------------------------------------

my $work = scratch();
my $genmc;

sub run_quietly
{
	my (@command) = @_;
	my ($output, $status) = output_of(@command);

	die "@command\n$output" if $status != 0;
	return $output;
}

# The checker: GENMC, or "genmc", or what is built of GENMC_SRC.
sub find_checker
{
	return $ENV{GENMC} if $ENV{GENMC};
	return 'genmc' if is_program('genmc');
	return if !$ENV{GENMC_SRC};
	my $built = "$ENV{GENMC_SRC}/genmc";
	run_quietly('sh', '-c', "cd '$ENV{GENMC_SRC}' && autoreconf --install && ./configure --with-llvm=/usr/lib/llvm-14 && make -j\$(nproc)")
	  if !-x $built;
	return $built;
}

# Write the sources as the checker takes them.
sub write_sources
{
	my ($dir, %changed) = @_;
	my $own = join('|', @OWN);

	mkdir($dir) or die "$dir: $!";
	for my $file (glob('src/*.[ch] src/lease/*.[ch]'))
	{
		my $text = $changed{$file} // slurp($file);
		$text = replace_once($text, @$_[ 1, 2 ]) for grep { $_->[0] eq $file } @REPLACED;
		$text =~ s/^(static |extern |)(?=\w[\w \t]*[ \t*](?:$own)\b[^()]*;)/$1__thread /mg;
		spurt("$dir/" . $file =~ s{.*/}{}r, $text);
	}
	return;
}

# Likewise with a fault.  What has not changed is compiled already.
sub plant
{
	my ($dir, %planted) = @_;
	my %differs = map { s{.*/}{}r => 1 } keys %planted;

	write_sources($dir, %planted);
	return if grep { /\.h$/ } keys %differs;
	$differs{'horizon_worker.c'} = 1 if $differs{'horizon.c'};
	for (glob("$work/right/*.bc"))
	{
		my $object = s{.*/}{}r;
		link($_, "$dir/$object") or die "$object: $!" if !$differs{ $object =~ s/.*-//r =~ s/bc$/c/r };
	}
	return;
}

my $flags;

sub compile
{
	my ($sources, $file, $object, @definitions) = @_;

	$flags //= [ map { "-I$_" } split /\n/, run_quietly('pg_config', '--includedir-server', '--includedir') ];
	return if -f $object;
	run_quietly(
		'clang-14', qw(-O1 -Xclang -disable-llvm-passes -D_GNU_SOURCE -w -Werror=implicit-function-declaration -emit-llvm -c),
		'-include', "$top/test/memory/stub/first.h", "-I$top/test/memory/stub", "-I$sources", "-I$top/test/memory", @$flags, @definitions, $file, '-o', $object);
	return;
}

# Make a scenario of these sources, one program in LLVM's language: what is not called is gone, and
# what is not defined then has no meaning here.
sub make_scenario
{
	my ($scenario, $sources) = @_;
	my @definitions = @{ $scenario->{definitions} // [] };
	my $id = join('', $scenario->{program}, map { s/\W/_/gr } @definitions);
	my @objects;

	for (map { s{.*/}{}r } grep { $_ ne 'horizon' } @SEARCHED)
	{
		compile($sources, "$sources/$_.c", "$sources/$_.bc");
		push @objects, "$sources/$_.bc";
	}
	for ('harness', 'horizon_worker', $scenario->{program})
	{
		compile($sources, "$top/test/memory/$_.c", "$sources/$id-$_.bc", @definitions);
		push @objects, "$sources/$id-$_.bc";
	}
	run_quietly('llvm-link-14', @objects, '-o', "$work/linked.bc");
	run_quietly(
		'opt-14', qw(-internalize -internalize-public-api-list=main -globaldce -sroa -inline -inline-threshold=100000 -sroa -instcombine
		  -sroa -simplifycfg -adce -globalopt -globaldce), "$work/linked.bc", '-o', "$work/scenario.bc");
	my @undefined = grep { !/__VERIFIER_/ } run_quietly('llvm-nm-14', '-u', "$work/scenario.bc") =~ /U (\w+)/g;
	die "not defined: @undefined\n" if @undefined;
	return;
}

# Search what was made.  Gives "holds", "shows" or what went wrong; the executions; the seconds.
sub search
{
	my ($scenario, $model) = @_;
	my $limit = $ENV{SNOWFLAKE_LONG} ? $LONG_LIMIT : $LIMIT;
	my $began = time();
	my ($output) = output_of('timeout', $limit, $genmc, "--$model", qw(--disable-estimation --disable-race-detection --input-from-bitcode-file),
		@{ $scenario->{options} // [] }, "$work/scenario.bc");
	my ($executions) = $output =~ /complete executions explored: (\d+)/;
	my $result =
	    $output =~ /No errors were detected/ ? 'holds'
	  : $output =~ /(?:Assertion|Safety) violation/ ? 'shows'
	  : $output =~ /unlock\(\) on mutex not locked/ && $scenario->{program} eq 'counters' ? 'shows'
	  : defined($executions) || $output =~ /rror/ ? "fails: $output"
	  :   "is not searched in $limit s";

	return ($result, $executions // 0, time() - $began);
}

# Does a test with this name run?
my $shows = @ARGV && $ARGV[0] eq '--show' && shift @ARGV;
my %wanted = map { $_ => 1 } @ARGV;
sub is_wanted { my ($name) = @_; return !@ARGV || $wanted{$name} }

sub is_result
{
	my ($expected, $what, $result, $executions, $seconds) = @_;

	return ok($result eq $expected, sprintf('%s: %s; %d executions, %.1f s', $what, $expected, $executions, $seconds)) || diag_tail($result);
}

chdir($top) or die "$top: $!";
$| = 1;
$genmc = find_checker();
note("Searched: @SEARCHED.  In the place of the rest of src, and of the server, there is test/memory/harness.c.");
note('Replaced in what is searched: ' . join('; ', map { "$_->[1] => $_->[2]" } @REPLACED));
note("Of each process: @OWN");

# --- No barrier of these files is forgotten
my @faults = faults();
my %fault = map { $_->{name} => $_ } @faults;
my $in_src = 0;
my $in_faults = 0;
$in_src += () = slurp($_) =~ /\bpg_(?:read|write|memory)_barrier\(\)/g for glob('src/*.[ch] src/lease/*.[ch]');
$in_faults++ for grep { /^barrier_/ } keys %fault;
is($in_faults, $in_src, 'each barrier of src is in Faults.pm');
my %shown = map { $_ => 1 } map { @{ $_->{faults} // [] } } @SCENARIOS;
is_deeply([ grep { !$shown{$_} } map { $_->{name} } grep { $_->{finder} eq 'memory' } @faults ], [], 'and each that no other test finds is looked for');

write_sources("$work/right");
if (!$genmc)
{
	for my $scenario (grep { is_wanted($_->{name}) } @SCENARIOS)
	{
		ok(eval { make_scenario($scenario, "$work/right"); 1 }, "$scenario->{name}: made") || diag_tail($@);
	}
  SKIP:
	{
		skip 'no genmc, so orders of steps and weak memory are NOT SEARCHED.  apt-get install clang-14 llvm-14-dev'
		  . ' autoconf automake libffi-dev libedit-dev zlib1g-dev, get v0.10.3 of github.com/MPI-SWS/genmc, and type:'
		  . ' GENMC_SRC=ITS-DIRECTORY test/check.sh memory', 1;
	}
	done_testing();
	exit;
}

# --- The right code holds
for my $scenario (grep { !$_->{long} || $ENV{SNOWFLAKE_LONG} } @SCENARIOS)
{
	next if !is_wanted($scenario->{name}) && !$shows;
	make_scenario($scenario, "$work/right");
	next if $shows;
	is_result('holds', "$scenario->{name}, $_", search($scenario, $_)) for 'rc11', $scenario->{slow} && !$ENV{SNOWFLAKE_LONG} ? () : 'imm';
}

# --- With a fault it does not
for my $scenario (@SCENARIOS)
{
	for my $name ($shows ? @ARGV : grep { is_wanted($_) } @{ $scenario->{faults} // [] })
	{
		next if $scenario->{long} && !$ENV{SNOWFLAKE_LONG};
		plant("$work/wrong", planted($fault{$name}));
		make_scenario($scenario, "$work/wrong");
		is_result('shows', "$scenario->{name}, $name", search($scenario, 'rc11'));
		system('rm', '-rf', "$work/wrong");
	}
}
done_testing();
