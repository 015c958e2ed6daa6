-- Several digests of what a trace ended with, and one of its query: by it a turn that two instrumentations saw is told once.
-- Casts of text, no list literals: DuckDB cannot replay those from the log of a process that died.
ALTER TABLE trace_links ALTER COLUMN history_out SET DATA TYPE VARCHAR[] USING CAST(CASE WHEN history_out IS NULL THEN '[]' ELSE '[' || history_out || ']' END AS VARCHAR[]);
ALTER TABLE trace_links ADD COLUMN query_digest VARCHAR;
ALTER TABLE trace_links ADD COLUMN scopes VARCHAR[];
COMMENT ON COLUMN trace_links.history_in IS 'digests of what was said before it, the weakest first; empty with an id';
COMMENT ON COLUMN trace_links.history_out IS 'digests of all that was said in the end, the weakest first; empty with an id';
COMMENT ON COLUMN trace_links.query_digest IS 'digest of the query, null when none was captured';
COMMENT ON COLUMN trace_links.scopes IS 'names of the instrumentation scopes that tell of it';
