"""Failures of conversations: those of the outcome, and of metrics; grouped by root cause, and merged by a judge.

The evaluator `core` provides outcomes, answers, tool dimensions and faulty calls as metrics.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from otel_agentic.evaluators.base import Metric, MetricScore, Subject
from otel_agentic.evaluators.failure_texts import cluster_terms
from otel_agentic.evaluators.operations import LOOPS, TOOL_FAILURE, TURN_END
from otel_agentic.evaluators.root_causes import (
    ANSWER,
    CONVERSATION,
    TOOL,
    Cause,
    Diagnosis,
    cause_of,
    diagnoses,
    sortable,
)
from otel_agentic.evaluators.run import SEVERITIES, Failure, FailureRules, Location
from otel_agentic.judges.base import Question, rubric_question
from otel_agentic.judges.prompts import MOST_CAUSES, merge_rubric
from otel_agentic.scoring.model import ConversationScore, TurnScore, impacts_of
from otel_agentic.scoring.scope import effect_of

if TYPE_CHECKING:
    from otel_agentic.config import Severity
    from otel_agentic.truth.model import Effect

_ANSWERS: Final = ("wrong_answer", "forbidden_answer")


def core_scores(subject: Subject) -> list[MetricScore]:
    """Return the faults of a conversation: at least one if it failed or is known to fail, otherwise an empty list."""
    score = subject.score
    if score is None or not (score.outcome == "fail" or (score.outcome == "not_evaluated" and score.known_failure)):
        return []
    # A draft decides no outcome, so deviations from it are not faults.
    is_reviewed = score.computed_reason != "unreviewed"
    faults = [*_tools(score), *_answers(score), *_missing_parts(subject, score)] if is_reviewed else []
    if score.computed_reason == "agent_error":
        faults.append(agent_error(score.explanation))
    return faults or [without_fault(score.outcome_source, score.explanation)]


def without_fault(outcome_source: str, explanation: str) -> MetricScore:
    """Return the fault of a conversation that failed by an annotated verdict, or by arithmetic that names no faults."""
    label = "no_fault_named" if outcome_source == "computed" else "verdict"
    return MetricScore(name=CONVERSATION, label=label, explanation=explanation)


def fault_details(expected_index: int | None, effect: Effect | None) -> dict[str, int | str]:
    """Return the details that decide the severity and the root cause: the expected call, and the effect of the tool."""
    details = {"expected_index": expected_index, "effect": effect}
    return {name: value for name, value in details.items() if value is not None}


def agent_error(explanation: str) -> MetricScore:
    """Return the fault of an agent whose program ended with an error."""
    return MetricScore(name=CONVERSATION, label="agent_error", explanation=explanation)


def missing_output(output: str) -> MetricScore:
    """Return the fault of an expected output that no answer contains."""
    return MetricScore(name=CONVERSATION, label="output_not_said", explanation=f"no answer contains {output!r}")


def wrong_state(explanation: str) -> MetricScore:
    """Return the fault of an end state that differs from the expected one."""
    return MetricScore(name=CONVERSATION, label="state_mismatch", explanation=explanation)


def missing_turn(index: int, query: str | None) -> MetricScore:
    """Return the fault of an expected turn that never came; `index` is its index in the case, 0-based."""
    explanation = f"expected turn {index + 1} ({query or 'no query'}) never came"
    return MetricScore(name=CONVERSATION, label="missing_turn", explanation=explanation)


def wrong_answer(
    turn_index: int, reason: str | None, value: float | None, explanation: str, tools_explanation: str
) -> MetricScore:
    """Return the fault of an answer, without the explanation of tools that ends the explanation of a turn."""
    return MetricScore(
        name=ANSWER,
        label=reason if reason in _ANSWERS else "wrong_answer",
        value=value,
        turn_index=turn_index,
        explanation=explanation.removesuffix(f"; {tools_explanation}") if tools_explanation else explanation,
    )


def extra_turn(turn_index: int) -> MetricScore:
    """Return the fault of a turn that is not in the case, if turns are strict."""
    explanation = f"turn {turn_index + 1} is not in the case"
    return MetricScore(name=CONVERSATION, label="extra_turn", turn_index=turn_index, explanation=explanation)


def _tools(score: ConversationScore) -> Iterator[MetricScore]:
    for tools in score.tools:
        for fault, impact in zip(tools.faults, impacts_of(tools), strict=True):
            if impact.failed:
                effect = None if tools.raw is None else effect_of(fault.tool_name, tools.raw[0].rules.effects)
                yield MetricScore(
                    name=TOOL,
                    label=fault.kind,
                    turn_index=fault.turn_index,
                    position=fault.actual_position,
                    tool_name=fault.tool_name,
                    parameter=fault.parameter,
                    explanation=fault.explanation,
                    details=fault_details(fault.expected_index, effect),
                )


def _answers(score: ConversationScore) -> Iterator[MetricScore]:
    tools_explanation = {tools.turn_index: tools.explanation for tools in score.tools}
    for turn in score.turns:
        if turn.answer_reason in _ANSWERS:
            explanations = turn.explanation, tools_explanation.get(turn.turn_index, "")
            yield wrong_answer(turn.turn_index, turn.answer_reason, turn.answer_score, *explanations)


def _missing_parts(subject: Subject, score: ConversationScore) -> Iterator[MetricScore]:
    if subject.case is not None:
        present = _case_turns_of(score.turns)
        absent = [(index, expected.query) for index, expected in enumerate(subject.case.turns) if index not in present]
        # Unless it is proven that a missing turn never came, it may exist and contain the missing outputs.
        if subject.conversation.ended or not score.partial:
            yield from (missing_turn(index, query) for index, query in absent)
            absent = []
        if not absent:
            yield from map(missing_output, score.missing_outputs)
    for turn in score.turns:
        if turn.reason == "extra_turn":
            yield extra_turn(turn.turn_index)
    for criterion in score.annotated:
        if (criterion.name, criterion.outcome) == ("state", "fail"):
            yield wrong_state(criterion.explanation)


def _case_turns_of(turns: Sequence[TurnScore]) -> set[int | None]:
    return {turn.case_turn_index for turn in turns}


def failures_of(subject: Subject, scores: Iterable[MetricScore], rules: FailureRules) -> list[Failure]:
    """Return the failures of one conversation: first those of its outcome, then those among the scores of metrics."""
    return distinct(rules.failures(Location.of(subject.conversation), [*core_scores(subject), *scores]))


def distinct(failures: Iterable[Failure]) -> list[Failure]:
    """Return the failures without `errored` faults of tools that a failed tool or turn in the list already reports."""
    all_failures = list(failures)
    reported_tools = {
        (failure.location, failure.tool_name)
        for failure in all_failures
        if failure.metric in {TOOL_FAILURE, TURN_END} and failure.tool_name
    }
    return [
        failure
        for failure in all_failures
        if (failure.metric, failure.label) != (TOOL, "errored")
        or (failure.location, failure.tool_name) not in reported_tools
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptom:
    """Failures of one cause in the conversations of a group that have another root cause, as counts."""

    cause: Cause
    title: str
    failures: int
    conversations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorGroup:
    """The failing conversations of one root cause, or of several that were joined.

    Each of `diagnoses` may represent several conversations with the same failures. `failures` are the failures of these
    diagnoses, the newest first: root causes and `symptoms`, the most frequent first. `severity` is the highest severity of the failures, and `example` the root cause of the newest conversation of
    that severity. `share` is the share of all failing conversations. `terms` are the words that distinguish the texts of
    the root causes from those of other groups of the same cause; empty if the group is not one of similar texts.
    `elsewhere` are the conversations with another root cause in which this one occurs. Times are the ends of
    conversations, ns since the epoch.
    """

    causes: tuple[Cause, ...]
    title: str
    severity: Severity
    diagnoses: tuple[Diagnosis, ...]
    failures: tuple[Failure, ...]
    symptoms: tuple[Symptom, ...]
    share: float
    example: Failure
    first_seen_ns: int
    last_seen_ns: int
    terms: tuple[str, ...] = ()
    elsewhere: frozenset[Location] = frozenset()

    @property
    def conversations(self) -> int:
        """The number of conversations with this root cause."""
        return sum(item.count for item in self.diagnoses)

    @property
    def count(self) -> int:
        """The number of failures of these conversations."""
        return sum(failure.location.count for failure in self.failures)

    @property
    def first_version(self) -> str | None:
        """The agent version of the oldest conversation."""
        return min((item.root.location for item in self.diagnoses), key=lambda location: location.first).agent_version


def group_failures(
    failures: Iterable[Failure],
    metrics: Mapping[str, Metric],
    *,
    judge_metrics: AbstractSet[str] = frozenset(),
    least: Severity = "low",
) -> list[ErrorGroup]:
    """Return failures grouped by the root cause of their conversation: by severity, then by number of conversations.

    Each conversation is in exactly one group, with all its failures.

    Args:
        failures: of any conversations; their order does not matter.
        metrics: by name, used in titles.
        judge_metrics: names of the metrics that a judge scores; their failures are grouped by similar explanations, too.
        least: omits the failures below this severity. They may still be root causes.
    """
    results = diagnoses(failures, judge_metrics)
    titles: dict[Cause, str] = {}
    with_symptom: dict[Cause, set[Location]] = {}
    for item in results:
        for failure in item.failures:
            titles.setdefault(cause_of(failure), _title(cause_of(failure), failure, metrics))
        for failure in item.symptoms:
            with_symptom.setdefault(cause_of(failure), set()).add(item.root.location)
    severe = [remaining for item in results if (remaining := item.at_least(least)) is not None]
    by_cause: dict[tuple[Cause, tuple[str, ...]], list[Diagnosis]] = {}
    for item, terms in zip(severe, _terms([item.root for item in severe], judge_metrics), strict=True):
        by_cause.setdefault((cause_of(item.root), terms), []).append(item)
    groups = []
    for (cause, terms), members in by_cause.items():
        title = f"{titles[cause]}, about: {', '.join(terms)}" if terms else titles[cause]
        group = _group((cause,), title, members, titles, total=sum(item.count for item in severe))
        groups.append(replace(group, terms=terms, elsewhere=frozenset(with_symptom.get(cause, ()))))
    return ordered(groups)


def _terms(roots: Sequence[Failure], judge_metrics: AbstractSet[str]) -> list[tuple[str, ...]]:
    """Return for each root cause the terms of its cluster of similar explanations, empty without one.

    A tool, a parameter and a kind of fault describe a cause. Where an answer is wrong, or a judge disapproves, only the text
    of the explanation does.
    """
    by_cause: dict[Cause, list[int]] = {}
    for index, root in enumerate(roots):
        if root.metric in {ANSWER, *judge_metrics}:
            by_cause.setdefault(cause_of(root), []).append(index)
    results: list[tuple[str, ...]] = [()] * len(roots)
    for indices in by_cause.values():
        texts = [roots[index].explanation for index in indices]
        counts = [roots[index].location.count for index in indices]
        for index, terms in zip(indices, cluster_terms(texts, counts), strict=True):
            results[index] = terms
    return results


def joined(groups: Sequence[ErrorGroup], title: str | None = None) -> ErrorGroup:
    """Return several groups as one, with all their causes and failures.

    Args:
        groups: at least one, all from the same list of groups.
        title: their common cause; by default the title of the first group in order, with the number of the others.
    """
    first, *others = ordered(groups)
    members = [item for group in groups for item in group.diagnoses]
    share = sum(group.share for group in groups)
    causes = tuple(dict.fromkeys(cause for group in (first, *others) for cause in group.causes))
    joined_title = title or (f"{first.title}, and {len(others)} similar" if others else first.title)
    titles = {symptom.cause: symptom.title for group in groups for symptom in group.symptoms}
    total = round(sum(item.count for item in members) / share)
    group = _group(causes, joined_title, members, titles, total=total)
    elsewhere = frozenset[Location]().union(*(part.elsewhere for part in groups)) - {
        item.root.location for item in members
    }
    return replace(group, elsewhere=elsewhere)


def ordered(groups: Iterable[ErrorGroup]) -> list[ErrorGroup]:
    """Return groups in the order in which to investigate them."""
    return sorted(groups, key=_urgency)


def _urgency(group: ErrorGroup) -> tuple[object, ...]:
    frequency = (-group.conversations, -group.count, -group.last_seen_ns)
    return (-SEVERITIES.index(group.severity), *frequency, [*map(sortable, group.causes)], group.terms)


def _group(
    causes: tuple[Cause, ...],
    title: str,
    members: Iterable[Diagnosis],
    titles: Mapping[Cause, str],
    *,
    total: int,
) -> ErrorGroup:
    newest_first = sorted(members, key=lambda item: _recency(item.root), reverse=True)
    worst = max((item.worst.severity for item in newest_first), key=SEVERITIES.index)
    newest_worst = next(item for item in newest_first if item.worst.severity == worst)
    return ErrorGroup(
        causes=causes,
        title=title,
        severity=worst,
        diagnoses=tuple(newest_first),
        failures=tuple(failure for item in newest_first for failure in item.failures),
        symptoms=tuple(_symptoms(newest_first, causes, titles)),
        share=sum(item.count for item in newest_first) / total,
        example=newest_worst.root if newest_worst.root in newest_worst.failures else newest_worst.worst,
        first_seen_ns=min(item.root.location.first[0] for item in newest_first),
        last_seen_ns=max(item.root.location.ended_ns for item in newest_first),
    )


def _symptoms(members: Iterable[Diagnosis], roots: Container[Cause], titles: Mapping[Cause, str]) -> list[Symptom]:
    """Return the symptoms of conversations by cause, those of most conversations first."""
    by_cause: dict[Cause, list[Failure]] = {}
    for item in members:
        for failure in item.symptoms:
            if cause_of(failure) not in roots:
                by_cause.setdefault(cause_of(failure), []).append(failure)
    symptoms = [
        Symptom(
            cause=cause,
            title=titles[cause],
            failures=sum(failure.location.count for failure in same),
            conversations=sum(location.count for location in {failure.location for failure in same}),
        )
        for cause, same in by_cause.items()
    ]
    return sorted(symptoms, key=lambda symptom: (-symptom.conversations, -symptom.failures, sortable(symptom.cause)))


def _recency(failure: Failure) -> tuple[object, ...]:
    location = failure.location
    where = (location.ended_ns, location.environment, location.conversation_id)
    # Within a conversation, the first failure counts as the newest, because it may have caused the others.
    turn = -1 if failure.turn_index is None else failure.turn_index
    call = -1 if failure.position is None else failure.position
    # The remaining keys are not times, but make the order independent of the input order.
    what = (failure.metric, failure.label, failure.tool_name, failure.parameter, failure.value, failure.threshold)
    return (*where, -turn, -call, failure.explanation, failure.severity, *map(repr, what))


def _title(cause: Cause, failure: Failure, metrics: Mapping[str, Metric]) -> str:
    message = _CAUSE_TITLES.get((cause.metric, cause.label or ""))
    if message is not None:
        where = f" ({cause.tool_name})" if cause.tool_name and "{tool}" not in message else ""
        return message.format(tool=cause.tool_name, parameter=cause.parameter) + where
    metric = metrics.get(cause.metric)
    title = metric.title if metric is not None else cause.metric
    message = f": {cause.label.replace('_', ' ')}" if cause.label is not None else f" {_bound(failure)}"
    where = " ".join(part for part in (cause.tool_name, cause.parameter) if part)
    return f"{title}{message} ({where})" if where else f"{title}{message}"


def _bound(failure: Failure) -> str:
    threshold = failure.threshold
    if threshold is None:
        return "does not meet its threshold"
    if threshold.min is None:
        return f"is above {threshold.max:g}"
    if threshold.max is None:
        return f"is below {threshold.min:g}"
    return f"is not within {threshold.min:g} to {threshold.max:g}"


#: The title of a group by metric and label, with `{tool}` and `{parameter}`.
_CAUSE_TITLES: Final = {
    (TOOL, "missing"): "{tool} was not called where it is expected",
    (TOOL, "spurious"): "{tool} was called although it was not expected",
    (TOOL, "forbidden"): "{tool} was called though it is forbidden",
    (TOOL, "wrong_parameters"): "{tool} was given a wrong {parameter}",
    (TOOL, "wrong_order"): "{tool} was called out of order",
    (TOOL, "unused_result"): "the result of {tool} was not used",
    (TOOL, "errored"): "{tool} answered with an error, and was not called again with success",
    (TOOL_FAILURE, "unhandled"): "{tool} failed, and was neither recovered nor reported",
    (TURN_END, "error"): "a turn ended in an error, without an answer",
    (TURN_END, "raw_output"): "the answer is the raw output of an interpreter, or a stack trace",
    (LOOPS, ""): "{tool} was called again with the same arguments and the same result",
    (ANSWER, "wrong_answer"): "the answer was wrong",
    (ANSWER, "forbidden_answer"): "the answer contains forbidden content",
    (CONVERSATION, "agent_error"): "the agent ended with an error",
    (CONVERSATION, "missing_turn"): "an expected turn never came",
    (CONVERSATION, "state_mismatch"): "the end state differs from the expected one",
    (CONVERSATION, "output_not_said"): "an expected output is missing from the answers",
    (CONVERSATION, "extra_turn"): "a turn came that is not in the case",
    (CONVERSATION, "no_fault_named"): "it failed, and this evaluation names no single fault",
    (CONVERSATION, "verdict"): "an annotated verdict is a fail, and no other fault was found",
}


#: Groups shown in one question: as many as a judge can distinguish.
LISTED_GROUPS: Final = 2 * MOST_CAUSES
#: Limits in characters of a title and of an example, so that all fit into the question, and of a judge's cause.
_TITLE: Final = 120
_EXAMPLE: Final = 160
_CAUSE: Final = 100
#: A suggestion of the form `2, 5 = a cause`.
_SET: Final = re.compile(r"\s*([0-9]+(?:\s*,\s*[0-9]+)*)\s*=\s*(.*)", re.DOTALL)


def merge_question(groups: Sequence[ErrorGroup]) -> Question | None:
    """Return the question about the first `LISTED_GROUPS` groups in order, or None if there are no groups to merge."""
    listed_groups = ordered(groups)[:LISTED_GROUPS]
    if len(listed_groups) <= 1:
        return None
    return rubric_question(
        merge_rubric(), groups="\n".join(_line(number, group) for number, group in enumerate(listed_groups, 1))
    )


def merged(groups: Sequence[ErrorGroup], texts: Sequence[str]) -> list[ErrorGroup]:
    """Return groups merged as a judge suggests; invalid suggestions are ignored.

    Args:
        groups: those that `merge_question` asked about.
        texts: the reply to it. Unknown and repeated group numbers are skipped.
    """
    ordered_groups = ordered(groups)
    merged_groups: list[ErrorGroup] = []
    used: set[int] = set()
    for numbers, cause in _sets(texts, min(len(ordered_groups), LISTED_GROUPS)):
        unused_numbers = [number for number in numbers if number not in used]
        if len(unused_numbers) > 1:
            used.update(unused_numbers)
            same_cause = [ordered_groups[number - 1] for number in unused_numbers]
            merged_groups.append(joined(same_cause, cause or None))
    remaining_groups = [group for number, group in enumerate(ordered_groups, 1) if number not in used]
    return ordered([*merged_groups, *remaining_groups])


def _sets(texts: Sequence[str], most: int) -> Iterator[tuple[list[int], str]]:
    for text in texts:
        match = _SET.fullmatch(text)
        if match is not None:
            # A number with more digits than `most` is no group's, and converting it could raise.
            parsed_numbers = [int(part) for part in match[1].replace(",", " ").split() if len(part) <= len(str(most))]
            numbers = list(dict.fromkeys(number for number in parsed_numbers if 1 <= number <= most))
            yield numbers, _short(match[2], _CAUSE)


def _line(number: int, group: ErrorGroup) -> str:
    frequency = f"{group.count} times in {group.conversations} conversations"
    return f"{number}. {frequency}: {_short(group.title, _TITLE)}; for example: {_short(group.example.explanation, _EXAMPLE)}"


def _short(text: str, most: int) -> str:
    message = " ".join(text.split())
    return message if len(message) <= most else f"{message[: most - 1]}…"
