/*
 * feed.c -- transactions that mint, and one that reads what is new
 *
 * No row is missed: an id below the mark is of a transaction that the snapshot sees.
 */
#include "harness.h"

#ifndef WRITERS
#define WRITERS 1
#endif
#ifndef TRANSACTIONS /* of each, one after the other */
#define TRANSACTIONS 1
#endif
#ifndef MINTS
#define MINTS 1
#endif
#ifndef CLOCK /* of a writer: what it shows first, and then */
#define CLOCK 1, 1
#endif
#ifndef READER
#define READER 2
#endif

#define COUNT (WRITERS * TRANSACTIONS)

static int64		ids[COUNT][MINTS];
static int			minted[COUNT];
static SnapshotData snapshot;
static int64		mark = -1;
static int			started;

static void
transact(int number)
{
	enter_process(number, number / TRANSACTIONS, CLOCK);
	for (int i = 0; i < MINTS; i++)
	{
		ids[number][i] = mint((number + i) % 2);
		minted[number] = i + 1;
	}
#ifdef ROLLS_BACK
	roll_back();
#else
	commit();
#endif
}

static void *
writer(void *argument)
{
	int first = (int) (long) argument * TRANSACTIONS;

	for (int number = first; number < first + TRANSACTIONS; number++)
		transact(number);
	return NULL;
}

static void *
reader(void *argument)
{
	enter_process(COUNT, WRITERS, READER, READER);
#ifdef OLD_SNAPSHOT /* of before all of them */
	snapshot.xmin = snapshot.xmax = 10;
	snapshot.copied = true;
#else
	take_snapshot(&snapshot);
#endif
	mark = mark_of_snapshot(&snapshot);
	check(mark > 0 && tick_of(mark) <= READER);
	return NULL;
}

int
main(void)
{
	long process[WRITERS + 1];

	start_server(true);
	for (int i = 0; i <= WRITERS; i++)
		process[i] = start_process(i < WRITERS ? writer : reader, i);
	for (int i = 0; i <= WRITERS; i++)
		__VERIFIER_thread_join(process[i]);
	for (int i = 0; i < COUNT; i++)
		for (int k = 0; k < minted[i]; k++)
			check(ids[i][k] >= mark || sees(&snapshot, i));
	return 0;
}
