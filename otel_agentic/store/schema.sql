-- The schema of a store. The text after a column, and the line before a table or view, become its COMMENT in the database.
-- Times are UTC. The columns (environment, conversation_id, revision) join all tables below `conversations`.
-- Views show the scores of the evaluation `default`, or of the one that SET VARIABLE evaluation = 'NAME' names in a session.

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
    model VARCHAR, -- model of the response, else of the request
    attributes JSON NOT NULL USING COMPRESSION zstd, -- all attributes
    events JSON USING COMPRESSION zstd, -- span events: name, time_ns, attributes
    links JSON, -- span links: trace_id, span_id, attributes
    resource JSON NOT NULL, -- resource attributes
    bucket USMALLINT NOT NULL, -- stable hash of the trace id, 0 to 1023, for dividing work
    received_at TIMESTAMP_NS NOT NULL -- when the span was committed
);

-- One row is an OTLP log record that belongs to a span and is an event.
CREATE TABLE log_records (
    trace_id VARCHAR NOT NULL, -- trace id of the span it belongs to
    span_id VARCHAR NOT NULL, -- span id of the span it belongs to
    "time" TIMESTAMP_NS NOT NULL, -- time of the record, else when it was observed
    event_name VARCHAR NOT NULL, -- event name
    body JSON USING COMPRESSION zstd, -- body
    attributes JSON NOT NULL USING COMPRESSION zstd, -- attributes
    scope VARCHAR NOT NULL, -- instrumentation scope name
    resource JSON NOT NULL, -- resource attributes
    content_hash UBIGINT NOT NULL, -- hash of all of the above: a record has no id of its own, this finds resent ones
    received_at TIMESTAMP_NS NOT NULL -- when the record was committed
);

-- One row links a trace, or a part of one, to its conversation.
CREATE TABLE trace_links (
    trace_id VARCHAR NOT NULL, -- trace id
    environment VARCHAR NOT NULL, -- deployment environment, empty when unknown
    service VARCHAR, -- service.name
    explicit_id VARCHAR, -- conversation id found in the spans, null if they contain none
    conversation_id VARCHAR, -- conversation that the trace was linked to, null before it was linked
    linked_traces VARCHAR[] NOT NULL, -- traces that span links point at
    history_in VARCHAR[] NOT NULL, -- digests of the messages before it, the weakest first; empty with an id
    history_out VARCHAR[], -- digests of all messages at its end, the weakest first; empty with an id
    events INTEGER NOT NULL, -- agent events found; 0 when nothing in the trace concerns an agent
    started_at TIMESTAMP_NS NOT NULL, -- start of the first event, the epoch without events
    ended_at TIMESTAMP_NS NOT NULL, -- end of the last event, the epoch without events
    received_until TIMESTAMP_NS NOT NULL, -- newest received_at among the spans and log records that were read
    received_from TIMESTAMP_NS NOT NULL, -- oldest received_at of the trace, ever
    clock_ahead BOOLEAN NOT NULL, -- true when a span ended more than five minutes after it was received: its sender's clock is wrong
    query_digest VARCHAR, -- digest of the query, null when none was captured
    scopes VARCHAR[], -- names of the instrumentation scopes that report it
    built BOOLEAN NOT NULL DEFAULT true -- true when the conversation was built from all that was read
);

-- One row is a trace or a conversation whose spans are stored, but which could not be rebuilt: it is in no table below. The row goes once a later rebuild succeeds.
CREATE TABLE not_rebuilt (
    trace_id VARCHAR, -- trace id, null for a conversation
    environment VARCHAR NOT NULL, -- deployment environment, empty when unknown and for a trace
    conversation_id VARCHAR, -- conversation id, null for a trace
    reason VARCHAR NOT NULL, -- the error
    first_at TIMESTAMP_NS NOT NULL, -- when it was first tried
    last_at TIMESTAMP_NS NOT NULL -- when it was last tried
);

-- One row is a revision of a conversation.
CREATE TABLE conversations (
    environment VARCHAR NOT NULL, -- deployment environment, empty when unknown; part of the identity
    conversation_id VARCHAR NOT NULL, -- conversation id, followed by @service or #number where several conversations have it; without one in the spans the id of its first trace
    revision INTEGER NOT NULL, -- 1-based; late spans that change a closed conversation make a new one
    superseded BOOLEAN NOT NULL, -- true when a newer revision replaced it
    agent VARCHAR, -- agent name
    agent_version VARCHAR, -- gen_ai.agent.version, else service.version
    service VARCHAR, -- service.name
    started_at TIMESTAMP_NS NOT NULL, -- start of the first event
    ended_at TIMESTAMP_NS NOT NULL, -- end of the last event, as sent
    window_time TIMESTAMP_NS NOT NULL, -- window time: ended_at, capped at the first arrival plus five minutes where the sender's clock is wrong
    closed_by VARCHAR, -- end_mark, end_of_input or idle; null while open
    link_method VARCHAR NOT NULL, -- explicit, span_link, history or trace: how its traces were put together
    ambiguous_link BOOLEAN NOT NULL, -- true when its history fitted two conversations equally, so that it was linked to neither
    possible_reuse BOOLEAN NOT NULL DEFAULT false, -- true when several conversations may share its id and the spans do not distinguish them
    case_id VARCHAR, -- case named in the spans
    verdict BOOLEAN, -- verdict found in the spans
    turn_count INTEGER NOT NULL, -- number of turns
    call_count INTEGER NOT NULL, -- number of tool calls
    content_captured VARCHAR NOT NULL, -- full, partial or none
    content_hash VARCHAR NOT NULL, -- hash of turns and calls: input that changes nothing makes no revision
    bucket USMALLINT NOT NULL, -- stable hash of environment and conversation id, 0 to 1023
    built_at TIMESTAMP_NS NOT NULL, -- when this revision was built
    definitions_hash VARCHAR, -- tools available to the agent, see tool_definitions; null if not captured
    final_state JSON, -- the final state of the world, from the last span that names one; null without one
    user_hash UBIGINT, -- hash of the id of the end user in its spans, such as user.id; null where none names a user
    session_hash UBIGINT, -- hash of session.id, where that is not the conversation itself; null where none names one
    slices VARCHAR[] -- slices that it is in, as name=value: user, locale, tier, prompt, prompt_version, model, flag and those of the settings
);

-- One row is a turn: a query, its calls and its answer.
CREATE TABLE turns (
    environment VARCHAR NOT NULL, -- conversation
    conversation_id VARCHAR NOT NULL, -- conversation
    revision INTEGER NOT NULL, -- conversation revision
    turn_index INTEGER NOT NULL, -- 0-based index in the conversation
    query VARCHAR, -- the user's query
    query_captured BOOLEAN NOT NULL, -- false when the instrumentation did not record it
    answer VARCHAR, -- the agent's answer; null without one
    answer_captured BOOLEAN NOT NULL, -- false when the instrumentation did not record it
    error VARCHAR, -- why the run failed
    response_id VARCHAR, -- gen_ai.response.id of the answer
    trace_id VARCHAR NOT NULL, -- trace of the span that represents the turn
    span_id VARCHAR NOT NULL, -- span that represents the turn: its agent run
    started_at TIMESTAMP_NS NOT NULL, -- start
    ended_at TIMESTAMP_NS NOT NULL, -- end
    dialect VARCHAR, -- dialect that read the span that represents the turn
    scope VARCHAR, -- instrumentation scope of that span
    models JSON, -- models used, a list: model, calls, failed, input_tokens, output_tokens, priced_calls (calls of which no tokens are missing)
    plans VARCHAR[], -- plans that the agent wrote down, in order
    agent_name VARCHAR, -- agent that gave the answer, null when unknown
    reasoning VARCHAR[] -- texts of model responses that are not the answer, in order: reasoning, text next to tool calls, output of planners
);

-- One row is a tool call that the agent made.
CREATE TABLE tool_calls (
    environment VARCHAR NOT NULL, -- conversation
    conversation_id VARCHAR NOT NULL, -- conversation
    revision INTEGER NOT NULL, -- conversation revision
    turn_index INTEGER NOT NULL, -- turn
    position INTEGER NOT NULL, -- 0-based position in the turn
    step INTEGER NOT NULL, -- 1-based model response that requested it; calls of one response share it
    kind VARCHAR NOT NULL, -- tool, transfer (to another agent) or agent (an agent used as a tool)
    name VARCHAR NOT NULL, -- tool name
    arguments JSON, -- arguments, null when not captured
    result JSON, -- result, null when not captured or null
    result_captured BOOLEAN NOT NULL, -- false when the instrumentation did not record it
    error VARCHAR, -- why the call failed
    call_id VARCHAR, -- tool call id; not unique over time
    trace_id VARCHAR NOT NULL, -- trace
    span_id VARCHAR, -- its own span, null if it appears in messages only
    parent_span_id VARCHAR, -- span of the call that holds it, when a sub-agent made it
    agent_name VARCHAR, -- agent that made it
    source VARCHAR NOT NULL, -- span, message or both: where it was found
    used_flag BOOLEAN, -- whether the data itself marks the result as used
    started_at TIMESTAMP_NS, -- start of its span, null where it has none
    ended_at TIMESTAMP_NS, -- end of its span, null where it has none
    target_agent VARCHAR, -- agent that receives a hand-off (kind transfer or agent), null when unknown
    received VARCHAR -- first model input of that agent, null when not captured
);

