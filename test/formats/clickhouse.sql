WITH 1288834974657 AS epoch, 1 AS tick, 12 AS shard_shift, 10 AS shard_bits, 0 AS sequence_shift, 12 AS sequence_bits
SELECT id,
       fromUnixTimestamp64Milli(toInt64(bitShiftRight(id, shard_bits + sequence_bits) * tick + epoch), 'UTC') AS created_at,
       bitAnd(bitShiftRight(id, shard_shift), bitShiftLeft(toInt64(1), shard_bits) - 1) AS shard,
       bitAnd(bitShiftRight(id, sequence_shift), bitShiftLeft(toInt64(1), sequence_bits) - 1) AS sequence
  FROM ids
