# Four servers that write at the same time and one that gathers their rows, as
# in test/t/030_logical.pl, by pglogical in place of the server's own
# replication.
#
# Packages: postgresql-MAJOR-pglogical

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use ManyServers;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $directory = `pg_config --sharedir`;
chomp($directory);
plan skip_all => 'pglogical is not installed'
  unless -e "$directory/extension/pglogical.control";

# from some minor release on, a server lists what may decode its WAL
my $conf = "shared_preload_libraries = 'snowflake, pglogical'";
$conf .= "\noutput_plugin_libraries = 'pglogical_output'"
  if `postgres --describe-config` =~ /^output_plugin_libraries\t/m;

my @names = qw(paris tokyo lima cairo);
my %server = (
	archive => small_server('archive', '9', conf => $conf),
	map { $names[$_] => small_server($names[$_], $_, conf => $conf) } 0 .. $#names);
my @writers = @server{@names};

run_section('The table', %server);

# half of the rows are there when the subscriptions begin
end_writing(begin_writing('photos', $ROWS / 2, @writers));
my @sessions = begin_writing('photos', $ROWS / 2, @writers);
run_section('With pglogical', %server);
ok( wait_until($server{archive}, q{SELECT bool_and(status = 'replicating') FROM pglogical.show_subscription_status()}),
	'all subscriptions are replicating');
end_writing(@sessions);
wait_for_archive();

same_rows_as($server{archive}, 'photos', $ROWS, @writers);
unlike(slurp_file($server{archive}->logfile), qr/ERROR|CONFLICT/, 'no error and no conflict is logged');

# That would be seen: here is a row that two servers have.
$server{$_}->safe_psql('postgres', q{INSERT INTO photos VALUES (5, 'twice')}) for 'paris', 'tokyo';
wait_for_archive();
like(slurp_file($server{archive}->logfile), qr/CONFLICT/, 'a conflict is logged');

sub wait_for_archive
{
	$_->safe_psql('postgres', q{SET statement_timeout = '10min'; SELECT pglogical.wait_slot_confirm_lsn(NULL, NULL)})
	  for @writers;
	return;
}

done_testing();
