"""Cases and labels as people hand them to `evaluate`: objects, records, files."""

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
    #: A verdict, a reward, the id of a case with either or neither.
    LabelLike = bool | float | str | Label | Mapping[str, Any] | None

_CASES: Final = "a Case, a record of one, or the path of a file of cases"
_LABEL: Final = 'True, False, "pass", "fail", a reward (a number), or {"case_id": …, "verdict" or "reward": …} with any of these keys'
_VERDICTS: Final = {"pass": True, "fail": False}
_KEYS: Final = frozenset({"case_id", "verdict", "reward"})


def read_given_cases(given: CaseLike | Iterable[CaseLike] | None) -> list[Case]:
    """Return the cases of whatever holds them.

    Raises:
        UsageError: something is none of what is allowed.
        CaseError: a record or file breaks the case format; lists all problems.
    """
    if given is None:
        return []
    one = isinstance(given, Case | Mapping | str | os.PathLike)
    found: list[Case] = []
    records: list[Mapping[str, Any]] = []
    documents = []
    for place, item in enumerate([given] if one or not isinstance(given, Iterable) else given):
        match item:
            case Case():
                found.append(item)
            case Mapping():
                records.append(item)
            case str() | os.PathLike():
                documents.append(read_file(Path(item)))
            case _:
                raise UsageError(f"cases[{place}]: a {type(item).__name__}; allowed: {_CASES}")
    if records:
        documents.append(read_document("cases", "".join(map(_line, records))))
    return [*found, *(case for document in require(documents) for case in document.cases)]


def _line(record: Mapping[str, Any]) -> str:
    named = {"dataset": "default", **record} if "case_id" in record else dict(record)
    try:
        return f"{orjson.dumps(named).decode()}\n"
    except TypeError as error:
        raise CaseError(f"cases: {record.get('case_id', 'a record')!r} is not JSON: {error}") from error


def read_given_labels(
    given: Mapping[str, LabelLike] | str | os.PathLike[str] | None, settings: ScoringSettings
) -> Mapping[str, Label]:
    """Return the labels of whatever holds them, by conversation id.

    Raises:
        UsageError: a label is none of what is allowed; names the conversation.
        CaseError: a file breaks the format of labels; lists all problems.
    """
    if given is None:
        return {}
    if isinstance(given, str | os.PathLike):
        return read_label_file(Path(given), reward_threshold=settings.reward_threshold).require()
    if not isinstance(given, Mapping):
        raise UsageError(f"labels: a {type(given).__name__}; allowed: a mapping of conversation ids, or a CSV file")
    return {str(name): _label(str(name), said, settings.reward_threshold) for name, said in given.items()}


def _label(name: str, said: LabelLike, threshold: float) -> Label:
    if isinstance(said, Label):
        return replace(said, conversation_id=name)
    case_id, verdict = None, said
    if isinstance(said, Mapping):
        if set(said) - _KEYS or {"verdict", "reward"} <= set(said):
            raise _wrong(name, said)
        case_id, verdict = said.get("case_id"), said.get("verdict", said.get("reward"))
    if case_id is not None and not isinstance(case_id, str):
        raise _wrong(name, said)
    return Label(conversation_id=name, case_id=case_id, verdict=_verdict(name, verdict, threshold), line=0)


def _verdict(name: str, said: Any, threshold: float) -> bool | None:
    if said is None or isinstance(said, bool):
        return said
    if isinstance(said, str) and said.lower() in _VERDICTS:
        return _VERDICTS[said.lower()]
    if isinstance(said, int | float) and said == said:  # noqa: PLR0124 — not NaN
        return said >= threshold
    raise _wrong(name, said)


def _wrong(name: str, said: Any) -> UsageError:
    return UsageError(f"labels[{name!r}]: found {said!r}; allowed: {_LABEL}")
