import { relations, sql } from 'drizzle-orm';
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

export const comments = pgTable('comments', {
    id: snowflake().primaryKey().default(sql`snowflake_nextval()`),
    photoId: snowflake('photo_id').notNull().references(() => photos.id),
});

export const photosRelations = relations(photos, ({ many }) => ({ comments: many(comments) }));
export const commentsRelations = relations(comments, ({ one }) => ({
    photo: one(photos, { fields: [comments.photoId], references: [photos.id] }),
}));
