"""Cases and labels as arguments of `evaluate`: objects, records, files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from otel_agentic.errors import CaseError, UsageError
from otel_agentic.pipeline.truthfiles import read_file, require
from otel_agentic.truth import Case, Label
from otel_agentic.truth.formats import read_document
from otel_agentic.truth.labels import read_labels as read_label_file

if TYPE_CHECKING:
    from otel_agentic.config import ScoringSettings

    CaseLike = Case | Mapping[str, Any] | str | os.PathLike[str]
    #: A verdict, a reward, or a case id with or without one of these.
    LabelLike = bool | float | str | Label | Mapping[str, Any] | None

_CASES: Final = "a Case, a record of one, or the path of a file of cases"
_LABEL: Final = 'True, False, "pass", "fail", a reward (a number), or {"case_id": …, "verdict" or "reward": …} with any of these keys'
_VERDICTS: Final = {"pass": True, "fail": False}
_KEYS: Final = frozenset({"case_id", "verdict", "reward"})


def read_cases(cases: CaseLike | Iterable[CaseLike] | None) -> list[Case]:
    """Return the cases of objects, records and files.

    Raises:
        UsageError: an item has a type that is not allowed.
        CaseError: a record or file is malformed; the message lists all problems.
    """
    if cases is None:
        return []
    items = (
        [cases] if isinstance(cases, Case | Mapping | str | os.PathLike) or not isinstance(cases, Iterable) else cases
    )
    objects: list[Case] = []
    records: list[Mapping[str, Any]] = []
    documents = []
    for index, item in enumerate(items):
        match item:
            case Case():
                objects.append(item)
            case Mapping():
                records.append(item)
            case str() | os.PathLike():
                documents.append(read_file(Path(item)))
            case _:
                raise UsageError(f"cases[{index}]: a {type(item).__name__}; allowed: {_CASES}")
    if records:
        documents.append(read_document("cases", "".join(map(_line, records))))
    return [*objects, *(case for document in require(documents) for case in document.cases)]


def _line(record: Mapping[str, Any]) -> str:
    completed = {"dataset": "default", **record} if "case_id" in record else dict(record)
    try:
        return f"{orjson.dumps(completed).decode()}\n"
    except TypeError as error:
        raise CaseError(f"cases: {record.get('case_id', 'a record')!r} is not JSON: {error}") from error


def read_labels(
    labels: Mapping[str, LabelLike] | str | os.PathLike[str] | None, settings: ScoringSettings
) -> Mapping[str, Label]:
    """Return labels by conversation id, from a mapping or a CSV file.

    Raises:
        UsageError: a label is invalid; the message names the conversation.
        CaseError: a file is malformed; the message lists all problems.
    """
    if labels is None:
        return {}
    if isinstance(labels, str | os.PathLike):
        return read_label_file(Path(labels), reward_threshold=settings.reward_threshold).require()
    if not isinstance(labels, Mapping):
        raise UsageError(f"labels: a {type(labels).__name__}; allowed: a mapping of conversation ids, or a CSV file")
    return {str(name): _label(str(name), value, settings.reward_threshold) for name, value in labels.items()}


def _label(name: str, value: LabelLike, threshold: float) -> Label:
    if isinstance(value, Label):
        return replace(value, conversation_id=name)
    case_id, verdict = None, value
    if isinstance(value, Mapping):
        if set(value) - _KEYS or {"verdict", "reward"} <= set(value):
            raise _invalid_label(name, value)
        case_id, verdict = value.get("case_id"), value.get("verdict", value.get("reward"))
    if case_id is not None and not isinstance(case_id, str):
        raise _invalid_label(name, value)
    return Label(conversation_id=name, case_id=case_id, verdict=_verdict(name, verdict, threshold), line=0)


def _verdict(name: str, value: Any, threshold: float) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in _VERDICTS:
        return _VERDICTS[value.lower()]
    if isinstance(value, int | float) and value == value:  # noqa: PLR0124 — not NaN
        return value >= threshold
    raise _invalid_label(name, value)


def _invalid_label(name: str, value: Any) -> UsageError:
    return UsageError(f"labels[{name!r}]: found {value!r}; allowed: {_LABEL}")
