-- peers.sql -- the functions that circulate where there is no extension
--
-- Written from what is said about them, faults included.

-- After the one that Instagram published: 41 bits of milliseconds, 13 of a
-- shard, 10 of a sequence.  Often seen with now(), the start of the
-- transaction, and then it repeats itself after 1,024 ids of a transaction.
CREATE SEQUENCE plpgsql_modulo_seq;
CREATE FUNCTION plpgsql_modulo() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	epoch constant bigint := 1314220021721;
	shard constant bigint := 5;
	number bigint;
	ms bigint;
BEGIN
	SELECT nextval('plpgsql_modulo_seq') % 1024 INTO number;
	SELECT floor(extract(epoch FROM now()) * 1000) INTO ms;
	RETURN ((ms - epoch) << 23) | (shard << 10) | number;
END $$;

-- The other one: 41 bits of milliseconds, 10 of a node, 12 of a sequence that
-- cycles, each part checked for its range before the id is put together.
CREATE SEQUENCE plpgsql_checked_seq MINVALUE 0 MAXVALUE 4095 CYCLE;
CREATE FUNCTION plpgsql_checked(node integer DEFAULT 5) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	epoch constant bigint := 1288834974657;
	number bigint;
	ms bigint;
BEGIN
	IF node < 0 OR node > 1023 THEN
		RAISE EXCEPTION 'node % is not from 0 to 1023', node;
	END IF;
	ms := floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - epoch;
	IF ms < 0 OR ms > (1::bigint << 41) - 1 THEN
		RAISE EXCEPTION 'time % does not fit 41 bits', ms;
	END IF;
	number := nextval('plpgsql_checked_seq');
	IF number < 0 OR number > 4095 THEN
		RAISE EXCEPTION 'number % is not from 0 to 4095', number;
	END IF;
	RETURN (ms << 22) | (node::bigint << 12) | number;
END $$;

-- The best of them: the sequence is the position, and a call that finds it behind the
-- clock moves it.  Two calls that find it so move it twice, and the second one back.
CREATE SEQUENCE plpgsql_moved_seq;
CREATE FUNCTION plpgsql_moved() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	clock bigint := (floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1288834974657) << 12;
	number bigint := nextval('plpgsql_moved_seq');
BEGIN
	IF number < clock THEN
		number := setval('plpgsql_moved_seq', clock);
	END IF;
	RETURN ((number >> 12) << 22) | (5::bigint << 12) | (number & 4095);
END $$;
