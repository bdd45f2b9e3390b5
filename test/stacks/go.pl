# Libraries of Go: pgx, database/sql with its drivers, and GORM.  Each is run on a
# column of type snowflake, and on one of type bigint.
#
# Debian 13 has pgx 4, lib/pq and a Go; the next Debian has pgx 5, GORM, and the Go
# that they want.
#
# Packages: golang-go golang-github-jackc-pgx-v4-dev golang-github-lib-pq-dev
# Packages of forky: golang-go golang-src golang-github-jackc-pgx-v5-dev golang-gorm-gorm-dev golang-gorm-driver-postgres-dev

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use StackTest;
use Test::More;

my $programs = "$FindBin::RealBin/go";
my $sources = '/usr/share/gocode';

# name, its directory of source, its files
my @libraries = (
	[ 'pgx 5', 'github.com/jackc/pgx/v5', 'pgx5.go' ],
	[ 'database/sql with lib/pq', 'github.com/lib/pq', 'lib_pq.go', 'sql.go' ],
	[ 'database/sql with pgx 5', 'github.com/jackc/pgx/v5', 'pgx5_sql.go', 'sql.go' ],
	[ 'GORM', 'gorm.io/driver/postgres', 'gorm.go' ],
	[ 'pgx 4', 'github.com/jackc/pgx/v4', 'pgx4.go' ],
);

shows_what_is_tested('doc/languages.md', 'go', map { "$programs/$_" } 'library.go', grep { $_ ne 'sql.go' } map { @$_[ 2 .. $#$_ ] } @libraries);

my $node = stack_server('go');
my $dir = PostgreSQL::Test::Utils::tempdir();

local @ENV{qw(GO111MODULE GOPATH GOCACHE CGO_ENABLED)} = ('off', $sources, "$dir/cache", 0);

for my $library (@libraries)
{
	my ($name, $source, @files) = @$library;

	if (!-d "$sources/src/$source" || !has_program('go', 'version'))
	{
		missing($name, 'it, or Go,');
		next;
	}
	my $program = "$dir/" . $files[0] =~ s/\.go$//r;
	build_program($name, 'go', 'build', '-o', $program, map { "$programs/$_" } @files, 'library.go')
	  && run_everywhere($node, $name, [$program]);
}

done_testing();
