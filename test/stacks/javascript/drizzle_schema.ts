import { sql } from 'drizzle-orm';
import { bigint, customType, pgTable, text } from 'drizzle-orm/pg-core';

// An id is a BigInt in the program.
const snowflake = customType<{ data: bigint; driverData: string }>({
    dataType: () => 'snowflake',
    fromDriver: BigInt,
    toDriver: String,
});

export const photos = pgTable('photos', {
    id: snowflake().primaryKey().default(sql`snowflake_nextval()`),
    url: text().notNull(),
    related: bigint({ mode: 'bigint' }).array().notNull().default(sql`'{}'`),
});
