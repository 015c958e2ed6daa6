-- The faults of tools in a selection of conversations, grouped, with the columns of `v_failing_tools`.
-- `introduced_in`, `is_new`, `clean_before` and the order of versions refer to everything stored, because a selection does not
-- show whether a fault is new. `failures.py` inserts its fragments for the names in braces.
WITH history AS (
    SELECT * FROM v_fault_history
), faults AS (
    SELECT
        v.* REPLACE (CASE WHEN $by_version THEN v.agent_version END AS agent_version),
        v.agent_version AS of_version, c.window_time
    FROM v_tool_faults v
    JOIN conversations c USING (environment, conversation_id)
    WHERE NOT c.superseded AND {BOUNDS}
), health AS (
    SELECT
        c.agent, CASE WHEN $by_version THEN c.agent_version END AS agent_version,
        c.environment, n.tool_name AS tool,
        count(DISTINCT c.conversation_id) FILTER (n.expected > 0) AS expected_conversations,
        sum(n.expected)::BIGINT AS expected, sum(n.actual)::BIGINT AS actual, sum(n.errored)::BIGINT AS errored,
        sum(n.paired)::BIGINT AS paired
    FROM tool_counts n
    JOIN conversation_scores s USING (evaluation_id, environment, conversation_id, revision)
    JOIN conversations c USING (environment, conversation_id, revision)
    WHERE s.{IN_EVALUATION} AND NOT s.superseded AND NOT c.superseded AND {BOUNDS}
    GROUP BY ALL
), problems AS (
    SELECT
        agent, agent_version, environment, tool, dimension, fault, parameter, count(*) AS faults,
        count(DISTINCT conversation_id) AS conversations,
        count(DISTINCT conversation_id) FILTER (failed) AS failed, count(*) FILTER (tried > 0) AS tried,
        min(ended_at) AS first_seen, max(ended_at) AS last_seen
    FROM faults
    GROUP BY ALL
), newest AS (
    SELECT *
    FROM faults
    QUALIFY row_number() OVER (
        PARTITION BY agent, agent_version, environment, tool, dimension, fault, parameter
        ORDER BY window_time DESC, conversation_id DESC, turn_index DESC, step DESC, explanation
    ) = 1
), counted AS (
    SELECT agent, environment, tool, fault, parameter, of_version, count(*) AS n, min(ended_at) AS since
    FROM faults
    GROUP BY ALL
), versions AS (
    SELECT
        n.agent, n.environment, n.tool, n.fault, n.parameter, min(n.since) AS since,
        to_json(list(
            {'agent_version': n.of_version, 'faults': n.n}
            ORDER BY list_position(json_extract_string(y.versions, '$[*].agent_version'), n.of_version)
        )) AS versions
    FROM counted n
    JOIN history y ON y.agent IS NOT DISTINCT FROM n.agent AND y.environment = n.environment
        AND y.tool = n.tool AND y.fault = n.fault AND y.parameter IS NOT DISTINCT FROM n.parameter
    GROUP BY ALL
), pairs AS (
    SELECT agent, agent_version, environment, tool, fault, parameter, expected, actual, count(*) AS n
    FROM faults
    WHERE parameter IS NOT NULL
    GROUP BY ALL
), frequent AS (
    SELECT
        agent, agent_version, environment, tool, fault, parameter,
        to_json(list({'actual': actual, 'expected': expected, 'count': n} ORDER BY n DESC, actual, expected)[:5])
            AS wrong_values
    FROM pairs
    GROUP BY ALL
), found AS (
    SELECT
        p.agent, p.agent_version, p.environment, p.tool, p.dimension, p.fault, p.parameter, p.faults, p.conversations,
        p.failed, CASE p.fault WHEN 'missing' THEN p.tried END AS tried,
        p.faults / sum(p.faults) OVER (PARTITION BY p.agent, p.agent_version, p.environment) AS share,
        CASE p.fault
            WHEN 'missing' THEN h.expected
            WHEN 'errored' THEN h.actual + h.errored
            WHEN 'spurious' THEN h.actual
            WHEN 'forbidden' THEN h.actual
            ELSE h.paired
        END AS calls,
        p.faults / nullif(calls, 0) AS rate,
        h.expected_conversations, p.first_seen, p.last_seen, w.since, y.introduced_in,
        y.is_new AND (NOT $by_version OR y.introduced_in IS NOT DISTINCT FROM p.agent_version) AS is_new,
        y.clean_before, w.versions, q.wrong_values, e.conversation_id AS example_conversation,
        e.explanation AS example, e.expected, e.actual, e.expected_call, e.actual_call, e.error, e.trace_id, e.span_id,
        e.evaluation_id
    FROM problems p
    JOIN newest e ON e.agent IS NOT DISTINCT FROM p.agent AND e.agent_version IS NOT DISTINCT FROM p.agent_version
        AND e.environment = p.environment AND e.tool = p.tool AND e.fault = p.fault
        AND e.parameter IS NOT DISTINCT FROM p.parameter
    JOIN history y ON y.agent IS NOT DISTINCT FROM p.agent AND y.environment = p.environment
        AND y.tool = p.tool AND y.fault = p.fault AND y.parameter IS NOT DISTINCT FROM p.parameter
    JOIN versions w ON w.agent IS NOT DISTINCT FROM p.agent AND w.environment = p.environment AND w.tool = p.tool
        AND w.fault = p.fault AND w.parameter IS NOT DISTINCT FROM p.parameter
    LEFT JOIN health h ON h.agent IS NOT DISTINCT FROM p.agent AND h.agent_version IS NOT DISTINCT FROM p.agent_version
        AND h.environment = p.environment AND h.tool = p.tool
    LEFT JOIN frequent q ON q.agent IS NOT DISTINCT FROM p.agent AND q.agent_version IS NOT DISTINCT FROM p.agent_version
        AND q.environment = p.environment AND q.tool = p.tool AND q.fault = p.fault
        AND q.parameter IS NOT DISTINCT FROM p.parameter
)
SELECT * EXCLUDE (evaluation_id)
FROM found
WHERE ($tool IS NULL OR tool GLOB $tool) AND ($dimension IS NULL OR dimension = $dimension)
    AND ($fault IS NULL OR fault = $fault) AND ($parameter IS NULL OR parameter = $parameter)
ORDER BY failed DESC, faults DESC, agent, {NUMBERS}, agent_version, environment, tool, fault, parameter
