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

sub is_the_same
{
	my ($name, %settings) = @_;
	my $sql = "SET timezone = 'UTC'; SET datestyle = 'ISO'; SET intervalstyle = 'postgres';\n"
	  . with_plain_literals(slurp_file("$FindBin::RealBin/../sql/$name.sql"));
	my ($usual, $unusual) = map { [ split(/\n/, $_) ] } printed_by($name, $sql), printed_by($name, $sql, %settings);

	cmp_ok(scalar(@$usual), '>', 20, "$name: it prints something");
	is_deeply($unusual, $usual, "$name: whatever the caller's settings are");
	return;
}

is_the_same($_, %worst) for 'check', 'audit';

# These write NULL into arrays, and compare names as text.
delete @worst{ 'array_nulls', 'quote_all_identifiers' };
is_the_same($_, %worst) for qw(marks owners revert security shard_ops type_casts type_plans edges);

done_testing();
