-- The text after a column, and the lines before a table or view, become its COMMENT in the database.
-- Times are UTC. "Conversation" columns (environment, conversation_id, revision) join all tables below `conversations`.

-- One row is a span, as it was received.
CREATE TABLE spans (
    trace_id VARCHAR NOT NULL, -- trace id, 32 hex characters
    span_id VARCHAR NOT NULL, -- span id, 16 hex characters; unique within its trace
    parent_span_id VARCHAR, -- span id of the parent, null for a root
    name VARCHAR NOT NULL, -- span name
    kind UTINYINT NOT NULL, -- OTLP kind: 1 internal, 2 server, 3 client, 4 producer, 5 consumer
    start_time TIMESTAMP_NS NOT NULL, -- start of the span
    end_time TIMESTAMP_NS NOT NULL, -- end of the span
    status UTINYINT NOT NULL, -- OTLP status: 0 unset, 1 ok, 2 error
    status_message VARCHAR, -- status text
    service VARCHAR, -- service.name of the resource
    environment VARCHAR NOT NULL, -- deployment environment of the resource, empty when unknown
    scope VARCHAR NOT NULL, -- instrumentation scope name
    scope_version VARCHAR, -- instrumentation scope version
    dialect VARCHAR NOT NULL, -- dialect that reads the span
    operation VARCHAR, -- gen_ai.operation.name or openinference.span.kind
    conversation_id VARCHAR, -- conversation id written on this very span; most spans inherit theirs, see trace_links
    agent_name VARCHAR, -- gen_ai.agent.name or agent.name
    tool_name VARCHAR, -- gen_ai.tool.name or tool.name
    model VARCHAR, -- model that answered, else model asked
    attributes JSON NOT NULL, -- all attributes
    events JSON, -- span events: name, time_ns, attributes
    links JSON, -- span links: trace_id, span_id, attributes
    resource JSON NOT NULL, -- resource attributes
    bucket USMALLINT NOT NULL, -- stable hash of the trace id, 0 to 1023, to divide work
    received_at TIMESTAMP_NS NOT NULL -- when the span was committed
);

-- One row is an OTLP log record that belongs to a span and is an event.
CREATE TABLE log_records (
    trace_id VARCHAR NOT NULL, -- trace id of the span it belongs to
    span_id VARCHAR NOT NULL, -- span id of the span it belongs to
    "time" TIMESTAMP_NS NOT NULL, -- time of the record, else when it was observed
    event_name VARCHAR NOT NULL, -- event name
    body JSON, -- body
    attributes JSON NOT NULL, -- attributes
    scope VARCHAR NOT NULL, -- instrumentation scope name
    resource JSON NOT NULL, -- resource attributes
    content_hash UBIGINT NOT NULL, -- hash of all of the above: a record has no id of its own, this finds resent ones
    received_at TIMESTAMP_NS NOT NULL -- when the record was committed
);

-- One row says which conversation a trace, or a part of one, belongs to.
CREATE TABLE trace_links (
    trace_id VARCHAR NOT NULL, -- trace id
    environment VARCHAR NOT NULL, -- deployment environment, empty when unknown
    service VARCHAR, -- service.name
    explicit_id VARCHAR, -- conversation id found in the spans, null when there is none
    conversation_id VARCHAR, -- conversation that the trace was linked to, null before it was linked
    linked_traces VARCHAR[] NOT NULL, -- traces that span links point at
    history_in VARCHAR[] NOT NULL, -- digests of the messages that it began with, one for each length; empty with an id
    history_out VARCHAR, -- digest of all messages that it ended with; null with an id
    events INTEGER NOT NULL, -- agent events found; 0 when nothing in the trace concerns an agent
    started_at TIMESTAMP_NS NOT NULL, -- start of the first event, the epoch when there is none
    ended_at TIMESTAMP_NS NOT NULL, -- end of the last event, the epoch when there is none
    received_until TIMESTAMP_NS NOT NULL -- newest received_at among the spans and log records that were read
);

