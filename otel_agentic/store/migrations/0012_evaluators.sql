-- Scores of evaluators stand beside the core scores: which evaluator gave them, of which call, and why there is none.
ALTER TABLE scores ALTER COLUMN label DROP NOT NULL;
COMMENT ON COLUMN scores.label IS 'label: pass, fail or not_evaluated in a core score, one of the metric''s in any other; null where there is only a value, or none';
COMMENT ON COLUMN scores.evaluation_id IS 'evaluation: of the core scores, or of one evaluator';
ALTER TABLE scores ADD COLUMN evaluator VARCHAR;
COMMENT ON COLUMN scores.evaluator IS 'evaluator, null for a core score';
ALTER TABLE scores ADD COLUMN evaluator_version VARCHAR;
COMMENT ON COLUMN scores.evaluator_version IS 'version of the evaluator, null for a core score';
ALTER TABLE scores ADD COLUMN "position" INTEGER;
COMMENT ON COLUMN scores.position IS 'place of the call in its turn, 0-based; null unless the score is of a call';
ALTER TABLE scores ADD COLUMN tool_name VARCHAR;
COMMENT ON COLUMN scores.tool_name IS 'tool that the score is about, where it is about one';
ALTER TABLE scores ADD COLUMN parameter VARCHAR;
COMMENT ON COLUMN scores.parameter IS 'parameter that the score is about, where it is about one';
ALTER TABLE scores ADD COLUMN reason VARCHAR;
COMMENT ON COLUMN scores.reason IS 'why there is no score; null where there is one, and for a core score';
ALTER TABLE scores ADD COLUMN details JSON;
COMMENT ON COLUMN scores.details IS 'what else the evaluator says, null for nothing';
ALTER TABLE scores ADD COLUMN score_id VARCHAR;
COMMENT ON COLUMN scores.score_id IS 'hash of evaluation, conversation revision, place and name: the same input gives the same id; null for a core score';
ALTER TABLE scores ADD COLUMN superseded BOOLEAN;
COMMENT ON COLUMN scores.superseded IS 'true when a newer revision or evaluation replaced it';
ALTER TABLE scores ALTER COLUMN superseded SET DEFAULT false;
UPDATE scores SET superseded = NOT EXISTS (
    SELECT 1 FROM conversation_scores s
    WHERE s.evaluation_id = scores.evaluation_id AND s.environment = scores.environment
        AND s.conversation_id = scores.conversation_id AND s.revision = scores.revision AND NOT s.superseded
);

ALTER TABLE conversation_scores ADD COLUMN metrics_at TIMESTAMP_NS;
COMMENT ON COLUMN conversation_scores.metrics_at IS 'when scores of evaluators were last stored beside it, null when never';

ALTER TABLE evaluations ADD COLUMN evaluator VARCHAR;
COMMENT ON COLUMN evaluations.evaluator IS 'evaluator, null for an evaluation of the core scores';
ALTER TABLE evaluations ADD COLUMN evaluator_version VARCHAR;
COMMENT ON COLUMN evaluations.evaluator_version IS 'version of the evaluator, null for an evaluation of the core scores';

-- What evaluators say, by agent, version and environment: one row is a metric, by the newest scores.
CREATE VIEW v_metrics AS
SELECT
    c.agent, -- agent name
    c.agent_version, -- agent version
    nullif(c.environment, '') AS environment, -- deployment environment, null when unknown
    s.name AS metric, -- metric
    s.evaluator, -- evaluator
    count(*) FILTER (s.reason IS NULL) AS n, -- scores, of conversations, turns or calls
    avg(s.value) AS mean, -- mean of the values, null without any
    min(s.value) AS low, -- least value
    median(s.value) AS median, -- middle value
    max(s.value) AS high, -- greatest value
    mode(s.label) AS most_frequent_label, -- most frequent label, null without any
    count(*) FILTER (s.reason IS NOT NULL) AS not_evaluated, -- how often there was no score
    mode(s.reason) AS most_frequent_reason, -- most frequent reason why not
    count(DISTINCT s.conversation_id) AS conversations, -- conversations that were looked at
    max(c.ended_at) AS last_conversation -- end of the newest of them
FROM scores s
JOIN conversations c USING (environment, conversation_id, revision)
WHERE s.evaluator IS NOT NULL AND NOT s.superseded AND NOT c.superseded
GROUP BY c.agent, c.agent_version, c.environment, s.name, s.evaluator;
