# Mutants.pm -- small mistakes, made at random, line by line
#
# A mutant is one change of one line, of two lines that change places, or of what a line
# begins.  It is made from the text, without a parser, and never in a comment or in a text
# that people read.  SQL that stands in a string, to be executed, is code.
#
# Each operator is given a line as it is, and the same line with all that is no code blotted
# out, character for character.  It finds places in the second one, and gives pieces:
# [ offset, length, instead ].

package Mutants;

use strict;
use warnings;

use Digest::MD5 qw(md5_hex);
use Exporter 'import';

our @EXPORT = qw(mutants_of mutated normal);

my $BLOT = "\x01";

# --- What is code ------------------------------------------------------------

sub blotted { return $_[0] =~ s/[^\n]/$BLOT/gr }

sub blotted_string { my ($quoted) = @_; return substr($quoted, 0, 1) . blotted(substr($quoted, 1, -1)) . substr($quoted, -1) }

sub code_of_c
{
	my ($text) = @_;

	$text =~ s{(/\*.*?\*/)|("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+')}{defined $1 ? $1 =~ s/[^\n]/ /gr : blotted_string($2)}gse;
	return $text;
}

# A string of SQL, and what is before it.
sub is_executed
{
	my ($string, $before) = @_;
	my ($line) = $before =~ /([^\n]*)\z/;

	return $string =~ /\b(?:SELECT|FROM|WHERE|AND|UPDATE|INSERT|DELETE|SET|CASE|WHEN|JOIN|LOCK|CONFLICT)\b/
	  && $line !~ /\b(?:MESSAGE|DETAIL|HINT)\s*=|\bCOMMENT ON\b|\bIS\s*\z/;
}

sub code_of_sql
{
	my ($text) = @_;
	my $code = '';

	while ($text =~ /\G(?:(--[^\n]*|\/\*.*?\*\/)|('(?:[^']|'')*')|("[^"]*")|([^-\/'"]+|.))/gs)
	{
		my ($comment, $string, $name, $rest) = ($1, $2, $3, $4);
		if (defined $comment) { $code .= $comment =~ s/[^\n]/ /gr }
		elsif (defined $name) { $code .= blotted($name) }
		elsif (defined $rest) { $code .= $rest }
		elsif (is_executed($string, $code))
		{
			$code .= "'" . substr($string, 1, -1) =~ s/(''.*?'')/blotted($1)/gser . "'";
		}
		else { $code .= blotted($string) }
	}
	return $code;
}

# --- Operands ------------------------------------------------------------------

# Where an operand ends that begins at an offset of a line of code: before a word that ends
# it, or a bracket that it has not opened.  Undefined: on another line.
sub end_of_operand
{
	my ($code, $at, $ends, $may_end_line) = @_;
	my $depth = 0;

	for (pos($code) = $at; pos($code) < length $code;)
	{
		if ($code =~ /\G[(\[]/gc) { $depth++ }
		elsif ($code =~ /\G(?=[)\]])/gc) { return pos($code) if !$depth--; $code =~ /\G./gc }
		elsif ($code =~ /\GBETWEEN\b.*?\bAND\b/gc) { }
		elsif (!$depth && $code =~ /\G(?=\s*(?:$ends))/gc) { return pos($code) }
		else { $code =~ /\G(?:\w+|.)/gc }
	}
	return !$depth && $may_end_line ? length($code) : undef;
}

# Where an operand begins that ends at an offset.
sub begin_of_operand
{
	my ($code, $at, $begins) = @_;
	my $depth = 0;
	my $from = $at;

	while ($from > 0)
	{
		my $before = substr($code, 0, $from);
		last if !$depth && substr($code, $from, 1) ne '=' && $before =~ /(?:$begins)\s*\z/;
		my $char = substr($code, $from - 1, 1);
		$depth++ if $char =~ /[)\]]/;
		last if $char =~ /[(\[]/ && !$depth--;
		$from--;
	}
	return $depth > 0 ? undef : $from;
}

# --- Operators: C --------------------------------------------------------------

# Each place of a pattern, with what takes the place of it.
sub places
{
	my ($code, $pattern, $instead) = @_;
	my @found;

	while ($code =~ /$pattern/g)
	{
		my $new = ref $instead eq 'HASH' ? $instead->{$1} : $instead;
		push @found, [ $-[1], length $1, $new ] if defined $new;
	}
	return @found;
}

my %OTHER = ('<' => '<=', '<=' => '<', '>' => '>=', '>=' => '>', '==' => '!=', '!=' => '==');
my %UNIT = (US_PER_MS => 'USECS_PER_SEC', USECS_PER_SEC => 'US_PER_MS', ' * US_PER_MS' => '', ' / US_PER_MS' => '', ' * USECS_PER_SEC' => '');
my $C_BEGINS = '&&|\|\||[?:]|(?<![=!<>])=|\breturn\b';
my $C_ENDS = '&&|\|\||[?:;,]';

sub conditions_of_c
{
	my ($code) = @_;
	my @found;

	while ($code =~ /(&&|\|\|)/g)
	{
		my ($begin, $end, $neutral) = ($-[1], $+[1], $1 eq '&&' ? 'true' : 'false');
		my $to = end_of_operand($code, $end, $C_ENDS);
		my $from = begin_of_operand($code, $begin, $C_BEGINS);

		push @found, [ $end, $to - $end, " $neutral" ] if defined $to && $to > $end;
		next if !defined $from || substr($code, $from, $begin - $from) !~ /^(\s*)(\S.*?)\s*$/;
		push @found, [ $from + length $1, length $2, $neutral ] if $from > 0 || $code !~ /^\t*(?:if|while|\w+\s*=)/;
	}
	return @found;
}

# The condition of an "if", or of a loop, that stands in one line.
sub negations_of_c
{
	my ($code) = @_;

	return if $code !~ /^\s*(?:else )?(?:if|while) (\()/;
	my $to = end_of_operand($code, $+[1], $BLOT x 2);
	my $from = $+[1];
	my $condition = substr($code, $from, ($to // $from) - $from);
	return if $condition eq '' || $condition =~ /$BLOT/ || $condition =~ /^[^&|]* [!=]= [^&|]*$/;    # relation does that
	return [ $from, length $condition, $condition =~ /^!([\w>\-]+(?:\([^()]*\))?)$/ ? $1 : "!($condition)" ];
}

my $KEYWORD = qr/(?:(?:if|for|while|switch|return|else|do|case|default|goto|static|const|extern|struct|typedef|sizeof)\b|Assert\w*|StaticAssert\w*|err\w+\(|PG_\w+)/;
my $STATEMENT = qr/^(\t+)(?!$KEYWORD)(?:\(void\) )?[*(]*[a-z_A-Z][\w>.\[\]()*\-+]*(?: [|&+\-*\/]?= |\+\+;|--;|\()/;

# Does a statement begin here, by the line of code before?
sub begins_statement
{
	my ($code, $before) = @_;

	return $code =~ $STATEMENT && $before =~ /(?:[;{}:)]|\belse)\s*$/;
}

sub dropped_in_c
{
	my ($code, $before) = @_;

	return [ length $1, length($code) - length $1, '' ] if $code =~ /^(\t+)(?:pg_(?:memory|read|write)_barrier\(\);)\s*$/;
	return [ length $1, length $2, '(void) 0;' ] if $code =~ /^(\t+)(continue;|break;)\s*$/;
	return if !begins_statement($code, $before);
	my ($indent) = $code =~ /^(\t+)/;
	return [ length $indent, 0, 'if (false) ' ];
}

my @C = (
	[ 'relation', sub { places($_[0], qr/(?<=\s)(<=|>=|<|>|==|!=)(?=\s)/, \%OTHER) } ],
	[ 'boundary', sub { places($_[0], qr/( [+-] 1)(?![\w.])/, '') } ],
	[ 'boundary', sub { places($_[0], qr/\b(Max|Min)(?=\()/, { Max => 'Min', Min => 'Max' }) } ],
	[ 'condition', \&conditions_of_c ],
	[ 'negated', \&negations_of_c ],
	[ 'negated', sub { places($_[0], qr/(?:= |\breturn |, )(true|false)(?=[;,)])/, { true => 'false', false => 'true' }) } ],
	[ 'unit', sub { places($_[0], qr/\b(US_PER_MS|USECS_PER_SEC)\b/, \%UNIT) } ],
	[ 'unit', sub { places($_[0], qr/( [*\/] US(?:_PER_MS|ECS_PER_SEC))\b/, '') } ],
	[ 'dropped', \&dropped_in_c ],
);

# --- Operators: SQL ------------------------------------------------------------

my $SQL_ENDS = q{\b(?:AND|OR|THEN|WHEN|ELSE|END|GROUP|ORDER|LIMIT|RETURNING|LOOP|FOR|UNION|DO)\b|'|,|;|$};

sub conditions_of_sql
{
	my ($code) = @_;
	my @found;

	while ($code =~ /(?<![\w.])((?:AND|OR) )/g)
	{
		my ($begin, $end) = ($-[1], $+[1]);
		my $before = substr($code, 0, $begin);
		next if $before =~ /\bBETWEEN\b(?:(?!\bAND\b).)*$/ || $before =~ /\bCREATE $/;
		my $to = end_of_operand($code, $end, $SQL_ENDS, 1);
		push @found, [ $begin, $to - $begin, '' ] if defined $to && $to > $end;
	}
	while ($code =~ /\b(?:WHERE|IF|ELSIF|WHEN|ON) (?!NULL INPUT)(?=\S)/g)
	{
		my $begin = $+[0];
		next if substr($code, 0, $begin) =~ /\b(?:CREATE|COMMENT|GRANT|REVOKE|DROP|ALTER)\b|\bCASE \S+ WHEN $/;
		my $to = end_of_operand($code, $begin, $SQL_ENDS, 1) // next;
		my $neutral = substr($code, $to) =~ /^\s*OR\b/ ? 'false' : 'true';
		push @found, [ $begin, $to - $begin, $neutral ] if $to > $begin;
	}
	return @found;
}

# A "=" compares if a word of a condition is before it.
sub relations_of_sql
{
	my ($code) = @_;
	my @found = places($code, qr/(?<=\s)(<=|>=|<|>)(?=\s)/, \%OTHER);

	for my $place (places($code, qr/(?<=\s)(=|<>)(?=\s)/, { '=' => '<>', '<>' => '=' }))
	{
		my $before = substr($code, 0, $place->[0]);
		push @found, $place
		  if $before =~ /\b(?:WHERE|AND|OR|IF|WHEN|ELSIF|ON|NOT|HAVING|FILTER)\b/ && $before !~ /\b(?:SET|USING|RAISE)\b(?!.*\b(?:WHERE|ON)\b)/;
	}
	return @found;
}

sub dropped_in_sql
{
	my ($code) = @_;

	return if $code !~ /^(\s+)((?:PERFORM|EXECUTE|INSERT|UPDATE|DELETE|SELECT|RETURN QUERY|RAISE LOG|CONTINUE|RETURN|EXIT|[a-z_.]+(?:\[[^\]]*\])? :=)[^;]*;)\s*$/;
	return [ length $1, length $2, $code =~ /^\s+SELECT/ ? '' : 'NULL;' ];
}

my @SQL = (
	[ 'relation', \&relations_of_sql ],
	[ 'relation', sub { places($_[0], qr/\b(IS (?:NOT )?NULL)\b(?=[^;]*(?:THEN|AND|OR|\)|'|$))/, { 'IS NULL' => 'IS NOT NULL', 'IS NOT NULL' => 'IS NULL' }) } ],
	[ 'boundary', sub { places($_[0], qr/( [+-] 1)(?![\w.])/, '') } ],
	[ 'boundary', sub { places($_[0], qr/\b(greatest|least|min|max)(?=\()/, { greatest => 'least', least => 'greatest', min => 'max', max => 'min' }) } ],
	[ 'condition', \&conditions_of_sql ],
	[ 'negated', sub { places($_[0], qr/(?<!IS )\b(NOT )(?!NULL|FOUND|DISTINCT|DEFERRABLE)/, '') } ],
	[ 'negated', sub { places($_[0], qr/(?:= |, |THEN |ELSE |\()(true|false)\b/, { true => 'false', false => 'true' }) } ],
	[ 'lock', sub { places($_[0], qr/\bIN (EXCLUSIVE|SHARE ROW EXCLUSIVE|SHARE|ACCESS EXCLUSIVE|ROW EXCLUSIVE) MODE/, 'ACCESS SHARE') } ],
	[ 'lock', sub { places($_[0], qr/( FOR (?:NO KEY )?(?:UPDATE|SHARE))\b/, '') } ],
	[ 'cast', sub { places($_[0], qr/(::[a-z_]+(?:\[\])?)/, '') } ],
	[ 'dropped', \&dropped_in_sql ],
);

# --- Mutants -------------------------------------------------------------------

# Two stores that change places.
my $STORE = qr/^\t+(?:\(void\) )?(?:pg_atomic_(?:write|fetch)|bounds_raise|positions_(?:open|close)|leases_|session_|enter_|store\(|record_|horizon_)/;
my $PLAIN = qr/^\t+(?:shared|entry|table|state|held)->/;

sub swapped
{
	my ($code, $next) = @_;

	return 0 if grep { !/;\s*$/ || !/$STORE|$PLAIN/ } $code, $next;
	return $code =~ /^(\t+)/ && $next =~ /^$1\S/ && ($code =~ $STORE || $next =~ $STORE);
}

# All mutants of a file: each with file, line, operator, old, new (of one line, or of two
# with a line feed between), and a key by which it is known again.
sub mutants_of
{
	my ($file, $text) = @_;
	my $is_c = $file =~ /\.[ch]$/;
	my @line = split /\n/, $text;
	my @code = split /\n/, $is_c ? code_of_c($text) : code_of_sql($text);
	my $sum = md5_hex($text);
	my ($before, @found, %seen) = ('');

	for my $i (0 .. $#line)
	{
		my $code = $code[$i] // '';
		my $add = sub {
			my ($operator, $old, $new) = @_;
			my $key = md5_hex("$file $sum $i $old -> $new");
			push @found, { file => $file, line => $i + 1, operator => $operator, old => $old, new => $new, key => $key } if !$seen{$key}++;
		};
		next if $code !~ /\S/ || $is_c && $code =~ /^#|^\s*(?:Static)?Assert|^extern\b/ || !$is_c && $code =~ /^(?:COMMENT|GRANT|REVOKE|CREATE|ALTER|DROP)\b/;
		for my $operator ($is_c ? @C : @SQL)
		{
			for my $piece ($operator->[1]->($code, $before))
			{
				my $new = $line[$i];
				substr($new, $piece->[0], $piece->[1], $piece->[2]);
				$add->($operator->[0], $line[$i], $new) if $new ne $line[$i];
			}
		}
		$add->('swapped', "$line[$i]\n$line[$i + 1]", "$line[$i + 1]\n$line[$i]")
		  if $is_c && $i < $#line && $before =~ /[;{}]\s*$/ && swapped($code, $code[ $i + 1 ] // '');
		$before = $code;
	}
	return @found;
}

# The text of the file with the mutant in it.
sub mutated
{
	my ($mutant, $text) = @_;
	my @line = split /\n/, $text, -1;
	my @old = split /\n/, $mutant->{old};

	splice(@line, $mutant->{line} - 1, scalar(@old), split(/\n/, $mutant->{new}, -1));
	return join("\n", @line);
}

# A C file as its tokens, to see whether two are the same.
sub normal { my ($text) = @_; $text =~ s{/\*.*?\*/}{}gs; return $text =~ s/\s+//gr }

1;
