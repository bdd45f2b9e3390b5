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

# The function-like macros of a text that evaluate an argument more than once.
sub twice
{
	my ($text) = @_;
	my @twice;

	$text =~ s/\\\n/ /g;
	while ($text =~ /^[ \t]*#[ \t]*define[ \t]+(\w+)\(([\w\s,]*)\)(.*)$/gm)
	{
		my ($name, $parameters, $body) = ($1, $2, $3);
		$body =~ s/\b(?:sizeof|typeof|__typeof__|offsetof|lengthof)\s*$parentheses//g;
		push @twice, $name
		  if grep { my $parameter = $_; (() = $body =~ /(?<![#\w.>])$parameter\b/g) > 1 } $parameters =~ /\w+/g;
	}
	return @twice;
}

# Where a text uses one of these macros with what must be evaluated once.
sub mistakes
{
	my ($text, $macros, $volatile) = @_;
	my @mistakes;

	$text =~ s{^[ \t]*#(?:[^\n]*\\\n)*[^\n]*}{$& =~ tr/\n//cdr}gme;
	while ($text =~ /\b($macros)\s*(?=($parentheses))/g)
	{
		my ($name, $given) = ($1, $2);
		my $line = 1 + (substr($text, 0, $-[0]) =~ tr/\n//);
		my $rest = $given =~ s/$harmless//gr;
		push @mistakes, "$line: $name" . $given =~ s/\s+/ /gr
		  if $rest =~ /\b\w*[a-z]\w*\s*\(|\+\+|--|[^=<>!]=[^=]|\b(?:$volatile)\b/;
	}
	return @mistakes;
}

chdir($top) or die "$top: $!";
chomp(my $server = `pg_config --includedir-server`);
my @sources = sort(glob('src/*.[ch] src/*/*.[ch] bench/*.c'));
my @headers;
find({ no_chdir => 1, wanted => sub { push @headers, $_ if /\.h$/ } }, $server);

my %text = map { $_ => text_of($_) } @sources, @headers;
my $macros = join('|', sort map { twice($_) } values %text);
my $volatile = join('|', map { /\bvolatile\s+(?:\w+\s+)*?(\w+)\s*[;=]/g } values %text) || '(?!)';
like($macros, qr/\bMax\|(?:.*\|)?Min\b/, 'the macros are found');
is_deeply([ mistakes($_, $macros, $volatile) ], ["1: $_"], "found: $_")
  for 'Min(a, f(b))', 'Min(a, b++)', 'Min((int) f (a), b)', 'Min(a, InterruptPending)', 'Min(a, b = 1)';
is_deeply([ mistakes($_, $macros, $volatile) ], [], "allowed: $_")
  for 'Min(a, (int64) b)', 'Min(Max(a, b[1]), c->d)', 'Min(a, INT64CONST(5))', 'Min(a <= b, c == d)', 'f(Min(a, b))';
is_deeply([ map { my $file = $_; map { "$file:$_" } mistakes($text{$file}, $macros, $volatile) } @sources ],
	[], 'no argument that is evaluated twice has a call, an assignment or a volatile in it');
done_testing();
