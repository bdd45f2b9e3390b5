/* tables.h -- looking at a role's tables. See tables.c. */
#ifndef SNOWFLAKE_TABLES_H
#define SNOWFLAKE_TABLES_H

extern void check_may_read(Relation rel, AttrNumber column);

#endif /* SNOWFLAKE_TABLES_H */
