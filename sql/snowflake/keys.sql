-- Migration: the DDL that turns an existing key into one that mints itself.
--
-- The statements are an administrator's own, in an order in which they can be
-- pasted; nothing reaches into a catalog.  Each runs as the owner of the table, since
-- it can run what the owner has put there (see src/owner.c).  So no table that it
-- reaches may be of a role that lacks the owner's rights: that role's code would get
-- them.  Columns that refer to the key by foreign keys, directly or by way of others, change with it: those that are
-- shorter must, and those that are bigint should, so that ids look alike
-- wherever they stand.  From bigint that rewrites nothing.  The column can be a
-- bigint afterwards, too.  The way back is the same walk, to bigint and a sequence.
-- (Without JIT: the planner takes the look into the catalogs for a query that is
-- worth it.)

CREATE FUNCTION @extschema@.snowflake_change_key(relation regclass, column_name name, shard integer,
        dry_run boolean, column_type regtype, reverts boolean)
    RETURNS SETOF text
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on
    SET quote_all_identifiers = off
    SET row_security = off
    SET jit = off
AS $$
DECLARE
    lock_timeout CONSTANT text := current_setting('lock_timeout');
    own       regnamespace;    -- the extension's schema
    own_type  oid;             -- snowflake
    class     record;          -- of the relation in pg_class
    key       record;
    tree      oid[];           -- the table, its partitions and children
    minter    regprocedure;    -- snowflake_nextval
    call      text;            -- how a call of it begins
    mint      text;
    distributed oid[];         -- by Citus
    distributed_by text[];     -- table.column
    obstacle  text;
    own_shards text;
    last_shard integer;
    probe     bigint;
    look      record;
    least     bigint;
    greatest  bigint;
    todo      record;
    clauses   text;
    default_clause text;
    statement text;
    statements text[] := '{}';
    is_new    boolean := false;
    verb      text := CASE WHEN reverts THEN 'revert' ELSE 'adopt' END;
    sequence_name text;        -- of the one that a key goes back to
