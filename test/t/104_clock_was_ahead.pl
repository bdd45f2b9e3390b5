# "The clock was far ahead" of doc/failures.md, for readers of what is new: its steps lose no row
# and read none twice, here and by a mark that travels.  A reader that keeps its last id, which
# is of the wrong time, misses all new rows.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use SnowflakeTest;
use Test::More;

my $node = new_server('ahead', clock => 1, conf => "snowflake.shards = '5'\nsnowflake.clock_tolerance = 0");
my (%read, %last);

$node->safe_psql('postgres', q{CREATE TABLE events (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), name text NOT NULL);
	CREATE TABLE snowflake_marks (server text PRIMARY KEY, mark bigint NOT NULL, published_at timestamptz NOT NULL)});

sub insert_rows
{
	my ($name) = @_;

	$node->safe_psql('postgres', "INSERT INTO events (name) SELECT '$name ' || n FROM generate_series(1, 3) AS n; SELECT snowflake_wait_settled(max(id), '1 min') FROM events");
	$node->safe_psql('postgres', q{SELECT snowflake_publish_mark('here')});
	return;
}

# Each reader, with what it asks for besides.
sub poll
{
	my ($reader, $mark, $besides) = @_;
	my @rows = map { [ split(/\|/) ] } split(/\n/, $node->safe_psql('postgres',
		"SELECT id, name FROM events WHERE id > @{[ $last{$reader} // 0 ]} AND id < ($mark) $besides ORDER BY id"));

	push @{ $read{$reader} }, map { $_->[1] } @rows;
	$last{$reader} = $rows[-1][0] if @rows;
	return;
}

my %mark = (
	'by the mark' => 'SELECT snowflake_settled()',
	'by a mark that travels' => q{SELECT mark FROM snowflake_marks WHERE server = 'here'},
	'which keeps its last id' => 'SELECT snowflake_settled()');
my $besides = '';

sub poll_all
{
	poll($_, $mark{$_}, $_ =~ /keeps/ ? '' : $besides) for sort keys %mark;
	return;
}

insert_rows('before');
poll_all();
set_clock($node, 3600);
$node->safe_psql('postgres', 'SELECT count(*) FROM snowflake_check()');
is($node->safe_psql('postgres', q{SELECT horizon < clock_timestamp() - interval '30 min' FROM snowflake_horizon()}), 't', 'a look at the server does not renew its horizon by the wrong time');
insert_rows('of the wrong time');
set_clock($node, 0);
fails_with($node, q{INSERT INTO events (name) VALUES ('too early')}, '58000', qr/behind the last snowflake id/, 'the clock was far ahead');

# the steps of the page
poll_all();
is(join(', ', @{ $read{$_} }), 'before 1, before 2, before 3, of the wrong time 1, of the wrong time 2, of the wrong time 3', "$_: comes to the end") for sort keys %mark;
my $stopped = $node->safe_psql('postgres', 'SELECT snowflake_floor(clock_timestamp())');
$node->stop;
unlink $node->data_dir . "/$_" for 'snowflake.horizon', 'global/11111';
$node->append_conf('postgresql.conf', "snowflake.shards = '6'");
start_with_clock($node, 0);
my (undef, undef, $warning) = $node->psql('postgres', q{SELECT snowflake_publish_mark('here')});
like($warning, qr/WARNING:  the stored mark \d+ of server "here" is replaced/, 'the published mark is replaced');
$last{$_} = $stopped for grep { !/keeps/ } keys %mark;
$besides = 'AND snowflake_shard(id) <> 5';
insert_rows('after');
poll_all();

# until the last id has passed those of the wrong time
set_clock($node, 7200);
insert_rows('much later');
poll_all();
$besides = '';
insert_rows('at last');
poll_all();
my @names = map { my $when = $_; map { "$when $_" } 1 .. 3 } 'before', 'of the wrong time', 'after', 'much later', 'at last';
for my $reader (grep { !/keeps/ } sort keys %mark)
{
	is(join(', ', @{ $read{$reader} }), join(', ', @names), "$reader: each row once, in order of the statements");
}
is(join(', ', @{ $read{'which keeps its last id'} }), join(', ', grep { !/after/ } @names), 'a reader that keeps its last id misses what came after');

done_testing();
