# QuickSql.pm -- safe_psql() of the server's test module without psql, where that is the same
#
# A test that asks a thousand times is quicker by far.  psql does what has its own commands,
# COPY or LISTEN, where there are parameters, and where there is no server.

package QuickSql;

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use Protocol;

# A statement goes to the first semicolon that is not part of a longer token.
my $TOKEN = qr{ [eE]'(?:[^'\\]|\\.|'')*' | '[^']*' | "[^"]*" | (\$\w*\$).*?\g{-1} | --[^\n]* | /\*.*?\*/ | \w+ | [^;\\'"] }xs;
my $STATEMENT = qr/(?<text>(?:$TOKEN)*+)(?:;|\z)/;

# The statements of a script; nothing, if it takes psql to run it.
sub statements_of
{
	my ($sql) = @_;
	my @statements;

	return if $sql =~ /\b(?:COPY|LISTEN|RULE|ATOMIC)\b/i;
	push @statements, $+{text} while $sql =~ /\G(?=.)$STATEMENT/gcs;
	return pos($sql) == length($sql) ? grep { /\S/ } @statements : ();
}

sub fails
{
	my ($sql, $error) = @_;
	my $text = join("\n", "$error->{S}:  $error->{M}", map { $error->{ $_->[0] } ? "$_->[1]:  $error->{ $_->[0] }" : () } [ D => 'DETAIL' ], [ H => 'HINT' ], [ W => 'CONTEXT' ]);

	die "error running SQL: '$text' with sql '$sql'";
}

sub open_session
{
	my ($node, $database) = @_;
	my %settings = (
		user => $ENV{PGUSER} // scalar(getpwuid($<)),
		database => $database,
		application_name => $ENV{PGAPPNAME} // 'psql',
		$ENV{PGOPTIONS} ? (options => $ENV{PGOPTIONS}) : ());
	my $session = Protocol->connect($node->host . '/.s.PGSQL.' . $node->port, %settings);

	return $session->answer()->{error} ? undef : $session;
}

our $by_psql = \&PostgreSQL::Test::Cluster::safe_psql;

sub safe_psql
{
	my ($node, $database, $sql, @parameters) = @_;
	my @statements = @parameters || $node->host !~ m{^/} ? () : statements_of($sql);
	my $session = @statements ? eval { open_session($node, $database) } : undef;

	return $by_psql->(@_) if !$session;
	my @rows;
	for my $statement (@statements)
	{
		$session->ask($statement);
		my $answer = $session->answer();
		push @rows, @{ $answer->{rows} };
		if ($answer->{error})
		{
			$session->finish();
			fails($sql, $answer->{error});
		}
	}
	$session->finish();
	return join("\n", map { join('|', map { $_ // '' } @$_) } grep { @$_ } @rows);    # psql prints no row without columns
}

no warnings 'redefine';
*PostgreSQL::Test::Cluster::safe_psql = \&safe_psql;

1;
