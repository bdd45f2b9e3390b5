import { defineConfig } from 'drizzle-kit';

export default defineConfig({
    dialect: 'postgresql',
    schema: './drizzle_schema.ts',
    dbCredentials: { url: process.env.DATABASE_URL! },
    tablesFilter: ['!snowflake_*', '!pg_stat_snowflake*'],     // the extension's views
});
