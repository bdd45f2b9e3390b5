// Run the SQL of standard input in PGlite, whose directory is the argument, and print
// the first column of each row, as psql -At does.

import { readFileSync } from "node:fs";
import { PGlite } from "@electric-sql/pglite";

const db = await PGlite.create(process.argv[2]);
for (const result of await db.exec(readFileSync(0, "utf8"), { rowMode: "array" }))
  for (const row of result.rows) console.log(String(row[0] ?? ""));
await db.close();
