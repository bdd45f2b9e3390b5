# The pages whose SQL needs nothing but a server do what they say: it runs in
# order, what they show is what comes out, and where they tell to change the
# configuration, it is changed.  Every page is run by some test, is in the
# index, and leads to where there is something.
#
# Takes: long

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $top = "$FindBin::RealBin/../..";

for my $page ('choosing', 'reference', 'pagination', 'partitions', 'sharding', 'migration', 'monitoring', 'audit', 'security', 'capacity', 'servers', 'clients', 'events')
{
	# what names its servers is ManyServers.pm's, and rows with keys are 054_rekey.pl's
	my $text = page_text("doc/$page.md") =~ s/^```sql\n-- on .*?^```\n//msgr =~ s/^## Rows with numbers\n.*//msr;
	my $node = new_server($page, conf => "timezone = 'UTC'\n" . ($page eq 'audit' ? "snowflake.shards = '8'" : ''));

	cmp_ok(scalar(fenced_blocks($text)), '>', 1, "$page has examples");
	$node->safe_psql('postgres', slurp_file("$top/doc/expected_waits.sql")) if $page eq 'capacity';
	page_runs($node, $page, $text);
	$node->stop;
}

# --- every page with SQL is named by a test, which runs it
my @pages = map { s/.*\///r } glob("$top/doc/*.md");
my $tests = join('', map { slurp_file($_) } glob("$top/test/{t,integration,stacks,perl}/*.p[lm]"));

for my $page (@pages)
{
	my ($name) = $page =~ /(.*)\.md/;

	ok($tests =~ /doc\/\Q$page\E|'\Q$name\E'/, "$page is run by a test")
	  if grep { $_->[0] eq 'sql' } fenced_blocks(page_text("doc/$page"));
}

# --- the pictures can be read without eyes, in the dark and on a telephone, need
# --- nothing from elsewhere, and the one of an id shows the bits of that id
my @pictures = glob("$top/doc/images/*.svg");

for my $picture (@pictures)
{
	my $svg = slurp_file($picture);
	my $name = $picture =~ s/.*\///r;

	like($svg, qr/<title[^>]*>\w.*<desc[^>]*>\w.*\@media \(prefers-color-scheme: dark\)/s, "$name has a title, a description and a dark mode");
	cmp_ok(($svg =~ /viewBox="0 0 (\d+)/)[0], '<=', 420, "$name fits on a telephone");
	cmp_ok((sort { $a <=> $b } $svg =~ /font-size: ([0-9.]+)px/g)[0], '>=', 12, 'and can be read there');
	$svg =~ s/ xmlns="[^"]*"//;
	unlike($svg, qr/https?:|url\(|\@import|href/, "$name needs nothing from elsewhere");
	ok((grep { index(page_text("doc/$_"), "](images/$name)") >= 0 } @pages), "$name is on a page");
}
is(join('', slurp_file("$top/doc/images/id_bits.svg") =~ /class="bits"[^>]*>([01]+)</g),
	sprintf('%064b', 1541815603606036480), 'the picture of an id shows its bits');

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
