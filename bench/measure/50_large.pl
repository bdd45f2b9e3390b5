# Inserting while the index outgrows every cache of it: four quarters, each in one
# statement after a checkpoint, so that a page which is changed is logged as an
# image once in each quarter, as it is where checkpoints come regularly.
#
# For this the server is started again with little shared memory, and with
# direct I/O where it knows that (from 16 on): the kernel caches nothing, and a
# page that is not in shared_buffers comes from the disk.  So the index need not
# be as large as this machine's memory.

use strict;
use warnings FATAL => 'all';
use Bench;

my $rows = by_mode(4_000, 80_000, 600_000);
my %settings = (shared_buffers => by_mode('1MB', '1MB', '3MB'));

$settings{debug_io_direct} = 'data' if has('debug_io_direct');

# Names of what EXPLAIN tells of a statement, and what each is recorded as.
my %counted = (
	'Shared Read Blocks' => 'pages read a row',
	'WAL FPI' => 'page images a row',
	'WAL Bytes' => 'WAL bytes a row');

sub insert
{
	my ($subject, $table, $quarter) = @_;
	my $each = $rows / 4;
	my $told = query([ 'CHECKPOINT', 'EXPLAIN (ANALYZE, TIMING OFF, BUFFERS, WAL, FORMAT JSON) '
		  . "INSERT INTO $table (payload) SELECT generate_series(1, $each)" ]);
	my %found = map { /"([\w ]+)": ([0-9.]+)/ } reverse split(/\n/, $told);    # the whole comes before its parts

	record($subject, $quarter, $each / $found{'Execution Time'} * 1000, 'rows/s');
	record($subject, $quarter, $found{$_} / $each, $counted{$_}) for sort keys %counted;
	return;
}

measurement(
	'large index',
	rounds => by_mode(1, 5, 5),
	turns => [ map { [$_] } keys_here() ],
	take => sub {
		my ($subject) = @_;

		restart_server(%settings);
		my $table = table_of('large', $subject);
		insert($subject, $table, $_) for 1 .. 4;
		record($subject, 4, query("SELECT pg_relation_size('${table}_pkey')"), 'bytes');
		query("DROP TABLE $table");
		restart_server();
	});

record_machine('large index', join(', ', map { "$_ = $settings{$_}" } sort keys %settings));
record_machine("quarter $_", ($_ - 1) * $rows / 4 + 1 . ' to ' . $_ * $rows / 4) for 1 .. 4;

1;
