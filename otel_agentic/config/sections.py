"""The sections of the settings: every setting and limit, with its unit and default.

The sections `evaluators`, `gate` and `slo` are in `quality`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    field_serializer,
    field_validator,
    model_validator,
)

from otel_agentic.config.patterns import own_pattern, refusal_of

#: The replacement of a secret.
MASK: Final = "**********"
#: Names of options, of a model or a client, that contain secrets.
_SECRET: Final = re.compile(r"key|token|secret|passw|credential|header|auth|cookie|sign", re.IGNORECASE)
#: Exceptions: `max_tokens` is a number.
_NONE: Final = re.compile(r"max_|_tokens$|n_tokens|token_limit|key_?words", re.IGNORECASE)
#: A user and a password in a URL.
_USER: Final = re.compile(r"(?<=://)[^/?#\s]*@")


def masked(value: Any, name: str = "") -> Any:
    """Return a value with secrets, recognised by name, and users and passwords in URLs masked.

    >>> masked({"api_key": "sk-1", "max_tokens": 9, "base_url": "http://me:pw@host/v1"})
    {'api_key': '**********', 'max_tokens': 9, 'base_url': 'http://***@host/v1'}
    """
    if _SECRET.search(name) and not _NONE.search(name) and value not in (None, ""):
        return MASK
    if isinstance(value, dict):
        return {key: masked(item, str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [masked(item, name) for item in value]
    return without_user(value) if isinstance(value, str) else value


def without_user(text: str) -> str:
    """Return a text with users and passwords in its URLs masked.

    >>> without_user("http://me:pw@host:4318 does not answer")
    'http://***@host:4318 does not answer'
    """
    return _USER.sub("***@", text)


def has_user(url: str) -> bool:
    """Return whether a URL contains a user or a password."""
    return _USER.search(url) is not None


Count = Annotated[int, Field(ge=1)]


class Section(BaseModel):
    """A section, or a part of one; unknown names are rejected."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Ratio = Annotated[float, Field(ge=0.0, le=1.0)]
Seconds = Annotated[float, Field(gt=0.0)]
#: Limits of a connection: more than a day is not a useful limit.
Deadline = Annotated[float, Field(gt=0.0, le=86_400.0)]
#: A sampled conversation represents 1 / share conversations; squares of that are summed, so the share has a minimum.
SampledShare = Annotated[float, Field(ge=1e-6, le=1.0)]


def _digit(value: Any) -> Any:
    """Convert a digit to an integer: environment variables are text, which a literal of integers rejects."""
    return int(value) if isinstance(value, str) and value.isdecimal() else value


class StoreSettings(Section):
    """The DuckDB file."""

    db: Path = Field(default=Path("otel-agentic.duckdb"), description="the DuckDB file")
    queue_batches: Count = Field(default=256, description="batches waiting for the writer before senders are refused")
    queue_spans: Count = Field(default=100_000, description="spans waiting for the writer before senders are refused")
    queue_mb: Count = Field(
        default=32, description="requests waiting for the writer before senders are refused, MB after decompression"
    )
    reopen_s: Seconds = Field(
        default=1.0,
        description="wait before the second try to open the file again after it failed, seconds; it doubles up to 30",
    )
    checkpoint_threshold_mb: Count = Field(default=32, description="write-ahead log size that forces a checkpoint, MB")
    memory_limit_mb: Count = Field(
        default=256,
        description="memory that DuckDB may use before it spills to disk next to the file, MB; unset, commands on a file "
        "without a collector use 96; a query runs on one thread for each 256 MB",
    )
    recent_ids: Count = Field(default=1_000_000, description="span ids remembered in memory to detect resent spans")
    query_timeout_s: Seconds = Field(default=30.0, description="time limit of one user query, seconds")
    query_max_rows: Count = Field(default=100_000, description="rows a user query may return")
    query_max_bytes: Count = Field(
        default=64 * 1024 * 1024, description="size of the values a user query may return, bytes"
    )
    query_memory_mb: Count = Field(
        default=1024, description="memory that the process of one user query may take before it is ended, MB"
    )
    snapshot: Path | None = Field(
        default=None,
        description="a copy of the file that a running collector keeps current for other programs; unset: next to the file, "
        "only for its own queries, made on demand",
    )
    snapshot_interval_s: Seconds = Field(
        default=60.0, description="minimum time between two copies of the file for queries, seconds"
    )
    snapshot_limit_mb: Count = Field(
        default=4096,
        description="largest file that is copied for queries against a running collector if the file system cannot share "
        "blocks, MB; twice that while one copy replaces the other",
    )
    temp_limit_mb: Count = Field(
        default=4096, description="disk space next to the file that DuckDB may use for data that exceeds memory, MB"
    )

    @field_validator("db")
    @classmethod
    def _names_a_file(cls, db: Path) -> Path:
        if not db.name:
            raise ValueError("names no file; give the path of a DuckDB file")
        return db

    @model_validator(mode="after")
    def _has_two_files(self) -> Self:
        if self.snapshot is not None and self.snapshot.resolve() == self.db.resolve():
            raise ValueError("snapshot and db are the same file; give the snapshot a path of its own")
        return self


