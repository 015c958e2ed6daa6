"""The redaction rules, from `rules.toml`."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.spans import redact_checks as checks
from otel_agentic.spans.redact_names import fragments, rule_data
from otel_agentic.spans.redact_rule import CREDENTIAL, CUSTOM, EDGE, HINTED_EDGE, NAME_END, NAME_START, Rule, token_rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from otel_agentic.config import RedactionSettings

_VENDOR: Final = "vendor_key"
#: Placeholders for field names in a hint.
_NAMES: Final = re.compile(r"\(\?i:(\{(?:strong|weak|words|pins|cards)\})\)")
_PERSONAL: Final = "personal data"
#: A letter beyond ASCII; in JSON text it may be an escape.
_FOREIGN: Final = re.compile(r"[^\x00-\x7f]")


def rules_of(settings: RedactionSettings) -> tuple[Rule, ...]:
    """Return the active rules, in no particular order."""
    return tuple(_rules(settings))


@cache
def credential_rules() -> tuple[Rule, ...]:
    """Return the rules that find credentials."""
    data = rule_data()
    return (
        *(_token(row) for row in data["token"]),
        *(_pattern(row) for row in data["pattern"]),
        *(_pattern(row, named=True) for row in data["field"]),
        *(_pattern(row, columns=True) for row in data["columns"]),
    )


@cache
def personal_rules() -> tuple[Rule, ...]:
    """Return the rules that find personal data."""
    return tuple(
        Rule(
            kind=row["kind"],
            pattern=row["pattern"],
            hints=(_filled(row["hint"], hint=True),),
            close=row.get("close", ""),
            check=_function(row.get("check", "unchecked")),
            same=_function(row.get("same", "unchecked")),
            group=_PERSONAL,
            examples=tuple(row["examples"]),
        )
        for row in rule_data()["personal"]
    )


@cache
def naming_hint() -> str:
    """Return the hint for a map that names a field in a value: `{"name": "password", "value": …}`."""
    return _filled(rule_data()["naming"]["hint"], hint=True)


def _rules(settings: RedactionSettings) -> Iterator[Rule]:
    if settings.credentials:
        yield from credential_rules()
    yield from (rule for rule in personal_rules() if rule.kind in settings.personal)
    for name, pattern in settings.custom.items():
        yield Rule(kind=name, pattern=pattern, group=CUSTOM)


def _token(row: dict[str, Any]) -> Rule:
    return token_rule(
        row.get("kind", _VENDOR),
        row["formats"],
        check=_function(row.get("check", "generated")),
        generic=row.get("generic", False),
        hint=_filled(row.get("hint", ""), hint=True),
        **{name: row[name] for name in ("near", "noun", "context", "edge", "suffix") if name in row},
    )


def _pattern(row: dict[str, Any], *, named: bool = False, columns: bool = False) -> Rule:
    return Rule(
        kind=row.get("kind", CREDENTIAL),
        pattern=_filled(row["pattern"]),
        hints=(_filled(row["hint"], hint=True),),
        check=_function(row.get("check", "unchecked")),
        generic=row.get("generic", named or columns),
        named=named,
        columns=columns,
        examples=tuple(row["examples"]),
    )


def _function(name: str) -> Callable[[str], str]:
    function: Callable[[str], str] = getattr(checks, name)
    return function


def _filled(pattern: str, *, hint: bool = False) -> str:
    """Return a pattern of the data file with its fragments inserted; in a hint, letters beyond ASCII may be escapes."""
    pattern = pattern.replace("{edge}", EDGE).replace("{hinted_edge}", HINTED_EDGE)
    if hint:  # hints that begin with equal names are joined
        pattern = _NAMES.sub(rf"{NAME_START}\1{NAME_END}", pattern)
    for name, text in fragments().items():
        pattern = pattern.replace(f"{{{name}}}", text)
    return _FOREIGN.sub(lambda match: _escapable(match[0]), pattern) if hint else pattern


def _escapable(letter: str) -> str:
    written = dict.fromkeys((letter, letter.upper(), letter.lower()))
    return f"(?:{'|'.join(written)}|\\\\+u(?i:{'|'.join(f'{ord(character):04x}' for character in written)}))"
