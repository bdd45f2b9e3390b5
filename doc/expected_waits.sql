-- expected_waits(): which share of the calls waits for the next tick, and how long in ticks, if a tick has room
-- for "capacity" ids, and calls come at random and independently (a Poisson process), "per_tick" of them on average.
--
-- The calls that do not fit are the backlog B at the end of a tick: B' = max(0, B + A - C).  A(n) is the number of
-- calls in n ticks, C the capacity.  By Spitzer's identity, exactly:
--
--     E[B] = sum over n of E[max(0, A(n) - n C)] / n
--     P[B > 0] = 1 - exp(- sum over n of P[A(n) > n C] / n)
--
-- If there is a backlog, its mean is m = E[B] / P[B > 0], and its distribution is nearly exponential.  So, with a
-- per tick:
--
--     share = E[B] (1 - exp(-C / m)) / a
--     ticks = m / (C + 1 + m P[B = 0]^2)
--
-- From 16 ids per tick on, the error of the time is less than a fifth: test/t/034_capacity.pl simulates it.
CREATE FUNCTION expected_waits(capacity integer, per_tick float8,
                               OUT share float8, OUT ticks float8)
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    backlog float8 := 0;        -- E[B]
    likely  float8 := 0;        -- -ln P[B = 0]
    n       integer := 0;
    mean    float8;             -- of A(n); in the end, m
    calls   float8;
    p       float8;             -- P[A(n) = calls]
    above   float8;             -- P[A(n) > n C], as far as summed
    over    float8;             -- E[max(0, A(n) - n C)], likewise
BEGIN
    IF per_tick >= capacity THEN
        share := 1;
        ticks := 'infinity';
        RETURN;
    END IF;
    LOOP
        n := n + 1;
        mean := n * per_tick;
        calls := n * capacity::float8;
        above := 0;
        over := 0;
        -- ln P[A(n) = n C], with Stirling's series for ln (n C)!
        p := calls * ln(mean / calls) + calls - mean - ln(2 * pi() * calls) / 2 - 1 / (12 * calls);
        EXIT WHEN p < -600;
        p := exp(p);
        LOOP
            calls := calls + 1;
            p := p * mean / calls;
            above := above + p;
            over := over + p * (calls - n * capacity::float8);
            EXIT WHEN p * (calls - n * capacity::float8) <= 1e-9 * over;
        END LOOP;
        likely := likely + above / n;
        backlog := backlog + over / n;
        EXIT WHEN over / n < 1e-6 * backlog;
    END LOOP;
    share := 0;
    ticks := 0;
    IF backlog > 1e-12 THEN
        mean := backlog / (1 - exp(-likely));
        ticks := mean / (capacity + 1 + mean * exp(-2 * likely));
        share := backlog / per_tick * (1 - exp(-least(capacity / mean, 600)));
    END IF;
END $$;
