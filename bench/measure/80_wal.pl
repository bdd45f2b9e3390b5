# What a million ids cost in WAL and in transaction numbers.
#
# A sequence logs once for 32 values, or for as many as it caches if that is
# more, and each transaction in which it logs gets a transaction number, a
# commit record and a flush.  snowflake logs a record whenever its horizon
# is renewed, a few times in each second in which anybody mints, whatever the
# rate, and needs no transaction number.  So its WAL is a matter of time and not
# of ids.

use strict;
use warnings FATAL => 'all';
use Bench;

my %draw = (
	'snowflake' => 'snowflake_nextval()',
	'nextval, CACHE 1' => "nextval('cache_1')",
	'nextval, CACHE 1000' => "nextval('cache_1000')");

my $clients = 8;
my %ids = (
	'in one statement' => by_mode(10_000, 500_000, 1_000_000),
	'a transaction each' => $clients * by_mode(100, 2_500, 5_000));

# The WAL's end and the next transaction number.
sub position
{
	return split(/\|/, query("SELECT pg_current_wal_insert_lsn() - '0/0', pg_snapshot_xmax(pg_current_snapshot())"));
}

measurement(
	'wal',
	rounds => by_mode(1, 5, 5),
	turns => turns([ sort keys %draw ], [ sort keys %ids ]),
	take => sub {
		my ($subject, $how) = @_;
		my ($wal_before, $xid_before) = position();

		if ($how eq 'in one statement')
		{
			query("SELECT count($draw{$subject}) FROM generate_series(1, $ids{$how})");
		}
		else
		{
			pgbench("SELECT $draw{$subject}", $clients, 0, transactions => $ids{$how} / $clients);
		}
		my ($wal, $xid) = position();
		record($subject, $how, ($wal - $wal_before) * 1e6 / $ids{$how}, 'bytes for a million ids');
		record($subject, $how, ($xid - $xid_before) * 1e6 / $ids{$how}, 'xids for a million ids');
	});

1;