class ReceiveSettings(Section):
    """The receivers, their addresses and limits."""

    grpc: str = Field(default="127.0.0.1:4317", description="OTLP/gRPC address, host:port; port 0 takes a free one")
    http: str = Field(default="127.0.0.1:4318", description="OTLP/HTTP address, host:port; port 0 takes a free one")
    insecure: bool = Field(default=False, description="allow an address other than loopback without a token")
    token: SecretStr | None = Field(default=None, description="bearer token that senders must send")
    token_file: Path | None = Field(
        default=None, description="file of such tokens, one per line; reloaded when it changes"
    )
    tls_cert_file: Path | None = Field(
        default=None, description="PEM file of the server certificate and its chain; unset: no TLS"
    )
    tls_key_file: Path | None = Field(default=None, description="PEM file of the certificate's private key")
    tls_client_ca_file: Path | None = Field(
        default=None,
        description="PEM file of authorities; set: senders must present a certificate signed by one of them",
    )
    max_request_bytes: Count = Field(default=64 * 1024 * 1024, description="request size after decompression, bytes")
    max_items: Count = Field(
        default=2_000_000,
        description="messages and values in one request: spans, attributes, events, list elements; a larger request is "
        "rejected before it takes memory, and a span counts as eight",
    )
    max_concurrent_requests: Count = Field(default=64, description="requests handled at once")
    max_connections: Count = Field(
        default=1024,
        description="open connections on each of the two ports; on the HTTP port a new one closes the one that has been idle "
        "or sending for longest; fewer if the limit of open files (RLIMIT_NOFILE) is lower",
    )
    header_timeout_s: Deadline = Field(
        default=10.0, description="time for the TLS handshake and for sending the request head, seconds"
    )
    body_timeout_s: Deadline = Field(default=30.0, description="time to send the request body, seconds")
    min_body_rate: Count = Field(
        default=1024, description="minimum rate of a body over HTTP after its first five seconds, bytes per second"
    )
    idle_timeout_s: Deadline = Field(
        default=75.0, description="time that a connection may stay open between two requests, seconds"
    )
    max_attributes: Count = Field(default=4096, description="stored attributes per span; more are cut and counted")
    max_value_bytes: Count = Field(
        default=4 * 1024 * 1024, description="stored text per attribute value, bytes of UTF-8"
    )
    max_name_bytes: Count = Field(default=4096, description="stored text of a span's name, bytes of UTF-8")
    max_events: Count = Field(default=4096, description="stored events per span")


