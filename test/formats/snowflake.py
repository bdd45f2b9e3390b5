"""Reading ids in Python.  What stands in doc/formats.md is copied out of here.

As a program it reads lines of layout and id, and writes them with time, shard
and sequence number.
"""

import sys
from datetime import datetime, timedelta, timezone

# Epoch and tick in milliseconds, then shift and bits of shard and sequence number
LAYOUTS = {
    "twitter": (1288834974657, 1, (12, 10), (0, 12)),
    "discord": (1420070400000, 1, (12, 10), (0, 12)),
    "instagram": (1314220021721, 1, (10, 13), (0, 10)),
    "sonyflake": (1409529600000, 10, (0, 16), (16, 8)),
    "sonyflake2": (1735689600000, 10, (0, 16), (16, 8)),
    "pgedge": (1672531200000, 1, (12, 10), (0, 12)),
    "mastodon": (0, 1, (0, 0), (0, 16)),
    "clickhouse": (0, 1, (12, 10), (0, 12)),
    "pgdog": (1764184395000, 1, (12, 10), (0, 12)),
    "pgdog_compact": (1764184395000, 1, (6, 6), (0, 6)),
}


def decode(number, layout):
    epoch, tick, shard, sequence = LAYOUTS[layout]

    def part(shift, bits):
        return number >> shift & (1 << bits) - 1

    ms = (number >> shard[1] + sequence[1]) * tick + epoch
    created_at = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=ms)
    return created_at, part(*shard), part(*sequence)


if __name__ == "__main__":
    for line in sys.stdin:
        name, text = line.strip().split(",")
        time, shard_number, sequence_number = decode(int(text), name)
        iso = time.replace(tzinfo=None).isoformat(timespec="milliseconds")
        print(f"{name},{text},{iso}Z,{shard_number},{sequence_number}")
