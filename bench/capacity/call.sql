INSERT INTO calls SELECT clock_timestamp(), snowflake_nextval(), clock_timestamp();