class AdminSettings(Section):
    """The admin address: queries, commands on the live store, health, `/metrics`."""

    address: str = Field(default="127.0.0.1:8321", description="admin address, host:port; port 0 takes a free one")
    token: SecretStr | None = Field(default=None, description="bearer token with full access")
    token_file: Path | None = Field(
        default=None, description="file of such tokens, one per line; reloaded when it changes"
    )
    query_token: SecretStr | None = Field(
        default=None, description="bearer token with read access: queries, reports, /metrics"
    )
    query_token_file: Path | None = Field(
        default=None, description="file of such tokens, one per line; reloaded when it changes"
    )
    review_token: SecretStr | None = Field(
        default=None, description="bearer token with read access that may also record verdicts of people"
    )
    review_token_file: Path | None = Field(
        default=None, description="file of such tokens, one per line; reloaded when it changes"
    )
    feedback_token: SecretStr | None = Field(
        default=None, description="bearer token that may only send feedback of end users"
    )
    feedback_token_file: Path | None = Field(
        default=None, description="file of such tokens, one per line; reloaded when it changes"
    )
    tls_cert_file: Path | None = Field(
        default=None, description="PEM file of the server certificate and its chain; unset: no TLS"
    )
    tls_key_file: Path | None = Field(default=None, description="PEM file of the certificate's private key")
    tls_client_ca_file: Path | None = Field(
        default=None,
        description="PEM file of authorities; set: callers must present a certificate signed by one of them",
    )
    ca_file: Path | None = Field(
        default=None,
        description="for commands that connect to a running collector: PEM file of the authorities that signed its "
        "certificate; unset: the system's",
    )
    client_cert_file: Path | None = Field(
        default=None, description="for such commands: PEM file of the client certificate, for mutual TLS"
    )
    client_key_file: Path | None = Field(default=None, description="for such commands: PEM file of its private key")
    allowed_hosts: tuple[str, ...] = Field(
        default=(),
        description="further host names, or globs such as `*.internal`, under which the admin address answers, in addition to "
        "loopback names and, on an address other than loopback, IP addresses and the name of the machine",
    )
    console: bool = Field(default=True, description="whether the admin address has the web console")
    command_slots: Count = Field(
        default=8, description="commands running at once, of all kinds; beyond them callers are asked to retry"
    )
    query_slots: Count = Field(default=2, description="of these, user queries")