BEGIN
    IF reverts AND (relation IS NULL OR column_name IS NULL OR dry_run IS NULL) THEN
        RAISE null_value_not_allowed USING
            MESSAGE = 'relation, column_name and dry_run must not be null';
    END IF;
    IF relation IS NULL OR column_name IS NULL OR dry_run IS NULL OR column_type IS NULL THEN
        RAISE null_value_not_allowed USING
            MESSAGE = 'relation, column_name, dry_run and column_type must not be null';
    END IF;
    SELECT extnamespace INTO STRICT own FROM pg_extension WHERE extname = 'snowflake';
    own_type := format('%s.snowflake', own)::regtype;
    IF column_type NOT IN ('bigint'::regtype, own_type) THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('column_type must be snowflake or bigint, not "%s"', format_type(column_type, NULL));
    END IF;
    IF pg_is_in_recovery() THEN
        RAISE read_only_sql_transaction USING
            MESSAGE = format('cannot %s a column during recovery', verb),
            HINT = format('Call snowflake_%s() on the primary server.', verb);
    END IF;
    SELECT c.relname, c.relkind, c.relispartition, c.relnamespace::regnamespace AS schema, c.relacl, c.relowner::regrole AS owner,
           pg_has_role(c.relowner, 'USAGE') AS is_owned
      INTO class FROM pg_class AS c WHERE c.oid = relation;
    IF NOT FOUND THEN
        RAISE undefined_table USING
            MESSAGE = format('relation with OID %s does not exist', relation::oid);
    END IF;
    IF class.relkind NOT IN ('r', 'p') THEN
        RAISE wrong_object_type USING
            MESSAGE = format('"%s" is not a table', class.relname);
    END IF;
    IF NOT class.is_owned THEN
        RAISE insufficient_privilege USING
            MESSAGE = format('must be owner of table %s', class.relname);
    END IF;

    -- No id comes in between the look at the greatest one and the change.  A dry run
    -- waits for no lock, which even a look at a default takes.
    IF dry_run THEN
        PERFORM set_config('lock_timeout', '200ms', true);
    ELSE
        EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', relation);
    END IF;

    SELECT a.attnum, a.atttypid, a.attidentity, a.attgenerated, a.attinhcount,
           pg_get_expr(d.adbin, d.adrelid) AS value
      INTO key
      FROM pg_attribute AS a
      LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
     WHERE a.attrelid = relation AND a.attname = column_name AND NOT a.attisdropped;
    IF NOT FOUND THEN
        RAISE undefined_column USING
            MESSAGE = format('column "%s" of relation "%s" does not exist', column_name, class.relname);
    END IF;
    IF key.atttypid NOT IN ('smallint'::regtype, 'integer'::regtype, 'bigint'::regtype, own_type) THEN
        IF reverts THEN
            RAISE datatype_mismatch USING
                MESSAGE = format('column "%s" of relation "%s" holds no snowflakes', column_name, class.relname),
                DETAIL = format('It is of type %s, not snowflake or bigint.', format_type(key.atttypid, NULL));
        END IF;
        RAISE datatype_mismatch USING
            MESSAGE = format('column "%s" of table "%s" cannot become a snowflake', column_name, class.relname),
            DETAIL = format('It is of type %s, not smallint, integer or bigint.', format_type(key.atttypid, NULL));
    END IF;
    IF key.attgenerated <> '' THEN
        RAISE wrong_object_type USING
            MESSAGE = format('column "%s" of table "%s" is a generated column', column_name, class.relname),
            DETAIL = 'Its values are computed, so none can be minted for it.';
    END IF;
    IF key.attinhcount > 0 THEN
        RAISE wrong_object_type USING
            MESSAGE = format('column "%s" of table "%s" is inherited', column_name, class.relname),
            DETAIL = format('The table is %s of "%s".',
                            CASE WHEN class.relispartition THEN 'a partition' ELSE 'a child' END,
                            (SELECT inhparent::regclass FROM pg_inherits WHERE inhrelid = relation
                              ORDER BY inhseqno LIMIT 1)),
            HINT = format('Call snowflake_%s() for the topmost table: the others change with it.', verb);
    END IF;
    SELECT f.conname, f.confrelid::regclass AS referenced INTO todo
      FROM pg_constraint AS f
     WHERE f.contype = 'f' AND f.conrelid = relation AND key.attnum = ANY (f.conkey)
     ORDER BY f.conname LIMIT 1;
    IF FOUND THEN
        RAISE wrong_object_type USING
            MESSAGE = format('column "%s" of table "%s" refers to another key', column_name, class.relname),
            DETAIL = format('By foreign key "%s" its values come from table "%s", so none can be minted for it.',
                            todo.conname, todo.referenced),
            HINT = format('Call snowflake_%s() for the key that it refers to: this column changes with it.', verb);
    END IF;

    tree := ARRAY(
        WITH RECURSIVE members(oid) AS (
            SELECT relation::oid
            UNION
            SELECT i.inhrelid FROM members AS m JOIN pg_inherits AS i ON i.inhparent = m.oid)
        SELECT oid FROM members);

    -- Whose code a statement runs: that of the tree, and of what refers to it.
    SELECT c.oid::regclass AS name, c.relname, c.relowner::regrole AS owner INTO todo
      FROM pg_class AS c
     WHERE c.oid = ANY (tree) AND NOT (pg_has_role(c.relowner, class.owner, 'USAGE') AND pg_has_role(class.owner, c.relowner, 'USAGE'))
        OR c.oid IN (SELECT conrelid FROM pg_constraint WHERE confrelid = ANY (tree))
           AND NOT pg_has_role(c.relowner, class.owner, 'USAGE')
     ORDER BY c.relname, c.oid LIMIT 1;
    IF FOUND THEN
        RAISE insufficient_privilege USING
            MESSAGE = format('table "%s" has another owner than table "%s"', todo.relname, class.relname),
            DETAIL = format('The statements run as %s, and would run code that %s has put into the table.', class.owner, todo.owner),
            HINT = format('If that role is to have these rights: ALTER TABLE %s OWNER TO %s;', todo.name, class.owner);
    END IF;

    -- A default is replaced if nothing is lost with it: if it is a sequence's,
    -- or mints.
    minter := format('%s.snowflake_nextval(%s)', own, CASE WHEN shard IS NOT NULL THEN 'integer' END);
    call := left(format('%s.snowflake_nextval()', own)::regprocedure::text, -1);
    mint := call || coalesce(shard::text, '') || ')';
    IF reverts THEN
        -- To a sequence of its own, if the key mints; any other default stays.
        mint := NULL;
        IF starts_with(regexp_replace(key.value, '^\((.*)\)::[^()'']+$', '\1'), call) THEN
            sequence_name := (
                SELECT q.oid::regclass FROM pg_depend AS d JOIN pg_class AS q ON q.oid = d.objid AND q.relkind = 'S'
                 WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
                   AND d.refobjid = relation AND d.refobjsubid = key.attnum
                 ORDER BY q.oid DESC LIMIT 1);
            -- the name that serial would have given it
            FOR n IN 0..1000 LOOP
                EXIT WHEN sequence_name IS NOT NULL AND (n = 0 OR to_regclass(sequence_name) IS NULL);
                sequence_name := format('%s.%I', class.schema,
                                        concat(left(class.relname, 28), '_', left(column_name, 28), '_seq', nullif(n, 0)));
                is_new := true;
            END LOOP;
            IF is_new THEN
                statements := ARRAY[format('CREATE SEQUENCE %s;', sequence_name)]
                    || CASE WHEN class.owner <> current_user::regrole
                            THEN ARRAY[format('ALTER SEQUENCE %s OWNER TO %s;', sequence_name, class.owner)] END
                    || ARRAY[format('ALTER SEQUENCE %s OWNED BY %s.%I;', sequence_name, relation, column_name)];
            END IF;
            -- Who may insert needs it, as nobody needs it for an id that is minted.
            statements := statements || ARRAY(
                SELECT format('GRANT USAGE ON SEQUENCE %s TO %s;', sequence_name,
                              CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END)
                  FROM (SELECT grantee, privilege_type FROM aclexplode(class.relacl)
                        UNION ALL SELECT b.grantee, b.privilege_type FROM pg_attribute AS a, aclexplode(a.attacl) AS b
                                   WHERE a.attrelid = relation AND NOT a.attisdropped) AS granted
                 WHERE privilege_type = 'INSERT' AND grantee <> class.owner
                 GROUP BY grantee ORDER BY grantee::regrole::text);
            mint := format('nextval(%L::regclass)', sequence_name);
        END IF;
    END IF;
    SELECT d.adrelid::regclass AS name, c.relname, pg_get_expr(d.adbin, d.adrelid) AS value INTO todo
      FROM pg_attrdef AS d
      JOIN pg_attribute AS m ON m.attrelid = d.adrelid AND m.attnum = d.adnum
      JOIN pg_class AS c ON c.oid = d.adrelid
     CROSS JOIN LATERAL regexp_replace(pg_get_expr(d.adbin, d.adrelid), '^\((.*)\)::[^()'']+$', '\1') AS bare(value)
     WHERE m.attrelid = ANY (tree) AND m.attname = column_name AND NOT reverts
       AND bare.value !~ '^nextval\(\(?''([^'']|'''')*''(::text\))?::regclass\)$'
       AND NOT (starts_with(bare.value, call) AND substr(bare.value, length(call) + 1) ~ '^\d*\)$')
     ORDER BY array_position(tree, d.adrelid) LIMIT 1;
    IF FOUND THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('column "%s" of table "%s" has a default that is not a sequence''s', column_name, todo.relname),
            DETAIL = format('The default is %s.', todo.value),
            HINT = format('If new rows no longer need it, drop it first: ALTER TABLE %s ALTER COLUMN %I DROP DEFAULT;',
                          todo.name, column_name);
    END IF;

    -- Citus refuses some changes of the tables that it distributes.
    IF to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL THEN
        EXECUTE 'SELECT array_agg(logicalrelid::oid), '
                '       array_agg(format(''%s.%s'', logicalrelid::oid, substring(partkey FROM '':varattno (\d+)''))) '
                '  FROM pg_catalog.pg_dist_partition'
            INTO distributed, distributed_by;
    END IF;
    IF relation = ANY (distributed) AND (key.atttypid <> column_type OR key.value IS DISTINCT FROM coalesce(mint, key.value)) THEN
        obstacle := CASE
            WHEN format('%s.%s', relation::oid, key.attnum) = ANY (distributed_by)
                THEN 'the type or the default of a distribution column'
            WHEN key.attidentity <> '' THEN 'an identity column'
            WHEN key.atttypid <> column_type AND key.value ~ '::regclass' THEN 'the type of a column whose default is a sequence''s'
        END;
        IF obstacle IS NOT NULL THEN
            RAISE feature_not_supported USING
                MESSAGE = format('cannot %s column "%s" of table "%s", which Citus distributes',
                                 verb, column_name, class.relname),
                DETAIL = format('Citus does not change %s.', obstacle),
                HINT = format('Call undistribute_table(), %s the column, and distribute the table again.', verb)
                    || CASE WHEN reverts THEN '' ELSE ' Better adopt a column before its table is distributed.' END;
        END IF;
    END IF;

    IF NOT reverts THEN
        -- Will the default work?  snowflake_shard() complains where the library is
        -- not preloaded, or the layout is not the recorded one.
        EXECUTE format('SELECT %s.snowflake_shard(-1::bigint)', own) INTO last_shard;
        own_shards := current_setting('snowflake.shards');
        IF shard IS NULL AND btrim(own_shards) = '' THEN
            RAISE object_not_in_prerequisite_state USING
                MESSAGE = 'no shard is configured for this server',
                HINT = 'Set "snowflake.shards" to the shards that are this server''s alone, such as ''8'' or ''8-15'', '
                       'or name a shard, as in snowflake_adopt(''photos'', ''id'', 5).';
        END IF;
        IF NOT shard BETWEEN 0 AND last_shard THEN
            RAISE invalid_parameter_value USING
                MESSAGE = format('shard %s is out of range', shard),
                DETAIL = format('The layout has shards 0 to %s.', last_shard);
        END IF;
        IF shard IS NOT NULL AND own_shards ~ '^\s*auto' THEN
            RAISE object_not_in_prerequisite_state USING
                MESSAGE = format('shard %s is this server''s for the time of a lease only', shard),
                DETAIL = format('"snowflake.shards" is "%s".', own_shards),
                HINT = 'Name no shard, to mint on those that the server has leased.';
        END IF;
        IF btrim(own_shards) <> '' AND shard IS NOT NULL AND NOT EXISTS (
                SELECT FROM string_to_table(own_shards, ',') AS element,
                            regexp_match(element, '(\d+)\s*(?:-\s*(\d+))?') AS ends
                 WHERE shard BETWEEN ends[1]::bigint AND coalesce(ends[2], ends[1])::bigint) THEN
            RAISE insufficient_privilege USING
                MESSAGE = format('shard %s is not one of this server''s', shard),
                DETAIL = format('"snowflake.shards" is "%s".', own_shards),
                HINT = 'Name one of them, or none to mint on all of them.';
        END IF;
        IF NOT has_function_privilege(minter, 'EXECUTE') THEN
            RAISE insufficient_privilege USING
                MESSAGE = 'permission denied for function snowflake_nextval';
        END IF;

        -- Existing ids have to be below those of any shard from now on.  These
        -- begin with the tick of an id that is minted now, which also tries the
        -- default out.  A dry run mints nothing, and goes by the clock.  If the default
        -- stays, ids may be of this very tick.
        EXECUTE format('SELECT * FROM %s.snowflake_newest($1, $2, true, 5000)', own) INTO look USING relation, column_name;
        greatest := look.newest;
        IF look.unseen <> '{}' THEN
            RAISE WARNING USING
                MESSAGE = format('%s parts of "%s" were not looked at', cardinality(look.unseen), class.relname),
                DETAIL = format('They are %s.', array_to_string(look.unseen, ', ')),
                HINT = 'Compare their greatest id with those that are minted.';
        END IF;
        IF dry_run THEN
            EXECUTE format('SELECT %s.snowflake_floor(clock_timestamp())', own) INTO least;
        ELSE
            EXECUTE 'SELECT ' || mint INTO probe;
            EXECUTE format('SELECT %1$s.snowflake_floor(%1$s.snowflake_timestamp($1))', own) INTO least USING probe;
        END IF;
        IF greatest >= least AND mint IS DISTINCT FROM key.value THEN
            RAISE object_not_in_prerequisite_state USING
                MESSAGE = format('column "%s" of table "%s" holds an id that is not below those to be minted',
                                 column_name, class.relname),
                DETAIL = format('Its greatest id is %s, and the least that could be minted now is %s.', greatest, least),
                HINT = 'Choose a layout (snowflake.layout) in which the existing ids lie in the past.';
        END IF;

        -- They need a partition, too.
        SELECT max(bound.ends[2]::bigint) AS last_to INTO todo
          FROM pg_partitioned_table AS p
          JOIN pg_inherits AS i ON i.inhparent = p.partrelid
          JOIN pg_class AS c ON c.oid = i.inhrelid
         CROSS JOIN LATERAL (SELECT pg_get_expr(c.relpartbound, c.oid) AS expression) AS e
         CROSS JOIN LATERAL (SELECT regexp_match(e.expression, '^FOR VALUES FROM [(](.*)[)] TO [(]''?(-?[0-9]+)''?[)]$') AS ends) AS bound
         WHERE p.partrelid = relation AND p.partattrs[0] = key.attnum
        HAVING bool_and(bound.ends IS NOT NULL);
        IF todo.last_to <= least THEN
            EXECUTE format('SELECT %s.snowflake_floor(date_trunc(''month'', now() AT TIME ZONE ''UTC'') AT TIME ZONE ''UTC'' + interval ''2 months'')', own) INTO probe;
            RAISE object_not_in_prerequisite_state USING
                MESSAGE = format('table "%s" has no partition for the ids that column "%s" would mint', class.relname, column_name),
                DETAIL = format('The partitions end before id %s, and the least that could be minted now is %s.', todo.last_to, least),
                HINT = format('Make one that reaches into the month after next, and later ones by snowflake_make_partitions(): '
                              'CREATE TABLE %s.%I PARTITION OF %s FOR VALUES FROM (%s) TO (%s);',
                              class.schema, left(class.relname, 50) || '_adopted', relation, todo.last_to, probe);
        END IF;
    END IF;

    -- An identity comes off in a statement of its own, as the server wants it.
    statements := statements || ARRAY(
        SELECT format('ALTER TABLE %s ALTER COLUMN %I DROP IDENTITY;', m.attrelid::regclass, column_name)
          FROM pg_attribute AS m
         WHERE m.attrelid = ANY (tree) AND m.attname = column_name AND NOT reverts
           -- an identity of its own has a sequence: a partition may have its parent's
           AND EXISTS (SELECT FROM pg_depend AS d
                        WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
                          AND d.refobjid = m.attrelid AND d.refobjsubid = m.attnum AND d.deptype = 'i')
         ORDER BY array_position(tree, m.attrelid));

    -- The key and what refers to it, a table at a time, each table after those
    -- that it refers to; what refers to its own table changes along with it.
    FOR todo IN
        WITH RECURSIVE referring(relid, attname, level, path) AS (
            SELECT relation::oid, column_name, 0, ARRAY[ROW(relation::oid, column_name)::text]
            UNION ALL
            SELECT f.relid, a.attname, r.level + (f.relid <> r.relid)::integer,
                   r.path || ROW(f.relid, a.attname)::text
              FROM referring AS r
             CROSS JOIN LATERAL (SELECT relid FROM pg_partition_tree(r.relid)
                                 UNION SELECT unnest(tree) WHERE r.relid = relation
                                 UNION SELECT r.relid) AS member(relid)
              JOIN pg_attribute AS k ON k.attrelid = member.relid AND k.attname = r.attname
              JOIN pg_constraint AS c ON c.confrelid = member.relid
             CROSS JOIN LATERAL unnest(c.conkey, c.confkey) AS pair(attnum, referred)
              JOIN pg_attribute AS a ON a.attrelid = c.conrelid AND a.attnum = pair.attnum
             CROSS JOIN LATERAL (SELECT coalesce(pg_partition_root(c.conrelid), c.conrelid)::oid) AS f(relid)
             WHERE pair.referred = k.attnum AND ROW(f.relid, a.attname)::text <> ALL (r.path)
        ), columns AS (
            SELECT relid, attname, max(level) AS level FROM referring GROUP BY relid, attname
        )
        SELECT x.relid::regclass AS name, x.attname, x.level, c.relname, a.atttypid,
               CASE WHEN reverts THEN own_type NOT IN (a.atttypid, b.typbasetype)
                    ELSE a.atttypid = column_type OR b.typbasetype IN ('bigint'::regtype, own_type) END AS is_done,
               lead(ROW(x.level, x.relid)) OVER follow IS DISTINCT FROM ROW(x.level, x.relid) AS is_last,
               -- what the server would not let the type be changed under
               concat_ws(', ',
                   CASE WHEN b.typtype = 'd' THEN 'type ' || format_type(a.atttypid, NULL) END,
                   CASE WHEN a.attinhcount > 0 THEN 'its inheritance' END,
                   CASE WHEN a.attidentity <> '' AND (x.relid, x.attname) <> (relation, column_name) THEN 'its identity' END,
                   CASE WHEN format('%s.%s', a.attrelid, a.attnum) = ANY (distributed_by)
                        THEN 'that Citus distributes by it' END,
                   CASE WHEN NOT pg_has_role(class.owner, c.relowner, 'USAGE')
                        THEN 'ownership of table ' || c.relname END,
                   (SELECT string_agg(DISTINCT d.object, ', ' ORDER BY d.object)
                      FROM pg_attribute AS m
                      JOIN pg_depend AS p ON p.refclassid = 'pg_class'::regclass
                           AND p.refobjid = m.attrelid AND p.refobjsubid = m.attnum
                      LEFT JOIN pg_attrdef AS g ON p.classid = 'pg_attrdef'::regclass AND g.oid = p.objid
                     CROSS JOIN LATERAL pg_describe_object(p.classid, p.objid, p.objsubid) AS d(object)
                     WHERE m.attname = x.attname
                       AND (m.attrelid = x.relid OR x.relid = relation AND m.attrelid = ANY (tree)
                            OR m.attrelid IN (SELECT relid FROM pg_partition_tree(x.relid)))
                       AND (p.classid IN ('pg_rewrite'::regclass, 'pg_trigger'::regclass, 'pg_policy'::regclass,
                                          'pg_proc'::regclass, 'pg_publication_rel'::regclass)
                            OR g.adnum <> m.attnum)),
                   (SELECT string_agg('partition key of ' || d.object, ', ' ORDER BY d.object)
                      FROM pg_attribute AS m
                      JOIN pg_depend AS p ON p.classid = 'pg_class'::regclass AND p.objid = m.attrelid
                           AND p.objsubid = m.attnum AND p.refclassid = 'pg_class'::regclass
                     CROSS JOIN LATERAL pg_describe_object(p.refclassid, p.refobjid, 0) AS d(object)
                     WHERE m.attname = x.attname
                       AND (m.attrelid = x.relid OR m.attrelid IN (SELECT relid FROM pg_partition_tree(x.relid)))),
                   (SELECT string_agg(format('foreign key %s to a column of type %s', o.conname,
                                             format_type(k.atttypid, NULL)), ', ' ORDER BY o.conname)
                      FROM pg_constraint AS o
                     CROSS JOIN LATERAL unnest(o.conkey, o.confkey) AS pair(attnum, referred)
                      JOIN pg_attribute AS k ON k.attrelid = o.confrelid AND k.attnum = pair.referred
                     WHERE o.conrelid = x.relid AND pair.attnum = a.attnum
                       AND k.atttypid IN ('smallint'::regtype, 'integer'::regtype)
                       AND NOT EXISTS (SELECT FROM columns AS y WHERE y.attname = k.attname
                                         AND y.relid = coalesce(pg_partition_root(o.confrelid), o.confrelid)))
               ) AS obstacle
          FROM columns AS x
          JOIN pg_class AS c ON c.oid = x.relid
          JOIN pg_attribute AS a ON a.attrelid = x.relid AND a.attname = x.attname
          JOIN pg_type AS b ON b.oid = a.atttypid
        WINDOW follow AS (ORDER BY x.level, c.relname, x.relid, a.attnum)
         ORDER BY x.level, c.relname, x.relid, a.attnum
    LOOP
        IF todo.is_done THEN
            NULL;
        ELSIF todo.obstacle = '' THEN
            clauses := concat_ws(', ', clauses, format('ALTER COLUMN %I TYPE %s', todo.attname, column_type));
        ELSIF (reverts OR todo.atttypid IN ('bigint'::regtype, own_type)) AND todo.level + (todo.attname <> column_name)::integer > 0 THEN
            RAISE NOTICE USING
                MESSAGE = format('column "%s" of table "%s" stays %s', todo.attname, todo.relname,
                                 CASE todo.atttypid WHEN own_type THEN 'snowflake' ELSE format_type(todo.atttypid, NULL) END),
                DETAIL = format('In the way of a change of its type: %s.', todo.obstacle);
        ELSE
            RAISE feature_not_supported USING
                MESSAGE = format('cannot change the type of column "%s" of table "%s"', todo.attname, todo.relname),
                DETAIL = format('In the way: %s.', todo.obstacle),
                HINT = 'Drop what is in the way, and create it again afterwards.'
                    || CASE WHEN reverts
                            THEN ' A generated column keeps its values by ALTER COLUMN ... DROP EXPRESSION. For partitions by the column see doc/install.md.'
                            WHEN todo.atttypid = 'bigint'::regtype
                            THEN format(' Or keep bigint, which mints as well: ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s;',
                                        todo.name, todo.attname, mint)
                            ELSE '' END;
        END IF;
        IF todo.level = 0 AND mint IS DISTINCT FROM key.value AND mint IS NOT NULL THEN
            default_clause := format('ALTER COLUMN %I SET DEFAULT %s', column_name, mint);
        END IF;
        IF todo.is_last THEN
            clauses := concat_ws(', ', clauses, default_clause);
            IF clauses <> '' THEN
                statements := statements || format('ALTER TABLE %s %s;', todo.name, clauses);
            END IF;
            clauses := NULL;
            default_clause := NULL;
        END IF;
    END LOOP;

    -- The sequence that the key had for itself.
    statements := statements || ARRAY(
        SELECT format(CASE WHEN EXISTS (
                   -- others take numbers from it
                   SELECT FROM pg_depend AS u
                     LEFT JOIN pg_attrdef AS e ON u.classid = 'pg_attrdef'::regclass AND e.oid = u.objid
                     LEFT JOIN pg_attribute AS o ON o.attrelid = e.adrelid AND o.attnum = e.adnum
                    WHERE u.refclassid = 'pg_class'::regclass AND u.refobjid = s.oid
                      AND (e.adrelid = ANY (tree) AND o.attname = column_name) IS NOT TRUE)
               THEN 'ALTER SEQUENCE %s OWNED BY NONE;' ELSE 'DROP SEQUENCE %s;' END, s.oid::regclass)
          FROM pg_attribute AS m
          JOIN pg_depend AS d ON d.refclassid = 'pg_class'::regclass
               AND d.refobjid = m.attrelid AND d.refobjsubid = m.attnum
          JOIN pg_class AS s ON d.classid = 'pg_class'::regclass AND s.oid = d.objid AND s.relkind = 'S'
         WHERE m.attrelid = ANY (tree) AND m.attname = column_name AND d.deptype = 'a' AND NOT reverts
         ORDER BY s.relname, s.oid);

    FOR todo IN
        SELECT need.schema, need.privilege
          FROM (VALUES (class.schema, 'USAGE'), (CASE WHEN is_new THEN class.schema END, 'CREATE'), (CASE WHEN NOT reverts THEN own END, 'USAGE'))
               AS need(schema, privilege)
         WHERE NOT has_schema_privilege(class.owner, need.schema, need.privilege)
    LOOP
        RAISE insufficient_privilege USING
            MESSAGE = format('permission denied for schema %s', todo.schema),
            DETAIL = format('The statements run as %s, the owner of table "%s".', class.owner, class.relname),
            HINT = format('GRANT %s ON SCHEMA %s TO %s;', todo.privilege, todo.schema, class.owner);
    END LOOP;
    FOREACH statement IN ARRAY statements LOOP
        IF NOT dry_run AND class.owner = current_user::regrole THEN
            EXECUTE statement;      -- without the library, too
        ELSIF NOT dry_run THEN
            EXECUTE format('SELECT %s.snowflake_run_as_owner($1, $2)', own) USING relation, statement;
        END IF;
        RETURN NEXT statement;
    END LOOP;
    IF sequence_name IS NOT NULL THEN
        statement := format('SELECT setval(%L, max(%I)) FROM %s HAVING max(%2$I) > 0;', sequence_name, column_name, relation);
        IF NOT dry_run AND class.owner = current_user::regrole THEN
            EXECUTE statement;
        ELSIF NOT dry_run THEN
            EXECUTE format('SELECT %1$s.snowflake_run_as_owner($1, format(''SELECT setval(%%L, %%s)'', $2, look.newest)) '
                           '  FROM %1$s.snowflake_newest($1, $3, true, 5000) AS look WHERE look.newest > 0', own)
                USING relation, sequence_name, column_name;
        END IF;
        RETURN NEXT statement;
    END IF;
    PERFORM set_config('lock_timeout', lock_timeout, true);
END
$$;

CREATE FUNCTION @extschema@.snowflake_adopt(relation regclass, column_name name, shard integer DEFAULT NULL,
        dry_run boolean DEFAULT true, column_type regtype DEFAULT '@extschema@.snowflake')
    RETURNS SETOF text LANGUAGE sql VOLATILE PARALLEL UNSAFE
    BEGIN ATOMIC SELECT @extschema@.snowflake_change_key(relation, column_name, shard, dry_run, column_type, false); END;
CREATE FUNCTION @extschema@.snowflake_revert(relation regclass, column_name name, dry_run boolean DEFAULT true)
    RETURNS SETOF text LANGUAGE sql VOLATILE PARALLEL UNSAFE
    BEGIN ATOMIC SELECT @extschema@.snowflake_change_key(relation, column_name, NULL::integer, dry_run, 'bigint'::regtype, true); END;

COMMENT ON FUNCTION @extschema@.snowflake_change_key(regclass, name, integer, boolean, regtype, boolean) IS 'called by snowflake_adopt and snowflake_revert';
COMMENT ON FUNCTION @extschema@.snowflake_revert(regclass, name, boolean) IS 'turn a key that mints itself into a bigint with a sequence';
COMMENT ON FUNCTION @extschema@.snowflake_adopt(regclass, name, integer, boolean, regtype) IS 'turn a serial, identity or integer key into one that mints itself';
