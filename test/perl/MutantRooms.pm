# MutantRooms.pm -- where mutants are made, which tests look for them, and those that
# nobody can tell from the original
#
# A room is a part of the code that is judged by itself.  It has groups: files, and the
# tests that are about them.  Files are patterns, of which some may match nothing.  A test
# is the name of a script, or of one or more SQL tests or isolation tests, which run on one
# server; "perturbed NAME" runs with pauses between our steps, and "schedules" for a minute.

package MutantRooms;

use strict;
use warnings;

use Exporter 'import';

our @EXPORT = qw(rooms files_and_tests reason_of_equivalent);

my @ROOMS = (
	[
		leases => [
			[
				qw(sql/snowflake_registry--*.sql) => [
					'registry registry_edges', qw(116_still_registry 078_registry_lockers 077_registry_traces 097_bound_names 078_registry_rights 077_registry_put_back 076_reserved_shards 060_leases 092_confirmed_fence 061_lease_places
					  074_leaving 075_no_wait 079_put_back_replayed 106_states_in_time 100_rights 063_leases_page)
				]
			],
			[
				qw(src/lease/*.[ch]) => [
					'check settings', qw(118_cases 091_lease_begins 062_lease_clocks 095_renewal_on_disk 092_confirmed_fence 061_lease_places 060_leases 115_told_leases
					  096_registry_by_reload 070_false_registry 071_registry_hosts 075_no_wait 074_leaving 076_reserved_shards 097_one_order
					  069_feed_and_leases 088_marks_and_leases 106_states_in_time 005_settings 063_leases_page 087_check 043_failures 064_fleet)
				]
			]
		]
	],
	[
		mark => [
			[
				qw(src/mark.[ch] src/settled.c src/sessions.[ch]) => [
					'mint marks', 'settled concurrent', qw(118_cases 046_settled 074_feed_snapshots 089_marks_of_shards 056_settled_restart 093_mark_on_disk
					  040_stats 085_stopped 105_feed_from_afar 069_feed_and_leases 044_new_rows 080_marks_standby 001_concurrent 017_order 043_failures
					  084_wake_up),
					'perturbed 046_settled', 'schedules'
				]
			]
		]
	],
	[
		mint => [
			[
				qw(src/mint.[ch] src/positions.[ch] src/copy_from.[ch] src/history.c src/worker.[ch] src/clock.[ch]) => [
					'mint copy edges history layouts settings shards', 'concurrent', qw(118_cases 113_still_clock 114_where_to_begin 002_exhaustion 001_concurrent 003_spilling 004_clock 017_order
					  097_one_order 052_parts 051_spread 040_stats 098_cancel 055_clocks 010_steady 019_worker 046_settled 050_history 048_roles 075_no_wait 091_lease_begins
					  062_lease_clocks 068_same_name 043_failures 096_registry_by_reload 074_leaving schedules)
				]
			],
			[
				qw(src/horizon.[ch] src/record.[ch]) => [
					'mint settings', qw(118_cases 113_still_clock 117_still_check 009_horizon_file 019_worker 010_steady 073_clean_stop 041_wal_error 007_crash 008_promotion 004_clock
					  072_damaged_records 018_layout_record 093_mark_on_disk 046_settled 040_stats 015_recovery 014_layout_change 032_clone 062_lease_clocks 043_failures 087_check 101_states
					  104_clock_was_ahead 055_clocks 096_registry_by_reload schedules)
				]
			],
			[
				qw(src/server.[ch] src/identity.[ch] src/accept.c src/module.c src/settings.[ch]) => [
					'settings security layouts mint copy shards', 'concurrent', qw(118_cases 018_layout_record 005_settings 072_damaged_records 032_clone 016_backup_without_file 014_layout_change
					  009_horizon_file 008_promotion 015_recovery 036_versions 043_failures 071_registry_hosts 087_check 101_states 061_lease_places
					  046_settled 108_core_alone)
				]
			]
		]
	],
	[
		decode => [
			[
				qw(src/decode.c src/layout.[ch] src/layout_text.c src/text_forms.c src/time_operators.c src/shards.[ch] src/sql.[ch] src/errors.[ch]) => [
					'decode decode_from edges layouts layout_dependents text_forms time_operators type_casts type_io type_operators type_partitions'
					  . ' type_plans shards shard_ops settings copy history mint',
					qw(118_cases 005_settings 053_formats 052_parts 050_history 029_reference 043_failures 062_lease_clocks 060_leases schedules)
				]
			]
		]
	],
	[
		sql => [
			[ qw(sql/snowflake_plain.sql) => [ 'plain settled_plain', qw(097_bound_names 091_managed 090_plain 053_formats 102_callers_settings) ] ],
			[
				qw(sql/snowflake/*.sql) => [
					'adopt revert audit catalog check check_states check_columns layouts layout_dependents dependents keys make_partitions marks owners security trusted type_keys type_migration'
					  . ' type_partitions shard_ops column_types',
					qw(117_still_check 097_bound_names 067_partitioned_type 087_check 091_managed 101_states 099_owners 107_tables_come_and_go 035_audit 011_migration 014_layout_change
					  101_marks_ways 103_marks_changes 083_other_servers 065_own_schema 042_monitoring 043_failures 038_uninstall 033_identity
					  080_marks_standby 081_marks_subscriber 082_marks_stream 102_marks_hub 102_callers_settings 054_rekey 006_dump 031_sharded 034_capacity)
				]
			],
			[
				qw(src/status.c src/tables.[ch] src/owner.[ch]) => [
					'owners check audit adopt settings marks', qw(118_cases 040_stats 099_owners 087_check 101_states 100_rights 107_tables_come_and_go 042_monitoring
					  106_states_in_time 043_failures 035_audit)
				]
			]
		]
	],
);

# The file, a pattern of the line as it is, one of the mutant, and why no test can tell them
# apart: nothing that anybody sees or relies on differs.
my @EQUIVALENT = (
	[ qr/\.c$/, qr/^\s*(?:pfree|list_free|bms_free|MemoryContextDelete)\((?!leased_shards|site->layout_text|one\b)/, qr/if \(false\)/, 'memory of a short context, which is freed with that' ],
	[
		qr{^src/(?!positions|worker|mark|sessions).*\.c$}, qr/^\s*(?:pg_atomic_init_u\d+\(.*, 0\)|SpinLockInit\(.*\));$/, qr/if \(false\)/,
		'shared memory is zero when it is new, and a lock of zero is free on the processors that we have'
	],
	[
		qr{^src/(?!horizon).*\.c$}, qr/^\s*memset\((?:server|state), 0,/, qr/if \(false\)/,
		'shared memory is zero when it is new, also after a crash: then the server asks the system for another piece'
	],
	[ qr/\.c$/, qr/^\s*va_end\(/, qr/if \(false\)/, 'it does nothing on the processors that we have' ],
	[ qr{^src/owner\.c$}, qr/GUC_ACTION_SAVE, true, 0, false\)/, qr/0, true\)/, 'it tells apart settings of the start of a session, of which search_path is none' ],
	[ qr{^src/owner\.c$}, qr/code < 0/, qr/code <= 0/, 'no result of SPI is 0' ],
	[ qr{^src/owner\.c$}, qr/per_query_memory, false, result->setDesc/, qr/true/, 'only values of variable length would be fetched, and a bigint is none' ],
	[ qr{^src/tables\.c$}, qr/^\s*ACLCHECK_OK \|\|/, qr/false \|\|/, 'ACLCHECK_OK is 0, and so is false' ],
	[ qr{^src/tables\.c$}, qr/descends = false/, qr/= true/, 'it is read only where an index was found, and then it is set' ],
	[ qr{^src/tables\.c$}, qr/id > DatumGetInt64\(newest/, qr/id >= /, 'what is equal is stored once more' ],
	[
		qr{^src/lease/registry_answer\.c$}, qr/row->shard < answer->lease/, qr/row->shard <= answer->lease/,
		'the condition before it has refused a shard for the second time'
	],
	[
		qr{^src/identity\.c$}, qr/if \(read\(fd, text, .*> 0\)/, qr/>= 0\)/,
		'of an empty file the text is empty, and nothing of it is copied'
	],
	[ qr{^src/decode\.c$}, qr/parameter->paramkind = PARAM_EXTERN/, qr/if \(false\)/, 'PARAM_EXTERN is 0, as what makeNode() gives' ],
	[
		qr{^src/time_operators\.c$}, qr/i < lengthof\(replaced\)/, qr/i <= lengthof/,
		'all functions that have this support function stand in the list, so its end is not reached'
	],
	[ qr{^src/time_operators\.c$}, qr/COERCE_IMPLICIT_CAST, -1, false/, qr/-1, true/, 'it says whether a constant may be changed in its place, and this one has just been made' ],
	[
		qr{^src/sessions\.c$}, qr/first_id.*\n.*mark_tick/, qr/mark_tick.*\n.*first_id/,
		'marks are read from mark_tick alone, and who shows first_id reads it first, so sees no pair that it does not see without'
	],
	[
		qr{^src/sessions\.c$}, qr/last_id.*\n.*minted/, qr/minted.*\n.*last_id/,
		'both are written under the lock of the slot, and read under it'
	],
	[
		qr{^sql/snowflake/(?:layout_change|core)\.sql$}, qr/locktype = 'advisory' AND/, qr/^(?!.*locktype).*objsubid = 24346/,
		'no other kind of lock has 24346 as objsubid: that is null, small, or the number of a column'
	],
	[
		qr{^src/lease/lease_table\.c$}, qr/opens = is_on_disk && has_to_open\(\)/, qr/true && has_to_open\(\)/,
		'before all is on disk the table has only what it had, and what it counted of that was opened then, or is closed and dropped now'
	],
	[
		qr{^src/mint\.c$}, qr/\(id < 0\) && id == NO_ROOM/, qr/(?:\(id <= 0\)|true) && id == NO_ROOM/,
		'NO_ROOM is negative, so the second condition decides alone, and unlikely() is a hint'
	],
	[ qr{^src/settled\.c$}, qr/GetConfigOption\("transaction_isolation", false/, qr/"transaction_isolation", true/, 'each server has that setting' ],
	[ qr{^src/mark\.c$}, qr/bool has_imported = false/, qr/= true/, 'each process has a transaction, to find its database, and at the end of that it is set to false' ],
	[ qr{^src/mark\.c$}, qr/if \(tick < \*first/, qr/if \(tick <= \*first/, 'what is equal is stored once more' ],
	[ qr{^src/(?:record|lease/lease_record)\.c$}, qr/^\s+offsetof\((?:Record|LeaseHeader), \w+\) == \d+ &&$/, qr/true &&/, 'it is asserted when the file is compiled, and it holds' ],
	[ qr{^src/record\.c$}, qr/SyncRepStandbyNames == NULL/, qr/\|\| false \|\|/, 'the setting is never null, though the server asks that, too' ],
	[ qr{^src/server\.c$}, qr/layout_changes > known->layout_changes/, qr/>= known/, 'the condition before it says that they differ' ],
	[ qr{^src/server\.c$}, qr/pg_atomic_init_u32\(.*(?:LAYOUT_UNKNOWN|, false)\)/, qr/if \(false\)/, 'shared memory is zero when it is new, and so are these' ],
	[ qr{^src/server\.c$}, qr/waited_us > RECORD_PATIENCE_US/, qr/>= RECORD/, 'it looks once more in the very microsecond in which its patience ends' ],
	[ qr{^src/settings\.c$}, qr/GUC_ACTION_SET, false, FATAL, false/, qr/SET, true/, 'it is set once more to the value that it has' ],
	[ qr{^src/settings\.c$}, qr/GUC_ACTION_SET, false, FATAL, false/, qr/FATAL, true/, 'a reload differs only in a session, and no session has begun' ],
	[ qr{^src/settings\.c$}, qr/GetConfigOption\(name, true, false/, qr/true, true/, 'a setting that is not defined yet is nobody\'s to hide' ],
	[ qr{^src/settings\.c$}, qr/free\(registry_in_use\)/, qr/if \(false\)/, 'a few bytes, each time that the registry becomes another one' ],
	[
		qr{^src/module\.c$}, qr/mark_end_prepared\(\);|if \(ends_prepared\)/, qr/if \((?:false|!)/,
		'the next transaction that is prepared clears the table; until then readers pass over what has ended'
	],
	[
		qr{^src/mark\.c$}, qr/state > UNDER_WAY\(ticket\)/, qr/state >= UNDER_WAY/,
		'a state that is equal is under way, which the first condition says'
	],
	[ qr{^src/mint\.c$}, qr/my_held != shard && my_held/, qr/true && my_held|shard && true/, 'who holds it has minted, so only hold_mark() is called then, which asks the same' ],
	[ qr{^src/lease/lease_wait\.c$}, qr/^\s*break;/, qr/\(void\) 0;/, 'an error was raised before it' ],
	[ qr{^src/lease/lease_wait\.c$}, qr/return now > most \? now - most/, qr/now >= most|now <= least/, 'where they are equal the difference is 0, too' ],
	[ qr{^src/lease/lease_worker\.c$}, qr/it has none that has to be on disk/, qr/&mine, false\)/, 'a holder that has just begun has no lease that could be opened' ],
	[ qr{^src/mint\.c$}, qr/my_held > ALL_SHARDS/, qr/my_held >= ALL_SHARDS/, 'the condition before it has returned where they are equal' ],
	[
		qr{^sql/snowflake/audit\.sql$}, qr/read_ids.*relation::oid, column_name/, qr/relation, column_name/,
		'the table is locked until the transaction ends, so its name is still its own; and snowflake_parts() has asked for the same rights'
	],
	[
		qr{^src/layout\.h$}, qr/return shard > layout_shard\(layout, id\)/, qr/shard >= layout/,
		'where it is called, the last position of that shard is that of the id, or later; the step proof finds it'
	],
	[
		qr{^sql/snowflake_registry--1\.0\.sql$}, qr/CASE WHEN \$3 > \(\$1\)\.longest_lease THEN \$3/, qr/\$3 >= /,
		'where they are equal, the other way gives the same'
	],
	[
		qr{^sql/snowflake_registry--1\.0\.sql$}, qr/s\.holder = \(caller\)\.holder AND s\.shard <> ALL/, qr/true AND s\.shard <> ALL/,
		'the UPDATE of these claims asks for the holder again'
	],
	[ qr{^sql/snowflake_plain\.sql$}, qr/IF place <= length\(bytes\)/, qr/place < length/, 'at the last byte the loop before it has left that' ],
	[ qr{^src/errors\.c$}, qr/1, 1, 1, least - 1, true/, qr/least, true/, 'a distance above the limit is refused by the condition after it' ],
	[ qr{^src/errors\.c$}, qr/1, 1, 1, least - 1, true/, qr/1, false/, 'a name is cut to less than the 255 characters that it would then refuse' ],
	[ qr{^src/layout_text\.c$}, qr/continue; \/\* a test parses every preset/, qr/\(void\) 0;/, 'each preset is a layout, as layout_text_cases says' ],
	[ qr{^src/shards\.c$}, qr/i < count && length < size/, qr/length <= size/, 'where there is no room left, nothing is written' ],
	[ qr{^src/errors\.c$}, qr/now > last\)/, qr/now >= last/, 'that time is of the last tick, for which the condition before it has returned' ],
	[
		qr{^src/server\.c$}, qr/layout_result == RECORD_UNREADABLE && \*result == RECORD_MISSING/, qr/if \(true &&/,
		'the trouble counts only where the result is false, and then, without a page of the horizon, that of the layout is unreadable;'
		  . ' else its kind is set again'
	],
	[
		qr{^sql/snowflake/partitions\.sql$}, qr/relation\.owner::oid, /, qr/relation\.owner, /,
		'a regrole casts to oid by itself, and to no other type that these functions of privileges take'
	],
	[
		qr{^sql/snowflake/audit\.sql$}, qr/read_view.*relation::oid, column_name/, qr/relation, column_name/,
		'who may read the view has all rights of its owner, as whom it is read; if the name is another view\'s meanwhile, rights are asked for again'
	],
	[
		qr{^sql/snowflake/keys\.sql$}, qr/d\.deptype = 'i'\)$/, qr/m\.attnum \)$/,
		'before 17 each identity has a sequence of its own; from then on adopt.sql finds it'
	],
);

sub rooms { return map { $_->[0] } @ROOMS }

# The files of a room, each with its tests.
sub files_and_tests
{
	my ($room) = @_;
	my @found;

	for my $group (map { @{ $_->[1] } } grep { $_->[0] eq $room } @ROOMS)
	{
		my @patterns = @$group;
		my $tests = pop @patterns;
		push @found, map { [ $_, $tests ] } sort map { glob } @patterns;
	}
	return @found;
}

# Why nothing tells a mutant from the original; undefined: something has to.
sub reason_of_equivalent
{
	my ($mutant) = @_;

	for (@EQUIVALENT)
	{
		my ($file, $old, $new, $reason) = @$_;
		return $reason if $mutant->{file} =~ $file && $mutant->{old} =~ $old && $mutant->{new} =~ $new;
	}
	return;
}

1;
