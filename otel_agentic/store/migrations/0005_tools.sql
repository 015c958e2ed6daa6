-- Which tool fails, since when and in which version; how often each tool was expected and made; what shows that results were used.
ALTER TABLE conversation_scores ADD COLUMN partial BOOLEAN;
COMMENT ON COLUMN conversation_scores.partial IS 'true for a computed fail beside needed parts that could not be evaluated; null when written before this was kept';
ALTER TABLE turn_scores ADD COLUMN answer_reason VARCHAR;
COMMENT ON COLUMN turn_scores.answer_reason IS 'why the answer failed or was not evaluated; null for a pass, and when written before this was kept';
ALTER TABLE tool_faults ADD COLUMN expected_call JSON;
COMMENT ON COLUMN tool_faults.expected_call IS 'parameters of the expected call; null when none was expected or when written before this was kept';
ALTER TABLE tool_faults ADD COLUMN failed BOOLEAN;
COMMENT ON COLUMN tool_faults.failed IS 'true when the tools failed and this was not made good, as an error is by a later call; null when written before this was kept';
ALTER TABLE tool_faults ADD COLUMN tried INTEGER;
COMMENT ON COLUMN tool_faults.tried IS 'of a missing call, how often the tool answered with an error where it was expected; null for other faults';
COMMENT ON COLUMN tool_scores.evidence IS 'by dimension, one record a call of which something is known: which value was found where; read by v_tool_evidence';

-- One row is how often a tool was expected and made under one expectation.
CREATE TABLE tool_counts (
    evaluation_id VARCHAR NOT NULL, -- evaluation
    environment VARCHAR NOT NULL, -- conversation
    conversation_id VARCHAR NOT NULL, -- conversation
    revision INTEGER NOT NULL, -- conversation revision
    turn_index INTEGER, -- turn, null for an expectation on the whole conversation
    tool_name VARCHAR NOT NULL, -- tool
    expected INTEGER NOT NULL, -- required calls
    made INTEGER NOT NULL, -- calls that answered without an error
    errored INTEGER NOT NULL, -- calls that answered with an error
    paired INTEGER NOT NULL, -- required calls that were made
    unasked INTEGER NOT NULL, -- extra calls that are not allowed
    parameters DOUBLE NOT NULL, -- sum, over required calls, of the share of parameters that agree
    compared INTEGER NOT NULL, -- required calls whose parameters could be compared
    in_order INTEGER NOT NULL, -- required calls made in their place
    ordered INTEGER NOT NULL, -- required calls that have an order
    used DOUBLE NOT NULL, -- results that were used
    known INTEGER NOT NULL -- results of which it is known whether they were used
);

-- Each tool fault of the newest scores, with what was expected and what was made.
CREATE VIEW v_tool_faults AS
SELECT
    c.agent, -- agent name
    c.agent_version, -- agent version
    nullif(c.environment, '') AS environment, -- deployment environment, null when unknown
    c.conversation_id, -- conversation id
    c.ended_at, -- end of the conversation
    s.dataset, -- dataset of the case
    s.case_id, -- case that it was held against
    s.outcome, -- outcome of the conversation
    f.turn_index, -- turn, 0-based; null for a call that may fall in any turn
    t.query AS query, -- what the user asked in that turn, in the first one where there is none
    f.tool_name AS tool, -- tool name
    f.dimension, -- dimension that the fault hurts: selection, parameters, sequence or utilization; null for none
    f.fault, -- missing, spurious, wrong_parameters, wrong_order, unused_result, errored or forbidden
    f.parameter, -- parameter, for wrong_parameters
    f.expected, -- expected value of the parameter
    f.made, -- value that the agent gave it
    f.expected_call, -- parameters of the expected call
    m.arguments AS made_call, -- arguments of the made call
    m.step AS step, -- 1-based model response that asked for the made call
    m.error AS error, -- why the made call failed
    f.explanation, -- one sentence
    coalesce(f.failed, false) AS failed, -- true when the tools failed and this was not made good, as an error is by a later call
    f.tried, -- of a missing call, how often the tool answered with an error where it was expected
    coalesce(f.trace_id, t.trace_id) AS trace_id, -- trace of the made call, of the turn where there is none
    coalesce(f.span_id, t.span_id) AS span_id, -- span of the made call, of the turn where there is none
    f.evaluation_id -- evaluation
