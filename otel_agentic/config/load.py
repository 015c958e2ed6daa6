"""Loads the settings, and reports invalid ones.

Sources, strongest first: command-line flags, environment (`OTEL_AGENTIC_RECEIVE__HTTP=…`, two underscores between
section and name), a TOML file: `--config FILE`, else `OTEL_AGENTIC_CONFIG`, else the first `otel-agentic.toml` in the working
directory, `$XDG_CONFIG_HOME/otel-agentic` (`~/.config`) and `/etc/otel-agentic`.
`otel-agentic config show` prints the active settings and their sources.

The sources are read here and not by pydantic-settings, whose import takes 60 ms of CPU time, an eighth of a short command.
"""

from __future__ import annotations

import json
import os
import tomllib
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from textwrap import wrap
from typing import Any, Final, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError

from otel_agentic.config.notify import NotifySettings
from otel_agentic.config.quality import EvaluatorSettings, GateSettings, SloSettings
from otel_agentic.config.sections import (
    AdminSettings,
    ConversationSettings,
    DialectSettings,
    EmitSettings,
    JudgeSettings,
    LogSettings,
    MatchingSettings,
    ProcessingSettings,
    ReceiveSettings,
    RedactionSettings,
    RetentionSettings,
    SamplingSettings,
    ScoringSettings,
    Section,
    StatsSettings,
    StoreSettings,
    TruthSettings,
    WindowSettings,
    masked,
)
from otel_agentic.errors import ConfigError
from otel_agentic.regular_files import open_regular

CONFIG_FILE_VARIABLE: Final = "OTEL_AGENTIC_CONFIG"
DEFAULT_CONFIG_FILE: Final = "otel-agentic.toml"
#: Variables with this prefix are settings.
_PREFIX: Final = "OTEL_AGENTIC_"
#: Separates the names in a variable.
_SEPARATOR: Final = "__"
#: The name of our folders: in the user's folders of settings and caches, and in /etc.
_FOLDER: Final = "otel-agentic"
#: The width of comments in a written file.
_WIDTH: Final = 100

#: Renamed settings, and their replacements.
_RENAMED: Final = {
    "scoring.fuzzy": 'set matching.text to "auto" (true) or "off" (false)',
    "scoring.fuzzy_threshold": "set matching.text_threshold, a probability",
    "scoring.fuzzy_margin": "delete it: matching.text_threshold covers the margin",
}
#: Settings whose values are never printed, not even invalid ones.
_SECRETS: Final = frozenset(
    {
        "feedback_token",
        "headers",
        "model_options",
        "password",
        "query_token",
        "review_token",
        "secret",
        "token",
        "url",
    }
)


class Settings(Section):
    """All settings of one process."""

    store: StoreSettings = StoreSettings()
    receive: ReceiveSettings = ReceiveSettings()
    admin: AdminSettings = AdminSettings()
    conversations: ConversationSettings = ConversationSettings()
    dialects: DialectSettings = DialectSettings()
    scoring: ScoringSettings = ScoringSettings()
    truth: TruthSettings = TruthSettings()
    matching: MatchingSettings = MatchingSettings()
    sampling: SamplingSettings = SamplingSettings()
    processing: ProcessingSettings = ProcessingSettings()
    judge: JudgeSettings = JudgeSettings()
    evaluators: EvaluatorSettings = EvaluatorSettings()
    stats: StatsSettings = StatsSettings()
    windows: WindowSettings = WindowSettings()
    slo: SloSettings = SloSettings()
    notify: NotifySettings = NotifySettings()
    gate: GateSettings = GateSettings()
    emit: EmitSettings = EmitSettings()
    redaction: RedactionSettings = RedactionSettings()
    retention: RetentionSettings = RetentionSettings()
    log: LogSettings = LogSettings()


def load_settings(config_file: Path | None = None, **flags: dict[str, Any]) -> Settings:
    """Return the active settings.

    Args:
        config_file: a TOML file; None uses `OTEL_AGENTIC_CONFIG`, then `./otel-agentic.toml`.
        flags: sections with the values given on the command line, such as `store={"db": path}`.

    Raises:
        ConfigError: a file is missing or not TOML, or a value is invalid; the message names the setting.
    """
    path = config_file or _default_file()
    file_values = {} if path is None else _read_toml(path)
    environment = _environment_values()
    settings = _validated(_merged(file_values, environment, flags), path)
    if path is None:
        return settings
    # Paths of ground truth in a settings file are relative to it.
    from_file = set(file_values.get("truth", {})) - set(environment.get("truth", {}))
    paths = {name: tuple(path.parent / file for file in getattr(settings.truth, name)) for name in from_file}
    return settings.model_copy(update={"truth": settings.truth.model_copy(update=paths)})


