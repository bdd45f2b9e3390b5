# What shows a registry that it was put back: its files, one by one, and the file that each
# call leaves.  And what it does when it finds that, as its log tells.
#
# Majors: one

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeaseTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $registry = new_registry('registry');
my $dir = $registry->data_dir;
my ($left) = glob("$dir/snowflake_registry.*");
my $left_name = $left =~ s{.*/}{}r;

sub ask { return $registry->safe_psql('postgres', $_[0]) }
sub traces { return ask(q(SELECT array_to_string(snowflake_registry_traces(), ', '))) }

# Give a file the time of a backup, so many seconds before the one at which it was put back.
# That is the file system's time: its clock may lag behind ours.
sub put_back
{
	my ($file, $seconds) = @_;
	my ($put_back_at, $known);

	do
	{
		$known = (stat($file))[10];
		utime($known - $seconds, $known - $seconds, $file) == 1 or die "utime: $!";
		$put_back_at = (stat($file))[10];
	} while ($put_back_at != $known);
	return $put_back_at;
}

# --- the files of its tables and indexes, each; not another's
ask(q(CREATE SCHEMA elsewhere; CREATE TABLE elsewhere.snowflake_registry_shards (shard int PRIMARY KEY); CREATE TABLE public.its_neighbour (id int PRIMARY KEY)));
ask('CHECKPOINT');
my @files = map { [ split(/\|/) ] } split(
	/\n/, ask(<<'SQL'));
SELECT CASE n.nspname WHEN 'public' THEN c.relname ELSE n.nspname END, pg_relation_filepath(c.oid), n.nspname = 'public' AND c.relname ~ '^snowflake_registry_'
  FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname IN ('public', 'elsewhere') AND c.relkind IN ('r', 'i') ORDER BY 1, 2
SQL
cmp_ok(scalar(grep { $_->[2] eq 't' } @files), '==', 9, 'three tables and six indexes');
cmp_ok(scalar(grep { $_->[2] eq 'f' } @files), '==', 4, 'and others');
is(traces(), '', 'no file was put back');
for my $file ([ 'the file that is left', $left_name, 't' ], @files)
{
	my ($name, $path, $is_its_own) = @$file;

	put_back("$dir/$path", 1);
	is(traces(), '', "$name: a second may lie between");
	my $time = put_back("$dir/$path", 2);
	is(traces(), $is_its_own eq 't' ? "$path changed at $time" : '', "$name: two seconds");
	put_back("$dir/$path", 0);
}
is(traces(), '', 'all are as they were');
append_to_file("$dir/backup_label.old", 'replayed');
is(traces(), 'backup_label.old changed at ' . (stat("$dir/backup_label.old"))[10], 'a base backup that was replayed');
unlink("$dir/backup_label.old");
rename($left, "$left.old") or die;
is(traces(), "$left_name is missing", 'a restore that removes what is left');
rename("$left.old", $left) or die;
put_back($left, 0);

# --- the transaction of the file that is left
sub traces_of
{
	my ($text) = @_;

	return ask(<<"SQL");
BEGIN;
SELECT format('COPY (SELECT %L) TO %L', $text, concat(current_setting('data_directory'), '/$left_name')) \\gexec
SELECT array_to_string(snowflake_registry_traces(), ', ');
COMMIT;
SQL
}

for my $case ([ -1, 0 ], [ -1, 9 ], [ 0, 0 ], [ 0, 9, 1 ], [ 0, -9, 1 ], [ 1, 0, 1 ])
{
	my ($ahead, $later, $is_lost) = @$case;
	my $found = traces_of("concat(pg_current_xact_id()::text::bigint + $ahead, ' ', extract(epoch FROM transaction_timestamp()) + $later)");

	like($found, $is_lost ? qr/^$left_name is of transaction \d+, which is still to come$/ : qr/^$/, "a file of a transaction $ahead after this one, and $later s");
}
is(traces_of(q('something else')), '', 'a file that nobody reads');

