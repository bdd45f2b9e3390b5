# Many rows at once, by INSERT ... SELECT and by COPY, into an empty table with
# a primary key; and how large that key's index is then.  All of it fits into
# shared_buffers: the next measurement is of what does not.

use strict;
use warnings FATAL => 'all';
use Bench;

my @subjects = keys_here();
my $inserted = by_mode(10_000, 200_000, 2_000_000);
my $copied = by_mode(10_000, 200_000, 1_000_000);
my $data = "$ENV{TMPDIR}/payload";

# So many rows into a table of its own; gives its name for a last look at it.
sub fill
{
	my ($subject, $rows, $how) = @_;
	my $table = table_of('bulk', $subject);

	query('CHECKPOINT');    # or somebody else's falls into this one's time
	record($subject, '', $rows / timed($how->($table)), 'rows/s');
	return $table;
}

measurement(
	'bulk insert',
	rounds => by_mode(1, 5, 5),
	turns => [ map { [$_] } @subjects, 'snowflake, full pages' ],
	take => sub {
		my ($subject) = @_;
		my $table = fill($subject, $inserted,
			sub { "INSERT INTO $_[0] (payload) SELECT generate_series(1, $inserted)" });

		record($subject, '', query("SELECT pg_relation_size('${table}_pkey')"), 'bytes');
		query("DROP TABLE $table");
	});

measurement(
	'copy',
	rounds => by_mode(1, 5, 5),
	setup => sub { query("COPY (SELECT generate_series(1, $copied)) TO '$data'") },
	turns => [ map { [$_] } @subjects ],
	take => sub {
		my ($subject) = @_;
		my $table = fill($subject, $copied, sub { "\\copy $_[0] (payload) FROM '$data'" });

		query("DROP TABLE $table");
	});

record_machine('INSERT ... SELECT', "$inserted rows");
record_machine('COPY', "$copied rows");

1;
