# Schedules.pm -- what is searched by schedules: scenarios, and what must hold in each
#
# A schedule is a scenario and a seed.  The seed chooses statements, the clock, and who is
# next at each step: see Turns.pm.  What must hold is what doc/reference.md promises:
#
#	no id twice; a call that begins after another one has returned gives a greater id
#	who reads what is new misses no row; a mark never goes back
#	nobody waits for ever, and nothing fails

package Schedules;

use strict;
use warnings;

use Exporter 'import';
use List::Util qw(max min);
use Time::HiRes qw(sleep time);

use Turns;
use TurnServer;

our @EXPORT = qw(@SCENARIOS conf_of begin_game run_schedule steps_text);

my $PORT = TurnServer::port();
my $HORIZON_FILE = 'snowflake.horizon';    # record.c

# Two ids a tick and shard, so that ticks are exhausted.  Commits are synchronous: which ones a crash
# loses is not the seed's to choose.
my $EPOCH_MS = 1_577_836_800_000;    # 2020-01-01
my ($SHARD_SHIFT, $TICK_SHIFT) = (1, 5);
my $RESERVE_MS = 1000;
my $CONF = <<END;
snowflake.layout = 'epoch=2020-01-01 unit=1ms fields=timestamp:41,shard:4,sequence:1'
snowflake.shards = '1-3'
snowflake.reserve = ${RESERVE_MS}ms
snowflake.clock_tolerance = 10s
max_connections = 20
max_prepared_transactions = 10
max_worker_processes = 4
max_parallel_workers = 0
fsync = off
autovacuum = off
END

# What is added where shards are leased, of a registry that is in another database.
my $LEASE_MS = 10_000;
my $SETUP = 'CREATE EXTENSION snowflake; CREATE TABLE events (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), source int)';

# The registry goes by the clock of the schedule, but where it compares with that of files.
my $SETUP_REGISTRY = <<'END';
CREATE EXTENSION snowflake_registry;
CREATE FUNCTION public.clock() RETURNS timestamptz LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
	SELECT timestamptz '2000-01-01Z' + (SELECT sum(get_byte(bytes, i)::bigint << 8 * (i % 8)) FROM generate_series(0, 15) AS i)::bigint * interval '1 microsecond'
	  FROM pg_read_binary_file('DIRECTORY/shared', 16, 16) AS bytes
$$;
DO $$
DECLARE
	code text;
BEGIN
	FOR code IN SELECT replace(pg_get_functiondef(p.oid), 'clock_timestamp()', 'public.clock()') FROM pg_proc AS p
		 WHERE p.proname LIKE 'snowflake%' AND prosrc LIKE '%clock_timestamp()%' AND prosrc NOT LIKE '%pg_stat_file%' LOOP
		EXECUTE code;
	END LOOP;
END $$;
CREATE ROLE ids LOGIN;
SELECT snowflake_registry_grant('ids');
SELECT snowflake_registry_open('0');
END

# Players
my $FIRST = 0;    # mints before each schedule, and looks after it
my @MINTERS = (1, 2);
my @POLLERS = (3, 4);
my $ENDER = 5;    # ends what others have prepared
my @SESSIONS = ($FIRST, @MINTERS, @POLLERS, $ENDER);
my $REGISTRY = 6;
my ($CLOCK, $RELOAD) = (20, 21);    # what the driver does at its turn
my %NAME = (
	$FIRST => 'first', map({ $_ => "minter $_" } @MINTERS), map({ $_ => "poller $_" } @POLLERS),
	$ENDER => 'ender', $REGISTRY => 'registry', $Turns::HORIZON => 'horizon', $Turns::LEASE => 'lease');