# --- a call leaves the file, once a second
my @told;
for (1 .. 100)
{
	put_back($left, 60);
	@told = grep { /\d/ } split(
		/\n/, ask(<<"SQL"));
SELECT date_trunc('second', clock_timestamp());
SELECT snowflake_registry_leave_file();
SELECT trim(pg_read_file('$left_name'), E'\\n');
SELECT snowflake_registry_leave_file();
SELECT trim(pg_read_file('$left_name'), E'\\n');
SELECT date_trunc('second', clock_timestamp());
SQL
	last if $told[0] eq $told[3] && (stat($left))[9] >= ask(qq(SELECT extract(epoch FROM timestamptz '$told[0]')::bigint));    # its clock may lag
}
is($told[0], $told[3], 'two calls in one second');
is($told[1], $told[2], 'the second one leaves it alone');
my $text = slurp_file($left);
like($text, qr/^\d+ [\d.]+\n\z/, 'it is of a call');
put_back($left, 60);
ask('SELECT snowflake_registry_leave_file()');
isnt(slurp_file($left), $text, 'it is written again');

# --- a call that finds a trace fences the registry, and says so; later ones leave the file, and forget it
my $log = -s $registry->logfile;
my $state = 'SELECT xmin, traces FROM snowflake_registry_state';
my $call = q(SELECT state FROM snowflake_registry_lease('a', %d, %d, 0, 'the test', 'epoch=x', 7, NULL, '{}', '{}', '{}', '{}', NULL, '{}', '1 min') WHERE state <> 'set_aside');
sub calls { my ($fence) = @_; return ask(sprintf($call, $fence, $fence + 1)) }
sub logged { return join("\n", substr(slurp_file($registry->logfile), $log) =~ /LOG:  the snowflake registry is fenced: .*\n.*DETAIL:  (.*)/g) }

is(calls(0), 'accepted', 'a call');
is(logged(), '', 'it finds nothing');
my $time = put_back($left, 60);
is(calls(1), 'accepted', 'a call that finds a trace');
like(logged(), qr{^It was at (\S+), and is at \1; traces of a restore: $left_name changed at $time\.$}, 'says so');
is(ask('SELECT traces FROM snowflake_registry_state'), qq({"$left_name changed at $time"}), 'and notes it');
is(ask('SELECT not_before > clock_timestamp() + interval $$50 s$$ FROM snowflake_registry_state'), 't', 'it has fenced the registry');
calls(2);
is(traces(), '', 'the next call leaves the file');
calls(3);
is(ask('SELECT traces FROM snowflake_registry_state'), '{}', 'and the next one forgets the trace');
my $known = ask($state);
calls(4);
is(ask($state), $known, 'then the state stays as it is');
is(scalar(() = logged() =~ /traces of a restore/g), 1, 'it was logged once');

# --- how the log tells of other changes
for my $case (
	[ q(UPDATE snowflake_registry_state SET place = 'elsewhere'; UPDATE snowflake_registry_state SET writer = xmin), qr{^It was at elsewhere, and is at (?!elsewhere)\S+; traces of a restore: none\.$}, 'another place' ],
	[ q(UPDATE snowflake_registry_state SET is_open = is_open), qr/^A dump brought its state\.$/, 'a row that another transaction wrote' ],
	[ q(INSERT INTO snowflake_registry_state SELECT (jsonb_populate_record(s, '{"number": "another"}')).* FROM snowflake_registry_state AS s), qr/^A dump brought its state\.$/, 'two rows' ])
{
	my ($change, $detail, $name) = @$case;

	ask("BEGIN; $change; COMMIT");
	$log = -s $registry->logfile;
	ask(q(SELECT snowflake_registry_fence('0')));
	like((split(/\n/, logged()))[0], $detail, $name);
}

# --- made again, it leaves a file at once
ask('DELETE FROM snowflake_registry_state');
unlink($left);
is(calls(5), 'closed', 'without a state it is closed');

$registry->stop;
done_testing();
