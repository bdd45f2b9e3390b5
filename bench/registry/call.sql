-- A renewal, as a server makes it: a connection, and eight leases.
\set n random(0, :servers - 1)
SELECT count(*) FROM snowflake_registry_holders AS h,
       snowflake_registry_lease(h.holder, h.fence, h.fence + 1, h.fence, h.host, 'epoch=x', :last_shard, NULL,
           ARRAY(SELECT 8 * :n + i FROM generate_series(0, 7) AS i), array_fill(now(), '{8}'), array_fill(now() + interval '1 s', '{8}'),
           ARRAY(SELECT 8 * :n + i FROM generate_series(0, 7) AS i), NULL, '{}', '10 min')
 WHERE h.holder = 'server ' || :n;