# Each with the function that gives its work, and the faults of Faults.pm that show there.
# (open_before_noted and lease_until show in less than one of a thousand: the first one is for
# the step memory, the other one for 062_lease_clocks.)
our @SCENARIOS = (
	{
		name => 'minters and pollers',
		work => \&minters_and_pollers,
		faults => [qw(slots_read ring_entered ring_before_clear slots_before_ring hold_locked hold_in_two_steps one_mark horizon_kept file_before_bound file_written)],
	},
	{
		name => 'a clock that is set',
		work => \&clock_is_set,
		faults => [qw(latest_raised clock_behind)],
	},
	{
		name => 'marks of shards',
		work => \&marks_of_shards,
		faults => [qw(held_for_all held_for_all_locked others_from_now others_in_ring)],
	},
	{
		name => 'prepared transactions',
		work => \&prepared,
		faults => [qw(prepared_entered)],
	},
	{
		name => 'starts',
		work => \&before_start,
		starts => 1,
		faults => [qw(horizon_found hold_known prepared_locked stop_after_latest)],
	},
	{
		name => 'leases',
		work => \&leases,
		leases => 1,
		faults => [qw(open_from_tick no_look closed_before_release)],
	},
);

# --- Chance

sub chance { my ($share) = @_; return rand() < $share }
sub pick { return $_[ int(rand(@_)) ] }
sub between { my ($from, $to) = @_; return $from + int(rand($to - $from + 1)) }

# Who is next, and for how many steps: a function that is given the players whose statement has
# begun, and those who want the turn.
sub chooser
{
	my ($scenario) = @_;
	my @workers = ($Turns::HORIZON, $scenario->{leases} ? ($Turns::LEASE) x 3 : ());

	return pick(\&anybody, \&first_in_order, \&one_stops, \&one_stops, \&each_stops)->(@workers);
}

my $MANY = 1_000_000;    # steps: until the statement ends, or waits

# Anybody, for some steps.
sub anybody
{
	my $mean = pick(0.3, 1, 2, 4, 8, 16, 32);

	return sub { my ($running, @wanting) = @_; return (pick(@wanting), 1 + int(-$mean * log(1 - rand()))) };
}

# Who comes first in an order, which changes a few times.
sub first_in_order
{
	my %place;
	my @changes = sort { $a <=> $b } map { between(1, 500) } 1 .. between(1, 8);
	my ($steps, $last) = (0, 100);

	return sub {
		my ($running, @wanting) = @_;
		$place{$_} //= rand() for @wanting;
		my ($first) = sort { $place{$a} <=> $place{$b} } @wanting;
		my $budget = @changes ? min(8, $changes[0] - $steps) : 8;
		$steps += $budget;
		if (@changes && $steps >= $changes[0])
		{
			shift @changes;
			$place{$first} = $last++;
		}
		return ($first, $budget);
	};
}

# After how many steps of a statement somebody stops.
sub stop { return between(1, pick(8, 45, 45, 90)) }

# One stops twice in each statement, and meanwhile others make whole ones.
sub one_stops
{
	my (@workers) = @_;
	my ($one, $was_next, @steps) = (pick(@MINTERS, @MINTERS, @POLLERS, @workers));
	my $others_first = between(0, 6);

	return sub {
		my ($running, @wanting) = @_;
		if ($was_next && $running->{$one} && @steps > 1)
		{
			shift @steps;
			$others_first = between(1, 6);
		}
		@steps = (stop(), stop(), $MANY) if !$running->{$one};
		my @others = grep { $_ != $one } @wanting;
		$was_next = @others < @wanting && (!@others || $others_first-- <= 0);
		return $was_next ? ($one, $steps[0]) : (pick(@others), $MANY);
	};
}

# Each stops once in its statement; a worker, after some steps.
sub each_stops
{
	my %has_stopped;

	return sub {
		my ($running, @wanting) = @_;
		my $next = pick(@wanting);
		my $goes_on = $running->{$next} && $has_stopped{$next};
		$has_stopped{$next} = !$goes_on;
		return ($next, $goes_on ? $MANY : stop());
	};
}

# --- Statements, and what must hold of each.  A schedule notes here what it has seen.

sub fails { my ($schedule, $what) = @_; push @{ $schedule->{failures} }, $what; return }

# If the worker of leases has no turn for as long as a lease is, calls fail.
sub may_fail
{
	my ($schedule, $error) = @_;
	return $error =~ /ended before it was renewed/ && $schedule->{turns}->steady_us() - $schedule->{began_us} > 900 * $LEASE_MS;
}

sub statement
{
	my ($schedule, $sql, $done) = @_;

	return {
		sql => $sql,
		done => sub {
			my ($rows, $error) = @_;
			return $done && $done->($rows) if !defined($error);
			fails($schedule, "$error in: " . (ref($sql) ? 'a statement' : $sql)) if !may_fail($schedule, $error);
		}
	};
}

