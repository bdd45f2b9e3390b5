# Twins: random queries, run once with the extension and once with the same functions
# in PL/pgSQL, of which the planner knows nothing.  Rows and SQLSTATEs must be equal.
#
# SNOWFLAKE_TWINS is the seconds, and the seed of what is random.  Queries depend on
# the seed alone, so it shows the same difference again.  Each side is a session, which
# runs a batch, and what it prints is compared query by query.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my ($seconds, $seed) = split ' ', $ENV{SNOWFLAKE_TWINS} // '10 1';
my $BATCH = 100;
my $LIMIT = 10;    # seconds for a query, or it does not count
my %PATH = (ours => 'ours, extension', plain => 'plain');

# --- Queries.  Each function gives SQL of a type at random; @from are the aliases that
# --- it may name, each of which has the columns id, parent, made, n and url.

sub pick { return $_[ int(rand(@_)) ] }
sub chance { return rand() < $_[0] }

my $aliases = 0;

sub a_time
{
	return "timestamptz '2026-09-15 23:13:10.7" . (68 + int(rand(18))) . pick('', '', '5', '999') . "Z'";
}

sub id
{
	my ($depth, @from) = @_;
	my $from = pick(@from);

	return pick("$from.id", "$from.id", "$from.parent") if $depth <= 0 || chance(0.6);
	return pick(
		sub { 'snowflake_floor(' . at($depth - 1, @from) . ')' },
		sub { 'snowflake_ceil(' . at($depth - 1, @from) . ", 'twitter')" },
		sub { 'snowflake_encode(' . at($depth - 1, @from) . ', abs(' . number($depth - 1, @from) . ') % 1024, 7)' },
		sub { 'greatest(' . join(', ', map { id($depth - 1, @from) . '::bigint' } 1, 2) . ')' },
		sub { "(SELECT max(i.id) FROM " . table() . " AS i WHERE i.n = $from.n)" },
		sub { 2100000000000000000 + (int(rand(14)) << 22) . '::bigint' },
		sub { 'coalesce(' . id($depth - 1, @from) . "::snowflake, $from.id::snowflake)" })->();
}

sub at
{
	my ($depth, @from) = @_;
	my $from = pick(@from);

	return pick("$from.made", a_time(), "snowflake_timestamp($from.id)") if $depth <= 0 || chance(0.4);
	return pick(
		sub { 'snowflake_timestamp(' . id($depth - 1, @from) . ')' },
		sub { 'snowflake_timestamp(' . id($depth - 1, @from) . ", 'discord')" },
		sub { '(snowflake_decode(' . id($depth - 1, @from) . ')).created_at' },
		sub { 'time_of(' . id($depth - 1, @from) . ')' },
		sub { "(timestamptz '2026-10-01Z' - age_of(" . id($depth - 1, @from) . '))' },
		sub { '(' . at($depth - 1, @from) . " + interval '" . pick('1 ms', '-1 ms', '0.3 ms', '1 month') . "')" })->();
}

sub number
{
	my ($depth, @from) = @_;
	my $from = pick(@from);

	return pick("$from.n", int(rand(7))) if $depth <= 0 || chance(0.4);
	my $layout = pick('', '', ", 'discord'", ", 'instagram'");
	return pick(
		sub { 'snowflake_shard(' . id($depth - 1, @from) . "$layout)" },
		sub { 'snowflake_sequence(' . id($depth - 1, @from) . "$layout)" },
		sub { '(snowflake_decode(' . id($depth - 1, @from) . "$layout)).shard" },
		sub { "(SELECT count(*)::int FROM " . table() . ' AS i WHERE ' . condition($depth - 1, 'i', @from) . ')' })->();
}

