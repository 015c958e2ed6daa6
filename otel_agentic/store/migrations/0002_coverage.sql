-- Coverage by the convention and the instrumentation that wrote a turn.
ALTER TABLE turns ADD COLUMN dialect VARCHAR;
ALTER TABLE turns ADD COLUMN scope VARCHAR;
COMMENT ON COLUMN turns.dialect IS 'dialect that read the span that stands for the turn, null when written before this was kept';
COMMENT ON COLUMN turns.scope IS 'instrumentation scope of that span';

DROP VIEW v_coverage;

-- What the instrumentation records, as shares of turns and calls, by service, dialect and instrumentation scope. A turn that failed needs no answer, a call that failed no result, and a transfer to another agent is no call here. A share of nothing is null.
CREATE VIEW v_coverage AS
WITH calls AS (
    SELECT
        environment, conversation_id, revision, turn_index,
        count(*) AS calls,
        count(*) FILTER (error IS NOT NULL) AS failed,
        count(arguments) AS with_arguments,
        count(*) FILTER (result_captured AND error IS NULL) AS with_result
    FROM tool_calls
    WHERE kind <> 'transfer'
    GROUP BY ALL
)
SELECT
    c.service, -- service.name
    t.dialect, -- dialect that read the turns
    t.scope, -- instrumentation scope of the spans that stand for the turns
    count(*) AS turns, -- turns
    count(*) FILTER (t.error IS NOT NULL) AS failed_turns, -- of them failed
    coalesce(sum(calls.calls), 0)::BIGINT AS calls, -- tool calls, transfers to other agents left out
    coalesce(sum(calls.failed), 0)::BIGINT AS failed_calls, -- of them failed
    avg(t.query_captured::INT) AS query, -- share of turns with their query
    avg(t.answer_captured::INT) FILTER (t.error IS NULL) AS answer, -- share of turns that did not fail with their answer
    sum(calls.with_arguments) / nullif(sum(calls.calls), 0) AS arguments, -- share of calls with their arguments
    sum(calls.with_result) / nullif(sum(calls.calls - calls.failed), 0) AS results, -- share of calls that did not fail with their result
    avg((c.link_method = 'explicit')::INT) AS conversation_id -- share of turns whose conversation names itself
FROM turns t
JOIN conversations c USING (environment, conversation_id, revision)
LEFT JOIN calls USING (environment, conversation_id, revision, turn_index)
WHERE NOT c.superseded
GROUP BY c.service, t.dialect, t.scope;
