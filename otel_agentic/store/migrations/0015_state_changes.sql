-- Of each fault, whether its tool writes or reads; so that of each conversation it can be told what it changed wrongly.
ALTER TABLE tool_faults ADD COLUMN effect VARCHAR;
COMMENT ON COLUMN tool_faults.effect IS 'read or write: what the tool does, by `effects` of the case or the settings; null when written before this was kept';

-- What is wrong with the state-changing calls of each conversation that passed or failed and has expected tools, by the faults of its newest score.
CREATE VIEW v_state_changes AS
WITH counted AS (
    SELECT
        evaluation_id, environment, conversation_id, revision,
        count(*) FILTER (effect = 'write' AND fault = 'missing') AS missing,
        -- A call may be too many for its turn and for the conversation: it is one call.
        count(DISTINCT (turn_index, made_position)) FILTER (effect = 'write' AND fault IN ('spurious', 'forbidden')) AS extra,
        count(DISTINCT (turn_index, made_position)) FILTER (effect = 'write' AND fault = 'wrong_parameters') AS wrong,
        count(*) FILTER (effect IS NULL) AS unknown
    FROM tool_faults
    GROUP BY ALL
), called AS (
    SELECT DISTINCT evaluation_id, environment, conversation_id, revision, turn_index
    FROM tool_counts
    WHERE made + errored > 0
), expected AS (
    SELECT
        t.evaluation_id, t.environment, t.conversation_id, t.revision,
        bool_or(t.outcome = 'not_evaluated') AS open,
        -- Nothing at all was recorded: calls may have been made.
        bool_or(t.reason = 'content_not_captured' AND n.evaluation_id IS NULL) AS unseen
    FROM tool_scores t
    LEFT JOIN called n ON n.evaluation_id = t.evaluation_id AND n.environment = t.environment
        AND n.conversation_id = t.conversation_id AND n.revision = t.revision
        AND n.turn_index IS NOT DISTINCT FROM t.turn_index
    GROUP BY ALL
), absent AS (
    -- Turns that never came have no faults: what they require is not made yet, or never.
    SELECT s.evaluation_id, s.environment, s.conversation_id, s.revision, bool_or(e.required) AS required
    FROM conversation_scores s
    JOIN case_turns k ON k.dataset = s.dataset AND k.case_id = s.case_id AND k.version = s.case_version
    ANTI JOIN turn_scores t ON t.evaluation_id = s.evaluation_id AND t.environment = s.environment
        AND t.conversation_id = s.conversation_id AND t.revision = s.revision AND t.case_turn_index = k.turn_index
    LEFT JOIN expected_calls e ON e.dataset = k.dataset AND e.case_id = k.case_id AND e.version = k.version
        AND e.turn_index = k.turn_index
    WHERE NOT s.superseded
    GROUP BY ALL
)
SELECT
    c.agent, -- agent name
    c.agent_version, -- agent version
    nullif(c.environment, '') AS environment, -- deployment environment, null when unknown
    c.conversation_id, -- conversation id
    c.ended_at, -- end of the conversation
    s.dataset, -- dataset of the case
    s.case_id, -- case that it was held against
    s.outcome, -- outcome of the conversation
    CASE
        WHEN f.unknown > 0 OR x.unseen OR s.computed_reason = 'unreviewed' OR e.settings ->> 'compat' IS NOT NULL THEN NULL
        WHEN a.evaluation_id IS NOT NULL AND (a.required OR c.closed_by IS NULL OR c.closed_by = 'idle') THEN NULL
        WHEN f.missing > 0 AND f.extra > 0 THEN 'missing_and_extra'
        WHEN f.missing > 0 THEN 'missing'
        WHEN f.extra > 0 THEN 'extra'
        WHEN f.wrong > 0 THEN 'wrong_arguments'
        WHEN x.open THEN NULL
        WHEN s.outcome = 'fail' THEN 'other'
        ELSE 'right'
    END AS state_changes, -- missing, extra, missing_and_extra, wrong_arguments, right, or other: right, and failed all the same; null when not known, as where something was not recorded, an expected turn never came, or the case is a draft
    coalesce(f.missing, 0) AS missing, -- expected state-changing calls that were not made without an error
    coalesce(f.extra, 0) AS extra, -- state-changing calls that are not asked for, or forbidden
    coalesce(f.wrong, 0) AS wrong_arguments, -- state-changing calls that were expected with other arguments
    s.evaluation_id -- evaluation
FROM conversation_scores s
JOIN conversations c USING (environment, conversation_id, revision)
JOIN evaluations e USING (evaluation_id)
JOIN expected x USING (evaluation_id, environment, conversation_id, revision)
LEFT JOIN counted f USING (evaluation_id, environment, conversation_id, revision)
LEFT JOIN absent a USING (evaluation_id, environment, conversation_id, revision)
WHERE NOT s.superseded AND NOT c.superseded AND s.outcome IN ('pass', 'fail');
