"""Operational metrics: latency, tokens, cost, numbers of calls, errors, retries and loops."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import groupby
from typing import TYPE_CHECKING, Final, Self

from otel_agentic.conversations.merge import comparable
from otel_agentic.evaluators.base import (
    RECORD_MODEL_CALLS,
    RECORD_TOKENS,
    BuiltInEvaluator,
    Member,
    MetricScore,
    Missing,
    Subject,
    none_of,
    none_of_all,
)
from otel_agentic.scoring.scope import by_identity, spelled_out
from otel_agentic.scoring.state import CAPTURE

if TYPE_CHECKING:
    from otel_agentic.config import EvaluatorSettings, Price
    from otel_agentic.conversations.model import Conversation, ModelUse, ToolCall, Turn

LATENCY: Final = "agentic.operations.latency"
INPUT_TOKENS: Final = "agentic.operations.input_tokens"
OUTPUT_TOKENS: Final = "agentic.operations.output_tokens"
COST: Final = "agentic.operations.cost"
MODEL_CALLS: Final = "agentic.operations.model_calls"
TOOL_CALLS: Final = "agentic.operations.tool_calls"
TOOL_ERRORS: Final = "agentic.operations.tool_errors"
RETRIES: Final = "agentic.operations.retries"
LOOPS: Final = "agentic.operations.loops"
STEPS_TO_RECOVERY: Final = "agentic.operations.steps_to_recovery"
RECOVERED: Final = "agentic.operations.recovered"
TOOL_FAILURE: Final = "agentic.operations.tool_failure"
TURN_END: Final = "agentic.operations.turn_end"
COST_PER_SUCCESS: Final = "agentic.operations.cost_per_success"
TOKENS_PER_SUCCESS: Final = "agentic.operations.tokens_per_success"
LATENCY_P50: Final = "agentic.operations.latency_p50"
LATENCY_P95: Final = "agentic.operations.latency_p95"


#: Prices are per million tokens.
_TOKENS: Final = 1_000_000
_ANY: Final = "*"


def price_of(model: str | None, prices: Mapping[str, Price]) -> Price | None:
    """Return the price of a model, or None; a model without a name can only have the price of `*`.

    An exact name takes precedence over globs, and a glob over those with fewer literal characters.

    >>> from otel_agentic.config.quality import Price
    >>> high, low = Price(input_usd=2, output_usd=8), Price(input_usd=1, output_usd=4)
    >>> price_of("gpt-5-mini", {"gpt-5*": high, "gpt-5-mini*": low}) is low
    True
    """
    if model is None:
        return prices.get(_ANY)
    if model in prices:
        return prices[model]
    matching_patterns = [pattern for pattern in prices if fnmatchcase(model, pattern)]
    # Of two equally specific globs the first by name, so that the order in the settings does not matter.
    return (
        prices[min(matching_patterns, key=lambda pattern: (-spelled_out(pattern), pattern))]
        if matching_patterns
        else None
    )


def cost_usd(price: Price, input_tokens: int, output_tokens: int) -> float:
    """Return the cost of tokens in US dollars.

    >>> from otel_agentic.config.quality import Price
    >>> cost_usd(Price(input_usd=2, output_usd=8), 500_000, 250_000)
    3.0
    """
    return (input_tokens * price.input_usd + output_tokens * price.output_usd) / _TOKENS


NO_MODEL: Final = f"no model call was recorded; {RECORD_MODEL_CALLS}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTotal:
    """The calls of one model in a conversation; `missing` of them report no tokens although they may have used some."""

    model: str | None
    calls: int
    failed: int
    missing: int
    input_tokens: int
    output_tokens: int


@by_identity(1)
def totals_of(conversation: Conversation) -> Sequence[ModelTotal]:
    """Return the totals of each model, sorted by name, those of a model without a name first."""
    by_model: dict[str | None, list[ModelUse]] = {}
    for turn in conversation.turns:
        for use in turn.models:
            by_model.setdefault(use.model, []).append(use)
    return [_total(model, by_model[model]) for model in sorted(by_model, key=lambda name: name or "")]


def _total(model: str | None, uses: list[ModelUse]) -> ModelTotal:
    return ModelTotal(
        model=model,
        calls=sum([use.calls for use in uses]),
        failed=sum([use.failed for use in uses]),
        missing=sum([use.calls - use.priced_calls for use in uses]),
        input_tokens=sum([use.input_tokens or 0 for use in uses]),
        output_tokens=sum([use.output_tokens or 0 for use in uses]),
    )


def tokens_lacking(totals: Sequence[ModelTotal]) -> Missing | None:
    """Return the reason why the sum of tokens is unknown, or None; a partial sum does not count."""
    if not totals:
        return "model_calls_not_recorded", NO_MODEL
    incomplete = [total for total in totals if total.missing]
    if not incomplete:
        return None
    message = ", ".join(f"{total.missing} of {total.calls} calls to {named(total.model)}" for total in incomplete)
    return "tokens_not_recorded", f"token usage is missing for {message}; {RECORD_TOKENS}"


def _tools(turn: Turn) -> list[ToolCall]:
    """Return the calls of kind `tool` of a turn, in order."""
    return [call for call in turn.calls if call.kind == "tool"]


@by_identity(1)
def _all_tools(conversation: Conversation) -> Sequence[ToolCall]:
    """Return the calls of kind `tool` of a conversation, in order."""
    return [call for turn in conversation.turns for call in _tools(turn)]


def calls_lacking(conversation: Conversation) -> Missing | None:
    """Return the reason why the number of tool calls is unknown, or None."""
    if _all_tools(conversation) or conversation.content_captured != "none":
        return None
    return "content_not_captured", f"no content was recorded, so tool calls may be missing; {CAPTURE}"


@by_identity(1)
def errors_lacking(conversation: Conversation) -> Missing | None:
    """Return the reason why it is unknown which tool calls failed, or None.

    Many tools report errors only as text in the result, while the span status is unset. So without its result, a call
    that reports no error may have failed.
    """
    missing = calls_lacking(conversation)
    if missing is not None:
        return missing
    tools = _all_tools(conversation)
    unknown = sum([call.error is None and not call.result_captured for call in tools])
    if not unknown:
        return None
    message = f"the results of {unknown} of {len(tools)} tool calls were not recorded, so these may have failed"
    return "content_not_captured", f"{message}; {CAPTURE}"


def named(model: str | None) -> str:
    """Return the name of a model for messages."""
    return "a model without a name" if model is None else repr(model)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Consecutive repeats: their number, their turn (0-based), the position of the first, and the tool of the last."""

    length: int
    turn_index: int
    position: int
    tool_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """The unrecorded data of a call, without which it is unknown whether it repeats another."""

    what: str
    turn_index: int
    tool_name: str


