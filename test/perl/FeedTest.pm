# FeedTest.pm -- what the tests of reading what is new share: one reader, which keeps
# the last id that it read, and asks whichever server it is given for what is above.

package FeedTest;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

our @EXPORT = qw(new_reader poll poll_to_the_end has_read_each_once mark_of);

my $last = 0;    # id
my %times;    # each was read

# Forget all.
sub new_reader
{
	$last = 0;
	%times = ();
	return;
}

# The names of the rows that are new.
sub poll
{
	my ($server) = @_;
	my ($code, $out) = $server->psql('postgres',
		"SELECT id, name FROM events WHERE id > $last AND id < snowflake_settled() ORDER BY id LIMIT 1000");
	my @rows = map { [ split(/\|/) ] } split(/\n/, $code == 0 ? $out : '');

	for my $row (@rows)
	{
		$times{ $row->[0] }++;
		$last = $row->[0];
	}
	return map { $_->[1] } @rows;
}

# All of them, up to the last row that is committed.
sub poll_to_the_end
{
	my ($server) = @_;
	my $end = time() + $PostgreSQL::Test::Utils::timeout_default;
	my @names;

	while (time() < $end)
	{
		my @new = poll($server);

		push @names, @new;
		next if @new;
		return @names
		  if $server->safe_psql('postgres', "SELECT count(*) = 0 FROM events WHERE id > $last") eq 't';
		sleep(0.02);
	}
	return (@names, 'and not all');
}

# Each row that a server has was read, and once.
sub has_read_each_once
{
	my ($server, $name) = @_;
	my @written = split(/\n/, $server->safe_psql('postgres', 'SELECT id FROM events'));
	my @missed = grep { !$times{$_} } @written;
	my @twice = grep { $times{$_} > 1 } keys %times;

	return is(@missed . ' missed, ' . @twice . ' twice', '0 missed, 0 twice', "$name: " . @written . ' rows');
}

sub mark_of
{
	my ($server) = @_;
	return $server->safe_psql('postgres', 'SELECT snowflake_settled()');
}

1;
