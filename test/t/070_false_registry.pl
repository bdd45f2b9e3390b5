# A false registry: whatever answers in its name, no process crashes, no session
# hangs, memory stays bounded, and what a user sees can be printed.
#
# Takes: long

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use IO::Socket::INET;
use LeaseTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;
use Time::HiRes qw(sleep time);

my $nextval = 'SELECT snowflake_nextval()';
my $US = 1_000_000;

# --- A program that speaks as much of the protocol as a registry needs, and gives
# --- the answer of which the name stands in a file.

sub message { my ($type, $body) = @_; return $type . pack('N', length($body) + 4) . $body }

# What a row has and a row, of text cells; undef is NULL.
sub columns
{
	my ($count, $format) = @_;
	return message('T', pack('n', $count) . pack('Z*NnNnNn', 'c', 0, 0, 25, -1, -1, $format // 0) x $count);
}

sub row { return message('D', pack('n', scalar @_) . join('', map { defined ? pack('N', length) . $_ : pack('N', 0xffffffff) } @_)) }
sub done { my ($tag) = @_; return message('C', "$tag\0") }
sub idle { return message('Z', 'I') }

# The answer to a call: BEGIN, two SET, the rows, COMMIT.
sub rows { return done('BEGIN') . done('SET') x 2 . columns(5) . join('', map { row(@$_) } @_) . done('SELECT') . done('COMMIT') . idle() }

sub now_us { return sprintf('%d', time() * $US) }
sub accepted { return [ 'accepted', undef, undef, now_us(), 'e9bd8ad7e43cbd5c' ] }
sub is_closed { return rows([ 'closed', undef, undef, undef, 'x' ]) }
sub held { my ($shard, $seconds) = @_; return [ 'held', $shard, now_us() - $US, now_us() + ($seconds // 3600) * $US, undef ] }
my @set_aside = ([ 'set_aside', undef, undef, undef, '' ]);

# A part again and again, until the client goes away; never a minute of it.
sub endless
{
	my ($socket, $first, $part) = @_;
	my $until = time() + 60;

	print $socket $first or return;
	while (time() < $until) { print $socket $part or return }
	return;
}

# So long a schema's name is one too long for the longest hint with it.
my $HINT_SIZE = 256 - length(q(Run SELECT .snowflake_registry_open('...') in database "leases" of the registry's server, with the longest "snowflake.lease" of all servers, or '0' if no server ever leased a shard.));

# The name, what snowflake_lease_status() says, the answer to a call, what a session gets,
# and what the schema is.
my @cases = (
	[ 'a schema without a column', 'has no extension snowflake_registry', undef, undef, columns(0) . row() ],
	[ 'no column', "the registry's answer is not valid: it has 0 columns instead of 5", sub { done('BEGIN') . columns(0) . message('D', pack('n', 0)) . done('SELECT 1') . idle() } ],
	[ 'two schemas', 'has no extension snowflake_registry', undef, undef, columns(2) . row('public', 'public') ],
	[ 'one column', "the registry's answer is not valid: it has 1 columns instead of 5", sub { columns(1) . row('accepted') . done('SELECT 1') . idle() } ],
	[ 'a schema without a name', 'has no extension snowflake_registry', undef, undef, columns(1) . row('') ],
	[ 'six columns', "the registry's answer is not valid: it has 6 columns instead of 5", sub { columns(6) . row(('accepted') x 6) . done('SELECT 1') . idle() } ],
	[ 'a schema with a long name', 'has no extension snowflake_registry', undef, undef, columns(1) . row('x' x 1000) ],
	[ 'a binary column', "the registry's answer is not valid: row 1 has a cell", sub { columns(5, 1) . row(@{ accepted() }) . done('SELECT 1') . idle() } ],
	[ 'no row', "the registry's answer is not valid: it has no row", sub { rows() } ],
	[ 'no rows at all', "the registry's answer is not valid: it has no row", sub { done('COMMIT') . idle() } ],
	[ 'an empty query', "the registry's answer is not valid: it is none to a query", sub { message('I', '') . idle() } ],
	[ 'COPY', "the registry's answer is not valid: it is none to a query", sub { message('G', pack('Cn', 0, 0)) } ],
	[ 'two results', "the registry's answer is not valid: row 2 stands where", sub { columns(5) . (row(@{ accepted() }) . done('SELECT 1') . columns(5)) x 2 . idle() } ],
	[ 'an unknown state', "the registry's answer is not valid: row 1 has no known state", sub { rows([ 'granted', (undef) x 4 ]) } ],
	[ 'no state', "the registry's answer is not valid: row 1 has no known state", sub { rows([ (undef) x 5 ]) } ],
	[ 'a lease first', "the registry's answer is not valid: row 1 stands where", sub { rows(held(5)) } ],
	[ 'accepted twice', "the registry's answer is not valid: row 2 stands where", sub { rows(accepted(), accepted()) } ],
	[ 'more after a clone', "the registry's answer is not valid: row 2 stands where",
		sub { rows([ 'clone', undef, undef, now_us(), 'x' ], held(5)) } ],
	[ 'no time', "the registry's answer is not valid: row 1 lacks a cell", sub { rows([ 'accepted', (undef) x 3, 'e9bd8ad7e43cbd5c' ]) } ],
	[ 'no number', "the registry's answer is not valid: row 1 lacks a cell", sub { rows([ 'accepted', undef, undef, now_us(), undef ]) } ],
	[ 'a number that is none', "the registry's answer is not valid: row 1 has no number of a registry",
		sub { rows([ 'accepted', undef, undef, now_us(), 'e9bd8ad7e43cbd5cc' ]) } ],
	[ 'an infinite time', "the registry's answer is not valid: row 2 has no time", sub { rows(accepted(), [ 'held', 5, now_us(), '9223372036854775807', undef ]) } ],
	[ 'a number with another digit', "the registry's answer is not valid: row 1 has no number of a registry",
		sub { rows([ 'accepted', undef, undef, now_us(), 'e9bd8ad7e43cbd5g' ]) } ],
	[ 'a time out of range', "the registry's answer is not valid: row 2 has no time",
		sub { rows(accepted(), [ 'held', 5, '-99999999999999999999', now_us(), undef ]) } ],
	[ 'a time with something behind', "the registry's answer is not valid: row 1 has no time", sub { rows([ 'accepted', undef, undef, now_us() . ' ', 'e9bd8ad7e43cbd5c' ]) } ],
	[ 'a number with something behind', "the registry's answer is not valid: row 1 has no number of a registry",
		sub { rows([ 'accepted', undef, undef, now_us(), 'e9bd8ad7e43cbd5c ' ]) } ],
	[ 'a time after the end of time', "the registry's answer is not valid: row 2 has no time", sub { rows(accepted(), [ 'held', 5, now_us(), '4611686018427387904', undef ]) } ],
	[ 'a lease without an end', "the registry's answer is not valid: row 2 lacks a cell", sub { rows(accepted(), [ 'held', 5, now_us(), undef, undef ]) } ],
	[ 'a lease that ends before it begins', "the registry's answer is not valid: row 2 has a lease that ends", sub { rows(accepted(), held(5, -3600)) } ],
	[ 'a lease that begins where it ends', "the registry's answer is not valid: row 3 has a lease that ends", sub { rows(accepted(), held(5), [ 'held', 6, 5, 5, undef ]) } ],
	[ 'shard 1024 of 1024', "the registry's answer is not valid: row 2 has no shard of the layout", sub { rows(accepted(), held(1024)) } ],
	[ 'shard -1', "the registry's answer is not valid: row 2 has no shard of the layout", sub { rows(accepted(), held(-1)) } ],
	[ 'shard 0x5', "the registry's answer is not valid: row 2 has no shard of the layout", sub { rows(accepted(), held('0x5')) } ],
	[ 'shard +5', "the registry's answer is not valid: row 2 has no shard of the layout", sub { rows(accepted(), held('+5')) } ],
	[ 'a shard after a blank', "the registry's answer is not valid: row 2 has no shard of the layout", sub { rows(accepted(), held(' 5')) } ],
	[ 'shard 2^32 + 5', "the registry's answer is not valid: row 2 has no shard of the layout", sub { rows(accepted(), held(4294967301)) } ],
	[ 'an empty shard', "the registry's answer is not valid: row 2 has no shard of the layout", sub { rows(accepted(), held('')) } ],
	[ 'a shard twice', "the registry's answer is not valid: row 3 has a shard for the second time", sub { rows(accepted(), held(5), held(5)) } ],
	[ 'a shard held and refused', "the registry's answer is not valid: row 3 has a shard for the second time",
		sub { rows(accepted(), held(5), [ 'taken', 5, undef, now_us(), 'x' ]) } ],
	[ 'shards in disorder', "the registry's answer is not valid: row 3 is not in the order", sub { rows(accepted(), held(6), held(5)) } ],
	[ 'a refusal for shard 2000000000', "the registry's answer is not valid: row 2 has no shard of the layout",
		sub { rows(accepted(), [ 'taken', 2_000_000_000, undef, now_us(), 'x' ]) } ],
	[ 'a loss of shard 2000000000', "the registry's answer is not valid: row 2 has no shard of the layout",
		sub { rows(accepted(), [ 'lost', 2_000_000_000, undef, undef, 'x' ]) } ],
	[ 'shards set aside that there are not', "the registry's answer is not valid: row 2 has no list of shards",
		sub { rows(accepted(), [ 'set_aside', undef, undef, undef, '5,2000000000' ]) } ],
	[ 'shards set aside twice', "the registry's answer is not valid: row 3 tells reserved shards again", sub { rows(accepted(), @set_aside, @set_aside) } ],
	[ 'a cell of 100 kB', "the registry's answer is not valid: row 1 has a cell", sub { rows([ 'clone', undef, undef, now_us(), 'x' x 100_000 ]) } ],
	[ 'endless rows', "the registry's answer is not valid: row 2056 is one too many",
		sub { endless($_[0], columns(5) . row(@{ accepted() }), row('lost', (undef) x 3, 'x' x 8000) x 10); '' } ],
	[ 'endless notices', 'did not answer within', sub { endless($_[0], '', message('N', "SERROR\0M" . 'x' x 8000 . "\0\0") x 10); '' } ],
	[ 'endless notifications', 'did not answer within', sub { endless($_[0], '', message('A', pack('NZ*Z*', 1, 'x', 'y' x 8000)) x 10); '' } ],
	[ 'endless settings', 'could not reach the registry: |did not answer',
		sub { my $n = 0; endless($_[0], '', join('', map { message('S', "s$_\0" . 'y' x 8000 . "\0") } 1 .. 10_000)); '' } ],
	[ 'endless results', 'did not answer within', sub { endless($_[0], '', done('SET') x 1000); '' } ],
	[ 'a row of a gigabyte', 'could not reach the registry: ', sub { endless($_[0], columns(5) . 'D' . pack('N', 1_000_000_000), 'x' x 100_000); '' } ],
	[ 'rows that come slowly', 'did not answer within', sub {
			my ($socket) = @_;
			print $socket columns(5), row(@{ accepted() });
			$socket->flush;
			for my $shard (0 .. 40) { print $socket row(@{ held($shard) }) or last; $socket->flush; sleep(0.5) }
			'' } ],
	[ 'a schema with escapes', 'the registry refused: for that schema', sub { message('E', "SERROR\0C42501\0Mfor that schema\0\0") . idle() },
		qr/HINT:  Run SELECT pub\?\[2Jlic\.snowflake_registry_grant/, columns(1) . row("pub\e[2Jlic") ],
	[ 'an answer cut off', 'could not reach the registry: ', sub { print { $_[0] } columns(5) . row(@{ accepted() }); undef } ],
	[ 'a hint that just has room', 'the registry is not open', \&is_closed, qr/HINT:  Run SELECT x+\.snowflake_registry_open.*leased a shard\./, columns(1) . row('x' x ($HINT_SIZE - 1)) ],
	[ 'no protocol', 'could not reach the registry: ', sub { 'HTTP/1.1 400 Bad Request' . "\r\n" x 2 } ],
	[ 'an error with escapes', 'the registry refused: .\[2J',
		sub { message('E', "SERROR\0C42501\0M\e[2J\x{9b}31m\x7f\rpermission\0D\e]0;x\a\0\0") . idle() } ],
	[ 'a hint for a right', 'the registry refused: permission denied', sub { message('E', "SERROR\0C42501\0Mpermission denied\0\0") . idle() },
		qr/HINT:  Run SELECT public\.snowflake_registry_grant\('ids'\) in database "leases" of the registry's server\./ ],
	[ 'a right that a function lacks', 'the registry refused: function denied', sub { message('E', "SERROR\0C42501\0Mfunction denied\0Wa function\0\0") . idle() }, qr/HINT:  Minting goes on/ ],
	[ 'another error', 'the registry refused: no such table', sub { message('E', "SERROR\0C42P01\0Mno such table\0\0") . idle() }, qr/HINT:  Minting goes on/ ],
	[ 'an error without a class', 'the registry refused: for some reason', sub { message('E', "SERROR\0Mfor some reason\0\0") . idle() }, qr/HINT:  Minting goes on/ ],
	[ 'a registry that is not open', 'the registry is not open', \&is_closed,
		qr/cannot mint snowflake ids: the registry is not open\n.*HINT:  Run SELECT public\.snowflake_registry_open\('\.\.\.'\) in database "leases" of the registry's server, with the longest "snowflake\.lease" of all servers, or '0' if no server ever leased a shard\./s ],
	[ 'no extension', 'the registry.s database "leases" has no extension snowflake_registry', undef,
		qr/HINT:  Name the registry's database by "dbname" in "snowflake\.registry"\. If it is "leases", run CREATE EXTENSION snowflake_registry there\./ ],
	[ 'a hint that has no room', 'the registry is not open', \&is_closed, qr/HINT:  Minting goes on/, columns(1) . row('x' x $HINT_SIZE) ],
	[ 'a password is asked for', 'could not reach the registry: .*no password supplied', undef,
		qr/cannot mint snowflake ids: the registry cannot be reached\n.*HINT:  Put the password of role "ids" into the file \.pgpass/s ],
	[ 'a clone of everybody', "the registry's answer is not valid: it knows a holder that has just begun", sub { rows([ 'clone', undef, undef, now_us(), "\e[2J" x 1000 ]) } ],
	[ 'no greeting', 'did not answer within', undef, qr/cannot mint snowflake ids: the registry does not answer/ ],
	[ 'notices before the greeting', 'could not reach the registry: |did not answer', undef ],
);
my %answer_of = map { $_->[0] => $_->[2] } @cases;
my %schema_of = map { $_->[0] => $_->[4] } @cases;
$schema_of{'no extension'} = columns(1);

my $port = PostgreSQL::Test::Cluster::get_free_port();
my $mode_file = PostgreSQL::Test::Utils::tempdir() . '/mode';

# Good answers; bad ones to a release, which leaves what is held as it is; and that another
# server has the caller's name, while the second call of the connection gets no answer.
$answer_of{good} = sub { rows(accepted(), held(5), held(6), [ 'taken', 7, undef, now_us() + 3600 * $US, "lima \e[31m\x{c3}\x{bc}" ], @set_aside) };
# What is just allowed: the first and the last shard, more refusals and losses than are
# kept, and each part of it late, but in time.
my ($FIRST_TAKEN, $TAKEN) = (900, 70);
$answer_of{'all that is allowed'} = sub {
	my @leases = map { $_ < $FIRST_TAKEN || $_ >= $FIRST_TAKEN + $TAKEN ? held($_) : [ 'taken', $_, undef, now_us() + 3600 * $US, 'lima' ] } 0 .. 1023;
	return rows(accepted(), @leases, ([ 'lost', (undef) x 3, 'x' ]) x 20, @set_aside);
};
my $LATE = 2.6;    # s; two of these are more than the 5 s that each part has
$answer_of{late} = sub { sleep($LATE); $answer_of{good}->() };
$answer_of{'release without a row'} = sub { $_[1] =~ /release/ ? done('COMMIT') . idle() : rows(accepted(), held(5), held(6), @set_aside) };
my $calls = 0;
$answer_of{'a clone, and then silence'} = sub {
	return rows([ 'clone', undef, undef, now_us(), 'lima' ]) if !$calls++;
	append_to_file("$mode_file.silent", '');
	sleep(60);
	return;
};

sub set_mode
{
	my ($mode) = @_;
	append_to_file("$mode_file.new", $mode);
	rename("$mode_file.new", $mode_file) or die "could not rename: $!";
	return;
}

sub read_exactly
{
	my ($socket, $length) = @_;
	my $bytes = '';

	read($socket, $bytes, $length) == $length or die 'gone';
	return $bytes;
}

# One client, until it or the answer's end closes the connection.
sub serve
{
	my ($socket) = @_;
	my $mode = slurp_file($mode_file);

	for (;;)
	{
		my ($length, $code) = unpack('NN', read_exactly($socket, 8));

		read_exactly($socket, $length - 8);
		last if $code == 196608;
		print $socket 'N';    # no TLS here
		$socket->flush;
	}
	return sleep(20) if $mode eq 'no greeting';
	sleep($LATE) if $mode eq 'late';
	return endless($socket, '', message('N', "SERROR\0M\e[2J\0\0") x 100) if $mode eq 'notices before the greeting';
	if ($mode eq 'a password is asked for')
	{
		print $socket message('R', pack('N', 3));
		return;
	}
	print $socket message('R', pack('N', 0)), message('S', "standard_conforming_strings\0on\0"), idle();
	$socket->flush;
	for (;;)
	{
		my ($type, $length) = unpack('aN', read_exactly($socket, 5));
		my $query = read_exactly($socket, $length - 4);
		my $answer =
			$type ne 'Q'             ? return
		  : $query =~ /pg_extension/ ? ($schema_of{$mode} // columns(1) . row('public')) . done('SELECT 1') . idle()
		  :                            $answer_of{$mode}->($socket, $query);
		return if !defined $answer;
		print $socket $answer;
		$socket->flush;
	}
}

set_mode('no row');
my $test = $$;
my $false = fork() // die "could not fork: $!";
if ($false == 0)
{
	my $listener = IO::Socket::INET->new(Listen => 10, LocalAddr => '127.0.0.1', LocalPort => $port, ReuseAddr => 1)
	  or die "could not listen: $!";
	$SIG{PIPE} = 'IGNORE';
	$SIG{TERM} = 'DEFAULT';             # not the handler of the test's servers
	$SIG{CHLD} = 'IGNORE';
	while (getppid() == $test)
	{
		my $socket = $listener->accept or next;
		my $child = fork() // next;

		if ($child == 0)
		{
			binmode $socket;
			eval { serve($socket) };
			close($socket);
			require POSIX;
			POSIX::_exit(0);
		}
		close($socket);
	}
	require POSIX;
	POSIX::_exit(0);
}

END
{
	my $code = $?;

	kill('TERM', $false) if $false;
	$? = $code;
}

# --- A server that believes in it.

my $server = new_server('believer', conf => <<"CONF");
snowflake.registry = 'host=127.0.0.1 port=$port dbname=leases user=ids sslmode=disable gssencmode=disable'
snowflake.shards = 'auto:2'
snowflake.lease = '3s'
log_line_prefix = ''
CONF
my $began = $server->safe_psql('postgres', 'SELECT pg_postmaster_start_time()');
$server->safe_psql('postgres', 'CREATE ROLE clerk LOGIN');

sub worker { return $server->safe_psql('postgres', q(SELECT pid FROM pg_stat_activity WHERE backend_type = 'snowflake lease')) }

# The most memory that the worker has had, in kB, but for what it shares.
sub memory_peak
{
	my ($pid) = @_;
	return 0 if !-e "/proc/$pid/status";
	my %of = slurp_file("/proc/$pid/status") =~ /^(VmHWM|RssShmem|RssFile):\s+(\d+) kB/mg;
	return $of{VmHWM} - $of{RssShmem} - $of{RssFile};
}

# The most memory of its own that a process may have, and what it has, in bytes.
sub memory_limit { my ($pid) = @_; return (slurp_file("/proc/$pid/limits") =~ /^Max data size\s+(\w+)/m)[0] }

sub memory_of_its_own
{
	my ($pid) = @_;
	my %of = slurp_file("/proc/$pid/status") =~ /^(VmData|VmStk):\s+(\d+) kB/mg;
	return 1024 * ($of{VmData} + $of{VmStk});
}

sub open_files { my ($pid) = @_; return scalar(() = glob("/proc/$pid/fd/*")) }

my $worker = worker();
my $files = open_files($worker);
my $least = memory_peak($worker);
my $most = 0;
for my $case (@cases)
{
	my ($mode, $error, undef, $message) = @$case;

	$error =~ s/'/''/g;
	set_mode($mode);
	ok(wait_until($server, "SELECT coalesce(last_error ~ '$error', false) FROM snowflake_lease_status()"), "$mode: the status says so")
	  or diag($server->safe_psql('postgres', 'SELECT last_error FROM snowflake_lease_status()'));
	$most = (sort { $b <=> $a } $most, memory_peak(worker()))[0];
	$message //= $error =~ /answer is not valid/ ? qr/cannot mint snowflake ids: the registry's answer is not valid\n/ : qr/cannot mint snowflake ids: /;
	fails_with($server, $nextval, '58000', $message, "$mode: a session gets an error");
}
cmp_ok($most, '>', 0, 'the memory of the worker is known') if -e "/proc/$$/status";
cmp_ok($most - $least, '<', 80 * 1024, 'the worker took no more than 64 MB, whatever was sent');
note("at first $least kB, at most $most kB");

# --- the worker itself: it keeps no connection and no file, and is limited only while it asks
SKIP:
{
	skip 'no /proc', 4 if !-e "/proc/$worker/limits";
	is(worker(), $worker, 'it is still the same worker');
	ok(wait_for(sub { open_files($worker) < $files + 10 }), 'it closed what it opened') or diag("$files files at first, " . open_files($worker) . ' now');
	set_mode('no greeting');
	my $MB = 1024 * 1024;
	my ($unlimited, $limit) = memory_limit(postmaster_pid($server));
	wait_for(sub { ($limit = memory_limit($worker)) ne $unlimited });
	my $more = $limit - memory_of_its_own($worker);
	ok($more > 64 * $MB && $more < 65 * $MB, 'while it asks, it may take 64 MB more than it has') or diag("$limit bytes, $more more than it has");
	set_mode('no row');
	ok(wait_for(sub { memory_limit($worker) eq $unlimited }), 'and as much as any other process afterwards');
}

# --- what users see: the class, and not the words
set_mode('an error with escapes');
ok(wait_until($server, q(SELECT coalesce(last_error ~ 'permission', false) FROM snowflake_lease_status())), 'an error of the registry');
my $definer = <<'SQL';
CREATE FUNCTION mint() RETURNS snowflake LANGUAGE sql VOLATILE SECURITY DEFINER AS 'SELECT snowflake_nextval()';
SQL
$server->safe_psql('postgres', $definer);
for my $mint ('snowflake_nextval()', 'mint()')
{
	my ($status, undef, $seen) = $server->psql('postgres', "SELECT $mint", extra_params => [ '-U', 'clerk' ]);

	like($seen, qr/ERROR:  cannot mint snowflake ids: the registry refuses this server\nDETAIL:  This server holds no shard\.\nHINT:  Minting goes on/,
		"a user gets the class of the error: $mint");
	unlike($seen, qr/permission|The last attempt/, 'and not the words');
}
my ($status, undef, $seen) = $server->psql('postgres', 'SET SESSION AUTHORIZATION clerk; RESET SESSION AUTHORIZATION; SELECT mint()');
like($seen, qr/DETAIL:  .*the registry refused: \?\[2J\?31m\?\?permission\. \?\]0;x\?/, 'a superuser gets the words, in which nothing is left that is not printed');
like(slurp_file($server->logfile), qr/DETAIL:  This server holds no shard\. The last attempt to lease failed: the registry refused: /, 'so does the log');

# --- a good answer, with a name that could do more than be read
$server->append_conf('postgresql.conf', "snowflake.shards = '5-7'\n");
reload($server);
set_mode('good');
ok(wait_until($server, q(SELECT state = 'held' FROM snowflake_lease_status())), 'a good answer is believed');
is(shards_of(mints($server, 10)), '5', 'and minted by');
ok(wait_until($server, q(SELECT coalesce((SELECT holder = 'lima ?[31m??' FROM snowflake_leases() WHERE shard = 7), false))),
	'the name of another server loses what could do more than be read');

# --- the good answer comes late, from the first of two hosts that are named by address
set_mode('no row');
ok(wait_until($server, q(SELECT last_error IS NOT NULL FROM snowflake_lease_status())), 'no answer any more');
set_mode('late');
my $closed = PostgreSQL::Test::Cluster::get_free_port();
my $registry = $server->safe_psql('postgres', 'SHOW snowflake.registry');
$server->append_conf('postgresql.conf', "snowflake.registry = 'host=a.invalid,b.invalid hostaddr=127.0.0.1,127.0.0.1 port=$port,$closed dbname=''a=b'' user=ids sslmode=disable gssencmode=disable'\n");
reload($server);
ok(wait_until($server, q(SELECT last_error IS NULL AND state = 'held' FROM snowflake_lease_status())), 'a late answer is believed')
  or diag($server->safe_psql('postgres', 'SELECT last_error FROM snowflake_lease_status()'));

# --- as much as an answer can tell
set_mode('all that is allowed');
$server->append_conf('postgresql.conf', "snowflake.registry = '$registry'\nsnowflake.shards = '0-1023'\n");
reload($server);
my $leases = q(SELECT count(*) FILTER (WHERE held) || ' ' || count(*) FILTER (WHERE NOT held) FROM snowflake_leases());
ok(wait_until($server, "SELECT ($leases) = '954 64'"), 'all shards in an answer') or diag($server->safe_psql('postgres', "$leases; SELECT last_error FROM snowflake_lease_status()"));
is($server->safe_psql('postgres', 'SELECT string_agg(snowflake_shard(snowflake_nextval(shard))::text, $$ $$) FROM unnest(ARRAY[0, 9, 1023]) AS shard'), '0 9 1023', 'and minted on');
$server->append_conf('postgresql.conf', "snowflake.shards = '5-7'\n");
set_mode('good');
reload($server);
ok(wait_until($server, "SELECT ($leases) = '2 1'"), 'and fewer again');

# --- a clone parts from the other server's leases before its second call is answered
set_mode('a clone, and then silence');
ok(wait_for(sub { -e "$mode_file.silent" }), 'the second call of a clone has no answer');
fails_with($server, $nextval, '58000', qr/cannot mint snowflake ids: .*DETAIL:  This server holds no shard\./s, 'a clone mints nothing meanwhile');

# --- a release that fails
set_mode('release without a row');
$server->append_conf('postgresql.conf', "snowflake.shards = 'auto:1'\n");
reload($server);
ok(wait_until($server, "SELECT coalesce(last_error ~ '^the registry.s answer is not valid: it has no row', false) FROM snowflake_lease_status()"),
	'a release without a row is noticed');

# --- a server of PostgreSQL with another extension of that name

my $other = new_registry('other');
my $arguments = $other->safe_psql('postgres', q(SELECT pg_get_function_arguments('snowflake_registry_lease'::regproc)));
$other->safe_psql('postgres', <<'SQL');
DO $$ BEGIN
    EXECUTE format('ALTER EXTENSION snowflake_registry DROP FUNCTION %s; DROP FUNCTION %1$s',
                   'snowflake_registry_lease'::regproc::regprocedure);
END $$;
SQL
$server->append_conf('postgresql.conf', "snowflake.registry = '" . registry_setting($other) . "'\n");
reload($server);
my $row = 'TABLE (state text, shard int, lease_from timestamptz, lease_until timestamptz, other text)';
my $accepted = q(SELECT 'accepted', NULL::int, NULL::timestamptz, now(), 'e9bd8ad7e43cbd5c');
for my $case (
	[ 'void', 'void', 'SELECT', 'the registry refused: column "state" does not exist' ],
	[ 'texts', 'TABLE (state text, shard text, lease_from text, lease_until text, other text)', q(SELECT 'held', 'x', 'y', 'z', ''),
		'the registry refused: function pg_catalog.extract' ],
	[ 'a lease for ever', $row, "$accepted UNION ALL SELECT 'held', 5, now(), 'infinity', NULL", 'the registry refused: ' ],
	[ 'shard 2000000000', $row, "$accepted UNION ALL SELECT 'taken', 2000000000, NULL, now(), 'x'", 'row 2 has no shard of the layout' ],
	[ 'escapes', $row, q(SELECT 'clone', NULL::int, NULL::timestamptz, now(), repeat(E'\e[2J', 1000)), 'it knows a holder that has just begun' ],
	[ 'endless rows', $row, "$accepted UNION ALL SELECT 'lost', NULL, NULL, NULL, repeat('x', 8000) FROM generate_series(1, 1000000000000)",
		'(did not answer within|statement timeout|is one too many)' ],
	[ 'slow rows', $row, "$accepted UNION ALL SELECT 'held', n, now(), now() + interval '1 h', pg_sleep(1)::text FROM generate_series(1, 100) AS n",
		'(did not answer within|statement timeout)' ],
  )
{
	my ($name, $type, $query, $error) = @$case;

	$other->safe_psql('postgres', "DROP FUNCTION IF EXISTS snowflake_registry_lease;
		CREATE FUNCTION snowflake_registry_lease($arguments) RETURNS $type LANGUAGE sql AS \$\$ $query \$\$");
	ok(wait_until($server, "SELECT coalesce(last_error ~ '$error', false) FROM snowflake_lease_status()"), "another extension: $name")
	  or diag($server->safe_psql('postgres', 'SELECT last_error FROM snowflake_lease_status()'));
}

is($server->safe_psql('postgres', 'SELECT pg_postmaster_start_time()'), $began, 'the server never stopped');
is($other->safe_psql('postgres', 'SELECT 1'), 1, 'nor did that one');
$server->stop;
my $log = slurp_file($server->logfile);
unlike($log, qr/terminated by signal|PANIC|FATAL.*memory/, 'no process crashed');
my ($odd) = $log =~ /^(.*[^\t\n -~].*)$/m;
is($odd, undef, 'nothing in the log does more than be read');

done_testing();