-- One row is a version of an annotated case.
CREATE TABLE cases (
    dataset VARCHAR NOT NULL, -- dataset name, empty when none is given
    case_id VARCHAR NOT NULL, -- case id
    version VARCHAR NOT NULL, -- hash of the case's content
    current BOOLEAN NOT NULL, -- true for the current version
    agent VARCHAR, -- agent name or glob that the case is for
    tags VARCHAR[] NOT NULL, -- tags
    definition JSON NOT NULL, -- the whole case
    source VARCHAR NOT NULL, -- file that it came from
    imported_at TIMESTAMP_NS NOT NULL, -- when it was imported
    reviewed BOOLEAN, -- false for a draft promoted from production that has not been reviewed
    author VARCHAR -- person who saved the version; null for a version from a file
);

-- One row is an annotated turn of a case.
CREATE TABLE case_turns (
    dataset VARCHAR NOT NULL, -- case
    case_id VARCHAR NOT NULL, -- case
    version VARCHAR NOT NULL, -- case version
    turn_index INTEGER NOT NULL, -- 0-based
    query VARCHAR, -- query
    answer VARCHAR, -- expected answer, the first one where several are accepted
    also_accepted VARCHAR[] NOT NULL -- further accepted answers
);

-- One row is an expected tool call of a case.
CREATE TABLE expected_calls (
    dataset VARCHAR NOT NULL, -- case
    case_id VARCHAR NOT NULL, -- case
    version VARCHAR NOT NULL, -- case version
    turn_index INTEGER, -- turn, null when the call may fall in any turn
    call_index INTEGER NOT NULL, -- 0-based index in the expectation
    tool_name VARCHAR NOT NULL, -- tool name
    parameters JSON NOT NULL, -- expected parameters
    step INTEGER, -- expected step
    required BOOLEAN NOT NULL -- false when the call is optional
);

-- One row is an annotation: what a person or a file recorded about a conversation, a turn or a call. Rows are never changed: a row with `retracts` withdraws an earlier row.
CREATE TABLE annotations (
    annotation_id VARCHAR NOT NULL, -- its id
    annotator VARCHAR NOT NULL, -- name of the person, or of the file
    source VARCHAR NOT NULL, -- person, file, event (feedback of end users) or adjudication
    environment VARCHAR, -- conversation; null where a labels file names a conversation by its id alone
    conversation_id VARCHAR NOT NULL, -- conversation
    revision INTEGER, -- newest conversation revision when it was annotated, null where it was not looked up
    turn_index INTEGER, -- turn (0-based), null for the conversation as a whole
    position INTEGER, -- call (0-based position in its turn), null for the turn or conversation as a whole
    name VARCHAR NOT NULL DEFAULT 'correct', -- annotated item: correct, answer (is the answer of a turn right), case (the case that a person chose), or the name of a metric
    verdict VARCHAR, -- pass, fail or unsure; null where only a case, a value or a label is recorded
    value DOUBLE, -- value of the metric according to the annotator
    label VARCHAR, -- label of the metric according to the annotator
    case_id VARCHAR, -- case that the conversation is mapped to
    decides BOOLEAN NOT NULL, -- whether the verdict or the case may set the outcome of the conversation; false for turns, calls, metrics and calibration files
    random_sample BOOLEAN NOT NULL, -- whether the annotated conversations were declared to be a random sample
    note VARCHAR, -- comment
    origin VARCHAR, -- file and line
    annotated_at TIMESTAMP_NS NOT NULL, -- when it was recorded
    retracts VARCHAR -- id of the annotation that this row withdraws; null for an annotation
);

-- One row is an evaluator version: everything that a score depends on besides the conversation.
CREATE TABLE evaluations (
    evaluation_id VARCHAR NOT NULL, -- hash of name, code, judge, settings and truth
    evaluation VARCHAR NOT NULL DEFAULT 'default', -- name; evaluations with different names coexist; of one name only the newest scores count
    judge VARCHAR NOT NULL, -- judge name
    judge_version VARCHAR NOT NULL, -- judge version
    settings JSON NOT NULL, -- scoring settings
    truth_version VARCHAR NOT NULL, -- hash of cases and labels
    first_run_at TIMESTAMP_NS NOT NULL, -- first run
    last_run_at TIMESTAMP_NS NOT NULL, -- last run
    evaluator VARCHAR, -- evaluator, null for an evaluation of the core scores
    evaluator_version VARCHAR -- version of the evaluator, null for an evaluation of the core scores
);

-- One row is the match of a conversation with a case.
CREATE TABLE matches (
    evaluation_id VARCHAR NOT NULL, -- evaluation
    environment VARCHAR NOT NULL, -- conversation
    conversation_id VARCHAR NOT NULL, -- conversation
    revision INTEGER NOT NULL, -- conversation revision
    dataset VARCHAR, -- case
    case_id VARCHAR, -- case, null when unmatched or ambiguous
    case_version VARCHAR, -- case version
    method VARCHAR, -- person, case_id, labels_file, exact_queries, first_query or text
    confidence DOUBLE, -- 0 to 1
    reason VARCHAR, -- unmatched or ambiguous
    candidates VARCHAR[] NOT NULL, -- cases that fitted equally
    warning VARCHAR, -- why the ground truth looks wrong
    suggested_dataset VARCHAR, -- case that the text of an unmatched conversation suggests
    suggested_case_id VARCHAR, -- same; it counts for nothing until a label confirms it
    suggested_confidence DOUBLE, -- probability that the suggestion is right, 0 to 1
    suggested_margin DOUBLE, -- how far the next case is behind in similarity, 0 to 1
    scored_at TIMESTAMP_NS -- when, as in `scores`
);

-- One row is a fault of one call.
CREATE TABLE tool_faults (
    evaluation_id VARCHAR NOT NULL, -- evaluation
    environment VARCHAR NOT NULL, -- conversation
    conversation_id VARCHAR NOT NULL, -- conversation
    revision INTEGER NOT NULL, -- conversation revision
    turn_index INTEGER, -- turn of the actual call, else of the expectation
    fault VARCHAR NOT NULL, -- missing, spurious, wrong_parameters, wrong_order, unused_result, errored or forbidden
    dimension VARCHAR, -- dimension that it hurts
    tool_name VARCHAR NOT NULL, -- tool
    parameter VARCHAR, -- parameter, for wrong_parameters
    expected JSON, -- expected value
    actual JSON, -- actual value, given by the agent
    expected_index INTEGER, -- 0-based index of the expected call
    actual_position INTEGER, -- 0-based position of the actual call in its turn
    trace_id VARCHAR, -- trace of the actual call
    span_id VARCHAR, -- span of the actual call
    explanation VARCHAR NOT NULL, -- one sentence
    expected_call JSON, -- parameters of the expected call; null when none was expected
    failed BOOLEAN, -- true when the tools failed without recovery, for example of an error by a later call
    tried INTEGER, -- of a missing call, how often the tool returned an error where it was expected; null for other faults
    effect VARCHAR, -- read or write: what the tool does, by `effects` of the case or the settings
    scored_at TIMESTAMP_NS -- when, as in `scores`
);