def runs_of(turn: Turn) -> list[Run] | Unknown:
    """Return the runs of repeated calls in a turn, in order, or the unrecorded data that would decide.

    A call repeats an earlier one of the turn if tool, arguments and outcome (result or error) are the same, and no call
    between them brought anything new. The first call of a tool with some arguments is new, and so is a call with
    another outcome than the last time. The first retry of a failed call is not a repeat, and neither is a call whose
    outcome changes later in the turn, such as a status that is polled. Transfers to other agents are ignored.
    """
    calls = [call for call in turn.calls if call.kind != "transfer"]
    counts = Counter(call.name for call in calls)
    repeated_calls = [call for call in calls if counts[call.name] > 1]
    if not repeated_calls:  # the usual case, without comparing outcomes
        return []
    without_arguments = next((call for call in repeated_calls if call.arguments is None), None)
    if without_arguments is not None:
        return Unknown(what="arguments", turn_index=turn.index, tool_name=without_arguments.name)
    runs = _runs(calls, turn.index, same_if_unrecorded=False)
    without_result = next((call for call in repeated_calls if call.error is None and not call.result_captured), None)
    if without_result is not None and runs != _runs(calls, turn.index, same_if_unrecorded=True):
        return Unknown(what="results", turn_index=turn.index, tool_name=without_result.name)
    return runs


def _runs(calls: Sequence[ToolCall], turn_index: int, *, same_if_unrecorded: bool) -> list[Run]:
    runs: list[Run] = []
    last_by_key: dict[
        tuple[str, str], tuple[ToolCall, int]
    ] = {}  # the last call by key, and the number of new calls until then
    keys = [(call.name, comparable(call.arguments)) for call in calls]
    last_changes = _last_changes(keys, calls, same_if_unrecorded=same_if_unrecorded)
    retried: set[tuple[str, str]] = set()
    new_count, is_run = 0, False
    for index, (key, call) in enumerate(zip(keys, calls, strict=True)):
        previous, previous_count = last_by_key.get(key, (None, new_count))
        is_same = previous is not None and _same_outcome(previous, call, same_if_unrecorded=same_if_unrecorded)
        if is_same and call.error is not None and key not in retried:
            retried.add(key)
        elif is_same and previous_count == new_count and index >= last_changes.get(key, 0):
            runs = _with_repeat(runs, call, turn_index, continues=is_run)
            is_run = True
        else:
            new_count, is_run = new_count + (not is_same), False
        last_by_key[key] = (call, new_count)
    return runs


