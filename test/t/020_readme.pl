# README.md does what it says: its SQL runs in order, on a server set up by its
# own configuration; output that it shows is what comes out.  And the reference
# is complete: its tables of layouts and settings are the server's, and it names
# every function and every column of a view there is.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

# --- the README, in a database of its own, which makes the extension itself
my $node = new_server('readme', conf => "timezone = 'UTC'");
$node->safe_psql('postgres', 'CREATE DATABASE readme');
page_runs($node, 'README', page_text('README.md'), dbname => 'readme');

# --- the reference: rows of its tables, as the server would write them
my $reference = page_text('doc/reference.md');

sub has_rows
{
	my ($query, $count, $name) = @_;
	my @rows = split(/\n/, $node->safe_psql('readme', $query));
	my @missing = grep { index($reference, "\n$_") < 0 } @rows;

	is(@rows, $count, "$count $name");
	is("@missing", '', "each of the $name is in the reference");
	return;
}

has_rows(<<'SQL', 6, 'presets');
SELECT format('| `%s` | %s | %s ms | `%s` | %s | %s | %s | %s |', name,
	(extract(epoch FROM epoch) * 1000)::bigint, (extract(epoch FROM tick) * 1000)::int,
	fields, shards, capacity, expires_at::date, source)
FROM snowflake_layouts
SQL
has_rows(<<'SQL', 5, 'settings');
SELECT format('| `%s` | %s | %s |', name, context,
	CASE WHEN boot_val = '' THEN 'empty'
		WHEN unit = 'ms' THEN format('`%ss`', boot_val::int / 1000)
		ELSE format('`%s`', boot_val) END)
FROM pg_settings WHERE name LIKE 'snowflake.%'
SQL

# --- no function is left out, but for those that types and operators are made of
my @functions = split(/\n/, $node->safe_psql('postgres', <<'SQL'));
SELECT DISTINCT proname FROM pg_proc
JOIN pg_depend AS member ON member.classid = 'pg_proc'::regclass AND member.objid = pg_proc.oid AND member.deptype = 'e'
JOIN pg_extension ON pg_extension.oid = member.refobjid AND extname = 'snowflake'
WHERE NOT EXISTS (SELECT FROM pg_depend WHERE refclassid = 'pg_proc'::regclass AND refobjid = pg_proc.oid)
SQL
is_deeply([ grep { $reference !~ /`$_\(/ } @functions ], [], scalar(@functions) . ' functions are in the reference');

my @columns = split(/\n/, $node->safe_psql('postgres', <<'SQL'));
SELECT DISTINCT attname FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid AND relkind = 'v'
JOIN pg_depend AS member ON member.classid = 'pg_class'::regclass AND member.objid = pg_class.oid AND member.deptype = 'e'
JOIN pg_extension ON pg_extension.oid = member.refobjid AND extname = 'snowflake'
WHERE attnum > 0
SQL
is_deeply([ grep { $reference !~ /`$_`/ } @columns ], [], scalar(@columns) . ' columns of views are in the reference');

done_testing();
