-- data.sql -- questions about the data, which both servers must answer alike

SELECT count(*), md5(string_agg(t::text, ',' ORDER BY id)) FROM photos AS t;
SELECT count(*), md5(string_agg(t::text, ',' ORDER BY id)) FROM comments AS t;
SELECT tableoid::regclass, count(*), md5(string_agg(t::text, ',' ORDER BY id)) FROM by_time AS t GROUP BY 1 ORDER BY 1;
SELECT tableoid::regclass, count(*), md5(string_agg(t::text, ',' ORDER BY id)) FROM by_shard AS t GROUP BY 1 ORDER BY 1;
SELECT * FROM recent;
SELECT count(*), md5(string_agg(t::text, ',' ORDER BY day)) FROM daily AS t;
SELECT name, in_use, specification FROM snowflake_layouts ORDER BY name;
SHOW snowflake.layout;
-- by index, each row
SET enable_seqscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SELECT count(b.id) FROM photos AS a JOIN photos AS b ON b.id = a.id;
SELECT count(b.id) FROM photos AS a JOIN photos AS b ON b.mirror = a.mirror;
SELECT count(b.id) FROM by_time AS a JOIN by_time AS b ON b.id = a.id;
SELECT count(b.id) FROM by_shard AS a JOIN by_shard AS b ON b.id = a.id;
SELECT shard, count(b.id) FROM generate_series(0, 7) AS shard JOIN photos AS b ON snowflake_shard(b.id) = shard
    GROUP BY 1 ORDER BY 1;
