# Messages.pm -- every message that the extension can say, and where the pages have it
#
# The messages are collected from src/ and sql/.  elog() is left out: it says what cannot
# happen.  doc/failures.md and doc/reference.md have each of them, in a block as psql shows it,
# or in an item of a list; test/t/045_messages.pl looks at that.  From the two comes the table of
# doc/messages.md, with the paragraphs where they meet:
#
#     perl -Itest/perl -MMessages -e Messages::write_page
#
# Needs the errcodes.txt of the pg_config in the path.

package Messages;

use strict;
use warnings;

use File::Basename qw(dirname);

use PageTable;
use States;

my $top = dirname(__FILE__) . '/../..';

# --- What the sources say: @messages, each with where it is, its text, which is a format, a
# --- pattern of what comes of that, and its SQLSTATE, if the source has it.  @unread has the
# --- places that are not understood.

our (@messages, @unread);

my $string = qr/"(?:[^"\\]|\\.)*"/;

# What takes a format of C: an error, its detail where the server gives the
# message, and where a reason is put together that is a part of a message.
my $call = qr/(?:\b(?:errmsg\w*|GUC_check_err(?:msg|detail))\s*\(
	|\bfail\(error,
	|\bregistry_fail\(\s*[^,]*,\s*\w+,
	|\breason\ =\s+(?=")
	|\[REGISTRY_\w+\]\ =\s\{"\w+",
	|\b(?:snprintf|strlcpy)\(\s*(?:error->message|(?:trouble->)?reason|evidence),)/x;

# A regular expression for what comes of a format, with a group for each value, or
# undef if it has no words of its own: the words are found where they are put in.
sub pattern_of
{
	my ($text) = @_;
	my $pattern = '';

	$text =~ s/\@extschema\@/%s/g;    # which CREATE EXTENSION replaces
	for my $piece (split(/(%%|%[-.*\d]*(?:ll|l|z)?[a-zA-Z])/, $text))
	{
		$pattern .=
			$piece eq '%%' ? '%'
		  : $piece =~ /^%.*[diu]$/ ? '(-?\d+)'
		  : $piece =~ /^%.*\*s$/ ? '(.*)'
		  : $piece =~ /^%/ ? '(.+)'
		  : quotemeta($piece);
	}
	return $text =~ s/%\S+//gr =~ /[a-z]/i ? $pattern : undef;
}

# The SQLSTATE of each condition, by its names in C and in PL/pgSQL.
sub condition_codes
{
	my ($sharedir) = (`pg_config --sharedir`) =~ /(.*)/;
	my %codes;

	for (split(/\n/, PageTable::text_of("$sharedir/errcodes.txt")))
	{
		my ($state, $macro, $name) = /^(\w{5})\s+[EWS]\s+(\w+)\s*(\w*)/ or next;
		$codes{$macro} = $state;
		$codes{$name} //= $state;
	}
	return %codes;
}

my %code_of = condition_codes();

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
my %source_of = map { /([^\/]*)$/ => PageTable::text_of($_) =~ s{/\*.*?\*/}{}gsr } glob("$top/src/*.[ch] $top/src/lease/*.[ch]");
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

my @scripts = glob("$top/sql/snowflake/*.sql $top/sql/*_*.sql");

for my $path (@scripts)
{
	my $source = PageTable::text_of($path) =~ s/^\s*--.*//gmr;
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

# --- What the pages say: texts, each with its SQLSTATE and its paragraph.  A block may leave
# --- the SQLSTATE out, as the server's log does; an item of a list may not in the reference.

our (@blocks, @cells, @cells_of_reference);

my $item = qr/^ *- (?:([0-9A-Z]{5}|log|notice|warning) )?((?:`[^`\n]+`(?:, )?)+)(?::|$)/m;

# The paragraphs of a page, each its heading and its text.
sub paragraphs_of
{
	my ($page) = @_;
	my @paragraphs = ([ '', '' ]);
	my $is_fenced = 0;

	for my $line (split(/^/, PageTable::text_of("$top/doc/$page.md")))
	{
		$is_fenced ^= $line =~ /^ *```/;
		push @paragraphs, [ $1, '' ] if !$is_fenced && $line =~ /^#+ (.*)/;
		$paragraphs[-1][1] .= $line;
	}
	return @paragraphs;
}

for (paragraphs_of('failures'))
{
	my ($heading, $text) = @$_;

	while ($text =~ /^```text\n(.*?)^```$/msg)
	{
		for (split(/\n/, $1))
		{
			push @blocks, { kind => $1, text => $3, state => $2, page => 'failures', heading => $heading } if /^([A-Z]+):  (?:(\w{5}): )?(.*)/;
		}
	}
	while ($text =~ /$item/g)
	{
		my ($state, $said) = ($1 // '', $2);
		push @cells, map { { text => $_, state => $state, page => 'failures', heading => $heading } } $said =~ /`([^`]+)`/g;
	}
}
for (paragraphs_of('reference'))
{
	my ($heading, $text) = @$_;

	while ($text =~ /$item/g)
	{
		my ($state, $said) = ($1, $2);
		push @cells_of_reference, map { { text => $_, state => $state =~ s/log|notice|warning//r, page => 'reference', heading => $heading } } $said =~ /`([^`]+)`/g
		  if defined $state;
	}
}

# Is it the message, alone or as the reason at the end of another?
sub is_said
{
	my ($message, $text) = @_;
	return $text =~ /(?:^|: )$message->{pattern}\.?$/;
}

# --- The table of doc/messages.md: a row for each message that the pages have, ours or, if
# --- failures.md shows it, PostgreSQL's.  "..." stands for what differs.

# The strings of the sources, of which some stand for a value.
my %is_literal = map { $_ => 1 } (map { /"([a-z][a-z0-9 ]+)"/g } values %source_of), (map { PageTable::text_of($_) =~ /'([a-z][a-z0-9 ]+)'/g } @scripts);

# The message that a text is, or that ends it: the one that begins first, and of several the one
# with the most words of its own, first in front of its values.  Returns it with what a match
# has: where it begins, and its values, each with where it begins and ends.
sub message_of
{
	my ($text) = @_;
	my @found;

	for my $message (@messages)
	{
		# values without words between them cannot be told apart
		my $pattern = $message->{pattern} =~ s/(\(\.\+\))+/(.+)/gr;

		next unless $text =~ /(?:^|: )($pattern\.?)$/;
		my ($start, @values) = ($-[1], map { [ $-[$_], $+[$_] ] } 2 .. $#+);
		push @found, { message => $message, start => $start, values => \@values, is_plain => $message->{where} =~ /plain/ ? 1 : 0,
			front => @values ? $values[0][0] : length($text), words => length($pattern =~ s/\(\.[*+]\)|\(-\?\\d\+\)//gr) };
	}
	return (sort { $a->{start} <=> $b->{start} || $b->{front} <=> $a->{front} || $a->{is_plain} <=> $b->{is_plain} || $b->{words} <=> $a->{words} } @found)[0];
}

# For each format, the words that the pages have for each of its values.
my %words_of;

for my $place (@blocks, @cells, @cells_of_reference)
{
	my $text = $place->{text};

	while (my $found = message_of($text))
	{
		my @values = map { substr($text, $_->[0], $_->[1] - $_->[0]) } @{ $found->{values} };

		$words_of{ $found->{message}{text} }[$_]{ $values[$_] } = 1 for grep { $is_literal{ $values[$_] } } 0 .. $#values;
		last unless @values;
		$text = $values[-1];
	}
}

# A text with "..." in place of its values, but for our files and settings, for a message
# that is one of its values, and for words if the pages have several in this place.
sub shown
{
	my ($text) = @_;
	my $found = message_of($text);

	return $text =~ s/"(?!snowflake\.)[^"]*"/"..."/gr unless $found;

	my ($shown, $at) = ('', $found->{start});
	for my $i (0 .. $#{ $found->{values} })
	{
		my ($from, $to) = @{ $found->{values}[$i] };
		my $value = substr($text, $from, $to - $from);
		my $has_own = $from > 0 && substr($text, $from - 1, 1) eq '"' ? $value =~ /^(?:snowflake(?:\.[\w.]+)?|global\/\d+)$/
		  : $is_literal{$value} && keys(%{ $words_of{ $found->{message}{text} }[$i] }) > 1;
		my $reason = $has_own ? undef : message_of($value);

		$shown .= substr($text, $at, $from - $at) . ($has_own ? $value : $reason && $reason->{start} == 0 ? shown($value) : '...');
		$at = $to;
	}
	my $rest = substr($text, $at);

	$rest =~ s/\.$// if $rest ne '.' && $found->{message}{text} !~ /\.$/;
	$rest = '' if $rest eq '.';
	return "$shown$rest" =~ s/\.\.\.(?: \.\.\.|\.\.\.\.)+/.../gr;
}

sub rows
{
	my %row;

	for my $place (@blocks, @cells, @cells_of_reference)
	{
		my $kind = $place->{kind} // '';
		my $found = message_of($place->{text});
		next if $kind eq 'HINT' || $kind eq 'DETAIL' && !$found;

		my $row = $row{ shown($place->{text}) } //= {};
		my $state = $place->{state} || ($found && $kind !~ /^(?:LOG|FATAL|DETAIL)$/ ? $found->{message}{state} : undef);
		my $anchor = lc($place->{heading}) =~ s/[^\w -]//gr =~ s/ /-/gr;
		my $name = $place->{heading} =~ s/^(snowflake_\w+),.*/$1 .../r;

		$row->{states}{$state} = 1 if $state && $state =~ /^\w{5}$/;
		$row->{links}{"[$name]($place->{page}.md#$anchor)"} //= keys %{ $row->{links} // {} };
	}
	return %row;
}

# For each row, the states of States.pm in which an INSERT says it.
sub states_of
{
	my @rows = @_;
	my %states;

	for my $state (grep { $_->{says} } @States::states)
	{
		my @found = sort { $a->{start} <=> $b->{start} || $b->{words} <=> $a->{words} }
		  map { my $pattern = States::pattern($_); $state->{says} =~ /(?:^|: )($pattern)$/ ? { row => $_, start => $-[1], words => length(s/\.\.\.//gr) } : () } @rows;

		push @{ $states{ $found[0]{row} } }, $state->{name} if @found;
	}
	return %states;
}

my $page = "$top/doc/messages.md";

sub table
{
	my %row = rows();
	my %place = map { $_ => lc($_) =~ s/^[^a-z]+//r } keys %row;
	my %states = states_of(keys %row);
	my @lines = ('| the message | SQLSTATE | what to do | [state](states.md) |', '|---|---|---|---|');

	for my $shown (sort { $place{$a} cmp $place{$b} || $a cmp $b } keys %row)
	{
		my ($states, $links) = @{ $row{$shown} }{ 'states', 'links' };

		push @lines, join(' ', '|', "`$shown`", '|', join(', ', sort keys %{ $states // {} }), '|', join(', ', sort { $links->{$a} <=> $links->{$b} } keys %$links),
			'|', join(', ', @{ $states{$shown} // [] }), '|') =~ s/  +/ /gr;
	}
	return join("\n", @lines) . "\n";
}

sub write_page { return PageTable::write_table($page, table()) }

1;
