# Bench.pm -- what the measurements share: rounds, statements, clients
#
# A measurement has turns, one for each competitor and point, and takes one
# sample or more in each.  In every round all turns of all measurements are
# taken once, so what is compared was measured within moments of each other.
# Odd rounds go forward and even ones backward, so that what drifts evenly
# helps nobody.

package Bench;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use Samples;

our @EXPORT = qw(
  by_mode measurement run_rounds record record_machine
  query timed pgbench has_function restart_server table_of
);

our $mode;    # smoke, quick or whole

my @measurements;
my $samples;    # the file
my ($current, $round);
my $recorded = 0;

sub by_mode
{
	my ($smoke, $quick, $whole) = @_;
	return { smoke => $smoke, quick => $quick, whole => $whole }->{$mode};
}

# --- Measurements

# Declare one: "rounds", "turns" (a list of arguments for "take"), "take", and
# "setup", if anything has to be there before the first round.
sub measurement
{
	my ($name, %definition) = @_;
	push @measurements, { name => $name, %definition };
	return;
}

sub record
{
	my ($subject, $at, $value, $unit) = @_;

	print $samples csv_line($current, $subject, $at, $round, sprintf('%.7g', $value), $unit);
	$recorded++;
	return;
}

sub record_machine
{
	my ($subject, $text) = @_;

	print $samples csv_line('machine', $subject, '', 0, $text, '');
	return;
}

sub begin
{
	my ($path) = @_;

	open($samples, '>', $path) or die "could not create $path: $!\n";
	$samples->autoflush(1);
	STDOUT->autoflush(1);
	print $samples Samples::header();
	return;
}

sub take_turns
{
	my ($measurement) = @_;
	my @turns = @{ $measurement->{turns} };

	$current = $measurement->{name};
	@turns = reverse @turns if $round % 2 == 0;
	for my $turn (@turns)
	{
		my $before = $recorded;

		$measurement->{take}->(@$turn);
		die "$current: nothing was measured of @$turn\n" if $recorded == $before;
	}
	return;
}

sub run_rounds
{
	my $rounds = 0;
	my $began = time();

	for my $measurement (@measurements)
	{
		$measurement->{setup}->() if $measurement->{setup};
		$rounds = $measurement->{rounds} if $measurement->{rounds} > $rounds;
	}
	for my $number (1 .. $rounds)
	{
		$round = $number;
		printf "Round %d of %d, at second %d:", $round, $rounds, time() - $began;
		for my $measurement (grep { $_->{rounds} >= $round } @measurements)
		{
			print " $measurement->{name}";
			take_turns($measurement);
		}
		print "\n";
	}
	record_machine('seconds taken', time() - $began);
	return;
}

# --- The server

# The output of a program; dies with what it said if it fails.  What a program
# has to say besides goes to a file, or it would block.
sub output_of
{
	my (@command) = @_;
	my $errors = "$ENV{TMPDIR}/errors";
	my $pid = open(my $out, '-|') // die "could not fork: $!\n";
	my $text;

	if ($pid == 0)
	{
		open(STDIN, '<', '/dev/null') and open(STDERR, '>', $errors) or die $!;
		exec(@command) or die "could not execute $command[0]: $!\n";
	}
	$text = do { local $/; readline($out) } // '';
	if (!close($out))
	{
		open(my $said, '<', $errors) or die $!;
		die "failed: @command\n", $text, readline($said);
	}
	return $text;
}

# Run something with settings of its sessions.
sub with_settings
{
	my ($settings, $what) = @_;
	local $ENV{PGOPTIONS} = join(' ', map { "-c $_=$settings->{$_}" } keys %{ $settings // {} });
	return $what->();
}

# Run statements, each in a transaction of its own; the result as text.
sub query
{
	my ($statements, %settings) = @_;
	my @statements = ref $statements ? @$statements : ($statements);
	my $text = with_settings(
		\%settings,
		sub {
			output_of('psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', map { ('-c', $_) } @statements);
		});

	chomp($text);
	return $text;
}

# How many seconds a statement, or a command of psql, takes.
sub timed
{
	my ($statement, %settings) = @_;
	my $text = query([ '\timing on', $statement ], %settings);

	die "no time of \"$statement\" in: $text\n" unless $text =~ /^Time: ([0-9.]+) ms/m;
	return $1 / 1000;
}

# Have clients run a script for so many seconds, or with "transactions" so
# often each; gives the transactions per second.  Where it is only to be seen
# that it works, a few transactions do.
sub pgbench
{
	my ($script, $clients, $seconds, %options) = @_;
	my $path = "$ENV{TMPDIR}/script.sql";
	my $transactions = $options{transactions} // by_mode(5, 0, 0);
	my $text;

	open(my $file, '>', $path) or die "could not create $path: $!\n";
	print $file $script;
	close($file) or die "could not write $path: $!\n";
	$text = with_settings(
		$options{settings},
		sub {
			output_of(
				'pgbench', '--no-vacuum', '--protocol=prepared',
				"--client=$clients", '--jobs=' . ($clients < 2 ? 1 : 2),
				$transactions ? "--transactions=$transactions" : "--time=$seconds",
				"--file=$path");
		});
	die "no rate in: $text\n" unless $text =~ /^tps = ([0-9.]+)/m;
	return $1;
}

sub has_function
{
	my ($signature) = @_;
	return query("SELECT to_regprocedure('$signature') IS NOT NULL") eq 't';
}

# Start the server again with other settings, or with those it had at first.
sub restart_server
{
	my (%settings) = @_;

	output_of('pg_ctl', 'restart', '--wait', '--silent', "--log=$ENV{PGDATA}/../server.log",
		'--options=' . join(' ', map { "-c $_=$settings{$_}" } keys %settings));
	return;
}

# --- Tables whose key is made in one way or another

my %key = (
	'snowflake' => 'snowflake DEFAULT snowflake_nextval()',
	'snowflake, full pages' => 'snowflake DEFAULT snowflake_nextval()',
	'nextval' => 'bigserial',
	'nextval, CACHE 1000' => "bigint DEFAULT nextval('cache_1000')",
	'identity' => 'bigint GENERATED ALWAYS AS IDENTITY',
	'random UUID' => 'uuid DEFAULT gen_random_uuid()',
	'uuidv7' => 'uuid DEFAULT uuidv7()');

# Ids arrive at the right edge, so an index on them needs no room for others.
my %index = ('snowflake, full pages' => 'WITH (fillfactor = 100)');

# Create an empty table with such a key and an integer; gives its name.
sub table_of
{
	my ($prefix, $subject) = @_;
	my $table = $prefix . '_' . lc($subject =~ s/\W+/_/gr);

	query([
		'SET client_min_messages = warning',
		"DROP TABLE IF EXISTS $table",
		"CREATE TABLE $table (id $key{$subject} PRIMARY KEY " . ($index{$subject} // '') . ', payload integer)' ]);
	return $table;
}

1;
