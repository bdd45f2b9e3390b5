// readers.mjs -- what readers of new rows miss, what stops them, and what they cost
//
//   node readers.mjs SECONDS [STORE...]
//
// Writers append events, and commit up to 200 ms late.  Readers ask for what is new, each in
// its own way, while another transaction stands idle.  Some stores are tables of our own, the
// others libraries of npm.  Connects as the PG* environment variables say, to a server on this
// machine that has the extension and wal_level = logical.  Makes the databases "events", anew
// for each run, and "elsewhere".  Prints a line of JSON for each reader beside each transaction.

import { randomUUID } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import pg from "pg";

const [SECONDS, WANTED] = [Number(process.argv[2] ?? 5), process.argv.slice(3)];
const WRITERS = 8;
const PAUSE_MS = 20;        // between two questions of our readers; libraries ask as they do by default
const MISS = ["last id", "schemeless"];
const quiet_ms = (names) => names.every((name) => MISS.includes(name)) ? 2000 : 10000;     // then nothing more will come
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const library = (name) => new URL(`node_modules/${name}/`, import.meta.url);

// A reader's sessions have its name, by which their processor time is found.
const address = (name, more = {}) => ({ host: process.env.PGHOST, port: Number(process.env.PGPORT),
  user: process.env.PGUSER, database: "events", application_name: name, ...more });

const url = (name, path) => `postgresql://${process.env.PGUSER}@localhost:${process.env.PGPORT}/events`
  + `?host=${encodeURIComponent(process.env.PGHOST)}&application_name=${name}&options=${encodeURIComponent(`-csearch_path=${path}`)}`;

// What a run has begun is ended in the end, the latest first.
const begun = [];

async function connect(name, more) {
  const client = new pg.Client(address(name, more));
  await client.connect();
  begun.push(() => client.end());
  return client;
}

// Ask in a session of its own, again and again.
async function poll(name, see, next) {
  const client = await connect(name);
  let ended = false;
  const polling = (async () => {
    while (!ended) {
      for (const { key } of await next(client)) see(key);
      await sleep(PAUSE_MS);
    }
  })();
  begun.push(() => { ended = true; return polling; });
}

// ------------------------------------------------------------------ a table of our own

const makeTable = (client) => client.query(`CREATE TABLE events (id bigint PRIMARY KEY DEFAULT snowflake_nextval(),
    seq bigint NOT NULL GENERATED ALWAYS AS IDENTITY UNIQUE, xid xid8 NOT NULL DEFAULT pg_current_xact_id(), key text NOT NULL)`);

const byLastId = (name, see) => {
  let last = 0;
  return poll(name, see, async (client) => {
    const { rows } = await client.query("SELECT key, seq FROM events WHERE seq > $1 ORDER BY seq", [last]);
    if (rows.length) last = rows.at(-1).seq;
    return rows;
  });
};

// A number that is missing is waited for, but no longer than this: it may have been rolled back.
const PATIENCE_MS = 1000;
const byGaps = (name, see) => {
  const missing = new Map();                    // since when
  let [last, greatest] = [0, 0];
  return poll(name, see, async (client) => {
    const { rows } = await client.query("SELECT key, seq::integer FROM events WHERE seq > $1 ORDER BY seq", [last]);
    const now = performance.now();
    while (greatest < (rows.at(-1)?.seq ?? 0)) missing.set(++greatest, now);
    for (const { seq } of rows) missing.delete(seq);
    const end = [...missing].find(([, since]) => now < since + PATIENCE_MS)?.[0] ?? Infinity;
    const ready = rows.filter(({ seq }) => seq < end);
    if (ready.length) last = ready.at(-1).seq;
    return ready;
  });
};

const byTransactionIds = (name, see) => {
  let [xid, last] = ["0", 0];
  return poll(name, see, async (client) => {
    const { rows } = await client.query(`SELECT key, xid::text, seq FROM events WHERE (xid, seq) > ($1::xid8, $2)
        AND xid < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY events.xid, seq`, [xid, last]);
    if (rows.length) ({ xid, seq: last } = rows.at(-1));
    return rows;
  });
};

const byMark = (name, see) => {
  let mark = "0";
  return poll(name, see, async (client) => {
    const next = (await client.query("SELECT snowflake_settled() AS mark")).rows[0].mark;
    const { rows } = await client.query("SELECT key FROM events WHERE id >= $1 AND id < $2 ORDER BY id", [mark, next]);
    mark = next;
    return rows;
  });
};

