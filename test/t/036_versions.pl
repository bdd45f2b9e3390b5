# Versions: a library and SQL that do not fit each other give a clear error, and
# what was installed by CREATE EXTENSION comes back from a dump as it was.
#
# Majors: all

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use File::Copy qw(copy);
use File::Path qw(make_path);
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $top = "$FindBin::RealBin/../..";
my ($default) = slurp_file("$top/snowflake.control") =~ /^default_version = '(.*)'$/m;

my $node = new_server('versions', conf => "snowflake.shards = '5'\ntimezone = 'UTC'");
my $databases = 0;

sub new_database
{
	my $name = 'versions_' . ++$databases;

	$node->safe_psql('postgres', "CREATE DATABASE $name");
	return $name;
}

# --- A call of each function

my %SAMPLE = (
	'bigint'                   => ['175928847299117063'],
	'integer'                  => ['5'],
	'smallint'                 => ['5::smallint'],
	'numeric'                  => ['5.4'],
	'boolean'                  => ['true'],
	'interval'                 => [q{interval '1 month'}],
	'timestamp with time zone' => [ q{timestamptz '2026-01-01Z'}, q{timestamptz '2026-02-01Z'} ],
	'snowflake'                => [q{'175928847299117063'::snowflake}],
	'snowflake_instant'        => [q{'175928847299117063'::snowflake::snowflake_instant}],
	'name'                     => [q{'id'}],
	'regtype'                  => [q{'snowflake'}],
	'regclass'                 => [q{'pg_class'}],
	'cstring'                  => [q{'5'}],
	'text[]'                   => [q{'paris'}],
);
my %TEXT = (
	layout                => q{'discord'},
	expected_shards       => q{'0-7'},
	shards                => q{'0-7'},
	area                  => q{'layout'},
	server                => q{'paris'},
	statement             => q{'SELECT 1'},
	snowflake_from_base32 => q{'04W86BB0G4007'},
	snowflake_from_base58 => q{'11111111112'},
	snowflake_from_base62 => q{'00000000001'},
);

# The functions that SQL can call, each as [ signature, call, volatility ].
sub calls
{
	my ($db) = @_;
	my @calls;

	for (split(/\n/, $node->safe_psql($db, <<'SQL')))
SELECT p.oid::regprocedure, proname, provolatile,
	(SELECT string_agg(format_type(type, NULL) || '=' || coalesce(proargnames[n], ''), ',' ORDER BY n)
	 FROM unnest(proargtypes) WITH ORDINALITY AS a(type, n))
FROM pg_depend AS d JOIN pg_proc AS p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
WHERE d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake') AND d.deptype = 'e'
	AND 'internal'::regtype <> ALL (proargtypes) ORDER BY 1
SQL
	{
		my ($signature, $name, $volatility, $arguments) = split(/\|/, $_, 4);
		my %used;
		my @values;

		for (split(/,/, $arguments))
		{
			my ($type, $argument) = split(/=/, $_, 2);
			my $samples = $SAMPLE{$type};
			my $value =
				$type eq 'text' ? $TEXT{$name} // $TEXT{$argument}
			  : $samples        ? $samples->[ $used{$type}++ % @$samples ]
			  :                   undef;
			die "no sample of $argument $type for $signature" unless defined $value;
			push @values, $value;
		}
		push @calls, [ $signature, "$name(" . join(', ', @values) . ')', $volatility ];
	}
	return @calls;
}

# --- SQL newer than the library: a version that wants what this library lacks.
# --- Its script is in a copy of what is installed, where the server is told to
# --- look.

