# States.pm -- the states in which a server can be found
#
# StateTest.pm tells how test/t/101_states.pl and 106_states_in_time.pl bring about each of
# them by its cause, look at what is said here, follow the next step, and see that the state
# has gone.  The table of doc/states.md is made from it:
#
#     perl -Itest/perl -MStates -e States::write_page
#
# A state has a name, and:
#	says	of what an INSERT says; none: it succeeds
#	finds	the areas and states of snowflake_check() that are not ok, but for "visibility"
#	step	of the next step of the first one
#	script	states_in_time, if that tries it
#	alerts	that fire; all others are quiet.  Those of @by_wait from PostgreSQL 17 on
#
# "..." stands for what differs.

package States;

use strict;
use warnings;

use PageTable;

my $slowly = 'Minting goes on by itself';

our @by_wait = ('SnowflakeHorizonStuck');

our @states = (
	# --- healthy
	{ name => 'a primary server' },
	{ name => 'a disk of which each write takes 1.5 s' },
	{
		name => 'a standby',
		says => 'cannot execute INSERT in a read-only transaction',
		finds => ['standby notice'],
		step => 'Mint on the primary server.',
	},
	{ name => 'a standby that was promoted' },
	{ name => 'a server that leases', script => 'states_in_time' },
	{
		name => 'its standby',
		script => 'states_in_time',
		says => 'cannot execute INSERT in a read-only transaction',
		finds => ['standby notice'],
		step => 'Mint on the primary server.',
	},

	# --- the library, the worker
	{
		name => 'the library is not preloaded',
		says => 'snowflake must be loaded via "shared_preload_libraries"',
		finds => ['preload error'],
		step => 'Add \'snowflake\' to "shared_preload_libraries" in postgresql.conf, and restart the server. If it is there, another line goes before:',
	},
	{
		name => 'max_worker_processes is 0',
		says => 'snowflake\'s background worker is not running',
		finds => ['worker error'],
		step => 'Set "max_worker_processes" to 3 or more, and restart the server.',
		alerts => ['SnowflakeCannotMint'],
	},
	{
		name => 'it is at the first start',
		script => 'states_in_time',
		says => 'the layout of this server is not recorded yet',
		finds => [ 'worker error', 'layout error' ],
		step => 'Set "max_worker_processes" to 3 or more, and restart the server.',
		alerts => ['SnowflakeCannotMint'],
	},
	{
		name => 'the worker is stopped (SIGSTOP)',
		says => 'canceling statement due to statement timeout',
		finds => ['horizon warning'],
		step => 'If its process is stopped, continue it by kill -CONT.',
		alerts => ['SnowflakeHorizonStuck'],
	},

	# --- the horizon
	{
		name => 'the disk is full',
		says => 'cannot mint snowflake ids: could not write file "snowflake.horizon.tmp": No space left on device',
		finds => ['horizon error'],
		step => 'Remove the cause, such as a full disk.',
		alerts => ['SnowflakeCannotMint'],
	},
	{
		name => 'no synchronous standby answers',
		says => 'canceling statement due to statement timeout',
		finds => ['horizon warning'],
		step => 'Start the standbys that "synchronous_standby_names" names, or change that',
		alerts => ['SnowflakeHorizonStuck'],
	},
	{
		name => 'a byte of snowflake.horizon is damaged',
		says => 'cannot mint snowflake ids: could not use file "snowflake.horizon": its checksum is wrong',
		finds => ['horizon error'],
		step => 'Check that the clock is past the newest id, and remove file "snowflake.horizon"',
		alerts => ['SnowflakeCannotMint'],
	},
	{
		name => 'snowflake.horizon may not be read',
		says => 'cannot mint snowflake ids: could not open file "snowflake.horizon": Permission denied',
		finds => ['horizon error'],
		step => 'Make the operating-system user of the server the owner of file "snowflake.horizon", with mode 0600. Do not remove it.',
		alerts => ['SnowflakeCannotMint'],
	},
	{
		name => 'snowflake.horizon is of a later version',
		says => 'cannot mint snowflake ids: could not use file "snowflake.horizon": it is of version ..., and this library reads version 1',
		finds => ['horizon error'],
		step => 'Install the version of snowflake that wrote it',
		alerts => ['SnowflakeCannotMint'],
	},

	# --- the clock
	{
		name => 'the clock is set back',
		script => 'states_in_time',
		says => 'clock is ... behind the last snowflake id',
		finds => ['clock error'],
		step => 'Check the server\'s time synchronization.',
		alerts => ['SnowflakeClockBehind'],
	},
	{
		name => 'the clock was ahead, and is right again',
		script => 'states_in_time',
		says => 'clock is ... behind the last snowflake id',
		finds => ['clock error'],
		step => "Check the server's time synchronization. $slowly when the clock has reached",
		alerts => ['SnowflakeClockBehind'],
	},
	{
		name => 'a crash, with snowflake.reserve = 60s',
		script => 'states_in_time',
		says => 'clock is ... behind the snowflake horizon that was found at the start',
		finds => ['clock error'],
		step => "Check the server's time synchronization. $slowly when the clock has reached",
		alerts => ['SnowflakeClockBehind'],
	},

	# --- layouts
	{
		name => 'snowflake.layout is another one',
		says => 'this server has another layout than "snowflake.layout"',
		finds => ['layout error'],
		step => 'Set "snowflake.layout" back and restart the server.',
		alerts => ['SnowflakeLayoutDiffers'],
	},
	{
		name => 'a change of snowflake.layout waits for a restart',
		finds => ['settings warning'],
		step => 'Restart the server, or take the value back from the file.',
	},
	{
		name => 'the layout expires within a year',
		script => 'states_in_time',
		finds => ['expiry warning'],
		step => 'Change the layout: doc/layout.md.',
		alerts => ['SnowflakeLayoutExpires'],
	},
	{
		name => 'the layout has expired',
		script => 'states_in_time',
		says => 'the layout of snowflake ids has expired',
		finds => ['expiry error'],
		step => 'Change the layout: doc/layout.md.',
		alerts => ['SnowflakeLayoutExpires'],
	},

	# --- shards
	{
		name => 'snowflake.shards is empty',
		says => 'no shard is configured for this server',
		finds => ['shards error'],
		step => 'Set "snowflake.shards" to the shards that are this server\'s alone',
		alerts => ['SnowflakeNoShard'],
	},
	{
		name => 'a DEFAULT came from another server',
		says => 'shard 6 is not one of this server\'s',
		finds => ['columns error'],
		step => 'ALTER TABLE public.photos ALTER COLUMN id SET DEFAULT public.snowflake_nextval();',
	},
	{
		name => 'a dump brought ALTER DATABASE ... SET snowflake.shards',
		finds => ['settings notice'],
		step => 'If they are another server\'s: ALTER DATABASE postgres RESET snowflake.shards;',
	},

	# --- clones
	{
		name => 'a restored backup',
		finds => ['clone warning'],
		step => 'Give it other shards than its original\'s. Then, or if the original is gone for good: SELECT snowflake_accept_clone();',
		alerts => ['SnowflakeClone'],
	},
	{
		name => 'with snowflake.refuse_clone = on',
		says => 'this server is a clone of another server',
		finds => ['clone error'],
		step => 'Give it other shards than its original\'s. When it has them, or when the original is gone for good, call snowflake_accept_clone().',
		alerts => ['SnowflakeClone'],
	},

	# --- the feed, tables
	{
		name => 'a prepared transaction is forgotten',
		finds => ['mark warning'],
		step => 'In database "postgres": COMMIT PREPARED \'forgotten\'; or ROLLBACK PREPARED \'forgotten\';',
		alerts => ['SnowflakeMarkHeld'],
	},
	{
		name => 'a transaction that has minted is open',
		script => 'states_in_time',
		finds => ['mark warning'],
		step => 'End its transaction, or: SELECT pg_terminate_backend(...);',
		alerts => ['SnowflakeMarkHeld'],
	},
	{
		name => 'a table has an id of 2060',
		finds => ['columns warning'],
		step => 'SELECT * FROM public.snowflake_audit(\'public.photos\', \'id\');',
	},
	{
		name => 'the last partition has ended',
		says => 'no partition of relation "clicks" found for row',
		finds => ['partitions error'],
		step => 'SELECT public.snowflake_make_partitions(',
	},

	# --- leases
	{
		name => 'the registry is away',
		script => 'states_in_time',
		finds => ['registry warning'],
		step => 'Check that the registry runs, and try "snowflake.registry" from this server',
		alerts => ['SnowflakeRegistryAway'],
	},
	{
		name => 'and the lease has ended',
		script => 'states_in_time',
		says => 'cannot mint snowflake ids: the registry cannot be reached',
		finds => ['registry error'],
		step => 'Check that the registry runs, and try "snowflake.registry" from this server',
		alerts => [ 'SnowflakeLeaseEnded', 'SnowflakeRegistryAway' ],
	},
	{
		name => 'the role may not lease',
		script => 'states_in_time',
		finds => ['registry warning'],
		step => 'Run SELECT public.snowflake_registry_grant(\'ids\') in database "postgres" of the registry\'s server.',
		alerts => ['SnowflakeRegistryAway'],
	},
	{
		name => 'a lease was lost',
		script => 'states_in_time',
		finds => ['registry warning'],
		step => 'Audit the tables that have ids of that shard and time: snowflake_audit().',
		alerts => ['SnowflakeLeaseLost'],
	},
	{
		name => 'another server has the shard',
		script => 'states_in_time',
		says => 'shard 4 is leased to another server',
		finds => [ 'leases error', 'leases warning' ],
		step => 'Give each server shards of its own in "snowflake.shards", or set it to "auto".',
		alerts => [ 'SnowflakeLeaseEnded', 'SnowflakeLeaseRefused' ],
	},
	{
		name => 'the shard is reserved',
		script => 'states_in_time',
		says => 'shard 7 is reserved in the registry',
		finds => [ 'leases error', 'leases warning' ],
		step => 'Take it from "snowflake.shards", or call snowflake_registry_unreserve() in the registry.',
		alerts => [ 'SnowflakeLeaseEnded', 'SnowflakeLeaseRefused' ],
	},
	{
		name => 'the registry\'s database has no extension',
		script => 'states_in_time',
		says => 'cannot mint snowflake ids: the registry refuses this server',
		finds => ['registry error'],
		step => 'Name the registry\'s database by "dbname" in "snowflake.registry".',
		alerts => [ 'SnowflakeLeaseEnded', 'SnowflakeRegistryAway' ],
	},
	{
		name => 'the registry is not open',
		script => 'states_in_time',
		says => 'cannot mint snowflake ids: the registry is not open',
		finds => ['registry error'],
		step => 'Run SELECT public.snowflake_registry_open(\'...\') in database "second" of the registry\'s server',
		alerts => [ 'SnowflakeLeaseEnded', 'SnowflakeRegistryAway' ],
	},
	{
		name => 'snowflake.shards is auto, and there is no registry',
		script => 'states_in_time',
		says => 'there is no registry to lease snowflake shards from',
		finds => ['leases error'],
		step => 'Set "snowflake.registry"; or set "snowflake.shards" to a list, and restart the server.',
		alerts => ['SnowflakeLeaseEnded'],
	},
);

# A pattern of a text with "..." in it.
sub pattern
{
	my ($text) = @_;
	my $pattern = join('.*', map { quotemeta } split(/\.\.\./, $text, -1));

	return qr/$pattern/;
}

# --- The page

my $page = __FILE__ =~ s{[^/]*$}{../../doc/states.md}r;

sub cell
{
	return join('<br>', map { s/\|/\\|/gr } @_);
}

sub table
{
	my @lines = ('| the server | an INSERT says | `snowflake_check()` | the first next step | alerts |', '|---|---|---|---|---|');

	for my $state (@states)
	{
		push @lines, join(' ', '|', cell($state->{name}), '|', cell($state->{says} ? "`$state->{says}`" : ()), '|', cell(@{ $state->{finds} // [] }),
			'|', cell($state->{step} ? "`$state->{step}`" : ()), '|', cell(map { "`$_`" } @{ $state->{alerts} // [] }), '|') =~ s/  +/ /gr;
	}
	return join("\n", @lines) . "\n";
}

sub write_page { return PageTable::write_table($page, table()) }

1;
