# report.pl -- tables and plots of what run.pl measured
#
#   perl bench/report.pl print RESULTS.CSV              all tables
#   perl bench/report.pl plots RESULTS.CSV DIRECTORY    the plots, into a directory
#   perl bench/report.pl page RESULTS.CSV PAGE.MD       that page, with its tables
#                                                       made again
#
# Everything comes from the file; nothing is measured or known here.  The tables
# are in perl/Tables.pm, the plots are those of some of them.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/perl";

use Figures;
use Plots;
use Tables;

sub run
{
	return sprintf("A %s run, `%s`, on %s, of commit %s, with PostgreSQL %s, on %s cores (%s).\n",
		machine('run'), machine('command'), machine('day'), machine('commit'), machine('PostgreSQL') =~ s/ .*//r, machine('cores'), machine('processor'));
}

my ($what, $results, $where) = @ARGV;
load($results);
my %tables = tables();
my %block = (
	(map { ($_ => markdown($tables{$_})) } keys %tables),
	run => run(),
	machine => machine_facts());
if ($what eq 'print')
{
	print map { "\n$_\n\n$block{$_}" } 'machine', grep { $block{$_} =~ /^\|/ } sort keys %tables;
}
elsif ($what eq 'plots')
{
	for my $name (grep { $tables{$_}{plot} } keys %tables)
	{
		open(my $svg, '>', "$where/$name.svg") or die "could not create $where/$name.svg: $!\n";
		print $svg plot($tables{$name});
		close($svg) or die "could not write $where/$name.svg: $!\n";
	}
}
else
{
	print contents($where) =~ s{(<!-- bench: (\w[\w, ]*) -->\n).*?(<!-- bench: end -->\n)}
		{$1 . ($block{$2} // die "$where: there is no table \"$2\"\n") . $3}gser;
}
