# No macro that evaluates an argument twice is given one that must not be: a call, an
# atomic, an assignment, a volatile.  Min(first, f()) may give what is neither.
#
# The macros are all those of the server's headers and of src whose text has a
# parameter more than once.
#
# Needs the headers of a server.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use File::Find;
use Test::More;
use Tool;

# A call of one of these is a constant, or is looked at by itself.  Names in capitals
# are macros: what they are given is looked at, too.
my $harmless = qr/\b(?:Min|Max|Abs|sizeof|offsetof|lengthof|U?INT64CONST)\b/;

my $string = qr/"(?:[^"\\\n]|\\.)*"/;
my $parentheses;
$parentheses = qr/\((?:[^()]++|(??{$parentheses}))*\)/;

sub text_of
{
	my ($file) = @_;
	local $/;
	open(my $in, '<', $file) or die "$file: $!";
	my $text = <$in>;
	$text =~ s{/\*.*?\*/}{$& =~ tr/\n//cdr}gse;
	return $text =~ s/$string//gr;
}

# The function-like macros of a text that evaluate an argument more than once, and which: by
# name, a hash of indexes.
sub twice
{
	my ($text) = @_;
	my %twice;

	$text =~ s/\\\n/ /g;
	while ($text =~ /^[ \t]*#[ \t]*define[ \t]+(\w+)\(([\w\s,]*)\)(.*)$/gm)
	{
		my ($name, $parameters, $body) = ($1, $2, $3);
		my @parameters = $parameters =~ /\w+/g;
		$body =~ s/\b(?:sizeof|typeof|__typeof__|offsetof|lengthof)\s*$parentheses//g;
		for my $i (0 .. $#parameters)
		{
			$twice{$name}{$i} = 1 if (() = $body =~ /(?<![#\w.>])$parameters[$i]\b/g) > 1;
		}
	}
	return \%twice;
}

# Where a text uses one of these macros with what must be evaluated once.
sub mistakes
{
	my ($text, $twice, $volatile) = @_;
	my $macros = join('|', sort keys %$twice);
	my @mistakes;

	$text =~ s{^[ \t]*#(?:[^\n]*\\\n)*[^\n]*}{$& =~ tr/\n//cdr}gme;
	while ($text =~ /\b($macros)\s*(?=($parentheses))/g)
	{
		my ($name, $given) = ($1, $2);
		my $line = 1 + (substr($text, 0, $-[0]) =~ tr/\n//);
		my @arguments = substr($given, 1, -1) =~ /((?:[^(),]++|$parentheses)+)/g;
		my @looked_at = map { $_ =~ s/$harmless//gr } grep { defined } @arguments[ keys %{ $twice->{$name} } ];
		push @mistakes, "$line: $name" . $given =~ s/\s+/ /gr
		  if grep { /\b\w*[a-z]\w*\s*\(|\+\+|--|[^=<>!]=[^=]|\b(?:$volatile)\b/ } @looked_at;
	}
	return @mistakes;
}

chdir($top) or die "$top: $!";
chomp(my $server = `pg_config --includedir-server`);
my @sources = sort(glob('src/*.[ch] src/*/*.[ch] bench/*.c'));
my @headers;
find({ no_chdir => 1, wanted => sub { push @headers, $_ if /\.h$/ } }, $server);

my %text = map { $_ => text_of($_) } @sources, @headers;
my %twice;
for my $found (map { twice($_) } values %text)
{
	$twice{$_} = { %{ $twice{$_} // {} }, %{ $found->{$_} } } for keys %$found;
}
my $volatile = join('|', map { /\bvolatile\s+(?:\w+\s+)*?(\w+)\s*[;=]/g } values %text) || '(?!)';
is_deeply([ map { join(' ', sort keys %{ $twice{$_} }) } qw(Min Max foreach) ], [ '0 1', '0 1', '0' ], 'the macros are found, and which arguments');
is_deeply([ mistakes($_, \%twice, $volatile) ], ["1: $_"], "found: $_")
  for 'Min(a, f(b))', 'Min(a, b++)', 'Min((int) f (a), b)', 'Min(a, InterruptPending)', 'Min(a, b = 1)', 'foreach(f(b), c)';
is_deeply([ mistakes($_, \%twice, $volatile) ], [], "allowed: $_")
  for 'Min(a, (int64) b)', 'Min(Max(a, b[1]), c->d)', 'Min(a, INT64CONST(5))', 'Min(a <= b, c == d)', 'f(Min(a, b))', 'foreach (cell, f(b))';
is_deeply([ map { my $file = $_; map { "$file:$_" } mistakes($text{$file}, \%twice, $volatile) } @sources ],
	[], 'no argument that is evaluated twice has a call, an assignment or a volatile in it');
done_testing();