def environment_settings() -> Settings:
    """Return the settings of the environment and the defaults, without those of a file.

    Raises:
        ConfigError: a value is invalid; the message names the setting.
    """
    return _validated(_environment_values(), None)


def _validated(values: dict[str, Any], path: Path | None) -> Settings:
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        raise ConfigError(_message(error, path)) from None  # the cause would show secrets in a traceback


def _merged(*sources: dict[str, Any]) -> dict[str, Any]:
    """Return the values of all sources; tables are merged, and otherwise the last source wins.

    >>> _merged({"stats": {"k": [1], "level": 0.9}}, {"stats": {"k": [3]}})
    {'stats': {'k': [3], 'level': 0.9}}
    """
    merged: dict[str, Any] = {}
    for source in sources:
        for name, value in source.items():
            old = merged.get(name)
            merged[name] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def _environment_values() -> dict[str, Any]:
    """Return the settings in environment variables.

    Lists and tables are JSON. Names are case-insensitive, and a further `__` leads into a table.

    Raises:
        ConfigError: the value of a list or table is not JSON.
    """
    values: dict[str, Any] = {}
    for variable, text in sorted(os.environ.items()):  # OTEL_AGENTIC_A before OTEL_AGENTIC_A__B, which refines it
        section, *names = variable.lower().removeprefix(_PREFIX.lower()).split(_SEPARATOR)
        if not variable.upper().startswith(_PREFIX) or section not in Settings.model_fields:
            continue  # such as OTEL_AGENTIC_CONFIG
        value = _parsed(variable, text, (section, *names))
        for name in reversed((section, *names)):
            value = {name: value}
        values = _merged(values, value)
    return values


def _parsed(variable: str, text: str, location: tuple[str, ...]) -> Any:
    """Return the value of a variable: JSON for a list or a table, and for a value inside a table if it is JSON."""
    is_inside = len(location) > 2  # noqa: PLR2004 — section and name
    if not is_inside and not _is_structured(_annotation(location)):
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        if is_inside:
            return text
        raise ConfigError(
            f"environment {variable}: not JSON ({error}); write lists and tables as JSON, such as [1,3,5]"
        ) from None


def _annotation(location: tuple[str, ...]) -> Any:
    """Return the type of a section or setting; `str` for an unknown setting, which validation rejects."""
    model: Any = Settings
    for name in location:
        field = model.model_fields.get(name)
        model = str if field is None else field.annotation
    return model


def _is_structured(annotation: Any) -> bool:
    """Return whether a type contains lists or tables.

    >>> [_is_structured(kind) for kind in (int | None, tuple[int, ...], dict[str, str] | None, StatsSettings)]
    [False, True, True, True]
    """
    kind = get_origin(annotation) or annotation
    if isinstance(kind, type) and issubclass(kind, BaseModel | dict | list | tuple):
        return True
    return any(map(_is_structured, get_args(annotation)))


def export_folder_of(settings: Settings) -> Path:
    """Return the folder of Parquet files: the only folder that the store's DuckDB may access besides its own file."""
    folder, db = settings.retention.export_folder, settings.store.db
    return (folder or db.with_name(f"{db.name}.export")).absolute()


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingDescription:
    """A setting for display: its name (`section.name`), value, source and description. Secrets are masked."""

    name: str
    value: str
    source: Literal["environment", "file", "default or flag"]
    description: str


def describe_settings(settings: Settings, config_file: Path | None = None) -> list[SettingDescription]:
    """Return every setting with the source of its value, in the order of the sections."""
    path = config_file or _default_file()
    file_values = {} if path is None else _read_toml(path)
    environment = _environment_values()
    rows = []
    for section_name in Settings.model_fields:
        section = getattr(settings, section_name)
        for name, info in type(section).model_fields.items():
            value = getattr(section, name)
            rows.append(
                SettingDescription(
                    name=f"{section_name}.{name}",
                    value=_display_active(masked(value) if name == "model_options" else value),
                    source=_source(section_name, name, environment, file_values),
                    description=info.description or "",
                )
            )
    return rows


def _display_active(value: Any) -> str:
    """Return a value for a table: lists and tables as in a settings file.

    >>> _display_active((Path("cases.jsonl"),)), _display_active({}), _display_active(None)
    ('["cases.jsonl"]', '{}', 'None')
    """
    return _toml(value) if isinstance(value, BaseModel | dict | list | tuple | set | frozenset) else str(value)


