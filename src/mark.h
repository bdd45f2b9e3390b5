/* mark.h -- reading what is new. See mark.c. */
#ifndef SNOWFLAKE_MARK_H
#define SNOWFLAKE_MARK_H

extern void mark_install_hooks(void);
extern Size mark_shmem_size(void);
extern void mark_shmem_startup(void);

#endif /* SNOWFLAKE_MARK_H */
