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
ok(is_replicating(), 'all subscriptions are replicating');
end_writing(@sessions);
wait_for_archive();

same_rows_as($server{archive}, 'photos', $ROWS, @writers);
ok(is_replicating(), 'and still are');
is(logged(qr/CONFLICT/), '', 'no conflict is logged');

# A worker of pglogical that fails is started again, and goes on where it was.  That
# is its affair unless the error tells of us: all rows are there.
my $other = qr/\] pglogical (?!.*snowflake)/;
is(logged(qr/ERROR:|PANIC:|TRAP:/, $other), '', 'and no error');
print "#: pglogical itself logged: $_\n" for split(/\n/, logged(qr/ERROR:/));

# That would be seen: here is a row that two servers have.
$server{$_}->safe_psql('postgres', q{INSERT INTO photos VALUES (5, 'twice')}) for 'paris', 'tokyo';
wait_for_archive();
like(logged(qr/CONFLICT/), qr/CONFLICT: remote INSERT on relation public\.photos/, 'a conflict is logged');
$server{archive}->psql('postgres', 'SELECT 1 / 0');
like(logged(qr/ERROR:|PANIC:|TRAP:/, $other), qr/ERROR:  /, 'and an error');

sub is_replicating
{
	return wait_until($server{archive}, q{SELECT bool_and(status = 'replicating') FROM pglogical.show_subscription_status()});
}

# The lines of the archive's log that match, but for statements and what "other" matches.
sub logged
{
	my ($pattern, $other) = @_;

	return join("\n", grep { $_ =~ $pattern && !/ LOG:  statement: / && !($other && $_ =~ $other) }
		  split(/\n/, slurp_file($server{archive}->logfile)));
}

sub wait_for_archive
{
	$_->safe_psql('postgres', q{SET statement_timeout = '10min'; SELECT pglogical.wait_slot_confirm_lsn(NULL, NULL)})
	  for @writers;
	return;
}

done_testing();
