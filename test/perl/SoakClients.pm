# SoakClients.pm -- the clients of the soak: writers of every kind, and readers of the feeds
#
# Each is a process that runs psql on short scripts, on the server that a file names at
# the time, until a file tells it to stop.  It writes down what it gets.
#
# A writer prints a line for each id: how it was minted, the id, and the server's clock
# just after.  The letter is p for snowflake_nextval() and n for a named shard, P and N if
# the row was stored; B for one that was minted some statements before.  A line "run" comes before each script, and the error that ended it.
#
# A reader keeps its last id, and asks for the next rows below a mark.

package SoakClients;

use strict;
use warnings;

use Exporter 'import';
use POSIX ();
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Time::HiRes qw(sleep);

our @EXPORT = qw(
  $marks_table create_soak_tables point_at begin_client end_clients writer_of reader_of ids_read marks_read
  read_what_clients_got one_of
);

sub one_of { return $_[ rand @_ ]; }

# --- The tables: by shard and then by time, and by time alone

our $marks_table = 'CREATE TABLE snowflake_marks (server text PRIMARY KEY, mark bigint NOT NULL, published_at timestamptz NOT NULL, '
  . 'came_by oid GENERATED ALWAYS AS (snowflake_came_by(mark)) STORED);';

# The table that marks are published in has publications, each with the mark of its name.
sub create_soak_tables
{
	my ($node, $name) = @_;
	my $options = q{WITH (publish = 'insert, update, delete', publish_via_partition_root = true)};

	$node->safe_psql('postgres', <<'SQL' . <<"SQL");
CREATE TABLE events (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), how text NOT NULL) PARTITION BY HASH (id snowflake_shard_ops);
SELECT format('CREATE TABLE events_%s PARTITION OF events FOR VALUES WITH (MODULUS 3, REMAINDER %1$s) PARTITION BY RANGE (id)', n) FROM generate_series(0, 2) AS n \gexec
CREATE TABLE clicks (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), how text NOT NULL) PARTITION BY RANGE (id);
SELECT snowflake_make_partitions(part, date_trunc('day', now()), now() + interval '1 day', '6 h')
  FROM unnest('{events_0,events_1,events_2,clicks}'::regclass[]) AS part;
CREATE VIEW written AS SELECT id, how FROM events UNION ALL SELECT id, how FROM clicks;
SQL
$marks_table
CREATE PUBLICATION soak FOR TABLE events, snowflake_marks WHERE (server = '$name') $options;
CREATE PUBLICATION soak_clicks FOR TABLE clicks, snowflake_marks WHERE (server = '$name/clicks') $options;
SQL
	create_mint_log($node, 'minted', 'snowflake_nextval()');
	return;
}

# --- Processes

