// emmett.mjs -- what a consumer of @event-driven-io/emmett-postgresql misses, and what stops it
//
//   node emmett.mjs SECONDS [STATEMENT]
//
// As readers.js, with the library's own writers and consumer.  A deferred trigger makes each
// commit up to 200 ms late.  A transaction that has run STATEMENT, on a table other(n integer),
// stands idle meanwhile.  Needs an empty database.  Prints a line of JSON.

import { getPostgreSQLEventStore } from "@event-driven-io/emmett-postgresql";
import pg from "pg";

const SECONDS = Number(process.argv[2] ?? 5);
const WRITERS = 8;
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const url = `postgresql://${process.env.PGUSER}@localhost:${process.env.PGPORT}/${process.env.PGDATABASE}?host=${encodeURIComponent(process.env.PGHOST)}`;

const setup = new pg.Client();
await setup.connect();
const store = getPostgreSQLEventStore(url);
await store.schema.migrate();
await setup.query(`CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(random() * 0.2); RETURN NULL; END $$;
  CREATE CONSTRAINT TRIGGER late AFTER INSERT ON emt_messages DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION late();
  CREATE TABLE other (n integer)`);

async function run(disturbance, statement) {
  const idle = new pg.Client();
  await idle.connect();
  if (statement) { await idle.query("BEGIN"); await idle.query(statement); }
  const [committed, seen] = [new Map(), []];
  const consumer = store.consumer();
  const add = consumer.reactor ?? consumer.processor;
  add.call(consumer, { processorId: disturbance.replaceAll(" ", "_"), startFrom: "BEGINNING",
    eachMessage: (message) => { seen.push([message.data.key, performance.now()]); } });
  const running = consumer.start();
  await sleep(500);
  const until = performance.now() + SECONDS * 1000;
  await Promise.all(Array.from({ length: WRITERS }, async (_, i) => {
    for (let n = 0; performance.now() < until; n++) {
      const key = `${disturbance}-${i}-${n}`;
      await store.appendToStream(`${disturbance}-${i}`, [{ type: "made", data: { key } }]);
      committed.set(key, performance.now());
    }
  }));
  await sleep(3000);
  const in_time = new Set(seen.map(([key]) => key)).size;
  if (statement) await idle.query("ROLLBACK");
  await idle.end();
  await sleep(15000);
  await consumer.stop();
  await running.catch(() => {});
  const read = new Set(seen.map(([key]) => key));
  const delays = seen.map(([key, at]) => at - committed.get(key)).sort((a, b) => a - b);
  console.log(JSON.stringify({ disturbance, reader: "emmett", committed: committed.size, missed: [...committed.keys()].filter((key) => !read.has(key)).length,
    twice: seen.length - read.size, in_time, median_ms: Math.round(delays[delays.length >> 1] ?? 0) }));
}

await run(process.argv[3] ?? "nothing", process.argv[3]);
await store.close();
await setup.end();
process.exit(0);
