# What processors may do with the order of our steps, by herd7: what must not happen never
# does; and where a barrier is taken out, it sometimes does, or never does, as the file
# says.
#
#   litmus.pl [ROOT]
#
# A file of litmus/ has the steps of src as an architecture's instructions, and below them
# what must not happen.  A barrier is followed by what herd7 says without it: "else
# Sometimes", or "else Never" where that architecture needs none there.
#
# herd7 may be in another Debian, the directory ROOT, if this one has none; then this needs
# root.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use Test::More;
use Tool;

my $root = $ARGV[0] // '';
my $work = scratch("$root/tmp");

# What herd7 says of a text: Never, Sometimes or Always; else its output.
sub observe
{
	my ($text) = @_;
	my $file = "$work/test.litmus";

	open(my $out, '>', $file) or die "$file: $!";
	print $out $text;
	close($out) or die "$file: $!";
	my ($output) = output_of($root ? ('chroot', $root) : (), 'herd7', substr($file, length($root)));
	return $output =~ /^Observation \S+ (\w+)/m ? $1 : $output;
}

# Take out one barrier after the other.
sub look_at
{
	my ($name, $text) = @_;
	my $count = 0;

	is(observe($text), 'Never', "$name: what must not happen");
	while ($text =~ /([^;|\n]*?)\(\* else (\w+) \*\)/g)
	{
		my ($cell, $else, $from, $length) = ($1, $2, $-[1], $+[1] - $-[1]);
		my $line = 1 + (substr($text, 0, $from) =~ tr/\n//);
		my $without = $text;

		substr($without, $from, $length) = ' ' x $length;
		is(observe($without), $else, "$name, line $line: without " . join(' ', split ' ', $cell));
		$count++;
	}
	return ok($count, "$name: $count barriers");
}

for my $file (glob("$FindBin::RealBin/litmus/*.litmus"))
{
	local (@ARGV, $/) = ($file);
	look_at($file =~ m{([^/]+)\.litmus$}, scalar <>);
}
done_testing();
