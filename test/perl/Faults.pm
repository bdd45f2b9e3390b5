# Faults.pm -- the rules of the code, each with a fault that breaks it, and what finds that
#
# A fault is a text of a file, and what to put in its place; some need more than one
# place.  The text is found once, with whatever space between its words.  What finds it is
# one of
#
#   NAME                  a test, of test/t, test/sql or test/specs
#   perturbed NAME        a test with pauses between our steps, those of perturb.h
#   memory                a scenario of test/memory/memory.pl: no test can on the processors
#                         that we have
#   model NAME SWITCH     a switch of a model, likewise
#
# A fault has to compile without a warning.

package Faults;

use strict;
use warnings;

use Exporter 'import';

our @EXPORT = qw(faults planted replace_once slurp spurt);

my $REGISTRY = 'sql/snowflake_registry--1.0.sql';

# The lock of a shard is left, but not taken: before this text, in positions.c.
sub not_locked
{
	my ($name, $rule, $lock, $text) = @_;
	my $locked = "SpinLockAcquire($lock); $text";

	return [ $name, $rule, 'memory', 'src/positions.c', $locked, "if (false) $locked" ];
}

# Each with its name, the rule, what finds it, and the file, the text and the replacement,
# once or more.
my @FAULTS = (

	# --- Positions
	[
		'successor', 'an id takes the place after the last one', 'mint',
		'src/mint.c', 'position = Max(last + 1, least);', 'position = Max(last, least);'
	],
	[
		'shard_lock', 'a shard is read and moved under its lock', '001_concurrent',
		'src/mint.c', 'SpinLockAcquire(&state->lock); last =', 'last =',
		'src/mint.c', 'SpinLockRelease(&state->lock); return id;', 'return id;'
	],
	not_locked('behind_lock', 'a clock that is behind is counted under the lock of the shard', '&shards[shard].state.lock', 'shards[shard].state.counters.clock_behind'),
	not_locked('wait_lock', 'a wait is counted under the lock of the shard', '&shards[shard].state.lock', 'shards[shard].state.counters.waited_us'),
	not_locked('read_lock', 'the counters of a shard are read under its lock', '&state->lock', 'last = last_minted(state); stats'),
	not_locked('is_open_lock', 'whether a shard is open is read under its lock', '&state->lock', 'is_open'),
	not_locked('end_lock', 'the end of the ids of a shard is read under its lock', '&state->lock', 'last = last_minted(state); last = Max'),
	not_locked('reset_lock', 'the counters of a shard are reset under its lock', '&shards[i].state.lock', 'memset'),
	[
		'tick_begun', 'no id is of a tick that has not begun', '002_exhaustion',
		'src/mint.c', 'if (likely(position <= tick.last))', 'if (true)'
	],
	[
		'wait_unlocked', 'who waits for a tick has left the lock', '002_exhaustion',
		'src/mint.c', 'state->counters.exhausted++;', 'state->counters.exhausted++; pg_usleep(my_layout->tick_us);'
	],
	[
		'clock_behind', 'a clock that is behind is waited for', '004_clock',
		'src/mint.c', 'if (current_tick.number < latest)', 'if (false)'
	],
	[
		'latest_raised', 'no shard mints before a tick that another has minted in', '004_clock',
		'src/mint.c', 'bounds_raise(&bounds->latest, tick);', ''
	],

	# --- One order
	[
		'open_from_tick', 'a shard opens after the latest tick', '097_one_order',
		'src/positions.c', 'layout_position(layout, (int64) pg_atomic_read_u64(&bounds->latest),', 'layout_position(layout, tick - 1,'
	],
	[
		'open_before_noted', 'a list that changes is noted before a shard is opened', 'memory',
		'src/lease/lease_table.c', 'positions_note_change();', 'if (opens) { open_counted(); } positions_note_change();',
		'src/lease/lease_table.c', 'if (opens) open_counted();', ''
	],
	[
		'no_look', 'a session looks in each tick whether the list has changed', '097_one_order',
		'src/mint.c', 'if (unlikely(is_new) && have_changed())', 'if (unlikely(is_new) && false)'
	],
	[
		'bounds_before_clock', 'the bounds are read before the clock', 'perturbed 001_concurrent',
		'src/mint.c', 'bounds_read(&horizon, &latest); now = GetCurrentTimestamp(); if (unlikely(',
		'now = GetCurrentTimestamp(); bounds_read(&horizon, &latest); if (unlikely('
	],

	# --- Other roles' tables
	[
		'may_select', 'a table is looked at by those who may select', 'owners',
		'src/tables.c', 'else if (!may_use_schema(rel) || !may_select(rel, column)) return "no privilege";', ''
	],
	[
		'row_security', 'nobody learns of rows that row security hides', 'owners',
		'src/tables.c', 'else if (check_enable_rls(RelationGetRelid(rel), InvalidOid, true) == RLS_ENABLED) return "row security";', ''
	],
	[ 'may_read', 'rows are read for those who may select', 'owners', 'src/tables.c', 'if (!may_select(rel, column)) aclcheck_error(', 'if (false) aclcheck_error(' ],
	[ 'as_owner', 'a statement runs as the owner of the table', 'owners', 'src/owner.c', 'if (owner != caller->user)', 'if (false)' ],
	[
		'owner_restricted', 'the owner cannot become the caller', 'owners',
		'src/owner.c', 'caller->context | SECURITY_RESTRICTED_OPERATION', 'caller->context'
	],
	[
		'settings_back', 'what the owner has set ends with the statement', 'owners',
		'src/owner.c', 'AtEOXact_GUC(false, caller->guc_level);', 'AtEOXact_GUC(true, caller->guc_level);'
	],
	[
		'may_become_owner', 'a statement runs as an owner whom the caller can become', 'owners',
		'src/owner.c', 'if (has_privs_of_role(GetUserId(), owner) && member_can_set_role(GetUserId(), owner)) return;', 'if (true) return;'
	],
	[
		'one_owner', 'no statement runs code of another role than the owner', 'owners',
		'sql/snowflake/keys.sql', "AND NOT pg_has_role(c.relowner, class.owner, 'USAGE')", 'AND false'
	],
	[
		'patience', 'all locks together are waited for as long as a few', '099_owners',
		'sql/snowflake/check.sql', 'patience := patience - look.waited_ms;', ''
	],

	# --- The horizon
	[
		'horizon_kept', 'no id is minted at the horizon or past it', '009_horizon_file',
		'src/mint.c', 'else if (current_tick.number >= horizon)', 'else if (false)'
	],
	[
		'horizon_found', 'no id is minted before the horizon that was found', '007_crash',
		'src/horizon.c', 'found = layout_first_tick_from(settings_layout(), server_horizon());', 'found = 0;'
	],
	[
		'horizon_read_first', 'the horizon is read before the latest tick', 'memory',
		'src/positions.h',
		'*horizon = (int64) pg_atomic_read_u64(&shared->horizon); pg_read_barrier(); *latest = (int64) pg_atomic_read_u64(&shared->latest);',
		'*latest = (int64) pg_atomic_read_u64(&shared->latest); pg_read_barrier(); *horizon = (int64) pg_atomic_read_u64(&shared->horizon);'
	],
	[
		'file_written', 'the horizon is in the file', '009_horizon_file',
		'src/horizon.c', 'if (!record_write_file(HORIZON_RECORD, record, trouble)) return false;', ''
	],
	[
		'file_before_bound', 'the file comes before the bound', '009_horizon_file',
		'src/horizon.c', 'if (horizon > server_horizon() && !store_horizon(', 'positions_raise_horizon(tick); if (horizon > server_horizon() && !store_horizon('
	],
	[
		'page_logged', 'the horizon is in the WAL', '008_promotion',
		'src/horizon.c', 'wait_for_standbys(record_log_page(HORIZON_RECORD, record));', ''
	],
	[
		'standby_before_bound', 'the synchronous standby comes before the bound', '073_clean_stop',
		'src/horizon.c', 'if (!record_awaits_standby(lsn)) return;', 'if (true) return;'
	],
	[
		'stop_after_latest', 'a clean stop leaves the horizon after the last id', '073_clean_stop',
		'src/horizon.c', 'layout_time_of_tick(layout, latest + 1)', 'layout_time_of_tick(layout, latest)'
	],
	[
		'record_checksum', 'a damaged record is no record', '009_horizon_file',
		'src/record.c', 'else if (record->crc != crc_of(record))', 'else if (false)'
	],
	[
		'record_synced', 'the file is on disk before it has its name', '009_horizon_file',
		'src/record.c', 'if (fsync_fname_ext(temp_file, false, false, DEBUG1) != 0)', 'if (false)'
	],
	[
		'latest_before_horizon', 'nor where another session has begun the tick', '069_feed_and_leases',
		'src/mint.c', 'current_tick.number == latest && latest < horizon', 'current_tick.number == latest'
	],
	[
		'directory_synced', 'the name is on disk, too', '009_horizon_file',
		'src/record.c', 'if (fsync_fname_ext(".", true, false, DEBUG1) != 0)', 'if (false)'
	],

	# --- Leases
	[
		'lease_until', 'the horizon never passes the end of the leases', '062_lease_clocks',
		'src/positions.c', 'bounds_raise(&bounds->horizon, Min(tick, end));', '(void) end; bounds_raise(&bounds->horizon, tick);'
	],
	[
		'lease_from', 'no id is minted before the lease', '091_lease_begins',
		'src/lease/lease_table.c', 'positions_open(held->lease.shard, Max(first, from));', '(void) from; positions_open(held->lease.shard, first);'
	],
	[
		'lease_begun', 'a shard is not opened before its lease begins', '062_lease_clocks',
		'src/lease/lease_table.c', 'layout_time_of_tick(layout, first) <= GetCurrentTimestamp()', 'layout_time_of_tick(layout, first) <= DT_NOEND'
	],
	[
		'lease_past_horizon', 'a shard is not opened with a lease that ends before the horizon', '075_no_wait',
		'src/lease/lease_table.c', 'end >= (int64) pg_atomic_read_u64(&bounds->horizon);', 'end >= PG_INT64_MIN;'
	],
	[
		'lease_stored', 'a lease is on disk before it is used', '061_lease_places',
		'src/lease/lease_worker.c', 'leases_note_reserved(answer.reserved); return store();', 'leases_note_reserved(answer.reserved); return true;'
	],
	[
		'renewal_stored', 'a renewal is on disk before it is used', '095_renewal_on_disk',
		'src/lease/lease_table.c', 'if (is_on_disk)', 'if (true)'
	],
	[
		'lease_place', 'leases of another place are not used', '061_lease_places',
		'src/lease/lease_record.c', 'else if (strcmp(here.boot, header->place.boot) != 0)', 'else if (false)',
		'src/lease/lease_record.c', 'else if (!identity_same_place(&here, &header->place))', 'else if (false)'
	],
	[
		'lease_checksum', 'a damaged record of leases is no record', '061_lease_places',
		'src/lease/lease_record.c', '&& header->crc == crc_of(header);', ';'
	],
	[
		'signal_kept', 'a signal that reaches the worker in a call is heeded after it', '096_registry_by_reload',
		'src/lease/registry.c', 'SetLatch(MyLatch);', ''
	],
	[
		'closed_before_release', 'a shard is closed before it is given back', '060_leases',
		'src/lease/lease_table.c', 'positions_close(table->held[i].lease.shard);', '',
		'src/lease/lease_worker.c', 'positions_close(shard);', ''
	],
	[
		'end_from_found', 'a shard that was not opened since the start ends after what earlier starts minted', '062_lease_clocks',
		'src/positions.c', 'return Max(end, found);', '(void) found; return end;'
	],
	[
		'calls_differ', 'another call has other numbers', 'model lease CALLS_REPEAT',
		'src/lease/lease_worker.c', 'if (caller->next != 0 && caller->call != call)', 'if (false && caller->call != call)'
	],
	[
		'fence_confirmed', 'a call says which one was answered last', '092_confirmed_fence',
		'src/lease/lease_worker.c', 'caller->confirmed = caller->fence;', 'caller->confirmed = 0;'
	],
	[
		'clone_parts', 'the second of two that call in one name parts', '061_lease_places',
		'src/lease/lease_worker.c', 'if (!answer.is_clone)', 'if (true)'
	],
	[
		'clone_stops', 'a clone mints nothing more, whatever its next call gives', '070_false_registry',
		'src/lease/lease_worker.c', 'answer.clone)); leases_publish(&mine, true);', 'answer.clone));'
	],
	[
		'answer_range', 'a shard of an answer is one of the layout', '070_false_registry',
		'src/lease/registry_answer.c', 'if (!read_number(text, last_shard, &number))', 'if (!read_number(text, PG_INT32_MAX, &number))'
	],
	[
		'registry_deadline', 'a wait for the registry has an end', '070_false_registry',
		'src/lease/registry.c', 'if (left_us <= 0)', 'if (false)'
	],
	[
		'lease_count', 'a record of leases is no longer than its file', '061_lease_places',
		'src/lease/lease_record.c', 'header->count <= (size - sizeof(*header)) / sizeof(Lease) &&', ''
	],

	# --- The mark
	[
		'slots_read', 'the mark is below what a running transaction mints', 'settled',
		'src/mark.c', 'held = sessions_first_mark_tick(MyDatabaseId, shards);', 'held = NO_TICK;'
	],
	[
		'hold_locked', 'the slot is filled under its lock', 'memory',
		'src/sessions.c',
		'SpinLockAcquire(&slot->lock); slot->mark_shard = shard; slot->mark_others_tick = NO_TICK; pg_atomic_write_u64(&slot->mark_tick, pg_atomic_read_u64(&bounds->latest)); SpinLockRelease(&slot->lock);',
		'slot->mark_shard = shard; slot->mark_others_tick = NO_TICK; pg_atomic_write_u64(&slot->mark_tick, pg_atomic_read_u64(&bounds->latest));'
	],
	[
		'hold_in_two_steps', 'the latest tick is read in the same step', 'memory',
		'src/sessions.c',
		'SpinLockAcquire(&slot->lock); slot->mark_shard = shard; slot->mark_others_tick = NO_TICK; pg_atomic_write_u64(&slot->mark_tick, pg_atomic_read_u64(&bounds->latest));',
		'{ uint64 latest = pg_atomic_read_u64(&bounds->latest); SpinLockAcquire(&slot->lock); slot->mark_shard = shard; slot->mark_others_tick = NO_TICK; pg_atomic_write_u64(&slot->mark_tick, latest); }'
	],
	[
		'ring_entered', 'the mark is below what the snapshot does not see yet', 'settled',
		'src/mark.c', 'if (event == XACT_EVENT_COMMIT && FullTransactionIdIsValid(mine.xid))', 'if (false)'
	],
	[
		'ring_before_clear', 'a transaction enters the ring before it clears its slot', 'perturbed 046_settled',
		'src/mark.c',
		'if (event == XACT_EVENT_COMMIT && FullTransactionIdIsValid(mine.xid))',
		'if (event == XACT_EVENT_COMMIT) { session_release_mark(); } if (event == XACT_EVENT_COMMIT && FullTransactionIdIsValid(mine.xid))'
	],
	[
		'slots_before_ring', 'the slots are read before the ring', 'perturbed 046_settled',
		'src/mark.c', 'held = sessions_first_mark_tick(MyDatabaseId, shards);',
		'note_unseen_ended(&view, &first); held = sessions_first_mark_tick(MyDatabaseId, shards);',
		'src/mark.c', 'note_unseen_ended(&view, &first); return first;', 'return first;'
	],
	[
		'ring_read_whole', 'an entry that changes while it is read is lost', 'memory',
		'src/mark.c', '*is_lost = pg_atomic_read_u64(&entry->state) != WRITTEN(ticket);',
		'if (false) *is_lost = pg_atomic_read_u64(&entry->state) != WRITTEN(ticket);'
	],
	[
		'ring_lost', 'a snapshot that is older than the ring gives no mark', '046_settled',
		'src/mark.c', 'if (is_lost) report_old_snapshot(', 'if (is_lost) { return; } if (false) report_old_snapshot('
	],
	[
		'imported', 'an imported snapshot may follow another order', '074_feed_snapshots',
		'src/mark.c', 'if (is_foreign()) view.sees_before', 'if (is_foreign() && false) view.sees_before'
	],
	[
		'prepared_entered', 'a prepared transaction holds the mark', '046_settled',
		'src/mark.c', 'if (prepared_size() == 0) return;', 'if (true) return;'
	],
	[
		'prepared_locked', 'and after a restart', '056_settled_restart',
		'src/mark.c', '(void) LockAcquire(&tag, ShareLock, false, false);', '(void) tag;'
	],
	[
		'prepared_shard', 'also on one shard alone', '089_marks_of_shards',
		'src/mark.c', 'take_lock(transaction, LOCK_OF_SHARD, hold->shard);', ''
	],
	[
		'prepared_others', 'and on others since when', '089_marks_of_shards',
		'src/mark.c', 'if (hold->others_tick != NO_TICK)', 'if (false)'
	],
	[
		'held_for_all', 'who mints on another shard holds the mark for it', '089_marks_of_shards',
		'src/mint.c', 'session_hold_mark_for_all(); return;', 'return;'
	],
	[
		'held_for_all_locked', 'that is put into the slot under its lock', 'memory',
		'src/sessions.c',
		'SpinLockAcquire(&slot->lock); slot->mark_others_tick = (int64) pg_atomic_read_u64(&bounds->latest); SpinLockRelease(&slot->lock);',
		'slot->mark_others_tick = (int64) pg_atomic_read_u64(&bounds->latest);'
	],
	[
		'others_from_now', 'from the latest tick on', 'memory',
		'src/sessions.c',
		'slot->mark_others_tick = (int64) pg_atomic_read_u64(&bounds->latest);',
		'slot->mark_others_tick = (int64) pg_atomic_read_u64(&slot->mark_tick);'
	],
	[
		'others_in_ring', 'and in the ring', 'memory',
		'src/mark.c', 'int64 tick = hold_tick(&transaction->hold, view->shards);',
		'Hold hold = transaction->hold; int64 tick; hold.others_tick = NO_TICK; tick = hold_tick(&hold, view->shards);'
	],
	[
		'mark_on_disk', 'the mark is not above what is on disk', '093_mark_on_disk',
		'src/horizon.c', 'bounds_raise(&bounds->latest, Min(tick, renew));', 'bounds_raise(&bounds->latest, tick);',
		'src/mark.c', 'return Min(latest, on_disk);', 'return Max(latest, Min(latest, on_disk));'
	],
	[
		'hold_known', 'who holds the mark knows the latest tick', '093_mark_on_disk',
		'src/mint.c', 'if (!bounds_are_known() || pg_atomic_read_u64(&bounds->latest) == 0) horizon_begin_present_tick();', ''
	],
	[
		'one_mark', 'a statement has one mark', '046_settled',
		'src/settled.c', 'if (STATEMENT_NUMBER(snapshot) == 0)', 'if (true)'
	],
	[
		'of_recovery', 'a snapshot of before the promotion gives no mark', '056_settled_restart',
		'src/mark.c', 'if (is_of_standby(snapshot))', 'if (is_of_standby(snapshot) && false)'
	],
	[
		'xid_epoch', 'an xid above the next one is of the epoch before', '074_feed_snapshots',
		'src/mark.c', 'if (xid > XidFromFullTransactionId(next)) epoch--;', '(void) next;'
	],
	[
		'wait_to_mark', 'the id that is the mark is not settled', 'marks',
		'src/settled.c', 'while (present_mark(shards) <= after)', 'while (present_mark(shards) < after)'
	],

	# --- Barriers
	[
		'barrier_look', 'the tick has begun before a session looks for a change', 'memory',
		'src/mint.c', 'pg_memory_barrier(); /* the tick has begun: see above */',
		''
	],
	[
		'barrier_noted', 'a change is noted before the latest tick is read', 'memory',
		'src/positions.c', 'pg_memory_barrier(); /* before the latest tick is read: see mint.c */',
		''
	],
	[
		'barrier_bounds', 'the horizon is read before the latest tick', 'memory',
		'src/positions.h', 'pg_read_barrier(); *latest =',
		'*latest ='
	],
	[
		'barrier_opened', 'the bounds are raised before they are known', 'memory',
		'src/horizon.c', 'pg_write_barrier(); pg_atomic_write_u32(&bounds->are_known,',
		'pg_atomic_write_u32(&bounds->are_known,'
	],
	[
		'barrier_known', 'who knows the bounds reads them later', 'memory',
		'src/positions.h', 'pg_read_barrier(); return known;',
		'return known;'
	],
	[
		'barrier_slot_taken', 'a slot is taken before the latest tick is read', 'memory',
		'src/sessions.c', 'pg_memory_barrier(); /* who found the slot free',
		'/* who found the slot free'
	],
	[
		'barrier_slot_cleared', 'a transaction is in the ring before its slot is cleared', 'memory',
		'src/sessions.c', 'pg_write_barrier(); pg_atomic_write_u64(&my_slot->mark_tick, (uint64) NO_TICK);',
		'pg_atomic_write_u64(&my_slot->mark_tick, (uint64) NO_TICK);'
	],
	[
		'barrier_claimed', 'an entry is claimed before it is filled', 'memory',
		'src/mark.c', 'pg_write_barrier(); entry->completed =',
		'entry->completed ='
	],
	[
		'barrier_filled', 'an entry is filled before it is written', 'memory',
		'src/mark.c', 'pg_write_barrier(); pg_atomic_write_u64(&entry->state, WRITTEN(ticket));',
		'pg_atomic_write_u64(&entry->state, WRITTEN(ticket));'
	],
	[
		'barrier_moved', 'what leaves the table is in the ring before', 'memory',
		'src/mark.c', 'pg_write_barrier(); pg_atomic_write_u32(&shared->prepared_count, count);',
		'pg_atomic_write_u32(&shared->prepared_count, count);'
	],
	[
		'barrier_raised', 'the latest tick is raised before the slots are read', 'memory',
		'src/mark.c', 'learn_prepared(); pg_memory_barrier();',
		'learn_prepared();'
	],
	[
		'barrier_table_after_slots', 'the slots are read before the table', 'memory',
		'src/mark.c', 'pg_read_barrier(); note_unseen_prepared(&view, &first);',
		'note_unseen_prepared(&view, &first);'
	],
	[
		'barrier_ring_after_table', 'the table is read before the ring', 'memory',
		'src/mark.c', 'pg_read_barrier(); note_unseen_ended(&view, &first);',
		'note_unseen_ended(&view, &first);'
	],
	[
		'barrier_entry_read', 'an entry is written before it is read', 'memory',
		'src/mark.c', 'pg_read_barrier(); copy->completed =',
		'copy->completed ='
	],
	[
		'barrier_entry_again', 'an entry is read before its state is read again', 'memory',
		'src/mark.c', 'pg_read_barrier(); *is_lost =',
		'*is_lost ='
	],

	# --- Layout and identity
	[
		'layout_guard', 'another layout than the recorded one neither mints nor reads', '018_layout_record',
		'src/server.c', 'return strcmp(known->layout, settings_layout_text()) == 0;', 'return true;'
	],
	[
		'layout_changes', 'of two records the one with more changes of the layout is right', '072_damaged_records',
		'src/server.c', 'if (record->layout_changes != known->layout_changes)', 'if (false)'
	],
	[
		'layout_apart', 'the layout has a record of its own', '072_damaged_records',
		'src/server.c',
		'if (record_read_file(LAYOUT_RECORD, &record, &server->layout_trouble) == RECORD_FOUND)',
		'if (record_read_file(LAYOUT_RECORD, &record, &server->layout_trouble) == RECORD_FOUND && false)'
	],
	[
		'promoted_anew', 'a promoted standby is another server', '032_clone',
		'src/server.c', 'is_new = server->known.writer.incarnation == 0 || server->known.writer.standby;', 'is_new = server->known.writer.incarnation == 0;'
	],
	[
		'clone_by_birth', 'files that were copied tell a clone', '032_clone',
		'src/identity.c',
		'else if (knows_births ? here->born != recorded->born : knows_inodes && here->inode != recorded->inode)',
		'else if (false && (knows_births || knows_inodes))'
	],
	[
		'evidence_stored', 'what recovery removes is stored before', '032_clone',
		'src/server.c', 'record_report(LOG, &trouble); store_evidence(file);', '{ record_report(LOG, &trouble); } if (false) store_evidence(file);'
	],
	[
		'clone_refused', 'a clone does not mint where that is refused', '032_clone',
		'src/server.c', 'if (likely(!server_is_clone()) || !settings_refuse_clone)', 'if (true)'
	],

	# --- Reading ids
	[
		'null_compared', 'NULL compares as NULL, also where all ids do', 'time_operators',
		'src/time_operators.c', 'range.first > PG_INT64_MIN || range.last == PG_INT64_MAX', 'range.first > PG_INT64_MIN'
	],
	[
		'volatile_once', 'a volatile id is called once', 'time_operators',
		'src/time_operators.c', 'if (contain_volatile_functions(id)) return false;', ''
	],
	[
		'volatile_time', 'and a volatile time', 'time_operators',
		'src/time_operators.c', 'return !contain_volatile_functions(time) && !bms_overlap', 'return !bms_overlap'
	],
	[
		'last_second', 'the last tick of the server\'s times has ids', '005_settings',
		'src/layout.c', 'tick_of_us(layout, us) > layout->last_tick)', 'tick_of_us(layout, us) >= layout->last_tick)'
	],

	# --- Tables that mint
	[
		'adopt_below', 'an id that can be minted again is not adopted', '073_clean_stop',
		'sql/snowflake/keys.sql', 'IF greatest >= least AND', 'IF greatest > least AND'
	],
	[
		'plain_past_gate', 'sessions that are past the gate draw what nobody gets', '090_plain',
		'sql/snowflake_plain.sql', 'IF last + sessions < first THEN', 'IF last < first THEN'
	],

	# --- The registry
	[
		'registry_lock', 'calls come one after the other', '078_registry_rights',
		$REGISTRY, "IN EXCLUSIVE MODE', own, part);", "IN ACCESS SHARE MODE', own, part);"
	],
	[
		'registry_on_disk', 'a call is on disk when it is answered', '078_registry_rights',
		$REGISTRY, "IN ('off', 'local')", "IN ('none')"
	],
	[
		'registry_closed', 'a registry is born closed', 'registry',
		$REGISTRY, "'-', ''), 16), false,", "'-', ''), 16), true,"
	],
	[
		'registry_from', 'a lease begins where the one before ended', 'registry',
		$REGISTRY, 'SELECT f.shard, $1, greatest(o.lease_until, $2), $3', 'SELECT f.shard, $1, $2, $3'
	],
	[
		'registry_free', 'a shard is free when its lease has ended', 'registry',
		$REGISTRY, 's.reserved_for IS NULL AND (s.lease_until IS NULL OR s.lease_until <= $2))', 's.reserved_for IS NULL)'
	],
	[
		'registry_fence', 'a fence keeps new leases away', 'registry',
		$REGISTRY, 'IF reg.not_before > now OR is_more THEN', 'IF is_more THEN'
	],
	[
		'registry_loss', 'a call that proves a loss fences', 'registry',
		$REGISTRY, "IF lost_what IS NOT NULL THEN", "IF false THEN"
	],
	[
		'registry_clone', 'an old fence is a clone\'s', 'registry',
		$REGISTRY, 'known.fence > caller.fence AND known.fence <> caller.next', 'false'
	],
	[
		'registry_place', 'another place fences', 'registry',
		$REGISTRY, 's.writer = s.xmin AND s.place = $1 AND', 's.writer = s.xmin AND'
	],
	[
		'registry_timeline', 'a new timeline fences', '077_registry_put_back',
		$REGISTRY, 'timeline := substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8);', "timeline := '1';"
	],
	[
		'registry_writer', 'a restored state fences', '077_registry_put_back',
		$REGISTRY, 's.writer = s.xmin AND s.place = $1 AND', 's.place = $1 AND'
	],
	[
		'registry_looked', 'a call that may prove a loss is looked at', 'registry',
		$REGISTRY, 'IF known.holder IS NULL OR caller.registry <> reg.number OR caller.confirmed > known.fence OR', 'IF false AND'
	],
	[
		'registry_looked_ends', 'a claim that ends later than here is looked at', 'registry',
		$REGISTRY, 'AND s.lease_until >= ALL ($3)', ''
	],
	[
		'registry_types', 'arguments are of the very types', '078_registry_rights',
		$REGISTRY, 'reg, now, count, preferred[', 'reg, now, count::bigint, preferred['
	],
	[
		'registry_most', 'a holder has no more shards than the limit', '078_registry_rights',
		$REGISTRY, 'IF has + cardinality(free) > reg.max_shards THEN', 'IF false THEN'
	],
	[
		'registry_told', 'the number of a holder is not told to other roles', '078_registry_rights',
		$REGISTRY, 'CASE WHEN h.role = session_user THEN s.holder END', 's.holder'
	],
	[
		'registry_release_from', 'a release does not end before the lease began', 'registry',
		$REGISTRY, 'greatest(s.lease_from, least(s.lease_until, e.lease_end))', 'least(s.lease_until, e.lease_end)'
	],
	[
		'registry_release_until', 'a release does not end after the lease', 'registry',
		$REGISTRY, 'least(s.lease_until, e.lease_end)', 'e.lease_end'
	],
	[
		'registry_release_own', 'nobody releases another one\'s shard', 'registry',
		$REGISTRY, 's.shard = e.shard AND s.holder = $1', 's.shard = e.shard'
	],
	[
		'registry_renew_own', 'nobody renews another one\'s lease', 'registry',
		$REGISTRY, 'AND s.holder = (caller).holder AND s.lease_until > now', 'AND s.lease_until > now'
	],
	[
		'registry_revoked', 'a lease that was revoked is not renewed', 'registry',
		$REGISTRY, 'AND NOT s.is_revoked', ''
	],
	[
		'registry_reserve', 'no shard is reserved during a fence', 'registry',
		$REGISTRY, 'ELSIF reg.not_before > clock_timestamp() AND NOT $3 THEN', 'ELSIF false THEN'
	],
	[
		'registry_role', 'a holder belongs to its role', 'registry',
		$REGISTRY, 'IF known.role <> session_user THEN', 'IF false THEN'
	],
	[
		'registry_guard', 'a schema of somebody else is refused', '078_registry_rights',
		$REGISTRY, 'AND NOT a.rolsuper)', 'AND false)'
	],
	[
		'registry_longest', 'the longest lease is noted', 'registry',
		$REGISTRY, 'IF reg.layout IS NULL OR length > reg.longest_lease THEN', 'IF reg.layout IS NULL THEN'
	],
	[
		'registry_longest_opened', 'and kept when the registry is opened', 'registry',
		$REGISTRY, 'longest_lease = greatest(r.longest_lease, $3), first_unused', 'longest_lease = $3, first_unused'
	],
	[
		'registry_longest_limited', 'and when the limit is lowered', 'registry',
		$REGISTRY, "'greatest(\$1, (SELECT max(s.lease_until) FROM %1\$s.snowflake_registry_shards AS s) - clock_timestamp()))'", "'\$1)'"
	],
	[
		'registry_cap', 'no claim makes a lease longer than it can be', 'registry',
		$REGISTRY, 'least(coalesce(c.claimed_until, s.lease_until), now + longest)', 'coalesce(c.claimed_until, s.lease_until)'
	],
	[
		'registry_unrevoked', 'the next holder of a revoked shard renews', 'registry',
		$REGISTRY, 'lease_until = excluded.lease_until, is_revoked = false', 'lease_until = excluded.lease_until'
	],
	[
		'registry_smaller', 'no shard is leased that the layout does not have', 'registry',
		$REGISTRY, 'AND s.shard <= $3', ''
	],
);

