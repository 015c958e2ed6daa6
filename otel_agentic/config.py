"""Every setting and limit, with unit and default.

Sources, strongest first: command-line flags, environment (`OTEL_AGENTIC_RECEIVE__HTTP=…`, two underscores between
section and name), a TOML file (`--config FILE`, else `OTEL_AGENTIC_CONFIG`, else `./otel-agentic.toml` if it is there).
`otel-agentic config show` prints what is in force and where it came from.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from otel_agentic.errors import ConfigError

CONFIG_FILE_VARIABLE: Final = "OTEL_AGENTIC_CONFIG"
DEFAULT_CONFIG_FILE: Final = "otel-agentic.toml"

#: Settings whose values are never shown, not even refused ones.
_SECRETS: Final = frozenset({"headers", "token"})

Ratio = Annotated[float, Field(ge=0.0, le=1.0)]
Seconds = Annotated[float, Field(gt=0.0)]
Count = Annotated[int, Field(ge=1)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StoreSettings(_Section):
    """The DuckDB file."""

    db: Path = Field(default=Path("otel-agentic.duckdb"), description="the DuckDB file")
    queue_batches: Count = Field(default=256, description="batches waiting for the writer before senders are refused")
    queue_spans: Count = Field(default=100_000, description="spans waiting for the writer before senders are refused")
    checkpoint_threshold_mb: Count = Field(default=256, description="write-ahead log size that forces a checkpoint, MB")
    memory_limit_mb: Count = Field(
        default=512, description="memory that DuckDB may use before it spills to disk beside the file, MB"
    )
    recent_ids: Count = Field(default=1_000_000, description="span ids remembered in memory to catch resent spans")
    query_timeout_s: Seconds = Field(default=30.0, description="time limit of one user query, seconds")
    query_max_rows: Count = Field(default=100_000, description="rows a user query may return")


class ReceiveSettings(_Section):
    """The ways in, their addresses and limits."""

    grpc: str = Field(default="127.0.0.1:4317", description="OTLP/gRPC address, host:port; port 0 takes a free one")
    http: str = Field(default="127.0.0.1:4318", description="OTLP/HTTP address, host:port; port 0 takes a free one")
    insecure: bool = Field(default=False, description="allow an address other than loopback without a token")
    token: SecretStr | None = Field(default=None, description="bearer token that senders must show")
    max_request_bytes: Count = Field(default=64 * 1024 * 1024, description="request size after decompression, bytes")
    max_concurrent_requests: Count = Field(default=64, description="requests handled at once")
    header_timeout_s: Seconds = Field(default=10.0, description="time to send the request head, seconds")
    body_timeout_s: Seconds = Field(default=30.0, description="time to send the request body, seconds")
    max_attributes: Count = Field(default=4096, description="attributes kept a span, the rest is cut and counted")
    max_value_bytes: Count = Field(default=4 * 1024 * 1024, description="text kept an attribute value, bytes of UTF-8")
    max_name_bytes: Count = Field(default=4096, description="text kept of a span's name, bytes of UTF-8")
    max_events: Count = Field(default=4096, description="events kept a span")


class AdminSettings(_Section):
    """The admin address: queries, commands on the live store, health, `/metrics`."""

    address: str = Field(default="127.0.0.1:8321", description="admin address, host:port; port 0 takes a free one")
    token: SecretStr | None = Field(default=None, description="bearer token that admin requests must show")
    query_slots: Count = Field(default=2, description="user queries running at once")


class ConversationSettings(_Section):
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
    error_patterns: tuple[str, ...] = Field(
        default=(r"^\s*\w*(?:error|exception)\b", r"^\s*failed to (?:call|execute|invoke|run)\b"),
        description="regular expressions (case ignored): a tool result that is an error",
    )


class DialectSettings(_Section):
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


class ScoringSettings(_Section):
    """What makes a turn and a conversation correct."""

    judge: str = Field(default="exact", description="answer judge, by plug-in name")
    answer_threshold: Ratio = Field(default=0.7, description="answer score at which a turn passes, inclusive")
    tool_threshold: Ratio = Field(default=1.0, description="tool score at which tools are correct, inclusive")
    tool_weights: dict[Literal["selection", "parameters", "sequence", "utilization"], Annotated[float, Field(ge=0)]] = (
        Field(
            default={"selection": 0.25, "parameters": 0.25, "sequence": 0.25, "utilization": 0.25},
            description="weights of the four tool dimensions; normalised over those that apply",
        )
    )
    turn_rule: Literal["answer", "tools", "both"] = Field(default="answer", description="what decides a turn")
    strict_turns: bool = Field(default=False, description="a turn beyond the case's turns fails the conversation")
    count_errors: bool = Field(default=False, description="a call that answered with an error counts as made")
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


class StatsSettings(_Section):
    """How rates are estimated."""

    k: tuple[Count, ...] = Field(default=(1, 3, 5), description="the k of pass@k and pass^k")
    mode: Literal["bayesian", "frequentist"] = Field(default="bayesian", description="statistical mode")
    estimator: str | None = Field(default=None, description="estimator by plug-in name; unset: chosen from the data")
    level: Annotated[float, Field(gt=0, lt=1)] = Field(default=0.95, description="level of intervals")
    prior: tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]] = Field(
        default=(1.0, 1.0), description="Beta prior (a, b): (1, 1) uniform, (0.5, 0.5) Jeffreys"
    )
    tier_rule: Literal["interval", "paper", "docs"] = Field(default="interval", description="how tiers are given")


class WindowSettings(_Section):
    """Rolling windows by event time."""

    widths: tuple[str, ...] = Field(default=("1h", "24h", "7d"), description="window widths: 90s, 15m, 1h, 24h, 7d")
    step_s: Seconds = Field(
        default=60.0, description="window ends are whole multiples of this since the epoch, seconds"
    )


class EmitSettings(_Section):
    """Telemetry back into the backend."""

    endpoint: str | None = Field(default=None, description="OTLP endpoint, http(s)://host:port; unset: nothing is sent")
    protocol: Literal["http/protobuf", "grpc"] = Field(default="http/protobuf", description="OTLP transport")
    headers: dict[str, SecretStr] = Field(default={}, description="headers sent with each export")
    interval_s: Seconds = Field(default=15.0, description="export interval of metrics, seconds")
    timeout_s: Seconds = Field(default=10.0, description="time limit of one export, seconds")
    events: bool = Field(default=True, description="emit gen_ai.evaluation.result events")
    explanations: bool = Field(default=False, description="put explanations on events: may hold conversation text")
    max_groups: Count = Field(default=100, description="groups with gauges; the rest is dropped, least recent first")
    max_tool_names: Count = Field(default=50, description="tool names on counters, the rest is `other`")


class Settings(BaseSettings):
    """All settings of one process."""

    model_config = SettingsConfigDict(
        env_prefix="OTEL_AGENTIC_",
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
    )

    store: StoreSettings = StoreSettings()
    receive: ReceiveSettings = ReceiveSettings()
    admin: AdminSettings = AdminSettings()
    conversations: ConversationSettings = ConversationSettings()
    dialects: DialectSettings = DialectSettings()
    scoring: ScoringSettings = ScoringSettings()
    stats: StatsSettings = StatsSettings()
    windows: WindowSettings = WindowSettings()
    emit: EmitSettings = EmitSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 — pydantic-settings' signature; we read no .env file
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 — same signature
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources, strongest first: flags, environment, TOML file."""
        return (init_settings, env_settings, TomlConfigSettingsSource(settings_cls))


