-- A row for each call that bench/capacity/call.sql makes, and what they say
-- together.
CREATE UNLOGGED TABLE calls (
    began  timestamptz NOT NULL,
    id     snowflake NOT NULL,
    ended  timestamptz NOT NULL
);

-- The share of calls that waited, which is those whose id is of a later tick
-- than they began in, and how long these lasted, in ticks.  Likewise what a
-- queue makes of the same calls that gives out so many ids in a tick, in the
-- order in which the calls began.  "dispersion" is the variance of the number
-- of calls in a tick by its mean: 1 for calls at random times, more for bursts.
--
-- Of the run without a tenth at each end: pgbench needs a moment to start.
CREATE FUNCTION measured(capacity integer, OUT per_tick float8, OUT dispersion float8,
                         OUT share float8, OUT ticks float8,
                         OUT queue_share float8, OUT queue_ticks float8)
LANGUAGE sql AS $$
    WITH layout AS (
        SELECT epoch, tick FROM snowflake_layouts WHERE in_use
    ), call AS (
        SELECT extract(epoch FROM began - epoch) / extract(epoch FROM tick) AS began,
               extract(epoch FROM ended - began) / extract(epoch FROM tick) AS lasted,
               snowflake_timestamp(id) > began AS waited,
               row_number() OVER (ORDER BY began) AS number
          FROM calls, layout
    ), queued AS (
        -- position = max(present tick's first position, last position + 1)
        SELECT *, floor((max(floor(began) * capacity - number) OVER (ORDER BY number) + number)
                        / capacity) AS served
          FROM call
    ), middle AS (
        SELECT queued.* FROM queued,
               (SELECT min(queued.began) AS first, max(queued.began) AS last FROM queued) AS run
         WHERE began BETWEEN ceil(first + (last - first) / 10) AND floor(last - (last - first) / 10)
    ), per_tick AS (
        SELECT sum(calls) / (max(tick) - min(tick) + 1) AS mean,
               sum(calls * calls) / (max(tick) - min(tick) + 1) AS mean_of_squares
          FROM (SELECT floor(began) AS tick, count(*) AS calls FROM middle GROUP BY 1) AS in_tick
    )
    SELECT mean, (mean_of_squares - mean * mean) / mean,
           count(*) FILTER (WHERE waited) / count(*)::float8,
           coalesce(avg(lasted) FILTER (WHERE waited), 0),
           count(*) FILTER (WHERE served > began) / count(*)::float8,
           coalesce(avg(served - began) FILTER (WHERE served > began), 0)
      FROM middle, per_tick
     GROUP BY mean, mean_of_squares
$$;