class ConversationSettings(Section):
    """How spans become conversations, and when these close."""

    turn_idle_s: Seconds = Field(default=60.0, description="a turn closes this long after its last span, seconds")
    idle_s: Seconds = Field(
        default=1800.0, description="a conversation with an id closes after this idle time, seconds"
    )
    idle_without_id_s: Seconds = Field(
        default=300.0, description="a conversation without an id closes after this idle time, seconds"
    )
    conversation_id_attributes: tuple[str, ...] = Field(
        default=(), description="your own attribute names that contain a conversation id, tried before the known ones"
    )
    case_id_attributes: tuple[str, ...] = Field(
        default=("agentic.case.id",), description="attribute names (span or resource) that contain a case id"
    )
    attempt_id_attributes: tuple[str, ...] = Field(
        default=("agentic.attempt.id",),
        description="attribute names (span or resource) that contain the id of an attempt: another one under the same "
        "conversation id starts a new conversation",
    )
    end_attributes: tuple[str, ...] = Field(
        default=("agentic.conversation.end",), description="attribute names that, when true, end a conversation"
    )
    state_attributes: tuple[str, ...] = Field(
        default=("agentic.final_state",),
        description="attribute names that contain the end state of a conversation, a JSON object; the last in time counts",
    )
    slices: dict[str, tuple[str, ...]] = Field(
        default={},
        description='attribute names by further slices of conversations, such as {tenant = ["app.tenant"]}; user, locale, tier, '
        "prompt, prompt_version, model and flag exist, and get further attributes here",
    )
    error_patterns: tuple[str, ...] = Field(
        default=(
            r"^\s*[\w.]*(?:error|exception)\b",
            r"^\s*failed to (?:call|execute|invoke|run)\b",
            r"^\s*traceback \(most recent call last\)",
        ),
        description="regular expressions (case ignored, RE2 syntax) that match a tool result that is an error",
    )

    @field_validator("error_patterns")  # not the default: importing RE2 takes time
    @classmethod
    def _patterns_work(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for index, pattern in enumerate(patterns):
            try:
                own_pattern(pattern, ignore_case=True)
            except ValueError as error:
                raise ValueError(f"error_patterns[{index}]: {error}") from error
        return patterns


class DialectSettings(Section):
    """Which dialect reads which spans, and a custom dialect made of attribute names."""

    scopes: dict[str, str] = Field(
        default={},
        description="dialect that reads the spans of an instrumentation scope, by name or glob, regardless of their "
        "attributes; the first match counts, `none` ignores the spans",
    )
    custom: dict[str, Any] = Field(
        default={},
        description="a custom dialect: attribute names by meaning, and the scopes or marks of its spans; docs/plugins.md "
        "contains an example",
    )


#: Weights of the tool dimensions unless the settings or a case give others.
DEFAULT_TOOL_WEIGHTS: Final[dict[Literal["selection", "parameters", "sequence", "utilization"], float]] = {
    "selection": 1.0,
    "parameters": 1.0,
    "sequence": 1.0,
    "utilization": 0.0,
}


#: Criteria of traffic without cases: what goes wrong visibly.
TRAFFIC: Final = (
    "operations.turn_end if known",
    "operations.tool_failure if known",
    "operations.loops <= 0 if known",
    "layers.hallucinated_tools <= 0 if known",
    "layers.call_validity if known",
    "user.abandoned if known",
)


class ScoringSettings(Section):
    """What makes a turn and a conversation correct."""

    judge: str = Field(
        default="exact",
        description="answer judge, by plug-in name; after a colon its argument, such as langchain:openai:gpt-5-mini",
    )
    answer_threshold: Ratio = Field(default=0.7, description="answer score at which a turn passes, inclusive")
    tool_threshold: Ratio = Field(default=1.0, description="tool score at which tools are correct, inclusive")
    tool_weights: dict[Literal["selection", "parameters", "sequence", "utilization"], Annotated[float, Field(ge=0)]] = (
        Field(
            default=DEFAULT_TOOL_WEIGHTS,
            description="weights of the four tool dimensions, normalised over those that apply; a dimension of weight 0 is "
            "computed and reported but decides nothing (docs/tool-scoring.md explains why utilization is one)",
        )
    )
    criteria: Annotated[tuple[str, ...], Field(min_length=1)] = Field(
        default=("annotated",),
        description="what decides whether a conversation is correct: `annotated` is everything that its case annotates; "
        "docs/scoring.md lists the others. A case may name its own",
    )
    profiles: dict[str, tuple[str, ...]] = Field(
        default={"traffic": TRAFFIC},
        description="named lists of criteria, for `report --criterion NAME`; `traffic` needs no case (docs/scoring.md)",
    )
    strict_turns: bool = Field(
        default=False, description="a turn beyond the case's turns, or a missing one, fails the conversation"
    )
    count_errors: bool = Field(default=False, description="a call that returned an error counts as a call")
    compat: Literal["fair-forge", "ragas", "agent-surface", "agentest"] | None = Field(
        default=None, description="score with another system's arithmetic, including its faults; unset: our own"
    )
    judged_utilization: bool = Field(
        default=False, description="ask the judge whether a tool's result was used if the data does not show it"
    )
    numbers_as_text: bool = Field(default=False, description='let "5" match 5 in parameters')
    trust_verdict_events: bool = Field(default=False, description="take verdicts from events in the agent's own spans")
    reward_threshold: float = Field(default=1.0 - 1e-6, description="a reward passes at or above this")
    effects: dict[str, Literal["read", "write"]] = Field(
        default={}, description="the effect of a tool, by name or glob; a case's own entries win"
    )

    @model_validator(mode="after")
    def _some_weight(self) -> ScoringSettings:
        if sum(self.tool_weights.values()) <= 0:
            message = "tool_weights: at least one weight must be above 0"
            raise ValueError(message)
        return self


class TruthSettings(Section):
    """Files of ground truth, loaded when no option names others. Relative paths in a file are relative to that file."""

    cases: tuple[Path, ...] = Field(
        default=(), description="files of cases, in any format of `truth import`, or folders of them"
    )
    labels: tuple[Path, ...] = Field(default=(), description="CSV files of labels, or folders of them")


class MatchingSettings(Section):
    """How conversations are matched to cases without an id or equal queries."""

    text: Literal["off", "suggest", "auto"] = Field(
        default="suggest",
        description="compare user messages with all cases: `suggest` lists the case for confirmation without counting it, "
        "`auto` matches the conversation to it",
    )
    text_threshold: Ratio = Field(
        default=0.85, description="probability at which the case of a text is suggested or matched, inclusive"
    )


class JudgeSettings(Section):
    """LLM judges: their budget, retries and limits."""

    model_options: dict[str, Any] = Field(
        default={},
        repr=False,
        description="passed to the chat model unchanged, such as base_url, temperature or api_version",
    )
    prompt: Path | None = Field(
        default=None, description="your own prompt file, instead of the built-in one with its name"
    )
    sanity_check: bool = Field(
        default=True,
        description="before `evaluate` begins, ask the model one question with a known answer, and stop if its verdict is missing "
        "or wrong",
    )
    method: Literal["auto", "structured", "tool", "text"] = Field(
        default="auto", description="how the verdict is requested; auto uses the first way that the model supports"
    )
    panel: bool = Field(
        default=True, description="ask the questions of several metrics about the same texts in one model call"
    )
    concurrency: Count = Field(default=16, description="model calls in flight")
    requests_per_second: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="maximum number of model calls started per second; unset: no limit"
    )
    timeout_s: Seconds = Field(default=60.0, description="time limit of one model call, seconds")
    tries: Count = Field(default=4, description="maximum number of model calls per verdict before it is a judge_error")
    backoff_s: Annotated[float, Field(ge=0)] = Field(
        default=1.0, description="wait before the second try, seconds; it doubles each time, with jitter"
    )
    backoff_max_s: Annotated[float, Field(ge=0)] = Field(
        default=30.0, description="longest wait between tries, seconds"
    )
    breaker_failures: Count = Field(
        default=5,
        description="consecutive questions without an answer after which the judge is suspended; likewise consecutive "
        "questions with one prompt whose replies contain no verdict, after which that prompt is suspended",
    )
    breaker_wait_s: Seconds = Field(
        default=30.0,
        description="duration of the suspension, seconds; doubled each time the judge fails again, up to 20 times as long",
    )
    outage_wait_s: Annotated[float, Field(ge=0)] = Field(
        default=300.0,
        description="total time that `evaluate` waits for an unavailable judge, seconds; then open questions are "
        "`judge_error`, and the next run asks them",
    )
    votes: Annotated[Literal[1, 3, 5], BeforeValidator(_digit)] = Field(
        default=1, description="verdicts requested if the first is close to the threshold; their majority decides"
    )
    vote_band: Ratio = Field(default=0.15, description="a score this close to the threshold, on either side, is close")
    max_answer_characters: Count = Field(
        default=20_000, description="characters of each judged text that are sent to the model"
    )
    canary_ratio: Ratio = Field(
        default=0.0,
        description="share of passing answers also compared with a wrong expected answer, to monitor the judge",
    )
    cache: bool = Field(default=True, description="reuse a verdict on the same content from an earlier evaluation")
    confirm_calls: Count | None = Field(
        default=2_000, description="`evaluate` and `backfill` ask before a run with more model calls; unset: never"
    )
    confirm_cost_usd: Annotated[float, Field(gt=0)] | None = Field(
        default=10.0,
        description="`evaluate` and `backfill` ask before a run that costs more, US dollars; needs the two prices; unset: never",
    )
    budget_window: str = Field(default="24h", description="window of the following three limits: 90s, 15m, 1h, 24h, 7d")
    max_calls: Count | None = Field(default=None, description="model calls per budget window; unset: no limit")
    max_tokens: Count | None = Field(default=None, description="tokens per budget window; unset: no limit")
    max_cost_usd: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="cost per budget window, US dollars; needs the two prices"
    )
    input_price_usd: Annotated[float, Field(ge=0)] | None = Field(
        default=None, description="price per million input tokens, US dollars"
    )
    output_price_usd: Annotated[float, Field(ge=0)] | None = Field(
        default=None, description="price per million output tokens, US dollars"
    )

    @field_serializer("model_options", when_used="json")
    def _without_keys(self, options: dict[str, Any]) -> Any:
        return masked(options)

    @model_validator(mode="after")
    def _cost_needs_prices(self) -> JudgeSettings:
        if self.max_cost_usd is not None and None in {self.input_price_usd, self.output_price_usd}:
            message = "max_cost_usd: needs input_price_usd and output_price_usd"
            raise ValueError(message)
        return self


