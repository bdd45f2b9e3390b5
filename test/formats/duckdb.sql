CREATE TABLE layouts AS
SELECT * FROM (VALUES
    ('twitter',    1288834974657,  1, 12, 10,  0, 12),
    ('discord',    1420070400000,  1, 12, 10,  0, 12),
    ('instagram',  1314220021721,  1, 10, 13,  0, 10),
    ('sonyflake',  1409529600000, 10,  0, 16, 16,  8),
    ('sonyflake2', 1735689600000, 10,  0, 16, 16,  8),
    ('pgedge',     1672531200000,  1, 12, 10,  0, 12),
    ('mastodon',               0,  1,  0,  0,  0, 16),
    ('clickhouse',             0,  1, 12, 10,  0, 12),
    ('pgdog',      1764184395000,  1, 12, 10,  0, 12),
    ('pgdog_compact', 1764184395000, 1, 6, 6,  0,  6)
) AS l (layout, epoch, tick, shard_shift, shard_bits, sequence_shift, sequence_bits);

SELECT layout, id,
       make_timestamp_ms((id >> (shard_bits + sequence_bits)) * tick + epoch) AS created_at,
       (id >> shard_shift) & ((1::BIGINT << shard_bits) - 1) AS shard,
       (id >> sequence_shift) & ((1::BIGINT << sequence_bits) - 1) AS sequence
  FROM ids JOIN layouts USING (layout);
