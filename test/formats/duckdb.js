// duckdb.js -- run duckdb.sql on lines of layout and id, by the package @duckdb/node-api
//
//   node duckdb.js < LINES

'use strict';

const fs = require('fs');
const { DuckDBInstance } = require('@duckdb/node-api');

async function main() {
    const connection = await (await DuckDBInstance.create(':memory:')).connect();
    const values = fs.readFileSync(0, 'utf8').trim().split('\n').map((line, n) => {
        const [layout, id] = line.split(',');
        return `(${n}, '${layout}', ${id}::BIGINT)`;
    });

    await connection.run(`CREATE TABLE ids AS SELECT * FROM (VALUES ${values.join(',')}) AS i (n, layout, id)`);
    const [layouts, query] = fs.readFileSync(`${__dirname}/duckdb.sql`, 'utf8').trim().split(';\n');
    await connection.run(layouts);
    const sql = `SELECT layout, id::TEXT, strftime(created_at, '%Y-%m-%dT%H:%M:%S.%g') || 'Z', shard::TEXT, sequence::TEXT
                   FROM (${query.replace(/;$/, '')}) JOIN ids USING (layout, id) ORDER BY n`;
    for (const row of (await connection.runAndReadAll(sql)).getRows())
        console.log(row.join(','));
}

main();