class StatsSettings(Section):
    """How rates are estimated."""

    k: tuple[Count, ...] = Field(default=(1, 3, 5), description="the k of pass@k and pass^k")
    mode: Literal["bayesian", "frequentist"] = Field(default="bayesian", description="statistical mode")
    estimator: str | None = Field(
        default=None,
        description="headline estimator of gauges, gates and tiers, by plug-in name; unset: the pooled one of `mode`",
    )
    level: Annotated[float, Field(gt=0, lt=1)] = Field(default=0.95, description="level of intervals")
    prior: tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]] = Field(
        default=(1.0, 1.0), description="Beta prior (a, b): (1, 1) uniform, (0.5, 0.5) Jeffreys"
    )
    tier_rule: Literal["interval", "paper", "docs"] = Field(default="interval", description="how tiers are assigned")


class ProcessingSettings(Section):
    """The processes of `serve`: one receives and stores, and others may rebuild and score conversations."""

    workers: int | None = Field(
        default=None,
        ge=0,
        le=256,
        description="worker processes that rebuild and score, started under load; 0: none; unset: one for each further processor, at most 4",
    )


class SamplingSettings(Section):
    """Which closed conversations are evaluated if evaluating all of them costs too much.

    A conversation is included or excluded as a whole, by the hash of its id; the ratio is stored with its score, and rates
    are weighted by it.
    """

    ratio: SampledShare = Field(default=1.0, description="share of conversations that are evaluated")
    agents: dict[str, SampledShare] = Field(
        default={}, description="share by agent, name or glob; the first match counts"
    )


