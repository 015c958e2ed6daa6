"""Hand-offs between agents: to the right agent, at the right time, with the context that it needs.

A hand-off is a call of kind `transfer`, after which another agent continues, or of kind `agent`, which asks another agent
like a tool. An expected hand-off is an expected call with the name of its tool, or of the agent that receives it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.evaluators.base import (
    BuiltInEvaluator,
    MetricScore,
    Missing,
    Overlap,
    Subject,
    calls_in_order,
    case_turn_of,
    first_missing,
    listed,
    none_of_all,
)
from otel_agentic.evaluators.layers.calls import scopes_of, turns_absent
from otel_agentic.judges.exact.facts import Facts, extract
from otel_agentic.scoring.scope import by_identity
from otel_agentic.scoring.state import CAPTURE
from otel_agentic.truth.values import is_number, leaves, normalise, says_text

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation, ToolCall, Turn
    from otel_agentic.truth.model import ExpectedCall, ToolExpectation

PRECISION: Final = "agentic.handoffs.precision"
RECALL: Final = "agentic.handoffs.recall"
IN_TIME: Final = "agentic.handoffs.in_time"
HANDOFF: Final = "agentic.handoffs.handoff"
OUTCOME: Final = "agentic.handoffs.outcome"
CONTEXT: Final = "agentic.handoffs.context"

#: Names of tools that pass control, with the agent in the name; and those whose argument names it.
_TRANSFER: Final = re.compile(r"(?:transfer|hand_?off|delegate)_to_(?P<agent>\w+)")
_BARE: Final = frozenset({"transfer_to_agent", "handoff", "agent_handoff"})
_AGENT_ARGUMENTS: Final = ("agent_name", "to_agent", "agent", "target")
_NOT_WORD: Final = re.compile(r"[^\w]+")
#: Number of folded names that are cached.
_CACHED_NAMES: Final = 1024
#: Limit of the values of one call that are searched in texts.
MOST_VALUES: Final = 200
ONE_AGENT: Final = "one agent did everything: the conversation has no hand-off, and none is expected by its name"


@lru_cache(maxsize=_CACHED_NAMES)
def folded_name(name: str) -> str:
    """Return a name as compared: lower case, other characters than word characters as underscores."""
    return _NOT_WORD.sub("_", name.casefold()).strip("_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Handoff:
    """A hand-off; `target` is the folded name of the agent that receives it, None if unknown."""

    turn: Turn
    call: ToolCall
    target: str | None

    @property
    def text(self) -> str:
        """The hand-off in an explanation."""
        target = self.call.target_agent or self.target or "an unknown agent"
        return f"{self.call.agent_name or 'the agent'} to {target} in turn {self.turn.index + 1}"

    def score(self, name: str, **values: Any) -> MetricScore:
        """Return a score of this hand-off."""
        return MetricScore(
            name=name, turn_index=self.turn.index, position=self.call.position, tool_name=self.call.name, **values
        )


@by_identity(1)
def handoffs_of(conversation: Conversation) -> Sequence[Handoff]:
    """Return the hand-offs of a conversation in order, including those that ended in an error."""
    return [
        Handoff(turn=turn, call=call, target=target_of(turn, call))
        for turn in conversation.turns
        for call in calls_in_order(turn)
        if call.kind != "tool"
    ]


def target_of(turn: Turn, call: ToolCall) -> str | None:
    """Return the folded name of the agent that receives a hand-off: as recorded, else as named, else as it acts."""
    if call.target_agent is not None:
        return folded_name(call.target_agent)
    if call.kind == "transfer" and (named := _named_target(call.name, call.arguments)):
        return named
    inner = next(
        (
            other.agent_name
            for other in calls_in_order(turn)
            if other.agent_name not in {None, call.agent_name}
            and (
                (call.span_id is not None and other.parent_span_id == call.span_id)
                if call.kind == "agent"
                else other.step > call.step
            )
        ),
        None,
    )
    if inner is not None:
        return folded_name(inner)
    return folded_name(call.name) if call.kind == "agent" else None


def _named_target(name: str, arguments: Mapping[str, Any] | None) -> str | None:
    """Return the folded name of the agent that a call of a transfer tool names, None if it does not look like one."""
    plain_name = folded_name(name)
    if plain_name in _BARE:
        agents = ((arguments or {}).get(key) for key in _AGENT_ARGUMENTS)
        return next((folded_name(agent) for agent in agents if isinstance(agent, str)), None)
    match = _TRANSFER.fullmatch(plain_name)
    return None if match is None else match["agent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentNames:
    """The folded names of a conversation's agents, and the targets of the tools that handed over, by folded tool name."""

    agents: frozenset[str]
    targets: Mapping[str, str | None]

    @classmethod
    def of(cls, conversation: Conversation, handoffs: Sequence[Handoff]) -> AgentNames:
        """Return the names in a conversation and its hand-offs."""
        names = {conversation.agent_name, *(turn.agent_name for turn in conversation.turns)}
        names |= {call.agent_name for turn in conversation.turns for call in turn.calls}
        return cls(
            agents=frozenset(folded_name(name) for name in names if name),
            targets={
                folded_name(handoff.call.name): handoff.target
                for handoff in handoffs
                if folded_name(handoff.call.name) not in _BARE
            },
        )

    def expected_target(self, expected: ExpectedCall) -> str | None:
        """Return the folded name of the agent that an expected call hands over to, or None if it is no hand-off."""
        plain_name = folded_name(expected.tool_name)
        named = _named_target(expected.tool_name, expected.parameters)
        if named is not None:
            return named
        return self.targets.get(plain_name) or (plain_name if plain_name in self.agents else None)


