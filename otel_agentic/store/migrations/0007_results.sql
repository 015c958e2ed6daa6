-- What rates over time are made of, in one place; the share of conversations that was evaluated.
ALTER TABLE conversation_scores ADD COLUMN sample_ratio DOUBLE;
COMMENT ON COLUMN conversation_scores.sample_ratio IS 'share of conversations evaluated when it was scored; null, which means 1, when written before this was kept';
COMMENT ON COLUMN windows."window" IS 'width such as 1h, 24h, 7d, or n200: the newest 200 conversations';
COMMENT ON COLUMN windows.tag IS 'case tag; null for the whole';
-- A conversation that dissolved into others has no score in force.
UPDATE conversation_scores s SET superseded = true
WHERE NOT s.superseded AND NOT EXISTS (
    SELECT 1 FROM conversations c
    WHERE c.environment = s.environment AND c.conversation_id = s.conversation_id AND NOT c.superseded
);

-- One row is an agent in one version, environment and service: a subject of rates. Numbers make counting quick.
CREATE TABLE subjects (
    subject INTEGER NOT NULL, -- its number
    agent VARCHAR, -- agent name
    agent_version VARCHAR, -- agent version
    environment VARCHAR NOT NULL, -- deployment environment, empty when unknown
    service VARCHAR -- service.name
);

-- One row is the number of a case that a result names.
CREATE TABLE result_cases (
    case_no INTEGER NOT NULL, -- its number
    dataset VARCHAR NOT NULL, -- dataset, empty when none is given
    case_id VARCHAR NOT NULL -- case id
);

-- One row is a closed conversation with its newest score: the conversation revision that was scored last. A later revision takes its place once that is scored; a conversation that dissolved into others has none.
CREATE TABLE results (
    environment VARCHAR NOT NULL, -- conversation
    conversation_id VARCHAR NOT NULL, -- conversation
    revision INTEGER NOT NULL, -- conversation revision that was scored
    evaluation_id VARCHAR NOT NULL, -- evaluation
    subject INTEGER NOT NULL, -- number of agent, version, environment and service in `subjects`
    agent VARCHAR, -- agent name
    agent_version VARCHAR, -- agent version
    service VARCHAR, -- service.name
    ended_at TIMESTAMP_NS NOT NULL, -- end of its last event
    closed_by VARCHAR, -- end_mark, end_of_input or idle
    case_no INTEGER, -- number of the case in `result_cases`, null without a case
    dataset VARCHAR, -- case
    case_id VARCHAR, -- case, null without one
    tags VARCHAR[] NOT NULL, -- tags of the case, in the version that it was scored with
    outcome VARCHAR NOT NULL, -- pass, fail or not_evaluated
    reason VARCHAR, -- why it failed or was not evaluated
    selection DOUBLE, -- mean of the tool dimension over its expectations; null when it does not apply
    parameters DOUBLE, -- the same
    sequence DOUBLE, -- the same
    utilization DOUBLE, -- the same
    sample_ratio DOUBLE NOT NULL -- share of conversations evaluated when it was scored
);

-- One row is an event time at which results changed: the windows that hold it are to be computed anew.
CREATE TABLE window_changes (
    serial BIGINT NOT NULL, -- rises with each change
    ended_at TIMESTAMP_NS NOT NULL, -- end of a conversation that is counted there now, or was before
    live BOOLEAN NOT NULL -- true for a conversation that was closed live: of others only windows that are stored are computed anew
);

CREATE TEMP TABLE scored AS
WITH tools AS (
    SELECT
        evaluation_id, environment, conversation_id, revision,
        avg(selection) AS selection, avg(parameters) AS parameters, avg(sequence) AS sequence,
        avg(utilization) AS utilization
    FROM tool_scores
    GROUP BY ALL
)
SELECT
    s.environment, s.conversation_id, s.revision, s.evaluation_id, c.agent, c.agent_version, c.service, c.ended_at,
    c.closed_by, s.dataset, s.case_id, coalesce(k.tags, CAST('[]' AS VARCHAR[])) AS tags, s.outcome, s.reason,
    t.selection, t.parameters, t.sequence, t.utilization, coalesce(s.sample_ratio, 1.0) AS sample_ratio
FROM conversation_scores s
JOIN conversations c USING (environment, conversation_id, revision)
LEFT JOIN tools t USING (evaluation_id, environment, conversation_id, revision)
LEFT JOIN cases k ON k.dataset = s.dataset AND k.case_id = s.case_id
    AND CASE WHEN s.case_version IS NULL THEN k.current ELSE k.version = s.case_version END
WHERE NOT s.superseded;

INSERT INTO subjects
SELECT row_number() OVER (ORDER BY agent, agent_version, environment, service), agent, agent_version, environment, service
FROM (SELECT DISTINCT agent, agent_version, environment, service FROM scored);

INSERT INTO result_cases
SELECT row_number() OVER (ORDER BY dataset, case_id), dataset, case_id
FROM (SELECT DISTINCT coalesce(dataset, '') AS dataset, case_id FROM scored WHERE case_id IS NOT NULL);

INSERT INTO results
SELECT
    r.environment, r.conversation_id, r.revision, r.evaluation_id, j.subject, r.agent, r.agent_version, r.service,
    r.ended_at, r.closed_by, k.case_no, r.dataset, r.case_id, r.tags, r.outcome, r.reason, r.selection, r.parameters, r.sequence,
    r.utilization, r.sample_ratio
FROM scored r
JOIN subjects j ON j.agent IS NOT DISTINCT FROM r.agent AND j.agent_version IS NOT DISTINCT FROM r.agent_version
    AND j.environment = r.environment AND j.service IS NOT DISTINCT FROM r.service
LEFT JOIN result_cases k ON k.dataset = coalesce(r.dataset, '') AND k.case_id = r.case_id
ORDER BY r.ended_at, r.environment, r.conversation_id;

DROP TABLE scored;
