# Where C is not allowed: snowflake_plain, and the functions that circulate, beside
# what the server has.  Sessions fill a table, a thousand ids in a statement; then the
# ids that came more than once are counted.

use strict;
use warnings FATAL => 'all';
use Bench;

my %draw = (
	'snowflake' => 'snowflake_nextval()',
	'snowflake_plain' => 'plain.snowflake_nextval()',
	'nextval, CACHE 1' => "nextval('cache_1')",
	'random UUID' => 'gen_random_uuid()',
	'PL/pgSQL, modulo' => 'plpgsql_modulo()',
	'PL/pgSQL, checked' => 'plpgsql_checked()',
	'PL/pgSQL, moved' => 'plpgsql_moved()');
my $IDS = 1000;    # in a statement

measurement(
	'plain',
	rounds => by_mode(1, 5, 9),
	turns => [ map { [$_] } sort keys %draw ],
	setup => sub {
		query([ 'CREATE SCHEMA plain', 'CREATE EXTENSION snowflake_plain SCHEMA plain', q(SELECT plain.snowflake_plain_setup('twitter', '8')) ]);
	},
	take => sub {
		my ($subject) = @_;

		query([ 'DROP TABLE IF EXISTS drawn', "CREATE UNLOGGED TABLE drawn AS SELECT $draw{$subject} AS id WITH NO DATA" ]);
		my $rate = pgbench("INSERT INTO drawn SELECT $draw{$subject} FROM generate_series(1, $IDS)", 8, by_mode(1, 1, 2));
		my ($ids, $distinct) = split(/\|/, query('SELECT count(*), count(DISTINCT id) FROM drawn'));

		record($subject, '', $IDS * $rate, 'ids/s');
		record($subject, '', ($ids - $distinct) / $ids * 1e6, 'of a million');
	});

1;
