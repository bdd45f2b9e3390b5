--
-- The settings: who may change them, when, and to what.
--
CREATE EXTENSION snowflake;

SELECT name, setting, unit, context, vartype, boot_val, min_val, max_val, category
  FROM pg_settings
 WHERE name LIKE 'snowflake.%'
 ORDER BY name COLLATE "C";

SELECT name, short_desc, extra_desc
  FROM pg_settings
 WHERE name LIKE 'snowflake.%'
 ORDER BY name COLLATE "C";

-- the server's layout is fixed
SHOW snowflake.layout;
SET snowflake.layout = 'discord';
SELECT set_config('snowflake.layout', 'discord', false);
SELECT current_database() AS database \gset
ALTER DATABASE :database SET snowflake.layout = 'discord';
\set VERBOSITY sqlstate
SET snowflake.layout = 'discord';
\set VERBOSITY default
SHOW snowflake.layout;

-- not even in a file is it changed to what is no layout
ALTER SYSTEM SET snowflake.layout = 'discorx';
ALTER SYSTEM SET snowflake.layout = 'epoch=0 unit=1ms fields=timestamp:43,shard:10,sequence:12';
-- nor to more shards than fit in memory
ALTER SYSTEM SET snowflake.layout = 'epoch=2024-01-01 unit=1ms fields=timestamp:39,shard:17,sequence:8';

-- how long to wait for a clock that is behind
SHOW snowflake.clock_tolerance;
SET snowflake.clock_tolerance = '5min';
SHOW snowflake.clock_tolerance;
SET snowflake.clock_tolerance = 0;
SHOW snowflake.clock_tolerance;
SET snowflake.clock_tolerance = 1500;
SHOW snowflake.clock_tolerance;
SET snowflake.clock_tolerance = 'soon';
SET snowflake.clock_tolerance = '1 fortnight';
SET snowflake.clock_tolerance = '1000 d';
\set VERBOSITY sqlstate
SET snowflake.clock_tolerance = -1;
SET snowflake.clock_tolerance = 2147483648;
\set VERBOSITY default
SHOW snowflake.clock_tolerance;
SELECT snowflake_nextval(5) > 0 AS minted;
RESET snowflake.clock_tolerance;
SHOW snowflake.clock_tolerance;

-- the reserve is the server's
SHOW snowflake.reserve;
SET snowflake.reserve = '2s';
ALTER SYSTEM SET snowflake.reserve = 'soon';
\set VERBOSITY sqlstate
ALTER SYSTEM SET snowflake.reserve = '99ms';
ALTER SYSTEM SET snowflake.reserve = '61s';
\set VERBOSITY default

-- and so is what becomes of copies
SHOW snowflake.refuse_clone;
SET snowflake.refuse_clone = on;
ALTER SYSTEM SET snowflake.refuse_clone = 'perhaps';

-- where ticks begin is a superuser's too, for his sessions
SHOW snowflake.spread;
SET snowflake.spread = 8;
SELECT snowflake_nextval(5) > 0 AS minted;
SET snowflake.spread = 'wide';
\set VERBOSITY sqlstate
SET snowflake.spread = 9;
SET snowflake.spread = -1;
\set VERBOSITY default
SHOW snowflake.spread;
RESET snowflake.spread;

-- what is misspelt is refused
SET snowflake.shard = '5';
SET snowflake.layouts = 'twitter';

-- who is no superuser may mint, and changes none of them
CREATE ROLE regress_snowflake_minter;
SET ROLE regress_snowflake_minter;
SELECT snowflake_shard(snowflake_nextval(5)), snowflake_shard(snowflake_lastval());
SET snowflake.shards = '5';
SET snowflake.clock_tolerance = 0;
SET snowflake.spread = 1;
ALTER ROLE regress_snowflake_minter SET snowflake.shards = '5';
SELECT count(*) > 0 AS layouts FROM snowflake_layouts;
\set VERBOSITY sqlstate
SET snowflake.shards = '5';
\set VERBOSITY default
RESET ROLE;
SHOW snowflake.shards;

-- unless the setting is granted to him
GRANT SET ON PARAMETER snowflake.shards TO regress_snowflake_minter;
SET ROLE regress_snowflake_minter;
SET snowflake.shards = '5';
SELECT snowflake_shard(snowflake_nextval());
RESET ROLE;
RESET snowflake.shards;
REVOKE SET ON PARAMETER snowflake.shards FROM regress_snowflake_minter;

-- what a role is given for its sessions is checked when it is given
ALTER ROLE regress_snowflake_minter SET snowflake.shards = '7';
SELECT rolconfig FROM pg_roles WHERE rolname = 'regress_snowflake_minter';
ALTER ROLE regress_snowflake_minter SET snowflake.shards = '1024';
ALTER ROLE regress_snowflake_minter SET snowflake.shards = '5x';

DROP ROLE regress_snowflake_minter;
DROP EXTENSION snowflake;
