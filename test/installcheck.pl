# installcheck.pl -- run the tests against a server that somebody uses
#
#   perl test/installcheck.pl "DATABASE ..." COMMAND...
#
# "make installcheck" runs this, and COMMAND is PGXS's own installcheck.  The
# server is set up as README says: installed, preloaded, with shards.  Afterwards
# it is as before, and so the tests can run again.
#
# - The SQL and isolation tests run in the DATABASEs, each of which is created
#   here, with the settings that the tests expect, and dropped at the end.  Roles
#   that a test leaves behind when it fails are dropped as well.
# - The TAP tests start servers of their own, and need nothing of this one.
#   Where they cannot run, that is said.
#
# A server that pg_regress starts for itself (--temp-instance) needs none of it.
# Perl alone will do, without its modules.

use strict;
use warnings;

# As pg_regress would set them, and with no shards of its own
my @SETTINGS = ("lc_messages = 'C'", "lc_monetary = 'C'", "lc_numeric = 'C'", "lc_time = 'C'",
	"bytea_output = 'hex'", "timezone_abbreviations = 'Default'", "snowflake.shards = ''", "snowflake.clock_tolerance = '1s'");

my ($databases, @command) = @ARGV;
my @databases = split(/ /, $databases);
my $roles_before;

sub refuse
{
	print STDERR map { "make installcheck: $_\n" } @_;
	exit 1;
}

# What a query prints in psql, for the user who runs this; undef if it fails.
sub sql
{
	my ($query, $is_quiet) = @_;
	my $pid = open(my $out, '-|') // die "could not fork: $!";

	if (!$pid)
	{
		open(STDERR, '>', '/dev/null') if $is_quiet;
		exec(qw(psql -XAtqv ON_ERROR_STOP=1 -d postgres -c), $query) or exit(127);
	}
	my $printed = do { local $/; <$out> } // '';
	chomp($printed);
	return close($out) ? $printed : undef;
}

sub sql_or_end { return sql(@_) // exit 1 }

END
{
	my $status = $?;
	if (defined $roles_before)
	{
		sql(qq(DROP DATABASE IF EXISTS "$_" WITH (FORCE)), 'quiet') for @databases;
		sql(qq(DROP OWNED BY "$_"; DROP ROLE "$_"))
		  for split(/\n/, sql("SELECT rolname FROM pg_roles WHERE rolname LIKE 'regress%' AND rolname <> ALL ('$roles_before')") // '');
	}
	$? = $status;
}
$SIG{$_} = sub { exit 1 }
  for qw(INT TERM HUP);

# --- TAP

my $why =
	!($ENV{TAP_TESTS} // 'yes') ? ''
  : !eval { require IPC::Run } ? 'Perl has no module IPC::Run (on Debian, install libipc-run-perl)'
  : $> == 0 ? 'root cannot start a server'
  : '';

sub say_skipped { print "\nSKIPPED: the TAP tests: $why\n" if $why }

say_skipped();
push @command, 'TAP_TESTS=' if $why;
$| = 1;
exec(@command) or die "could not run $command[0]: $!\n"
  if ($ENV{EXTRA_REGRESS_OPTS} // '') =~ /--temp-instance/ || !length(($ENV{REGRESS} // 'yes') . ($ENV{ISOLATION} // 'yes'));

# --- The server

my $is_superuser = sql('SELECT rolsuper FROM pg_roles WHERE rolname = current_user')
  // refuse('cannot connect to the server. Run it as a superuser of the server: on Debian that is postgres,',
	'in a directory that postgres may write to. If the server has another port, set PGPORT.');
refuse('creating the extension needs a superuser of the server.') if $is_superuser ne 't';
refuse('this server is a standby: run it on the primary server.') if sql_or_end('SELECT pg_is_in_recovery()') ne 'f';
refuse('the extension is not installed in this server: run "make install".')
  if !defined sql("SELECT pg_extension_update_paths('snowflake')", 'quiet');
my $layout = sql_or_end("SELECT setting FROM pg_settings WHERE name = 'snowflake.layout'")
  || refuse('this server does not preload the library: see "Install" in README.md.');
refuse(qq(the tests are for the layout "twitter", and this server has "$layout".),
	'Run test/check.sh instead, which starts servers of its own.')
  if $layout ne 'twitter';
refuse('this server leases its shards from a registry, and the tests mint on many shards.',
	'Run test/check.sh instead, which starts servers of its own.')
  if sql_or_end('SHOW snowflake.registry') ne '';

# --- The tests

$roles_before = sql_or_end("SELECT coalesce(array_agg(rolname), '{}') FROM pg_roles");
for my $database (@databases)
{
	sql_or_end(qq(DROP DATABASE IF EXISTS "$database"), 'quiet');
	sql_or_end(qq(CREATE DATABASE "$database" TEMPLATE template0));
	sql_or_end(qq(ALTER DATABASE "$database" SET $_)) for @SETTINGS;
}
my $status = system(@command, 'EXTRA_REGRESS_OPTS=' . ($ENV{EXTRA_REGRESS_OPTS} // '') . ' --use-existing');
say_skipped();
exit($status != 0);
