# Alerts.pm -- which alerts of doc/monitoring/alerts.yaml a server's metrics raise
#
# The metrics are those of the exporters' queries.  An expression is worked out for one
# server, from its metrics now and those of before, as if "before" were at the beginning
# of the range; how long it has to hold ("for") is left out.  A server without leases is
# not asked for what only leases have.

package Alerts;

use strict;
use warnings;

use Exporter 'import';
use IPC::Run ();

use SnowflakeTest;

our @EXPORT = qw(alert_names metrics_of alerts_of);

my @exporters = map { page_text("doc/monitoring/$_.yaml") } 'postgres_exporter', 'registry_exporter';
my %alerts = page_text('doc/monitoring/alerts.yaml') =~ /^ +- alert: (\w+)\n +expr: (.*)$/mg;

sub alert_names
{
	return sort keys %alerts;
}

# The metrics of a server, each a list of samples: a value and its labels.  What cannot be
# asked gives none; "failed" has the queries' names.
sub metrics_of
{
	my ($node) = @_;
	my %metrics = (failed => []);

	for my $query (map { split(/^(?=\w+:$)/m) } @exporters)
	{
		my ($name, $sql, $columns) = $query =~ /\A(\w+):\n  query: \|\n(.*?)^  metrics:\n(.*)/ms or next;
		my %label = $columns =~ /^    - (\w+):\n        usage: "(LABEL)"/mg;
		my ($out, $err) = ('', '');

		next if $name eq 'snowflake_registry';
		if (($ENV{LEASES} // '') eq 'no')
		{
			$sql =~ s/^ +UNION\n.*snowflake_lease_status.*\n//ms;
			next if $sql =~ /snowflake_lease/;
		}
		if (!IPC::Run::run([ 'psql', '-XAq', '-P', 'footer=off', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres') . ' user=exporter' ],
				'<', \$sql, '>', \$out, '2>', \$err))
		{
			push @{ $metrics{failed} }, $name;
			next;
		}
		my ($names, @rows) = map { [ split(/\|/, $_, -1) ] } split(/\n/, $out);
		for my $row (@rows)
		{
			my %row;
			@row{@$names} = @$row;
			my %labels = map { $_ => $row{$_} } grep { $label{$_} } @$names;
			push @{ $metrics{"${name}_$_"} }, { value => $row{$_}, labels => \%labels } for grep { !$label{$_} } @$names;
		}
	}
	return \%metrics;
}

# The values of a selector, such as m, m{event="x"}, increase(m[5m]) or rate(m[5m]).
sub values_of
{
	my ($selector, $before, $now) = @_;

	if (my ($function, $metric) = $selector =~ /^(increase|rate)\((\w+)\[5m\]\)$/)
	{
		my %old = map { join(',', %{ $_->{labels} }) => $_->{value} } @{ $before->{$metric} // [] };

		return map { ($_->{value} - ($old{ join(',', %{ $_->{labels} }) } // 0)) / ($function eq 'rate' ? 300 : 1) } @{ $now->{$metric} // [] };
	}
	my ($metric, $label, $value) = $selector =~ /^(\w+)(?:\{(\w+)="(\w+)"\})?$/ or die "this is not understood: $selector";
	return map { $_->{value} } grep { !defined $label || $_->{labels}{$label} eq $value } @{ $now->{$metric} // [] };
}

sub sum
{
	my $sum = 0;
	$sum += $_ for @_;
	return $sum;
}

# The names of those that fire.
sub alerts_of
{
	my ($before, $now, $time) = @_;
	my @firing;

	for my $name (sort keys %alerts)
	{
		my ($term, $operator, $bound) = $alerts{$name} =~ /^(.*?) (==|<=|<|>) ([\d.* ]+)$/ or die "this is not understood: $alerts{$name}";
		my @values;

		next if $term =~ /^count by \(shard\)|snowflake_registry_/;    # of several servers, and of the registry
		$bound = $bound =~ /^(\d+) \* (\d+)$/ ? $1 * $2 : $bound;
		if ($term =~ /^sum by \(instance\) \((.*)\)$/) { my @all = values_of($1, $before, $now); @values = sum(@all) if @all }
		elsif ($term =~ /^abs\((\w+)\)$/) { @values = map { abs } values_of($1, $before, $now) }
		elsif ($term =~ /^(\w+) - time\(\)$/) { @values = map { $_ - $time } values_of($1, $before, $now) }
		else { @values = values_of($term, $before, $now) }
		push @firing, $name
		  if grep { $operator eq '==' ? $_ == $bound : $operator eq '<=' ? $_ <= $bound : $operator eq '<' ? $_ < $bound : $_ > $bound } @values;
	}
	return @firing;
}

1;
