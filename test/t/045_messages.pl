# Every message that the extension can say is in doc/failures.md or in
# doc/reference.md, with its SQLSTATE, in one of them alone, and has a test.
# test/perl/Messages.pm collects them from src/ and sql/, so that one that is added, or
# changed, is missed here.  What is in lists of the pages has to be a message of
# the sources, too.  doc/messages.md is the table of them all.
#
# Needs no server.
#
# Majors: one

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use Messages;
use PageTable;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $top = "$FindBin::RealBin/../..";

# --- The messages without a test, and why.

my %untested = (
	'could not generate random values' => 'the operating system has no randomness',
	'this server could not store its leases' => 'no test has a disk that refuses a first lease',);

# --- The pages have what the sources say.  A block may leave the SQLSTATE out, as the
# --- server's log does; an item of a list may not.

my @messages = @Messages::messages;
my @blocks = @Messages::blocks;
my @cells = @Messages::cells;
my @cells_of_reference = @Messages::cells_of_reference;

is_deeply(\@Messages::unread, [], 'the test understands all that is said');
cmp_ok(scalar(grep { $_->{where} eq 'mint.c' } @messages), '>', 5, 'there are messages of C');
cmp_ok(scalar(grep { $_->{where} =~ /sql$/ } @messages), '>', 40, 'there are messages of SQL');
cmp_ok(scalar(@cells_of_reference), '>', 40, 'the reference has messages of its functions');

sub is_among
{
	my ($message, @places) = @_;
	return grep {
		Messages::is_said($message, $_->{text})
		  && (!defined $message->{state} || !defined $_->{state} || $message->{state} eq $_->{state})
	} @places;
}

sub shown
{
	my ($message) = @_;
	return "$message->{where}: " . ($message->{state} // '-') . " $message->{text}\n";
}

is(join('', map { shown($_) } grep { !is_among($_, @blocks, @cells, @cells_of_reference) } @messages),
	'', 'every message is in doc/failures.md or in doc/reference.md');
my %is_in_failures = map { $_->{text} =~ s/"[^"]*"/"..."/gr => 1 } @blocks, @cells;
is_deeply([ grep { $is_in_failures{ s/"[^"]*"/"..."/gr } } map { $_->{text} } @cells_of_reference ], [], 'and not in both');
is_deeply(
	[ map { $_->{text} } grep { my $cell = $_; !grep { Messages::is_said($_, $cell->{text}) } @messages } @cells, @cells_of_reference ],
	[], 'a message in a list of the pages is one of the sources');

is(PageTable::with_table(page_text('doc/messages.md'), Messages::table()), page_text('doc/messages.md'), 'doc/messages.md has the table');

# --- What the tests bring about.  The blocks of the page are 043_failures.pl's.

my @expected = map { split(/ *\| */) } map { s/^[A-Z]+:  (?:[\w ]+: )?//r =~ s/^\s+|\s+$//gr }
  map { split(/\n/, slurp_file($_)) } glob("$top/expected/*.out");
my @patterns = map { s/\\//gr } grep { !/^\s*#/ }
  map { split(/\n/, slurp_file($_)) } grep { !/045_messages/ } glob("$top/test/t/*.pl");

sub is_tested
{
	my ($message) = @_;
	my $loosely = $message->{pattern} =~ s/-\?\\d\+/.+/gr;

	return (grep { Messages::is_said($message, $_) } @expected, map { $_->{text} } @blocks)
	  || (grep { /$loosely/ } @patterns);
}

is(join('', map { shown($_) } grep { !$untested{ $_->{text} } && !is_tested($_) } @messages),
	'', 'every message has a test');
is_deeply([ grep { my $text = $_; !grep { $_->{text} eq $text && !is_tested($_) } @messages } sort keys %untested ],
	[], 'what is listed as untested is');

done_testing();
