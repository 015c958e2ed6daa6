"""Redaction of ground truth with the same key as spans, for storage and for comparison with redacted conversations.

Marks of equal values are equal, so nearly all comparisons still work. If a field is redacted completely, its shape is lost:
rules about the shape (a regular expression, a schema, a part, a tolerance) then accept any value.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from otel_agentic.spans.redact_marks import MARK, MARK_START
from otel_agentic.truth.model import Case

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_agentic.truth.labels import Label

#: Modes that compare the shape of a value.
_SHAPES: Final = frozenset({"regex", "json_schema", "contains"})
#: A regular expression without special characters, except escapes.
_LITERAL: Final = re.compile(r"(?:\\[^A-Za-z0-9]|[^\\.^$*+?()\[\]{}|])*")
_ESCAPE: Final = re.compile(r"\\([^A-Za-z0-9])")
_TEXTS: Final = (
    *("case_id", "dataset", "tags", "agent", "outputs", "goal", "expected_state", "plan", "promoted_from", "notes"),
    *("query", "answer", "not_answer", "reference_topics"),
    *("tool_name", "forbidden"),
)


class Redacts(Protocol):
    """A redactor of secrets."""

    def value(self, value: Any) -> Any:
        """Return a plain value with all secrets redacted, the same object if it has none."""
        ...

    def redacts_field(self, name: str) -> bool:
        """Return whether a field is redacted by its name, for any value."""
        ...


def redacted_case(case: Case, redacts: Redacts) -> Case:
    """Return a case with all secrets redacted, the same object if it has none. Idempotent."""
    record = case.model_dump(mode="json", exclude_defaults=True)
    changed = _redacted(record, redacts)
    return case if changed == record else Case.model_validate(changed)


def redacted_label(label: Label, redacts: Redacts) -> Label:
    """Return a label with the redacted ids of conversation and case; the same object if nothing is redacted."""
    conversation_id, case_id = redacts.value(label.conversation_id), redacts.value(label.case_id)
    if conversation_id is label.conversation_id and case_id is label.case_id:
        return label
    return replace(label, conversation_id=conversation_id, case_id=case_id)


def redacted_labels(labels: Mapping[str, Label], redacts: Redacts) -> dict[str, Label]:
    """Return labels by the redacted ids of conversations."""
    clean = (redacted_label(label, redacts) for label in labels.values())
    return {label.conversation_id: label for label in clean}


def _redacted(record: dict[str, Any], redacts: Redacts) -> dict[str, Any]:
    """Return the redacted record of a case, turn, expectation or call."""
    clean = {key: redacts.value(value) if key in _TEXTS else value for key, value in record.items()}
    if "effects" in record:
        clean["effects"] = {redacts.value(name): effect for name, effect in record["effects"].items()}
    if "tools" in record:
        clean["tools"] = _redacted(record["tools"], redacts)
    for part in ("turns", "calls", "alternatives"):
        if part in record:
            clean[part] = [_redacted(item, redacts) for item in record[part]]
    return {**clean, **_parameters(record, redacts)} if "parameters" in record or "match" in record else clean


def _parameters(call: Mapping[str, Any], redacts: Redacts) -> dict[str, Any]:
    """Return the redacted parameters and rules of a call, if present."""
    expected: dict[str, Any] = call.get("parameters", {})
    parameters: dict[str, Any] = redacts.value(expected)
    rules = {redacts.value(name): rule for name, rule in call.get("match", {}).items()}
    for (old_name, old), (name, new) in zip(expected.items(), parameters.items(), strict=True):
        mode = rules[name]["mode"] if isinstance(rules.get(name), dict) else rules.get(name)
        if mode in _SHAPES and redacts.redacts_field(old_name):
            rules[name] = "any"
        elif mode == "number" and isinstance(new, str):
            rules[name] = "exact"
        elif mode == "regex":
            pattern = _pattern(old, new, redacts)
            rules[name] = rules[name] if pattern is not None else "any"
            parameters = {**parameters, name: redacts.value(_unescaped(old)) if pattern is None else pattern}
    redacted = {"parameters": parameters, "match": rules}
    return {key: value for key, value in redacted.items() if key in call}


def _pattern(old: str, new: str, redacts: Redacts) -> str | None:
    """Return a regular expression that matches marks instead of secrets, or None if that is impossible.

    Args:
        old: the expression.
        new: the expression, redacted as a text.
        redacts: the redactor.
    """
    if new != old:
        return MARK.sub(lambda mark: re.escape(mark[0]), new)
    plain = _unescaped(old)
    clean = redacts.value(plain)
    if clean == plain or MARK_START in old.replace("\\", ""):
        return old
    return re.escape(clean) if _LITERAL.fullmatch(old) else None


def _unescaped(pattern: str) -> str:
    return _ESCAPE.sub(r"\1", pattern)
