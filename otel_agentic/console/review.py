"""Review: one conversation at a time, judged without seeing its outcome, and the verdicts that are recorded.

A queue is a filter and an order in the link of the page, so it needs no storage: an item is done when its annotator has
given a verdict, or as many annotators as the queue asks for. Several people can work on such a queue at once, because a conversation
that one of them has open is reserved. The order `random` depends on the ids alone, so the labelled conversations of such a queue without a
condition on the outcome are a random sample, by which judges can be calibrated.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Final, TypeAlias

from otel_agentic.console.pages import FILTERS, Page, conversation_view
from otel_agentic.console.requests import PERIODS, PageRequest, page_url
from otel_agentic.render.html.reliability import high_k
from otel_agentic.render.report_notes import rates_by_k, shown_estimates
from otel_agentic.render.text import interval, percent
from otel_agentic.results.annotations import AnnotationList, RecordedLabel
from otel_agentic.results.browsing import ConversationPage
from otel_agentic.results.conversations import ConversationDetails
from otel_agentic.results.reports import Report, ReportGroup

if TYPE_CHECKING:
    from otel_agentic.commands import Client
    from otel_agentic.results.conversations import ConversationRow

#: The queues that the page offers: a name, and the parameters of its link.
_QUEUES: Final = {
    "random sample": {"order": "random"},
    "random sample, one reviewer each": {"order": "random", "reviewers": "1"},
    "failed": {"order": "newest", "outcome": "fail"},
    "not evaluated": {"order": "newest", "outcome": "not_evaluated"},
    "disagreements": {"order": "newest", "disagreements": "1"},
}
#: An open conversation is reserved this long, seconds.
_CLAIM_S: Final = 900.0
NO_RATE: Final = "no evaluated conversation"
#: A rate with its interval, and the coverage, as text, by agent and version.
Rates: TypeAlias = dict[tuple[str | None, str | None], str]
#: Identity of a conversation: environment and id.
Key: TypeAlias = tuple[str, str]
#: Conditions that may depend on the outcome: the conversations that meet one are no random sample of an agent's.
_BIASED: Final = {*FILTERS, "disagreements"}
#: Parameters that describe the previous verdict, and the position in the conversation.
_NO_PREVIOUS: Final = {"recorded": None, "undo": None, "undo_environment": None, "turns": None}


class Claims:
    """The conversations that annotators have open: one for each annotator, for 15 minutes. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        #: The conversation that each annotator has open, and the time until which it is reserved.
        self._claims: dict[str, tuple[Key, float]] = {}

    def claim(self, key: Key, annotator: str, voters: AbstractSet[str], reviewers: int | None) -> bool:
        """Reserve a conversation if it still needs a reviewer; return whether it does.

        Args:
            key: the conversation.
            annotator: the annotator who opens it, and whose earlier claim ends.
            voters: the annotators who gave a verdict on it.
            reviewers: how many reviewers it needs; None if everyone reviews every conversation.
        """
        now_s = self._clock()
        with self._lock:
            claimants = {
                name for name, (claimed, until_s) in self._claims.items() if claimed == key and until_s > now_s
            }
            if reviewers is not None and len((voters | claimants) - {annotator}) >= reviewers:
                return False
            self._claims[annotator] = key, now_s + _CLAIM_S
            return True


def review(claims: Claims, client: Client, request: PageRequest) -> Page:
    """Return the next conversation of a queue that the annotator has not judged yet, and reserve it."""
    is_adjudication = request.text("disagreements") is not None
    annotator = request.session.annotator
    labels = client.get(AnnotationList, "truth_annotations")
    own = sum(row.annotator == annotator and row.turn is None and row.verdict is not None for row in labels.annotations)
    item, cursor = _next_item(claims, client, request, _voters(labels))
    details = None
    if item is not None:
        details = client.get(
            ConversationDetails,
            "conversations_show",
            conversation_id=item.conversation_id,
            environment=item.environment,
            exact=True,
        )
    return Page(
        template="review",
        values={
            "view": None if details is None else conversation_view(details, request),
            "own": own,
            "agreement": labels.agreement,
            "votes_given": [
                row
                for row in labels.annotations
                if item is not None
                and is_adjudication
                and (row.environment, row.conversation_id, row.turn) == (item.environment, item.conversation_id, None)
            ],
            "is_adjudication": is_adjudication,
            "is_random": _is_random(request),
            "queues": [(name, page_url("/review", **parameters)) for name, parameters in _QUEUES.items()],
            # Also for a conversation that passes: the page must not reveal the outcome.
            "correct": page_url("/case", id=item.conversation_id, environment=item.environment)
            if item is not None and item.closed_by is not None and request.session.may_write
            else None,
            "skip": None if cursor is None else request.url(**_NO_PREVIOUS, cursor=cursor),
            "here": request.url(**_NO_PREVIOUS),
            # An undone item is in the queue again, before the position of the cursor.
            "start": request.url(**_NO_PREVIOUS, cursor=None),
            "recorded": request.text("recorded"),
            "undo": request.text("undo"),
            "undo_environment": request.text("undo_environment"),
            "periods": PERIODS,
        },
        payload=details,
    )


