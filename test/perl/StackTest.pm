# StackTest.pm -- what the tests of other languages' libraries share
#
# A library has a program or two, which talk to a server of ours as the PG*
# environment variables say and print TAP.  A page of the documentation shows parts
# of the programs, and shows nothing else.

package StackTest;

use strict;
use warnings;

use Exporter 'import';
use File::Basename qw(basename dirname);
use IPC::Run ();

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

our @EXPORT = qw(stack_server new_database shows_what_is_tested build_program run_program run_everywhere has_program missing);

my $top = dirname(__FILE__) . '/../..';

# A server on which users of the local socket are trusted.  Programs are run as the role
# app, which is no superuser and owns nothing of the extension; it may make databases of
# its own, as who runs tests may.  With tcp => 1 the server listens on 127.0.0.1 as well,
# for what knows TCP only.  There it asks for a password, $node->{password}, since other
# users of this machine can connect.
sub stack_server
{
	my ($name, %options) = @_;
	my $node = new_server($name,
		init => { extra => ['--encoding=UTF8'] },
		conf => "snowflake.shards = '5'\n" . ($options{conf} // ''));

	$node->{password} = unpack('H*', join('', map { chr(int(rand(256))) } 1 .. 16));
	$node->safe_psql('postgres', "CREATE ROLE app LOGIN CREATEDB PASSWORD '$node->{password}'; GRANT ALL ON SCHEMA public TO app");
	return $node if !$options{tcp};
	unlink($node->data_dir . '/pg_hba.conf');
	$node->append_conf('pg_hba.conf', <<'CONF');
local all all trust
host  all app 127.0.0.1/32 scram-sha-256
CONF
	$node->append_conf('postgresql.conf', "listen_addresses = '127.0.0.1'");
	$node->restart;
	return $node;
}

# Does a program contain these lines, perhaps further to the right?
sub contains
{
	my ($program, $lines) = @_;
	return scalar grep { index($program, "\n" . $lines =~ s/^(?=.)/$_/mgr) >= 0 } map { ' ' x $_ } 0 .. 12;
}

# Each block of a page in one of the given languages stands in one of these files, as
# whole lines; and of each file a part is shown.
sub shows_what_is_tested
{
	my ($page, $languages, @files) = @_;
	my %source = map { basename($_) => "\n" . slurp_file($_) } @files;
	my %shown;

	for my $block (fenced_blocks(page_text($page)))
	{
		my ($language, $text) = @$block;
		my ($title) = $text =~ /(\S.*)/;
		next if $language !~ /^(?:$languages)$/;
		my @found = grep { contains($source{$_}, $text) } sort keys %source;

		ok(@found > 0, "$page shows what is tested: $title");
		$shown{$_} = 1 for @found;
	}
	return is_deeply([ sort keys %shown ], [ sort keys %source ], "$page shows a part of each program");
}

# Run a compiler, and show what it says if it fails.
sub build_program
{
	my ($name, @command) = @_;
	my $output = '';
	my $good = eval { IPC::Run::run(\@command, '<', '/dev/null', '>&', \$output) };

	return ok($good, "$name: builds") || diag($@, $output);
}

# Run a program on a database as the role app, and turn what it prints into assertions.
sub run_program
{
	my ($node, $name, $command, %environment) = @_;
	my ($out, $err) = ('', '');
	my ($lines, $plan) = (0, -1);

	local @ENV{qw(PGHOST PGPORT PGUSER PGDATABASE)} =
	  ($node->host, $node->port, 'app', 'postgres');
	local @ENV{ keys %environment } = values %environment;
	my $good = eval {
		IPC::Run::run($command, '<', '/dev/null', '>', \$out, '2>', \$err,
			IPC::Run::timeout(3 * $PostgreSQL::Test::Utils::timeout_default));
	};
	for my $line (split(/\n/, $out))
	{
		if ($line =~ /^(not )?ok \d+ - (.*)/)
		{
			$lines++;
			ok(!$1, "$name: $2");
		}
		elsif ($line =~ /^1\.\.(\d+)$/)
		{
			$plan = $1;
		}
		else
		{
			note($line);
		}
	}
	return ok($good && $lines == $plan, "$name: came to its end") || diag($@, $out, $err);
}

# Make an empty database with the extension in this schema, which is in the path.  A
# superuser owns the extension, and the role app may make tables.
sub new_database
{
	my ($node, $database, $schema) = @_;

	$node->safe_psql('postgres', "DROP DATABASE IF EXISTS $database WITH (FORCE)");
	$node->safe_psql('postgres', "CREATE DATABASE $database");
	$node->safe_psql($database, <<"SQL");
CREATE SCHEMA IF NOT EXISTS $schema;
CREATE EXTENSION snowflake SCHEMA $schema;
GRANT USAGE ON SCHEMA $schema TO app;
GRANT ALL ON SCHEMA public TO app;
ALTER DATABASE $database SET search_path = public, $schema;
SQL
	return;
}

# Run a program four times, on a database of its own with the tables of tables.sql: with
# ids of type snowflake and of bigint, with the extension in the schema public and in
# its own.  It finds the type in COLUMN, and in the table ddl what changed the schema.
sub run_everywhere
{
	my ($node, $name, $command, %environment) = @_;
	my $tables = slurp_file("$top/test/stacks/tables.sql");

	for my $schema ('public', 'ext')
	{
		for my $column ('snowflake', 'bigint')
		{
			my $database = "${column}_$schema";

			new_database($node, $database, $schema);
			$node->safe_psql($database, 'SET ROLE app; ' . $tables =~ s/\bsnowflake\b/$column/gr);
			$node->safe_psql($database, <<'SQL');
CREATE TABLE ddl (tag text);
GRANT SELECT ON ddl TO app;
CREATE FUNCTION note() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN INSERT INTO ddl VALUES (tg_tag); END';
CREATE EVENT TRIGGER note ON ddl_command_end EXECUTE FUNCTION note();
SQL
			run_program($node, "$name, $column, the extension in $schema", $command, %environment, PGDATABASE => $database, COLUMN => $column);
		}
	}
	return;
}

# Does a command end well?
sub has_program
{
	my @command = @_;
	return scalar(eval { run_log(\@command, '>', '/dev/null', '2>', '/dev/null') });
}

sub missing
{
	my ($name, $what) = @_;
  SKIP: { skip("$name: $what is not installed", 1) }
	return;
}

1;
