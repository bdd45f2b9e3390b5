# Marks in a change stream: a row of snowflake_marks is the watermark.  Of the changes
# that logical decoding sends, none after it has an id below it.  So a reader that
# keeps rows until a mark passes them hands them on in the order of ids, each once.
# The stream itself is in the order of commits.
#
# By test_decoding, which is a module of PostgreSQL, and by wal2json.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use JSON::PP ();
use MarksTest;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $TRANSACTIONS = $ENV{SNOWFLAKE_TRANSACTIONS} // 150;

# a release of the server may not have the setting yet
my $allowed = `postgres --describe-config` =~ /^output_plugin_libraries\t/m ? "output_plugin_libraries = 'test_decoding, wal2json'" : '';
my $node = new_server('marks_stream', init => { allows_streaming => 'logical' }, conf => <<"CONF");
snowflake.shards = '0-3'
max_prepared_transactions = 20
logical_decoding_work_mem = 64kB
$allowed
CONF

# Each change as [table, id or mark], by the plugin's text.
my %change_of = (
	test_decoding => sub {
		my ($text) = @_;
		return [ $1, $2 ] if $text =~ /^table public\.(\w+): (?:INSERT|UPDATE): .*?\b(?:id|mark)\[(?:public\.snowflake|snowflake|bigint)\]:'?(\d+)/;
		return;
	},
	wal2json => sub {
		my ($text) = @_;
		my $change = JSON::PP::decode_json($text);
		my ($value) = map { $_->{value} } grep { $_->{name} =~ /^(?:id|mark)$/ } @{ $change->{columns} // [] };
		return defined $value ? [ $change->{table}, $value ] : ();
	});
my %options = (
	test_decoding => '',
	wal2json => q{, 'format-version', '2', 'include-transaction', 'false'});
my @plugins;

create_events($node);
for my $plugin (sort keys %change_of)
{
	my ($status, $out, $err) = $node->psql('postgres', "SELECT pg_create_logical_replication_slot('of_$plugin', '$plugin')");

	if ($status == 0)
	{
		push @plugins, $plugin;
	}
	else
	{
		note("SKIPPED: $plugin: $err");
		die $err unless $plugin eq 'wal2json' && $err =~ /could not access file/;
	}
}

my $publisher = begin_publishing($node, 'paris');
end_events($node, begin_events($node, $TRANSACTIONS, 'p'));
finish_session($publisher) or die $publisher->{err};

for my $plugin (sort keys %change_of)
{
  SKIP:
	{
		skip "$plugin is not installed (on Debian: postgresql-15-wal2json)", 8 unless grep { $_ eq $plugin } @plugins;

		my @changes = map { $change_of{$plugin}->($_) } split(/\n/,
			$node->safe_psql('postgres', "SELECT data FROM pg_logical_slot_get_changes('of_$plugin', NULL, NULL$options{$plugin})"));
		my ($mark, $greatest, $marks, $below_mark, $below_last) = (0, 0, 0, 0, 0);
		my (@kept, @handed_on);

		for (@changes)
		{
			my ($table, $value) = @$_;

			if ($table eq 'snowflake_marks')
			{
				$below_mark++ if $value < $mark;
				$mark = $value;
				$marks++;
				push @handed_on, sort { $a <=> $b } grep { $_ < $mark } @kept;
				@kept = grep { $_ >= $mark } @kept;
			}
			else
			{
				$below_mark++ if $value < $mark;
				$below_last++ if $value < $greatest;
				$greatest = $value if $value > $greatest;
				push @kept, $value;
			}
		}
		cmp_ok($marks, '>', 2, "$plugin: $marks marks are in the stream");
		is($below_mark, 0, "$plugin: nothing that comes after a mark is below it");
		is(scalar(@kept), 0, "$plugin: the last mark is above all");
		all_are_read($node, $plugin, \@handed_on);
		cmp_ok($below_last, '>', 0, "$plugin: of the rows as they come, $below_last are below one that came before");
	}
}

done_testing();