def _last_changes(
    keys: Sequence[tuple[str, str]], calls: Sequence[ToolCall], *, same_if_unrecorded: bool
) -> dict[tuple[str, str], int]:
    """Return, by name and arguments, the index of the last call whose outcome differs from the previous one."""
    last: dict[tuple[str, str], ToolCall] = {}
    last_changes: dict[tuple[str, str], int] = {}
    for index, (key, call) in enumerate(zip(keys, calls, strict=True)):
        previous = last.get(key)
        if previous is not None and not _same_outcome(previous, call, same_if_unrecorded=same_if_unrecorded):
            last_changes[key] = index
        last[key] = call
    return last_changes


def _same_outcome(call: ToolCall, other: ToolCall, *, same_if_unrecorded: bool) -> bool:
    """Return whether two calls have the same outcome, or `same_if_unrecorded` if one was not recorded."""
    if call.error is not None or other.error is not None:
        return call.error == other.error
    if not (call.result_captured and other.result_captured):
        return same_if_unrecorded
    return comparable(call.result) == comparable(other.result)


def _with_repeat(runs: list[Run], call: ToolCall, turn_index: int, *, continues: bool) -> list[Run]:
    if not continues:
        return [*runs, Run(length=1, turn_index=turn_index, position=call.position, tool_name=call.name)]
    return [*runs[:-1], replace(runs[-1], length=runs[-1].length + 1, tool_name=call.name)]


def retries_of(turn: Turn) -> list[ToolCall]:
    """Return the calls of a turn whose tool failed in the last earlier step that called it."""
    tools = _tools(turn)
    if all([call.error is None for call in tools]):  # noqa: C419 — the usual case, in which a list is faster
        return []
    failed: dict[str, bool] = {}  # by tool: whether a call failed in the last step that called it
    retries: list[ToolCall] = []
    for _, step in groupby(sorted(tools, key=lambda call: (call.step, call.position)), key=lambda call: call.step):
        calls = list(step)
        retries += [call for call in calls if failed.get(call.name)]
        failed_in_step: dict[str, bool] = {}
        for call in calls:
            failed_in_step[call.name] = failed_in_step.get(call.name, False) or call.error is not None
        failed |= failed_in_step
    return retries


def unknown_before_retry(turn: Turn) -> ToolCall | None:
    """Return a call of a turn that may have failed and is followed by another call of its tool, or None."""
    tools = _tools(turn)
    unknown = [call for call in tools if call.error is None and not call.result_captured]
    if not unknown:
        return None
    last_step = {call.name: max(other.step for other in tools if other.name == call.name) for call in tools}
    return next((call for call in unknown if call.step < last_step[call.name]), None)


