/* held.h -- what this server holds of the registry's shards. See held.c. */
#ifndef SNOWFLAKE_HELD_H
#define SNOWFLAKE_HELD_H

#include "datatype/timestamp.h"
#include "settings.h"

#define HELD_REASON_SIZE 512
#define HELD_HINT_SIZE 256
#define HELD_OTHER_SIZE 160
#define HELD_MAX_REFUSALS 64

/* Wait for any shard that the session asks for. */
#define HELD_ANY (-1)

/* The lease of a shard: ids whose time lies in [from, until). */
typedef struct Lease
{
	int32		shard;
	TimestampTz from;
	TimestampTz until;
} Lease;

/* Why this server does not get a shard that it wants. */
typedef enum RefusalKind
{
	REFUSED_TAKEN,	  /* "other" has it until "until" */
	REFUSED_FENCED,	  /* no lease begins before "until" */
	REFUSED_RESERVED, /* for "other", for good */
	REFUSED_EXHAUSTED /* "auto": none is free; one is at "until" */
} RefusalKind;

typedef struct Refusal
{
	RefusalKind kind;
	int32		shard; /* HELD_ANY: none in particular */
	TimestampTz until; /* DT_NOEND: unknown */
	char		other[HELD_OTHER_SIZE];
} Refusal;

/* What hindered the worker: a class, which every user may know ... */
typedef enum RegistryFailureKind
{
	REGISTRY_ANSWERED, /* nothing did */
	REGISTRY_AWAY,
	REGISTRY_SILENT,
	REGISTRY_REFUSED,
	REGISTRY_CLOSED,
	REGISTRY_INVALID,
	REGISTRY_UNSTORED /* what it leased could not be stored */
} RegistryFailureKind;

/* ... and the words and the way out, which only administrators may. */
typedef struct RegistryFailure
{
	RegistryFailureKind kind;
	char				text[HELD_REASON_SIZE];
	char				hint[HELD_HINT_SIZE]; /* empty: there is none */
} RegistryFailure;

/* What the worker tells of its last attempt to reach the registry. */
typedef struct HeldReport
{
	uint64			holder;		 /* 0: none yet */
	TimestampTz		answered_at; /* by the registry's clock; 0: never; ... */
	int64			asked_us;	 /* ... between these, by this server's ... */
	int64			answered_us; /* ... steady clock */
	int				refusals;
	Refusal			refusal[HELD_MAX_REFUSALS];
	RegistryFailure failure; /* of the last attempt */
} HeldReport;

/* Is a shard reserved in the registry, so that no server leases it? */
typedef enum SetAside
{
	SET_ASIDE_UNKNOWN, /* it does not answer */
	SET_ASIDE_TOO_MANY,
	SET_ASIDE_NOT,
	SET_ASIDE
} SetAside;

#define HELD_MAX_LOSSES 16

#define HELD_LOSS_HINT                                                          \
	"Ids can exist twice. Count this server's ids of that shard and time with " \
	"snowflake_audit(), and look for the same ids on the other server."

/* The registry has lost something, such as a lease of this server. */
typedef struct HeldLoss
{
	Lease lease; /* its shard can be HELD_ANY */
	char  what[HELD_OTHER_SIZE];
} HeldLoss;

/* What a caller remembers while it waits for the worker; zero at first. */
typedef struct HeldWait
{
	bool   begun;
	uint64 attempts; /* of the worker, when the wait began */
	int64  waited_us;
	int64  last_worker_us; /* how long it had waited when it saw a worker */
} HeldWait;

extern Size held_shmem_size(void);
extern void held_shmem_startup(void);

/* for sessions that mint */
extern bool				held_is_on(void);
extern bool				held_covers(int64 tick);
extern const OwnShards *held_own_shards(void);
extern bool				held_has_changed(void);
extern bool				held_is_open(int32 shard);
extern void				held_wait(HeldWait *wait, int32 shard);
extern SetAside			held_is_set_aside(int32 shard);

/* for the horizon's worker */
extern void held_raise_horizon(int64 tick);

/* for the worker that leases, alone */
extern void	 held_attach_worker(void);
extern bool	 held_take_request(void);
extern void	 held_set_on(void);
extern int	 held_count(void);
extern Lease held_lease_at(int place);
extern bool	 held_admit(const Lease *lease);
extern void	 held_renew(const Lease *lease);
extern void	 held_note_open(int32 shard);
extern void	 held_note_closing(int32 shard);
extern void	 held_drop(int32 shard);
extern void	 held_find_end(void);
extern void	 held_note_holder(uint64 holder);
extern void	 held_report(const HeldReport *report);
extern void	 held_note_loss(const HeldLoss *loss);
extern void	 held_note_set_aside(const int32 *shard, int count);
extern void	 held_forget_report(void);

#endif /* SNOWFLAKE_HELD_H */