# Where clients of that name find the server; undef: nowhere.
sub point_at
{
	my ($dir, $name, $node, $dbname) = @_;

	append_to_file("$dir/at.$name.new", $node ? $node->connstr($dbname // 'postgres') : '');
	rename("$dir/at.$name.new", "$dir/at.$name") or die "could not rename $dir/at.$name.new: $!";
	return;
}

my %clients;

# Start a client, whose name is that of its file.  "script" gives what its next run does,
# given what it has printed last.  The seed is for what is random in there.
sub begin_client
{
	my ($dir, $name, $at, $seed, $script) = @_;
	my $parent = $$;
	my $pid = fork() // die "could not fork: $!";

	unlink("$dir/stop.$name") if $pid;
	$clients{$name} = $pid;
	return if $pid;
	# leave without the ends of the servers, which are the parent's
	eval {
		srand($seed);
		run_client($dir, $name, $at, $parent, $script);
		1;
	} or do { print STDERR "client $name: $@"; POSIX::_exit(1) };
	POSIX::_exit(0);
}

sub run_client
{
	my ($dir, $name, $at, $parent, $script) = @_;
	my $file = "$dir/$name";

	open(my $log, '>>', $file) or die "could not open $file: $!";
	$log->autoflush;
	until (getppid() != $parent || -e "$dir/stop.$name")
	{
		my $server = slurp_file("$dir/at.$at");

		if ($server eq '') { sleep(0.1); next }
		open(my $sql, '>', "$file.sql") or die "could not write $file.sql: $!";
		print $sql "\\set VERBOSITY verbose\n", $script->();
		close($sql);
		print $log "run\n";
		system(qq(psql -XAtq -F " " -v ON_ERROR_STOP=1 -d "$server" -f "$file.sql" >>"$file" 2>&1 </dev/null));
		sleep(0.5) if $? != 0;
	}
	return;
}

# End these clients, each after the script that it runs.
sub end_clients
{
	my ($dir, @names) = @_;

	append_to_file("$dir/stop.$_", '') for @names;
	for my $name (@names)
	{
		waitpid(delete $clients{$name}, 0);
		die "client $name died" if $? != 0;
	}
	unlink("$dir/stop.$_") for @names;
	return;
}

# --- What a writer does: some seconds' work, one of these after the other

my $CLOCK = 'extract(epoch FROM clock_timestamp())';

sub of_id { my ($letter) = @_; return "'$letter', id, $CLOCK"; }

my $prepared = 0;

my @ways = (
	sub { "SELECT 'p', snowflake_nextval(), $CLOCK;" },
	sub { "SELECT 'p', snowflake_nextval(), $CLOCK FROM generate_series(1, " . (rand() < 0.02 ? 10_000 : 1 + int(rand(150))) . ');' },
	sub { "BEGIN READ ONLY; SELECT 'p', snowflake_nextval(), $CLOCK FROM generate_series(1, 20); COMMIT;" },
	sub { "COPY (SELECT 'p', snowflake_nextval(), $CLOCK FROM generate_series(1, 100)) TO STDOUT (DELIMITER ' ');" },
	sub { "SELECT 'n', snowflake_nextval(shard), $CLOCK FROM $_[0], generate_series(1, 5);" },
	sub { "INSERT INTO events (how) VALUES ('one') RETURNING " . of_id('P') . ';' },
	sub { "INSERT INTO clicks (how) VALUES ('one') RETURNING " . of_id('P') . ';' },
	sub { "INSERT INTO events (how) SELECT 'many' FROM generate_series(1, 30) RETURNING " . of_id('P') . ';' },
	sub { "INSERT INTO events SELECT snowflake_nextval(shard), 'named shard' FROM $_[0] RETURNING " . of_id('N') . ';' },
	sub { "COPY events (how) FROM STDIN;\n" . "copied\n" x 30 . '\.' },
	sub { "COPY clicks (how) FROM STDIN;\n" . "copied\n" x 10 . '\.' },
	sub { "PREPARE write(text) AS INSERT INTO clicks (how) VALUES (\$1) RETURNING " . of_id('P') . ";\n" . "EXECUTE write('planned');\n" x 7 . 'DEALLOCATE write;' },
	sub { 'INSERT INTO minted (n) SELECT generate_series(1, 5);' },
	sub {
		"BEGIN; INSERT INTO events (how) VALUES ('before a savepoint');\n"
		  . "SAVEPOINT s; INSERT INTO events (how) VALUES ('undone') RETURNING " . of_id('p') . "; ROLLBACK TO s;\n"
		  . "INSERT INTO clicks (how) VALUES ('after it'); SELECT pg_sleep(@{[ rand(0.3) ]}) \\g /dev/null\n"
		  . (rand() < 0.2 ? 'ROLLBACK;' : 'COMMIT;');
	},
	sub {
		"BEGIN; SELECT snowflake_nextval() AS a, snowflake_nextval() AS b \\gset\n"
		  . "INSERT INTO events (how) VALUES ('meanwhile'); SELECT pg_sleep(@{[ rand(0.1) ]}) \\g /dev/null\n"
		  . "INSERT INTO events VALUES (:b, 'minted before'), (:a, 'minted before') RETURNING " . of_id('B') . '; COMMIT;';
	},
	sub {
		my $gid = "$$ " . ++$prepared;
		"BEGIN; INSERT INTO events (how) SELECT 'prepared' FROM generate_series(1, 3); PREPARE TRANSACTION '$gid';\n"
		  . "INSERT INTO clicks (how) VALUES ('meanwhile'); SELECT pg_sleep(@{[ rand(0.2) ]}) \\g /dev/null\n"
		  . (rand() < 0.2 ? 'ROLLBACK' : 'COMMIT') . " PREPARED '$gid';";
	});

# "shards" gives the shards that the server has, as an item of FROM.  One that
# "only_mints" leaves the tables alone.
sub writer_of
{
	my ($shards, %options) = @_;
	my @mine = $options{only_mints} ? @ways[ 0 .. 4 ] : @ways;

	return sub {
		return join("\n", map { one_of(@mine)->($shards), 'SELECT pg_sleep(' . rand(0.2) . ') \g /dev/null' } 1 .. 25) . "\n";
	};
}

# --- What a reader does: it reads the rows of "rows" below a mark, and prints their ids,
# --- and the mark.  It runs "before" first, such as what publishes a mark.

sub reader_of
{
	my ($dir, $name, $rows, $mark, %options) = @_;
	my $before = $options{before} // '';

	return sub {
		my $last = (ids_read($dir, $name))[-1] // $options{last} // 0;
		my $poll = <<"SQL";
$before
SELECT coalesce(string_agg(id::text, E'\\n' ORDER BY id), '') AS ids, coalesce(max(id), :last) AS last, ($mark) AS mark
  FROM (SELECT id FROM $rows WHERE id > :last AND id < ($mark) ORDER BY id LIMIT 2000) AS page \\gset
\\echo :ids
\\echo mark :mark
SELECT pg_sleep(0.25) \\g /dev/null
SQL
		return "\\set last $last\n" . $poll x 12;
	};
}

sub marks_read
{
	my ($dir, $name) = @_;
	return -e "$dir/$name" ? slurp_file("$dir/$name") =~ /^mark (-?\d+)$/mg : ();
}

sub ids_read
{
	my ($dir, $name) = @_;
	return -e "$dir/$name" ? slurp_file("$dir/$name") =~ /^(\d+)$/mg : ();
}

# --- What a writer got: calls back for each id, and with each error.  A run without
# --- any id has an error, or counts as silent.

sub read_what_clients_got
{
	my ($file, $on_run, $on_id, $on_error) = @_;
	my ($ids, $errors, $silent) = (1, 0, 0);

	open(my $in, '<', $file) or die "could not read $file: $!";
	while (my $line = <$in>)
	{
		if ($line =~ /^([pnPNB]) (\d+) (\d+\.\d+)\n\z/)
		{
			$ids++;
			$on_id->($1, $2, $3);
		}
		elsif ($line eq "run\n")
		{
			$silent++ unless $ids || $errors;
			($ids, $errors) = (0, 0);
			$on_run->();
		}
		elsif ($line =~ /^psql: error: (connection .*)/ || $line =~ /^psql:\S+: (?:ERROR|FATAL|PANIC):  (.*)/    # not in a DETAIL
			|| $line =~ /^psql:.*?((?:server closed|connection|could not).*)/)
		{
			$errors++;
			$on_error->($1);
		}
	}
	return $silent;
}

1;
