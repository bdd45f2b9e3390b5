# The rate of inserting as the index outgrows shared_buffers: batch after batch
# into tables that grow side by side.  For this the server is started again,
# with little shared memory and with the checkpoints that come by default.

use strict;
use warnings FATAL => 'all';
use Bench;

my @subjects = ('snowflake', 'nextval', 'random UUID');
my $batch = by_mode(5_000, 50_000, 250_000);
my $batches = by_mode(4, 12, 24);
my %settings = (shared_buffers => by_mode('16MB', '16MB', '64MB'), max_wal_size => '1GB');

push @subjects, 'uuidv7' if has_function('uuidv7()');

measurement(
	'growth',
	rounds => by_mode(1, 1, 2),
	turns => [ [] ],
	take => sub {
		my %table;

		restart_server(%settings);
		$table{$_} = table_of('growth', $_) for @subjects;
		for my $number (1 .. $batches)
		{
			for my $subject ($number % 2 ? @subjects : reverse(@subjects))
			{
				my $seconds = timed("INSERT INTO $table{$subject} (payload) SELECT generate_series(1, $batch)");

				record($subject, $number * $batch, $batch / $seconds, 'rows/s');
			}
		}
		for my $subject (@subjects)
		{
			record($subject, $batches * $batch, query("SELECT pg_relation_size('$table{$subject}_pkey')"), 'bytes');
			query("DROP TABLE $table{$subject}");
		}
		restart_server();
	});

record_machine('while the index grows', join(', ', map { "$_ = $settings{$_}" } reverse sort keys %settings));

1;