sub condition
{
	my ($depth, @from) = @_;
	my $compared = pick('<', '<=', '=', '<>', '>=', '>');
	my $from = pick(@from);

	return pick("$from.id = " . pick(@from) . '.' . pick('id', 'parent'), "$from.n $compared 3", "$from.id::snowflake $compared " . a_time())
	  if $depth <= 0 || chance(0.2);
	return pick(
		sub { "$from." . pick('id', 'parent') . "::snowflake $compared " . at($depth - 1, @from) },
		sub { at($depth - 1, @from) . " $compared $from.id::snowflake" },
		sub { id($depth - 1, @from) . "::bigint $compared " . id($depth - 1, @from) . '::bigint' },
		sub { "$from.id BETWEEN snowflake_floor(" . at($depth - 1, @from) . ') AND snowflake_ceil(' . at($depth - 1, @from) . ')' },
		sub { number($depth - 1, @from) . " $compared " . number($depth - 1, @from) },
		sub { 'is_after(' . id($depth - 1, @from) . '::snowflake, ' . at($depth - 1, @from) . ')' },
		sub { pick('', 'NOT ') . 'EXISTS (SELECT FROM ' . table() . ' AS i WHERE ' . condition($depth - 1, 'i', @from) . ')' },
		sub { "$from.id IN (SELECT i.parent FROM " . table() . ' AS i WHERE ' . condition($depth - 1, 'i') . ')' },
		sub { "$from.id::bigint IN (SELECT ids_since(" . a_time() . '))' },
		sub { id($depth - 1, @from) . ' IS ' . pick('', 'NOT ') . 'NULL' },
		sub { '(' . join(pick(' AND ', ' OR '), map { condition($depth - 1, @from) } 1, 2) . ')' },
		sub { 'NOT (' . condition($depth - 1, @from) . ')' })->();
}

sub table { return pick(qw(photos comments events spread photos comments events spread decoded recent)) }

# A function in FROM, of the items before it; its columns, as the other items have them
sub function_item
{
	my ($alias, @from) = @_;
	my $id = id(1, @from);
	my $layout = pick('', '', '', ", 'twitter'");
	my $decoded = 'created_at AS made, shard AS n, sequence::text AS url';

	return pick(
		"LATERAL (SELECT $id AS id, $id AS parent, $decoded FROM snowflake_decode($id$layout)) AS $alias",
		"LATERAL (SELECT $id AS id, NULL::snowflake AS parent, $decoded FROM ROWS FROM (snowflake_decode($id$layout), generate_series(1, 2))"
		  . ' AS r (created_at, shard, sequence, i)) AS ' . $alias,
		"LATERAL (SELECT $id AS id, $id AS parent, $decoded FROM parts_of($id)) AS $alias",
		"LATERAL (SELECT $id AS id, i.parent, i.made, i.n, i.url FROM " . table() . ' AS i WHERE ' . condition(1, 'i', @from)
		  . " ORDER BY i.id, i.n LIMIT 3) AS $alias");
}

# The items of FROM: SQL, and aliases with all columns.  Functions also stand there
# bare, beside another whose body has the same call.
sub items
{
	my ($depth) = @_;
	my @from = ('t' . ++$aliases);
	my $sql = table() . " AS $from[0]";

	$sql = '(SELECT * FROM ' . table() . " AS i WHERE " . condition($depth, 'i') . ") AS $from[0]" if chance(0.15);
	for (1 .. pick(0, 0, 1, 1, 2))
	{
		my $alias = 't' . ++$aliases;
		my $join = pick('JOIN', 'JOIN', 'LEFT JOIN');

		if (chance(0.5))
		{
			my $other = pick(@from);
			$sql .= " $join " . table() . " AS $alias ON " . pick("$alias.id = $other.id", "$alias.parent = $other.id",
				"$alias.n = $other.n AND " . condition(1, $alias, $other));
		}
		else
		{
			$sql .= " $join " . function_item($alias, @from) . ' ON ' . pick('true', condition(1, $alias));
		}
		push @from, $alias;
	}
	my @bare;
	for (1 .. pick(0, 0, 0, 1, 2, 2))
	{
		my $from = pick(@from);
		my $alias = 'f' . ++$aliases;
		push @bare, $alias;
		$sql .= pick(', ', ', ', ' LEFT JOIN LATERAL ', ' CROSS JOIN LATERAL ')
		  . pick("snowflake_decode($from.id)", "snowflake_decode($from.id)", "snowflake_decode($from.id, 'twitter')", "age_of($from.id)", "time_of($from.id)", "parts_of($from.id)")
		  . " AS $alias";
		$sql .= ' ON true' if $sql =~ /LEFT JOIN LATERAL \S+ ?\S* AS $alias\z/;
	}
	return ($sql, \@from, map { "$_\::text" } @bare);
}