class WindowSettings(Section):
    """Rolling windows by event time."""

    widths: tuple[str, ...] = Field(
        default=("1h", "24h", "7d"), description="windows: a time such as 90s, 15m, 1h, 24h, 7d, or n200: the last 200"
    )
    step_s: Seconds = Field(
        default=300.0, description="stored window ends are whole multiples of this since the epoch, seconds"
    )
    tags: tuple[str, ...] = Field(
        default=(),
        description="case tags, names or globs, that get windows of their own in addition to the total; with an equals sign, "
        "slices, such as model=*, but no user",
    )
    criteria: tuple[str, ...] = Field(
        default=(),
        description='criteria with windows of their own in addition to `correct`, as in `report --criterion`: such as "tools", '
        '"answer and state" or the name of a profile',
    )
    lateness_s: Seconds = Field(
        default=3600.0, description="a conversation is final this long after its end, seconds; monitors wait for that"
    )


class RedactionSettings(Section):
    """The content that is removed from all data before it is stored: credentials by default, personal data if configured."""

    credentials: bool = Field(
        default=True, description="remove API keys, tokens, private keys and the values of fields that contain such"
    )
    personal: tuple[Literal["card", "email", "phone", "iban", "ssn", "ip"], ...] = Field(
        default=(), description="kinds of personal data to remove: card, email, phone, iban, ssn, ip"
    )
    custom: dict[Annotated[str, Field(pattern=r"^[a-z0-9_-]{1,40}$")], str] = Field(
        default={},
        description="further content to remove: name = regular expression, RE2 syntax (matched in linear time)",
    )
    keep_fields: tuple[str, ...] = Field(
        default=(),
        description="fields, names or globs, that contain no credentials despite their names; keys and tokens of known "
        "formats are still removed from them",
    )

    @model_validator(mode="after")
    def _patterns_work(self) -> RedactionSettings:
        for name, pattern in self.custom.items():
            problem = refusal_of(pattern)
            if problem is not None:
                raise ValueError(f"custom.{name}: {problem}")
        return self


