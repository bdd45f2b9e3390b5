# PageTable.pm -- a table of a page that is made, not written: States.pm and Messages.pm
# make one each.  A table is known by the first column's name.

package PageTable;

use strict;
use warnings;

sub text_of
{
	my ($path) = @_;
	local $/;
	open(my $in, '<', $path) or die "could not open $path: $!";
	return scalar(<$in>);
}

# A page's text with this table in place of the one that it has.
sub with_table
{
	my ($text, $table) = @_;
	my ($column) = $table =~ /^(\| [^|]* \|)/;

	$text =~ s/^\Q$column\E.*?\n(?!\|)/$table/ms or die "no table $column";
	return $text;
}

sub write_table
{
	my ($path, $table) = @_;
	my $text = with_table(text_of($path), $table);

	open(my $out, '>', $path) or die "could not open $path: $!";
	print $out $text;
	close($out) or die "could not write $path: $!";
	return;
}

1;
