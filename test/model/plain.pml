/*
 * plain.pml -- the rule of snowflake_plain, for one shard
 *
 * Sessions that mint as the head of sql/snowflake_plain.sql says, each stopped
 * at any step for any time, cancelled or ended at any step; a clock that goes where
 * it likes; and a crash that loses any WAL.  An id is a position here; none may be
 * minted twice.
 *
 * After a crash the clock is right: no less than it ever was, until the shard is
 * open again.  A wait for a tick may last for ever.
 *
 * Switches, each without one rule:
 *	NO_GATE					two sessions move the sequence at once
 *	NO_CLOSE				the shard stays open while it is moved
 *	READ_BEFORE_CLOSE		the sequence is read before the shard is closed
 *	MORE_SESSIONS			there are more sessions than were counted
 *	OPEN_AFTER_CRASH		the mark that the shard is open survives a crash
 *	PRESENT_TICK			a shard that was closed is moved to the present tick only
 *	NO_WAIT					an id is given before its tick begins
 *	CLOCK_BEHIND			after a crash the clock may be behind
 */

#ifndef SESSIONS
#define SESSIONS 2
#endif
#ifndef TICKS
#define TICKS 4
#endif
#ifndef PER_TICK
#define PER_TICK 1
#endif
#ifndef LATE
#define LATE 1			/* an id may be so many ticks old */
#endif
#ifdef MORE_SESSIONS
#define COUNTED 0
#else
#define COUNTED SESSIONS
#endif

#define LAST (TICKS * PER_TICK)		/* no position after it is looked at */
#define NOBODY 255

byte sequence = 0;		/* the last position that was drawn */
byte durable = 0;		/* what a crash leaves of it */
bool open = false;
byte gate = NOBODY;
byte clock = 1;
byte latest = 1;		/* that the clock ever was */
bool lost = false;		/* a crash, and the shard was not opened since */
bool ended[SESSIONS];
byte steps_back = 1;
byte endings = 1;
byte crashes = 1;
int minted = 0;

inline mint(position)
{
	atomic {
		assert(!(minted & (1 << position)));
		minted = minted | (1 << position)
	}
}

active [SESSIONS] proctype session()
{
	byte c, tick, last, first;

begin:
	{
		c = 0;
		/* 1: is it open? */
look:	if
		:: open
		:: else -> goto move
		fi;
		/* 2: draw, and then read the clock */
end_draw:
		atomic {
			sequence < LAST;
			sequence++;
			c = sequence
		};
		tick = clock;
		/* 3 */
		if
		:: c / PER_TICK + LATE < tick -> c = 0; goto move
		:: else
		fi;
#ifndef NO_WAIT
end_wait:
		clock >= c / PER_TICK;
#endif
		mint(c);
		c = 0;
		goto look;

		/* 4: at the gate */
move:
#ifdef NO_GATE
		skip;
#else
end_gate:
		atomic {
			gate == NOBODY;
			gate = _pid
		};
#endif
		tick = clock;
		if
#ifdef PRESENT_TICK
		:: !open
#else
		:: !open -> tick++
#endif
		:: open && sequence / PER_TICK + LATE >= tick -> goto leave
		:: open && sequence / PER_TICK + LATE < tick
		fi;
#ifdef READ_BEFORE_CLOSE
		last = sequence;
#endif
#ifndef NO_CLOSE
		open = false;
#endif
#ifndef READ_BEFORE_CLOSE
		last = sequence;
#endif
		first = tick * PER_TICK;
		if
		:: last + COUNTED < first -> sequence = first - 1
		:: last + COUNTED >= first ->
			do
			:: last + 1 < first && sequence < LAST ->
				atomic { sequence++; last++ }
			:: else -> break
			od
		fi;
		atomic {
			open = true;
			lost = false
		};
leave:
		atomic {
			gate = (gate == _pid -> NOBODY : gate);
			tick = 0;
			last = 0;
			first = 0;
			goto look
		}
	}
	unless
	{
		/* it is cancelled, or ended, and another one comes; its locks go */
		atomic {
			ended[_pid];
			ended[_pid] = false;
			gate = (gate == _pid -> NOBODY : gate);
			c = 0;
			tick = 0;
			last = 0;
			first = 0;
			goto begin
		}
	}
}

active proctype world()
{
	byte who;

end_world:
	do
	:: atomic {
			clock < TICKS ->
			clock++;
			latest = (clock > latest -> clock : latest)
		}
#ifdef CLOCK_BEHIND
	:: atomic { steps_back > 0 && clock > 1 -> steps_back--; clock = 1 }
#else
	:: atomic { steps_back > 0 && clock > 1 && !lost -> steps_back--; clock = 1 }
#endif
	:: atomic { durable != sequence -> durable = sequence }		/* WAL is written */
	:: atomic {
			endings > 0 ->
			endings--;
			who = 0;
			do
			:: who + 1 < SESSIONS -> who++
			:: break
			od;
			ended[who] = true;
			who = 0
		}
#ifdef CRASH
	:: atomic {
			crashes > 0 ->
			crashes--;
			sequence = durable;
#ifndef OPEN_AFTER_CRASH
			open = false;
#endif
			lost = true;
#ifndef CLOCK_BEHIND
			clock = latest;
#endif
			do
			:: who < SESSIONS -> ended[who] = true; who++
			:: else -> break
			od;
			who = 0
		}
#endif
	od
}
