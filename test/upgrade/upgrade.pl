# upgrade.pl -- pg_upgrade a server with snowflake from one major to another
#
#   perl test/upgrade/upgrade.pl OLD NEW
#
# Both majors, with their headers, are in /usr/lib/postgresql.  Runs as an
# unprivileged user at the top of a copy of the tree, and works in the directory
# "upgrade" beside it.  An old server with all that depends on ids, in a layout
# that is not the default, is upgraded as the documentation of snowflake says:
# pg_upgrade, the settings, and the file snowflake.horizon.  Then the new server
# must answer as the old one did, and mint on above.
#
# If pg_upgrade between these two does not work without snowflake either, this is
# skipped, unless there is a remedy.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use File::Basename qw(dirname);
use Test::More;
use Tool;

my ($old, $new) = @ARGV;
my $dir = dirname($top) . '/upgrade';    # short: sockets are in there
my $sql = "$top/test/upgrade";

# Minor releases of a time may not fit: 15.20 and 17.12 store an option with
# each column, pg_attver, which 18.6 and 19rc1 do not know.  Without it they do
# not read what statistics tell of values of a row type.
my $REMEDY = "SET allow_system_table_mods = on;
	UPDATE pg_attribute SET attoptions = NULL WHERE attrelid >= 16384 AND attoptions::text ~ 'pg_attver';
	DELETE FROM pg_statistic WHERE starelid >= 16384";

sub bin { my ($major) = @_; return "/usr/lib/postgresql/$major/bin" }

# What a command prints; dies with that if it fails.
sub run
{
	my ($output, $status) = output_of(@_);
	die $output if $status;
	chomp($output);
	return $output;
}

# A test without which there is no going on
sub step
{
	my ($name, $code) = @_;
	return pass($name) if eval { $code->(); 1 };
	fail($name);
	diag_tail($@);
	done_testing();
	exit;
}

sub write_file
{
	my ($mode, $file, $text) = @_;
	open(my $out, $mode, $file) or die "could not open $file: $!";
	print $out $text;
	close($out) or die "could not write $file: $!";
	return;
}

my @psql = (bin($new) . '/psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-h', $dir, '-d', 'postgres');

sub query { return run(@psql, '-At', '-c', $_[0]) }