sub slurp { my ($file) = @_; local (@ARGV, $/) = ($file); return <> }

sub spurt
{
	my ($file, $text) = @_;

	open(my $out, '>', $file) or die "$file: $!";
	print $out $text;
	close($out) or die "$file: $!";
	return;
}

# The faults with these names, or all: each with its name, rule and finder, and its edits
# as { file, text, instead }.
sub faults
{
	my %wanted = map { $_ => 1 } @_;
	my @found;

	for (@FAULTS)
	{
		my ($name, $rule, $finder, @places) = @$_;
		my @edits;

		push @edits, { file => shift @places, text => shift @places, instead => shift @places } while @places;
		push @found, { name => $name, rule => $rule, finder => $finder, edits => \@edits } if !@_ || $wanted{$name};
	}
	return @found;
}

# Put a text in the place of another one, which has to be there once.
sub replace_once
{
	my ($source, $text, $instead) = @_;
	my $pattern = join('\s+', map { quotemeta } split(' ', $text));
	my $count = () = $source =~ /$pattern/g;

	die "found $count times, not once: $text\n" if $count != 1;
	return $source =~ s/$pattern/$instead/r;
}

# The files that a fault changes, each with its new text.
sub planted
{
	my ($fault) = @_;
	my %text;

	for (@{ $fault->{edits} })
	{
		$text{ $_->{file} } //= slurp($_->{file});
		$text{ $_->{file} } = replace_once($text{ $_->{file} }, @$_{qw(text instead)});
	}
	return %text;
}

1;
