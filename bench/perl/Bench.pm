# Bench.pm -- what the measurements share: a server, rounds, statements, clients
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
use Figures;
use File::Path qw(rmtree);

our @EXPORT = qw(
  by_mode measurement turns run_rounds record record_machine
  output_of start_server make_subjects query timed pgbench pgbench_output has restart_server table_of keys_here
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

# The turns of all subjects at each point.
sub turns
{
	my ($subjects, $points) = @_;
	return [ map { my $point = $_; map { [ $_, $point ] } @$subjects } @$points ];
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
	print $samples csv_line();
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

# The output of a program, which has to succeed.
sub output_of
{
	my (@command) = @_;

	open(my $out, '-|', @command) or die "could not execute $command[0]: $!\n";
	my $text = do { local $/; readline($out) } // '';
	close($out) or die "failed: @command\n$text";
	return $text;
}

# Build the extension, and start a server with it and with the settings given, in
# HOME, which run.sh has made.  It listens on a socket in there alone, so any port
# is free and nobody needs a password.
sub start_server
{
	my ($settings) = @_;
	my $home = $ENV{HOME};

	@ENV{qw(PGDATA PGHOST PGUSER PGDATABASE)} = ("$home/data", $home, 'postgres', 'postgres');
	STDOUT->autoflush(1);
	print 'Building snowflake and starting a server of ', output_of('postgres', '--version');
	if (-e $ENV{PGDATA})    # another topic's
	{
		output_of('pg_ctl', 'stop', '--silent', '--mode=immediate');
		rmtree($ENV{PGDATA});
	}
	output_of('bash', 'test/stage.sh', "$home/stage");
	output_of('initdb', '--no-sync', '--auth=trust', '--username=postgres', '--encoding=UTF8');
	open(my $conf, '>>', "$ENV{PGDATA}/postgresql.conf") or die "could not open postgresql.conf: $!\n";
	print $conf "include '$home/stage/server.conf'\nlisten_addresses = ''\nunix_socket_directories = '$home'\ntimezone = 'UTC'\n$settings";
	close($conf) or die "could not write postgresql.conf: $!\n";
	output_of('pg_ctl', 'start', '--wait', '--silent', "--log=$home/server.log");
	return;
}

# Make what most measurements look for in their database.
sub make_subjects
{
	output_of('make', '-s', '-C', 'bench');
	output_of('psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-v', "library=$ENV{HOME}/tree/bench/noop",
		'-f', 'bench/setup.sql', '-f', 'bench/peers.sql');
	return;
}

sub options
{
	my (%settings) = @_;
	return join(' ', map { "-c $_=$settings{$_}" } sort keys %settings);
}

# Run statements, each in a transaction of its own, in one session with such
# settings; the result as text.
sub query
{
	my ($statements, %settings) = @_;
	local $ENV{PGOPTIONS} = options(client_min_messages => 'warning', %settings);

	return output_of('psql', '-XAtq', '-v', 'ON_ERROR_STOP=1',
		map { ('-c', $_) } ref $statements ? @$statements : $statements) =~ s/\n\z//r;
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
# often each; gives what pgbench says.  Where it is only to be seen that it
# works, a few transactions do.  Of the other options, "arguments" are pgbench's,
# and the rest are settings.
sub pgbench_output
{
	my ($script, $clients, $seconds, %options) = @_;
	my $transactions = delete $options{transactions} // by_mode(5, 0, 0);
	my $arguments = delete $options{arguments} // [];
	my $path = "$ENV{TMPDIR}/script.sql";
	local $ENV{PGOPTIONS} = options(%options);

	open(my $file, '>', $path) or die "could not create $path: $!\n";
	print $file $script;
	close($file) or die "could not write $path: $!\n";
	return output_of('pgbench', '--no-vacuum', '--protocol=prepared',
		"--client=$clients", '--jobs=' . ($clients < 2 ? 1 : 2),
		$transactions ? "--transactions=$transactions" : "--time=$seconds", "--file=$path", @$arguments);
}

# The same; gives the transactions per second.
sub pgbench
{
	my $text = pgbench_output(@_);
	return $text =~ /^tps = ([0-9.]+)/m ? $1 : die "no rate in: $text\n";
}

# Is there such a function, or such a setting?
sub has
{
	my ($name) = @_;
	return query("SELECT to_regprocedure('$name') IS NOT NULL") eq 't' if $name =~ /\(/;
	return query("SELECT count(*) FROM pg_settings WHERE name = '$name'");
}

# Start the server again with other settings, or with those it had at first.
sub restart_server
{
	my (%settings) = @_;

	output_of('pg_ctl', 'restart', '--wait', '--silent', "--log=$ENV{HOME}/server.log", '--options=' . options(%settings));
	return;
}

# --- Tables whose key is made in one way or another

my %key = (
	'snowflake' => 'snowflake DEFAULT snowflake_nextval()',
	'snowflake, full pages' => 'snowflake DEFAULT snowflake_nextval()',
	'nextval, CACHE 1' => "bigint DEFAULT nextval('cache_1')",
	'nextval, CACHE 1000' => "bigint DEFAULT nextval('cache_1000')",
	'random UUID' => 'uuid DEFAULT gen_random_uuid()',
	'uuidv7' => 'uuid DEFAULT uuidv7()');

# Ids arrive at the right edge, so an index on them needs no room for others.
my %index = ('snowflake, full pages' => 'WITH (fillfactor = 100)');

# The names of the keys of which tables can be made here.
sub keys_here
{
	return grep { $_ ne 'snowflake, full pages' && ($_ ne 'uuidv7' || has('uuidv7()')) } sort keys %key;
}

# Create an empty table with such a key and an integer; gives its name.
sub table_of
{
	my ($prefix, $subject) = @_;
	my $table = $prefix . '_' . lc($subject =~ s/\W+/_/gr);

	query([ "DROP TABLE IF EXISTS $table",
		"CREATE TABLE $table (id $key{$subject} PRIMARY KEY " . ($index{$subject} // '') . ", payload integer)" ]);
	return $table;
}

1;