FROM tool_faults f
JOIN conversation_scores s USING (evaluation_id, environment, conversation_id, revision)
JOIN conversations c USING (environment, conversation_id, revision)
LEFT JOIN turns t ON t.environment = c.environment AND t.conversation_id = c.conversation_id
    AND t.revision = c.revision AND t.turn_index = coalesce(f.turn_index, 0)
LEFT JOIN tool_calls m ON m.environment = c.environment AND m.conversation_id = c.conversation_id
    AND m.revision = c.revision AND m.turn_index = f.turn_index AND m.position = f.made_position
WHERE NOT s.superseded AND NOT c.superseded;

-- Each tool of each agent and version: how often it was expected, made and right, by the newest scores.
CREATE VIEW v_tool_health AS
SELECT
    c.agent, -- agent name
    c.agent_version, -- agent version
    nullif(c.environment, '') AS environment, -- deployment environment, null when unknown
    n.tool_name AS tool, -- tool name
    count(DISTINCT (c.environment, c.conversation_id)) AS conversations, -- scored conversations that expected or made it
    count(DISTINCT (c.environment, c.conversation_id)) FILTER (n.expected > 0) AS expected_conversations, -- scored conversations that expected it
    sum(n.expected)::BIGINT AS expected, -- required calls
    sum(n.made)::BIGINT AS made, -- calls that answered without an error
    sum(n.errored)::BIGINT AS errored, -- calls that answered with an error
    sum(n.paired)::BIGINT AS paired, -- required calls that were made
    sum(n.unasked)::BIGINT AS unasked, -- extra calls that are not allowed
    sum(n.paired) / nullif(sum(n.expected + n.unasked), 0) AS selection, -- paired / (expected + unasked); null when it does not apply
    sum(n.parameters) / nullif(sum(n.compared), 0) AS parameters, -- mean share of parameters that agree; null when it does not apply
    sum(n.in_order) / nullif(sum(n.ordered), 0) AS sequence, -- share of required calls made in their place; null when it does not apply
    sum(n.used) / nullif(sum(n.known), 0) AS utilization, -- share of results that were used, of those of which it is known; null when of none
    sum(n.known)::BIGINT AS known_results, -- results of which it is known whether they were used
    min(c.ended_at) AS first_seen, -- end of the oldest conversation with it
    max(c.ended_at) AS last_seen -- end of the newest conversation with it
FROM tool_counts n
JOIN conversation_scores s USING (evaluation_id, environment, conversation_id, revision)
JOIN conversations c USING (environment, conversation_id, revision)
WHERE NOT s.superseded AND NOT c.superseded
GROUP BY c.agent, c.agent_version, c.environment, n.tool_name;