sub query
{
	my ($sql, $from, @more) = items(2);
	my @columns = (@more, map { pick(\&id, \&at, \&number)->(2, @$from) } 1 .. pick(1, 2, 3));
	my $where = join(' AND ', map { condition(3, @$from) } 1 .. pick(0, 1, 1, 2));

	$where = " WHERE $where" if $where;
	return 'SELECT count(*), ' . join(', ', map { pick('min', 'max', 'count') . '(' . $_ . '::text)' } @columns) . " FROM $sql$where"
	  . ' GROUP BY coalesce(' . number(1, @$from) . ', 0)'
	  if chance(0.2);
	my $all = 'SELECT ' . pick('', '', '', 'DISTINCT ') . join(', ', @columns) . " FROM $sql$where";
	$all .= ' ORDER BY ' . join(', ', 1 .. @columns) . ' LIMIT ' . pick(1, 5, 50) if chance(0.3);
	return "WITH q AS " . pick('', 'MATERIALIZED ') . "($all) SELECT * FROM q" if chance(0.1);
	return $all;
}

sub change
{
	my $table = pick(qw(photos comments events spread));
	my $where = condition(2, 't');
	my $all = "SELECT tableoid::regclass, * FROM $table";

	return "BEGIN; $_; $all; ROLLBACK" for pick(
		"UPDATE $table AS t SET parent = " . id(2, 't') . ", n = snowflake_shard(t.id), made = snowflake_timestamp(t.id) WHERE $where",
		"UPDATE $table AS t SET parent = u.id, made = d.created_at FROM " . table() . ' AS u, snowflake_decode(u.id) AS d'
		  . " WHERE t.id = u.id AND $where",
		"UPDATE spread AS t SET id = t.id + 4096 * (1 + t.n) WHERE $where; SELECT tableoid::regclass, * FROM spread",
		"DELETE FROM $table AS t USING " . table() . " AS u WHERE t.id = u.parent AND $where",
		"DELETE FROM $table AS t WHERE $where",
		"INSERT INTO spread SELECT t.id + 4096, t.parent, snowflake_timestamp(t.id), snowflake_shard(t.id), 'new' FROM $table AS t WHERE $where;"
		  . ' SELECT tableoid::regclass, * FROM spread');
}

# One plan for several times: what is known when it is made is less.
sub prepared
{
	my ($sql, $from) = items(1);
	my $where = condition(1, @$from);
	my $when = pick("$from->[0].id::snowflake >= \$1 AND $from->[0].id::snowflake < \$2", "\$1 <= $from->[0].id::snowflake", "$from->[0].id BETWEEN snowflake_floor(\$1) AND snowflake_ceil(\$2)");

	return "PREPARE p (timestamptz, timestamptz) AS SELECT " . join(', ', map { "$_.id" } @$from) . " FROM $sql WHERE $when AND ($where); "
	  . join(' ', map { 'EXECUTE p (' . a_time() . ', ' . a_time() . ');' } 1 .. 3) . ' DEALLOCATE p';
}

my @SETTINGS = map { ("enable_$_ = on", "enable_$_ = off") }
  qw(hashjoin mergejoin nestloop indexscan bitmapscan seqscan material memoize hashagg partition_pruning partitionwise_join);