my $plain = new_database();
$node->safe_psql($plain, 'CREATE EXTENSION snowflake');
my $share = $node->config_data('--sharedir');
my $where = $node->safe_psql('postgres', q{SELECT name, setting FROM pg_settings WHERE name IN ('extension_destdir', 'extension_control_path') ORDER BY name});
my %where = map { split(/\|/, $_, 2) } split(/\n/, $where);
SKIP:
{
	skip 'this server finds extensions only where it is installed itself', 6 unless %where;
	my $by_path = exists $where{extension_control_path};
	my ($installed) =
	  $by_path
	  ? grep { -e "$_/extension/snowflake.control" } map { $_ eq '$system' ? $share : $_ } split(/:/, $where{extension_control_path})
	  : grep { -e "$_/extension/snowflake.control" } ("$where{extension_destdir}$share", $share);
	my $root = $node->basedir . '/newer';
	my $copy = "$root$share/extension";

	make_path($copy);
	copy($_, $copy) or die "could not copy $_: $!" for glob("$installed/extension/snowflake*");
	append_to_file("$copy/snowflake--$default--newer.sql", <<'SQL');
COMMENT ON TYPE snowflake IS 'of the newer version';
CREATE FUNCTION snowflake_of_tomorrow() RETURNS integer LANGUAGE C AS 'MODULE_PATHNAME', 'snowflake_of_tomorrow';
SQL
	$node->append_conf('postgresql.conf', $by_path ? "extension_control_path = '$root$share:\$system'" : "extension_destdir = '$root'");
	$node->restart;

	fails_with($node, q{ALTER EXTENSION snowflake UPDATE TO 'newer'}, '42883',
		qr/could not find function "snowflake_of_tomorrow" in file ".*snowflake/, 'the library lacks a function of a newer version',
		dbname => $plain);
	fails_with($node, q{CREATE EXTENSION snowflake VERSION 'newer'}, '42883',
		qr/could not find function "snowflake_of_tomorrow"/, 'at installation as well', dbname => new_database());
	is($node->safe_psql($plain, q{SELECT extversion FROM pg_extension WHERE extname = 'snowflake'}), $default, 'and nothing has changed');
	is($node->safe_psql($plain, 'SELECT snowflake_nextval() > 0'), 't', 'minting goes on');
}

# --- The last line: rows of other columns than the library fills

my $other = new_database();
$node->safe_psql($other, 'CREATE EXTENSION snowflake; CREATE SCHEMA other; SET search_path = other, public');
my @rows = split(/\n/, $node->safe_psql($other, <<'SQL'));
SELECT DISTINCT ON (prosrc) prosrc, proname, proretset,
	(SELECT string_agg(format_type(type, NULL), ', ' ORDER BY n) FROM unnest(proargtypes) WITH ORDINALITY AS a(type, n)),
	(SELECT string_agg(format('OUT %I %s', proargnames[n], format_type(type, NULL)), ', ' ORDER BY n)
	 FROM unnest(proallargtypes) WITH ORDINALITY AS a(type, n) WHERE proargmodes[n] IN ('o', 't'))
FROM pg_depend AS d JOIN pg_proc AS p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
WHERE d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake') AND d.deptype = 'e'
	AND prolang = (SELECT oid FROM pg_language WHERE lanname = 'c') AND proallargtypes IS NOT NULL
ORDER BY prosrc, pronargs
SQL
cmp_ok(scalar(@rows), '>', 2, 'there are functions that return rows');
my %calls = map { $_->[0] =~ /^(\w+)\(/ && ($1 => $_->[1]) } reverse calls($other);
for (@rows)
{
	my ($symbol, $name, $is_set, $in, $out) = split(/\|/);
	my @columns = split(/, /, $out);
	my ($arguments) = $calls{$name} =~ /(\(.*\))/;
	my %variants = (
		'a column more'         => [ @columns, 'OUT more text' ],
		'a column less'         => [ @columns[ 0 .. $#columns - 1 ] ],
		'a column of type text' => [ map { s/ (integer|bigint|boolean|double precision|timestamp.*)$/ text/r } @columns ],
	);
	delete $variants{'a column less'} if @columns == 2;    # which would be no record

	for my $variant (sort keys %variants)
	{
		my $wanted = join(', ', grep { $_ ne '' } $in, @{ $variants{$variant} });

		$node->safe_psql($other, 'DROP SCHEMA other CASCADE; CREATE SCHEMA other;'
			. "CREATE FUNCTION other.$name($wanted) " . ($is_set eq 't' ? 'RETURNS SETOF record ' : '')
			. "LANGUAGE C STRICT AS 'snowflake', '$symbol'");
		fails_with($node, "SELECT * FROM other.$name$arguments", '55000',
			qr/function "$name" and the library are of different versions of snowflake.*DETAIL:  \w.*declared .* and the library returns .*HINT:  Restart the server/s,
			"$symbol with $variant", dbname => $other);
	}
}
is($node->safe_psql($other, 'SELECT snowflake_nextval() > 0'), 't', 'the server is in good health');
unlike(slurp_file($node->logfile), qr/terminated by signal|TRAP:/, 'no process has crashed');

done_testing();