#: An order key: an index in the order of expected calls, or a step of a turn.
_At = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Expected:
    """An expected hand-off, and its group in the expected order (None if the order is free)."""

    target: str
    required: bool
    group: int | None
    tool_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scope:
    """The expected and actual hand-offs of one expectation, paired by the agent that receives them.

    `pairs` are indices of expected and actual hand-offs, and `misdirected` those of an expected one and an actual one to
    another agent in its place. `extra_allowed` is whether the expectation allows other calls.
    """

    turn_index: int | None
    expected: tuple[_Expected, ...]
    actual: tuple[Handoff, ...]
    pairs: Mapping[int, int]
    misdirected: Mapping[int, int]
    timing: Mapping[int, str]
    extra_allowed: bool

    @property
    def superfluous(self) -> list[Handoff]:
        """The actual hand-offs that no expected one explains, if extra calls are not allowed."""
        explained = {*self.pairs.values(), *self.misdirected.values()}
        return [] if self.extra_allowed else [item for i, item in enumerate(self.actual) if i not in explained]

    @property
    def missing(self) -> list[_Expected]:
        """The required hand-offs without an actual one, neither right nor wrong."""
        return [
            item
            for index, item in enumerate(self.expected)
            if item.required and index not in self.pairs and index not in self.misdirected
        ]

    @property
    def overlap(self) -> Overlap:
        """The number of right, of actual and of required hand-offs; optional ones count only if they occurred."""
        return Overlap(
            common=len(self.pairs),
            actual=len(self.pairs) + len(self.misdirected) + len(self.superfluous),
            expected=sum(item.required or index in self.pairs for index, item in enumerate(self.expected)),
        )


def _scope(
    expectation: ToolExpectation,
    turn_index: int | None,
    turns: Sequence[Turn],
    actual: Sequence[Handoff],
    names: AgentNames,
) -> _Scope | None:
    """Return the hand-offs of an expectation, or None if it names no hand-off."""
    groups = _groups(expectation)
    expected = tuple(
        _Expected(target=target, required=call.required, group=groups[index], tool_name=call.tool_name)
        for index, call in enumerate(expectation.calls)
        if (target := names.expected_target(call)) is not None
    )
    if not expected:
        return None
    worked = tuple(handoff for handoff in actual if handoff.call.error is None)
    pairs: dict[int, int] = {}
    for required in (True, False):
        for index, item in enumerate(expected):
            if item.required == required:
                _pair(pairs, index, (i for i, handoff in enumerate(worked) if handoff.target == item.target))
    misdirected: dict[int, int] = {}
    for index, item in enumerate(expected):
        if item.required and index not in pairs:
            _pair(misdirected, index, (i for i in range(len(worked)) if i not in pairs.values()))
    timing = _timing(expectation, groups, turns, {index: worked[i] for index, i in pairs.items()}, expected)
    return _Scope(
        turn_index=turn_index,
        expected=expected,
        actual=worked,
        pairs=pairs,
        misdirected=misdirected,
        timing=timing,
        extra_allowed=expectation.extra_rule("write") == "allow",
    )


def _pair(pairs: dict[int, int], index: int, candidates: Iterable[int]) -> None:
    """Pair an expected hand-off with the first candidate that is free."""
    free = next((i for i in candidates if i not in pairs.values()), None)
    if free is not None:
        pairs[index] = free


