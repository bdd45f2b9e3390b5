# No answer depends on a setting of the caller: SQL tests print the same under settings that
# change what SQL means and how values look.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $node = new_server('callers', conf => "max_prepared_transactions = 5\n");

# Those that the tests do not set themselves.
my %worst = (
	'standard_conforming_strings' => 'off',
	'escape_string_warning' => 'off',
	'backslash_quote' => 'off',
	'quote_all_identifiers' => 'on',
	'datestyle' => 'SQL,DMY',
	'intervalstyle' => 'sql_standard',
	'extra_float_digits' => '-15',
	'bytea_output' => 'escape',
	'array_nulls' => 'off',
	'transform_null_equals' => 'on',
	'lc_monetary' => 'C',
	'timezone' => 'Asia/Kathmandu',
	'plpgsql.variable_conflict' => 'use_column',
	'plpgsql.extra_errors' => 'shadowed_variables',
	'plpgsql.check_asserts' => 'off',);

# A test's own literals, such as regular expressions, so that they always mean the same.
sub with_plain_literals
{
	my ($sql) = @_;
	my $text = '';

	for my $line (split(/^/, $sql))
	{
		$line =~ s/("[^"]*")|'((?:[^']|'')*)'/defined $1 ? $1 : index($2, '\\') < 0 ? "'$2'" : "E'" . ($2 =~ s{\\}{\\\\}gr) . "'"/ge
		  unless $line =~ /^\s*(?:--|\\)/;
		$text .= $line;
	}
	return $text;
}

# What a script prints in a database of its own.
sub printed_by
{
	my ($name, $sql, %settings) = @_;
	my $dbname = "contrib_$name";
	my $out = '';

	$node->safe_psql('postgres', "CREATE DATABASE $dbname");
	local $ENV{PGOPTIONS} = join(' ', map { "-c $_=$settings{$_}" } sort keys %settings);
	IPC::Run::run([ 'psql', '-XAtq', '-d', $node->connstr($dbname) ], '<', \$sql, '>&', \$out);
	$node->safe_psql('postgres', "DROP DATABASE $dbname");
	# names are quoted, values are not
	return $out =~ s/"//gr =~ s/^psql:<stdin>:\d+: //gmr;
}

# Lines of what a script prints, with settings, or with only the codes of messages
sub lines_of
{
	my ($name, $first, %settings) = @_;
	my $sql = "SET timezone = 'UTC'; SET datestyle = 'ISO'; SET intervalstyle = 'postgres';\n$first"
	  . with_plain_literals(slurp_file("$FindBin::RealBin/../sql/$name.sql"));

	return [ split(/\n/, printed_by($name, $sql, %settings)) ];
}

sub is_the_same
{
	my ($name, %settings) = @_;
	my $usual = lines_of($name, '');

	cmp_ok(scalar(@$usual), '>', 20, "$name: it prints something");
	is_deeply(lines_of($name, '', %settings), $usual, "$name: whatever the caller's settings are");
	return;
}

is_the_same($_, %worst) for 'check', 'audit';

# These write NULL into arrays, and compare names as text.
delete @worst{ 'array_nulls', 'quote_all_identifiers' };
is_the_same($_, %worst) for qw(marks owners revert security shard_ops type_casts type_plans edges);

# --- The server's messages in another language: gettext looks where the server's are

my @asked = qw(check audit marks revert security);
my $codes = "\\set VERBOSITY sqlstate\n\\unset SHOW_CONTEXT\n";
my %severity = (FEHLER => 'ERROR', WARNUNG => 'WARNING', HINWEIS => 'NOTICE');
my %in_english = map { $_ => lines_of($_, $codes) } @asked;

$node->append_conf('postgresql.conf', "lc_messages = 'C.UTF-8'");
{
	local $ENV{LANGUAGE} = 'de';
	$node->restart;
}
my (undef, undef, $err) = $node->psql('postgres', 'SELECT 1/0');
SKIP:
{
	skip("messages are not in German here: $err", scalar @asked) if $err =~ /division by zero/;
	for my $name (@asked)
	{
		my @lines = map { s{^([A-Z]+)(?=:)}{$severity{$1} // $1}er } @{ lines_of($name, $codes) };

		is_deeply(\@lines, $in_english{$name}, "$name: whatever the language of messages is");
	}
}

done_testing();
