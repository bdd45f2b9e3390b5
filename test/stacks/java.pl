# Libraries of Java: JDBC, and the JPA provider EclipseLink.  Each is run on a column
# of type snowflake, and on one of type bigint.
#
# Packages: default-jdk-headless libpostgresql-jdbc-java libeclipselink-java libjackson2-databind-java

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use StackTest;
use Test::More;

my $programs = "$FindBin::RealBin/java";
my $jars = '/usr/share/java';
my %class_path = (
	jdbc => "$jars/postgresql.jar",
	jpa => join(':', map { "$jars/$_.jar" }
		  qw(postgresql eclipselink eclipselink-jpa-2.1-spec org.eclipse.persistence.jpa.jpql jackson-annotations jackson-core jackson-databind)),
);

# name, its jars, its program, the other files
my @libraries = (
	[ 'JDBC', 'jdbc', 'Jdbc' ],
	[ 'EclipseLink', 'jpa', 'Jpa', 'Photo.java', 'Comment.java', 'Tag.java', 'SnowflakeSequence.java', 'META-INF/persistence.xml' ],
);

shows_what_is_tested('doc/languages.md', 'java|xml',
	map { "$programs/$_" } map { @$_[ 3 .. $#$_ ] } @libraries);

my $node = stack_server('java', tcp => 1);    # the JDBC driver knows TCP only
$node->safe_psql('postgres', 'GRANT pg_monitor TO app');
my $dir = PostgreSQL::Test::Utils::tempdir();

for my $library (@libraries)
{
	my ($name, $jars, $program) = @$library;

	if (grep { !-e } split(/:/, $class_path{$jars}) or !has_program('javac', '-version'))
	{
		missing($name, 'it, or a JDK,');
		next;
	}
	build_program($name, 'javac', '-d', "$dir/$program", '-cp', $class_path{$jars}, '-sourcepath', $programs, "$programs/$program.java",
		$program eq 'Jpa' ? map { "$programs/$_.java" } 'Comment', 'Tag', 'CarelessComment' : ())
	  && run_everywhere($node, $name, [ 'java', '-cp', "$dir/$program:$programs:$class_path{$jars}", $program ],
		PGPASSWORD => $node->{password});
}

done_testing();