def cache_folder() -> Path:
    """Return the user's folder of files that can be created again.

    Raises:
        RuntimeError: the user has no home folder.
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / _FOLDER


def settings_file(config_file: Path | None = None) -> Path | None:
    """Return the settings file that is read: the given one, else the one that is found; see `load_settings`."""
    return config_file or _default_file()


def commented_settings() -> str:
    """Return the text of a settings file with every setting and its default, commented out."""
    lines = ["# Settings of otel-agentic. Remove the # before a line to change it; times are in seconds unless stated."]
    for section_name in Settings.model_fields:
        section = Settings.model_fields[section_name].get_default()
        lines += ["", f"[{section_name}]"]
        for name, info in type(section).model_fields.items():
            lines += [f"# {line}" for line in wrap(info.description or "", _WIDTH)]
            lines.append(f"# {name} = {_toml(getattr(section, name))}")
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    """Return a default as TOML; a setting that is not set has an empty text, which is only a hint."""
    if value is None:
        return '""'
    if isinstance(value, BaseModel | dict):
        plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
        items = ", ".join(f"{json.dumps(str(key))} = {_toml(item)}" for key, item in plain.items())
        return f"{{ {items} }}" if items else "{}"
    if isinstance(value, list | tuple | set | frozenset):
        return f"[{', '.join(_toml(item) for item in value)}]"
    return json.dumps(value if isinstance(value, bool | int | float) else str(value), ensure_ascii=False)


def _source(
    section: str, name: str, environment: dict[str, Any], file_values: dict[str, Any]
) -> Literal["environment", "file", "default or flag"]:
    if name in environment.get(section, {}):
        return "environment"
    return "file" if name in file_values.get(section, {}) else "default or flag"


def _default_file() -> Path | None:
    configured_path = os.environ.get(CONFIG_FILE_VARIABLE)
    if configured_path:
        return Path(configured_path)
    home = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser()
    folders = (Path(), home / _FOLDER, Path("/etc") / _FOLDER)
    return next((file for folder in folders if (file := folder / DEFAULT_CONFIG_FILE).is_file()), None)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        with open_regular(path) as file:
            return tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"settings file {path}: {error.strerror}; give an existing TOML file") from error
    except (ValueError, RecursionError) as error:  # also bytes that are not UTF-8, and numbers of thousands of digits
        hint = "; JSON of NeMo Evaluator is for `evaluate --rows` without --db" if path.suffix == ".json" else ""
        raise ConfigError(f"settings file {path} is not TOML: {error}{hint}") from error


def _message(error: ValidationError, path: Path | None) -> str:
    # A misspelt name explains why the right one is missing.
    first = min(error.errors(), key=lambda problem: problem["type"] != "extra_forbidden")
    location = ".".join(str(part) for part in first["loc"])
    source = f" (from flags, OTEL_AGENTIC_* or {path})" if path else " (from flags or OTEL_AGENTIC_*)"
    if location in _RENAMED:
        return f"setting {location} was replaced{source}; {_RENAMED[location]}"
    if first["type"] == "extra_forbidden":
        allowed = _allowed_names(first["loc"][:-1])
        similar = get_close_matches(str(first["loc"][-1]), allowed, n=1)
        hint = f"did you mean {similar[0]}? " if similar else ""
        return f"unknown setting {location}{source}; {hint}allowed: {', '.join(allowed)}"
    value = "a secret" if _SECRETS & set(first["loc"]) else _display(first.get("input"), str(first["loc"][-1:]))
    return f"setting {location}: {first['msg']}, got {value}{source}"


def _display(value: Any, name: str) -> str:
    """Return an invalid value for a message, without secrets; for a table, only its names."""
    if isinstance(value, dict):
        return f"a table of {', '.join(map(str, value)) or 'nothing'}"
    return repr(masked(value, name))


def _allowed_names(location: tuple[int | str, ...]) -> list[str]:
    """Return the allowed names in the section, or the part of one, that contains an unknown name."""
    model: type[BaseModel] = Settings
    for part in location:
        field = model.model_fields.get(str(part))
        if field is not None:
            annotations = (field.annotation, *get_args(field.annotation))
            inner = [kind for kind in annotations if isinstance(kind, type) and issubclass(kind, BaseModel)]
            model = inner[0] if inner else model
    return list(model.model_fields)