-- One row is a revision of a conversation.
CREATE TABLE conversations (
    environment VARCHAR NOT NULL, -- deployment environment, empty when unknown; part of the identity
    conversation_id VARCHAR NOT NULL, -- conversation id; without one in the spans the id of its first trace
    revision INTEGER NOT NULL, -- 1-based; late spans that change a closed conversation make a new one
    superseded BOOLEAN NOT NULL, -- true when a newer revision took its place
    agent VARCHAR, -- agent name
    agent_version VARCHAR, -- gen_ai.agent.version, else service.version
    service VARCHAR, -- service.name
    started_at TIMESTAMP_NS NOT NULL, -- start of the first event
    ended_at TIMESTAMP_NS NOT NULL, -- end of the last event
    closed_by VARCHAR, -- end_mark, end_of_input or idle; null while open
    link_method VARCHAR NOT NULL, -- explicit, span_link, history or trace: how its traces were put together
    ambiguous_link BOOLEAN NOT NULL, -- true when its history fitted two conversations equally, so that it stands alone
    case_id VARCHAR, -- case named in the spans
    verdict BOOLEAN, -- verdict found in the spans
    turn_count INTEGER NOT NULL, -- number of turns
    call_count INTEGER NOT NULL, -- number of tool calls
    content_captured VARCHAR NOT NULL, -- full, partial or none
    content_hash VARCHAR NOT NULL, -- hash of turns and calls: input that changes nothing makes no revision
    bucket USMALLINT NOT NULL, -- stable hash of environment and conversation id, 0 to 1023
    built_at TIMESTAMP_NS NOT NULL -- when this revision was built
);

-- One row is a turn: a query, its calls and its answer.
CREATE TABLE turns (
    environment VARCHAR NOT NULL, -- conversation
    conversation_id VARCHAR NOT NULL, -- conversation
    revision INTEGER NOT NULL, -- conversation revision
    turn_index INTEGER NOT NULL, -- 0-based place in the conversation
    query VARCHAR, -- what the user asked
    query_captured BOOLEAN NOT NULL, -- false when the instrumentation did not record it
    answer VARCHAR, -- what the agent answered; null when it gave none
    answer_captured BOOLEAN NOT NULL, -- false when the instrumentation did not record it
    error VARCHAR, -- why the run failed
    response_id VARCHAR, -- gen_ai.response.id of the answer
    trace_id VARCHAR NOT NULL, -- trace of the span that stands for the turn
    span_id VARCHAR NOT NULL, -- span that stands for the turn: its agent run
    started_at TIMESTAMP_NS NOT NULL, -- start
    ended_at TIMESTAMP_NS NOT NULL -- end
);

-- One row is a tool call that the agent made.
CREATE TABLE tool_calls (
    environment VARCHAR NOT NULL, -- conversation
    conversation_id VARCHAR NOT NULL, -- conversation
    revision INTEGER NOT NULL, -- conversation revision
    turn_index INTEGER NOT NULL, -- turn
    position INTEGER NOT NULL, -- 0-based place in the turn
    step INTEGER NOT NULL, -- 1-based model response that asked for it; calls of one response share it
    kind VARCHAR NOT NULL, -- tool, transfer (to another agent) or agent (an agent used as a tool)
    name VARCHAR NOT NULL, -- tool name
    arguments JSON, -- arguments, null when not captured
    result JSON, -- result, null when not captured or null
    result_captured BOOLEAN NOT NULL, -- false when the instrumentation did not record it
    error VARCHAR, -- why the call failed
    call_id VARCHAR, -- tool call id; not unique over time
    trace_id VARCHAR NOT NULL, -- trace
    span_id VARCHAR, -- its own span, null when only messages tell of it
    parent_span_id VARCHAR, -- span of the call that holds it, when a sub-agent made it
    agent_name VARCHAR, -- agent that made it
    source VARCHAR NOT NULL, -- span, message or both: where it was seen
    used_flag BOOLEAN -- whether the data itself says that the result was used
);

