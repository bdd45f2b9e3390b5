# Every message that the extension can say is in doc/failures.md or in
# doc/reference.md, with its SQLSTATE, in one of them alone, and has a test.  The
# messages are collected from src/ and sql/, so that one that is added, or
# changed, is missed here.  What is in lists of the pages has to be a message of
# the sources, too.
#
# Needs no server.  elog() is left out: it says what cannot happen.
#
# Majors: one

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $top = "$FindBin::RealBin/../..";

# --- The messages without a test, and why.

my %untested = (
	'could not generate random values' => 'the operating system has no randomness',);

# --- What the sources say

my $string = qr/"(?:[^"\\]|\\.)*"/;

# What takes a format of C: an error, its detail where the server gives the
# message, and where a reason is put together that is a part of a message.
my $call = qr/\b(?:(?:errmsg\w*|GUC_check_err(?:msg|detail))\s*\(
	|\bfail\(error,
	|registry_fail\(\s*[^,]*,\s*\w+,
	|\breason\ =\s+(?=")
	|(?:snprintf|strlcpy)\(\s*(?:error->message|(?:trouble->)?reason|evidence),)/x;

# A regular expression for what comes of a format, or undef if it has no words
# of its own: the words are found where they are put in.
sub pattern_of
{
	my ($text) = @_;
	my $pattern = '';

	$text =~ s/\@extschema\@/%s/g;    # which CREATE EXTENSION replaces
	for my $piece (split(/(%%|%[-.*\d]*(?:ll|l|z)?[a-zA-Z])/, $text))
	{
		$pattern .=
			$piece eq '%%' ? '%'
		  : $piece =~ /^%.*[diu]$/ ? '-?\d+'
		  : $piece =~ /^%.*\*s$/ ? '.*'
		  : $piece =~ /^%/ ? '.+'
		  : quotemeta($piece);
	}
	return $text =~ s/%\S+//gr =~ /[a-z]/i ? $pattern : undef;
}

# The SQLSTATE of each condition, by its names in C and in PL/pgSQL.
sub condition_codes
{
	my ($sharedir) = (`pg_config --sharedir`) =~ /(.*)/;
	my %codes;

	for (split(/\n/, slurp_file("$sharedir/errcodes.txt")))
	{
		my ($state, $macro, $name) = /^(\w{5})\s+[EWS]\s+(\w+)\s*(\w*)/ or next;
		$codes{$macro} = $state;
		$codes{$name} //= $state;
	}
	return %codes;
}

my %code_of = condition_codes();
my (@messages, @unread);

# Note a message of a source.
sub note_message
{
	my ($where, $text, $condition) = @_;
	my $pattern = pattern_of($text);

	push @messages, { where => $where, text => $text, pattern => $pattern,
		state => defined $condition ? $code_of{$condition} // "unknown $condition" : undef }
	  if defined $pattern;
	return;
}

# Macros for strings stand for the strings.
my %source_of = map { /([^\/]*)$/ => slurp_file($_) =~ s{/\*.*?\*/}{}gsr } glob("$top/src/*.[ch] $top/src/lease/*.[ch]");
my %macros = (
	INT64_FORMAT => '"%d"',
	UINT64_FORMAT => '"%u"',
	map { /^#define (\w+) ($string)$/mg } values %source_of);

for my $name (sort keys %source_of)
{
	my $source = $source_of{$name} =~ s/\b([A-Z]\w*)\b/$macros{$1} \/\/ $1/ger;

	while ($source =~ /(?:errcode\((\w+)\),\s*)?($call)/g)
	{
		my ($condition, $at) = ($1, $-[2]);

		if ($source =~ /\G\s*(?:size,|sizeof\([^()]*\),)?\s*((?:$string\s*)+)[,);]/gc)
		{
			note_message($name, join('', map { s/\\(.)/$1/gr } $1 =~ /"((?:[^"\\]|\\.)*)"/g), $condition);
		}
		# what is handed on was noted where it was put together
		elsif ($source !~ /\G\s*error->message,/gc)
		{
			push @unread, "$name: " . substr($source, $at, 60);
		}
	}
}

for my $path (glob("$top/sql/snowflake/*.sql $top/sql/*_*.sql"))
{
	my $source = slurp_file($path) =~ s/^\s*--.*//gmr;
	my ($name) = $path =~ /([^\/]*)$/;

	while ($source =~ /\bRAISE\s+([^;]*?)\s*(?=\s|;)/g)
	{
		my ($condition) = ($1);

		if ($source =~ /\G\s*USING\s+MESSAGE = \(?(?:\s*SELECT )?(?:(?:pg_catalog\.)?format\()?'((?:[^']|'')*)'/gc)
		{
			# the reasons of a layout are C's, too, and stand in its table
			my $text = $1 =~ s/''/'/gr;
			$condition = 'NOTICE' if $text =~ s/^invalid layout: (?=.*[a-z])//;
			note_message($name, $text, (grep { $condition eq $_ } 'NOTICE', 'LOG', 'WARNING') ? undef : $condition);
		}
		# the server's own, or a way out of a block
		elsif ($source !~ /\G\s*USING\s+MESSAGE = message\b/gc && $condition ne 'SQLSTATE')
		{
			push @unread, "$name: RAISE " . substr($source, $-[1], 60);
		}
	}
}

is_deeply(\@unread, [], 'the test understands all that is said');
cmp_ok(scalar(grep { $_->{where} eq 'mint.c' } @messages), '>', 5, 'there are messages of C');
cmp_ok(scalar(grep { $_->{where} =~ /sql$/ } @messages), '>', 40, 'there are messages of SQL');

# --- What the page says: texts, with the SQLSTATE.  A block may leave it out, as
# --- the server's log does; an item of a list may not.

# Is it the message, alone or as the reason at the end of another?
sub is_said
{
	my ($message, $text) = @_;
	return $text =~ /(?:^|: )$message->{pattern}\.?$/;
}

my $page = page_text('doc/failures.md');
my (@blocks, @cells, @cells_of_reference);

for my $block (map { $_->[1] } grep { $_->[0] eq 'text' } fenced_blocks($page))
{
	for (split(/\n/, $block))
	{
		push @blocks, { text => $3, state => $2 } if /^([A-Z]+):  (?:(\w{5}): )?(.*)/;
	}
}
my $item = qr/^ *- (?:([0-9A-Z]{5}|notice|warning) )?((?:`[^`\n]+`(?:, )?)+)(?::|$)/m;

while ($page =~ /$item/g)
{
	my ($state, $said) = ($1 // '', $2);
	push @cells, map { { text => $_, state => $state } } $said =~ /`([^`]+)`/g;
}
my $reference = page_text('doc/reference.md');
while ($reference =~ /$item/g)
{
	my ($state, $said) = ($1, $2);
	push @cells_of_reference, map { { text => $_, state => $state =~ s/notice|warning//r } } $said =~ /`([^`]+)`/g if defined $state;
}
cmp_ok(scalar(@cells_of_reference), '>', 40, 'the reference has messages of its functions');

sub is_among
{
	my ($message, @places) = @_;
	return grep {
		is_said($message, $_->{text})
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
	[ map { $_->{text} } grep { my $cell = $_; !grep { is_said($_, $cell->{text}) } @messages } @cells, @cells_of_reference ],
	[], 'a message in a list of the pages is one of the sources');

# --- What the tests bring about.  The blocks of the page are 043_failures.pl's.

my @expected = map { split(/ *\| */) } map { s/^[A-Z]+:  (?:[\w ]+: )?//r =~ s/^\s+|\s+$//gr }
  map { split(/\n/, slurp_file($_)) } glob("$top/expected/*.out");
my @patterns = map { s/\\//gr } grep { !/^\s*#/ }
  map { split(/\n/, slurp_file($_)) } grep { !/045_messages/ } glob("$top/test/t/*.pl");

sub is_tested
{
	my ($message) = @_;
	my $loosely = $message->{pattern} =~ s/-\?\\d\+/.+/gr;

	return (grep { is_said($message, $_) } @expected, map { $_->{text} } @blocks)
	  || (grep { /$loosely/ } @patterns);
}

is(join('', map { shown($_) } grep { !$untested{ $_->{text} } && !is_tested($_) } @messages),
	'', 'every message has a test');
is_deeply([ grep { my $text = $_; !grep { $_->{text} eq $text && !is_tested($_) } @messages } sort keys %untested ],
	[], 'what is listed as untested is');

done_testing();
