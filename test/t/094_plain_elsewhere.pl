# snowflake_plain where the C extension cannot be, PostgreSQL 13 and 14, and PGlite; and on
# 16, which no Debian has.  The file is pasted, each answer is that of the C extension, and
# no id comes twice: in PostgreSQL over crashes, in PGlite over processes that end and
# begin.  A server that npm does not have for this machine is skipped.  The other majors
# run SQL test plain, the first and the last one also 090_plain and 091_managed.
#
# Majors: one
# Packages: nodejs
# Npm: plain
# Takes: long

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use JSON::PP;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $top = "$FindBin::RealBin/../..";
my $modules = "$top/test/plain/node_modules";
my $directory = PostgreSQL::Test::Utils::tempdir();
my $sockets = PostgreSQL::Test::Utils::tempdir_short();
my ($PORT, $IDS) = (5432, 5_000);
my @to_stop;

# --- What the C extension answers, one line a call

my (undef, @vectors) = map { [ split(/,/) ] } split(/\n/, slurp_file("$top/doc/vectors.csv"));
my $vectors = join(', ', map { "('$_->[0]', $_->[1], '$_->[2]')" } @vectors);
my $QUESTIONS = <<"SQL";
SET TimeZone = 'UTC';
SELECT concat_ws(' ', layout, id, snowflake_decode(id, layout), snowflake_timestamp(id, layout), snowflake_shard(id, layout),
    snowflake_sequence(id, layout), snowflake_floor(ts, layout), snowflake_ceil(ts, layout),
    (SELECT snowflake_encode(created_at, shard, sequence, layout) FROM snowflake_decode(id, layout)))
  FROM (VALUES $vectors) AS v (layout, id, created_at),
       LATERAL (SELECT greatest(v.created_at::timestamptz, '2026-01-01 12:00:00.000001Z')) AS t (ts);
SQL
my $node = new_server('c');
my $answers = $node->safe_psql('postgres', $QUESTIONS);
is(scalar(split(/\n/, $answers)), @vectors, 'the C extension answers for ' . @vectors . ' ids');

# --- Each server by what runs SQL on it, and what crashes it

sub runs
{
	my ($sql, @command) = @_;
	my $ok = IPC::Run::run([@command], '<', \$sql, '>', \my $out, '2>', \my $err);

	die "@command: $err" if !$ok || $err =~ /ERROR/;
	return $out =~ s/\n\z//r;
}

sub npm_server
{
	my ($major) = @_;
	my $native = "$modules/postgres$major/native";
	my ($data, $libraries) = ("$directory/$major", "$directory/lib$major");
	my $port = $PORT++;
	my @psql = ('psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-h', $sockets, '-p', $port, '-U', 'tester', '-d', 'postgres', '-f', '-');
	my $control = sub {
		local $ENV{LD_LIBRARY_PATH} = "$libraries:$native/lib";
		runs('', @_);
	};
	my $start = sub { $control->("$native/bin/pg_ctl", '-w', '-D', $data, '-l', "$data.log", '-o', "-k $sockets -p $port -c listen_addresses=", 'start') };

	# npm's packages have no symbolic links
	mkdir($libraries) or die "$libraries: $!";
	for my $link (@{ decode_json(slurp_file("$native/pg-symlinks.json")) })
	{
		my ($source, $target) = map { m{([^/]+)$} } @$link{qw(source target)};
		symlink("$native/lib/$source", "$libraries/$target") or die "$target: $!";
	}
	$control->("$native/bin/initdb", '-D', $data, '-U', 'tester', '-A', 'trust', '-E', 'UTF8', '--locale=C', '-N');
	$start->();
	my $stop = sub { $control->("$native/bin/pg_ctl", '-D', $data, '-m', 'immediate', 'stop') };
	push @to_stop, $stop;
	return { run => sub { runs($_[0], @psql) }, crash => sub { $stop->(); $start->() } };
}

# Each run is a process of its own, so the next one finds what is on disk.
sub pglite
{
	return {
		run => sub { runs($_[0], 'node', "$top/test/plain/pglite.js", "$directory/pglite") },
		crash => sub { },
	};
}

my %server = (
	'PostgreSQL 13' => [ 'postgres13', sub { npm_server(13) } ],
	'PostgreSQL 14' => [ 'postgres14', sub { npm_server(14) } ],
	'PostgreSQL 16' => [ 'postgres16', sub { npm_server(16) } ],
	PGlite => [ '@electric-sql/pglite', \&pglite ]);
my $file = slurp_file("$top/sql/snowflake_plain.sql");

for my $name (sort keys %server)
{
  SKIP:
	{
		my ($package, $begin) = @{ $server{$name} };

		skip "npm's package $package is not installed", 3 if !-d "$modules/$package";
		my $server = $begin->();
		my $run = sub { $server->{run}->("SET search_path = plain;\n$_[0]") };

		$run->("CREATE SCHEMA plain;\n$file;\nSELECT snowflake_plain_setup('twitter', '5');\nCREATE TABLE minted (n int PRIMARY KEY, id bigint);");
		is($run->($QUESTIONS), $answers, "$name: each answer is that of the C extension");
		for my $round (0 .. 2)
		{
			$run->("INSERT INTO minted SELECT n, snowflake_nextval() FROM generate_series($round * $IDS + 1, ($round + 1) * $IDS) AS n;");
			$server->{crash}->();
		}
		is($run->('SELECT concat_ws(\' \', count(*), count(DISTINCT id), bool_and(snowflake_shard(id) = 5)) FROM minted;'),
			join(' ', 3 * $IDS, 3 * $IDS, 't'), "$name: ids that differ, on their shard");
		is($run->('SELECT count(*) FROM (SELECT id > lag(id) OVER (ORDER BY n) AS rises FROM minted) AS m WHERE NOT rises;'), '0', "$name: in order");
	}
}

done_testing();

END
{
	my $status = $?;
	eval { $_->() } for @to_stop;
	$? = $status;
}
