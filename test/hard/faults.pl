# Each rule of the code is switched off by itself, and a test has to find that.
#
#   faults.pl [NAME...]     all of them, or these
#
# A rule of src is switched off by -DSNOWFLAKE_FAULT=NAME: see src/compat.h.  One of the
# registry is a text of its script, and what to put in its place.  The table says which
# test finds each; a "perturbed" one needs pauses between our steps, those of perturb.h.
# Where no test can on the processors that we have, the table says in which model a switch
# shows it: test/model/model.pl --show SWITCH.
#
# Before, with all rules, all of these tests have to pass.  Runs in the copy of the tree, as
# the user of the server.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use Test::More;
use Tool;
use Variant;

# A fault shows in a tenth of what the tests do by themselves.
$ENV{SNOWFLAKE_EACH} //= 20_000;
$ENV{SNOWFLAKE_CRASH_ROUNDS} //= 5;
$ENV{SNOWFLAKE_ROWS} //= 20_000;
$ENV{SNOWFLAKE_SEED} //= 1;    # of pauses

my $REGISTRY = 'sql/snowflake_registry--1.0.sql';

# Of src: the rule, and the test; or the model, and its switch.
my @RULES = (
	# positions
	[ 'successor', 'an id takes the place after the last one', 'mint' ],
	[ 'shard_lock', 'a shard is read and moved under its lock', '001_concurrent' ],
	[ 'tick_begun', 'no id is of a tick that has not begun', '002_exhaustion' ],
	[ 'wait_unlocked', 'who waits for a tick has left the lock', '002_exhaustion' ],
	[ 'clock_behind', 'a clock that is behind is waited for', '004_clock' ],
	[ 'latest_raised', 'no shard mints before a tick that another has minted in', '004_clock' ],
	# the horizon
	[ 'horizon_kept', 'no id is minted at the horizon or past it', '009_horizon_file' ],
	[ 'horizon_found', 'no id is minted before the horizon that was found', '007_crash' ],
	[ 'horizon_read_first', 'the horizon is read before the latest tick', undef, 'minting', 'LATEST_BEFORE_HORIZON' ],
	[ 'file_written', 'the horizon is in the file', '009_horizon_file' ],
	[ 'file_before_bound', 'the file comes before the bound', '009_horizon_file' ],
	[ 'page_logged', 'the horizon is in the WAL', '008_promotion' ],
	[ 'standby_before_bound', 'the synchronous standby comes before the bound', '073_clean_stop' ],
	[ 'stop_after_latest', 'a clean stop leaves the horizon after the last id', '073_clean_stop' ],
	[ 'record_checksum', 'a damaged record is no record', '009_horizon_file' ],
	[ 'record_synced', 'the file is on disk before it has its name', '009_horizon_file' ],
	# leases
	[ 'lease_until', 'the horizon never passes the end of the leases', '062_lease_clocks' ],
	[ 'lease_from', 'no id is minted before the lease', '091_lease_begins' ],
	[ 'lease_begun', 'a shard is not opened before its lease begins', '062_lease_clocks' ],
	[ 'lease_past_horizon', 'a shard is not opened with a lease that ends before the horizon', '075_no_wait' ],
	[ 'lease_stored', 'a lease is on disk before it is used', '061_lease_places' ],
	[ 'renewal_stored', 'a renewal is on disk before it is used', '095_renewal_on_disk' ],
	[ 'lease_place', 'leases of another place are not used', '061_lease_places' ],
	[ 'lease_checksum', 'a damaged record of leases is no record', '061_lease_places' ],
	[ 'closed_before_release', 'a shard is closed before it is given back', '060_leases' ],
	[ 'calls_differ', 'another call has other numbers', undef, 'lease', 'CALLS_REPEAT' ],
	[ 'fence_confirmed', 'a call says which one was answered last', '092_confirmed_fence' ],
	[ 'clone_parts', 'the second of two that call in one name parts', '061_lease_places' ],
	[ 'answer_range', 'a shard of an answer is one of the layout', '070_false_registry' ],
	[ 'registry_deadline', 'a wait for the registry has an end', '070_false_registry' ],
	# the mark
	[ 'slots_read', 'the mark is below what a running transaction mints', 'settled' ],
	[ 'hold_locked', 'the slot is filled in one step', undef, 'settled', 'NO_LOCK' ],
	[ 'ring_entered', 'the mark is below what the snapshot does not see yet', 'settled' ],
	[ 'ring_before_clear', 'a transaction enters the ring before it clears its slot', 'perturbed 046_settled' ],
	[ 'slots_before_ring', 'the slots are read before the ring', 'perturbed 046_settled' ],
	[ 'ring_read_whole', 'an entry that changes while it is read is lost', undef, 'settled', 'NO_SECOND_LOOK' ],
	[ 'ring_lost', 'a snapshot that is older than the ring gives no mark', '046_settled' ],
	[ 'imported', 'an imported snapshot may follow another order', '074_feed_snapshots' ],
	[ 'prepared_entered', 'a prepared transaction holds the mark', '046_settled' ],
	[ 'prepared_locked', 'and after a restart', '056_settled_restart' ],
	[ 'mark_on_disk', 'the mark is not above what is on disk', '093_mark_on_disk' ],
	[ 'one_mark', 'a statement has one mark', '046_settled' ],
	# layout and identity
	[ 'layout_guard', 'another layout than the recorded one neither mints nor reads', '018_layout_record' ],
	[ 'layout_changes', 'of two records the one with more changes of the layout is right', '072_damaged_records' ],
	[ 'layout_apart', 'the layout has a record of its own', '072_damaged_records' ],
	[ 'promoted_anew', 'a promoted standby is another server', '032_clone' ],
	[ 'clone_by_birth', 'files that were copied tell a clone', '032_clone' ],
	[ 'evidence_stored', 'what recovery removes is stored before', '032_clone' ],
	[ 'clone_refused', 'a clone does not mint where that is refused', '032_clone' ],
);