-- Each thing that is wrong with a tool, over all versions of its agent: since when, and which version brought it. Versions follow each other by their numbers where all of an agent's have some, else by when they appeared.
CREATE VIEW v_fault_history AS
WITH scored AS (
    SELECT
        s.evaluation_id, c.agent, nullif(c.environment, '') AS environment, c.agent_version, c.environment AS place,
        c.conversation_id, c.revision, c.ended_at
    FROM conversation_scores s
    JOIN conversations c USING (environment, conversation_id, revision)
    WHERE NOT s.superseded AND NOT c.superseded
), versions AS (
    SELECT
        agent, environment, agent_version, min(ended_at) AS appeared,
        try_cast(nullif(regexp_extract_all(regexp_extract(agent_version, '^v?([0-9]+([.][0-9]+)*)', 1), '[0-9]+'), [])
            AS HUGEINT[]) AS numbers
    FROM scored
    GROUP BY ALL
), numbered AS (
    SELECT *, bool_and(numbers IS NOT NULL) OVER (PARTITION BY agent, environment) AS by_number FROM versions
), ranked AS (
    SELECT
        agent, environment, agent_version,
        row_number() OVER (
            PARTITION BY agent, environment ORDER BY CASE WHEN by_number THEN numbers END, appeared, agent_version
        ) AS rank
    FROM numbered
), by_version AS (
    SELECT
        f.agent, f.environment, f.agent_version, r.rank, f.tool, f.dimension, f.fault, f.parameter,
        count(*) AS faults, min(f.ended_at) AS since
    FROM v_tool_faults f
    JOIN ranked r ON r.agent IS NOT DISTINCT FROM f.agent AND r.environment IS NOT DISTINCT FROM f.environment
        AND r.agent_version IS NOT DISTINCT FROM f.agent_version
    GROUP BY ALL
), problems AS (
    SELECT
        agent, environment, tool, dimension, fault, parameter, sum(faults)::BIGINT AS faults, min(since) AS since,
        min(rank) AS rank, list(agent_version ORDER BY rank)[1] AS introduced_in,
        to_json(list({'agent_version': agent_version, 'faults': faults} ORDER BY rank)) AS versions
    FROM by_version
    GROUP BY ALL
), chances AS (
    SELECT DISTINCT o.agent, o.environment, r.rank, n.tool_name AS tool, o.conversation_id, o.ended_at
    FROM tool_counts n
    JOIN scored o ON o.evaluation_id = n.evaluation_id AND o.place = n.environment
        AND o.conversation_id = n.conversation_id AND o.revision = n.revision
    JOIN ranked r ON r.agent IS NOT DISTINCT FROM o.agent AND r.environment IS NOT DISTINCT FROM o.environment
        AND r.agent_version IS NOT DISTINCT FROM o.agent_version
), before AS (
    SELECT
        p.agent, p.environment, p.tool, p.dimension, p.fault, p.parameter,
        count(*) FILTER (h.ended_at < p.since) AS clean_before, count(*) FILTER (h.rank < p.rank) > 0 AS is_new
    FROM problems p
    JOIN chances h ON h.agent IS NOT DISTINCT FROM p.agent AND h.environment IS NOT DISTINCT FROM p.environment
        AND h.tool = p.tool
    GROUP BY ALL
)
SELECT
    p.agent, -- agent name
    p.environment, -- deployment environment, null when unknown
    p.tool, -- tool name
    p.dimension, -- dimension that the fault hurts; null for none
    p.fault, -- what is wrong with the call
    p.parameter, -- parameter, for wrong_parameters
    p.faults, -- how often
    p.versions, -- agent versions with how often, the first one first
    p.since, -- end of the oldest conversation with it
    p.introduced_in, -- the first agent version that has it
    b.is_new, -- true when an earlier version used the tool without this; null when that is not known
    b.clean_before -- scored conversations with the tool that ended before the oldest one with this; null when that is not known
FROM problems p
LEFT JOIN before b ON b.agent IS NOT DISTINCT FROM p.agent AND b.environment IS NOT DISTINCT FROM p.environment
    AND b.tool = p.tool AND b.dimension IS NOT DISTINCT FROM p.dimension AND b.fault = p.fault
    AND b.parameter IS NOT DISTINCT FROM p.parameter;

DROP VIEW v_failing_tools;

