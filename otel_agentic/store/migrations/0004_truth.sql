-- Scores name the version of the case that they were made with; drafts are told apart.
ALTER TABLE conversation_scores ADD COLUMN case_version VARCHAR;
COMMENT ON COLUMN conversation_scores.case_version IS 'case version, null when unmatched or written before this was kept';
ALTER TABLE cases ADD COLUMN reviewed BOOLEAN;
COMMENT ON COLUMN cases.reviewed IS 'false for a draft promoted from production that nobody has reviewed; null, which means true, when written before this was kept';