-- One row is a version of an annotated case.
CREATE TABLE cases (
    dataset VARCHAR NOT NULL, -- dataset name, empty when none is given
    case_id VARCHAR NOT NULL, -- case id
    version VARCHAR NOT NULL, -- hash of the case's content
    current BOOLEAN NOT NULL, -- true for the version in force
    agent VARCHAR, -- agent name or glob that the case is for
    tags VARCHAR[] NOT NULL, -- tags
    definition JSON NOT NULL, -- the whole case
    source VARCHAR NOT NULL, -- file that it came from
    imported_at TIMESTAMP_NS NOT NULL -- when it was imported
);

-- One row is an annotated turn of a case.
CREATE TABLE case_turns (
    dataset VARCHAR NOT NULL, -- case
    case_id VARCHAR NOT NULL, -- case
    version VARCHAR NOT NULL, -- case version
    turn_index INTEGER NOT NULL, -- 0-based
    query VARCHAR, -- query
    answer VARCHAR -- expected answer
);

-- One row is an expected tool call of a case.
CREATE TABLE expected_calls (
    dataset VARCHAR NOT NULL, -- case
    case_id VARCHAR NOT NULL, -- case
    version VARCHAR NOT NULL, -- case version
    turn_index INTEGER, -- turn, null when the call may fall in any turn
    call_index INTEGER NOT NULL, -- 0-based place in the expectation
    tool_name VARCHAR NOT NULL, -- tool name
    parameters JSON NOT NULL, -- expected parameters
    step INTEGER, -- expected step
    required BOOLEAN NOT NULL -- false when the call is optional
);

-- One row is a given label of a conversation.
CREATE TABLE labels (
    conversation_id VARCHAR NOT NULL, -- conversation
    case_id VARCHAR, -- case that the label maps it to
    verdict BOOLEAN, -- true for pass; null when the label only maps
    source VARCHAR NOT NULL, -- file and line
    imported_at TIMESTAMP_NS NOT NULL -- when it was imported
);

-- One row is an evaluator version: everything that a score depends on besides the conversation.
CREATE TABLE evaluations (
    evaluation_id VARCHAR NOT NULL, -- hash of code, judge, settings and truth
    judge VARCHAR NOT NULL, -- judge name
    judge_version VARCHAR NOT NULL, -- judge version
    settings JSON NOT NULL, -- scoring settings
    truth_version VARCHAR NOT NULL, -- hash of cases and labels
    first_run_at TIMESTAMP_NS NOT NULL, -- first run
    last_run_at TIMESTAMP_NS NOT NULL -- last run
);

-- One row says which case a conversation was matched to.
CREATE TABLE matches (
    evaluation_id VARCHAR NOT NULL, -- evaluation
    environment VARCHAR NOT NULL, -- conversation
    conversation_id VARCHAR NOT NULL, -- conversation
    revision INTEGER NOT NULL, -- conversation revision
    dataset VARCHAR, -- case
    case_id VARCHAR, -- case, null when unmatched or ambiguous
    case_version VARCHAR, -- case version
    method VARCHAR, -- case_id, labels_file, exact_queries, first_query or fuzzy
    confidence DOUBLE, -- 0 to 1
    reason VARCHAR, -- unmatched or ambiguous
    candidates VARCHAR[] NOT NULL, -- cases that fitted equally
    warning VARCHAR -- why the ground truth looks wrong
);

