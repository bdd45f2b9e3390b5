#!/usr/bin/env python3
"""Print doc/vectors.csv: ids of every preset, their fields and times.

The formats are written down here as their makers published them, and the
arithmetic is Python's.  Nothing of the extension is used, so that its decoding
can be compared with this file, and anybody else's, too.
"""

import csv
import hashlib
import sys
from datetime import datetime, timedelta, timezone

# epoch in Unix milliseconds, tick in milliseconds, and the fields below the time,
# from the highest bits down; the time has the bits that they leave
FORMATS = {
    # Twitter, snowflake-2010, IdWorker.scala: twepoch, datacenterIdBits,
    # workerIdBits, sequenceBits
    "twitter": (1288834974657, 1, ("shard", 10), ("sequence", 12)),
    # Discord, API reference: bits 63 to 22, 21 to 17, 16 to 12, 11 to 0
    "discord": (1420070400000, 1, ("shard", 10), ("sequence", 12)),
    # Instagram Engineering, Sharding & IDs at Instagram: << 23, << 10
    "instagram": (1314220021721, 1, ("shard", 13), ("sequence", 10)),
    # Sony, sonyflake v1, sonyflake.go: 8 bits of sequence, 16 of machine id,
    # 10 ms, from 2014-09-01
    "sonyflake": (1409529600000, 10, ("sequence", 8), ("shard", 16)),
    # v2: from 2025-01-01
    "sonyflake2": (1735689600000, 10, ("sequence", 8), ("shard", 16)),
    # pgEdge, snowflake 2.x: from 2023-01-01, 10 bits of node, 12 of counter
    "pgedge": (1672531200000, 1, ("shard", 10), ("sequence", 12)),
    # Mastodon, lib/mastodon/snowflake.rb: << 16, from the Unix epoch
    "mastodon": (0, 1, ("sequence", 16)),
    # ClickHouse, generateSnowflakeID: 41, 10 and 12 bits, from the Unix epoch
    "clickhouse": (0, 1, ("shard", 10), ("sequence", 12)),
    # PgDog, unique_id.rs: PGDOG_EPOCH, NODE_BITS and SEQUENCE_BITS; of the compact
    # form COMPACT_NODE_BITS and COMPACT_SEQUENCE_BITS
    "pgdog": (1764184395000, 1, ("shard", 10), ("sequence", 12)),
    "pgdog_compact": (1764184395000, 1, ("shard", 6), ("sequence", 6)),
}

# how many bits an id has without the sign, where they are not 63
BITS = {"pgdog_compact": 53}

# ids that were published, with the times and fields that were said of them
PUBLISHED = [
    ("discord", 175928847299117063),
    ("discord", 105484726235607040),
    ("twitter", 1541815603606036480),
    ("instagram", 11637205501278089),
    ("sonyflake", 417244747766235137),
    ("pgedge", 136169504773242881),
    ("mastodon", 103270115826048975),
    ("clickhouse", 7204436857747984384),
    ("clickhouse", 7199081390080409600),
    # PgDog's tests of unique_id.rs
    ("pgdog", 47839699276046336),
    ("pgdog", 47839699276046337),
    ("pgdog", 47839699280240640),
    ("pgdog", 415268863),
    # and what its compact form gives at these times for these nodes
    ("pgdog_compact", 46718456326784),
    ("pgdog_compact", 46718456326785),
    ("pgdog_compact", 46718456330880),
    ("pgdog_compact", 406015),
]


def encode(name, tick, parts):
    """The id of a tick and of a dict of the other fields."""
    _, _, *fields = FORMATS[name]
    number = tick
    for field, bits in fields:
        number = number * 2**bits + parts[field]
    return number


def decode(name, number):
    """The time and the fields of an id."""
    epoch, length, *fields = FORMATS[name]
    parts = {"shard": 0, "sequence": 0}
    for field, bits in reversed(fields):
        number, parts[field] = divmod(number, 2**bits)
    ms = epoch + number * length
    time = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=ms)
    text = time.strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1000:03d}Z"
    return text, parts["shard"], parts["sequence"]


def chosen(name, number):
    """Some id of the years from 2025 to 2039, always the same one."""
    epoch, length, *fields = FORMATS[name]
    digest = int.from_bytes(hashlib.sha256(f"{name} {number}".encode()).digest(), "big")
    start, end = max(1735689600000, epoch), 2177452800000
    digest, ms = divmod(digest, end - start)
    parts = {}
    for field, bits in fields:
        digest, parts[field] = divmod(digest, 2**bits)
    return encode(name, (start + ms - epoch) // length, parts)


def vectors():
    """The ids: the ends of each format, some of its years, and the published."""
    for name, (_, _, *fields) in FORMATS.items():
        last = {field: 2**bits - 1 for field, bits in fields}
        none = {field: 0 for field, _ in fields}
        yield name, 0
        yield name, encode(name, 0, last)
        yield name, encode(name, 1, none)
        for field in last:
            yield name, encode(name, 1, {**none, field: last[field]})
        yield from ((name, chosen(name, n)) for n in range(8))
        yield name, 2 ** BITS.get(name, 63) - 1
    yield from PUBLISHED


def main():
    """Write them all."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["layout", "id", "created_at", "shard", "sequence"])
    for name, number in vectors():
        writer.writerow([name, number, *decode(name, number)])


main()
