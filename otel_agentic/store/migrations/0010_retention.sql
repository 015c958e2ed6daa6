-- What was removed because it is old, what was exported as Parquet, and when a judge's verdict was last taken from the cache.
ALTER TABLE judge_calls ADD COLUMN used_at TIMESTAMP_NS;
COMMENT ON COLUMN judge_calls.used_at IS 'when it was last taken from the cache, to the day; null when it never was';

-- One row says from when on the store is complete. There is none while nothing was removed.
CREATE TABLE retention (
    conversations_from TIMESTAMP_NS NOT NULL, -- conversations that ended before this were removed, once they were closed
    results_from TIMESTAMP_NS NOT NULL, -- results before this were removed: windows that reach further back stay as they are
    conversations BIGINT NOT NULL, -- conversations removed so far
    spans BIGINT NOT NULL, -- spans removed so far
    log_records BIGINT NOT NULL, -- log records removed so far
    updated_at TIMESTAMP_NS NOT NULL -- when something was last removed
);

-- One row is a conversation or a trace that was removed: what comes late for it is counted, and not rebuilt.
CREATE TABLE removed (
    kind VARCHAR NOT NULL, -- conversation or trace
    identity UBIGINT NOT NULL, -- md5_number_lower of the trace id, or of environment, line feed and conversation id
    removed_at TIMESTAMP_NS NOT NULL -- when; forgotten after another time as long as conversations are kept
);

-- One row is an hour of a table that was exported as Parquet, or waits for it.
CREATE TABLE exports (
    table_name VARCHAR NOT NULL, -- table
    hour TIMESTAMP_NS NOT NULL, -- start of the hour
    row_count BIGINT NOT NULL, -- rows of the hour that the store held when they were written
    file VARCHAR, -- file, from the export folder on; several hours of a day may share one; null where no row was there
    digest UBIGINT, -- of the conversations and scores of the hour when they were written; null for other tables
    dirty BOOLEAN NOT NULL, -- true when it is to be written, again or for the first time
    exported_at TIMESTAMP_NS -- when it was last written, null before the first time
);

-- One row says up to when what arrived was looked through for hours to export.
CREATE TABLE export_looks (
    table_name VARCHAR NOT NULL, -- table
    looked_until TIMESTAMP_NS NOT NULL -- newest received_at that was seen
);