def _next_item(
    claims: Claims, client: Client, request: PageRequest, voters: Mapping[Key, AbstractSet[str]]
) -> tuple[ConversationRow | None, str | None]:
    """Return the next conversation of a queue that no other annotator has reserved, and the cursor after it."""
    is_adjudication = request.text("disagreements") is not None
    annotator, reviewers, cursor = request.session.annotator, request.number("reviewers"), request.text("cursor")
    while True:
        page = client.get(
            ConversationPage,
            "conversations_page",
            **request.selection(),
            **request.texts(*FILTERS),
            order=request.text("order") or "random",
            not_labelled_by=None if is_adjudication else annotator,
            disagreements=True if is_adjudication else None,
            reviewers=reviewers,
            cursor=cursor,
            limit=1,
        )
        cursor = page.next_cursor
        for item in page.rows:
            key = (item.environment, item.conversation_id)
            if claims.claim(key, annotator, voters.get(key, frozenset()), reviewers):
                return item, cursor
        if cursor is None:
            return None, None


def _voters(labels: AnnotationList) -> Mapping[Key, AbstractSet[str]]:
    """Return the annotators who gave a verdict on a conversation, for each conversation."""
    voters: dict[Key, set[str]] = defaultdict(set)
    for row in labels.annotations:
        if row.turn is None and row.verdict is not None and row.source != "event":
            voters[row.environment, row.conversation_id].add(row.annotator)
    return voters


def _is_random(request: PageRequest) -> bool:
    """Return whether the conversations of a queue are a random sample."""
    return (request.text("order") or "random") == "random" and not any(request.text(name) for name in _BIASED)


def record(client: Client, request: PageRequest) -> str:
    """Record or withdraw a verdict from the values of a form; return the link to continue with.

    Raises:
        OtelAgenticError: the verdict cannot be recorded; see the command `label`.
    """
    verdict = request.text("verdict")
    key = request.conversation()
    queue = _queue(request)
    details = client.get(ConversationDetails, "conversations_show", **key).conversation
    group = (details.agent_name, details.agent_version)
    before = rates(client, details.agent_name).get(group, NO_RATE)
    result = client.get(
        RecordedLabel,
        "label",
        **key,
        annotator=request.session.annotator,
        verdict=None if verdict == "withdraw" else verdict,
        retracted=verdict == "withdraw",
        note=request.text("note"),
        adjudicate=request.text("adjudicate") is not None,
        random_sample=queue is not None and _is_random(queue),
    )
    after = rates(client, details.agent_name).get(group, NO_RATE)
    message = _message(result) if before == after else f"{_message(result)} {rate_change(before, after)}"
    if queue is None:
        return page_url("/conversation", id=result.conversation_id, environment=result.environment, recorded=message)
    undo = {} if result.retracted else {"undo": result.conversation_id, "undo_environment": result.environment}
    return queue.url(**_NO_PREVIOUS | {"recorded": message} | undo)


def _queue(request: PageRequest) -> PageRequest | None:
    """Return the queue from which a form was sent; None if it was sent from the page of a conversation."""
    back = request.back()
    return back if back.path == "/review" else None


def rates(client: Client, agent: str | None) -> Rates:
    """Return pass^k with its interval, and the coverage, of each evaluated version of an agent, of all agents for None."""
    report = client.get(Report, "report", agent=agent, by=["version"], metrics=[], only_displayed=True)
    return {(group.agent, group.agent_version): _rate(group) for group in report.groups}


def _rate(group: ReportGroup) -> str:
    k = high_k(group)
    rate = interval(rates_by_k(shown_estimates(group), "pass_pow_k")[k])
    name = " ".join(part for part in (group.agent, group.agent_version) if part)
    return f"pass^{k} of {name}: {rate}, coverage {percent(group.coverage)}, {group.c} of {group.n} correct"


def rate_change(before: str, after: str) -> str:
    """Return the change of a rate as a sentence, without repeating its name.

    >>> rate_change("pass^3 of shop: .500", "pass^3 of shop: .625")
    'pass^3 of shop: .500 → .625.'
    """
    return f"{before} → {after.removeprefix(before.partition(': ')[0] + ': ')}."


def _message(result: RecordedLabel) -> str:
    """Return a description of the recorded verdict and of its effect."""
    subject = result.conversation_id if result.turn is None else f"turn {result.turn} of {result.conversation_id}"
    if result.retracted:
        return f"Withdrawn: the verdict of {result.annotator} on {subject}."
    text = f"Recorded: {subject} is {result.verdict}, by {result.annotator}."
    if result.disagree:
        return f"{text} Annotators disagree, so no verdict counts until one decides."
    if result.rescored and result.outcome != result.computed_outcome:
        return f"{text} Its outcome is {result.outcome} now (computed: {result.computed_outcome})."
    return text
