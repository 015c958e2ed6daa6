"""Every metric, event and attribute name that we emit, declared once, and their names in Prometheus. Needs no SDK.

The standard names belong to the OpenTelemetry semantic conventions. The `agentic.*` names are ours, because
OpenTelemetry reserves its own namespaces. Names of ratios end in `.ratio`, so that every path into Prometheus results
in the same name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

# --- Standard names: OpenTelemetry semantic conventions -------------------------------------------------------------

#: The version of the conventions that the standard names are taken from.
SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.40.0"
EVALUATION_RESULT_EVENT: Final = "gen_ai.evaluation.result"

SERVICE_NAME: Final = "service.name"
SERVICE_VERSION: Final = "service.version"
SERVICE_INSTANCE_ID: Final = "service.instance.id"
DEPLOYMENT_ENVIRONMENT_NAME: Final = "deployment.environment.name"
ERROR_TYPE: Final = "error.type"
GEN_AI_AGENT_NAME: Final = "gen_ai.agent.name"
GEN_AI_AGENT_VERSION: Final = "gen_ai.agent.version"
GEN_AI_CONVERSATION_ID: Final = "gen_ai.conversation.id"
GEN_AI_EVALUATION_EXPLANATION: Final = "gen_ai.evaluation.explanation"
GEN_AI_EVALUATION_NAME: Final = "gen_ai.evaluation.name"
GEN_AI_EVALUATION_SCORE_LABEL: Final = "gen_ai.evaluation.score.label"
GEN_AI_EVALUATION_SCORE_VALUE: Final = "gen_ai.evaluation.score.value"
GEN_AI_REQUEST_MODEL: Final = "gen_ai.request.model"
GEN_AI_RESPONSE_ID: Final = "gen_ai.response.id"
GEN_AI_TOOL_NAME: Final = "gen_ai.tool.name"

# --- Own names: attributes ------------------------------------------------------------------------------------------

CASE_ID: Final = "agentic.case.id"
CASE_TAG: Final = "agentic.case.tag"
CRITERIA: Final = "agentic.criteria"
CRITERION: Final = "agentic.criterion"
ESTIMATOR: Final = "agentic.estimator"
EVALUATION_ID: Final = "agentic.evaluation.id"
EVALUATION_RANGE: Final = "agentic.evaluation.range"
EVALUATION_REVISION: Final = "agentic.evaluation.revision"
EVALUATION_TARGET: Final = "agentic.evaluation.target"
EVALUATION_THRESHOLD: Final = "agentic.evaluation.threshold"
EVALUATOR: Final = "agentic.evaluator"
EVALUATOR_TYPE: Final = "agentic.evaluator.type"
EVALUATOR_VERSION: Final = "agentic.evaluator.version"
K: Final = "agentic.k"
MATCH_METHOD: Final = "agentic.match.method"
OBJECTIVE: Final = "agentic.objective"
OUTCOME: Final = "agentic.outcome"
REASON: Final = "agentic.reason"
RESULT: Final = "agentic.result"
REVISION: Final = "agentic.revision"
RUN_ID: Final = "agentic.run.id"
SEVERITY: Final = "agentic.severity"
STAGE: Final = "agentic.stage"
STORE_PART: Final = "agentic.store.part"
SUBJECT_SERVICE_NAME: Final = "agentic.subject.service.name"
TIER: Final = "agentic.tier"
TOOL_DIMENSION: Final = "agentic.tool.dimension"
TOOL_FAULT: Final = "agentic.tool.fault"
TOOL_PARAMETER: Final = "agentic.tool.parameter"
TRIGGER: Final = "agentic.trigger"
TRANSPORT: Final = "agentic.transport"
TURN_INDEX: Final = "agentic.turn.index"
WINDOW: Final = "agentic.window"

# --- Own names: evaluations (values of `gen_ai.evaluation.name`) ------------------------------------------------------

EVALUATION_CONVERSATION: Final = "agentic.conversation"
EVALUATION_ANSWER: Final = "agentic.answer"
EVALUATION_TOOL_CALL: Final = "agentic.tool.call"
#: A tool dimension's name follows: `agentic.tool.selection`, …
EVALUATION_TOOL_PREFIX: Final = "agentic.tool."

# --- Own names: scope, resource and the values for "the rest" ---------------------------------------------------------

SCOPE: Final = "otel_agentic"
OWN_SERVICE_NAME: Final = "otel-agentic"
#: The value of `gen_ai.tool.name` beyond the cap on tool names.
OTHER: Final = "other"
#: The value of `agentic.tool.fault` on a call without a fault.
NO_FAULT: Final = "none"

# --- Own names: instruments -----------------------------------------------------------------------------------------

InstrumentKind = Literal["counter", "histogram", "observable_counter", "observable_gauge", "observable_up_down_counter"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Instrument:
    """One metric: name, kind, UCUM unit, description, and bucket bounds for a histogram.

    There is one object for each name, also after it was sent to another process, so that its hash is fast to compute.
    """

    name: str
    kind: InstrumentKind
    unit: str
    description: str
    bounds: tuple[float, ...] | None = None

    def __reduce__(self) -> tuple[Callable[[str], Instrument], tuple[str]]:
        """Pickle the name."""
        return instrument_named, (self.name,)


def instrument_named(name: str) -> Instrument:
    """Return a declared instrument.

    Raises:
        KeyError: the name is unknown.
    """
    return _BY_NAME[name]


def _gauge(name: str, description: str, unit: str = "1") -> Instrument:
    return Instrument(name=name, kind="observable_gauge", unit=unit, description=description)


def _counter(name: str, unit: str, description: str) -> Instrument:
    return Instrument(name=name, kind="counter", unit=unit, description=description)


def _measured(name: str, unit: str, description: str, bounds: tuple[float, ...]) -> Instrument:
    return Instrument(name=name, kind="histogram", unit=unit, description=description, bounds=bounds)


def _declared() -> tuple[Instrument, ...]:
    """Return the instruments that this module has declared so far."""
    return tuple(value for value in globals().values() if isinstance(value, Instrument))


SUCCESS: Final = _gauge("agentic.success.ratio", "Share of evaluated conversations that are correct (pass@1)")
SUCCESS_LOWER: Final = _gauge("agentic.success.lower.ratio", "Lower bound of the success ratio")
SUCCESS_UPPER: Final = _gauge("agentic.success.upper.ratio", "Upper bound of the success ratio")
PASS_AT_K: Final = _gauge("agentic.pass_at_k.ratio", "Probability that at least one of k attempts is correct")
PASS_AT_K_LOWER: Final = _gauge("agentic.pass_at_k.lower.ratio", "Lower bound of pass@k")
PASS_AT_K_UPPER: Final = _gauge("agentic.pass_at_k.upper.ratio", "Upper bound of pass@k")
PASS_POW_K: Final = _gauge("agentic.pass_pow_k.ratio", "Probability that all of k attempts are correct")
PASS_POW_K_LOWER: Final = _gauge("agentic.pass_pow_k.lower.ratio", "Lower bound of pass^k")
PASS_POW_K_UPPER: Final = _gauge("agentic.pass_pow_k.upper.ratio", "Upper bound of pass^k")
TOOL_CORRECTNESS: Final = _gauge("agentic.tool_correctness.ratio", "Mean of a tool dimension over conversations")
COVERAGE: Final = _gauge("agentic.coverage.ratio", "Share of conversations that could be evaluated")
WINDOW_CONVERSATIONS: Final = _gauge(
    "agentic.window.conversations", "Conversations in the window by outcome", "{conversation}"
)
TIER_STATUS: Final = Instrument(
    name="agentic.tier.status",
    kind="observable_up_down_counter",
    unit="1",
    description="State set: 1 for the tier that the evidence since the version's first conversation supports, 0 for the others",
)

#: The instruments of a window's snapshot.
WINDOW_INSTRUMENTS: Final = _declared()

EVALUATED_CONVERSATIONS: Final = _counter(
    "agentic.evaluation.conversations", "{conversation}", "Scored conversations by outcome"
)
EVALUATED_TURNS: Final = _counter("agentic.evaluation.turns", "{turn}", "Scored turns by outcome, first results only")
EVALUATED_TOOL_CALLS: Final = _counter(
    "agentic.evaluation.tool_calls", "{tool_call}", "Judged or missing tool calls by fault, first results only"
)
SCORE: Final = Instrument(
    name="agentic.evaluation.score",
    kind="histogram",
    unit="1",
    description="Scores by evaluation, each between its bounds as 0 to 1, first results only",
    bounds=(0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
)
DELAY: Final = Instrument(
    name="agentic.evaluation.delay",
    kind="histogram",
    unit="s",
    description="Time between the end of a conversation and each stage of its evaluation",
    # From a burst of file input (milliseconds) to a conversation that waits out its idle time (half an hour and more).
    bounds=(0.01, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0, 1800.0, 3600.0, 14400.0, 86400.0),
)
INGEST_SPANS: Final = _counter("agentic.ingest.spans", "{span}", "Received spans by result")
LATE_SPANS: Final = _counter("agentic.ingest.late_spans", "{span}", "Spans that came after their conversation closed")
GROUPS_DROPPED: Final = Instrument(
    name="agentic.telemetry.groups_dropped",
    kind="observable_counter",
    unit="{group}",
    description="Groups left without gauges by the cap on groups",
)
CONVERSATIONS_OPEN: Final = Instrument(
    name="agentic.conversations.open",
    kind="observable_up_down_counter",
    unit="{conversation}",
    description="Conversations that have not closed yet",
)

#: The instruments of events as they happen, apart from the windows.
RUNNING_INSTRUMENTS: Final = _declared()[len(WINDOW_INSTRUMENTS) :]

METRIC_RESULTS: Final = _counter(
    "agentic.metric.results", "{result}", "Results and abstentions of metrics, by label and outcome"
)
METRIC_DURATION: Final = _measured(
    "agentic.metric.duration",
    "s",
    "Values of metrics that measure a time, first results only",
    (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0),
)
#: The bounds that the semantic conventions advise for tokens.
METRIC_TOKENS: Final = _measured(
    "agentic.metric.tokens",
    "{token}",
    "Values of metrics that count tokens, first results only",
    tuple(4.0**power for power in range(14)),
)
METRIC_COST: Final = _measured(
    "agentic.metric.cost",
    "{USD}",
    "Values of metrics that measure money, first results only",
    (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
)
METRIC_AMOUNT: Final = _measured(
    "agentic.metric.amount",
    "{item}",
    "Values of metrics that count, or that have no upper bound, first results only",
    (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0, 100.0, 1000.0),
)

#: The instruments of metrics that are not scores between two bounds.
METRIC_INSTRUMENTS: Final = _declared()[len(WINDOW_INSTRUMENTS) + len(RUNNING_INSTRUMENTS) :]


def _level(name: str, unit: str, description: str) -> Instrument:
    """Return an instrument of a current amount; the values of several collectors may be added."""
    return Instrument(name=name, kind="observable_up_down_counter", unit=unit, description=description)


def _total(name: str, unit: str, description: str) -> Instrument:
    return Instrument(name=name, kind="observable_counter", unit=unit, description=description)


COLLECTOR_READY: Final = _level("agentic.collector.ready", "1", "1 while spans are accepted, else 0")
INGEST_REFUSED: Final = _counter(
    "agentic.ingest.refused", "{request}", "Requests refused as a whole, by transport and status"
)
QUEUE_REQUESTS: Final = _level("agentic.queue.requests", "{request}", "Requests that wait to be written")
QUEUE_SPANS: Final = _level("agentic.queue.spans", "{span}", "Spans and log records that wait to be written")
COMMIT_DURATION: Final = Instrument(
    name="agentic.store.commit.duration",
    kind="histogram",
    unit="s",
    description="Time that one durable commit of spans takes",
    bounds=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)
STORE_OPEN: Final = _level("agentic.store.open", "1", "1 while the store can be written, else 0")
STORE_REOPENED: Final = _total("agentic.store.reopened", "{time}", "Times the store was opened again after a failure")
STORE_SIZE: Final = _level("agentic.store.size", "By", "Size of the store's file and of its write-ahead log")
BACKLOG: Final = _level("agentic.pipeline.backlog", "{item}", "Items that are due and wait, by stage")
BACKGROUND_SHARE: Final = _gauge(
    "agentic.background.share.ratio", "Share of the time that rebuilding and scoring may take now"
)
BREAKER_OPEN: Final = _level("agentic.judge.breaker.open", "1", "1 while the judge's circuit breaker is open, else 0")
BREAKER_OPENED: Final = _total(
    "agentic.judge.breaker.opened", "{time}", "Times the judge's circuit breaker was opened since the start"
)
QUERIES_RUNNING: Final = _level("agentic.query.running", "{query}", "User queries that are running")
TRUTH_CASES: Final = _level("agentic.truth.cases", "{case}", "Cases that conversations are matched with")
RETENTION_FAILING: Final = _level(
    "agentic.retention.failing", "1", "1 while exporting or removing fails, else 0; absent if neither is configured"
)

SLO_E_VALUE: Final = _gauge("agentic.slo.e_value", "Evidence against the objective, anytime-valid", "{e_value}")
JUDGE_COST: Final = _counter("agentic.judge.cost", "{USD}", "Money spent on judges")
JUDGE_CACHE_REQUESTS: Final = _counter("agentic.judge.cache.requests", "{request}", "Judge cache look-ups by result")
JUDGE_AGREEMENT: Final = _gauge("agentic.judge.agreement", "Agreement of a judge with given labels", "{kappa}")

INSTRUMENTS: Final = _declared()
_BY_NAME: Final = {instrument.name: instrument for instrument in INSTRUMENTS}


#: The suffix that Prometheus appends to a name for its unit; units in braces have none, and ratios have it in their name.
_UNITS: Final = {"s": "_seconds", "By": "_bytes"}
_COUNTERS: Final = frozenset({"counter", "observable_counter"})
_TYPES: Final = {"histogram": "histogram", "counter": "counter", "observable_counter": "counter"}
_HISTOGRAM_SERIES: Final = ("_bucket", "_sum", "_count")


def label_name(attribute: str) -> str:
    """Return the label that an attribute becomes.

    >>> label_name("gen_ai.agent.name")
    'gen_ai_agent_name'
    """
    return attribute.replace(".", "_")


def family_name(instrument: Instrument) -> str:
    """Return the name of a metric's family, as in `# TYPE`.

    >>> from otel_agentic.telemetry import names
    >>> family_name(names.DELAY), family_name(names.EVALUATED_TURNS)
    ('agentic_evaluation_delay_seconds', 'agentic_evaluation_turns')
    """
    return label_name(instrument.name) + _UNITS.get(instrument.unit, "")


def series_names(instrument: Instrument) -> tuple[str, ...]:
    """Return the names of a metric's series, as in a query.

    >>> from otel_agentic.telemetry import names
    >>> series_names(names.EVALUATED_TURNS), series_names(names.COVERAGE)
    (('agentic_evaluation_turns_total',), ('agentic_coverage_ratio',))
    """
    family = family_name(instrument)
    if instrument.kind == "histogram":
        return tuple(family + suffix for suffix in _HISTOGRAM_SERIES)
    return (f"{family}_total",) if instrument.kind in _COUNTERS else (family,)


def family_type(instrument: Instrument) -> str:
    """Return the type of a metric's family.

    >>> from otel_agentic.telemetry import names
    >>> family_type(names.TIER_STATUS), family_type(names.DELAY)
    ('gauge', 'histogram')
    """
    return _TYPES.get(instrument.kind, "gauge")