class Calls(BuiltInEvaluator):
    """How many calls a conversation takes, and how many of them fail or repeat others."""

    name = "operations.calls"
    version = "3"

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return the five scores of a conversation."""
        conversation = subject.conversation
        totals = totals_of(conversation)
        tools = _all_tools(conversation)
        failed = [call for call in tools if call.error is not None]
        return [
            _model_calls(totals),
            _counted(TOOL_CALLS, tools, "tool call", calls_lacking(conversation)),
            _counted(TOOL_ERRORS, failed, "tool error", errors_lacking(conversation)),
            _retries(conversation, totals),
            _loops(conversation),
        ]


def _model_calls(totals: Sequence[ModelTotal]) -> MetricScore:
    if not totals:
        return none_of(MODEL_CALLS, "model_calls_not_recorded", NO_MODEL)
    explanation = ", ".join(f"{total.calls} of {named(total.model)}" for total in totals)
    return MetricScore(name=MODEL_CALLS, value=float(sum(total.calls for total in totals)), explanation=explanation)


def _counted(name: str, calls: Sequence[ToolCall], noun: str, missing: Missing | None) -> MetricScore:
    if missing is not None:
        return none_of(name, *missing)
    return MetricScore(name=name, value=float(len(calls)), explanation=_listed(calls) or f"no {noun}")


def _retries(conversation: Conversation, totals: Sequence[ModelTotal]) -> MetricScore:
    missing = calls_lacking(conversation) or _retries_lacking(conversation)
    if missing is None and not totals:
        missing = "model_calls_not_recorded", f"failed requests to models are unknown: {NO_MODEL}"
    if missing is not None:
        return none_of(RETRIES, *missing)
    retries = [call for turn in conversation.turns for call in retries_of(turn)]
    failed = sum(total.failed for total in totals)
    parts = [
        _listed(retries),
        f"{failed} failed {'request' if failed == 1 else 'requests'} to models" if failed else "",
    ]
    return MetricScore(
        name=RETRIES,
        value=float(len(retries) + failed),
        explanation=", ".join(filter(None, parts)) or "nothing was tried again",
        details={"tools": len(retries), "models": failed},
    )


def _retries_lacking(conversation: Conversation) -> Missing | None:
    """Return the reason why retries are unknown, or None; an unknown result only matters if other calls follow."""
    unknown = next(filter(None, map(unknown_before_retry, conversation.turns)), None)
    if unknown is None:
        return None
    message = (
        f"the result of a call of {unknown.name!r} was not recorded, and it was called again: the first may have failed"
    )
    return "content_not_captured", f"{message}; {CAPTURE}"


def _loops(conversation: Conversation) -> MetricScore:
    runs: list[Run] = []
    for turn in conversation.turns:
        turn_runs = runs_of(turn)
        if isinstance(turn_runs, Unknown):
            explanation = f"the {turn_runs.what} of {turn_runs.tool_name!r}, called again in turn {turn_runs.turn_index + 1}, were not recorded"
            return none_of(LOOPS, "content_not_captured", explanation)
        runs += turn_runs
    if not runs:
        return MetricScore(name=LOOPS, value=0.0, explanation="no call repeats another without anything new")
    longest = max(runs, key=lambda run: run.length)  # the first of several
    times = "call" if longest.length == 1 else "calls in a row"
    return MetricScore(
        name=LOOPS,
        value=float(longest.length),
        explanation=f"turn {longest.turn_index + 1}: {longest.length} {times} brought nothing new, the last of "
        f"{longest.tool_name!r}",
        tool_name=longest.tool_name,
        details={"repeats": sum(run.length for run in runs), "runs": len(runs), "turn_index": longest.turn_index},
    )


def _listed(calls: Sequence[ToolCall]) -> str:
    return ", ".join(f"{times} of {name!r}" for name, times in sorted(Counter(call.name for call in calls).items()))


class Cost(BuiltInEvaluator):
    """The cost of a conversation."""

    name = "operations.cost"
    version = "2"
    needs = frozenset({"turns", "usage", "prices"})

    def __init__(self, prices: Mapping[str, Price]) -> None:
        self._prices = dict(prices)

    @classmethod
    def from_settings(cls, settings: EvaluatorSettings) -> Self:
        """Return the evaluator with the prices of the settings."""
        return cls(settings.prices)

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return the cost of a conversation."""
        totals = totals_of(subject.conversation)
        missing = tokens_lacking(totals)
        if missing is not None:
            return [none_of(COST, *missing)]
        priced = [(total, price_of(total.model, self._prices)) for total in totals if _uses_tokens(total)]
        unpriced = [named(total.model) for total, price in priced if price is None]
        if unpriced:
            explanation = f"[evaluators.prices] has no price for {', '.join(unpriced)}; add it by name or glob"
            return [none_of(COST, "price_not_set", explanation)]
        costs = {
            total.model or "": cost_usd(price, total.input_tokens, total.output_tokens)
            for total, price in priced
            if price is not None
        }
        return [
            MetricScore(
                name=COST, value=math.fsum(costs.values()), explanation=_cost_text(costs), details={"usd": costs}
            )
        ]


def _uses_tokens(total: ModelTotal) -> bool:
    return bool(total.input_tokens or total.output_tokens)


def _cost_text(costs: Mapping[str, float]) -> str:
    if not costs:
        return "no call took any tokens"
    return ", ".join(f"{named(model or None)} {usd:.6f} USD" for model, usd in costs.items())


_NS_PER_S: Final = 1e9