-- What is wrong with which tool: dimension, fault and parameter, how often, since when, in which version, and a conversation to look at.
CREATE VIEW v_failing_tools AS
WITH problems AS (
    SELECT
        agent, agent_version, environment, tool, dimension, fault, parameter, count(*) AS faults,
        count(DISTINCT conversation_id) AS conversations,
        count(DISTINCT conversation_id) FILTER (failed) AS failed, count(*) FILTER (tried > 0) AS tried,
        min(ended_at) AS first_seen, max(ended_at) AS last_seen
    FROM v_tool_faults
    GROUP BY ALL
), newest AS (
    SELECT *
    FROM v_tool_faults
    QUALIFY row_number() OVER (
        PARTITION BY agent, agent_version, environment, tool, dimension, fault, parameter
        ORDER BY ended_at DESC, conversation_id DESC, turn_index DESC, step DESC, explanation
    ) = 1
), pairs AS (
    SELECT agent, agent_version, environment, tool, fault, parameter, expected, made, count(*) AS n
    FROM v_tool_faults
    WHERE parameter IS NOT NULL
    GROUP BY ALL
), frequent AS (
    SELECT
        agent, agent_version, environment, tool, fault, parameter,
        to_json(list({'made': made, 'expected': expected, 'count': n} ORDER BY n DESC, made, expected)[:5]) AS wrong_values
    FROM pairs
    GROUP BY ALL
)
SELECT
    p.agent, -- agent name
    p.agent_version, -- agent version
    p.environment, -- deployment environment, null when unknown
    p.tool, -- tool name
    p.dimension, -- dimension that the fault hurts: selection, parameters, sequence or utilization; null for none
    p.fault, -- what is wrong with the call
    p.parameter, -- parameter, for wrong_parameters
    p.faults, -- how often
    p.conversations, -- in how many conversations
    p.failed, -- in how many of them the tools failed and it was not made good: what to look at first
    CASE p.fault WHEN 'missing' THEN p.tried END AS tried, -- of missing calls, how many stand beside errors of the tool: it may have been tried
    p.faults / sum(p.faults) OVER (PARTITION BY p.agent, p.agent_version, p.environment) AS share, -- share of all faults of the agent, version and environment
    CASE p.fault WHEN 'missing' THEN h.expected WHEN 'errored' THEN h.made + h.errored WHEN 'spurious' THEN h.made WHEN 'forbidden' THEN h.made ELSE h.paired END AS calls, -- calls that could have it: the expected ones for missing, all for errored, those without an error for spurious and forbidden, else the expected ones that were made
    p.faults / nullif(calls, 0) AS rate, -- faults / calls; null when the calls are not known
    h.expected_conversations AS expected_conversations, -- scored conversations that expected the tool
    p.first_seen, -- end of the oldest conversation with it, in this version
    p.last_seen, -- end of the newest conversation with it, in this version
    y.since AS since, -- end of the oldest conversation with it, in any version
    y.introduced_in AS introduced_in, -- the first agent version that has it
    y.is_new AND y.introduced_in IS NOT DISTINCT FROM p.agent_version AS is_new, -- true when this version brought it: an earlier one used the tool without; null when that is not known
    y.clean_before AS clean_before, -- scored conversations with the tool before the first one with it
    y.versions AS versions, -- agent versions with how often, the first one first
    q.wrong_values AS wrong_values, -- the most frequent pairs of made and expected value, with their counts
    e.conversation_id AS example_conversation, -- the newest conversation with it
    e.explanation AS example, -- what happened there, one sentence
    e.expected AS expected, -- value of the parameter that was expected there
    e.made AS made, -- value that the agent gave there
    e.expected_call AS expected_call, -- parameters of the expected call there
    e.made_call AS made_call, -- arguments of the made call there
    e.error AS error, -- why the made call failed there
    e.trace_id AS trace_id, -- trace there
    e.span_id AS span_id -- span there
FROM problems p
JOIN newest e ON e.agent IS NOT DISTINCT FROM p.agent AND e.agent_version IS NOT DISTINCT FROM p.agent_version
    AND e.environment IS NOT DISTINCT FROM p.environment AND e.tool = p.tool AND e.fault = p.fault
    AND e.parameter IS NOT DISTINCT FROM p.parameter
JOIN v_fault_history y ON y.agent IS NOT DISTINCT FROM p.agent AND y.environment IS NOT DISTINCT FROM p.environment
    AND y.tool = p.tool AND y.fault = p.fault AND y.parameter IS NOT DISTINCT FROM p.parameter
LEFT JOIN v_tool_health h ON h.agent IS NOT DISTINCT FROM p.agent AND h.agent_version IS NOT DISTINCT FROM p.agent_version
    AND h.environment IS NOT DISTINCT FROM p.environment AND h.tool = p.tool
LEFT JOIN frequent q ON q.agent IS NOT DISTINCT FROM p.agent AND q.agent_version IS NOT DISTINCT FROM p.agent_version
    AND q.environment IS NOT DISTINCT FROM p.environment AND q.tool = p.tool AND q.fault = p.fault
    AND q.parameter IS NOT DISTINCT FROM p.parameter;

