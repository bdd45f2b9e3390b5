# Libraries of Rust: tokio-postgres, sqlx and diesel, from Debian's packages of crates.
# Each is run on a column of type snowflake, and on one of type bigint.  To build
# them takes minutes.
#
# Packages: cargo libpq-dev librust-bytes-dev librust-chrono-dev librust-diesel-dev librust-serde-json-dev
# Packages: librust-sqlx-dev librust-tokio-dev librust-tokio-postgres-dev

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use IPC::Run ();

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use StackTest;
use Test::More;

my $programs = "$FindBin::RealBin/rust";
my $crates = '/usr/share/cargo/registry';
my @libraries = ([ 'tokio-postgres', 'tokio_postgres' ], [ 'sqlx', 'sqlx' ], [ 'diesel', 'diesel' ]);

shows_what_is_tested('doc/languages.md', 'rust',
	map { "$programs/$_" } 'id.rs', map { "$_->[1].rs" } @libraries);

my @crates = map { glob("$crates/$_->[0]-[0-9]*") } @libraries;
if (!has_program('cargo', '--version') || @crates < @libraries)
{
	missing('Rust', 'cargo, or a library,');
	done_testing();
	exit;
}

# cargo writes beside the programs
my $dir = PostgreSQL::Test::Utils::tempdir();
IPC::Run::run([ 'cp', '-r', $programs, "$dir/programs" ]) or die 'could not copy the programs';
my @build = (
	qw(cargo build --offline --quiet --manifest-path), "$dir/programs/Cargo.toml",
	'--config', 'source.crates-io.replace-with="debian"',
	'--config', "source.debian.directory=\"$crates\"");

# sqlx's macros ask a server for types
my $node = stack_server('rust');
$node->safe_psql('postgres', slurp_file("$FindBin::RealBin/tables.sql"));
local @ENV{qw(CARGO_HOME DATABASE_URL)} =
  ("$dir/cargo", 'postgres://' . getpwuid($<) . '@localhost:' . $node->port . '/postgres?host=' . $node->host);

my $built = build_program('Rust', @build, map { ('--bin', $_->[1]) } @libraries);
my $output = '';
ok(!IPC::Run::run([ @build, '--bin', 'careless' ], '<', '/dev/null', '>&', \$output), "sqlx: a macro that is not told that a column is an Id does not compile");
like($output, qr/unsupported type snowflake of column/, 'and says why');

for my $library ($built ? @libraries : ())
{
	my ($name, $program) = @$library;
	run_everywhere($node, $name, ["$dir/programs/target/debug/$program"]);
}

done_testing();