class Latency(BuiltInEvaluator):
    """How long each turn takes."""

    name = "operations.latency"
    version = "2"

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Yield one score for each turn, in seconds."""
        for turn in subject.conversation.turns:
            missing = _times_missing(turn, subject.conversation)
            if missing is not None:
                yield none_of(LATENCY, *missing, turn_index=turn.index)
                continue
            duration_s = (turn.ended_ns - turn.started_ns) / _NS_PER_S
            explanation = f"turn {turn.index + 1} took {duration_s:.3f} s"
            yield MetricScore(name=LATENCY, value=duration_s, turn_index=turn.index, explanation=explanation)


def _times_missing(turn: Turn, conversation: Conversation) -> Missing | None:
    """Return the reason and explanation why the duration of a turn is unknown, or None."""
    if turn.ended_ns < turn.started_ns:
        return (
            "incomplete",
            f"turn {turn.index + 1} ends before it starts: the times of its spans contradict each other",
        )
    span_of_conversation = (conversation.started_ns, conversation.ended_ns)
    # If a conversation was not rebuilt from spans, all of its turns have the times of the conversation. If it was, none
    # of several turns lasts that long.
    shared = len(conversation.turns) > 1 and all(
        (turn.started_ns, turn.ended_ns) == span_of_conversation for turn in conversation.turns
    )
    if shared or not turn.span_id or not turn.started_ns:
        return "times_not_recorded", f"no span records when turn {turn.index + 1} began and ended"
    return None


class Tokens(BuiltInEvaluator):
    """How many tokens a conversation takes."""

    name = "operations.tokens"
    version = "2"
    needs = frozenset({"turns", "usage"})

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return the two scores of a conversation."""
        totals = totals_of(subject.conversation)
        missing = tokens_lacking(totals)
        if missing is not None:
            return none_of_all(self.metrics, *missing)
        calls = sum(total.calls for total in totals)
        sums = (sum(total.input_tokens for total in totals), sum(total.output_tokens for total in totals))
        return [
            MetricScore(name=name, value=float(count), explanation=f"{count:,} tokens in {calls} calls of models")
            for name, count in zip((INPUT_TOKENS, OUTPUT_TOKENS), sums, strict=True)
        ]


class Totals(BuiltInEvaluator):
    """Cost and tokens per success, and percentiles of latency, in a group of conversations."""

    name = "operations.totals"
    needs = frozenset()
    reads: tuple[str, ...] = (COST, INPUT_TOKENS, OUTPUT_TOKENS, LATENCY)

    def evaluate_group(self, members: Sequence[Member]) -> Iterable[MetricScore]:
        """Return the four scores of a group."""
        latencies = [value for member in members for value in _values(member, LATENCY)]
        return [
            _per_success(COST_PER_SUCCESS, members, lambda member: _sum(member, COST), "cost"),
            _per_success(
                TOKENS_PER_SUCCESS, members, lambda member: _sum(member, INPUT_TOKENS, OUTPUT_TOKENS), "tokens"
            ),
            _percentile(LATENCY_P50, latencies, 50),
            _percentile(LATENCY_P95, latencies, 95),
        ]


def _values(member: Member, name: str) -> list[float]:
    return [score.value for score in member.scores.get(name, ()) if score.value is not None]


def _sum(member: Member, *names: str) -> float | None:
    """Return the sum of a member's scores, None if one of them is missing."""
    results = [_values(member, name) for name in names]
    return math.fsum(value for values in results for value in values) if all(results) else None


def _per_success(
    name: str, members: Sequence[Member], amount: Callable[[Member], float | None], noun: str
) -> MetricScore:
    decided = [(member.outcome == "pass", amount(member)) for member in members if member.outcome in {"pass", "fail"}]
    measured = [(has_passed, value) for has_passed, value in decided if value is not None]
    passed = sum(has_passed for has_passed, _ in measured)
    left_out = {"not evaluated": len(members) - len(decided), f"without {noun}": len(decided) - len(measured)}
    message = "".join(f"; {count} {why} left out" for why, count in left_out.items() if count)
    details = {"conversations": len(measured), "passed": passed, "left_out": left_out}
    if not passed:
        why = (
            f"none of {len(measured)} conversations passed"
            if measured
            else f"{noun} known of no evaluated conversation"
        )
        return MetricScore(name=name, reason="no_data", explanation=why + message, details=details)
    total = math.fsum(value for _, value in measured)
    explanation = f"{total:,.6g} over {len(measured)} conversations, {passed} of which passed{message}"
    return MetricScore(name=name, value=total / passed, explanation=explanation, details=details)


def _percentile(name: str, values: Sequence[float], percent: int) -> MetricScore:
    if not values:
        return none_of(name, "no_data", "no turn has a latency")
    several = len(values) > 1
    value = statistics.quantiles(values, n=100, method="inclusive")[percent - 1] if several else values[0]
    return MetricScore(name=name, value=value, explanation=f"of {len(values)} turns", details={"turns": len(values)})