-- One row is the outcome of a conversation revision under an evaluation.
CREATE TABLE conversation_scores (
    evaluation_id VARCHAR NOT NULL, -- evaluation
    environment VARCHAR NOT NULL, -- conversation
    conversation_id VARCHAR NOT NULL, -- conversation
    revision INTEGER NOT NULL, -- conversation revision
    superseded BOOLEAN NOT NULL, -- true when a newer score took its place
    dataset VARCHAR, -- case
    case_id VARCHAR, -- case
    outcome VARCHAR NOT NULL, -- pass, fail or not_evaluated
    reason VARCHAR, -- why it failed or was not evaluated
    outcome_source VARCHAR NOT NULL, -- computed, or labels, case, event when a verdict was given
    computed_outcome VARCHAR NOT NULL, -- what turns and tools say, whatever a label says
    computed_reason VARCHAR, -- why
    answer_outcome VARCHAR NOT NULL, -- outcome by answers alone
    tool_outcome VARCHAR NOT NULL, -- outcome by tools alone
    both_outcome VARCHAR NOT NULL, -- outcome by answers and tools
    match_method VARCHAR, -- how the case was found
    warning VARCHAR, -- why the ground truth looks wrong
    missing_outputs VARCHAR[] NOT NULL, -- expected outputs that no answer says
    explanation VARCHAR NOT NULL, -- one sentence
    scored_at TIMESTAMP_NS NOT NULL -- when
);

-- One row is the outcome of a turn.
CREATE TABLE turn_scores (
    evaluation_id VARCHAR NOT NULL, -- evaluation
    environment VARCHAR NOT NULL, -- conversation
    conversation_id VARCHAR NOT NULL, -- conversation
    revision INTEGER NOT NULL, -- conversation revision
    turn_index INTEGER NOT NULL, -- turn
    case_turn_index INTEGER, -- turn of the case that it was aligned with
    outcome VARCHAR NOT NULL, -- pass, fail or not_evaluated
    reason VARCHAR, -- why
    answer_score DOUBLE, -- 0 to 1, null when no answer was judged
    answer_outcome VARCHAR NOT NULL, -- outcome by the answer
    tool_outcome VARCHAR, -- outcome by the tools, null when none are expected
    explanation VARCHAR NOT NULL -- one sentence
);

-- One row is the tool correctness of one expectation.
CREATE TABLE tool_scores (
    evaluation_id VARCHAR NOT NULL, -- evaluation
    environment VARCHAR NOT NULL, -- conversation
    conversation_id VARCHAR NOT NULL, -- conversation
    revision INTEGER NOT NULL, -- conversation revision
    turn_index INTEGER, -- turn, null for an expectation on the whole conversation
    outcome VARCHAR NOT NULL, -- pass, fail or not_evaluated
    reason VARCHAR, -- why
    overall DOUBLE, -- weighted mean of the dimensions that apply, null when none does
    selection DOUBLE, -- were the right tools called; null when it does not apply
    parameters DOUBLE, -- were they given the right parameters; null when it does not apply
    sequence DOUBLE, -- were they called in the right order; null when it does not apply
    utilization DOUBLE, -- were their results used; null when it does not apply or is not known
    evidence JSON, -- where used results were found
    explanation VARCHAR NOT NULL -- one sentence
);

-- One row is one thing wrong with one call.
CREATE TABLE tool_faults (
    evaluation_id VARCHAR NOT NULL, -- evaluation
    environment VARCHAR NOT NULL, -- conversation
    conversation_id VARCHAR NOT NULL, -- conversation
    revision INTEGER NOT NULL, -- conversation revision
    turn_index INTEGER, -- turn of the made call, else of the expectation
    fault VARCHAR NOT NULL, -- missing, spurious, wrong_parameters, wrong_order, unused_result, errored or forbidden
    dimension VARCHAR, -- dimension that it hurts
    tool_name VARCHAR NOT NULL, -- tool
    parameter VARCHAR, -- parameter, for wrong_parameters
    expected JSON, -- expected value
    made JSON, -- value that the agent gave
    expected_index INTEGER, -- place of the expected call
    made_position INTEGER, -- place of the made call in its turn
    trace_id VARCHAR, -- trace of the made call
    span_id VARCHAR, -- span of the made call
    explanation VARCHAR NOT NULL -- one sentence
);

-- One row is a named score of any evaluator.
CREATE TABLE scores (
    evaluation_id VARCHAR NOT NULL, -- evaluation
    environment VARCHAR NOT NULL, -- conversation
    conversation_id VARCHAR NOT NULL, -- conversation
    revision INTEGER NOT NULL, -- conversation revision
    target VARCHAR NOT NULL, -- conversation, turn or call
    turn_index INTEGER, -- turn, null for the conversation
    name VARCHAR NOT NULL, -- evaluation name, as in gen_ai.evaluation.name
    value DOUBLE, -- score, null when there is none
    label VARCHAR NOT NULL, -- pass, fail or not_evaluated
    explanation VARCHAR -- one sentence
);

