# The pages whose SQL needs nothing but a server do what they say: it runs in
# order, what they show is what comes out, and where they tell to change the
# configuration, it is changed.  Every page is run by some test, is in the
# index, and leads to where there is something.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $top = "$FindBin::RealBin/../..";

for my $page ('reference', 'pagination', 'partitions', 'sharding', 'migration', 'monitoring', 'audit', 'security', 'capacity', 'identity')
{
	my $text = page_text("doc/$page.md");
	my $node = new_server($page, conf => "timezone = 'UTC'");

	cmp_ok(scalar(fenced_blocks($text)), '>', 3, "$page has examples");
	page_runs($node, $page, $text);
	$node->stop;
}

# --- every page with SQL is named by a test, which runs it
my @pages = map { s/.*\///r } glob("$top/doc/*.md");
my $tests = join('', map { slurp_file($_) } glob("$top/test/{t,cluster,perl}/*.p[lm]"));

for my $page (@pages)
{
	my ($name) = $page =~ /(.*)\.md/;

	ok($tests =~ /doc\/\Q$page\E|'\Q$name\E'/, "$page is run by a test")
	  if grep { $_->[0] eq 'sql' } fenced_blocks(page_text("doc/$page"));
}

# --- the index has them all, and every link leads somewhere
sub anchors_of
{
	my ($text) = @_;
	my %anchors;

	$text =~ s/^( *)```.*?^\1```$//msg;
	$anchors{ lc($_) =~ s/[^\w -]//gr =~ s/ /-/gr } = 1 for $text =~ /^#+ (.*)/mg;
	return \%anchors;
}

my $index = page_text('doc/README.md');
is_deeply([ grep { $_ ne 'README.md' && $index !~ /\]\(\Q$_\E\)/ } @pages ], [], 'the index has all pages');

for my $path ('README.md', map { "doc/$_" } @pages)
{
	my ($folder) = $path =~ /^(.*\/)?/;
	my $text = page_text($path);
	my @dead;

	$text =~ s/^( *)```.*?^\1```$//msg;
	for my $link ($text =~ /\]\(([^)]+)\)/g)
	{
		next if $link =~ /^https?:/;
		my ($file, $anchor) = $link =~ /^([^#]*)#?(.*)/;
		my $to = $file eq '' ? $path : ($folder // '') . $file;

		push @dead, $link
		  unless -e "$top/$to" && ($anchor eq '' || anchors_of(page_text($to))->{$anchor});
	}
	is("@dead", '', "the links of $path lead somewhere");
}

done_testing();
