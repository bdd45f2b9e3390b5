-- Say what comes next.  (Which layout is in use is known only to a preloaded library.)
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM @extschema@.snowflake_layouts WHERE in_use) THEN
        RAISE WARNING USING MESSAGE = 'snowflake is not preloaded, so no id can be minted yet',
            HINT = 'Add "snowflake" to "shared_preload_libraries" in postgresql.conf and restart the server.';
    END IF;
END
$$;