-- One row is a named score of any evaluator: the only table of scores. The core scores are `agentic.conversation`, `agentic.answer`, `agentic.tool.overall`, the criteria, the tool dimensions and the calls at fault.
CREATE TABLE scores (
    evaluation_id VARCHAR NOT NULL, -- evaluation: of the core scores, or of one evaluator
    environment VARCHAR NOT NULL, -- conversation
    conversation_id VARCHAR NOT NULL, -- conversation
    revision INTEGER NOT NULL, -- conversation revision
    target VARCHAR NOT NULL, -- conversation, turn or call
    turn_index INTEGER, -- turn, null for the conversation
    name VARCHAR NOT NULL, -- evaluation name, as in gen_ai.evaluation.name
    value DOUBLE, -- score, null without one
    label VARCHAR, -- label: pass, fail or not_evaluated in a core score, one of the metric's in any other; null where there is only a value, or none
    explanation VARCHAR, -- one sentence
    evaluator VARCHAR, -- evaluator; core for outcomes, answers, tools and calls at fault
    evaluator_version VARCHAR, -- version of the evaluator; of core scores the evaluation id
    position INTEGER, -- position of the call in its turn, 0-based; null unless the score is of a call
    tool_name VARCHAR, -- tool that the score is about, where it is about one
    parameter VARCHAR, -- parameter that the score is about, where it is about one
    reason VARCHAR, -- why it is not evaluated; null where it is
    details JSON, -- further results of the evaluator, null without any
    score_id VARCHAR, -- hash of evaluation, conversation revision, position and name: the same input gives the same id; agentic.evaluation.id of its event
    evaluation VARCHAR NOT NULL DEFAULT 'default', -- name of the evaluation
    superseded BOOLEAN DEFAULT false, -- true when a newer revision, or a newer score of the same evaluation name, replaced it
    scored_at TIMESTAMP_NS, -- when
    fail_reason VARCHAR, -- why a conversation, an answer or tools failed; null in other scores
    dataset VARCHAR, -- of a conversation: dataset of the case that it was compared with
    case_id VARCHAR, -- of a conversation: that case
    case_version VARCHAR, -- of a conversation: the version of that case
    outcome_source VARCHAR, -- of a conversation: computed, or the source of the verdict that sets its label
    computed_outcome VARCHAR, -- of a conversation: outcome regardless of such a verdict; of a turn: outcome by answer and tools
    computed_reason VARCHAR, -- same: why it failed or was not evaluated
    known_failure VARCHAR, -- of a conversation that the judge is unsure of: why it fails all the same
    partial BOOLEAN, -- of a conversation: whether it failed while other required parts could not be evaluated
    pass_probability DOUBLE, -- of a conversation: probability that it passes, by a calibrated judge of its answers
    case_turn_index INTEGER, -- of a turn: turn of the case that it was aligned with
    sample_ratio DOUBLE, -- of a conversation: share of conversations evaluated when it was scored
    metrics_at TIMESTAMP_NS, -- of a conversation: when scores of evaluators were last stored for it, null if never
    selection DOUBLE, -- of `agentic.tool.overall`: this dimension, null when it does not apply
    parameters DOUBLE, -- same
    sequence DOUBLE, -- same
    utilization DOUBLE -- same
);

-- One row is the answer of a judge to one question; the table is also the cache, and the basis of the budget.
CREATE TABLE judge_calls (
    content_hash VARCHAR NOT NULL, -- hash of judge version and everything that was asked
    judge VARCHAR NOT NULL, -- judge name
    model VARCHAR, -- model
    score DOUBLE, -- score, 0 to 1 unless the rubric defines another range; null when the judge failed, or was asked for a label or for texts
    reasoning VARCHAR, -- the judge's reasoning
    error VARCHAR, -- why the judge failed
    tries INTEGER NOT NULL, -- requests made
    latency_s DOUBLE, -- seconds of all requests together
    input_tokens BIGINT, -- tokens sent
    output_tokens BIGINT, -- tokens received
    cost_usd DOUBLE, -- cost in US dollars
    judged_at TIMESTAMP_NS NOT NULL, -- when
    judge_version VARCHAR, -- judge version
    cleared BOOLEAN, -- true when taken out of the cache: it counts in the budget window still; null, which means false, otherwise
    used_at TIMESTAMP_NS, -- when it was last taken from the cache, to the day; null when it never was
    metric VARCHAR, -- prompt that was asked with: answer, parameter, utilization, or a rubric of an evaluator
    label VARCHAR, -- label, null when none was asked for
    texts VARCHAR[], -- texts, null when none were asked for
    unsure BOOLEAN -- true when the judge did not decide: its score lies between failing and passing; null, which means false, otherwise
);

-- One row is a group's estimate over one rolling window.
CREATE TABLE windows (
    agent VARCHAR, -- agent name
    agent_version VARCHAR, -- agent version
    environment VARCHAR NOT NULL, -- deployment environment, empty when unknown
    service VARCHAR, -- service.name
    tag VARCHAR, -- case tag; null for the whole
    "window" VARCHAR NOT NULL, -- width such as 1h, 24h, 7d, or n200: the newest 200 conversations
    "end" TIMESTAMP_NS NOT NULL, -- end of the window, inclusive
    k INTEGER NOT NULL, -- number of attempts
    estimator VARCHAR NOT NULL, -- estimator
    interval_method VARCHAR NOT NULL, -- method of the interval
    level DOUBLE NOT NULL, -- level of the interval
    n BIGINT NOT NULL, -- conversations evaluated
    c BIGINT NOT NULL, -- of them correct
    effective_n DOUBLE, -- number of independent conversations equivalent to n, because attempts of one case may be correlated; it widens intervals only, the estimate comes from n and c; null if n is 0
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
    tier VARCHAR NOT NULL, -- deployment tier claimed as of the end, from all conversations of the version up to then (see slo.since), not of this window alone; only the criterion correct claims one, and others have insufficient_evidence
    leaning VARCHAR, -- tier that the point estimates of this window lean to; it claims nothing; null where they are undefined
    revision INTEGER NOT NULL, -- 1-based; a restated window counts up
    computed_at TIMESTAMP_NS NOT NULL, -- when
    criterion VARCHAR NOT NULL DEFAULT 'correct', -- what the outcomes are by: correct, or a name in windows.criteria
    criteria VARCHAR NOT NULL DEFAULT '' -- the criteria that this name meant, empty where the name is enough
);

-- One row is a version of a dataset becoming current: one that returns has a row for each time; the newest row is the current one.
CREATE TABLE dataset_versions (
    dataset VARCHAR NOT NULL, -- dataset
    version VARCHAR NOT NULL, -- hash of its case ids and their versions
    cases INTEGER NOT NULL, -- how many cases it holds
    source VARCHAR NOT NULL, -- file whose import created it
    imported_at TIMESTAMP_NS NOT NULL -- when it came into force
);

-- One row is a case in a version of a dataset.
CREATE TABLE dataset_members (
    dataset VARCHAR NOT NULL, -- dataset
    version VARCHAR NOT NULL, -- dataset version
    case_id VARCHAR NOT NULL, -- case
    case_version VARCHAR NOT NULL -- version of the case, as in `cases`
);

-- One row counts the expected and actual calls of a tool under one expectation.
CREATE TABLE tool_counts (
    evaluation_id VARCHAR NOT NULL, -- evaluation
    environment VARCHAR NOT NULL, -- conversation
    conversation_id VARCHAR NOT NULL, -- conversation
    revision INTEGER NOT NULL, -- conversation revision
    turn_index INTEGER, -- turn, null for an expectation on the whole conversation
    tool_name VARCHAR NOT NULL, -- tool
    expected INTEGER NOT NULL, -- required calls
    actual INTEGER NOT NULL, -- actual calls that returned without an error
    errored INTEGER NOT NULL, -- calls that returned an error
    paired INTEGER NOT NULL, -- required calls that were made
    unexpected INTEGER NOT NULL, -- extra calls that are not allowed
    parameters DOUBLE NOT NULL, -- sum, over required calls, of the share of parameters that agree
    compared INTEGER NOT NULL, -- required calls whose parameters could be compared
    in_order INTEGER NOT NULL, -- required calls that were in the expected order
    ordered INTEGER NOT NULL, -- required calls that have an order
    used DOUBLE NOT NULL, -- results that were used
    known INTEGER NOT NULL -- results of which it is known whether they were used
);

-- One row is an expected call with the actual call that scoring paired it with, or one of both without a counterpart. Each expected call, and each actual call to which the expectation applies, has one row.
CREATE TABLE call_pairs (
    evaluation_id VARCHAR NOT NULL, -- evaluation
    environment VARCHAR NOT NULL, -- conversation
    conversation_id VARCHAR NOT NULL, -- conversation
    revision INTEGER NOT NULL, -- conversation revision
    turn_index INTEGER, -- turn of the expectation, null for an expectation on the whole conversation
    alternative INTEGER, -- 0-based index of the alternative that counted; null when the expectation itself counted
    tool_name VARCHAR NOT NULL, -- tool
    status VARCHAR NOT NULL, -- paired; excused: an optional call and its actual call; missing or optional: a required or an optional call without an actual call; allowed, spurious or forbidden: an actual call beyond the expected ones; errored: an actual call that does not count because it returned an error
    expected_index INTEGER, -- 0-based index of the expected call, null without one
    actual_turn_index INTEGER, -- turn of the actual call, null without one
    actual_position INTEGER, -- 0-based position of the actual call in its turn, null without one
    span_id VARCHAR, -- span of the actual call, null without one
    agreement DOUBLE, -- share of parameters that agree, 0 to 1; null unless two calls are paired and could be compared
    in_order BOOLEAN, -- whether a required call was made in the expected order; null without an order or an actual call
    used DOUBLE, -- use of the result, 0 to 1; null when it is not known
    scored_at TIMESTAMP_NS -- when, as in `scores`
);