-- One row is an answer of a judge model; also the cache.
CREATE TABLE judge_calls (
    content_hash VARCHAR NOT NULL, -- hash of evaluator version and everything that was asked
    judge VARCHAR NOT NULL, -- judge name
    model VARCHAR, -- model
    score DOUBLE, -- 0 to 1, null when the judge failed
    reasoning VARCHAR, -- the judge's reasoning
    error VARCHAR, -- why the judge failed
    tries INTEGER NOT NULL, -- requests made
    latency_s DOUBLE, -- seconds of the last request
    input_tokens BIGINT, -- tokens sent
    output_tokens BIGINT, -- tokens received
    cost_usd DOUBLE, -- cost in US dollars
    judged_at TIMESTAMP_NS NOT NULL -- when
);

-- One row is a group's estimate over one rolling window.
CREATE TABLE windows (
    agent VARCHAR, -- agent name
    agent_version VARCHAR, -- agent version
    environment VARCHAR, -- deployment environment
    service VARCHAR, -- service.name
    tag VARCHAR, -- case tag, when grouped by tag
    "window" VARCHAR NOT NULL, -- width: 1h, 24h, 7d
    "end" TIMESTAMP_NS NOT NULL, -- end of the window, inclusive
    k INTEGER NOT NULL, -- number of attempts
    estimator VARCHAR NOT NULL, -- estimator
    interval_method VARCHAR NOT NULL, -- how the interval was made
    level DOUBLE NOT NULL, -- level of the interval
    n BIGINT NOT NULL, -- conversations evaluated
    c BIGINT NOT NULL, -- of them correct
    not_evaluated JSON NOT NULL, -- conversations not evaluated, by reason
    coverage DOUBLE, -- evaluated / all
    pass_at_k DOUBLE, -- at least one of k attempts succeeds; null where undefined
    pass_at_k_lower DOUBLE, -- lower bound
    pass_at_k_upper DOUBLE, -- upper bound
    pass_pow_k DOUBLE, -- all k attempts succeed; null where undefined
    pass_pow_k_lower DOUBLE, -- lower bound
    pass_pow_k_upper DOUBLE, -- upper bound
    lower_bound DOUBLE, -- pass rate if all not evaluated failed
    upper_bound DOUBLE, -- pass rate if all not evaluated passed
    tier VARCHAR NOT NULL, -- deployment tier that the interval supports
    leaning VARCHAR, -- tier of the point estimate, while the evidence is insufficient
    revision INTEGER NOT NULL, -- 1-based; a restated window counts up
    computed_at TIMESTAMP_NS NOT NULL -- when
);

-- Reliability of each agent, version and environment over all closed conversations.
CREATE VIEW v_reliability AS
SELECT
    c.agent, -- agent name
    c.agent_version, -- agent version
    nullif(c.environment, '') AS environment, -- deployment environment, null when unknown
    count(*) FILTER (s.outcome IN ('pass', 'fail')) AS evaluated, -- conversations that passed or failed
    count(*) FILTER (s.outcome = 'pass') AS correct, -- of them passed
    count(*) FILTER (s.outcome = 'not_evaluated') AS not_evaluated, -- conversations that could not be judged
    count(*) FILTER (s.outcome = 'pass') / nullif(count(*) FILTER (s.outcome IN ('pass', 'fail')), 0) AS success_rate, -- correct / evaluated; null when none is evaluated
    count(*) FILTER (s.outcome IN ('pass', 'fail')) / count(*) AS coverage, -- evaluated / all
    max(c.ended_at) AS last_conversation -- end of the newest conversation
FROM conversation_scores s
JOIN conversations c USING (environment, conversation_id, revision)
WHERE NOT s.superseded AND NOT c.superseded
GROUP BY ALL;