-- What shows that the result of a call was used, or was not; and what a judge said of parameters. One row is a call of the newest scores of which something is known.
CREATE VIEW v_tool_evidence AS
WITH found AS (
    SELECT
        t.evaluation_id, t.environment, t.conversation_id, t.revision, t.turn_index AS scope_turn_index, d.dimension,
        unnest(from_json(json_extract(t.evidence, d.dimension), '["JSON"]')) AS record
    FROM tool_scores t
    CROSS JOIN (VALUES ('utilization'), ('parameters')) d (dimension)
    WHERE json_type(t.evidence, d.dimension) = 'ARRAY'
)
SELECT
    c.agent, -- agent name
    c.agent_version, -- agent version
    nullif(c.environment, '') AS environment, -- deployment environment, null when unknown
    c.conversation_id, -- conversation id
    c.ended_at, -- end of the conversation
    s.case_id, -- case that it was held against
    f.scope_turn_index, -- turn of the expectation, null for one on the whole conversation
    f.dimension, -- utilization, or parameters
    f.record ->> 'tool' AS tool, -- tool name
    (f.record ->> 'turn_index')::INTEGER AS turn_index, -- turn of the call
    (f.record ->> 'position')::INTEGER AS position, -- place of the call in its turn
    f.record ->> 'span_id' AS span_id, -- span of the call
    f.record ->> 'parameter' AS parameter, -- parameter that a judge compared
    (f.record ->> 'score')::DOUBLE AS score, -- 1 used, 0 not used; of a parameter the judge's score
    f.record ->> 'how' AS how, -- argument, answer, contradiction, flag or judge: by what it is known
    f.record ->> 'key' AS key, -- key of the result that holds the value
    f.record -> 'value' AS value, -- value of the result
    (f.record ->> 'found_turn_index')::INTEGER AS found_turn_index, -- turn of the answer or call where it was found, or contradicted
    f.record ->> 'found_text' AS found_text, -- the words there
    f.record ->> 'found_tool' AS found_tool, -- later call that was given the value, null for an answer
    f.record ->> 'found_argument' AS found_argument, -- its argument
    (f.record ->> 'found_position')::INTEGER AS found_position, -- its place in its turn
    f.record ->> 'found_span_id' AS found_span_id, -- its span
    f.record ->> 'explanation' AS explanation -- the same as a part of a sentence
FROM found f
JOIN conversation_scores s USING (evaluation_id, environment, conversation_id, revision)
JOIN conversations c USING (environment, conversation_id, revision)
WHERE NOT s.superseded AND NOT c.superseded AND json_type(f.record) = 'OBJECT';

-- Conversations whose given verdict says something else than their turns and tools, by the newest scores.
CREATE VIEW v_disagreements AS
SELECT
    c.agent, -- agent name
    c.agent_version, -- agent version
    nullif(c.environment, '') AS environment, -- deployment environment, null when unknown
    c.conversation_id, -- conversation id
    c.ended_at, -- end of the conversation
    s.dataset, -- dataset of the case
    s.case_id, -- case that it was held against
    s.outcome_source, -- where the verdict comes from: labels, case or event
    s.outcome, -- the verdict
    s.computed_outcome, -- what turns and tools say
    s.computed_reason, -- why
    s.explanation -- both in one sentence
FROM conversation_scores s
JOIN conversations c USING (environment, conversation_id, revision)
WHERE NOT s.superseded AND NOT c.superseded AND s.outcome_source <> 'computed'
    AND s.computed_outcome IN ('pass', 'fail') AND s.computed_outcome <> s.outcome;

-- How many fails of each agent, version and environment were decided while other needed parts could not be evaluated.
CREATE VIEW v_partial_evidence AS
SELECT
    c.agent, -- agent name
    c.agent_version, -- agent version
    nullif(c.environment, '') AS environment, -- deployment environment, null when unknown
    count(*) AS evaluated, -- conversations that passed or failed
    count(*) FILTER (s.partial) AS partial_fails, -- of them fails on partial evidence
    count(*) FILTER (s.partial) / count(*) AS share -- partial_fails / evaluated; above 0.05 the success rate is biased downwards
FROM conversation_scores s
JOIN conversations c USING (environment, conversation_id, revision)
WHERE NOT s.superseded AND NOT c.superseded AND s.outcome IN ('pass', 'fail')
GROUP BY c.agent, c.agent_version, c.environment;