-- One row is a comparison of a judge with people: on answers, on outcomes, or in a metric. A pass is the positive; what has no data is null.
CREATE TABLE judge_calibrations (
    calibration_id VARCHAR NOT NULL, -- one for each run of `judge calibrate`
    evaluation_id VARCHAR NOT NULL, -- evaluation: judge, settings and truth
    judge VARCHAR NOT NULL, -- judge name
    judge_version VARCHAR NOT NULL, -- judge version
    model VARCHAR, -- model that answered, null for a judge without one
    metric VARCHAR, -- metric, null for answers (of turns) and outcomes (of conversations)
    target VARCHAR NOT NULL, -- turn, conversation or call
    n BIGINT NOT NULL, -- verdicts compared
    judged BIGINT NOT NULL, -- of them decided by a verdict of the judge on an answer; tool calls, outputs or missing turns decided the others
    both_pass BIGINT NOT NULL, -- judge and people pass
    false_pass BIGINT NOT NULL, -- the judge passes, people fail
    false_fail BIGINT NOT NULL, -- the judge fails, people pass
    both_fail BIGINT NOT NULL, -- judge and people fail
    agreement DOUBLE, -- share of equal verdicts
    agreement_lower DOUBLE, -- lower bound
    agreement_upper DOUBLE, -- upper bound
    kappa DOUBLE, -- Cohen's kappa: agreement beyond chance
    kappa_lower DOUBLE, -- lower bound
    kappa_upper DOUBLE, -- upper bound
    sensitivity DOUBLE, -- share of what people pass that the judge passes
    sensitivity_lower DOUBLE, -- lower bound
    sensitivity_upper DOUBLE, -- upper bound
    specificity DOUBLE, -- share of what people fail that the judge fails
    specificity_lower DOUBLE, -- lower bound
    specificity_upper DOUBLE, -- upper bound
    interval_method VARCHAR NOT NULL, -- method of the intervals of the rates
    level DOUBLE NOT NULL, -- level of the intervals
    threshold DOUBLE, -- threshold at that time, null for a metric with labels or with an upper limit
    best_threshold DOUBLE, -- threshold with the highest Youden index on these labels
    curve JSON NOT NULL, -- agreement, sensitivity and specificity at each distinct score
    not_judged JSON NOT NULL, -- labelled, but without a verdict of the judge: counts by reason
    random_sample BOOLEAN NOT NULL, -- true when the labelled conversations were declared to be a random sample
    labels VARCHAR[] NOT NULL, -- files of labels, or annotators
    calibrated_at TIMESTAMP_NS NOT NULL -- when
);

-- One row is a labelled conversation or turn with the judge's verdict, as compared by a calibration.
CREATE TABLE calibration_verdicts (
    calibration_id VARCHAR NOT NULL, -- calibration
    metric VARCHAR, -- metric, null for answers and outcomes
    environment VARCHAR NOT NULL, -- conversation
    conversation_id VARCHAR NOT NULL, -- conversation
    revision INTEGER NOT NULL, -- conversation revision
    turn_index INTEGER, -- turn (0-based), null for the conversation as a whole
    position INTEGER, -- call (0-based position in its turn), null for the turn or conversation as a whole
    dataset VARCHAR, -- case
    case_id VARCHAR, -- case
    human BOOLEAN NOT NULL, -- verdict of the person, true for pass
    judge_outcome VARCHAR NOT NULL, -- pass, fail or not_evaluated
    judge_reason VARCHAR, -- why it failed or was not evaluated
    judge_score DOUBLE, -- score of the answer, of a conversation the lowest of its answers; null when none was judged
    judged BOOLEAN NOT NULL, -- whether the outcome depends on a verdict of the judge on an answer, or the judge was unsure
    random_sample BOOLEAN NOT NULL -- true when the labelled conversations were declared to be a random sample
);

-- One row is an anchor of `judge drift`: an annotated answer, or an annotated score of a metric, with the verdict of a judge at that time. The rows of the newest freeze count.
CREATE TABLE judge_anchors (
    freeze_id VARCHAR NOT NULL, -- one for each run of `judge drift --freeze`
    environment VARCHAR NOT NULL, -- conversation
    conversation_id VARCHAR NOT NULL, -- conversation
    revision INTEGER NOT NULL, -- conversation revision
    turn_index INTEGER, -- turn (0-based), null for the conversation as a whole
    position INTEGER, -- call (0-based position in its turn), null for the turn or conversation as a whole
    name VARCHAR NOT NULL, -- answer, or the name of a metric
    human BOOLEAN NOT NULL, -- verdict of people, true for pass
    question JSON, -- the question about an answer; null for a metric, which is computed from the stored conversation again
    judge VARCHAR NOT NULL, -- judge name
    judge_version VARCHAR NOT NULL, -- judge version
    model VARCHAR, -- model that answered, null for a judge without one
    passed BOOLEAN NOT NULL, -- verdict of the judge, true for pass
    score DOUBLE, -- score of the judge, null where it gave a label
    label VARCHAR, -- label of the judge, null where it gave a score
    frozen_at TIMESTAMP_NS NOT NULL -- when
);

-- One row is an agent in one version, environment and service, by one criterion: a subject of rates. Numbers make counting quick.
CREATE TABLE subjects (
    subject INTEGER NOT NULL, -- its number
    agent VARCHAR, -- agent name
    agent_version VARCHAR, -- agent version
    environment VARCHAR NOT NULL, -- deployment environment, empty when unknown
    service VARCHAR, -- service.name
    criterion VARCHAR NOT NULL DEFAULT 'correct', -- what the outcomes are by: correct, or a name in windows.criteria
    criteria VARCHAR NOT NULL DEFAULT '' -- the criteria that this name meant, empty where the name is enough: outcomes of different ones are never counted together
);

-- One row is the number of a case that a result names.
CREATE TABLE result_cases (
    case_no INTEGER NOT NULL, -- its number
    dataset VARCHAR NOT NULL, -- dataset, empty when none is given
    case_id VARCHAR NOT NULL -- case id
);

-- One row is a closed conversation with its newest outcome by one criterion: the conversation revision that was scored last. A conversation whose newest revision is not scored yet has none, and neither has one that dissolved into others.
CREATE TABLE results (
    environment VARCHAR NOT NULL, -- conversation
    conversation_id VARCHAR NOT NULL, -- conversation
    revision INTEGER NOT NULL, -- conversation revision that was scored
    evaluation_id VARCHAR NOT NULL, -- evaluation
    subject INTEGER NOT NULL, -- number of agent, version, environment, service and criterion in `subjects`
    agent VARCHAR, -- agent name
    agent_version VARCHAR, -- agent version
    service VARCHAR, -- service.name
    criterion VARCHAR NOT NULL DEFAULT 'correct', -- as in `subjects`
    criteria VARCHAR NOT NULL DEFAULT '', -- as in `subjects`
    ended_at TIMESTAMP_NS NOT NULL, -- end of its last event, as sent
    window_time TIMESTAMP_NS NOT NULL, -- when it counts, as in `conversations`
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
    sample_ratio DOUBLE NOT NULL, -- share of conversations evaluated when it was scored
    user_hash UBIGINT, -- hash of the user, as in `conversations`
    session_hash UBIGINT, -- hash of the session, as in `conversations`
    pass_probability DOUBLE, -- as in `conversation_scores`
    slices VARCHAR[] -- slices, as in `conversations`, without the user
);

-- One row counts evaluated results that retention removed: claims about an agent version count from its first conversation.
CREATE TABLE removed_attempts (
    subject INTEGER NOT NULL, -- number of agent, version, environment, service and criterion in `subjects`
    case_no INTEGER, -- number of the case in `result_cases`, null for conversations without a case
    tags VARCHAR[] NOT NULL, -- tags of the case
    n BIGINT NOT NULL, -- conversations that passed or failed
    c BIGINT NOT NULL, -- of them passed
    first_time TIMESTAMP_NS NOT NULL, -- window time of the first of them
    last_time TIMESTAMP_NS NOT NULL -- window time of the last of them
);

-- One row is an event time at which results changed: the windows that contain it must be computed again.
CREATE TABLE window_changes (
    serial BIGINT NOT NULL, -- rises with each change
    window_time TIMESTAMP_NS NOT NULL, -- window time of a conversation that is counted there now, or was before
    live BOOLEAN NOT NULL -- true for a conversation that was closed live: for others, only stored windows are computed again
);

-- One row is the state of an objective of a group in a running collector: the evidence that it is broken. It is computed from the final results in event order, and computed again when one of them changes.
CREATE TABLE monitors (
    agent VARCHAR, -- agent name
    agent_version VARCHAR, -- agent version
    environment VARCHAR NOT NULL, -- deployment environment, empty when unknown
    service VARCHAR, -- service.name
    objective VARCHAR NOT NULL, -- name of the objective
    k INTEGER NOT NULL, -- the k of pass^k
    target DOUBLE NOT NULL, -- pass^k that is promised
    p0 DOUBLE NOT NULL, -- pass rate below which the objective is broken: target to the power of 1 / k
    alpha DOUBLE NOT NULL, -- probability of a false alarm, ever, at most
    method VARCHAR NOT NULL, -- pooled or per_case
    n BIGINT NOT NULL, -- evaluated conversations seen, of blocks that closed
    c BIGINT NOT NULL, -- correct ones among them
    e_value DOUBLE NOT NULL, -- evidence that the objective is broken; 1 is neutral; kept within 1e-300 and 1e300
    log_e DOUBLE NOT NULL, -- its natural logarithm, without bounds
    largest DOUBLE NOT NULL, -- largest e-value so far, kept within the same bounds
    alarmed_at TIMESTAMP_NS, -- end of the conversation at which the e-value first reached 1 / alpha; null while it has not
    detector DOUBLE NOT NULL, -- value of the change detector since its last alarm
    target_run_length DOUBLE NOT NULL, -- conversations between false alarms of change on average, at least; the alarm is at this value
    changes BIGINT NOT NULL, -- alarms of the change detector so far
    changed_at TIMESTAMP_NS, -- end of the conversation at which the change detector last raised an alarm
    watermark TIMESTAMP_NS NOT NULL, -- results up to this time are final and were seen
    computed_at TIMESTAMP_NS NOT NULL, -- when the row was written
    block VARCHAR NOT NULL, -- what counts once: auto, user, session, hour, or none for each conversation
    blocks BIGINT NOT NULL, -- blocks that closed, each of them one look
    criterion VARCHAR NOT NULL DEFAULT 'correct', -- as in `windows`
    criteria VARCHAR NOT NULL DEFAULT '' -- as in `windows`
);

