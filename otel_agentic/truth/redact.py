"""Ground truth as it may be written, and as it compares with what agents said: redacted like spans, under the same key.

A mark equals a mark of the same value, so nearly all comparisons go on as before. Where a field is taken whole, its shape
is gone: what looked at the shape (a regular expression, a schema, a part, a tolerance) looks at nothing any more.
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

#: Modes that look at the shape of a value.
_SHAPES: Final = frozenset({"regex", "json_schema", "contains"})
#: A regular expression that means what it says, but for escapes.
_LITERAL: Final = re.compile(r"(?:\\[^A-Za-z0-9]|[^\\.^$*+?()\[\]{}|])*")
_ESCAPE: Final = re.compile(r"\\([^A-Za-z0-9])")
_TEXTS: Final = (
    *("case_id", "dataset", "tags", "agent", "outputs", "goal", "expected_state", "plan", "promoted_from", "notes"),
    *("query", "answer", "not_answer", "reference_topics"),
    *("tool_name", "forbidden"),
)


class Redacts(Protocol):
    """What takes secrets out."""

    def value(self, value: Any) -> Any:
        """Return a plain value with everything taken out, the same object where that is nothing."""
        ...

    def redacts_field(self, name: str) -> bool:
        """Return whether the value of a field of that name is taken, whatever it is."""
        ...


def redacted_case(case: Case, redacts: Redacts) -> Case:
    """Return a case with everything taken out of it; the same object where that is nothing. Twice is as good as once."""
    told = case.model_dump(mode="json", exclude_defaults=True)
    changed = _redacted(told, redacts)
    return case if changed == told else Case.model_validate(changed)


def redacted_label(label: Label, redacts: Redacts) -> Label:
    """Return a label whose ids are those of redacted conversations and cases; the same object where nothing is taken."""
    conversation_id, case_id = redacts.value(label.conversation_id), redacts.value(label.case_id)
    if conversation_id is label.conversation_id and case_id is label.case_id:
        return label
    return replace(label, conversation_id=conversation_id, case_id=case_id)


def redacted_labels(labels: Mapping[str, Label], redacts: Redacts) -> dict[str, Label]:
    """Return labels by the ids of redacted conversations."""
    clean = (redacted_label(label, redacts) for label in labels.values())
    return {label.conversation_id: label for label in clean}


def _redacted(told: dict[str, Any], redacts: Redacts) -> dict[str, Any]:
    """Return the record of a case, turn, expectation or call redacted; it is told by its fields."""
    clean = {key: redacts.value(value) if key in _TEXTS else value for key, value in told.items()}
    if "effects" in told:
        clean["effects"] = {redacts.value(name): effect for name, effect in told["effects"].items()}
    if "tools" in told:
        clean["tools"] = _redacted(told["tools"], redacts)
    for part in ("turns", "calls", "alternatives"):
        if part in told:
            clean[part] = [_redacted(one, redacts) for one in told[part]]
    return {**clean, **_parameters(told, redacts)} if "parameters" in told or "match" in told else clean


def _parameters(call: Mapping[str, Any], redacts: Redacts) -> dict[str, Any]:
    """Return parameters and rules of a call, as far as there are any."""
    given: dict[str, Any] = call.get("parameters", {})
    parameters: dict[str, Any] = redacts.value(given)
    rules = {redacts.value(name): rule for name, rule in call.get("match", {}).items()}
    for (old_name, old), (name, new) in zip(given.items(), parameters.items(), strict=True):
        mode = rules[name]["mode"] if isinstance(rules.get(name), dict) else rules.get(name)
        if mode in _SHAPES and redacts.redacts_field(old_name):
            rules[name] = "any"
        elif mode == "number" and isinstance(new, str):
            rules[name] = "exact"
        elif mode == "regex":
            pattern = _pattern(old, new, redacts)
            rules[name] = rules[name] if pattern is not None else "any"
            parameters = {**parameters, name: redacts.value(_unescaped(old)) if pattern is None else pattern}
    found = {"parameters": parameters, "match": rules}
    return {key: value for key, value in found.items() if key in call}


def _pattern(old: str, new: str, redacts: Redacts) -> str | None:
    """Return a regular expression that finds marks where it found secrets, None where that cannot be told.

    Args:
        old: the expression.
        new: the same, redacted as a text.
        redacts: what takes secrets out.
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
