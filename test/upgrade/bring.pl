# bring.pl -- bring a major of PostgreSQL into the root of another Debian
#
#   perl test/upgrade/bring.pl MAJOR FROM INTO
#
# pg_upgrade wants two majors on one machine, and no Debian has two.  So the old
# one comes into the root of the new one.  Its programs run on a later Debian, as
# far as they find the libraries that it no longer has; those have names of their
# own there, so they disturb nobody.  Needs root.  FROM is another Debian's root,
# or empty for this machine.

use strict;
use warnings;

my ($major, $from, $into) = @ARGV;

sub run { return system(@_) == 0 }
sub lines_of { my ($command) = @_; return split(/\n/, `$command`) }

run('sh', '-c', "tar -C '$from/' -cf - --exclude='*/bitcode' --exclude='*/llvmjit*' "
	  . join(' ', map { "usr/$_/postgresql/$major" } qw(lib share include)) . " | tar -C '$into' -xf -")
  or exit 1;

my %has = map { /^\t(\S+) / ? ($1 => 1) : () } lines_of("chroot '$into' ldconfig -p");
my $programs = "find /usr/lib/postgresql/$major -type f '(' -path '*/bin/*' -o -name '*.so' ')' ! -name 'llvmjit*'";
for (lines_of("chroot '$from/' $programs -exec ldd {} + 2>/dev/null"))
{
	my ($library, $path) = /^\t([^ \/]*) => (\/.*) \(/ or next;
	next if $has{$library}++;
	run('cp', '-L', "$from$path", "$into/usr/local/lib/$library") or exit 1;
}
run('chroot', $into, 'ldconfig') or exit 1;
exit(!run('chroot', $into, "/usr/lib/postgresql/$major/bin/postgres", '--version'));