class RetentionSettings(Section):
    """How long the store keeps data, and what it exports before removing it."""

    keep: str | None = Field(
        default=None,
        description="conversations that ended longer ago than this, and older spans, are removed: a duration such as "
        "12h, 30d; unset: everything is kept",
    )
    export: bool = Field(
        default=False,
        description="write closed hours as Parquet files, readable at any time; nothing is removed before it is exported",
    )
    export_folder: Path | None = Field(
        default=None,
        description="folder of the Parquet files, which users' SQL may read; unset: next to the database, with the suffix `.export`",
    )
    every_s: Seconds = Field(default=300.0, description="interval of exports and removals, seconds")


class LogSettings(Section):
    """What a collector writes to standard error. It never contains content of spans."""

    format: Literal["text", "json"] = Field(default="text", description="text, or json with one object per line")
    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="minimum severity that is written"
    )


class EmitSettings(Section):
    """Telemetry sent to the backend."""

    endpoint: str | None = Field(default=None, description="OTLP endpoint, http(s)://host:port; unset: nothing is sent")
    protocol: Literal["http/protobuf", "grpc"] = Field(default="http/protobuf", description="OTLP transport")
    headers: dict[str, SecretStr] = Field(default={}, description="headers sent with each export")
    ca_file: Path | None = Field(
        default=None,
        description="PEM file of the authorities that signed the backend's certificate; unset: the system's",
    )
    client_cert_file: Path | None = Field(
        default=None, description="PEM file of the client certificate, for mutual TLS"
    )
    client_key_file: Path | None = Field(default=None, description="PEM file of its private key, for mutual TLS")
    interval_s: Seconds = Field(default=15.0, description="export interval of metrics, seconds")
    timeout_s: Seconds = Field(default=10.0, description="time limit of one export, seconds")
    events: Literal["default", "all", "none"] = Field(
        default="default",
        description="gen_ai.evaluation.result events to emit: default (outcomes, turns, tool scores and metrics scored by a "
        "judge), all (every metric too) or none",
    )
    instance_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=255,
        description="service.instance.id of the telemetry; unset: an id stored in the store, the same after every restart",
    )
    estimators: tuple[str, ...] = Field(
        default=(),
        description="estimators whose estimates are emitted, by plug-in name; empty: `stats.estimator`, else the pooled one of `stats.mode`",
    )
    explanations: bool = Field(default=False, description="put explanations on events: may contain conversation text")
    max_groups: Count = Field(
        default=100, description="groups with gauges; further ones are dropped, least recent first"
    )
    max_tool_names: Count = Field(default=50, description="tool names on counters; further ones are `other`")

    @field_validator("endpoint")
    @classmethod
    def _holds_no_password(cls, endpoint: str | None) -> str | None:
        if endpoint is not None and has_user(endpoint):
            message = (
                "the URL must not contain a user or password, because it is logged; put credentials into emit.headers"
            )
            raise ValueError(message)
        return endpoint
