# INSERTs of a row each, in transactions of their own, by more and more
# clients.  With synchronous_commit on, that is mostly waiting for the disk;
# with it off, the server's work shows.

use strict;
use warnings FATAL => 'all';
use Bench;

my @subjects = keys_here();
my %clients = (on => by_mode([2], [ 1, 8 ], [ 1, 8, 32 ]), off => by_mode([2], [ 1, 8 ], [ 1, 8 ]));
my %table;

for my $commit ('on', 'off')
{
	measurement(
		$commit eq 'on' ? 'insert' : 'insert, no flush',
		rounds => by_mode(1, 5, 5),
		setup => sub { $table{$_} //= table_of('insert', $_) for @subjects },
		turns => turns(\@subjects, $clients{$commit}),
		take => sub {
			my ($subject, $clients) = @_;
			my $rate = pgbench("INSERT INTO $table{$subject} (payload) VALUES (1)",
				$clients, by_mode(1, 1, 2), synchronous_commit => $commit);

			record($subject, $clients, $rate, 'rows/s');
		});
}

1;