// ------------------------------------------------------------------ message-db

async function makeMessageDb(client) {
  const folder = new URL("database/", library("@eventide/message-db"));
  for (const file of ["roles/message-store", "schema/message-store", "extensions/pgcrypto", "types/message", "tables/messages",
    ...["hash-64", "category", "is-category", "id", "cardinal-id", "acquire-lock", "stream-version", "write-message",
      "get-category-messages"].map((name) => `functions/${name}`),
    "indexes/messages-category", "indexes/messages-id", "indexes/messages-stream"])
    await client.query(readFileSync(new URL(`${file}.sql`, folder), "utf8"));
  await client.query(`ALTER DATABASE events SET search_path = message_store, public;
      ALTER DATABASE events SET message_store.sql_condition = on`);
}

// Ids for positions, and a lock for a stream instead of one for its category
async function makeMessageDbWithIds(client) {
  await makeMessageDb(client);
  await client.query(`ALTER TABLE message_store.messages ALTER global_position SET DEFAULT public.snowflake_nextval();
      CREATE OR REPLACE FUNCTION message_store.acquire_lock(stream_name varchar) RETURNS bigint LANGUAGE sql
        AS $$ SELECT pg_advisory_xact_lock(message_store.hash_64(stream_name)); SELECT message_store.hash_64(stream_name) $$`);
}

const byCategory = (condition) => (name, see) => {
  let last = "0";
  return poll(name, see, async (client) => {
    const { rows } = await client.query(`SELECT data::json ->> 'key' AS key, global_position
        FROM get_category_messages('order', $1::bigint + 1, 1000, condition => $2)`, [last, condition]);
    if (rows.length) last = rows.at(-1).global_position;
    return rows;
  });
};

const writeMessage = async (stream) => {
  const client = await connect("writer");
  return (key) => client.query("SELECT write_message($1, $2, 'made', $3)", [randomUUID(), stream, { key }]);
};

// ------------------------------------------------------------------ emmett

async function emmett(name, path = "public", schema = { autoMigration: "None" }) {
  const { getPostgreSQLEventStore } = await import("@event-driven-io/emmett-postgresql");
  const store = getPostgreSQLEventStore(url(name, path), { schema });
  begun.push(() => store.close());
  return store;
}

async function makeEmmett() {
  const store = await emmett("schema", "public", { autoMigration: "CreateOrUpdate" });
  await store.schema.migrate();
}

// The consumer finds this view first.
async function makeEmmettWithIds(client) {
  await makeEmmett();
  await client.query(`ALTER TABLE emt_messages ALTER global_position SET DEFAULT snowflake_nextval();
      CREATE SCHEMA consumer;
      CREATE VIEW consumer.emt_messages AS
          SELECT stream_id, stream_position, global_position, message_data, message_metadata, message_schema_version,
                 message_type, message_id, partition, is_archived, '0'::xid8 AS transaction_id
            FROM public.emt_messages WHERE global_position < snowflake_settled()`);
}

const byConsumer = (path) => async (name, see) => {
  const store = await emmett(name.replaceAll(" ", "_"), path);
  const consumer = store.consumer();
  consumer.reactor({ processorId: "reader", startFrom: "BEGINNING", eachMessage: (message) => see(message.data.key) });
  const running = consumer.start();
  begun.push(async () => { await consumer.stop(); await running.catch(() => {}); });
};

const appendToStream = async (stream) => {
  const store = await emmett("writer");
  return (key) => store.appendToStream(stream, [{ type: "made", data: { key } }]);
};

// ------------------------------------------------------------------ pg-transactional-outbox

const OUTBOX = { dbSchema: "public", dbTable: "outbox", nextMessagesFunctionName: "next_messages", dbPublication: "outbox", dbReplicationSlot: "outbox",
  enableMaxAttemptsProtection: false, enablePoisonousMessageProtection: false };
const outbox = (name) => ({ outboxOrInbox: "outbox", settings: OUTBOX, dbListenerConfig: address(name), dbHandlerConfig: address(name) });