-- What is wrong with which tool: dimension, fault and parameter, how often, and a conversation to look at.
CREATE VIEW v_failing_tools AS
SELECT
    c.agent, -- agent name
    c.agent_version, -- agent version
    nullif(c.environment, '') AS environment, -- deployment environment, null when unknown
    f.tool_name AS tool, -- tool name
    f.dimension, -- dimension that the fault hurts: selection, parameters, sequence or utilization
    f.fault, -- what is wrong with the call
    f.parameter, -- parameter, for wrong_parameters
    count(*) AS faults, -- how often
    count(DISTINCT (f.environment, f.conversation_id)) AS conversations, -- in how many conversations
    count(*) / sum(count(*)) OVER (PARTITION BY c.agent, c.agent_version, c.environment) AS share, -- share of all faults of the agent, version and environment
    arg_max(f.conversation_id, c.ended_at) AS example_conversation, -- the newest conversation with it
    min(c.ended_at) AS first_seen, -- end of the oldest conversation with it
    max(c.ended_at) AS last_seen -- end of the newest conversation with it
FROM tool_faults f
JOIN conversation_scores s USING (evaluation_id, environment, conversation_id, revision)
JOIN conversations c USING (environment, conversation_id, revision)
WHERE NOT s.superseded AND NOT c.superseded
GROUP BY c.agent, c.agent_version, c.environment, f.tool_name, f.dimension, f.fault, f.parameter;

-- Each conversation in its newest revision, with its score.
CREATE VIEW v_conversations AS
SELECT
    c.conversation_id, -- conversation id
    nullif(c.environment, '') AS environment, -- deployment environment, null when unknown
    c.revision, -- newest revision
    c.agent, -- agent name
    c.agent_version, -- agent version
    c.service, -- service.name
    c.started_at, -- start of the first event
    c.ended_at, -- end of the last event
    c.closed_by, -- end_mark, end_of_input or idle; null while open
    c.turn_count, -- number of turns
    c.call_count, -- number of tool calls
    c.content_captured, -- full, partial or none
    s.case_id, -- case that it was matched to
    s.outcome, -- pass, fail or not_evaluated; null before it is scored
    s.reason, -- why it failed or was not evaluated
    s.explanation -- one sentence
FROM conversations c
LEFT JOIN conversation_scores s
    ON s.environment = c.environment AND s.conversation_id = c.conversation_id AND s.revision = c.revision
    AND NOT s.superseded
WHERE NOT c.superseded;

-- What the instrumentation records, as shares of turns and calls, by service and dialect.
CREATE VIEW v_coverage AS
WITH dialects AS (
    SELECT trace_id, mode(dialect) AS dialect
    FROM spans
    WHERE dialect <> 'none'
    GROUP BY trace_id
), calls AS (
    SELECT
        environment, conversation_id, revision, turn_index,
        count(*) AS calls,
        count(arguments) AS with_arguments,
        count(*) FILTER (result_captured OR error IS NOT NULL) AS with_result
    FROM tool_calls
    GROUP BY ALL
)
SELECT
    c.service, -- service.name
    d.dialect, -- dialect of most spans of the trace
    count(*) AS turns, -- turns
    avg(t.query_captured::INT) AS query, -- share of turns with their query
    avg(t.answer_captured::INT) AS answer, -- share of turns with their answer
    sum(calls.with_arguments) / nullif(sum(calls.calls), 0) AS arguments, -- share of calls with their arguments
    sum(calls.with_result) / nullif(sum(calls.calls), 0) AS results, -- share of calls with their result or error
    avg((c.link_method = 'explicit')::INT) AS conversation_id -- share of turns whose conversation names itself
FROM turns t
JOIN conversations c USING (environment, conversation_id, revision)
LEFT JOIN dialects d USING (trace_id)
LEFT JOIN calls USING (environment, conversation_id, revision, turn_index)
WHERE NOT c.superseded
GROUP BY c.service, d.dialect;
