import { defineConfig } from 'prisma/config';

export default defineConfig({
    schema: 'schema.prisma',
    datasource: { url: process.env.DATABASE_URL! },
    experimental: { externalTables: true },
    // have snowflake columns
    tables: { external: ['public.photos', 'public.comments', 'public.tags', 'public._PhotoToTag'] },
});