-- One row is an alarm about an objective of a group in a running collector. Rows stay when the objective changes.
CREATE TABLE alarms (
    alarm_id VARCHAR NOT NULL, -- its id
    raised_at TIMESTAMP_NS NOT NULL, -- when the collector raised it
    agent VARCHAR, -- agent name
    agent_version VARCHAR, -- agent version
    environment VARCHAR NOT NULL, -- deployment environment, empty when unknown
    service VARCHAR, -- service.name
    criterion VARCHAR NOT NULL, -- as in `windows`
    objective VARCHAR NOT NULL, -- name of the objective
    kind VARCHAR NOT NULL, -- broken: the evidence that the objective is broken reached its limit; fell: the pass rate fell below the objective
    conversation_ended_at TIMESTAMP_NS NOT NULL, -- end of the conversation at which it was raised
    description VARCHAR NOT NULL, -- the alarm as a sentence
    acknowledged_at TIMESTAMP_NS, -- when a person acknowledged it
    acknowledged_by VARCHAR, -- that person
    note VARCHAR -- comment of that person
);

-- One row is the sending of an alarm to a target of `notify.targets`. It is written with the alarm, so that a stop loses none.
CREATE TABLE notifications (
    alarm_id VARCHAR NOT NULL, -- alarm
    target VARCHAR NOT NULL, -- name of the target
    attempts INTEGER NOT NULL, -- attempts so far
    next_at TIMESTAMP_NS, -- when the next attempt is due; null once it was sent, or given up
    sent_at TIMESTAMP_NS, -- when it was sent; null while it was not
    error VARCHAR -- why the last attempt failed; null without a failure
);

-- One row is a backfill: everything that decides its result, and how far its newest pass has come.
CREATE TABLE backfills (
    run_id VARCHAR NOT NULL, -- hash of the request: equal backfills have one row and continue where they stopped
    request JSON NOT NULL, -- range, windows, step, k, estimators, statistics, evaluator version, where points go
    state VARCHAR NOT NULL, -- running (or killed: run it again) or finished
    passes INTEGER NOT NULL, -- how many passes over all window ends there were, the newest pass included
    first_end TIMESTAMP_NS NOT NULL, -- first window end of the newest pass
    last_end TIMESTAMP_NS NOT NULL, -- last window end of the newest pass
    position TIMESTAMP_NS, -- newest window end that is done in the newest pass; null before the first
    sent_until TIMESTAMP_NS, -- start of the newest finished pass: rows computed up to it were sent; null without one
    rows_changed BIGINT NOT NULL, -- window rows that the newest pass added or restated
    points_sent BIGINT NOT NULL, -- points that the newest pass sent or wrote
    started_at TIMESTAMP_NS NOT NULL, -- when the newest pass began
    updated_at TIMESTAMP_NS NOT NULL, -- when the newest step of it was done
    finished_at TIMESTAMP_NS -- when the newest pass ended; null while it runs
);

-- One row states from when on the store is complete. There is no row while nothing was removed.
CREATE TABLE retention (
    conversations_from TIMESTAMP_NS NOT NULL, -- conversations that ended before this were removed, once they were closed
    results_from TIMESTAMP_NS NOT NULL, -- results before this were removed: windows that reach further back stay as they are
    conversations BIGINT NOT NULL, -- conversations removed so far
    spans BIGINT NOT NULL, -- spans removed so far
    log_records BIGINT NOT NULL, -- log records removed so far
    updated_at TIMESTAMP_NS NOT NULL -- when something was last removed
);

-- One row is a conversation or a trace that was removed: late spans of it are counted, and not rebuilt.
CREATE TABLE removed (
    kind VARCHAR NOT NULL, -- conversation or trace
    identity UBIGINT NOT NULL, -- md5_number_lower of the trace id, or of environment, line feed and conversation id
    removed_at TIMESTAMP_NS NOT NULL -- when; forgotten after another time as long as conversations are kept
);

-- One row is an hour of a table that was exported as Parquet, or waits for it.
CREATE TABLE exports (
    table_name VARCHAR NOT NULL, -- table
    hour TIMESTAMP_NS NOT NULL, -- start of the hour
    row_count BIGINT NOT NULL, -- rows of the hour that the store held when they were written
    file VARCHAR, -- file, from the export folder on; several hours of a day may share one; null where no row was there
    digest UBIGINT, -- of the conversations and scores of the hour when they were written; null for other tables
    dirty BOOLEAN NOT NULL, -- true when it must be written, again or initially
    exported_at TIMESTAMP_NS -- when it was last written, null before the first time
);

-- One row states up to when new rows of a table were searched for hours to export.
CREATE TABLE export_looks (
    table_name VARCHAR NOT NULL, -- table
    looked_until TIMESTAMP_NS NOT NULL -- newest received_at that was seen
);

-- One row is a tool that was available to agents. Conversations whose agents had the same tools share their rows; the hash of a list without tools has no rows.
CREATE TABLE tool_definitions (
    definitions_hash VARCHAR NOT NULL, -- hash of all tools available together, see conversations
    name VARCHAR NOT NULL, -- tool name
    parameters JSON -- JSON schema of its parameters, null where only the name was recorded
);

-- One row is a baseline: the values of each agent when it was saved. Saving a name again replaces the older row.
CREATE TABLE gate_baselines (
    name VARCHAR NOT NULL, -- its name
    saved_at TIMESTAMP_NS NOT NULL, -- when it was saved
    conversations BIGINT NOT NULL, -- closed conversations that it was computed from
    evaluations VARCHAR[] NOT NULL, -- evaluations that their scores belong to
    definition JSON NOT NULL -- attempts by case and means of metrics by agent, as in a baseline file
);

-- One row is the name of this store in telemetry.
CREATE TABLE instance (
    instance_id VARCHAR NOT NULL, -- service.instance.id of emitted telemetry, unless emit.instance_id is set
    created_at TIMESTAMP_NS NOT NULL -- when the name was created
);

-- One row is the outcome of a conversation revision under an evaluation.
CREATE VIEW conversation_scores AS
SELECT
    evaluation_id, -- evaluation
    environment, -- conversation
    conversation_id, -- conversation
    revision, -- conversation revision
    evaluation, -- name of the evaluation
    superseded, -- true when a newer score of the same evaluation name replaced it
    dataset, -- case
    case_id, -- case
    label AS outcome, -- pass, fail or not_evaluated
    coalesce(reason, fail_reason) AS reason, -- why it failed or was not evaluated
    outcome_source, -- computed, or the source of the verdict that sets it: adjudication, labels, case, annotators or event
    computed_outcome, -- outcome by turns and tools, regardless of labels
    computed_reason, -- why
    details ->> 'answer_outcome' AS answer_outcome, -- outcome by answers alone
    details ->> 'tool_outcome' AS tool_outcome, -- outcome by tools alone
    details ->> 'both_outcome' AS both_outcome, -- outcome by answers and tools
    details ->> 'match_method' AS match_method, -- how the case was found
    details ->> 'warning' AS warning, -- why the ground truth looks wrong
    details ->> '$.missing_outputs[*]' AS missing_outputs, -- expected outputs that no answer contains
    coalesce(explanation, '') AS explanation, -- one sentence
    scored_at, -- when
    case_version, -- case version, null when unmatched
    partial, -- true for a computed fail, or a known failure, while other required parts could not be evaluated
    sample_ratio, -- share of conversations evaluated when it was scored
    to_json([[key, details -> 'criteria' ->> key, details -> 'reasons' ->> key] for key in json_keys(details, '$.criteria')]) AS criteria, -- deciding criteria, a list: name, outcome, reason
    metrics_at, -- when scores of evaluators were last stored for it, null if never
    known_failure, -- where the judge is unsure (computed_reason judge_unsure): why it fails all the same; null where nothing failed
    pass_probability -- probability that it passes, by a calibrated judge of its answers: 0 where something else failed, null where no such judge decided
FROM scores
WHERE name = 'agentic.conversation';

