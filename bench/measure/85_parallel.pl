# What it costs that parallel workers do not mint.  snowflake_nextval() is
# PARALLEL RESTRICTED: the leader mints, so that the ids of a session increase.
# CREATE TABLE AS over a parallel scan is measured with it, with the same function
# declared PARALLEL SAFE, so that workers mint, and with core's nextval().

use strict;
use warnings FATAL => 'all';
use Bench;

my $rows = by_mode(20_000, 300_000, 2_000_000);
my %how = (
	'the leader mints' => [ 'RESTRICTED', 'snowflake_nextval()' ],
	'workers mint' => [ 'SAFE', 'snowflake_nextval()' ],
	'nextval' => [ 'RESTRICTED', "nextval('cache_1')" ]);
my %pattern = ('all' => '%', 'an eighth' => '%aa%');

measurement(
	'parallel',
	rounds => by_mode(1, 5, 5),
	setup => sub {
		query([ "CREATE TABLE source AS SELECT n, md5(n::text) AS t FROM generate_series(1, $rows) AS n",
			'VACUUM ANALYZE source' ]);
	},
	turns => turns([ sort keys %how ], [ sort keys %pattern ]),
	take => sub {
		my ($subject, $share) = @_;
		my ($safety, $id) = @{ $how{$subject} };

		query([ 'DROP TABLE IF EXISTS made', "ALTER FUNCTION snowflake_nextval() PARALLEL $safety" ]);
		record($subject, $share,
			timed("CREATE TABLE made AS SELECT $id AS id, n, t FROM source WHERE t LIKE '$pattern{$share}'",
				max_parallel_workers_per_gather => 2, min_parallel_table_scan_size => 0, 'snowflake.shards' => '0-63'), 's');
		query('ALTER FUNCTION snowflake_nextval() PARALLEL RESTRICTED');
	});

record_machine('parallel scan', "$rows rows");

1;