# Of the registry: the rule, the test, the text and its replacement.
my @REGISTRY_RULES = (
	[ 'registry_lock', 'calls come one after the other', '078_registry_rights', 'IN EXCLUSIVE MODE;', 'IN ACCESS SHARE MODE;' ],
	[ 'registry_on_disk', 'a call is on disk when it is answered', '078_registry_rights', "IN ('off', 'local')", "IN ('none')" ],
	[ 'registry_closed', 'a registry is born closed', 'registry', "'-', ''), 16), false,", "'-', ''), 16), true," ],
	[ 'registry_from', 'a lease begins where the one before ended', 'registry', 'greatest(o.lease_until, reg.not_before), now + $15', 'reg.not_before, now + $15' ],
	[ 'registry_free', 'a shard is free when its lease has ended', 'registry', 's.reserved_for IS NULL AND (s.lease_until IS NULL OR s.lease_until <= now));', 's.reserved_for IS NULL);' ],
	[ 'registry_fence', 'a fence keeps new leases away', 'registry', 'IF reg.not_before > now THEN', 'IF false THEN' ],
	[ 'registry_loss', 'a call that proves a loss fences', 'registry', "IF loss IS NOT NULL THEN\n        claimed", "IF false THEN\n        claimed" ],
	[ 'registry_clone', 'an old fence is a clone\'s', 'registry', 'known.fence > $2 AND known.fence <> $3', 'false' ],
	[ 'registry_place', 'another place fences', 'registry', 's.writer = s.xmin AND s.place = here AND', 's.writer = s.xmin AND' ],
	[ 'registry_timeline', 'a new timeline fences', '077_registry_put_back', 'timeline := substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8);', "timeline := '1';" ],
	[ 'registry_writer', 'a restored state fences', '077_registry_put_back', 's.writer = s.xmin AND s.place = here AND', 's.place = here AND' ],
	[ 'registry_looked', 'a call that may prove a loss is looked at', 'registry', 'IF known.holder IS NULL OR $8 <> reg.number OR $4 > known.fence OR NOT $16 AND', 'IF false AND' ],
	[ 'registry_looked_ends', 'a claim that ends later than here is looked at', 'registry', ' AND s.lease_until >= ALL ($11)', '' ],
	[ 'registry_types', 'arguments are of the very types', '078_registry_rights', '- cardinality(granted), 0), $14)', '- cardinality(granted), 0)::bigint, $14)' ],
	[ 'registry_most', 'a holder has no more shards than the limit', '078_registry_rights', 'IF has + cardinality(free) > reg.max_shards THEN', 'IF false THEN' ],
	[ 'registry_told', 'the number of a holder is not told to other roles', '078_registry_rights', 'CASE WHEN h.role = session_user THEN s.holder END', 's.holder' ],
	[ 'registry_release_from', 'a release does not end before the lease began', 'registry', 'greatest(s.lease_from, least(s.lease_until, e.lease_end))', 'least(s.lease_until, e.lease_end)' ],
	[ 'registry_release_until', 'a release does not end after the lease', 'registry', 'least(s.lease_until, e.lease_end)', 'e.lease_end' ],
	[ 'registry_release_own', 'nobody releases another one\'s shard', 'registry', 's.shard = e.shard AND s.holder = $1', 's.shard = e.shard' ],
	[ 'registry_renew_own', 'nobody renews another one\'s lease', 'registry', "AND s.holder = \$1 AND s.lease_until > now AND s.reserved_for", "AND s.lease_until > now AND s.reserved_for" ],
	[ 'registry_revoked', 'a lease that was revoked is not renewed', 'registry', 'AND NOT s.is_revoked', '' ],
	[ 'registry_reserve', 'no shard is reserved during a fence', 'registry', 'ELSIF reg.not_before > clock_timestamp() THEN', 'ELSIF false THEN' ],
	[ 'registry_role', 'a holder belongs to its role', 'registry', 'IF known.role <> session_user THEN', 'IF false THEN' ],
	[ 'registry_guard', 'a schema of somebody else is refused', '078_registry_rights', 'AND NOT a.rolsuper)', 'AND false)' ],
);

