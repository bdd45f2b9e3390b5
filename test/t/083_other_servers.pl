# doc/pagination.md, "On other servers": its SQL runs on the servers that it names, and each of
# its readers gets the rows of all servers that it is about.  And what it says of a row
# that is missing.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use ManyServers;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my ($page) = page_text('doc/pagination.md') =~ /^## On other servers\n(.*?)^## /ms;
my %server = (
	paris => small_server('paris', '0'),
	tokyo => small_server('tokyo', '1'),
	archive => small_server('archive', '2'),
	museum => small_server('museum', '3'));

$server{paris}->backup('backup');
$server{standby} = PostgreSQL::Test::Cluster->new('standby');
$server{standby}->init_from_backup($server{paris}, 'backup', has_streaming => 1);
$server{standby}->start;

# What the job does: it publishes until the mark has passed the rows that are there.
my %has_job;
my $hub;                        # what the job of the hub does

sub published
{
	my ($name) = @_;

	$has_job{$name} = 1;
	return wait_until($server{$name}, "SELECT snowflake_publish_mark('$name') > max(id) FROM photos");
}

my ($reader) = $page =~ /^-- on archive\n(SELECT id, url.*?);$/ms;
my $readers = 0;

# As soon as the mark is there, and that of each other server has passed it.
sub reads
{
	my ($where, $query, $rows, $name) = @_;

	$readers++;
	published('paris');
	ok(wait_for(sub {
		$server{$_}->safe_psql('postgres', "SELECT snowflake_publish_mark('$_')") for keys %has_job;
		$server{archive}->safe_psql('postgres', $hub) if $hub;
		return count_of($server{$where}, "(\n$query) AS page") == $rows;
	}), "$name: a reader gets the rows");
	return;
}


for my $section (split(/^(?=### )/m, $page))
{
	my ($title) = $section =~ /^### (.*)/;

	for my $sql (map { $_->[1] } grep { $_->[0] eq 'sql' } fenced_blocks($section))
	{
		my ($where) = $sql =~ /\A-- on (\w+)/;

		if ($sql =~ /^SELECT id, url/m)
		{
			reads($where, $sql =~ s/;\s*\z//r, 1, $title);
			next;
		}
		run_example($sql, %server);
		published($where) if $sql =~ /snowflake_publish_mark\('/;
		($hub) = $1 if $sql =~ /^(INSERT INTO snowflake_marks.*?;)$/ms;
	}
	reads('archive', $reader =~ s/\{paris\}/{paris,tokyo}/r, 2, $title) if $section =~ /`'\{paris,tokyo\}'`/;
	reads('museum', $reader =~ s/\{paris\}/{archive}/r, 2, $title) if $section =~ /`'\{archive\}'`/;
}
is($readers, 4, 'there are four readers');
is($server{paris}->safe_psql('postgres', q{SET ROLE marks_job; SELECT snowflake_publish_mark('paris') IS NOT NULL}), 't', 'the job may publish');

# What to know, about a row that is missing
$server{archive}->safe_psql('postgres', q{DELETE FROM snowflake_marks WHERE server = 'paris'});
published('paris');
$server{paris}->wait_for_catchup('from_paris');
is(count_of($server{archive}, q{snowflake_marks WHERE server = 'paris'}), 0, 'a row that is missing is not updated');
$server{paris}->safe_psql('postgres', q{DELETE FROM snowflake_marks WHERE server = 'paris'});
published('paris');
$server{paris}->wait_for_catchup('from_paris');
is(count_of($server{archive}, q{snowflake_marks WHERE server = 'paris'}), 1, 'deleted on the server, it is sent again');

done_testing();