push @SETTINGS, 'plan_cache_mode = force_generic_plan', 'plan_cache_mode = force_custom_plan', 'plan_cache_mode = auto',
  'from_collapse_limit = 1', 'from_collapse_limit = 8', 'parallel_setup_cost = 0', 'max_parallel_workers_per_gather = 0',
  'max_parallel_workers_per_gather = 2', 'min_parallel_table_scan_size = 0';

sub statement
{
	$aliases = 0;
	my $setting = chance(0.3) ? 'SET ' . pick(@SETTINGS) . '; ' : '';
	return $setting . pick(\&query, \&query, \&query, \&query, \&change, \&prepared)->();
}

# --- Their answers

my $node = new_server('twins', conf => "timezone = 'UTC'\njit = off\nstatement_timeout = ${LIMIT}s\nlog_statement = none\nfsync = off");

# What each statement of a batch answers: its rows in any order, and its SQLSTATE
sub start_side
{
	my ($side, @statements) = @_;
	my $script = "SET search_path = $PATH{$side};\n";

	for my $statement (@statements)
	{
		$script .= "\\echo ===\n" . join("\n", map { "$_;\n\\if :ERROR\n\\echo SQLSTATE :SQLSTATE\n\\endif" } split(/; ?/, $statement)) . "\n";
		$script .= "ROLLBACK;\nDEALLOCATE ALL;\n";
	}
	my $answer = { out => '', err => '' };
	$answer->{run} = IPC::Run::start([ 'psql', '-XAtq', '-P', 'null=NULL', '-d', $node->connstr('postgres') ],
		'<', \$script, '>', \$answer->{out}, '2>', \$answer->{err});
	return $answer;
}

sub answers
{
	my ($side) = @_;
	$side->{run}->finish;
	my (undef, @answers) = split(/^===\n/m, $side->{out}, -1);
	return map { join("\n", sort split(/\n/)) } @answers;
}

is($node->psql('postgres', slurp_file("$FindBin::RealBin/twins.sql"), on_error_stop => 1), 0, 'both sides are there');
srand($seed);
my ($run, $failed, $late, $rows) = (0) x 4;
my %different;
my $end = time + $seconds;
while (time < $end && keys %different < 3)
{
	my @statements = map { statement() } 1 .. $BATCH;
	my @sides = map { start_side($_, @statements) } 'ours', 'plain';
	my ($ours, $plain) = map { [ answers($_) ] } @sides;

	if (@$ours != $BATCH || @$plain != $BATCH)
	{
		$different{"(a batch did not come to its end)"} = [ substr($sides[0]{err}, -1000), substr($sides[1]{err}, -1000) ];
		last;
	}
	for my $i (0 .. $#statements)
	{
		$run++;
		if ("$ours->[$i] $plain->[$i]" =~ /SQLSTATE 57014/) { $late++; next }
		$failed++ if $ours->[$i] =~ /SQLSTATE/;
		$rows++ if $ours->[$i] ne '';
		$different{ $statements[$i] } = [ $ours->[$i], $plain->[$i] ] if $ours->[$i] ne $plain->[$i];
	}
}
is(scalar(keys %different), 0, "$run random statements give the same answers (seed $seed)")
  or diag(map { "$_\nours:\n" . substr($different{$_}[0], 0, 800) . "\nplain:\n" . substr($different{$_}[1], 0, 800) . "\n" } sort keys %different)
  or diag("to see it again: test/check.sh --seed $seed --minutes 1 twins");
# how many take too long is the machine's affair
my $answered = $run - $late;
cmp_ok($rows, '>', $answered / 2, "$rows of $answered that end in time find rows");
cmp_ok($failed, '<', $answered / 20, "$failed fail, $late take too long");
unlike(slurp_file($node->logfile), qr/TRAP:|was terminated by signal|PANIC/, 'no process of the server crashed');
done_testing();
