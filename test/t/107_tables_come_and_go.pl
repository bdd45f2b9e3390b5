# What looks at all tables does not fail while others make, rename, alter and drop them.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $node = new_server('busy', conf => "snowflake.shards = '5'");

# Each statement is a transaction, so that the others meet the tables in between.
sub change
{
	my ($name) = @_;
	my $statements = join('', map { "EXECUTE '$_'; COMMIT; PERFORM pg_sleep(0.003); " =~ s/\bNAME/$name/gr } split(/\n/, <<'SQL'));
CREATE SCHEMA NAME
CREATE TABLE NAME.t (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), b bigint DEFAULT snowflake_nextval(6))
CREATE SEQUENCE NAME.q OWNED BY NAME.t.b
INSERT INTO NAME.t (b) VALUES (0)
CREATE VIEW NAME.v AS SELECT id FROM NAME.t WHERE id > snowflake_nextval()
CREATE TABLE NAME.p (id snowflake PRIMARY KEY DEFAULT snowflake_nextval()) PARTITION BY RANGE (id)
SELECT snowflake_make_partitions(''NAME.p'', ''2026-01-01Z'', ''2026-02-01Z'', ''1 month'')
DROP VIEW NAME.v
ALTER TABLE NAME.t RENAME TO u
ALTER SCHEMA NAME RENAME TO NAME_later
ALTER TABLE NAME_later.u DROP COLUMN b CASCADE
ALTER TABLE NAME_later.u ALTER id TYPE bigint, ALTER id DROP DEFAULT
DROP TABLE NAME_later.p
DROP SCHEMA NAME_later CASCADE
SQL
	return start_session($node, "SET client_min_messages = error;\nDO \$\$ BEGIN LOOP ${statements}PERFORM nextval('rounds'); COMMIT; END LOOP; END \$\$", errors => '/dev/null');
}

$node->safe_psql('postgres', 'CREATE SEQUENCE rounds');
my @sessions = map { change($_) } 'one', 'two';
my $rounds = sub { $node->safe_psql('postgres', 'SELECT last_value FROM rounds WHERE is_called') || 0 };
my (%failed, $asked);
ok(wait_until($node, 'SELECT is_called FROM rounds'), 'tables come and go') or die 'they do not';
my $before = $rounds->();

until ($asked && $asked >= 10 && $rounds->() > $before + 10)
{
	my ($status, undef, $err) = $node->psql('postgres', <<'SQL');
SELECT count(*) FROM snowflake_check();
SELECT count(*) FROM snowflake_check(partitions_for => '1 year');
SELECT count(*) FROM snowflake_dependents();
SELECT count(*) FROM snowflake_layout_dependents();
SQL
	$failed{$err}++ if $err;
	last if ++$asked == 1000;
}
cmp_ok($rounds->(), '>', $before + 10, 'and came and went all the time');
is(join("\n", sort keys %failed), '', "asked $asked times, nothing fails");
end_sessions($node, q{query LIKE 'DO%'}, @sessions);

done_testing();
