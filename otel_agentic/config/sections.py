"""The sections of the settings: every setting and limit, with unit and default."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    SecretStr,
    field_serializer,
    field_validator,
    model_validator,
)

from otel_agentic.config.masking import has_user, masked
from otel_agentic.config.own_patterns import own_pattern, refusal_of
from otel_agentic.config.section import Count, Section

Ratio = Annotated[float, Field(ge=0.0, le=1.0)]
Seconds = Annotated[float, Field(gt=0.0)]
#: What a connection may take: more than a day, or no end at all, is no bound.
Deadline = Annotated[float, Field(gt=0.0, le=86_400.0)]
#: One conversation then stands for 1 / share of them: squares of that are summed, so there is a least share.
SampledShare = Annotated[float, Field(ge=1e-6, le=1.0)]


def _digit(value: Any) -> Any:
    """Return a digit as the number it is: an environment variable holds text, and a literal takes no text for a number."""
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
    checkpoint_threshold_mb: Count = Field(default=8, description="write-ahead log size that forces a checkpoint, MB")
    memory_limit_mb: Count = Field(
        default=256, description="memory that DuckDB may use before it spills to disk beside the file, MB"
    )
    recent_ids: Count = Field(default=1_000_000, description="span ids remembered in memory to catch resent spans")
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
        description="a copy of the file that a running collector keeps current for other programs; unset: beside the file, "
        "for its own queries only, made when one is asked",
    )
    snapshot_interval_s: Seconds = Field(
        default=60.0, description="least time between two copies of the file for queries, seconds"
    )
    snapshot_limit_mb: Count = Field(
        default=4096,
        description="largest file that is copied for queries against a running collector where the file system cannot share "
        "blocks, MB; twice that while one copy replaces the other",
    )
    temp_limit_mb: Count = Field(
        default=4096, description="disk space that DuckDB may use beside the file for what does not fit in memory, MB"
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
    """The ways in, their addresses and limits."""

    grpc: str = Field(default="127.0.0.1:4317", description="OTLP/gRPC address, host:port; port 0 takes a free one")
    http: str = Field(default="127.0.0.1:4318", description="OTLP/HTTP address, host:port; port 0 takes a free one")
    insecure: bool = Field(default=False, description="allow an address other than loopback without a token")
    token: SecretStr | None = Field(default=None, description="bearer token that senders must show")
    token_file: Path | None = Field(
        default=None, description="file of such tokens, one a line; read again when it changes"
    )
    tls_cert_file: Path | None = Field(
        default=None, description="PEM file of our certificate and what it was signed by; unset: no TLS"
    )
    tls_key_file: Path | None = Field(default=None, description="PEM file of the certificate's private key")
    tls_client_ca_file: Path | None = Field(
        default=None,
        description="PEM file of authorities; set: senders must show a certificate that one of them signed",
    )
    max_request_bytes: Count = Field(default=64 * 1024 * 1024, description="request size after decompression, bytes")
    max_items: Count = Field(
        default=2_000_000,
        description="messages and values in one request: spans, attributes, events, elements of lists; a request of more is "
        "refused before it takes memory, and a span counts as eight",
    )
    max_concurrent_requests: Count = Field(default=64, description="requests handled at once")
    max_connections: Count = Field(
        default=1024,
        description="connections open at once, on each of the two ports; on the HTTP port a new one closes the one that "
        "has been idle or sending for longest; fewer where the limit of open files (RLIMIT_NOFILE) allows fewer",
    )
    header_timeout_s: Deadline = Field(
        default=10.0, description="time to agree on TLS and to send the request head, seconds"
    )
    body_timeout_s: Deadline = Field(default=30.0, description="time to send the request body, seconds")
    min_body_rate: Count = Field(
        default=1024, description="least pace of a body over HTTP after its first five seconds, bytes a second"
    )
    idle_timeout_s: Deadline = Field(
        default=75.0, description="time that a connection may stay open between two requests, seconds"
    )
    max_attributes: Count = Field(default=4096, description="attributes kept a span, the rest is cut and counted")
    max_value_bytes: Count = Field(default=4 * 1024 * 1024, description="text kept an attribute value, bytes of UTF-8")
    max_name_bytes: Count = Field(default=4096, description="text kept of a span's name, bytes of UTF-8")
    max_events: Count = Field(default=4096, description="events kept a span")


class AdminSettings(Section):
    """The admin address: queries, commands on the live store, health, `/metrics`."""

    address: str = Field(default="127.0.0.1:8321", description="admin address, host:port; port 0 takes a free one")
    token: SecretStr | None = Field(default=None, description="bearer token that lets its holder do everything")
    token_file: Path | None = Field(
        default=None, description="file of such tokens, one a line; read again when it changes"
    )
    query_token: SecretStr | None = Field(
        default=None, description="bearer token that lets its holder read: queries, reports, /metrics"
    )
    query_token_file: Path | None = Field(
        default=None, description="file of such tokens, one a line; read again when it changes"
    )
    tls_cert_file: Path | None = Field(
        default=None, description="PEM file of our certificate and what it was signed by; unset: no TLS"
    )
    tls_key_file: Path | None = Field(default=None, description="PEM file of the certificate's private key")
    tls_client_ca_file: Path | None = Field(
        default=None,
        description="PEM file of authorities; set: callers must show a certificate that one of them signed",
    )
    ca_file: Path | None = Field(
        default=None,
        description="for commands that ask a running collector: PEM file of the authorities that vouch for it; unset: "
        "the usual ones",
    )
    client_cert_file: Path | None = Field(
        default=None, description="for such commands: PEM file of our own certificate, for mutual TLS"
    )
    client_key_file: Path | None = Field(default=None, description="for such commands: PEM file of its private key")
    allowed_hosts: tuple[str, ...] = Field(
        default=(),
        description="further host names, or globs such as `*.internal`, under which the admin address answers; without them: "
        "loopback names, and on another address than loopback also IP addresses and the name of the machine",
    )
    command_slots: Count = Field(
        default=8, description="commands running at once, of all kinds; beyond them callers are asked to try again"
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
        default=(), description="own attribute names that hold a conversation id, tried before the known ones"
    )
    case_id_attributes: tuple[str, ...] = Field(
        default=("agentic.case.id",), description="attribute names (span or resource) that hold a case id"
    )
    end_attributes: tuple[str, ...] = Field(
        default=("agentic.conversation.end",), description="attribute names that, when true, end a conversation"
    )
    state_attributes: tuple[str, ...] = Field(
        default=("agentic.final_state",),
        description="attribute names that hold the state in which a conversation left the world, a JSON object; the last "
        "in time counts",
    )
    error_patterns: tuple[str, ...] = Field(
        default=(
            r"^\s*[\w.]*(?:error|exception)\b",
            r"^\s*failed to (?:call|execute|invoke|run)\b",
            r"^\s*traceback \(most recent call last\)",
        ),
        description="regular expressions (case ignored, RE2 syntax): a tool result that is an error",
    )

    @model_validator(mode="after")
    def _patterns_work(self) -> ConversationSettings:
        for place, pattern in enumerate(self.error_patterns):
            try:
                own_pattern(pattern, ignore_case=True)
            except ValueError as error:
                raise ValueError(f"error_patterns[{place}]: {error}") from error
        return self


class DialectSettings(Section):
    """Which dialect reads which spans, and a dialect of your own made of attribute names."""

    scopes: dict[str, str] = Field(
        default={},
        description="dialect that reads the spans of an instrumentation scope, by name or glob, whatever they look "
        "like; the first that fits counts, `none` has them read by nobody",
    )
    custom: dict[str, Any] = Field(
        default={},
        description="a dialect of your own: attribute names by meaning, and the scopes or marks of its spans; an example "
        "is in docs/plugins.md",
    )


#: Weights of the tool dimensions unless the settings or a case give others.
DEFAULT_TOOL_WEIGHTS: Final[dict[Literal["selection", "parameters", "sequence", "utilization"], float]] = {
    "selection": 1.0,
    "parameters": 1.0,
    "sequence": 1.0,
    "utilization": 0.0,
}


class ScoringSettings(Section):
    """What makes a turn and a conversation correct."""

    judge: str = Field(
        default="exact",
        description="answer judge, by plug-in name; after a colon what the judge takes, as in langchain:openai:gpt-5-mini",
    )
    answer_threshold: Ratio = Field(default=0.7, description="answer score at which a turn passes, inclusive")
    tool_threshold: Ratio = Field(default=1.0, description="tool score at which tools are correct, inclusive")
    tool_weights: dict[Literal["selection", "parameters", "sequence", "utilization"], Annotated[float, Field(ge=0)]] = (
        Field(
            default=DEFAULT_TOOL_WEIGHTS,
            description="weights of the four tool dimensions, normalised over those that apply; a dimension of weight 0 is "
            "computed and shown and decides nothing (docs/tool-scoring.md says why utilization is one)",
        )
    )
    turn_rule: Literal["answer", "tools", "both"] = Field(default="answer", description="what decides a turn")
    strict_turns: bool = Field(
        default=False, description="a turn beyond the case's turns, or a missing one, fails the conversation"
    )
    count_errors: bool = Field(default=False, description="a call that answered with an error counts as made")
    compat: Literal["fair-forge", "ragas", "agent-surface", "agentest"] | None = Field(
        default=None, description="score with another system's arithmetic, faults included; unset: our own"
    )
    judged_utilization: bool = Field(
        default=False, description="ask the judge whether a tool's result was used where the data does not tell"
    )
    numbers_as_text: bool = Field(default=False, description='let "5" match 5 in parameters')
    trust_verdict_events: bool = Field(default=False, description="take verdicts from events in the agent's own spans")
    reward_threshold: float = Field(default=1.0 - 1e-6, description="a reward passes at or above this")
    effects: dict[str, Literal["read", "write"]] = Field(
        default={}, description="what a tool does, by name or glob; a case's own entries win"
    )

    @model_validator(mode="after")
    def _some_weight(self) -> ScoringSettings:
        if sum(self.tool_weights.values()) <= 0:
            message = "tool_weights: at least one weight must be above 0"
            raise ValueError(message)
        return self


class MatchingSettings(Section):
    """Which case a conversation is matched to where neither an id nor equal queries say so."""

    text: Literal["off", "suggest", "auto"] = Field(
        default="suggest",
        description="compare what users said with all cases: `suggest` lists the case for confirmation and counts nothing, "
        "`auto` matches the conversation to it",
    )
    text_threshold: Ratio = Field(
        default=0.85, description="probability at which the case of a text is suggested or matched, inclusive"
    )


class JudgeSettings(Section):
    """Judges that ask a model: what they may spend, how hard they try."""

    model_options: dict[str, Any] = Field(
        default={},
        repr=False,
        description="given to the chat model as they are, such as base_url, temperature or api_version",
    )
    prompt: Path | None = Field(
        default=None, description="a prompt file of your own, in place of the built-in one of its name"
    )
    method: Literal["auto", "structured", "tool", "text"] = Field(
        default="auto", description="how a verdict is asked for; auto takes the first way that the model can"
    )
    concurrency: Count = Field(default=16, description="model calls in flight")
    requests_per_second: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="model calls started a second, at most; unset: no limit"
    )
    timeout_s: Seconds = Field(default=60.0, description="time limit of one model call, seconds")
    tries: Count = Field(default=4, description="model calls for one verdict, at most, before it is a judge_error")
    backoff_s: Annotated[float, Field(ge=0)] = Field(
        default=1.0, description="wait before the second try, seconds; it doubles each time, with jitter"
    )
    backoff_max_s: Annotated[float, Field(ge=0)] = Field(
        default=30.0, description="longest wait between tries, seconds"
    )
    breaker_failures: Count = Field(
        default=5,
        description="questions in a row that the judge did not answer, after which it is not asked for a while; likewise "
        "questions in a row with one prompt whose replies held no verdict, after which that prompt is not asked",
    )
    breaker_wait_s: Seconds = Field(
        default=30.0,
        description="how long it is not asked, seconds; each time that it then fails again twice as long, up to 20 times",
    )
    outage_wait_s: Annotated[float, Field(ge=0)] = Field(
        default=300.0,
        description="how long `evaluate` waits in all for a judge that does not answer, seconds; then what is open is "
        "`judge_error`, and the next run asks it",
    )
    votes: Annotated[Literal[1, 3, 5], BeforeValidator(_digit)] = Field(
        default=1, description="verdicts asked for where the first is close to the threshold; their majority decides"
    )
    vote_band: Ratio = Field(default=0.15, description="a score this close to the threshold, on either side, is close")
    max_answer_characters: Count = Field(
        default=20_000, description="characters of each judged text that the model is shown"
    )
    canary_ratio: Ratio = Field(
        default=0.0,
        description="share of passing answers also held against a wrong expected answer, to watch the judge",
    )
    cache: bool = Field(default=True, description="take a verdict on the same content from an earlier evaluation")
    budget_window: str = Field(
        default="24h", description="window of the three limits that follow: 90s, 15m, 1h, 24h, 7d"
    )
    max_calls: Count | None = Field(default=None, description="model calls a budget window; unset: no limit")
    max_tokens: Count | None = Field(default=None, description="tokens a budget window; unset: no limit")
    max_cost_usd: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="cost a budget window, US dollars; needs the two prices"
    )
    input_price_usd: Annotated[float, Field(ge=0)] | None = Field(
        default=None, description="price of a million input tokens, US dollars"
    )
    output_price_usd: Annotated[float, Field(ge=0)] | None = Field(
        default=None, description="price of a million output tokens, US dollars"
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
        description="headline estimator by plug-in name, of gauges, gates and tiers; unset: the pooled one of `mode`",
    )
    level: Annotated[float, Field(gt=0, lt=1)] = Field(default=0.95, description="level of intervals")
    prior: tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]] = Field(
        default=(1.0, 1.0), description="Beta prior (a, b): (1, 1) uniform, (0.5, 0.5) Jeffreys"
    )
    tier_rule: Literal["interval", "paper", "docs"] = Field(default="interval", description="how tiers are given")


class SamplingSettings(Section):
    """Which closed conversations are evaluated, where evaluating all of them costs too much.

    A conversation is in or out by the hash of its id, whole; the ratio is stored with its score, and rates weigh by it.
    """

    ratio: SampledShare = Field(default=1.0, description="share of conversations evaluated")
    agents: dict[str, SampledShare] = Field(
        default={}, description="share by agent, name or glob; the first that fits counts"
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
        default=(), description="case tags, names or globs, that get windows of their own beside the whole"
    )
    lateness_s: Seconds = Field(
        default=3600.0, description="a conversation is final this long after its end, seconds; monitors wait for it"
    )


class RedactionSettings(Section):
    """What is taken out of everything that arrives before it is written: credentials by default, personal data if asked."""

    credentials: bool = Field(
        default=True, description="take out API keys, tokens, private keys and the values of fields that hold such"
    )
    personal: tuple[Literal["card", "email", "phone", "iban", "ssn", "ip"], ...] = Field(
        default=(), description="kinds of personal data to take out: card, email, phone, iban, ssn, ip"
    )
    custom: dict[Annotated[str, Field(pattern=r"^[a-z0-9_-]{1,40}$")], str] = Field(
        default={}, description="what else to take out: name = regular expression, RE2 syntax (read in linear time)"
    )
    keep_fields: tuple[str, ...] = Field(
        default=(),
        description="fields, names or globs, that hold no credentials whatever they are called; keys and tokens of known "
        "shapes are taken out of them all the same",
    )

    @model_validator(mode="after")
    def _patterns_work(self) -> RedactionSettings:
        for name, pattern in self.custom.items():
            problem = refusal_of(pattern)
            if problem is not None:
                raise ValueError(f"custom.{name}: {problem}")
        return self


class RetentionSettings(Section):
    """How long the store keeps what it holds, and what it writes out before it forgets."""

    keep: str | None = Field(
        default=None,
        description="conversations that ended longer ago than this, and spans that are older, are removed: a time such as "
        "12h, 30d; unset: all is kept",
    )
    export: bool = Field(
        default=False,
        description="write closed hours as Parquet files, readable while this runs; nothing is removed before it was written",
    )
    export_folder: Path | None = Field(
        default=None,
        description="folder of the Parquet files, which users' SQL may read; unset: the database's name with `.export`, beside it",
    )
    every_s: Seconds = Field(default=300.0, description="time between looks at what is due, seconds")


class LogSettings(Section):
    """What a collector writes to standard error. Never content of spans."""

    format: Literal["text", "json"] = Field(default="text", description="text for people, json one object a line")
    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="least severe level that is written"
    )


class EmitSettings(Section):
    """Telemetry back into the backend."""

    endpoint: str | None = Field(default=None, description="OTLP endpoint, http(s)://host:port; unset: nothing is sent")
    protocol: Literal["http/protobuf", "grpc"] = Field(default="http/protobuf", description="OTLP transport")
    headers: dict[str, SecretStr] = Field(default={}, description="headers sent with each export")
    ca_file: Path | None = Field(
        default=None, description="PEM file of the authorities that vouch for the backend; unset: the usual ones"
    )
    client_cert_file: Path | None = Field(default=None, description="PEM file of our own certificate, for mutual TLS")
    client_key_file: Path | None = Field(default=None, description="PEM file of our own private key, for mutual TLS")
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
        description="service.instance.id of what is emitted; unset: an id that the store keeps, the same after every restart",
    )
    estimators: tuple[str, ...] = Field(
        default=(),
        description="estimators whose estimates are emitted, by plug-in name; empty: `stats.estimator`, else the pooled one of `stats.mode`",
    )
    explanations: bool = Field(default=False, description="put explanations on events: may hold conversation text")
    max_groups: Count = Field(default=100, description="groups with gauges; the rest is dropped, least recent first")
    max_tool_names: Count = Field(default=50, description="tool names on counters, the rest is `other`")

    @field_validator("endpoint")
    @classmethod
    def _holds_no_password(cls, endpoint: str | None) -> str | None:
        if endpoint is not None and has_user(endpoint):
            message = (
                "a URL without a user or password is wanted, for it is shown in logs; put credentials into emit.headers"
            )
            raise ValueError(message)
        return endpoint
