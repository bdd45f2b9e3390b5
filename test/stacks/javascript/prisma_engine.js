#!/usr/bin/env node

// prisma_engine.js -- Prisma's schema engine, for where its program cannot be downloaded
//
// The command line of Prisma wants a program for "db pull", "db push" and "migrate",
// which is not in a package.  But the same engine is in one, as WebAssembly.  This runs
// it and talks to the command line as the program does: JSON-RPC, a line each, on standard
// input and output.  The variable PRISMA_SCHEMA_ENGINE_BINARY names it.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';

import { PrismaPg } from '@prisma/adapter-pg';
import { bindMigrationAwareSqlAdapterFactory } from '@prisma/driver-adapter-utils';
import * as engine from '@prisma/schema-engine-wasm/schema_engine_bg';
import connectionString from 'pg-connection-string';

const CHAR = 18;        // numbers of types
const TEXT = 25;

const { values, positionals } = parseArgs({
    allowPositionals: true,
    strict: false,
    options: { datasource: { type: 'string' }, datamodels: { type: 'string', multiple: true } },
});
const wasm = createRequire(import.meta.url).resolve('@prisma/schema-engine-wasm/schema_engine_bg')
    .replace(/js$/, 'wasm');
const { instance } = await WebAssembly.instantiate(readFileSync(wasm), { './schema_engine_bg.js': engine });
engine.__wbg_set_wasm(instance.exports);
instance.exports.__wbindgen_start();

// "cli can-connect-to-database" asks by the exit status; the first statement will show it.
if (positionals[0] === 'cli')
    process.exit();

// The adapter does not know the type "char", of which the catalogs have columns.
function knowChar(connection) {
    const performIO = connection.performIO.bind(connection);
    connection.performIO = async (query) => {
        const result = await performIO(query);
        for (const field of result.fields ?? [])
            field.dataTypeID = field.dataTypeID === CHAR ? TEXT : field.dataTypeID;
        return result;
    };
    return connection;
}

class Adapter extends PrismaPg {
    async connect() {
        return knowChar(await super.connect());
    }

    // It also drops a shadow database before it leaves it.
    async connectToShadowDb() {
        const shadow = knowChar(await super.connectToShadowDb());
        const pool = shadow.underlyingDriver();
        const dispose = shadow.dispose.bind(shadow);
        shadow.dispose = async () => {
            await pool.end();
            pool.end = async () => {};
            await dispose();
        };
        return shadow;
    }
}

// Parsed, since for a shadow database the adapter replaces the database's name.
const { url } = JSON.parse(values.datasource);
const schemaEngine = await engine.SchemaEngine.new(
    { datamodels: values.datamodels?.map((path) => [path, readFileSync(path, 'utf8')]) },
    (log) => process.stderr.write(`${log}\n`),
    bindMigrationAwareSqlAdapterFactory(new Adapter(connectionString.parse(url))));

const say = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);

for await (const line of createInterface({ input: process.stdin })) {
    const { id, method, params } = JSON.parse(line);
    if (!method)
        continue;           // an answer to "print"
    try {
        const result = await schemaEngine[method](params) ?? null;
        if (result?.stdout)
            say({ id, method: 'print', params: { content: result.stdout } });
        say({ id, result });
    } catch ({ message }) {
        say({ id, error: { code: 4466, message, data: { message, is_panic: false } } });
    }
}
process.exit();
