# StateTest.pm -- what the tests of states share
#
# Each state of States.pm is brought about by its cause.  What an INSERT says, what
# snowflake_check() finds, and which alerts fire is what stands there, and every other
# alert is quiet.  Then the next step is followed, and all is well.
#
# To try some of them, give a pattern of their names in SNOWFLAKE_STATES.

package StateTest;

use strict;
use warnings;

use Exporter 'import';
use Time::HiRes qw(time);

use Alerts;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use States;
use Test::More;

our @EXPORT = qw(%offset $insert furnish start restart reconfigure move_clock said_by_insert in_state statement_of each_was_tried);

my %state = map { $_->{name} => $_ } @States::states;
my %tried;
my $only = $ENV{SNOWFLAKE_STATES};    # a pattern of names

# --- Servers

our %offset;    # of their clocks, by name

sub furnish
{
	my ($node) = @_;

	$node->safe_psql('postgres', 'CREATE ROLE exporter LOGIN IN ROLE pg_monitor; CREATE TABLE photos (id snowflake PRIMARY KEY DEFAULT snowflake_nextval())');
	return $node;
}

sub start
{
	my ($node, %options) = @_;
	return start_with_clock($node, $offset{ $node->name } // 0, disk => 1, %options);
}

sub restart
{
	my ($node, $conf) = @_;

	$node->append_conf('postgresql.conf', $conf) if $conf;
	$node->stop;
	start($node);
	return;
}

sub reconfigure
{
	my ($node, $conf) = @_;

	$node->append_conf('postgresql.conf', $conf);
	reload($node);
	return;
}

sub move_clock
{
	my ($node, $seconds) = @_;

	$offset{ $node->name } += $seconds;
	set_clock($node, $offset{ $node->name });
	return;
}

# --- What a server says

our $insert = 'INSERT INTO photos DEFAULT VALUES';

sub said_by_insert
{
	my ($node, $statement) = @_;
	my ($status, $out, $err) = $node->psql('postgres', "SET statement_timeout = '6s';\n" . ($statement // $insert));

	return $err;
}

sub findings
{
	my ($node) = @_;
	my $found = $node->safe_psql('postgres',
		q{SELECT area, state, finding, next_step FROM snowflake_check() WHERE state <> 'ok' AND area <> 'visibility'});

	return map { [ split(/\|/, $_) ] } split(/\n/, $found);
}

sub areas
{
	return join(', ', map { "$_->[0] $_->[1]" } @_);
}

# Is it in the state, and told so?  "cause" and "mend" are code; mend gets the next step of
# the first finding.  "finding": what that is, if not what the INSERT says.  "statement": in
# place of the INSERT.  "is_new": there was nothing before.  "leads_on": to another state.
sub in_state
{
	my ($node, $name, %with) = @_;
	my $state = $state{$name} or die "no state $name";
	my @expected = @{ $state->{finds} // [] };
	my $pattern = States::pattern($state->{says} // '');
	my ($said, @found, $before);

	$tried{$name} = 1;
	return if $only && $name !~ /$only/;
	$before = metrics_of($node) unless $with{is_new};
	$with{cause}->() if $with{cause};
	$before //= metrics_of($node);

	# some causes show after a while
	my $says = wait_for(sub { $said = said_by_insert($node, $with{statement}); $state->{says} ? $said =~ $pattern : $said eq '' });
	ok($says, "$name: what an INSERT says") or diag($said);
	# calls that wait do so for as long as it takes to look
	my $waits = ($state->{says} // '') =~ /statement timeout/ ? start_session($node, $insert) : undef;
	my $finds = wait_for(sub { @found = findings($node); areas(@found) eq join(', ', @expected) });
	ok($finds, "$name: what snowflake_check() finds") or diag(join("\n", map { join('|', @$_) } @found));
	like($found[0][2] // '', $with{finding}, "$name: and what that says") if $with{finding};
	like($found[0][3] // '', States::pattern($state->{step}), "$name: and the next step") if $state->{step};

	my @alerts = @{ $state->{alerts} // [] };
	my $by_name = $node->safe_psql('postgres', 'SHOW server_version_num') >= 170000;
	@alerts = grep { my $alert = $_; $by_name || !grep { $alert eq $_ } @States::by_wait } @alerts;
	my $now = metrics_of($node);
	is(join(' ', alerts_of($before, $now, time() + ($offset{ $node->name } // 0))), join(' ', @alerts), "$name: alerts");
	is(join(' ', @{ $now->{failed} }), '', "$name: the exporter can ask") unless $with{is_blind};
	return unless $with{mend};

	$with{mend}->($found[0][3]);
	finish_session($waits) if $waits;
	return if $with{leads_on};
	ok(wait_for(sub { $said = said_by_insert($node, $with{statement}); $said eq '' }), "$name: mended") or diag($said);
	ok(wait_for(sub { @found = findings($node); areas(@found) eq '' }), "$name: nothing is left") or diag(join("\n", map { join('|', @$_) } @found));
	$now = metrics_of($node);
	is(join(' ', alerts_of($now, $now, time() + ($offset{ $node->name } // 0))), '', "$name: no alert is left");
	return;
}

# The statement of a next step that matches.
sub statement_of
{
	my ($step, $pattern) = @_;
	my ($statement) = $step =~ /($pattern.*?;)/ or die "no statement in: $step";

	return $statement;
}

# Of the states, those of a script
sub each_was_tried
{
	my ($script) = @_;

	is(join(', ', grep { !$tried{$_} } map { $_->{name} } grep { ($_->{script} // 'states') eq $script } @States::states), '', 'each state was tried');
	return;
}

1;