sub is_true
{
	my ($name, $query) = @_;
	return is(eval { query($query) } // $@, 't', $name);
}

# In a copy of the tree: other tests use the one that was built for the new major.
sub build
{
	my ($major) = @_;
	my $tree = "$dir/tree$major";

	run('mkdir', '-p', "$tree/test");
	run('cp', '-rp', map({ "$top/$_" } qw(Makefile expected sql src)), glob("$top/*.control"), $tree);
	run('cp', '-p', map({ "$top/test/$_" } qw(stage.sh snowflake.conf)), "$tree/test");
	chdir($tree) or die "could not enter $tree: $!";
	run('make', '-s', 'clean');
	# a major that was brought here may lack the compiler for its bitcode
	local $ENV{PATH} = bin($major) . ":$ENV{PATH}";
	return run('bash', 'test/stage.sh', "$dir/stage$major", 'with_llvm=no');
}

sub make_server
{
	my ($major, $data, $conf) = @_;
	run(bin($major) . '/initdb', qw(--no-sync --auth=trust --encoding=UTF8 --locale=C --data-checksums),
		"--pgdata=$dir/$data");
	write_file('>>', "$dir/$data/postgresql.conf", <<"CONF");
listen_addresses = ''
unix_socket_directories = '$dir'
timezone = 'UTC'
fsync = off
jit = off
$conf
CONF
	return;
}

# The settings are the administrator's to carry over.
sub make_snowflake_server
{
	my ($major) = @_;
	my $conf = run('cat', "$dir/stage$major/server.conf");
	return make_server($major, "data$major", "$conf\nsnowflake.layout = 'discord'\nsnowflake.shards = '5'");
}

# Start or stop it.
sub ctl
{
	my ($action, $major, $data) = @_;
	return run(bin($major) . '/pg_ctl', $action, qw(--wait --silent), "--pgdata=$dir/$data",
		$action eq 'start' ? "--log=$dir/server.log" : ());
}

# Between two data directories; what went wrong is in a file for each database.
sub upgrade
{
	my ($from, $to) = @_;
	chdir($dir) or die "could not enter $dir: $!";    # pg_upgrade leaves its things here
	my ($output, $status) = output_of(
		bin($new) . '/pg_upgrade', '--retain', "--socketdir=$dir",
		'--old-bindir=' . bin($old), "--old-datadir=$dir/$from",
		'--new-bindir=' . bin($new), "--new-datadir=$dir/$to");

	die $output, output_of(qw(grep -rh -A 20 --include=pg_upgrade_dump_*.log error:), "$dir/$to/pg_upgrade_output.d")
	  if $status;
	return;
}

# pg_upgrade between these two without snowflake, after some SQL
sub upgrade_plain
{
	my ($remedy) = @_;
	run('rm', '-rf', "$dir/plain$old", "$dir/plain$new");
	make_server($_, "plain$_", '') for $old, $new;
	ctl('start', $old, "plain$old");
	query("CREATE TABLE plain (n integer); $remedy");
	ctl('stop', $old, "plain$old");
	return upgrade("plain$old", "plain$new");
}

# Answers of the running server, in files named after its major
sub answer
{
	my ($major) = @_;
	for my $what (qw(data definitions plans))
	{
		my ($output, $status) = output_of(@psql, '-f', "$sql/$what.sql");
		write_file('>', "$dir/$what.$major", $output . ($status ? "failed on $major\n" : ''));
	}
	return;
}

# ---------------------------------------------------------------------------

run('rm', '-rf', $dir);
mkdir($dir) or die "could not create $dir: $!";

my $remedy = '';
if (!eval { upgrade_plain(''); 1 })
{
	note($@ =~ /(.*error:.*)/);
	eval { upgrade_plain($REMEDY); 1 } or plan(skip_all => "pg_upgrade from $old to $new fails without snowflake, too");
	note("pg_upgrade fails without snowflake, too; it works after: " . $REMEDY =~ s{\s+}{ }gr);
	$remedy = $REMEDY;
}

step("build for $_", sub { build($_) }) for $old, $new;
step("make a server of $old", sub { make_snowflake_server($old) });
ctl('start', $old, "data$old");
step('fill it', sub { run(@psql, '-f', "$sql/fixture.sql") });
query('CREATE TABLE snowflake_marks (server text PRIMARY KEY, mark bigint NOT NULL, published_at timestamptz NOT NULL, '
	  . 'came_by oid GENERATED ALWAYS AS (snowflake_came_by(mark)) STORED); SELECT snowflake_publish_mark()');
answer($old);
my $last = query('SELECT greatest((SELECT max(id) FROM photos), (SELECT max(mirror) FROM photos),
	(SELECT max(id) FROM by_time), (SELECT max(id) FROM by_shard), snowflake_nextval()::bigint)');
query($remedy) if $remedy;
ctl('stop', $old, "data$old");

step("make a server of $new", sub { make_snowflake_server($new) });
step('pg_upgrade', sub { upgrade("data$old", "data$new") });

# Somebody may forget the file: the clock alone is then what keeps ids apart.
run('cp', '-r', "$dir/data$new", "$dir/without");
step("the old server's horizon is there to be copied",
	sub { run('cp', "$dir/data$old/snowflake.horizon", "$dir/data$new/") });

# The record that came along knows the layout, and the time.
write_file('>>', "$dir/data$new/postgresql.conf", "snowflake.layout = 'twitter'\n");
ctl('start', $new, "data$new");
is_true('another layout is noticed', <<'SQL');
DO $$ BEGIN PERFORM snowflake_nextval(); RAISE 'minted';
EXCEPTION WHEN object_not_in_prerequisite_state THEN END $$; SELECT true
SQL
ctl('stop', $new, "data$new");
write_file('>>', "$dir/data$new/postgresql.conf", "snowflake.layout = 'discord'\n");
{
	run(qw(cc -shared -fPIC -O2 -o), "$dir/clock.so", "$top/test/shim/clock.c");
	write_file('>', "$dir/clock", "-3600\n");
	local @ENV{qw(LD_PRELOAD SNOWFLAKE_CLOCK)} = ("$dir/clock.so", "$dir/clock");
	ctl('start', $new, "data$new");
}
is_true('so is a clock that is behind the old ids', <<'SQL');
DO $$ BEGIN PERFORM snowflake_nextval(); RAISE 'minted';
EXCEPTION WHEN system_error THEN END $$; SELECT true
SQL
ctl('stop', $new, "data$new");

ctl('start', $new, "data$new");
# before 18 they do not come along, and some never
step('collect statistics', sub { query('VACUUM ANALYZE') });
answer($new);
succeeds("$_ are as they were", 'diff', '-u', "$dir/$_.$old", "$dir/$_.$new") for qw(data definitions plans);
is_true('minting goes on above the old ids', "SELECT snowflake_nextval() > $last");
is_true('so do the defaults', "INSERT INTO photos (url) VALUES ('new') RETURNING id > $last AND mirror > $last");
is_true('in range partitions',
	"INSERT INTO by_time VALUES (DEFAULT, 0) RETURNING id > $last AND tableoid = 'by_time_rest'::regclass");
is_true('in hash partitions',
	"INSERT INTO by_shard VALUES (DEFAULT, 0) RETURNING id > $last AND tableoid = 'by_shard_1'::regclass");
is_true('foreign keys hold',
	"WITH gone AS (DELETE FROM photos WHERE url = 'u7' RETURNING id) SELECT count(*) = 1 FROM gone");
is_true('with their cascades', 'SELECT NOT EXISTS (SELECT FROM comments WHERE photo = made(7))');
my $old_name = query('SELECT server FROM snowflake_marks');
my ($said) = output_of(@psql, '-c', 'SELECT snowflake_publish_mark()');
like($said, qr/NOTICE:  the mark of ".*" begins, beside "\Q$old_name\E"/, 'the mark begins under another name, and says so');
is_true('so does snowflake_check', "SELECT count(*) = 1 FROM snowflake_check() WHERE area = 'mark' AND finding ~ 'under names' AND finding ~ '$old_name'");
is_true('a domain keeps its CHECK, which can be validated', <<'SQL');
ALTER DOMAIN photo_id VALIDATE CONSTRAINT photo_id_check;
DO $$ BEGIN PERFORM '-1'::photo_id; RAISE 'accepted';
EXCEPTION WHEN check_violation THEN END $$; SELECT true
SQL
ctl('stop', $new, "data$new");

ctl('start', $new, 'without');
is_true('without the file, minting goes on above the old ids as long as the clock does',
	"SELECT snowflake_nextval() > $last");
ctl('stop', $new, 'without');

done_testing();