def _groups(expectation: ToolExpectation) -> list[int | None]:
    """Return the place of each expected call in the order, equal for parallel calls; None if the order is free."""
    if expectation.order == "any":
        return [None] * len(expectation.calls)
    return [index if call.step is None else call.step for index, call in enumerate(expectation.calls)]


def _timing(
    expectation: ToolExpectation,
    groups: Sequence[int | None],
    turns: Sequence[Turn],
    paired: Mapping[int, Handoff],
    expected: Sequence[_Expected],
) -> dict[int, str]:
    """Return for each paired hand-off with an order whether it came `in_time`, `late` or `early`.

    It is late if a call that is expected after it occurred before it, early if one that is expected before it occurred
    after it.
    """
    occurred: dict[str, list[_At]] = {}
    for turn in turns:
        for call in calls_in_order(turn):
            if call.error is None:
                occurred.setdefault(call.name, []).append((turn.index, call.step))
    others: list[tuple[int, _At]] = []  # the place in the expected order, and in the actual one
    for group, expected_call in zip(groups, expectation.calls, strict=True):
        times = occurred.get(expected_call.tool_name)
        if group is not None and times:
            others.append((group, times.pop(0)))
    timing: dict[int, str] = {}
    for index, handoff in paired.items():
        group, at = expected[index].group, (handoff.turn.index, handoff.call.step)
        if group is None:
            continue
        is_late = any(other > group and time < at for other, time in others)
        is_early = any(other < group and time > at for other, time in others)
        timing[index] = "late" if is_late else "early" if is_early else "right"
    return timing


def expected_handoffs(subject: Subject) -> list[_Scope] | Missing:
    """Return the expected and actual hand-offs of a case, by expectation, or the reason why that is impossible."""
    handoffs = handoffs_of(subject.conversation)
    lacking = first_missing(subject, ("expected_tools",))
    if subject.case is None or lacking is not None:
        return lacking if handoffs and lacking is not None else ("no_data", ONE_AGENT)
    absent = turns_absent(subject)
    if absent is not None:
        return absent
    names = AgentNames.of(subject.conversation, handoffs)
    scopes: list[_Scope] = []
    for expectation, scope, _ in scopes_of(subject):
        indices = {actual.turn_index for actual in scope.calls}
        turns = [turn for turn in subject.conversation.turns if turn.index in indices]
        actual = [handoff for handoff in handoffs if handoff.turn.index in indices]
        options = (expectation, *expectation.alternatives)
        matches = [_scope(option, scope.turn_index, turns, actual, names) for option in options]
        candidates = [candidate for candidate in matches if candidate is not None]
        # An alternative without a hand-off is another correct way, if none occurred.
        if candidates and (actual or None not in matches):
            scopes.append(max(candidates, key=lambda candidate: candidate.overlap.f1(empty=1.0)))
    if scopes:
        return scopes
    if not handoffs:
        return "no_data", ONE_AGENT
    return "no_data", f"case {subject.case.case_id!r} expects no call that hands over to another agent"


