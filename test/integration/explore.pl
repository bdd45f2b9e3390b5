# doc/explore.html, in a browser: Debian's chromium, without a window.  It takes ids
# apart as the server does: doc/vectors.csv, and thousands of random ids in random
# layouts, good and bad, with the words of the server's errors.  It mints as the server
# does: it plays a recorded run of one, whose clock is moved by hand, with sessions,
# shards that are exhausted, spills, waits, and a clock set back.  Each scene is played
# to its end.  And the page can be used: at 360 px, by keyboard, in the dark.
#
# The browser gets the page with a script at its end, which tests it from within and
# writes what it found into the page.
#
# Majors: one
# Packages: chromium-headless-shell

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use JSON::PP;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my ($browser) = grep { -x } map { my $name = $_; map { "$_/$name" } split(/:/, $ENV{PATH}) } qw(chromium-headless-shell chromium google-chrome);
plan skip_all => 'there is no chromium' unless $browser;

my $top = "$FindBin::RealBin/../..";
my $page = slurp_file("$top/doc/explore.html");
my $directory = PostgreSQL::Test::Utils::tempdir();
my $QUESTIONS = 10_000;
my $OPERATIONS = 400;
my $seed = $ENV{SNOWFLAKE_EXPLORE_SEED} // int(rand(1 << 30));

note("SNOWFLAKE_EXPLORE_SEED=$seed");
srand($seed);

# --- It is one file, and loads nothing

