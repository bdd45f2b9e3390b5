# doc/reference.md is complete and right: each object of the extension has its
# entry there, with the server's own arguments, results, columns, properties and
# privileges, and an example, which 021_doc.pl runs.  Its errors are
# 045_messages.pl's.  test/sql/catalog.sql looks at the comments on the same
# objects.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $node = new_server('reference');
my ($main, $internal) = split(/^## Internal functions$/m, page_text('doc/reference.md'));

# The entries: a title, which can name several functions, and the text up to the
# next title.
my %entries;
while ($main =~ /^### ([\w, ]+)\n(.*?)(?=^##|\z)/msg)
{
	my ($title, $entry) = ($1, $2);
	$entries{$_} = $entry for split(/, /, $title);
}
my %is_server_s;    # entries of objects that the server has

# The rows of a query on the members of the extension, with short names of types.
sub members
{
	my ($query) = @_;
	my $rows = $node->safe_psql('postgres', <<"SQL", extra_params => [ '-F', "\t" ]);
WITH member AS (
	SELECT d.classid, d.objid FROM pg_depend AS d JOIN pg_extension AS e ON e.oid = d.refobjid
	 WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND e.extname = 'snowflake'
)
$query
SQL
	$rows =~ s/timestamp with time zone/timestamptz/g;
	$rows =~ s/DEFAULT NULL::[a-z ]+/DEFAULT NULL/g;
	$rows =~ s/SETOF/setof/g;
	return map { [ split(/\t/, $_, -1) ] } split(/\n/, $rows);
}

# The first block of an entry: its forms, or those of one of its functions.
sub forms_of
{
	my ($entry, $name) = @_;
	my ($block) = $entry =~ /\A\n```\n(.*?)^```/ms;
	return grep { !defined $name || /^\Q$name\E\(/ } split(/\n/, $block // '');
}

# Its list of columns, each a name and a type.
sub columns_of
{
	my ($entry) = @_;
	return join("\n", map { s/` `/` | `/r } $entry =~ /^  - (`\w+` `[\w ]+`)(?::|$)/mg);
}

# --- Functions, but for those that types, casts, operators and operator classes
# --- are made of: these have no entry of their own.

my $columns = <<'SQL';
	(SELECT string_agg(format('`%s` | `%s`', c.name, format_type(c.type, NULL)), '+' ORDER BY c.n)
SQL
my @functions = members(<<"SQL");
SELECT p.proname, p.proname || '(' || (
		SELECT coalesce(string_agg(concat_ws(' ', p.proargnames[n], format_type(type, NULL),
			'DEFAULT ' || pg_get_function_arg_default(p.oid, n::int)), ', ' ORDER BY n), '')
		  FROM unnest(p.proargtypes) WITH ORDINALITY AS argument(type, n))
	|| ') → ' || pg_get_function_result(p.oid),
	CASE p.provolatile WHEN 'i' THEN 'immutable' WHEN 's' THEN 'stable' ELSE 'volatile' END,
	CASE p.proparallel WHEN 's' THEN 'safe' WHEN 'r' THEN 'restricted' ELSE 'unsafe' END,
	CASE WHEN has_function_privilege('public', p.oid, 'EXECUTE') THEN 'everybody'
		WHEN has_function_privilege('pg_monitor', p.oid, 'EXECUTE')
		THEN 'superusers, members of `pg_monitor`, and roles granted EXECUTE'
		ELSE 'superusers, and roles granted EXECUTE' END,
$columns
	   FROM unnest(p.proargnames, p.proargmodes, p.proallargtypes) WITH ORDINALITY AS c(name, mode, type, n)
	  WHERE c.mode = 'o')
  FROM member JOIN pg_proc AS p ON member.classid = 'pg_proc'::regclass AND p.oid = member.objid
 WHERE NOT EXISTS (SELECT FROM pg_type WHERE p.oid IN (typinput, typoutput, typreceive, typsend))
   AND NOT EXISTS (SELECT FROM pg_operator WHERE p.oid = oprcode)
   AND NOT EXISTS (SELECT FROM pg_amproc WHERE p.oid = amproc)
   AND NOT EXISTS (SELECT FROM pg_proc AS supported WHERE p.oid = supported.prosupport)
   AND p.proname <> 'snowflake'
 ORDER BY 2
SQL
my %forms;

cmp_ok(scalar(@functions), '>', 40, 'the extension has functions');
for (@functions)
{
	my ($name, $form, $volatility, $parallel, $privilege, $result) = @$_;
	my $entry = $entries{$name} // '';

	next if index($internal, "`$form`") >= 0;
	push @{ $forms{$name} }, $form;
	$is_server_s{$name} = 1;
	my $whose = $privilege eq 'everybody' ? qr/(?!; for)/ : qr/; for \Q$privilege\E\b/;
	like($entry, qr/^- \*\*Properties:\*\* $volatility, parallel $parallel\b$whose/m, "$form: properties");
	is(columns_of($entry), $result =~ tr/+/\n/r, "$form: columns") if $result ne '';
	like($entry, qr/^- \*\*Errors:\*\*/m, "$form: errors");
	like($entry, qr/^```sql\n[^`]*\b\Q$name\E\b[^`]*^```\n```text\n/m, "$form: an example, with its output");
}

# "C and plain" are those of snowflake_plain, with its arguments
$node->safe_psql('postgres', q{CREATE SCHEMA plain; CREATE EXTENSION snowflake_plain SCHEMA plain; SELECT plain.snowflake_plain_setup('twitter', '5')});
my %plain = map { $_ => 1 } split(/\n/, $node->safe_psql('postgres', <<'SQL'));
SELECT format('%s(%s)', proname, regexp_replace(replace(pg_get_function_identity_arguments(oid), 'timestamp with time zone', 'timestamptz'), ', OUT .*', ''))
  FROM pg_proc WHERE pronamespace = 'plain'::regnamespace AND proname NOT LIKE 'snowflake_plain%'
SQL
for my $name (sort keys %forms)
{
	my ($mark) = ($entries{$name} // '') =~ /^- \*\*In:\*\* (.*)$/m;

	is($mark // 'C', (grep { /^$name\(/ } keys %plain) ? 'C and plain' : 'C', "$name is marked, if plain has it");
	next unless defined $mark;
	is_deeply([ grep { !delete $plain{ s/ →.*//r } } @{ $forms{$name} } ], [], "plain has the forms of $name");
}
is_deeply([ keys %plain ], [], 'and plain has no other function');
is_deeply([ sort grep { !$entries{$_} } keys %forms ], [], 'each function has an entry');
is_deeply([ sort(forms_of($entries{$_} // '', $_)) ], [ sort @{ $forms{$_} } ], "the forms of $_") for sort keys %forms;
my %said = map { $_ => 1 } map { @$_ } values %forms;
is_deeply([ grep { !$said{$_} } map { forms_of($entries{$_}) } sort keys %forms ], [], 'no entry has a form of another function');

# what is called internal is there, too
my %is_form = map { $_->[1] => 1 } @functions;
is_deeply([ grep { !$is_form{$_} } $internal =~ /`([^`]+ → [^`]+)`/g ], [], 'each internal function exists');

# --- Views

for (members(<<"SQL"))
SELECT r.relname,
$columns
	   FROM (SELECT attname AS name, atttypid AS type, attnum AS n FROM pg_attribute
	          WHERE attrelid = r.oid AND attnum > 0) AS c)
  FROM member JOIN pg_class AS r ON member.classid = 'pg_class'::regclass AND r.oid = member.objid
SQL
{
	my ($name, $result) = @$_;

	$is_server_s{$name} = 1;
	is(columns_of($entries{$name} // ''), $result =~ tr/+/\n/r, "columns of the view $name");
	like($entries{$name} // '', qr/^```sql\n[^`]*\b$name\b[^`]*^```\n```text\n/m, "an example of the view $name");
}

# --- Operators, their type, and casts

my @operators = map { $_->[0] =~ s/snowflake_instant/snowflake/r } members(<<'SQL');
SELECT format('%s %s %s → %s', format_type(oprleft, NULL), oprname, format_type(oprright, NULL), format_type(oprresult, NULL))
  FROM member JOIN pg_operator AS o ON member.classid = 'pg_operator'::regclass AND o.oid = member.objid
SQL
is_deeply([ sort(forms_of($entries{Operators})) ], [ sort @operators ], 'the operators');

my @casts = map { $_->[0] } members(<<'SQL');
SELECT format('`%s` | `%s` | %s', format_type(castsource, NULL), format_type(casttarget, NULL),
		CASE castcontext WHEN 'i' THEN 'implicit' WHEN 'a' THEN 'assignment' ELSE 'explicit' END)
  FROM member JOIN pg_cast AS c ON member.classid = 'pg_cast'::regclass AND c.oid = member.objid
 WHERE casttarget <> 'snowflake_instant'::regtype
SQL
is_deeply([ sort($entries{snowflake} =~ /^\| (`\w+` \| `\w+` \| \w+) \|$/mg) ], [ sort @casts ], 'the casts');

# --- The types of parameters: the server's, for a column of each type

my @rows = $entries{'The type of a parameter'} =~ /^\| (`.*`) \| `([^`]+)` \| `([^`]+)` \|$/mg;

cmp_ok(scalar(@rows), '>', 30, 'the table of parameters has rows');
while (my ($cell, @expected) = splice(@rows, 0, 3))
{
	for my $type ('snowflake', 'bigint')
	{
		my $expected = shift @expected;

		for my $statement ($cell =~ /`([^`]+)`/g)
		{
			# a time does not compare with a bigint
			next if $type eq 'bigint' && $statement =~ /\bid .*::timestamptz/;
			$statement = "SELECT $statement FROM photos" if $statement !~ /^(?:INSERT|UPDATE) /;
			is( $node->safe_psql('postgres', <<"SQL"), $expected, "$type: $statement");
CREATE TEMP TABLE photos (id $type, n integer, ids $type\[]);
PREPARE statement AS $statement;
SELECT parameter_types[1] FROM pg_prepared_statements;
SQL
		}
	}
}

# --- All else that has a name is at least named

my @named = map { $_->[0] } members(<<'SQL');
SELECT typname FROM member JOIN pg_type ON classid = 'pg_type'::regclass AND pg_type.oid = objid WHERE typtype = 'b' AND typcategory <> 'A'
UNION
SELECT opcname FROM member JOIN pg_opclass ON classid = 'pg_opclass'::regclass AND pg_opclass.oid = objid
UNION
SELECT opfname FROM member JOIN pg_opfamily ON classid = 'pg_opfamily'::regclass AND pg_opfamily.oid = objid
SQL
is_deeply([ grep { $main !~ /\b$_\b/ } @named ], [], join(' ', sort @named) . ' are there');
is_deeply([ sort grep { !$is_server_s{$_} } keys %entries ], [ sort 'Operators', 'The type of a parameter', 'Wait events', 'snowflake', 'snowflake_shard_ops', 'Errors of several functions' ],
	'no entry is of an object that is not there');

my @kinds = map { $_->[0] } members(q{SELECT DISTINCT classid::regclass FROM member ORDER BY 1});
is("@{[ sort @kinds ]}", 'pg_cast pg_class pg_opclass pg_operator pg_opfamily pg_proc pg_type', 'and the extension has objects of no other kind');

# --- Wait events and settings are those of the code, both ways; alerts are 042_monitoring.pl's

my $sources = join('', map { slurp_file($_) } glob("$FindBin::RealBin/../../src/*.c $FindBin::RealBin/../../src/lease/*.c"));
my %events = map { $_ => 1 } $sources =~ /\bWaitName\s+\w+ = \{"(Snowflake\w+)"/g;
is_deeply([ sort $entries{'Wait events'} =~ /^- `(\w+)`:/mg ], [ sort keys %events ], 'the wait events');
my %told = map { $_ => 1 } page_text('doc/monitoring/postgres_exporter.yaml') =~ /\b(Snowflake\w+)\b/g;
is_deeply([ sort grep { !/^Snowflake$/ } keys %told ], [ sort keys %events ], 'which the exporter names');
is_deeply([ sort $main =~ /^\| `(snowflake\.\w+)` \|/mg ],
	[ split(/\n/, $node->safe_psql('postgres', q{SELECT name FROM pg_settings WHERE name LIKE 'snowflake.%' ORDER BY name})) ], 'the settings');

# --- The list at the top has all entries, in their order

my ($contents) = $main =~ /\A(.*?)^## /ms;
my @titles = map { s/, /-/gr } grep { /_/ && !/^snowflake_shard_ops$/ } $main =~ /^### ([\w, ]+)$/mg;
is_deeply([ grep { /_/ } $contents =~ /\]\(#([\w-]+)\)/g ], \@titles, 'the list at the top has the entries, in their order');

done_testing();
