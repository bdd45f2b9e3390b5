# Small mistakes at random, by a seed: do the tests find them?
#
#   mutants.pl ROOM...             make mutants in these rooms, and let tests look for them
#   mutants.pl table               what is known of all rooms, with this seed
#   mutants.pl coverage ROOM...    learn which lines each test of these rooms reaches
#
# test/perl/Mutants.pm makes a mutant, test/perl/MutantRooms.pm has the rooms, their tests, and
# the mutants that nothing can tell from the original.  A mutant lives if all tests of its room
# pass that may reach its line, and at most five of other rooms that are known to reach it (all,
# if its room has none).  Those come first that are about its place: see is_about(); then those
# that reach most lines of the file which few others reach, in the least time.  A test that
# fails with a mutant has to pass without it, or it is left out.  Barriers and rare orders are
# the business of the step memory: a mutant that is a fault of test/perl/Faults.pm which that
# finds is found.
#
# The environment says:
#
#   SNOWFLAKE_SEED             which mutants
#   SNOWFLAKE_LONG             minutes for each room, in which as many begin as can
#   SNOWFLAKE_MUTANTS          else so many in each room that compile: 20
#   SNOWFLAKE_MUTANTS_AT       all at these places, and no others: a pattern of FILE:LINE
#   SNOWFLAKE_MUTANTS_STATE    a directory for what is known: mutants, seconds of tests, lines
#                              that they reach.  What is known is not tried again, but a
#                              mutant that lives is when tests have changed.
#
# Runs in the copy of the tree, as the user of the server.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use Digest::MD5 qw(md5_hex);
use Faults;
use File::Path qw(make_path);
use JSON::PP;
use List::Util qw(max min sum uniq);
use MutantRooms;
use Mutants;
use Test::More;
use Tool;
use Variant;

my $SHARE = 0.9;    # of the mutants have to be found
my $ALONE = 120;    # seconds of tests that are run with each mutant alone
my $FEW = 5;    # tests of other rooms are asked as well, if they reach the line
my @VERDICTS = ('found', 'alive', 'equivalent', 'not compiling');

# As for faults.pl; and nothing that a test waits for takes so long.
$ENV{SNOWFLAKE_EACH} //= 20_000;
$ENV{SNOWFLAKE_CRASH_ROUNDS} //= 5;
$ENV{SNOWFLAKE_ROWS} //= 20_000;
$ENV{PG_TEST_TIMEOUT_DEFAULT} //= 90;
my $seed = $ENV{SNOWFLAKE_SEED} ||= 1;

my $minutes = $ENV{SNOWFLAKE_LONG} || 0;
my $at = $ENV{SNOWFLAKE_MUTANTS_AT} || '';
my $wanted = $ENV{SNOWFLAKE_MUTANTS} || ($minutes || $at ? 1_000_000 : 20);
my $state = $ENV{SNOWFLAKE_MUTANTS_STATE} || "/var/tmp/snowflake-mutants-$<";

chdir($top) or die "$top: $!";
make_path("$state/coverage");
$| = 1;

# --- What is known -------------------------------------------------------------

# A line of a file for each thing known: fields, the first of which is the key.
sub recall
{
	my ($name) = @_;
	my %known;

	open(my $in, '<', "$state/$name") or return \%known;
	while (my $line = <$in>)
	{
		chomp $line;
		my ($key, @fields) = split /\t/, $line, -1;
		$known{$key} = \@fields;
	}
	return \%known;
}

sub remember
{
	my ($name, $known, $key, @fields) = @_;

	$known->{$key} = \@fields;
	open(my $out, '>>', "$state/$name") or die "$state/$name: $!";
	print $out join("\t", map { s/[\t\n]/ /gr } $key, @fields), "\n";
	close($out) or die "$state/$name: $!";
	return;
}

my %right;    # file => its text without a mutant

