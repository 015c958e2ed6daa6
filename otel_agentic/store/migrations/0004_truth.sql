-- Scores name the version of the case that they were made with; drafts are told apart; datasets have versions.
ALTER TABLE conversation_scores ADD COLUMN case_version VARCHAR;
COMMENT ON COLUMN conversation_scores.case_version IS 'case version, null when unmatched or written before this was kept';
ALTER TABLE cases ADD COLUMN reviewed BOOLEAN;
COMMENT ON COLUMN cases.reviewed IS 'false for a draft promoted from production that nobody has reviewed; null, which means true, when written before this was kept';
-- One row is a version of a dataset coming into force: one that comes back has a row for each time, the newest row is in force.
CREATE TABLE dataset_versions (
    dataset VARCHAR NOT NULL, -- dataset
    version VARCHAR NOT NULL, -- hash of its case ids and their versions
    cases INTEGER NOT NULL, -- how many cases it holds
    source VARCHAR NOT NULL, -- file whose import made it
    imported_at TIMESTAMP_NS NOT NULL -- when it came into force
);
-- One row is a case in a version of a dataset.
CREATE TABLE dataset_members (
    dataset VARCHAR NOT NULL, -- dataset
    version VARCHAR NOT NULL, -- dataset version
    case_id VARCHAR NOT NULL, -- case
    case_version VARCHAR NOT NULL -- version of the case, as in `cases`
);