-- One row is the outcome of a turn.
CREATE VIEW turn_scores AS
SELECT
    evaluation_id, -- evaluation
    environment, -- conversation
    conversation_id, -- conversation
    revision, -- conversation revision
    turn_index, -- turn
    case_turn_index, -- turn of the case that it was aligned with
    computed_outcome AS outcome, -- pass, fail or not_evaluated
    computed_reason AS reason, -- why
    coalesce(value, (details ->> 'answer_score')::DOUBLE) AS answer_score, -- 0 to 1, null when no answer was judged; kept where the judge is unsure (answer_reason judge_unsure)
    label AS answer_outcome, -- outcome by the answer
    details ->> 'tool_outcome' AS tool_outcome, -- outcome by the tools, null when none are expected
    coalesce(explanation, '') AS explanation, -- one sentence
    coalesce(reason, fail_reason) AS answer_reason, -- why the answer failed or was not evaluated; null for a pass
    scored_at -- when, as in conversation_scores
FROM scores
WHERE name = 'agentic.answer' AND target = 'turn';

-- One row is the tool correctness of one expectation.
CREATE VIEW tool_scores AS
SELECT
    evaluation_id, -- evaluation
    environment, -- conversation
    conversation_id, -- conversation
    revision, -- conversation revision
    turn_index, -- turn, null for an expectation on the whole conversation
    label AS outcome, -- pass, fail or not_evaluated
    coalesce(reason, fail_reason) AS reason, -- why
    value AS overall, -- weighted mean of the dimensions that apply, null when none does
    selection, -- were the right tools called; null when it does not apply
    parameters, -- were they given the right parameters; null when it does not apply
    sequence, -- were they called in the right order; null when it does not apply
    utilization, -- were their results used; null when it does not apply or is not known
    details AS evidence, -- by dimension, one record a call of which something is known: which value was found where; read by v_tool_evidence
    coalesce(explanation, '') AS explanation, -- one sentence
    scored_at -- when, as in conversation_scores
FROM scores
WHERE name = 'agentic.tool.overall';

