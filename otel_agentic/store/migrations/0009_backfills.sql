-- One row is a backfill: everything that decides its result, and how far its newest pass has come.
CREATE TABLE backfills (
    run_id VARCHAR NOT NULL, -- hash of what was asked: equal backfills have one row and go on where they were stopped
    asked JSON NOT NULL, -- range, windows, step, k, estimators, statistics, evaluator version, where points go
    state VARCHAR NOT NULL, -- running (or killed: run it again) or finished
    passes INTEGER NOT NULL, -- how many times all window ends were gone through, the newest pass included
    first_end TIMESTAMP_NS NOT NULL, -- first window end of the newest pass
    last_end TIMESTAMP_NS NOT NULL, -- last window end of the newest pass
    position TIMESTAMP_NS, -- newest window end that is done in the newest pass; null before the first
    sent_until TIMESTAMP_NS, -- start of the newest finished pass: rows computed up to it were sent; null when there is none
    rows_changed BIGINT NOT NULL, -- rows of windows that the newest pass added or restated
    points_sent BIGINT NOT NULL, -- points that the newest pass sent or wrote
    started_at TIMESTAMP_NS NOT NULL, -- when the newest pass began
    updated_at TIMESTAMP_NS NOT NULL, -- when the newest step of it was done
    finished_at TIMESTAMP_NS -- when the newest pass ended; null while it runs
);