async function makeOutbox(client) {
  const { DatabaseSetup: setup } = await import("pg-transactional-outbox");
  const names = { outboxOrInbox: "outbox", schema: "public", table: "outbox", nextMessagesSchema: "public",
    nextMessagesName: OUTBOX.nextMessagesFunctionName, listenerRole: process.env.PGUSER, publication: "outbox", replicationSlot: "outbox" };
  await client.query(setup.dropAndCreateTable(names) + setup.createPollingFunction(names) + setup.setupPollingIndexes(names)
    + setup.setupReplicationCore(names));
  await client.query("SELECT pg_create_logical_replication_slot('outbox', 'pgoutput')");
}

const byListener = (kind) => async (name, see) => {
  const outboxes = await import("pg-transactional-outbox");
  const [stop] = outboxes[`initialize${kind}MessageListener`](outbox(name), { handle: async (message) => see(message.payload.key) },
    outboxes.getDisabledLogger());
  begun.push(stop);
};

const storeMessage = async (stream) => {
  const outboxes = await import("pg-transactional-outbox");
  const client = await connect("writer");
  const store = outboxes.initializeMessageStorage(outbox("writer"), outboxes.getDisabledLogger());
  return (key) => store({ id: randomUUID(), aggregateType: "order", aggregateId: stream, messageType: "made", segment: stream, payload: { key } }, client);
};

// ------------------------------------------------------------------ @schemeless/event-store-adapter-pg

async function schemeless(name) {
  const { PgEventStoreAdapter } = await import("@schemeless/event-store-adapter-pg");
  const store = new PgEventStoreAdapter(address(name));
  begun.push(() => store.close());
  return store;
}

const byAllEvents = async (name, see) => {
  const store = await schemeless(name);
  let [last, ended] = [undefined, false];
  const polling = (async () => {
    for (; !ended; await sleep(PAUSE_MS))
      for await (const events of await store.getAllEvents(1000, last)) {
        for (const { payload } of events) see(payload.key);
        last = events.at(-1).id;
      }
  })();
  begun.push(() => { ended = true; return polling; });
};

// ------------------------------------------------------------------ all of them

const insertEvent = async () => {
  const client = await connect("writer");
  return async (key) => {
    if (Math.random() < 0.01) await client.query("BEGIN; INSERT INTO events (key) VALUES ('never'); ROLLBACK");
    await client.query("INSERT INTO events (key) VALUES ($1)", [key]);
  };
};

// What makes the tables, the one whose commits are late, what gives a stream's writer, and the readers
const stores = {
  "table": { make: makeTable, late: "events", writer: insertEvent,
    readers: { "last id": byLastId, "gaps": byGaps, "transaction ids": byTransactionIds, "mark": byMark } },
  "turns": { make: makeTable, late: "events", readers: { "turns": byLastId }, writer: async () => {
    const client = await connect("writer");
    return (key) => client.query(`BEGIN; SELECT pg_advisory_xact_lock(1); INSERT INTO events (key) VALUES ('${key}'); COMMIT`);
  } },
  "schemeless": { needs: "@schemeless/event-store-adapter-pg", late: "event_store_entity", readers: { "schemeless": byAllEvents },
    make: async () => (await schemeless("schema")).init(),
    writer: async (stream) => {
      const store = await schemeless("writer");
      return (key) => store.append([{ domain: "order", type: "made", identifier: stream, payload: { key } }]);
    } },
  "emmett": { needs: "@event-driven-io/emmett-postgresql", make: makeEmmett, late: "emt_messages", writer: appendToStream,
    readers: { "emmett": byConsumer("public") } },
  "emmett, mark": { needs: "@event-driven-io/emmett-postgresql", make: makeEmmettWithIds, late: "emt_messages", writer: appendToStream,
    readers: { "emmett, mark": byConsumer("consumer,public") } },
  "message-db": { needs: "@eventide/message-db", make: makeMessageDb, late: "message_store.messages", writer: writeMessage,
    readers: { "message-db": byCategory(null) } },
  "message-db, mark": { needs: "@eventide/message-db", make: makeMessageDbWithIds, late: "message_store.messages", writer: writeMessage,
    readers: { "message-db, mark": byCategory("global_position < public.snowflake_settled()") } },
  "outbox": { needs: "pg-transactional-outbox", make: makeOutbox, late: "outbox", writer: storeMessage,
    readers: { "outbox, polling": byListener("Polling") } },
  "outbox, decoding": { needs: "pg-transactional-outbox", make: makeOutbox, late: "outbox", writer: storeMessage,
    readers: { "outbox, decoding": byListener("Replication") } },
};