cmp_ok(length($page), '<', 150_000, 'it has less than 150 kB');
unlike($page =~ s{http://www\.w3\.org/2000/svg}{}r, qr{\w+://|url\(|\@import|\bimport\s*\(|fetch\(|XMLHttp|<link[^>]*href="(?!data:,)|\bsrc=}, 'it loads nothing');
like($page, qr/default-src 'none'/, 'and may not');
ok((grep { !/^#/ && -e "$top/doc/" . s/#.*//r } $page =~ /href="([^"#\$]+)"/g), 'its link leads somewhere');
ok(index(page_text($_), "explore.html") >= 0, "$_ leads to it") for "README.md", "doc/README.md", "test/demo.sh";

# --- Questions, and the server's answers

my $node = new_server('explore', clock => 1, conf => <<'CONF');
timezone = 'UTC'
snowflake.layout = 'epoch=2024-01-01 unit=100ms fields=timestamp:40,shard:4,sequence:2'
snowflake.shards = '5-7'
snowflake.reserve = '60s'
CONF

sub any { return $_[ rand @_ ]; }

sub random_id
{
	my $bits = int(rand(65));
	my $number = $bits ? ((int(rand(2**32)) << 32) | int(rand(2**32))) >> (64 - $bits) : 0;
	return '' . unpack('q', pack('Q', $number));
}

# Mostly good; else with something wrong somewhere
sub random_layout
{
	my @names = sort { rand() <=> 0.5 } qw(shard datacenter worker process machine node);
	my @fields = ('timestamp:' . (20 + int(rand(30))), any([ 'sequence', $names[0] ], [ $names[0], 'sequence' ],
		[ @names[ 0, 1 ], 'sequence' ], [ 'sequence', @names[ 0, 1 ] ], ['sequence'], [ $names[0] ])->@*);
	my $epoch = any('0', int(1e11 + rand(3e12)), '2024-01-01', '1970-01-01T00:00:00Z', sprintf('%04d-%02d-%02dT%02d:%02d:%02d.%dZ',
			rand(9999), 1 + rand(12), 1 + rand(28), rand(24), rand(60), rand(60), rand(1e6)));
	my $text = join(any(' ', '  '), "epoch=$epoch", 'unit=' . any('1ms', '10ms', '1s', '1us', int(1 + rand(99999)) . any('us', 'ms')),
		'fields=' . join(',', map { /:/ ? $_ : $_ . ':' . int(1 + rand(16)) } @fields));
	return $text if rand() < 0.8;
	my $at = rand(length($text));
	return any(substr($text, 0, $at), substr($text, $at), substr($text, 0, $at) . any(',', '=', ' ', ':', '9', 'x', '"', "\t", "\x{e9}") . substr($text, $at),
		$text . any(' epoch=0', ' unit=1ms', ' x=y', ',node:3', ',sequence:1', ',', 'Z'), $text =~ s/timestamp:\d+/timestamp:63/r, 'twittr', '');
}

my (undef, @vectors) = map { [ split(/,/) ] } split(/\n/, slurp_file("$top/doc/vectors.csv"));
my @presets = split(/\n/, $node->safe_psql('postgres', 'SELECT name FROM snowflake_layouts'));
my @questions = map { { layout => $_->[0], id => $_->[1], time => $_->[2] } } @vectors;

push @questions,
  {
	layout => rand() < 0.3 ? any(@presets) : random_layout(),
	id => random_id(),
	time => sprintf('%04d-%02d-%02dT%02d:%02d:%02d.%06dZ', any(1 + rand(9998), 2000 + rand(60)), 1 + rand(12), 1 + rand(28), rand(24), rand(60), rand(60), rand(1e6))
  }
  while @questions < $QUESTIONS;

my $json = JSON::PP->new->utf8->canonical;
@questions = map { $json->encode($_) } @questions;
append_to_file("$directory/questions", join('', map { "$_\n" } @questions));
my $answers = $node->safe_psql('postgres', <<"SQL");
CREATE FUNCTION answer(question jsonb) RETURNS jsonb LANGUAGE plpgsql AS \$\$
DECLARE
	id bigint := question ->> 'id';
	layout text := question ->> 'layout';
	at timestamptz := question ->> 'time';
	answer jsonb := jsonb_build_object('base32', snowflake_to_base32(id), 'base58', snowflake_to_base58(id), 'base62', snowflake_to_base62(id));
BEGIN
	answer := answer || jsonb_build_object('fields', (SELECT jsonb_agg(array[field, bits::text, shift::text, value::text, meaning]) FROM snowflake_fields(id, layout)));
	BEGIN
		RETURN answer || jsonb_build_object('floor', snowflake_floor(at, layout)::text, 'ceil', snowflake_ceil(at, layout)::text);
	EXCEPTION WHEN datetime_field_overflow THEN
		RETURN answer || jsonb_build_object('floor', sqlerrm);
	END;
EXCEPTION WHEN invalid_parameter_value THEN
	RETURN jsonb_build_object('invalid', sqlerrm);
END \$\$;
CREATE TABLE questions (line serial, question text);
\\copy questions (question) FROM '$directory/questions' CSV QUOTE E'\\x01' DELIMITER E'\\x02'
SELECT answer(question::jsonb) FROM questions ORDER BY line;
SQL
my @answers = split(/\n/, $answers);
is(scalar(@answers), $QUESTIONS, 'the server has answered');
my $invalid = grep { /^\{"invalid"/ } @answers;
cmp_ok($invalid, '>', $QUESTIONS / 50, "in some layouts there is something wrong: $invalid");
cmp_ok($invalid, '<', $QUESTIONS / 2, 'and in most nothing');

# --- A recorded run: a clock that stands still but for us, in the middle of a tick

sub freeze_clock
{
	my ($tick) = @_;

	return replace_file($node->basedir . '/clock', sprintf("@%d.%d5\n", 1_894_456_000 + int($tick / 10), $tick % 10));
}

sub open_session
{
	my %session = (in => '', out => '', err => '', asked => 0);

	$session{run} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres') ], '<', \$session{in}, '>', \$session{out},
		'2>', \$session{err}, IPC::Run::timeout(3 * $PostgreSQL::Test::Utils::timeout_default));
	ask(\%session, 'SET snowflake.clock_tolerance = 0; SELECT pg_backend_pid()');
	$session{pid} = answer_of(\%session);
	return \%session;
}

sub ask
{
	my ($session, $sql) = @_;

	$session->{$_} = '' for qw(out err);
	$session->{in} .= "\\warn\n$sql;\n\\echo done\n";
	return;
}

sub is_done
{
	my ($session) = @_;
	IPC::Run::pump_nb($session->{run});
	return $session->{out} =~ /^done$/m;
}

sub answer_of
{
	my ($session) = @_;
	IPC::Run::pump($session->{run}) until $session->{out} =~ /^done$/m;
	return $session->{out} =~ /^(\d+)\n/m ? $1 : $session->{err} =~ /clock is .* behind/ ? 'clock' : die $session->{err};
}

my %session = map { $_ => open_session() } qw(A B C);
my $watcher = open_session();
my $BASE = 1_000_000 + 1_893_456_000 - 1_704_067_200;    # seconds of the layout at tick 0 of the run
my ($tick, @run) = (0);

sub move_clock
{
	$tick = $_[0];
	freeze_clock($tick);
	push @run, { clock => $tick };
	return;
}

# It has minted, has failed, or waits: then so it does until the clock moves.
sub mint
{
	my ($who, $shard) = @_;
	my $one = $session{$who};

	ask($one, 'SELECT snowflake_nextval(' . ($shard // '') . ')');
	wait_for(
		sub {
			return 1 if is_done($one);
			ask($watcher, "SELECT count(*) FROM pg_stat_activity WHERE pid = $one->{pid} AND state = 'active' AND wait_event_type = 'Extension'");
			return answer_of($watcher) == 1 && !is_done($one);
		}) or die 'it neither mints nor waits';
	my %op = (who => $who, shard => $shard);
	if (!is_done($one))
	{
		push @run, { %op, waits => 'exhausted' };
		move_clock($tick + 1);
	}
	my $answer = answer_of($one);
	push @run, $answer eq 'clock' ? { %op, waits => 'clock' } : { %op, id => $answer };
	return;
}

# the first id of the new time waits for the horizon, and is not recorded
freeze_clock(0);
$node->safe_psql('postgres', 'SELECT snowflake_nextval()');
move_clock(1);
for (1 .. $OPERATIONS)
{
	my $what = rand();
	my $most = (sort { $b <=> $a } map { $_->{clock} // 0 } @run)[0];
	if ($what < 0.80) { mint(any('A' .. 'C'), rand() < 0.1 ? 5 + int(rand(3)) : undef) }
	elsif ($what < 0.95) { move_clock($most + any(0, 1, 1, 2)) if $most < 250 }
	else { move_clock($tick - 1 - int(rand(3))) if $tick > 3 }
}
move_clock(300);
mint($_) for 'A' .. 'C';
IPC::Run::finish($_->{run}) for map { $_->{in} .= "\\q\n"; $_ } values %session, $watcher;
my %seen = map { ($_->{waits} // 'id') => 1 } @run;
is_deeply([ sort keys %seen ], [qw(clock exhausted id)], 'a run of a server is recorded, which has minted and waited for both reasons');
cmp_ok(scalar(grep { $_->{id} && (($_->{id} >> 2) & 15) > 5 } @run), '>', 10, 'and has spilled');
set_clock($node, 0);    # with a clock that stands still a server does not stop
$node->stop;

# --- The page is asked the same

my $TEST = slurp_file("$FindBin::RealBin/explore.js");

# What the script in the page found, with the window so wide
sub in_browser
{
	my ($width, %options) = @_;
	my $what = sprintf('{ questions: [%s], answers: [%s], run: %s, base: %d }', join(',', @{ $options{questions} // [] }),
		join(',', @{ $options{answers} // [] }), $json->encode($options{run} // []), $BASE * 10);
	my ($out, $err) = ('', '');
	my $file = "$directory/page$width" . ($options{name} // '') . '.html';

	$what =~ s/</\\u003c/g;
	append_to_file($file, $page =~ s{</body>}{<script>const GIVEN = $what;\n$TEST</script></body>}r);
	my @command = ($browser, '--headless', '--no-sandbox', '--disable-gpu', "--user-data-dir=$directory/profile", '--hide-scrollbars', "--window-size=$width,900",
		'--virtual-time-budget=600000', ($options{dark} ? '--blink-settings=preferredColorScheme=0' : '--blink-settings=preferredColorScheme=1'));
	my $hash = $options{hash} // '';
	IPC::Run::run([ @command, '--dump-dom', "file://$file$hash" ], '>', \$out, '2>', \$err, IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	my ($found) = $out =~ m{<script type="application/json" id="found">(.*?)</script>}s;
	BAIL_OUT("the browser did not come to the end: $err") unless $found;
	return $json->decode(Encode::encode_utf8(Encode::decode_utf8($found)));
}

require Encode;
my $found = in_browser(360, questions => \@questions, answers => \@answers, run => \@run);

is($found->{error}, undef, 'nothing is thrown');
is($found->{asked}, $QUESTIONS, 'the page is asked all questions');
is($json->encode($found->{wrong}), '[]', 'and answers as the server');
is($json->encode($found->{run}), '[]', 'the page mints and waits as the server did');
cmp_ok($found->{played}, '>', $OPERATIONS, 'in the whole run');
is_deeply([ map { "$_->{key}: $_->{twice} twice, $_->{shown} of $_->{steps}" } @{ $found->{scenes} } ],
	[ map { "$_->{key}: 0 twice, $_->{steps} of $_->{steps}" } @{ $found->{scenes} } ], 'each scene plays to its end, and no id comes twice');
cmp_ok(scalar(@{ $found->{scenes} }), '>=', 6, 'all scenes');
like($found->{last_step}, qr/By the last id, 1 of 3 rows was never read\. By the mark, all 3/, 'the reader without the mark misses a row');
is($json->encode($found->{unnamed}), '[]', 'all that can be pressed or filled has a name');
is($json->encode($found->{keys}), '["bit 62","bit 46","turned","back"]', 'bits are reached and turned over by keys');
is($found->{copied}, JSON::PP::true, 'what is to be copied is SQL with the id');
is($found->{moved}, 'epoch=2015-01-01T00:00:00Z unit=1ms fields=timestamp:41,worker:6,process:5,sequence:12', 'a bit moves from one field to another');
is($json->encode($found->{bad}), '["Not read: the number has more than 64 bits.","Not read: unknown field \"x\"."]', 'what cannot be read is said');
is($found->{too_wide}, 0, 'at 360 px nothing is cut off');
is($found->{hidden}, 0, 'and a layout is shown whole');

my $dark = in_browser(1000, dark => 1, name => 'dark', hash => '#id=1541815603606036480&layout=twitter&scene=crash');
is($dark->{begins}{id}, '1541815603606036480', 'the address has the id');
is($dark->{begins}{preset}, 'twitter', 'and the layout');
is($dark->{begins}{scene}, 'crash', 'and the scene');
is($dark->{begins}{hash}, '#id=1541815603606036480&layout=twitter&scene=crash', 'and keeps them');
ok($dark->{background} ne $found->{background}, 'it is dark where one wants it dark');
cmp_ok($_->{least_contrast}, '>=', 4.5, 'and can be read: contrast') for $found, $dark;

done_testing();