class Expected(BuiltInEvaluator):
    """Whether the expected agents received control, and in the expected order."""

    name = "handoffs.expected"

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return the three scores of a conversation, and one for each expected, wrong or superfluous hand-off."""
        scopes = expected_handoffs(subject)
        if isinstance(scopes, tuple):
            return none_of_all(self.metrics, *scopes)
        total = Overlap(*(sum(counts) for counts in zip(*(scope.overlap for scope in scopes), strict=True)))
        expected = listed([item.target for scope in scopes for item in scope.expected])
        actual = listed([handoff.target or "unknown" for scope in scopes for handoff in scope.actual]) or "none"
        explanation = f"expected {expected}; actual {actual}"
        shares = [(PRECISION, total.precision(empty=None)), (RECALL, total.recall(empty=None))]
        return [
            *(_share(name, value, explanation, "no hand-off is required, and none occurred") for name, value in shares),
            _in_time(scopes),
            *(score for scope in scopes for score in _handoff_scores(scope)),
        ]


def _share(name: str, value: float | None, explanation: str, empty: str) -> MetricScore:
    if value is None:
        return MetricScore(name=name, reason="no_data", explanation=empty)
    return MetricScore(name=name, value=value, explanation=explanation)


def _in_time(scopes: Sequence[_Scope]) -> MetricScore:
    """Return the share of the hand-offs with an expected place that came there; one that never came did not."""
    ordered = [item for scope in scopes for item in scope.expected if item.group is not None and item.required]
    if not ordered:
        return MetricScore(
            name=IN_TIME, reason="no_data", explanation="the case gives the hand-offs no order; set `order` to relative"
        )
    timing = [label for scope in scopes for index, label in scope.timing.items() if scope.expected[index].required]
    right = timing.count("right")
    return MetricScore(
        name=IN_TIME,
        value=right / len(ordered),
        explanation=f"{right} of {len(ordered)} hand-offs in time, {timing.count('late')} late, {timing.count('early')} "
        f"early, {len(ordered) - len(timing)} never",
    )


_TIMING: Final = {
    "right": "as expected",
    "late": "too late: a call that is expected after it came before it",
    "early": "too early: a call that is expected before it came after it",
}


def _handoff_scores(scope: _Scope) -> Iterator[MetricScore]:
    for index, i in scope.pairs.items():
        label = scope.timing.get(index, "right")
        handoff = scope.actual[i]
        yield handoff.score(HANDOFF, label=label, explanation=f"{handoff.text}, {_TIMING[label]}")
    for index, i in scope.misdirected.items():
        handoff, target = scope.actual[i], scope.expected[index].target
        yield handoff.score(HANDOFF, label="wrong_agent", explanation=f"{handoff.text}; expected {target}")
    for handoff in scope.superfluous:
        yield handoff.score(HANDOFF, label="superfluous", explanation=f"{handoff.text} is not expected")
    for item in scope.missing:
        where = "the conversation" if scope.turn_index is None else f"turn {scope.turn_index + 1}"
        yield MetricScore(
            name=HANDOFF,
            label="missing",
            turn_index=scope.turn_index,
            tool_name=item.tool_name,
            explanation=f"no hand-off to {item.target} in {where}",
        )


class Received(BuiltInEvaluator):
    """What the agent that received a hand-off did, and whether it was given what the user had stated."""

    name = "handoffs.received"

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return two scores for each hand-off."""
        handoffs = handoffs_of(subject.conversation)
        if not handoffs:
            return none_of_all(self.metrics, "no_data", ONE_AGENT)
        return [score for handoff in handoffs for score in (outcome_of(handoff), context_of(subject, handoff))]


def outcome_of(handoff: Handoff) -> MetricScore:
    """Return the score of the first action of the agent that received a hand-off."""
    label, why = _outcome(handoff)
    if label is None:
        return handoff.score(
            OUTCOME, reason="content_not_captured", explanation=f"{handoff.text}: {why} was not recorded; {CAPTURE}"
        )
    return handoff.score(OUTCOME, label=label, explanation=f"{handoff.text}: {why}")


def _outcome(handoff: Handoff) -> tuple[str | None, str]:
    """Return the label and a reason, or None and the name of the content that was not recorded."""
    if handoff.call.error is not None:
        return "failed", "the hand-off returned an error"
    return _of_agent_call(handoff) if handoff.call.kind == "agent" else _of_transfer(handoff)


def _of_agent_call(handoff: Handoff) -> tuple[str | None, str]:
    call = handoff.call
    if calls_of_receiver(handoff):
        return "acted", "it called a tool"
    if not call.result_captured:
        return None, "its answer"
    return ("dead", "it returned nothing") if call.result in (None, "", [], {}) else ("answered", "it answered")


def _of_transfer(handoff: Handoff) -> tuple[str | None, str]:
    turn, call = handoff.turn, handoff.call
    own_calls = calls_in_order(turn)
    following = next((other for other in own_calls if _follows(other, call)), None)
    if following is None:
        if turn.answer is not None:
            return "answered", "it ended the turn with the answer"
        is_known = turn.answer_captured or turn.error is not None
        return ("dead", "the turn ended without an answer") if is_known else (None, "the answer")
    if following.kind != "transfer":
        return "acted", f"it called {following.name}"
    earlier = {folded_name(other.agent_name) for other in own_calls if other.step <= call.step and other.agent_name}
    if target_of(turn, following) in earlier - {handoff.target}:
        return "handed_back", "it handed over again at once, to an agent that was active before"
    return "passed_on", "it handed over to a further agent at once"


def _follows(call: ToolCall, handoff: ToolCall) -> bool:
    """Return whether a call comes after a hand-off, at the same level."""
    return call.step > handoff.step and call.parent_span_id == handoff.parent_span_id