sub right { my ($file) = @_; return $right{$file} //= slurp($file) }

sub sum_of { return md5_hex(join('', map { $_, right($_) } sort @_)) }

my $tests_sum = sum_of(grep { -f } glob('test/t/*.pl test/sql/*.sql test/specs/*.spec expected/*.out test/perl/*.pm test/shim/*.c test/cases/*.[ch]'));
my $results = recall('mutants');    # key => verdict, sum of the tests, seconds, test, mutant
my $seconds = recall('seconds');    # test => seconds
my $passes = recall('passes');      # sum of all, test => it passes
my %left_out;    # tests that fail without a mutant, in this run
my $all_sum = md5_hex($tests_sum, sum_of(glob('src/*.[ch] src/lease/*.[ch] sql/*/*.sql sql/snowflake_*.sql')));

sub remember_seconds { my ($test, $took) = @_; return remember('seconds', $seconds, $test, sprintf('%.1f', $took)) }

# Does a test pass with the original, which is built?
sub passes
{
	my ($test) = @_;
	my $key = "$all_sum $test";

	return 1 if $passes->{$key};
	my ($failure, $took) = first_failure($test);
	if (defined $failure)
	{
		$left_out{$test} = 1;
		print "#: $test fails without a mutant, and is left out: $failure\n";
		return 0;
	}
	remember_seconds($test, $took);
	remember('passes', $passes, $key, 1);
	return 1;
}

# --- Which tests reach a line ----------------------------------------------------

my %reached;    # test => file => { sum, line => is it reached? }

sub load_coverage
{
	my ($test) = @_;
	my %files;

	open(my $in, '<', "$state/coverage/" . $test =~ s/\W/_/gr) or return {};
	while (my $line = <$in>)
	{
		chomp $line;
		my ($file, $sum, @lines) = split /[\t ]/, $line;
		$files{$file} = { sum => $sum, lines => { map { /^(\d+)([+-])$/ ? ($1 => $2 eq '+') : () } @lines } };
	}
	return \%files;
}

# Does a test reach a mutant's line?  Undefined: that is not known.  A line that is the middle
# of a statement counts as the lines with code beside it.
sub reaches
{
	my ($test, $mutant) = @_;
	my $file = ($reached{$test} //= load_coverage($test))->{ $mutant->{file} };
	my ($above, $below) = (($mutant->{line}) x 2);

	return if !$file || $file->{sum} ne sum_of($mutant->{file});
	my $lines = $file->{lines};
	$above-- while $above > 0 && !exists $lines->{$above};
	my $last = max(keys %$lines);
	$below++ while $below < $last && !exists $lines->{$below};
	return (grep { $_ } @$lines{ $above, $below }) ? 1 : 0;
}

# The tests of its room that may reach a mutant.  Then the five tests of other rooms that reach
# most of its file where few others do.  If its room has none: all tests of other rooms.
sub tests_of_mutant
{
	my ($mutant) = @_;
	my @tests = grep { reaches($_, $mutant) // 1 } @{ $mutant->{tests} };
	my %own = map { $_ => 1 } @{ $mutant->{tests} };
	my @others = grep { !$own{$_} && reaches($_, $mutant) } tests_of_rooms(rooms());
	my %share = share_of_file($mutant->{file}, @others);
	my @first = sort { $share{$b} <=> $share{$a} || $a cmp $b } @others;

	return (@tests, @tests && @first > $FEW ? @first[ 0 .. $FEW - 1 ] : @first);
}

sub learn_coverage
{
	my ($test) = @_;
	my %found;

	unlink(glob('src/*.gcda src/lease/*.gcda'));
	my ($failure, $took) = first_failure($test);
	remember_seconds($test, $took);
	open(my $gcov, '-|', 'gcov --json-format --stdout src/*.gcda src/lease/*.gcda 2>/dev/null') or die "gcov: $!";
	while (my $document = <$gcov>)
	{
		for my $file (grep { $_->{file} =~ m{^src/} } @{ decode_json($document)->{files} })
		{
			$found{ $file->{file} }{ $_->{line_number} } += $_->{count} for @{ $file->{lines} };
		}
	}
	close($gcov);
	open(my $out, '>', "$state/coverage/" . $test =~ s/\W/_/gr) or die "$state/coverage: $!";
	for my $file (sort keys %found)
	{
		my $lines = $found{$file};
		print $out join("\t", $file, sum_of($file), join(' ', map { $_ . ($lines->{$_} ? '+' : '-') } sort { $a <=> $b } keys %$lines)), "\n";
	}
	close($out) or die "$state/coverage: $!";
	ok(%found || !defined $failure, sprintf('%s in %.0f s: lines of %d files', $test, $took, scalar keys %found));
	return;
}

# --- One mutant ------------------------------------------------------------------

my $probe;    # a server on which scripts are tried

sub start_probe
{
	my $directory = scratch();

	run_command([ 'initdb', '-N', '-A', 'trust', '-U', 'probe', '-D', "$directory/data" ]);
	open(my $out, '>>', "$directory/data/postgresql.conf") or die "$directory: $!";
	print $out slurp($ENV{TEMP_CONFIG}), "unix_socket_directories = '$directory'\nlisten_addresses = ''\nport = 5432\nfsync = off\n";
	close($out);
	system("pg_ctl -w -D $directory/data -l $directory/log start >/dev/null 2>&1") == 0 or die slurp("$directory/log");
	return $directory;
}

END { my $status = $?; system("pg_ctl -m immediate -D $probe/data stop >/dev/null 2>&1") if $probe; $? = $status }

# The server does not look into the functions of a script: its languages do.
my $LOOK = <<'SQL';
DO $$
DECLARE
	one record;
BEGIN
	FOR one IN SELECT p.oid, l.lanname FROM pg_proc AS p JOIN pg_language AS l ON l.oid = p.prolang
	           JOIN pg_depend AS d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e' LOOP
		IF one.lanname = 'plpgsql' THEN
			PERFORM plpgsql_validator(one.oid);
		ELSIF one.lanname = 'sql' THEN
			PERFORM fmgr_sql_validator(one.oid);
		END IF;
	END LOOP;
END
$$;
SQL

# Does a script do, which is installed?
sub is_installed
{
	my ($file) = @_;
	my ($extension) = $file =~ /(snowflake_(?:plain|registry))/;
	my @psql = ('psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-U', 'probe', '-h', $probe //= start_probe(), '-p', 5432);

	$extension //= 'snowflake';
	run_command([ @psql, '-d', 'template1', '-c', 'DROP DATABASE IF EXISTS probe', '-c', 'CREATE DATABASE probe' ]);
	my ($output, $status) = run_command([ @psql, '-d', 'probe', '-c', "CREATE EXTENSION $extension", '-c', $LOOK ]);
	die $output if $status >> 8 == 2;    # psql has no connection
	return $status == 0;
}

# The sources to make again after a change of a file.
sub sources_of { my ($file) = @_; return $file =~ /\.h$/ ? glob('src/*.c src/lease/*.c') : $file =~ /\.c$/ ? $file : () }

my $in_place = {};    # file => its text, of those that have a mutant now
my $built = '';    # the way in which the library is built for that

END { my $status = $?; spurt($_, right($_)) for keys %$in_place; $? = $status }

# The fault of Faults.pm that a mutant is, if the step memory finds that.
my @memory_faults;

sub known_fault
{
	my ($mutant) = @_;
	my $file = $mutant->{file};
	my $text = normal(texts_with($mutant)->{$file});

	return (map { $_->{name} } grep { $_->{file} eq $file && $_->{text} eq $text } @memory_faults)[0];
}

sub learn_memory_faults
{
	for my $fault (grep { $_->{finder} eq 'memory' } faults())
	{
		my $file = $fault->{edits}[0]{file};
		my %planted = eval { planted($fault) } or next;
		push @memory_faults, { name => $fault->{name}, file => $file, text => normal($planted{$file} // '') };
	}
	return;
}

# Files and their texts, with mutants.  A mutant can make a file shorter, so the last line
# comes first.
sub texts_with
{
	my %text;

	$text{ $_->{file} } = mutated($_, $text{ $_->{file} } // right($_->{file})) for sort { $b->{line} <=> $a->{line} } @_;
	return \%text;
}

# Build for a test with these mutants, and no others.  Gives the error, or an empty text.
sub build_with
{
	my ($test, @mutants) = @_;
	my $texts = texts_with(@mutants);
	my @changed = grep { ($texts->{$_} // right($_)) ne ($in_place->{$_} // right($_)) } keys %{ { %$texts, %$in_place } };

	return '' if $built eq way_of($test) && !@changed;
	my %sources = map { $_ => 1 } map { sources_of($_) } @changed;
	($in_place, $built) = ({ %$in_place, %$texts }, '');
	spurt($_, $texts->{$_} // right($_)) for @changed;
	$in_place = $texts;
	my $error = build_for($test, sort keys %sources);
	$built = way_of($test) if $error eq '';
	return $error;
}

# Is a test about the place of a mutant: 1, or 0?  Of C, the tables of cases are, if the file
# has one; of SQL, what names the function that the line belongs to.
sub is_about
{
	my ($test, $mutant, $text) = @_;

	return $test eq '118_cases' && -e "test/cases/$1_cases.c" ? 1 : 0 if $mutant->{file} =~ m{(\w+)\.[ch]$};
	my $above = join('', (split /^/, $text)[ 0 .. $mutant->{line} - 1 ]);
	my ($function) = $above =~ /.*\bFUNCTION \S+\.(\w+)\(/s or return 0;
	my @files = grep { -f } map { ("test/t/$_.pl", "test/sql/$_.sql") } split(' ', $test);
	return (grep { slurp($_) =~ /\b$function\b/ } @files) ? 1 : 0;
}

# How much of a file each test reaches.  A line that N tests reach counts 1/N for each.
sub share_of_file
{
	my ($file, @tests) = @_;
	my (%lines, %tests_of, %share);

	for my $test (@tests)
	{
		my $known = ($reached{$test} //= load_coverage($test))->{$file} or next;
		$lines{$test} = [ grep { $known->{lines}{$_} } keys %{ $known->{lines} } ];
		$tests_of{$_}++ for @{ $lines{$test} };
	}
	$share{$_} = sum(0, map { 1 / $tests_of{$_} } @{ $lines{$_} // [] }) for @tests;
	return %share;
}

sub tests_of_rooms { return sort { $a cmp $b } uniq(map { @{ $_->[1] } } map { files_and_tests($_) } @_) }

# A test, as a verdict names it.
sub name_of { my ($test) = @_; return $test =~ / .* / ? 'SQL' : $test }

# The tests that may reach a mutant.  Those that are about its place come first; then those that
# have the greatest share of its file, and found most in it, for each second that they take.
sub tests_in_order
{
	my ($mutant) = @_;
	my ($file, $text) = ($mutant->{file}, right($mutant->{file}));
	my @tests = tests_of_mutant($mutant);
	my %is_about = map { $_ => is_about($_, $mutant, $text) } @tests;
	my %share = share_of_file($file, @tests);
	my %found;

	$found{ $_->[3] =~ s/:.*//sr }++ for grep { $_->[0] eq 'found' && $_->[6] eq $file } values %$results;
	my %worth = map { $_ => (1 + $share{$_}) * (1 + ($found{ name_of($_) } // 0)) / (5 + ($seconds->{$_}[0] // 20)) } @tests;
	return sort { $is_about{$b} <=> $is_about{$a} || $worth{$b} <=> $worth{$a} } @tests;
}

# Run a test with mutants that compile.  Gives what fails; undefined: it passes, or fails
# without them as well.
sub failure_with
{
	my ($test, @mutants) = @_;

	return @mutants > 1 ? 'they do not compile together' : undef if build_with($test, @mutants) ne '';
	my ($failure, $took) = first_failure($test, max(120, 4 * ($seconds->{$test}[0] // 60)));
	remember_seconds($test, $took) if !defined $failure && !$seconds->{$test};
	return if !defined $failure;
	$passes = recall('passes');
	return $failure if $passes->{"$all_sum $test"};
	my $error = build_with($test);
	die "without a mutant: $error\n" if $error ne '';
	return passes($test) ? $failure : undef;
}

# Ask the first tests about a mutant.  Gives a verdict, and why; if none, then the mutant is
# open, and "left" has the other tests, in order.
sub judge
{
	my ($mutant) = @_;
	my $known = known_fault($mutant);
	my $reason = reason_of_equivalent($mutant);
	my $spent = 0;

	return ('found', "memory, as $known") if $known;
	return ('equivalent', $reason) if $reason;
	my @tests = tests_in_order($mutant);
	return ('not compiling', '') if build_with($tests[0] // '', $mutant) ne '' || $mutant->{file} =~ /\.sql$/ && !is_installed($mutant->{file});
	return ('alive', 'no test') if !@tests;
	while (@tests && $spent < $ALONE)
	{
		my $test = shift @tests;
		my $failure = $left_out{$test} ? undef : failure_with($test, $mutant);
		return ('found', name_of($test) . ": $failure") if defined $failure;
		$spent += $seconds->{$test}[0] // 20 if !$left_out{$test};
	}
	die "no test passes without a mutant: is something wrong with this machine?\n" if !$spent;
	return ('alive', all_tests()) if !@tests;
	$mutant->{left} = \@tests;
	return;
}

sub all_tests { return join(' ', 'all tests', %left_out ? ('but', sort keys %left_out) : ()) }

# Mutants that can be built together: no two change one line.
sub compatible
{
	my (@batches, @taken);

	for my $mutant (@_)
	{
		my @lines = map { "$mutant->{file} " . ($mutant->{line} + $_) } 0 .. ($mutant->{old} =~ tr/\n//);
		my $i = 0;
		$i++ while grep { $taken[$i]{$_} } @lines;
		push @{ $batches[$i] }, $mutant;
		$taken[$i]{$_} = 1 for @lines;
	}
	return @batches;
}

# What the tests that are left find in open mutants.  "conclude" gets each mutant, its verdict,
# and why.
sub judge_together
{
	my ($conclude, @open) = @_;
	my %rank;    # test => its best place in the orders of these mutants

	for my $mutant (@open)
	{
		my @left = @{ $mutant->{left} };
		$rank{ $left[$_] } = min($rank{ $left[$_] } // $_, $_) for 0 .. $#left;
	}
	for my $test (sort { (way_of($b) eq 'ordinary') <=> (way_of($a) eq 'ordinary') || $rank{$a} <=> $rank{$b} || $a cmp $b } keys %rank)
	{
		my @asked = grep { my $mutant = $_; grep { $_ eq $test } @{ $mutant->{left} } } @open;

		next if !@asked || $left_out{$test} || !defined failure_with($test, @asked);
		for my $mutant (@asked)
		{
			my $failure = failure_with($test, $mutant) // next;
			$conclude->($mutant, 'found', name_of($test) . ": $failure");
			@open = grep { $_ != $mutant } @open;
		}
	}
	$conclude->($_, 'alive', all_tests()) for @open;
	return;
}

# --- A room ----------------------------------------------------------------------

# The mutants of a room in the seed's order, each with its tests.
sub mutants_of_room
{
	my ($room) = @_;
	my @all;

	for (files_and_tests($room))
	{
		my ($file, $tests) = @$_;
		push @all, map { { %$_, tests => $tests } } grep { "$_->{file}:$_->{line}" =~ /^(?:$at)$/ || $at eq '' } mutants_of($file, slurp($file));
	}
	srand($seed);
	for my $i (reverse 1 .. $#all)
	{
		my $j = int(rand($i + 1));
		@all[ $i, $j ] = @all[ $j, $i ];
	}
	return @all;
}

# What is known of a mutant, if that still holds.
sub known
{
	my ($mutant) = @_;
	my $known = $results->{ $mutant->{key} } or return;

	return $known->[0] eq 'alive' && $known->[1] ne $tests_sum ? () : @$known;
}

sub show_head { printf "#: %-8s %6s %8s %14s %6s %6s %11s %8s\n", 'room', 'seed', 'mutants', 'not compiling', 'found', 'alive', 'equivalent', 'seconds'; return }

sub show_row
{
	my ($room, $count, $took) = @_;
	my $tried = 0;

	$tried += $count->{$_} // 0 for @VERDICTS;
	printf "#: %-8s %6d %8d %14d %6d %6d %11d %8.0f\n", $room, $seed, $tried, map({ $count->{$_} // 0 } 'not compiling', 'found', 'alive', 'equivalent'), $took;
	return;
}

sub show_survivor
{
	my ($mutant, $what) = @_;

	print "#: $mutant->{file}:$mutant->{line}, $mutant->{operator}: $what\n";
	print '#: -', $mutant->{old} =~ s/\n\s*/ /r, "\n", '#: +', $mutant->{new} =~ s/\n\s*/ /r, "\n";
	return;
}

# Try mutants of a room until there are enough, or the time is over; "only what is known":
# none.
sub go_through
{
	my ($room, $is_known_only) = @_;
	my (%count, @open);
	my $took = 0;
	my $end = $minutes ? time() + 60 * $minutes : undef;

	my $count_in = sub {
		my ($mutant, $verdict, $what, $seconds) = @_;
		$count{$verdict}++;
		$took += $seconds;
		show_survivor($mutant, $verdict eq 'alive' ? "alive after $what" : "equivalent: $what") if $verdict =~ /^(?:alive|equivalent)$/;
	};
	my $conclude = sub {
		my ($mutant, $verdict, $what) = @_;
		my $seconds = int($mutant->{seconds} + (time() - $mutant->{began}) / ($mutant->{batch} || 1));
		remember('mutants', $results, $mutant->{key}, $verdict, $tests_sum, $seconds, $what, $room, $seed, @$mutant{qw(file line operator old new)});
		print "# $verdict in $seconds s: $mutant->{file}:$mutant->{line}: $mutant->{new} ($what)\n" =~ s/\n(?=.)/ /gr;
		$count_in->($mutant, $verdict, $what, $seconds);
	};
	for my $mutant (mutants_of_room($room))
	{
		last if ($count{found} // 0) + ($count{alive} // 0) + @open >= $wanted;
		my ($verdict, undef, $seconds, $what) = known($mutant);
		if (defined $verdict) { $count_in->($mutant, $verdict, $what, $seconds); next }
		next if $is_known_only;
		last if $end && time() >= $end;
		@$mutant{qw(seconds began)} = (0, time());
		($verdict, $what) = judge($mutant);
		if (defined $verdict) { $conclude->($mutant, $verdict, $what); next }
		$mutant->{seconds} = time() - $mutant->{began};
		push @open, $mutant;
	}
	for my $batch (compatible(@open))
	{
		@$_{qw(began batch)} = (time(), scalar @$batch) for @$batch;
		judge_together($conclude, @$batch);
	}
	build_with('') if !$is_known_only;
	return (\%count, $took);
}

my ($what, @rooms) = @ARGV ? @ARGV : 'table';
if ($what eq 'table')
{
	show_head();
	show_row($_, go_through($_, 1)) for rooms();
	pass('a table of all rooms');
}
elsif ($what eq 'coverage')
{
	my @missing = grep { way_of($_) eq 'ordinary' && !-e "$state/coverage/" . s/\W/_/gr } tests_of_rooms(@rooms ? @rooms : rooms());
	my $end = time() + 60 * ($minutes || 1000);

	is(build_variant("--coverage -O0 -fprofile-update=atomic -include $top/test/hard/dump.h", glob('src/*.c src/lease/*.c')), '', 'a build for gcov');
	for my $test (@missing)
	{
		last if time() >= $end;
		learn_coverage($test);
	}
	unlink(glob('src/*.o src/lease/*.o src/*.gc?? src/lease/*.gc??'));    # a room builds its own
}
else
{
	learn_memory_faults();
	for my $room ($what, @rooms)
	{
		is(build_variant('', glob('src/*.c src/lease/*.c')), '', "an ordinary build for $room");
		my ($count, $took) = go_through($room);
		my ($found, $alive) = map { $_ // 0 } @$count{qw(found alive)};
		show_head();
		show_row($room, $count, $took);
		cmp_ok($found, '>=', $SHARE * ($found + $alive), "$room: $found of " . ($found + $alive) . ' mutants are found');
	}
}
done_testing();
