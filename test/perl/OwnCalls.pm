# Calls of all that the extensions have in SQL and PL/pgSQL: what they put together when
# they run is seen by tests that look at it.  Arguments are exactly of the functions' types,
# so no other function fits better.  OWN stands for the schema.

package OwnCalls;

use strict;
use warnings;
use parent 'Exporter';

our @EXPORT = qw(snowflake_calls registry_calls in_schema);

sub snowflake_calls
{
	return (
		'CREATE TABLE public.photos (id bigserial PRIMARY KEY, photo bigint REFERENCES public.photos)',
		'CREATE TABLE public.clicks (id OWN.snowflake PRIMARY KEY) PARTITION BY RANGE (id)',
		'CREATE TABLE public.marks (server text PRIMARY KEY, mark bigint NOT NULL, published_at timestamptz NOT NULL)',
		'INSERT INTO public.photos DEFAULT VALUES',
		q(SELECT OWN.snowflake_adopt('public.photos'::regclass, 'id'::name, NULL::integer, false)),
		'INSERT INTO public.photos DEFAULT VALUES',
		q(SELECT OWN.snowflake_audit('public.photos'::regclass, 'id'::name, 'twitter'::text)),
		q(SELECT OWN.snowflake_make_partitions('public.clicks'::regclass, timestamptz '2026-01-01Z', timestamptz '2026-02-01Z', interval '1 month')),
		q(SELECT OWN.snowflake_make_partitions('public.clicks'::regclass, timestamptz '2026-02-01Z', timestamptz '2026-03-01Z', interval '1 month')),
		q(SELECT OWN.snowflake_publish_mark('paris'::text, 'public.marks'::regclass)),
		q(SELECT OWN.snowflake_least_mark('public.photos'::regclass, '{paris}'::text[], 'public.marks'::regclass)),
		'SELECT OWN.snowflake_check()',
		'SELECT OWN.snowflake_layout_dependents()', 'SELECT OWN.snowflake_accept_layout()', 'SELECT OWN.snowflake_dependents()',
		q(BEGIN; SELECT OWN.snowflake_nextval(5); PREPARE TRANSACTION 'held'),
		'TABLE OWN.snowflake_unsettled', 'TABLE OWN.pg_stat_snowflake', 'TABLE OWN.pg_stat_snowflake_backends', 'TABLE OWN.snowflake_layouts',
		q(COMMIT PREPARED 'held'),
		q(SELECT OWN.snowflake_revert('public.photos'::regclass, 'id'::name, false)),
		'DROP TABLE public.photos, public.clicks, public.marks');
}

sub registry_calls
{
	my $lease = q(SELECT OWN.snowflake_registry_lease('one'::text, %d::bigint, %d::bigint, %d::bigint, 'host'::text, 'epoch=x'::text, 7, NULL::text,
		'{%s}'::int[], '{%s}'::timestamptz[], '{%s}'::timestamptz[], %s, '{}'::int[], '1 min'::interval));
	my $not_fenced = q(BEGIN; UPDATE OWN.snowflake_registry_state SET not_before = '-infinity'; UPDATE OWN.snowflake_registry_state SET writer = xmin; COMMIT);
	return (
		q(SELECT OWN.snowflake_registry_grant(to_regrole('ids'))), q(SELECT OWN.snowflake_registry_open('0'::interval)), $not_fenced,
		sprintf($lease, 0, 1, 0, '', '', '', 'NULL::int[], 2'), sprintf($lease, 1, 2, 1, '', '', '', q('{0,1,3}'::int[], NULL::int)),
		sprintf($lease, 2, 3, 9, '0,1', 'now,now', 'tomorrow,tomorrow', q('{0,6}'::int[], NULL::int)),
		q(SELECT OWN.snowflake_registry_release('one'::text, 3::bigint, 4::bigint, 3::bigint, 'host'::text, 'epoch=x'::text, 7, NULL::text, '{1}'::int[], '{now}'::timestamptz[])),
		'TABLE OWN.snowflake_registry_leases', 'TABLE OWN.snowflake_registry_summary', 'TABLE OWN.snowflake_registry_in_use',
		q(SELECT OWN.snowflake_registry_limit('1 h'::interval, 2)), 'SELECT OWN.snowflake_registry_revoke(0)', 'SELECT OWN.snowflake_registry_fence()',
		$not_fenced,
		q(SELECT OWN.snowflake_registry_reserve(7, 'me'::text, false)), q(SELECT OWN.snowflake_registry_reserve(5, 'me'::text, true)),
		q(SELECT OWN.snowflake_registry_unfence('0'::interval)), 'SELECT OWN.snowflake_registry_unreserve(7)',
		# put back, from a dump
		q(BEGIN; UPDATE OWN.snowflake_registry_state SET place = 'elsewhere'; UPDATE OWN.snowflake_registry_state SET writer = xmin; COMMIT),
		'SELECT OWN.snowflake_registry_fence()',
		q(INSERT INTO OWN.snowflake_registry_state SELECT 'another'::text, r.is_open, r.layout, r.last_shard, r.not_before, r.longest_lease, r.max_lease, r.max_shards,
			r.first_unused, r.place, r.traces, r.writer FROM OWN.snowflake_registry_state AS r), 'SELECT OWN.snowflake_registry_fence()',
		'DELETE FROM OWN.snowflake_registry_state', 'SELECT OWN.snowflake_registry_fence()',
		'DELETE FROM OWN.snowflake_registry_shards; DELETE FROM OWN.snowflake_registry_holders');
}

# Calls, with the schema's name.
sub in_schema
{
	my ($schema, @calls) = @_;
	return join(";\n", @calls) =~ s/\bOWN\b/$schema/gr;
}

1;