def context_of(subject: Subject, handoff: Handoff) -> MetricScore:
    """Return the share of the values, stated by the user and needed by the receiving agent, that it was passed_on."""
    needed = _needed(subject, handoff)
    user = SearchedText.of(queries_until(subject.conversation, handoff.turn))
    stated = [value for value in needed if user.states(value)]
    passed_on = input_of(handoff)
    if not needed or not stated:
        is_unknown = not user.text or (not needed and any(call.arguments is None for call in handoff.turn.calls))
        if is_unknown:
            return _no_context(handoff, "a query or an argument", "content_not_captured")
        explanation = f"{handoff.text}: the user stated none of the values that the agent used or needed"
        return handoff.score(CONTEXT, reason="no_data", explanation=explanation)
    if passed_on is None:
        return _no_context(handoff, "the model input of the agent", "content_not_captured")
    lost = [value for value in stated if not passed_on.states(value)]
    if lost and passed_on.text.endswith("…"):
        return _no_context(handoff, "the end of the model input of the agent", "content_not_captured")
    explanation = (
        f"{handoff.text}: not passed on: {listed(lost)}" if lost else f"{handoff.text}: passed on: {listed(stated)}"
    )
    details = {"stated": stated, "lost": lost}
    return handoff.score(CONTEXT, value=1 - len(lost) / len(stated), explanation=explanation, details=details)


def _no_context(handoff: Handoff, what: str, reason: Any) -> MetricScore:
    explanation = f"{handoff.text}: {what} was not recorded; {CAPTURE}"
    return handoff.score(CONTEXT, reason=reason, explanation=explanation)


def queries_until(conversation: Conversation, turn: Turn) -> str:
    """Return the queries of the user up to a turn."""
    return "\n".join(earlier.query for earlier in conversation.turns if earlier.query and earlier.index <= turn.index)


def input_of(handoff: Handoff) -> SearchedText | None:
    """Return the first model input of the agent that received a hand-off, with the message; None if neither was recorded."""
    message = handoff.call.arguments if handoff.call.kind == "agent" else None
    texts = [handoff.call.received, *(str(value) for _, value in leaves(message or {}, limit=MOST_VALUES))]
    if handoff.call.received is None and message is None:
        return None
    return SearchedText.of("\n".join(filter(None, reversed(texts))))


def _needed(subject: Subject, handoff: Handoff) -> list[str]:
    """Return the values in the calls that the receiving agent made in the turn, and in those that it should have made."""
    arguments = [call.arguments for call in calls_of_receiver(handoff) if call.arguments]
    arguments += [
        {key: value for key, value in expected.parameters.items() if expected.rules[key].mode in _VALUE_MODES}
        for expected in _expected_of_receiver(subject, handoff)
    ]
    values = (value for fields in arguments for _, value in leaves(fields, limit=MOST_VALUES))
    return list(dict.fromkeys(str(value) for value in values if is_number(value) or (isinstance(value, str) and value)))


#: Ways of comparing a parameter whose expected value is the value itself.
_VALUE_MODES: Final = frozenset({"exact", "unordered", "casefold", "number", "contains"})


def calls_of_receiver(handoff: Handoff) -> list[ToolCall]:
    """Return the calls of the receiving agent between the hand-off and the next one at its level."""
    calls: list[ToolCall] = []
    for call in calls_in_order(handoff.turn):
        if handoff.call.kind == "agent":
            if handoff.call.span_id is not None and call.parent_span_id == handoff.call.span_id:
                calls.append(call)
        elif _follows(call, handoff.call):
            if call.kind == "transfer":
                break
            calls.append(call)
    return calls


def _expected_of_receiver(subject: Subject, handoff: Handoff) -> list[ExpectedCall]:
    """Return the required calls of the turn that no other agent of the conversation makes, and that did not come earlier."""
    case_turn = case_turn_of(subject, handoff.turn)
    if case_turn is None or case_turn.tools is None:
        return []
    others = {
        call.name
        for turn in subject.conversation.turns
        for call in turn.calls
        if call.kind != "tool" or (call.agent_name is not None and folded_name(call.agent_name) != handoff.target)
    }
    own = {call.name for call in calls_of_receiver(handoff)}
    names = AgentNames.of(subject.conversation, [handoff])
    return [
        call
        for call in case_turn.tools.calls
        if call.required
        and (call.tool_name in own or call.tool_name not in others)
        and names.expected_target(call) is None
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedText:
    """A text in which values are searched: numbers, dates and times by value, other texts as complete words."""

    text: str
    plain: str
    facts: Facts

    @classmethod
    def of(cls, text: str) -> SearchedText:
        """Return a text with its facts."""
        return cls(text=text, plain=normalise(text), facts=extract(text))

    def states(self, value: str) -> bool:
        """Return whether the text contains a value."""
        plain = normalise(value)
        if plain and says_text(self.plain, plain):
            return True
        facts = extract(value)
        return bool(facts.all) and not facts.rest.strip() and all(map(self.facts.holds, facts.all))