# No id is at the horizon that is on disk, or after it.
sub look_at_horizon
{
	my ($schedule, @ids) = @_;

	open(my $file, '<:raw', "$schedule->{data}/$HORIZON_FILE") or return fails($schedule, "no $HORIZON_FILE: $!");
	sysread($file, my $record, 16);
	my ($horizon) = unpack('x8q', $record);
	fails($schedule, "id $_ is not before the horizon") for grep { ($_ >> $TICK_SHIFT) >= tick_of($horizon) } @ids;
	return;
}

# Mints by snowflake_nextval(), or on a named shard; a row has the id.  Ids of a named shard go
# by ticks only.
sub minting
{
	my ($schedule, $sql, $is_named) = @_;
	my $least;

	return statement(
		$schedule,
		sub { $least = $schedule->{next_id} // 0; $sql },
		sub {
			my @ids = map { $_->[0] } @{ $_[0] };
			push @{ $schedule->{ids} }, @ids;
			look_at_horizon($schedule, @ids);
			for my $id (@ids)
			{
				my $first_of_tick = $id >> $TICK_SHIFT << $TICK_SHIFT;
				my $least_now = $is_named ? $least >> $TICK_SHIFT << $TICK_SHIFT : $least;
				fails($schedule, "id $id comes after " . ($least - 1)) if $id < $least_now;
				$least = max($least, $is_named ? $first_of_tick : $id + 1);
			}
			$schedule->{next_id} = max($least, $schedule->{next_id} // 0);
		});
}

my $INSERT = 'INSERT INTO events DEFAULT VALUES RETURNING id';
my $INSERT_THREE = 'INSERT INTO events (source) SELECT 1 FROM generate_series(1, 3) RETURNING id';

sub insert_on { my ($shard) = @_; return "INSERT INTO events (id) VALUES (snowflake_nextval($shard)) RETURNING id" }

# The statements of a transaction that mints.
sub transaction
{
	my ($schedule) = @_;
	my $kind = between(0, 9);
	my $named = insert_on(between(1, 3));

	return minting($schedule, $INSERT) if $kind < 3;
	return minting($schedule, $INSERT_THREE) if $kind == 3;
	return minting($schedule, "BEGIN; $INSERT; COMMIT") if $kind == 4;
	return minting($schedule, $named, 1) if $kind == 5;
	my @inserts = $kind == 6 ? minting($schedule, $named, 1) : ();
	push @inserts, minting($schedule, $INSERT) if $kind != 7 || chance(0.5);
	push @inserts, minting($schedule, $named, 1) if $kind == 7;
	return (statement($schedule, 'BEGIN'), @inserts, statement($schedule, $kind == 8 ? 'ROLLBACK' : 'COMMIT'));
}

# Reads what is new: of all shards, or of a list of one.
sub poll
{
	my ($schedule, $player, $shard) = @_;
	my $of = defined($shard) ? "'$shard'" : '';
	my $from = \($schedule->{from}{$player}{$of} //= $schedule->{first_id});
	my $least;

	return statement(
		$schedule,
		sub {
			my $rows = 'SELECT id FROM events WHERE id >= ' . $$from . " AND id + 0 < snowflake_settled($of)::bigint";
			$rows .= " AND (id >> $SHARD_SHIFT) & 15 = $shard" if defined($shard);
			$least = $schedule->{mark}{$of} // $schedule->{first_id} >> $TICK_SHIFT << $TICK_SHIFT;
			"SELECT array_to_string(array($rows), ' '), snowflake_settled($of)::bigint";
		},
		sub {
			my ($seen, $mark) = @{ $_[0][0] };
			fails($schedule, "the mark went back from $least to $mark") if $mark < $least;
			push @{ $schedule->{polls} }, { player => $player, shard => $shard, from => $$from, mark => $mark, seen => { map { $_ => 1 } split(' ', $seen) } };
			$schedule->{mark}{$of} = max($mark, $least, $schedule->{mark}{$of} // 0);
			$$from = max($mark, $$from);
		});
}

# Some polls of a player; a share of them is of one shard, from 1 to the last one.
sub polls
{
	my ($schedule, $player, $share, $last_shard) = @_;

	return [ map { poll($schedule, $player, chance($share) ? between(1, $last_shard) : undef) } 1 .. between(3, 9) ];
}

# Looks at all rows that there are in the end.
sub look
{
	my ($schedule) = @_;

	return statement(
		$schedule,
		"SELECT id FROM events WHERE id >= $schedule->{first_id}",
		sub {
			my @ids = map { $_->[0] } @{ $_[0] };
			for my $poll (@{ $schedule->{polls} })
			{
				for my $id (grep { $_ >= $poll->{from} && $_ < $poll->{mark} && !$poll->{seen}{$_} } @ids)
				{
					next if defined($poll->{shard}) && ($id >> $SHARD_SHIFT & 15) != $poll->{shard};
					fails($schedule, "row $id was missed by player $poll->{player}, which read from $poll->{from} to the mark $poll->{mark}");
				}
			}
		});
}

# --- Scenarios

sub minters_and_pollers
{
	my ($schedule) = @_;
	my %work;

	$work{$_} = [ map { transaction($schedule) } 1 .. between(3, 9) ] for @MINTERS;
	$work{$_} = polls($schedule, $_, 0.2, 3) for @POLLERS;
	return %work;
}

# It is set back and ahead, by some ticks.  Few look, as who does raises the latest tick; and
# some mint on another shard than the rest.
sub clock_is_set
{
	my ($schedule, $turns) = @_;
	my %work = minters_and_pollers($schedule);
	my @us = map { 1000 * between(-4, 6) } 1 .. between(4, 12);

	unshift @{ $work{$_} }, map { minting($schedule, insert_on(between(2, 3)), 1), minting($schedule, $INSERT) } 1 .. between(0, 3) for @MINTERS;
	delete $work{$_} for pick([], [ $POLLERS[0] ], \@POLLERS, \@POLLERS)->@*;
	$work{$CLOCK} = [ map { my $us = $_; sub { $turns->move_clock($us) } } @us ];
	return %work;
}

sub marks_of_shards
{
	my ($schedule) = @_;
	my %work;

	for ((@MINTERS) x between(3, 8))
	{
		my @inserts = map { minting($schedule, insert_on(between(1, 2)), 1) } 1 .. between(2, 3);
		push @{ $work{$_} }, statement($schedule, 'BEGIN'), @inserts, statement($schedule, 'COMMIT'), transaction($schedule);
	}
	$work{$_} = [ map { @{ polls($schedule, $_, 1, 2) } } 1 .. 2 ] for @POLLERS;
	return %work;
}

# Who has prepared a transaction, or another session, ends it.
sub prepared
{
	my ($schedule) = @_;
	my %work = ($ENDER => []);

	for my $minter (@MINTERS)
	{
		for my $name (map { "transaction $minter $_" } 1 .. between(1, 2))
		{
			my $end = statement($schedule, pick('COMMIT', 'COMMIT', 'ROLLBACK') . " PREPARED '$name'");
			my $is_ended_here = chance(0.3);
			push @{ $work{$minter} }, statement($schedule, 'BEGIN'), minting($schedule, chance(0.3) ? insert_on(1) : $INSERT, 1),
			  statement($schedule, "PREPARE TRANSACTION '$name'", sub { push @{ $work{$ENDER} }, $end if !$is_ended_here }),
			  $is_ended_here ? $end : transaction($schedule);
		}
	}
	$work{$_} = polls($schedule, $_, 0.3, 1) for @POLLERS;
	return %work;
}

# What the server ends in.  Some prepared transactions are left.
sub before_start
{
	my %work = chance(0.5) ? prepared(@_) : minters_and_pollers(@_);

	delete $work{$ENDER} if chance(0.5);
	return %work;
}

# Sessions begin while the workers do, if they are not there yet; and prepared transactions
# end that are left.
sub after_start
{
	my ($schedule, $are_open) = @_;
	my %work = minters_and_pollers($schedule);
	my $may_be_missing = sub { my ($rows, $error) = @_; fails($schedule, $error) if defined($error) && $error !~ /^42704/ };

	for my $minter (@MINTERS)
	{
		push @{ $work{$ENDER} }, map { { sql => "COMMIT PREPARED 'transaction $minter $_'", done => $may_be_missing } } 1, 2;
	}
	unshift @{ $work{$_} }, { port => $PORT } for $are_open ? () : @SESSIONS;
	return %work;
}

# Shards are given back and leased again, by reloads; a lease is revoked, and ends; the
# clock comes to where leases are renewed.
sub leases
{
	my ($schedule, $turns) = @_;
	my %work;

	$work{$_} = [ map { minting($schedule, pick($INSERT, $INSERT, $INSERT_THREE)) } 1 .. between(4, 12) ] for @MINTERS;
	$work{ $POLLERS[0] } = polls($schedule, $POLLERS[0], 0);
	my @lists = map { (pick('2-3', '1,3', '3'), '1-3') } 1 .. between(0, 3);
	$work{$RELOAD} = [ map { my $shards = $_; sub { $turns->reload(shards => $shards) } } @lists ] if @lists;
	delete $schedule->{revoked_until_ms} if @lists;    # there may be three leases of that shard
	return %work;
}

# --- A schedule

sub tick_of { my ($us) = @_; return int(($us / 1000 + 946_684_800_000) - $EPOCH_MS) }

# What the server and its sessions are before all schedules.
sub conf_of
{
	my ($scenario, $dir) = @_;

	return $CONF if !$scenario->{leases};
	return $CONF . "snowflake.registry = 'host=$dir port=$PORT dbname=registry user=ids'\nsnowflake.lease = ${LEASE_MS}ms\n";
}

sub open_sessions { my ($turns) = @_; $turns->open_session($_, $PORT) for @SESSIONS; return }

sub begin_game
{
	my ($server, $scenario) = @_;
	my $turns = $server->turns();
	my $sql = sub {
		my ($player, $text) = @_;
		my $answer = $turns->ask($player, $text);
		die "$text: $answer->{error}{M}\n" if $answer->{error};
		return @{ $answer->{rows} };
	};

	open_sessions($turns);
	if ($scenario->{leases})
	{
		$sql->($FIRST, 'DROP DATABASE IF EXISTS registry');
		$sql->($FIRST, 'CREATE DATABASE registry');
		$turns->open_session($REGISTRY, $PORT, 'registry');
		$sql->($REGISTRY, 'DROP ROLE IF EXISTS ids');
		$sql->($REGISTRY, $SETUP_REGISTRY =~ s/DIRECTORY/$server->dir()/er);
	}
	$sql->($FIRST, "ROLLBACK PREPARED '$_->[0]'") for $sql->($FIRST, 'SELECT gid FROM pg_prepared_xacts');    # of a crash
	$sql->($FIRST, "DROP TABLE IF EXISTS events; DROP EXTENSION IF EXISTS snowflake; $SETUP");
	$sql->($_, "SET snowflake.shards = '1-3'") for @SESSIONS;
	await_leases($turns) if $scenario->{leases};
	$turns->begin();
	warm_up($turns, $scenario);
	return;
}

# What a session does once in its life is done before the first schedule.
sub warm_up
{
	my ($turns, $scenario) = @_;
	my $schedule = new_schedule($turns);

	srand(0);
	for my $player (@MINTERS, @POLLERS, $ENDER)
	{
		prepare($turns, $scenario, $schedule, 400);
		$turns->play_in_order($player => [ minting($schedule, $INSERT), statement($schedule, 'SELECT snowflake_settled()') ]);
	}
	return;
}

# The worker that leases began when there was no registry yet, and tries again by a clock that
# only we move.
sub await_leases
{
	my ($turns) = @_;
	my $began = time();

	for (;;)
	{
		return if $turns->ask($FIRST, 'SELECT count(*) FROM snowflake_leases() WHERE held')->{rows}[0][0] == 3;
		die "the server has no leases\n" if time() - $began > 60;
		$turns->set_steady_us($turns->steady_us() + 1_000_000);
		sleep(0.05);
	}
}

# The clock is where nobody has set it, and goes on only if all wait.
sub stop_clock
{
	my ($turns) = @_;

	$turns->set_ticks(0);
	$turns->move_clock(-$turns->get(24, 8, 'q'));
	return;
}

# Bring the server to where each schedule begins: an id was just minted, and the horizon was
# just renewed; so many ms before a renewal is due, or the horizon or a lease ends.  Once
# more, so that nothing is left of the schedule before: the second renewal goes by how long
# the first one took.
sub prepare
{
	my ($turns, $scenario, $schedule, $ms_before) = @_;
	my $us;

	stop_clock($turns);
	$turns->reload(shards => '1-3') if $turns->setting('shards') ne '1-3';
	for (1 .. 2)
	{
		$us = $turns->steady_us() + 2 * 1000 * $LEASE_MS;
		$turns->set_steady_us($us - $us % 1000);
		$turns->play_in_order(
			$FIRST => [
				statement($schedule, $INSERT, sub { $schedule->{first_id} = $_[0][0][0]; $schedule->{next_id} = $schedule->{first_id} + 1 }),
				statement($schedule, 'SELECT snowflake_settled()') ])
		  or fails($schedule, 'the first INSERT waits for ever');
	}
	my @due_ms = ($RESERVE_MS / 2, $RESERVE_MS);
	if ($scenario->{leases})
	{
		my $is_revoked = chance(0.5);
		revoke($turns, $schedule, between(1, 2)) if $is_revoked;
		@due_ms = ($LEASE_MS / 2, $is_revoked ? ($LEASE_MS) x 3 : ($RESERVE_MS / 2, $LEASE_MS));
	}
	$us = $turns->steady_us() + 1000 * (pick(@due_ms) - $ms_before);
	$turns->set_steady_us($us);
	$schedule->{first_tick} = tick_of($us);
	return;
}

# A lease is not to be renewed any more.  (That of shard 3 goes on, and all can mint there.)
sub revoke
{
	my ($turns, $schedule, $shard) = @_;

	$turns->play_in_order(
		$REGISTRY => [
			statement(
				$schedule,
				"SELECT extract(epoch FROM snowflake_registry_revoke($shard)) * 1000",
				sub { $schedule->{revoked_until_ms}{$shard} = $_[0][0][0] })
		]);
	return;
}

# No id is of a time at which its shard was not leased any more, or not yet again.
sub look_at_leases
{
	my ($schedule) = @_;

	return statement(
		$schedule,
		q(SELECT shard, extract(epoch FROM lease_from) * 1000, extract(epoch FROM lease_until) * 1000 FROM snowflake_registry_shards WHERE lease_until IS NOT NULL),
		sub {
			my %lease = map { shift(@$_) => $_ } @{ $_[0] };
			for my $id (@{ $schedule->{ids} })
			{
				my $shard = $id >> $SHARD_SHIFT & 15;
				my $ms = ($id >> $TICK_SHIFT) + $EPOCH_MS;
				my ($from_ms, $until_ms) = @{ $lease{$shard} };
				my $revoked_until_ms = $schedule->{revoked_until_ms}{$shard} // $from_ms;
				fails($schedule, "id $id is after the end of the lease") if $ms >= $until_ms || $ms >= $revoked_until_ms && $ms < $from_ms;
			}
		});
}

sub new_schedule
{
	my ($turns) = @_;
	return { turns => $turns, began_us => $turns->steady_us(), data => $turns->data(), failures => [], polls => [], ids => [] };
}

# --- Starts

# A schedule begins with a server that has just started, so that nothing goes by what the one
# before was: which session has which slot, say.
sub start_anew
{
	my ($server) = @_;
	my $turns = $server->turns();

	stop_clock($turns);
	$server->stop('fast');
	$server->start_in_game();
	$turns->play_in_order(map { $_ => [ { port => $PORT } ] } @SESSIONS);
	return;
}

# Play until some turns were given.
sub play_some
{
	my ($turns, $choose, $most, %work) = @_;

	$turns->play(sub { return $most-- > 0 ? $choose->(@_) : () }, %work);
	return;
}

# The server ends in the middle of what goes on, or by itself, or is another one that has never
# minted; the clock is set; and it starts, or follows and is promoted.  True if sessions are
# open then: those of the standby.
sub start_again
{
	my ($server, $schedule) = @_;
	my $turns = $server->turns();
	my $is_new = chance(0.2);

	chance(0.6) ? $server->crash() : $server->stop('fast');
	my $us = $turns->steady_us() + 1000;
	$turns->set_steady_us($us - $us % 1000);
	$schedule->{first_tick} = tick_of($turns->steady_us());
	$turns->move_clock(1000 * pick(0, 0, between(-5, 5), between(-2 * $RESERVE_MS, 2 * $RESERVE_MS)));
	if ($is_new)
	{
		$server->replace_by_new($SETUP);
		delete @$schedule{qw(from mark next_id)};
		# its first mark may be of a time before it started
		@$schedule{qw(polls ids first_id)} = ([], [], 0);
	}
	my $are_open = chance(0.3);
	if ($are_open || chance(0.3)) { $server->start_as_standby(sub { open_sessions($turns) if $are_open }) }
	else { $server->start_in_game() }
	return $are_open;
}

# Gives what was seen: "failures", and then, or if they are asked for, "steps".
sub run_schedule
{
	my ($server, $scenario, $seed, $keeps_steps) = @_;
	my $turns = $server->turns();
	my $schedule = new_schedule($turns);

	srand($seed * 2_654_435_761 % 2**32);
	rand() for 1 .. 3;
	start_anew($server) if $scenario->{starts};
	prepare($turns, $scenario, $schedule, pick(between(0, 3), between(0, 3), between(0, 30), 400));
	return $schedule if @{ $schedule->{failures} };
	my $share = pick(0.02, 0.1, 0.3, 0.6, 0.9);
	my $leap = chance(0.1) ? pick(30, 200) : 1;
	my @ticks = map { chance($share) ? pick(1, 1, 1, $leap) : 0 } 1 .. 256;
	$turns->set_ticks(@ticks);
	my $choose = chooser($scenario);
	my %work = $scenario->{work}->($schedule, $turns);
	if ($scenario->{starts})
	{
		my $later = int(rand(2**32));
		$turns->forget_steps();
		play_some($turns, $choose, between(0, pick(10, 100)), %work);
		$schedule->{before} = [ $turns->steps() ];
		srand($later);
		%work = after_start($schedule, start_again($server, $schedule));
		$turns->set_ticks(@ticks);
		$choose = chooser($scenario);
	}
	$turns->forget_steps();
	$turns->play($choose, %work) or fails($schedule, 'all wait for ever');
	$schedule->{steps} = [ @{ $schedule->{before} // [] }, $turns->steps() ] if $keeps_steps || @{ $schedule->{failures} };
	$turns->set_ticks(0);
	$turns->play_in_order($FIRST => [ look($schedule) ]);
	$turns->play_in_order($REGISTRY => [ look_at_leases($schedule) ]) if $scenario->{leases};
	return $schedule;
}

# --- The steps as text.  What is different each time, such as an xid, or an id of a schedule
# --- before, is left out if they are to be compared.

sub value_text
{
	my ($value, $tick, $for_comparison) = @_;

	return 'never' if $value == 9_223_372_036_854_775_807;
	for ([ 'tick', 0 ], [ 'position of tick', $SHARD_SHIFT ], [ 'id of tick', $TICK_SHIFT ])
	{
		my ($what, $shift) = @$_;
		my $far = ($value >> $shift) - $tick;
		next if abs($far) >= 1_000_000 || $value <= 0;
		return $for_comparison && $far < -1.5 * $LEASE_MS ? '' : sprintf('%s %+d', $what, $far);
	}
	my $far = tick_of($value) - $tick;
	return $for_comparison && abs($value) > 9 ? '' : $value if $value <= 0 || abs($far) >= 1_000_000;
	return $for_comparison && $far < -1.5 * $LEASE_MS ? '' : sprintf('%+d ms', $far);
}

sub steps_text
{
	my ($schedule, $for_comparison) = @_;

	my $value_of = sub {
		my ($what, $value) = @_;
		# how many ids a session has minted, and when it last logged
		return $for_comparison && $what =~ /->minted|^reads after$/ ? '' : value_text($value, $schedule->{first_tick}, $for_comparison);
	};
	return join('', map { sprintf("%-9s %s %s: %s\n", $NAME{ $_->[0] } // "session $_->[0]", @$_[ 1, 2 ], $value_of->(@$_[ 2, 3 ])) }
		  @{ $schedule->{steps} });
}

1;