-- Reliability of each agent, version and environment over all closed conversations.
CREATE VIEW v_reliability AS
SELECT
    c.agent, -- agent name
    c.agent_version, -- agent version
    c.environment, -- deployment environment, empty when unknown
    count(*) FILTER (s.outcome IN ('pass', 'fail')) AS evaluated, -- conversations that passed or failed
    count(*) FILTER (s.outcome = 'pass') AS correct, -- of them passed
    count(*) FILTER (s.outcome = 'not_evaluated') AS not_evaluated, -- conversations that could not be judged
    count(*) FILTER (s.outcome = 'pass') / nullif(count(*) FILTER (s.outcome IN ('pass', 'fail')), 0) AS success_rate, -- correct / evaluated; null when none is evaluated
    count(*) FILTER (s.outcome IN ('pass', 'fail')) / count(*) AS coverage, -- evaluated / all
    make_timestamptz(epoch_ns(max(c.ended_at)) // 1000) AS last_conversation -- end of the newest conversation
FROM conversation_scores s
JOIN conversations c USING (environment, conversation_id, revision)
WHERE s.evaluation = coalesce(getvariable('evaluation'), 'default') AND NOT s.superseded AND NOT c.superseded
GROUP BY ALL;

-- Each conversation in its newest revision, with its score.
CREATE VIEW v_conversations AS
SELECT
    c.conversation_id, -- conversation id
    c.environment, -- deployment environment, empty when unknown
    c.revision, -- newest revision
    c.agent, -- agent name
    c.agent_version, -- agent version
    c.service, -- service.name
    make_timestamptz(epoch_ns(c.started_at) // 1000) AS started_at, -- start of the first event
    make_timestamptz(epoch_ns(c.ended_at) // 1000) AS ended_at, -- end of the last event
    make_timestamptz(epoch_ns(c.window_time) // 1000) AS window_time, -- window time: ended_at, capped where the sender's clock is wrong
    c.closed_by, -- end_mark, end_of_input or idle; null while open
    c.turn_count, -- number of turns
    c.call_count, -- number of tool calls
    c.content_captured, -- full, partial or none
    s.case_id, -- case that it was matched to
    s.outcome, -- pass, fail or not_evaluated; null before it is scored
    CASE WHEN s.outcome IS NULL AND c.closed_by IS NOT NULL THEN 'not_scored' ELSE s.reason END AS reason, -- why it failed or was not evaluated; not_scored when it is closed and has no score yet
    s.explanation, -- one sentence
    coalesce(getvariable('evaluation'), 'default') AS evaluation -- name of the evaluation that the score is of
FROM conversations c
LEFT JOIN conversation_scores s
    ON s.environment = c.environment AND s.conversation_id = c.conversation_id AND s.revision = c.revision
    AND s.evaluation = coalesce(getvariable('evaluation'), 'default') AND NOT s.superseded
WHERE NOT c.superseded;

-- What the instrumentation records, as shares of turns and calls, by service, dialect and instrumentation scope. A turn that failed needs no answer, a call that failed no result, and a transfer to another agent is no call here. A share is null without values.
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
    t.scope, -- instrumentation scope of the spans that represent the turns
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

-- Each tool fault of the newest scores, with expected and actual values.
CREATE VIEW v_tool_faults AS
SELECT
    c.agent, -- agent name
    c.agent_version, -- agent version
    c.environment, -- deployment environment, empty when unknown
    c.conversation_id, -- conversation id
    make_timestamptz(epoch_ns(c.ended_at) // 1000) AS ended_at, -- end of the conversation
    s.dataset, -- dataset of the case
    s.case_id, -- case that it was compared with
    s.outcome, -- outcome of the conversation
    f.turn_index, -- turn, 0-based; null for a call that may fall in any turn
    t.query AS query, -- the user's query in that turn, or in the first turn without one
    f.tool_name AS tool, -- tool name
    f.dimension, -- dimension that the fault hurts: selection, parameters, sequence or utilization; null for none
    f.fault, -- missing, spurious, wrong_parameters, wrong_order, unused_result, errored or forbidden
    f.parameter, -- parameter, for wrong_parameters
    f.expected, -- expected value of the parameter
    f.actual, -- actual value, given by the agent
    f.expected_call, -- parameters of the expected call
    m.arguments AS actual_call, -- arguments of the actual call
    m.step AS step, -- 1-based model response that requested the actual call
    m.error AS error, -- why the actual call failed
    f.explanation, -- one sentence
    coalesce(f.failed, false) AS failed, -- true when the tools failed without recovery, for example of an error by a later call
    f.tried, -- of a missing call, how often the tool returned an error where it was expected
    coalesce(f.trace_id, t.trace_id) AS trace_id, -- trace of the actual call, or of the turn without one
    coalesce(f.span_id, t.span_id) AS span_id, -- span of the actual call, or of the turn without one
    f.evaluation_id -- evaluation
FROM tool_faults f
JOIN conversation_scores s USING (evaluation_id, environment, conversation_id, revision)
JOIN conversations c USING (environment, conversation_id, revision)
LEFT JOIN turns t ON t.environment = c.environment AND t.conversation_id = c.conversation_id
    AND t.revision = c.revision AND t.turn_index = coalesce(f.turn_index, 0)
LEFT JOIN tool_calls m ON m.environment = c.environment AND m.conversation_id = c.conversation_id
    AND m.revision = c.revision AND m.turn_index = f.turn_index AND m.position = f.actual_position
WHERE s.evaluation = coalesce(getvariable('evaluation'), 'default') AND NOT s.superseded AND NOT c.superseded;

-- Each tool of each agent and version: expected, actual and right calls, by the newest scores.
CREATE VIEW v_tool_health AS
SELECT
    c.agent, -- agent name
    c.agent_version, -- agent version
    c.environment, -- deployment environment, empty when unknown
    n.tool_name AS tool, -- tool name
    count(DISTINCT (c.environment, c.conversation_id)) AS conversations, -- scored conversations that expected or made it
    count(DISTINCT (c.environment, c.conversation_id)) FILTER (n.expected > 0) AS expected_conversations, -- scored conversations that expected it
    sum(n.expected)::BIGINT AS expected, -- required calls
    sum(n.actual)::BIGINT AS actual, -- actual calls that returned without an error
    sum(n.errored)::BIGINT AS errored, -- calls that returned an error
    sum(n.paired)::BIGINT AS paired, -- required calls that were made
    sum(n.unexpected)::BIGINT AS unexpected, -- extra calls that are not allowed
    sum(n.paired) / nullif(sum(n.expected + n.unexpected), 0) AS selection, -- paired / (expected + unexpected); null when it does not apply
    sum(n.parameters) / nullif(sum(n.compared), 0) AS parameters, -- mean share of parameters that agree; null when it does not apply
    sum(n.in_order) / nullif(sum(n.ordered), 0) AS sequence, -- share of required calls that were in the expected order; null when it does not apply
    sum(n.used) / nullif(sum(n.known), 0) AS utilization, -- share of results that were used, of those of which it is known; null when of none
    sum(n.known)::BIGINT AS known_results, -- results of which it is known whether they were used
    make_timestamptz(epoch_ns(min(c.ended_at)) // 1000) AS first_seen, -- end of the oldest conversation with it
    make_timestamptz(epoch_ns(max(c.ended_at)) // 1000) AS last_seen -- end of the newest conversation with it
FROM tool_counts n
JOIN conversation_scores s USING (evaluation_id, environment, conversation_id, revision)
JOIN conversations c USING (environment, conversation_id, revision)
WHERE s.evaluation = coalesce(getvariable('evaluation'), 'default') AND NOT s.superseded AND NOT c.superseded
GROUP BY c.agent, c.agent_version, c.environment, n.tool_name;

-- Each thing that is wrong with a tool, over all versions of its agent: since when, and which version brought it. Versions follow each other by their numbers where all of an agent's have some, else by when they appeared.
CREATE VIEW v_fault_history AS
WITH scored AS (
    SELECT
        s.evaluation_id, c.agent, c.environment, c.agent_version,
        c.conversation_id, c.revision, make_timestamptz(epoch_ns(c.ended_at) // 1000) AS ended_at
    FROM conversation_scores s
    JOIN conversations c USING (environment, conversation_id, revision)
    WHERE s.evaluation = coalesce(getvariable('evaluation'), 'default') AND NOT s.superseded AND NOT c.superseded
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
    JOIN ranked r ON r.agent IS NOT DISTINCT FROM f.agent AND r.environment = f.environment
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
    JOIN scored o ON o.evaluation_id = n.evaluation_id AND o.environment = n.environment
        AND o.conversation_id = n.conversation_id AND o.revision = n.revision
    JOIN ranked r ON r.agent IS NOT DISTINCT FROM o.agent AND r.environment = o.environment
        AND r.agent_version IS NOT DISTINCT FROM o.agent_version
), before AS (
    SELECT
        p.agent, p.environment, p.tool, p.dimension, p.fault, p.parameter,
        count(*) FILTER (h.ended_at < p.since) AS clean_before, count(*) FILTER (h.rank < p.rank) > 0 AS is_new
    FROM problems p
    JOIN chances h ON h.agent IS NOT DISTINCT FROM p.agent AND h.environment = p.environment
        AND h.tool = p.tool
    GROUP BY ALL
)
SELECT
    p.agent, -- agent name
    p.environment, -- deployment environment, empty when unknown
    p.tool, -- tool name
    p.dimension, -- dimension that the fault hurts; null for none
    p.fault, -- kind of the fault
    p.parameter, -- parameter, for wrong_parameters
    p.faults, -- how often
    p.versions, -- agent versions with how often, the first one first
    p.since, -- end of the oldest conversation with it
    p.introduced_in, -- the first agent version that has it
    b.is_new, -- true when an earlier version used the tool without this; null when that is not known
    b.clean_before -- scored conversations with the tool that ended before the oldest one with this; null when that is not known
FROM problems p
LEFT JOIN before b ON b.agent IS NOT DISTINCT FROM p.agent AND b.environment = p.environment
    AND b.tool = p.tool AND b.dimension IS NOT DISTINCT FROM p.dimension AND b.fault = p.fault
    AND b.parameter IS NOT DISTINCT FROM p.parameter;

-- Failing tools: dimension, fault and parameter, how often, since when, in which version, and a conversation to look at.
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
    SELECT agent, agent_version, environment, tool, fault, parameter, expected, actual, count(*) AS n
    FROM v_tool_faults
    WHERE parameter IS NOT NULL
    GROUP BY ALL
), frequent AS (
    SELECT
        agent, agent_version, environment, tool, fault, parameter,
        to_json(list({'actual': actual, 'expected': expected, 'count': n} ORDER BY n DESC, actual, expected)[:5]) AS wrong_values
    FROM pairs
    GROUP BY ALL
)
SELECT
    p.agent, -- agent name
    p.agent_version, -- agent version
    p.environment, -- deployment environment, empty when unknown
    p.tool, -- tool name
    p.dimension, -- dimension that the fault hurts: selection, parameters, sequence or utilization; null for none
    p.fault, -- kind of the fault
    p.parameter, -- parameter, for wrong_parameters
    p.faults, -- how often
    p.conversations, -- in how many conversations
    p.failed, -- in how many of them the tools failed without recovery: look at these first
    CASE p.fault WHEN 'missing' THEN p.tried END AS tried, -- of missing calls, how many occur together with errors of the tool: it may have been tried
    p.faults / sum(p.faults) OVER (PARTITION BY p.agent, p.agent_version, p.environment) AS share, -- share of all faults of the agent, version and environment
    CASE p.fault WHEN 'missing' THEN h.expected WHEN 'errored' THEN h.actual + h.errored WHEN 'spurious' THEN h.actual WHEN 'forbidden' THEN h.actual ELSE h.paired END AS calls, -- calls that could have it: the expected ones for missing, all for errored, those without an error for spurious and forbidden, else the expected ones that were made
    p.faults / nullif(calls, 0) AS rate, -- faults / calls; null when the calls are not known
    h.expected_conversations AS expected_conversations, -- scored conversations that expected the tool
    p.first_seen, -- end of the oldest conversation with it, in this version
    p.last_seen, -- end of the newest conversation with it, in this version
    y.since AS since, -- end of the oldest conversation with it, in any version
    y.introduced_in AS introduced_in, -- the first agent version that has it
    y.is_new AND y.introduced_in IS NOT DISTINCT FROM p.agent_version AS is_new, -- true when this version brought it: an earlier one used the tool without; null when that is not known
    y.clean_before AS clean_before, -- scored conversations with the tool before the first one with it
    y.versions AS versions, -- agent versions with how often, the first one first
    q.wrong_values AS wrong_values, -- the most frequent pairs of actual and expected value, with their counts
    e.conversation_id AS example_conversation, -- the newest conversation with it
    e.explanation AS example, -- what happened there, one sentence
    e.expected AS expected, -- value of the parameter that was expected there
    e.actual AS actual, -- actual value there
    e.expected_call AS expected_call, -- parameters of the expected call there
    e.actual_call AS actual_call, -- arguments of the actual call there
    e.error AS error, -- why the actual call failed there
    e.trace_id AS trace_id, -- trace there
    e.span_id AS span_id -- span there
FROM problems p
JOIN newest e ON e.agent IS NOT DISTINCT FROM p.agent AND e.agent_version IS NOT DISTINCT FROM p.agent_version
    AND e.environment = p.environment AND e.tool = p.tool AND e.fault = p.fault
    AND e.parameter IS NOT DISTINCT FROM p.parameter
JOIN v_fault_history y ON y.agent IS NOT DISTINCT FROM p.agent AND y.environment = p.environment
    AND y.tool = p.tool AND y.fault = p.fault AND y.parameter IS NOT DISTINCT FROM p.parameter
LEFT JOIN v_tool_health h ON h.agent IS NOT DISTINCT FROM p.agent AND h.agent_version IS NOT DISTINCT FROM p.agent_version
    AND h.environment = p.environment AND h.tool = p.tool
LEFT JOIN frequent q ON q.agent IS NOT DISTINCT FROM p.agent AND q.agent_version IS NOT DISTINCT FROM p.agent_version
    AND q.environment = p.environment AND q.tool = p.tool AND q.fault = p.fault
    AND q.parameter IS NOT DISTINCT FROM p.parameter;

-- Evidence that the result of a call was used or not, and judge scores of parameters. One row is a call of the newest scores for which there is evidence.
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
    c.environment, -- deployment environment, empty when unknown
    c.conversation_id, -- conversation id
    make_timestamptz(epoch_ns(c.ended_at) // 1000) AS ended_at, -- end of the conversation
    s.case_id, -- case that it was compared with
    f.scope_turn_index, -- turn of the expectation, null for one on the whole conversation
    f.dimension, -- utilization, or parameters
    f.record ->> 'tool' AS tool, -- tool name
    (f.record ->> 'turn_index')::INTEGER AS turn_index, -- turn of the call
    (f.record ->> 'position')::INTEGER AS position, -- position of the call in its turn
    f.record ->> 'span_id' AS span_id, -- span of the call
    f.record ->> 'parameter' AS parameter, -- parameter that a judge compared
    (f.record ->> 'score')::DOUBLE AS score, -- 1 used, 0 not used; of a parameter the judge's score
    f.record ->> 'how' AS how, -- argument, answer, contradiction, flag or judge: the kind of evidence
    f.record ->> 'key' AS key, -- key of the result that holds the value
    f.record -> 'value' AS value, -- value of the result
    (f.record ->> 'found_turn_index')::INTEGER AS found_turn_index, -- turn of the answer or call where it was found, or contradicted
    f.record ->> 'found_text' AS found_text, -- the words there
    f.record ->> 'found_tool' AS found_tool, -- later call that was given the value, null for an answer
    f.record ->> 'found_argument' AS found_argument, -- its argument
    (f.record ->> 'found_position')::INTEGER AS found_position, -- its position in its turn
    f.record ->> 'found_span_id' AS found_span_id, -- its span
    f.record ->> 'explanation' AS explanation -- the same as a part of a sentence
FROM found f
JOIN conversation_scores s USING (evaluation_id, environment, conversation_id, revision)
JOIN conversations c USING (environment, conversation_id, revision)
WHERE s.evaluation = coalesce(getvariable('evaluation'), 'default') AND NOT s.superseded AND NOT c.superseded AND json_type(f.record) = 'OBJECT';

-- Current annotations: of each annotator, the newest one on each target that was not withdrawn.
CREATE VIEW v_annotations AS
SELECT
    a.annotation_id, -- its id
    a.annotator, -- name of the person, or of the file
    a.source, -- person, file, event (feedback of end users) or adjudication
    a.environment, -- conversation; null where a labels file names a conversation by its id alone
    a.conversation_id, -- conversation
    a.revision, -- newest conversation revision when it was annotated, null where it was not looked up
    a.turn_index, -- turn (0-based), null for the conversation as a whole
    a.position, -- call (0-based position in its turn), null for the turn or conversation as a whole
    a.name, -- annotated item: correct, answer, case, or the name of a metric
    a.verdict, -- pass, fail or unsure; null where only a case, a value or a label is recorded
    a.value, -- value of the metric according to the annotator
    a.label, -- label of the metric according to the annotator
    a.case_id, -- case that the conversation is mapped to
    a.decides, -- whether the verdict may set the outcome of the conversation
    a.random_sample, -- whether the annotated conversations were declared to be a random sample
    a.note, -- comment
    a.origin, -- file and line
    make_timestamptz(epoch_ns(a.annotated_at) // 1000) AS annotated_at, -- when it was recorded
    a.rowid AS entry -- position among all annotations: the higher, the later it was recorded
FROM annotations a
WHERE a.retracts IS NULL AND a.annotation_id NOT IN (SELECT retracts FROM annotations WHERE retracts IS NOT NULL)
QUALIFY row_number() OVER (
    PARTITION BY a.annotator, a.source, a.environment, a.conversation_id, a.turn_index, a.position, a.name, a.decides
    ORDER BY a.annotated_at DESC, a.rowid DESC
) = 1;

-- Labels of conversations from labels files; if several files label a conversation, the one imported last counts.
CREATE VIEW labels AS
SELECT
    conversation_id, -- conversation
    case_id, -- case that the label maps it to
    verdict = 'pass' AS verdict, -- true for pass; null when the label only maps
    origin AS source, -- file and line
    annotated_at AS imported_at -- when it was imported
FROM v_annotations
WHERE source = 'file' AND decides
QUALIFY row_number() OVER (PARTITION BY conversation_id ORDER BY annotated_at DESC, entry DESC) = 1;

-- Current verdicts of people on conversations, and on the answers of turns; several people may have judged the same one.
CREATE VIEW human_verdicts AS
SELECT
    environment, -- conversation
    conversation_id, -- conversation
    revision, -- newest conversation revision when the verdict was read
    turn_index, -- turn (0-based), null for the conversation as a whole
    verdict = 'pass' AS verdict, -- true for pass
    random_sample, -- true when the labelled conversations were declared to be a random sample
    coalesce(origin, annotator) AS source, -- file and line, or the name of the person
    annotated_at AS imported_at, -- when it was read
    annotator -- name of the person, or of the file
FROM v_annotations
WHERE environment IS NOT NULL AND verdict IN ('pass', 'fail') AND position IS NULL
    AND ((name = 'correct' AND turn_index IS NULL) OR (name = 'answer' AND turn_index IS NOT NULL));

-- Targets on which the verdicts of annotators differ and that no person has adjudicated: none of these verdicts counts.
CREATE VIEW v_annotator_disagreements AS
SELECT
    environment, -- conversation
    conversation_id, -- conversation
    turn_index, -- turn (0-based), null for the conversation as a whole
    position, -- call (0-based position in its turn), null for the turn or conversation as a whole
    name, -- annotated item: correct, answer, case, or the name of a metric
    count(*) FILTER (verdict = 'pass') AS passes, -- annotators that pass it
    count(*) FILTER (verdict = 'fail') AS fails, -- annotators that fail it
    string_agg(annotator || ': ' || verdict, ', ' ORDER BY annotator) AS verdicts, -- who gave which verdict
    max(annotated_at) AS last_at -- newest of the verdicts
FROM v_annotations
WHERE environment IS NOT NULL AND source <> 'event' AND verdict IN ('pass', 'fail')
GROUP BY environment, conversation_id, turn_index, position, name
HAVING passes > 0 AND fails > 0 AND NOT bool_or(source = 'adjudication');

-- Conversations whose verdict from outside differs from the outcome of their turns and tools, by the newest scores.
CREATE VIEW v_disagreements AS
SELECT
    c.agent, -- agent name
    c.agent_version, -- agent version
    c.environment, -- deployment environment, empty when unknown
    c.conversation_id, -- conversation id
    make_timestamptz(epoch_ns(c.ended_at) // 1000) AS ended_at, -- end of the conversation
    s.dataset, -- dataset of the case
    s.case_id, -- case that it was compared with
    s.outcome_source, -- source of the verdict: adjudication, labels, case, annotators or event
    s.outcome, -- the verdict
    s.computed_outcome, -- outcome by turns and tools
    s.computed_reason, -- why
    s.explanation -- both in one sentence
FROM conversation_scores s
JOIN conversations c USING (environment, conversation_id, revision)
WHERE s.evaluation = coalesce(getvariable('evaluation'), 'default') AND NOT s.superseded AND NOT c.superseded AND s.outcome_source <> 'computed'
    AND s.computed_outcome IN ('pass', 'fail') AND s.computed_outcome <> s.outcome;

-- How many fails of each agent, version and environment were decided while other needed parts could not be evaluated.
CREATE VIEW v_partial_evidence AS
SELECT
    c.agent, -- agent name
    c.agent_version, -- agent version
    c.environment, -- deployment environment, empty when unknown
    count(*) AS evaluated, -- conversations that passed or failed
    count(*) FILTER (s.partial) AS partial_fails, -- of them fails on partial evidence
    count(*) FILTER (s.partial) / count(*) AS share -- partial_fails / evaluated; above 0.05 the success rate is biased downwards
FROM conversation_scores s
JOIN conversations c USING (environment, conversation_id, revision)
WHERE s.evaluation = coalesce(getvariable('evaluation'), 'default') AND NOT s.superseded AND NOT c.superseded AND s.outcome IN ('pass', 'fail')
GROUP BY c.agent, c.agent_version, c.environment;

-- Scores of evaluators, by agent, version and environment: one row is a metric, by the newest scores.
CREATE VIEW v_metrics AS
SELECT
    c.agent, -- agent name
    c.agent_version, -- agent version
    c.environment, -- deployment environment, empty when unknown
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
    make_timestamptz(epoch_ns(max(c.ended_at)) // 1000) AS last_conversation -- end of the newest of them
FROM scores s
JOIN conversations c USING (environment, conversation_id, revision)
WHERE s.evaluator <> 'core' AND s.evaluation = coalesce(getvariable('evaluation'), 'default') AND NOT s.superseded AND NOT c.superseded
GROUP BY c.agent, c.agent_version, c.environment, s.name, s.evaluator;

-- Problems of the state-changing calls of each conversation that passed or failed and has expected tools, by the faults of its newest score.
CREATE VIEW v_state_changes AS
WITH counted AS (
    SELECT
        evaluation_id, environment, conversation_id, revision,
        count(*) FILTER (effect = 'write' AND fault = 'missing') AS missing,
        -- A call may be too many for its turn and for the conversation: it is one call.
        count(DISTINCT (turn_index, actual_position)) FILTER (effect = 'write' AND fault IN ('spurious', 'forbidden')) AS extra,
        count(DISTINCT (turn_index, actual_position)) FILTER (effect = 'write' AND fault = 'wrong_parameters') AS wrong,
        count(*) FILTER (effect IS NULL) AS unknown
    FROM tool_faults
    GROUP BY ALL
), called AS (
    SELECT DISTINCT evaluation_id, environment, conversation_id, revision, turn_index
    FROM tool_counts
    WHERE actual + errored > 0
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
    WHERE s.evaluation = coalesce(getvariable('evaluation'), 'default') AND NOT s.superseded
    GROUP BY ALL
)
SELECT
    c.agent, -- agent name
    c.agent_version, -- agent version
    c.environment, -- deployment environment, empty when unknown
    c.conversation_id, -- conversation id
    make_timestamptz(epoch_ns(c.ended_at) // 1000) AS ended_at, -- end of the conversation
    s.dataset, -- dataset of the case
    s.case_id, -- case that it was compared with
    s.outcome, -- outcome of the conversation
    CASE
        WHEN f.unknown > 0 OR x.unseen OR s.computed_reason = 'unreviewed' OR e.settings ->> 'compat' IS NOT NULL THEN NULL
        WHEN a.evaluation_id IS NOT NULL AND (a.required OR c.closed_by IS DISTINCT FROM 'end_mark') THEN NULL
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
WHERE s.evaluation = coalesce(getvariable('evaluation'), 'default') AND NOT s.superseded AND NOT c.superseded AND s.outcome IN ('pass', 'fail');