def load_settings(config_file: Path | None = None, **flags: dict[str, Any]) -> Settings:
    """Return the settings in force.

    Args:
        config_file: a TOML file; None looks at `OTEL_AGENTIC_CONFIG`, then `./otel-agentic.toml`.
        flags: sections with the values given on the command line, e.g. `store={"db": path}`.

    Raises:
        ConfigError: a file is missing or not TOML, or a value is not allowed; names the setting.
    """
    path = config_file or _default_file()
    if path is not None:
        _require_toml(path)

    class _Loaded(Settings):
        model_config = SettingsConfigDict(**{**Settings.model_config, "toml_file": path})

    try:
        loaded = _Loaded(**{name: section for name, section in flags.items() if section})  # type: ignore[arg-type]
    except ValidationError as error:
        raise ConfigError(_describe(error, path)) from None  # the cause would show secrets in a traceback
    except SettingsError as error:
        raise ConfigError(
            f"environment OTEL_AGENTIC_*: {error}: {error.__cause__}; lists and tables are written as JSON, e.g. [1,3,5]"
        ) from None
    # Back to the plain class, so that equality and pickling do not depend on where the file was.
    return Settings.model_construct(**{name: getattr(loaded, name) for name in Settings.model_fields})


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """One setting for people: its name (`section.name`), value, origin and meaning. Secrets are masked."""

    name: str
    value: str
    source: Literal["environment", "file", "default or flag"]
    description: str


def described(settings: Settings, config_file: Path | None = None) -> list[Described]:
    """Return every setting with where its value comes from, in the order of this file."""
    path = config_file or _default_file()
    given = tomllib.loads(path.read_text("utf-8")) if path is not None else {}
    rows = []
    for section_name in Settings.model_fields:
        section = getattr(settings, section_name)
        for name, info in type(section).model_fields.items():
            rows.append(
                Described(
                    name=f"{section_name}.{name}",
                    value=str(getattr(section, name)),
                    source=_source(section_name, name, given),
                    description=info.description or "",
                )
            )
    return rows


def _source(section: str, name: str, given: dict[str, Any]) -> Literal["environment", "file", "default or flag"]:
    variables = {variable.upper() for variable in os.environ}
    own = f"OTEL_AGENTIC_{section}__{name}".upper()
    if any(variable == own or variable.startswith(own + "__") for variable in variables):
        return "environment"
    return "file" if name in given.get(section, {}) else "default or flag"


def _default_file() -> Path | None:
    named = os.environ.get(CONFIG_FILE_VARIABLE)
    if named:
        return Path(named)
    here = Path(DEFAULT_CONFIG_FILE)
    return here if here.is_file() else None


def _require_toml(path: Path) -> None:
    try:
        with path.open("rb") as file:
            tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"settings file {path}: {error.strerror}; give an existing TOML file") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"settings file {path} is not TOML: {error}") from error


def _describe(error: ValidationError, path: Path | None) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    source = f" (from flags, OTEL_AGENTIC_* or {path})" if path else " (from flags or OTEL_AGENTIC_*)"
    if first["type"] == "extra_forbidden":
        return f"setting {where}: there is none of that name{source}; {_known(first['loc'][:-1])}"
    got = "a secret" if _SECRETS & set(first["loc"]) else repr(first.get("input"))
    return f"setting {where}: {first['msg']}, got {got}{source}"


def _known(section: tuple[int | str, ...]) -> str:
    """Return the names that are allowed where an unknown one was given."""
    found = Settings.model_fields.get(str(section[0])) if section else None
    inner = found.annotation if found is not None else Settings
    names = inner.model_fields if isinstance(inner, type) and issubclass(inner, BaseModel) else {}
    return f"allowed: {', '.join(names)}"
