# INSERTs of a row each, in transactions of their own, by more and more
# clients.  With synchronous_commit on, that is mostly waiting for the disk;
# with it off, the server's work shows.

use strict;
use warnings FATAL => 'all';
use Bench;

my @subjects = ('snowflake', 'nextval', 'identity', 'random UUID');
my %clients = (
	on => by_mode([ 1, 2 ], [ 1, 8 ], [ 1, 2, 4, 8, 16, 32 ]),
	off => by_mode([2], [8], [ 1, 8, 32 ]));
my %subjects = (on => \@subjects, off => [ 'snowflake', 'nextval' ]);
my %table;

for my $commit ('on', 'off')
{
	measurement(
		$commit eq 'on' ? 'insert' : 'insert, no flush',
		rounds => $commit eq 'on' ? by_mode(1, 2, 6) : by_mode(1, 2, 4),
		setup => sub { $table{$_} //= table_of('insert', $_) for @{ $subjects{$commit} } },
		turns => [
			map { my $clients = $_; map { [ $_, $clients ] } @{ $subjects{$commit} } } @{ $clients{$commit} } ],
		take => sub {
			my ($subject, $clients) = @_;
			my $rate = pgbench("INSERT INTO $table{$subject} (payload) VALUES (1)",
				$clients, by_mode(1, 1, 2), settings => { synchronous_commit => $commit });

			record($subject, $clients, $rate, 'rows/s');
		});
}

1;