// Transactions that stand idle: where, and what they have done
const transactions = {
  "none": ["events", "SELECT 1"],
  "wrote here": ["events", "INSERT INTO other VALUES (1)"],
  "wrote elsewhere": ["elsewhere", "CREATE TABLE other (n integer)"],
  "minted here": ["events", "SELECT public.snowflake_nextval()"],
};

async function makeDatabases(store) {
  const server = await connect("schema", { database: "postgres" });
  await server.query("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active");
  for (const name of ["events", "elsewhere"]) {
    await server.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
    await server.query(`CREATE DATABASE ${name}`);
  }
  const client = await connect("schema");
  await client.query("CREATE EXTENSION snowflake; CREATE TABLE other (n integer)");
  await store.make(client);
  await client.query(`CREATE FUNCTION public.late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(random() * 0.2); RETURN NULL; END $$;
      CREATE CONSTRAINT TRIGGER late AFTER INSERT ON ${store.late} DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.late()`);
  return client;
}

// How long a reader's sessions had a processor, in nanoseconds; sessions come and go.
async function sample(client, times) {
  const { rows } = await client.query("SELECT pid, replace(application_name, '_', ' ') AS name FROM pg_stat_activity WHERE datname = 'events'");
  for (const { pid, name } of rows)
    if (times[name])
      try { times[name].set(pid, Number(readFileSync(`/proc/${pid}/schedstat`, "utf8").split(" ")[0])); } catch { /* it has ended */ }
}

async function run(store, idle) {
  const client = await makeDatabases(store);
  const [database, statement] = transactions[idle];
  const other = await connect("idle", { database });
  await other.query("BEGIN");
  await other.query(statement);

  const committed = new Map();                  // when, by key
  const names = Object.keys(store.readers);
  const times = Object.fromEntries(names.map((name) => [name, new Map()]));
  const seen = Object.fromEntries(names.map((name) => [name, []]));
  let latest = 0;
  await Promise.all(names.map((name) => store.readers[name](name, (key) => {
    latest = performance.now();
    seen[name].push([key, latest]);
  })));
  const keys = (name) => new Set(seen[name].map(([key]) => key));

  // until each has read all, or nothing comes any more
  const settle = async () => {
    latest = performance.now();
    for (let behind = names; behind.length && performance.now() < latest + quiet_ms(behind); await sleep(50))
      behind = names.filter((name) => keys(name).size < committed.size);
  };

  const writers = await Promise.all(Array.from({ length: WRITERS }, (_, i) => store.writer(`order-${i}`)));
  const until = performance.now() + SECONDS * 1000;
  const watching = (async () => {
    for (; performance.now() < until; await sleep(200)) await sample(client, times);
    await sample(client, times);
  })();
  await Promise.all(writers.map(async (append, i) => {
    for (let n = 0; performance.now() < until; n++) {
      await append(`${i}-${n}`);
      committed.set(`${i}-${n}`, performance.now());
    }
  }));
  await watching;
  await settle();
  const in_time = Object.fromEntries(names.map((name) => [name, keys(name).size]));
  await other.query("ROLLBACK");
  if (idle !== "none") await settle();
  while (begun.length) await begun.pop()();

  for (const name of names) {
    const read = keys(name);
    const delays = seen[name].map(([key, at]) => at - committed.get(key)).sort((a, b) => a - b);
    const nanoseconds = [...times[name].values()].reduce((sum, time) => sum + time, 0);
    console.log(JSON.stringify({ reader: name, idle, committed: committed.size,
      missed: [...committed.keys()].filter((key) => !read.has(key)).length, twice: seen[name].length - read.size, in_time: in_time[name],
      median_ms: Math.round(delays[delays.length >> 1] ?? 0), cpu_us: Math.round(nanoseconds / 1000 / committed.size) }));
  }
}

for (const [name, store] of Object.entries(stores)) {
  if (WANTED.length && !WANTED.includes(name)) continue;
  if (store.needs && !existsSync(library(store.needs))) {
    console.log(JSON.stringify({ store: name, not_installed: store.needs }));
    continue;
  }
  for (const idle of Object.keys(transactions)) await run(store, idle);
}
process.exit(0);