# ---------------------------------------------------------------------------

sub slurp { my ($file) = @_; local (@ARGV, $/) = ($file); return <> }

sub spurt
{
	my ($file, $text) = @_;
	open(my $out, '>', $file) or die "$file: $!";
	print $out $text;
	close($out) or die "$file: $!";
	return;
}

# The sources in which a rule stands; in a header, all.
sub sources_of
{
	my ($name) = @_;
	my @files = grep { slurp($_) =~ /\bFAULT\($name\)/ } glob('src/*.[ch] src/lease/*.[ch]');

	return (grep { /\.h$/ } @files) ? glob('src/*.c src/lease/*.c') : @files;
}

# Has a model the switch?
sub is_shown_by
{
	my ($what, $model, $switch) = @_;

	return ok(slurp("test/model/$model.pml") =~ /\b$switch\b/ && slurp('test/model/model.pl') =~ /\b$switch\b/,
		"$what: no test on this processor; model $model, switch $switch");
}

# Build for a test, without a rule or with all.
sub build_for
{
	my ($test, $definitions, @sources) = @_;
	return build_variant($definitions, @sources) if ($test // '') !~ /^perturbed/;
	return build_variant("$definitions -include test/hard/perturb.h", glob('src/*.c src/lease/*.c'));
}

# A test finds what is wrong with the library that was built last.
sub is_found
{
	my ($what, $test) = @_;
	my ($failure, $seconds, $output) = first_failure($test =~ s/^perturbed //r);

	return ok(defined($failure), sprintf('%s: %s in %.0f s: %s', $what, $test, $seconds, $failure // 'NOT FOUND'))
	  || diag_tail($output);
}

my %wanted = map { $_ => 1 } @ARGV;
chdir($top) or die "$top: $!";
$| = 1;

# --- The table is that of the code, and what is not broken passes
my %in_code = map { $_ => 1 } map { slurp($_) =~ /\bFAULT\((\w+)\)/g } grep { !/compat\.h/ } glob('src/*.[ch] src/lease/*.[ch]');
my %in_table = map { $_->[0] => 1 } @RULES;
is_deeply([ sort keys %in_code ], [ sort keys %in_table ], 'each rule of the code is in the table, and none besides');

# --- An ordinary build has nothing of the marks: its objects are those of sources without
my %text = map { $_ => slurp($_) } grep { !/compat\.h/ } glob('src/*.[ch] src/lease/*.[ch]');
my @sources = glob('src/*.c src/lease/*.c');
is(build_variant('-g0', @sources), '', 'an ordinary build');
my %object = map { $_ => slurp($_) } glob('src/*.o src/lease/*.o');
spurt($_, $text{$_} =~ s/\bFAULT\(\w+\)/false/gr) for keys %text;
is(build_variant('-g0', @sources), '', 'and one without the marks');
is_deeply([ grep { slurp($_) ne $object{$_} } sort keys %object ], [], 'are the same, in ' . keys(%object) . ' objects');
spurt($_, $text{$_}) for keys %text;
build_variant('', @sources);

my %tests = map { $_->[2] => 1 } grep { $_->[2] } @RULES, @REGISTRY_RULES;
for my $test (%wanted ? () : sort keys %tests)
{
	is(build_for($test, ''), '', "an ordinary build for $test");
	my ($failure, $seconds, $output) = first_failure($test =~ s/^perturbed //r);
	is($failure, undef, sprintf('with all rules: %s passes in %.0f s', $test, $seconds)) or diag_tail($output);
}

# --- Each is switched off
for (@RULES)
{
	my ($name, $rule, $test, $model, $switch) = @$_;
	next if %wanted && !$wanted{$name};

	is(build_for($test, "-DSNOWFLAKE_FAULT=$name", sources_of($name)), '', "without $name") or next;
	defined($test) ? is_found("$name ($rule)", $test) : is_shown_by("$name ($rule)", $model, $switch);
}
my $script = slurp($REGISTRY);
for (@REGISTRY_RULES)
{
	my ($name, $rule, $test, $text, $instead) = @$_;
	next if %wanted && !$wanted{$name};

	is(scalar(() = $script =~ /\Q$text\E/g), 1, "$name is one place of the script") or next;
	spurt($REGISTRY, $script =~ s/\Q$text\E/$instead/r);
	is(build_variant(''), '', "without $name");
	is_found("$name ($rule)", $test);
	spurt($REGISTRY, $script);
}
done_testing();
