// readers.js -- what readers of new rows miss, and what stops them
//
//   node readers.js SECONDS
//
// Writers commit up to 200 ms after their INSERT.  At the same time readers ask for what
// is new, each in its own way, while another transaction stands idle.  Connects as the PG*
// environment variables say, to a database with the extension; uses another one, "elsewhere".
// Prints a line of JSON for each disturbance and reader.

const pg = require("pg");

const SECONDS = Number(process.argv[2] ?? 5);
const WRITERS = 8;
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

async function connect(database) {
  const client = new pg.Client(database ? { database } : {});
  await client.connect();
  return client;
}

const one = async (client, text, values) => (await client.query(text, values)).rows[0];

// Each reader keeps where it is, and gives the rows that are new to it.
const readers = {
  "the last id": () => {
    let last = 0;
    return async (client) => {
      const { rows } = await client.query("SELECT seq FROM events WHERE seq > $1 ORDER BY seq", [last]);
      if (rows.length) last = rows[rows.length - 1].seq;
      return rows;
    };
  },
  "transaction ids": () => {
    let [xid, last] = ["0", 0];
    return async (client) => {
      const { rows } = await client.query(
        `SELECT xid::text, seq FROM events WHERE (xid, seq) > ($1::xid8, $2)
            AND xid < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY events.xid, seq`, [xid, last]);
      if (rows.length) ({ xid, seq: last } = rows[rows.length - 1]);
      return rows;
    };
  },
  "the mark": () => {
    let mark = "0";
    return async (client) => {
      const { next } = await one(client, "SELECT snowflake_settled() AS next");
      const { rows } = await client.query("SELECT seq FROM events WHERE id >= $1 AND id < $2 ORDER BY id", [mark, next]);
      mark = next;
      return rows;
    };
  },
};

// What stands idle in a transaction, from then on
const disturbances = {
  "nothing": () => null,
  "a transaction that wrote here": async () => begin(await connect(), "INSERT INTO other VALUES (1)"),
  "one that wrote in another database": async () => begin(await connect("elsewhere"), "CREATE TABLE IF NOT EXISTS other (n integer)"),
  "one that minted here": async () => begin(await connect(), "SELECT snowflake_nextval()"),
};

async function begin(client, statement) {
  await client.query("BEGIN");
  await client.query(statement);
  return client;
}

// Write until told to stop; note when each event was committed.  With a lock, one at a time.
async function write(until, committed, lock) {
  const client = await connect();
  while (!until.stop) {
    await client.query("BEGIN");
    if (lock) await client.query("SELECT pg_advisory_xact_lock(1)");
    const { seq } = await one(client, "INSERT INTO events DEFAULT VALUES RETURNING seq");
    await sleep(Math.random() * 200);
    await client.query("COMMIT");
    committed.set(seq, performance.now());
  }
  await client.end();
}

async function read(until, next, seen) {
  const client = await connect();
  while (!until.stop) {
    for (const { seq } of await next(client)) seen.push([seq, performance.now()]);
    await sleep(20);
  }
  await client.end();
}

async function run(disturbance, names, lock) {
  const setup = await connect();
  await setup.query("TRUNCATE events RESTART IDENTITY");
  const idle = await disturbances[disturbance]();
  const [writing, reading, committed] = [{}, {}, new Map()];
  const seen = Object.fromEntries(names.map((name) => [name, []]));
  const writers = Array.from({ length: WRITERS }, () => write(writing, committed, lock));
  const tasks = names.map((name) => read(reading, readers[name](), seen[name]));

  await sleep(SECONDS * 1000);
  writing.stop = true;
  await Promise.all(writers);
  await sleep(500);
  const in_time = Object.fromEntries(names.map((name) => [name, new Set(seen[name].map(([seq]) => seq)).size]));
  if (idle) { await idle.query("ROLLBACK"); await idle.end(); }
  await sleep(1000);
  reading.stop = true;
  await Promise.all(tasks);
  await setup.end();
  for (const name of names) {
    const read = new Set(seen[name].map(([seq]) => seq));
    const delays = seen[name].map(([seq, at]) => at - committed.get(seq)).sort((a, b) => a - b);
    console.log(JSON.stringify({
      disturbance, reader: lock ? `${name}, writers one at a time` : name, committed: committed.size,
      missed: [...committed.keys()].filter((seq) => !read.has(seq)).length, twice: seen[name].length - read.size,
      in_time: in_time[name], median_ms: Math.round(delays[delays.length >> 1] ?? 0),
    }));
  }
}

(async () => {
  const setup = await connect();
  await setup.query(`DROP TABLE IF EXISTS events, other;
    CREATE TABLE events (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), seq bigserial UNIQUE,
        xid xid8 NOT NULL DEFAULT pg_current_xact_id());
    CREATE TABLE other (n integer)`);
  await setup.query("DROP DATABASE IF EXISTS elsewhere");
  await setup.query("CREATE DATABASE elsewhere");
  await setup.end();
  for (const disturbance of Object.keys(disturbances)) await run(disturbance, Object.keys(readers), false);
  await run("nothing", ["the last id"], true);
})();
