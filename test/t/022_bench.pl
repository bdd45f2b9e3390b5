# The figures in README.md are those of bench/results: its table, and the text
# beside them, are what the report makes of results.csv.  And the report
# computes what it says, from samples whose figures can be worked out by hand.

use strict;
use warnings;
use FindBin;

use PostgreSQL::Test::Utils;
use Test::More;

my $top = "$FindBin::RealBin/../..";
my $results = "$top/bench/results/results.csv";

sub report
{
	my (@arguments) = @_;
	my ($out, $err) = run_command([ 'perl', "$top/bench/report.pl", @arguments ]);

	is($err, '', "report.pl $arguments[0] has nothing to complain of");
	return $out;
}

# what comes through run_command has lost its last newline
sub text_of
{
	my ($path) = @_;
	return slurp_file($path) =~ s/\n\z//r;
}

is(report('readme', $results, "$top/README.md"),
	text_of("$top/README.md"), 'the table in README.md is that of results.csv');
is(report('text', $results), text_of("$top/bench/results/results.txt"), 'results.txt is made of results.csv');

my ($plot) = text_of("$top/README.md") =~ /\]\((bench\/results\/\w+\.svg)\)/;
ok($plot && slurp_file("$top/$plot") =~ /<svg/, 'the plot in README.md is there');

# --- a run of two rounds, made up
my $made_up = PostgreSQL::Test::Utils::tempdir() . '/results.csv';
append_to_file($made_up, "measurement,subject,at,round,value,unit\n" . <<'CSV');
machine,processor,,0,"a ""new"", fast one",
call,nothing,,1,100,ns
call,nothing,,2,1100,ns
call,snowflake,,1,120,ns
call,snowflake,,2,1140,ns
call,"nextval, CACHE 1",,1,220,ns
call,"nextval, CACHE 1",,2,1300,ns
backends,one shard,2,1,4096000,ids/s
backends,one shard,2,2,2048000,ids/s
CSV
my $text = report('text', $made_up);

like($text, qr/^processor +a "new", fast one$/m, 'facts with commas and quotes are read');
like($text, qr/^snowflake +30\.0 +25\.0 - 35\.0 +2$/m, 'a cost is a difference within a round');
like($text, qr/^ 1  a call of snowflake \/ nextval, CACHE 1 +<= 0\.167 +0\.183  times +0\.175 - 0\.192  no$/m,
	'a ratio is one within a round, and a target that is missed is told');
like($text, qr/^ 2  one shard, 2 backends +>= 0\.98 +0\.750 .* no$/m, 'a target from above, missed');

done_testing();
