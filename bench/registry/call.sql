-- A renewal of eight leases, as a server makes it: it connects, looks where the
-- extension is, and calls.
\set n random(0, :servers - 1)
\set s 8 * :n
SELECT extnamespace::pg_catalog.regnamespace FROM pg_catalog.pg_extension WHERE extname = 'snowflake_registry' LIMIT 1;
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE \; SET LOCAL search_path = pg_catalog \; SET LOCAL statement_timeout = 5000 \;
SELECT * FROM public.snowflake_registry_lease(holder => 'server :n'::text, fence => (extract(epoch FROM clock_timestamp()) * 1e6)::bigint,
    next => (extract(epoch FROM clock_timestamp()) * 1e6)::bigint + 1, confirmed => bigint '1', registry => NULL::text,
    host => 'host'::text, layout => 'epoch=x'::text, last_shard => :last_shard,
    held => ARRAY[:s, :s + 1, :s + 2, :s + 3, :s + 4, :s + 5, :s + 6, :s + 7],
    held_from => array_fill(now(), '{8}'), held_until => array_fill(now() + interval '1 s', '{8}'),
    wanted => ARRAY[:s, :s + 1, :s + 2, :s + 3, :s + 4, :s + 5, :s + 6, :s + 7], auto => NULL::int,
    preferred => '{}'::int[], lease => interval '600000 ms') \; COMMIT;
