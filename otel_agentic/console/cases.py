"""The pages of cases: their attempts, the versions of one case, and the form that corrects it or adds a new one.

A correction names the version that it changes, so that of two people who correct a case at once the second one loses nothing:
the form returns with the conflict and the entered text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from otel_agentic.console.pages import Page, flat
from otel_agentic.console.requests import PERIODS, SELECTION, ConsoleLinks, PageRequest, page_url
from otel_agentic.console.review import NO_RATE, Rates, rate_change, rates
from otel_agentic.errors import BadInputError, UsageError, codes_of
from otel_agentic.render.html.conversation import Call, expected_call
from otel_agentic.render.html.difference import Difference, differences
from otel_agentic.render.text import plural
from otel_agentic.results import to_json
from otel_agentic.results.conversations import CaseHistory, CaseProposal, CaseRow, CaseVersion, OutcomeChange, SavedCase
from otel_agentic.results.reports import Report, ReportGroup

if TYPE_CHECKING:
    from otel_agentic.commands import Client
    from otel_agentic.results import JsonObject

_MAX_CASES: Final = 200
_MAX_RECORD: Final = 60_000
#: The groups whose rates are displayed before and after a correction.
_MAX_RATES: Final = 3
#: Parts of a case that people do not edit, because they identify it.
_IDENTITY: Final = ("case_id", "dataset")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedCase:
    """A case in the list: its attempts by one agent, or none."""

    case_id: str
    dataset: str | None
    agent: str | None
    is_draft: bool
    group: ReportGroup | None
    attempts: str | None

    @property
    def order(self) -> tuple[bool, int, str]:
        """Drafts come first, then the cases with the most failures."""
        failures = 0 if self.group is None else self.group.n - self.group.c
        return (not self.is_draft, -failures, self.case_id)


def cases(client: Client, request: PageRequest) -> Page:
    """Return the cases with their attempts."""
    selection = request.selection()
    report = client.get(Report, "report", **selection, by=["case"], metrics=[], only_displayed=True)
    links = ConsoleLinks(**request.texts("since", "environment"))
    listed = sorted(_listed(client.get(list[CaseRow], "truth_list"), report, request, links), key=lambda row: row.order)
    return Page(
        template="cases",
        values={
            "cases": listed[:_MAX_CASES],
            "cases_left_out": max(0, len(listed) - _MAX_CASES),
            "unmatched": page_url("/matches", **request.texts("since", *SELECTION)),
            "periods": PERIODS,
        },
        payload={"cases": listed},
        rows=(flat(to_json(row)) for row in listed),
    )


def _listed(
    current: Sequence[CaseRow], report: Report, request: PageRequest, links: ConsoleLinks
) -> Iterator[ListedCase]:
    """Yield the cases with attempts of the selection, then the others, unless they are for other agents."""
    by_id = {row.case_id: row for row in current}
    attempted = {group.case for group in report.groups}
    for group in report.groups:
        if group.case is not None:
            row = by_id.get(group.case)
            yield ListedCase(
                case_id=group.case,
                dataset=None if row is None else row.dataset,
                agent=group.agent,
                is_draft=row is not None and not row.reviewed,
                group=group,
                attempts=links.failed(group),
            )
    agent = request.text("agent")
    for row in current:
        if row.case_id not in attempted and (agent is None or row.agent in {None, agent}):
            yield ListedCase(
                case_id=row.case_id,
                dataset=row.dataset,
                agent=row.agent,
                is_draft=not row.reviewed,
                group=None,
                attempts=None,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRow:
    """A version of a case with its differences from the version before it, and the link that restores it."""

    version: CaseVersion
    differences: list[Difference]
    restore: str | None


def case(client: Client, request: PageRequest) -> Page:
    """Return the versions of a case and the form to correct it; or the form of a new case from a conversation."""
    proposal = None
    if request.text("id") is not None:
        proposal = client.get(CaseProposal, "truth_propose", **request.conversation())
    record = request.texts(*_IDENTITY) if proposal is None else {name: proposal.record[name] for name in _IDENTITY}
    if proposal is not None and proposal.base_version is None:
        return _case_page(request, None, record=proposal.record, proposal=proposal)
    if record["case_id"] is None:
        raise UsageError("/case needs the parameter case_id, or the id of a conversation")
    history = client.get(CaseHistory, "truth_case", **record)
    displayed = history.versions[0].record if proposal is None else proposal.record
    if proposal is None and (restored := request.text("version")) is not None:
        displayed = next((row.record for row in history.versions if row.version == restored), displayed)
    # Who saves a draft has reviewed it.
    displayed = {name: value for name, value in displayed.items() if name != "reviewed"}
    return _case_page(request, history, record=displayed, proposal=proposal)


def _case_page(
    request: PageRequest,
    history: CaseHistory | None,
    *,
    record: JsonObject,
    proposal: CaseProposal | None = None,
    text: str | None = None,
    base_version: str | None = None,
    problem: str | None = None,
    status: int = 200,
) -> Page:
    """Return the page of a case; `text` is what a person entered and could not be saved because of a problem."""
    current = None if history is None else history.versions[0]
    return Page(
        template="case",
        values={
            "case_id": record.get("case_id"),
            "dataset": record.get("dataset"),
            "current": current,
            "turns": [] if current is None else list(_expected_turns(current.record)),
            "versions": [] if history is None else _version_rows(history),
            "text": _editable(record) if text is None else text,
            "base_version": base_version if current is None or text is not None else current.version,
            "changes": [] if current is None or text is not None else _differences(current.record, record),
            "conversation": None if proposal is None else request.text("id"),
            "attempts": None if history is None else page_url("/conversations", case_id=history.case_id),
            "problem": problem,
            "recorded": request.text("recorded"),
        },
        payload=proposal if history is None else history,
        rows=None if history is None else [_version_fields(row) for row in history.versions],
        status=status,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedTurn:
    """What a case expects of a turn, or of the whole conversation, which has no number."""

    number: int | None
    query: str | None
    answers: list[str]
    forbidden_answer: str | None
    calls: list[Call]


def _expected_turns(record: JsonObject) -> Iterator[ExpectedTurn]:
    turns = list(enumerate(record.get("turns") or [], start=1))
    for number, turn in [*turns, *([(None, record)] if record.get("tools") else [])]:
        answer = turn.get("answer")
        yield ExpectedTurn(
            number=number,
            query=turn.get("query"),
            answers=answer if isinstance(answer, list) else [answer] if answer else [],
            forbidden_answer=turn.get("not_answer"),
            calls=[expected_call(call) for call in (turn.get("tools") or {}).get("calls") or ()],
        )


def save_case(client: Client, request: PageRequest) -> Page | str:
    """Save the case of a form; return the link to continue with, or the form again with the problem."""
    text = request.text("record", _MAX_RECORD) or ""
    base_version = request.text("base_version")
    history = _history(client, request)
    agent = None if history is None else history.versions[0].record.get("agent")
    before = rates(client, agent)
    try:
        saved = client.get(
            SavedCase, "truth_save", record=text, base_version=base_version, author=request.session.annotator
        )
    except BadInputError as error:
        return _case_page(
            request,
            history,
            record=request.texts(*_IDENTITY),
            text=text,
            base_version=base_version,
            problem=str(error),
            status=codes_of(error).http,
        )
    after = rates(client, agent) if saved.changed else before
    message = f"Saved version {saved.version[:8]}. {effect(saved.evaluated, saved.changed, before, after)}"
    return page_url("/case", case_id=saved.case_id, dataset=saved.dataset, recorded=message)


def _history(client: Client, request: PageRequest) -> CaseHistory | None:
    identity = request.texts(*_IDENTITY)
    if request.text("base_version") is None or identity["case_id"] is None:
        return None
    return client.get(CaseHistory, "truth_case", **identity)


def effect(evaluated: int, changed: Sequence[OutcomeChange], before: Rates, after: Rates) -> str:
    """Return a description of what an evaluation of conversations changed, and of the rates before and after it."""
    text = f"{plural(evaluated, 'conversation')} evaluated again"
    if not changed:
        return f"{text}, no outcome changed."
    changes = Counter(f"{_outcome(row.before)} → {_outcome(row.after)}" for row in changed)
    counts = ", ".join(f"{count} {change}" for change, count in changes.most_common())
    sentence = f"{text}, {plural(len(changed), 'outcome')} changed: {counts}."
    return " ".join([sentence, *_changed_rates(changed, before, after)])


def _changed_rates(changed: Sequence[OutcomeChange], before: Rates, after: Rates) -> list[str]:
    groups = dict.fromkeys((row.agent, row.agent_version) for row in changed)
    return [
        rate_change(before.get(group, NO_RATE), after.get(group, NO_RATE))
        for group in list(groups)[:_MAX_RATES]
        if before.get(group) != after.get(group)
    ]


def _outcome(outcome: str | None) -> str:
    return (outcome or "new").replace("_", " ")


def _version_rows(history: CaseHistory) -> list[VersionRow]:
    """Return the versions, each compared with the one that was saved before it."""
    by_time = sorted(history.versions, key=lambda row: row.saved_at)
    earlier = dict(zip((row.version for row in by_time[1:]), by_time, strict=False))
    return [
        VersionRow(
            version=row,
            differences=_differences(earlier[row.version].record, row.record) if row.version in earlier else [],
            restore=None
            if row.current
            else page_url("/case", case_id=history.case_id, dataset=history.dataset, version=row.version),
        )
        for row in history.versions
    ]


def _differences(before: JsonObject, after: JsonObject) -> list[Difference]:
    return differences(after, before)


def _version_fields(row: CaseVersion) -> dict[str, Any]:
    return {name: value for name, value in to_json(row).items() if name != "record"}


def _editable(record: JsonObject) -> str:
    return orjson.dumps(record, option=orjson.OPT_INDENT_2).decode()
