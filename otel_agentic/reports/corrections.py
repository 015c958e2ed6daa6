"""Corrections of cases by people: proposals from what an agent did, new versions, and the conversations evaluated again.

Only the conversations that a saved case concerns are evaluated again, because a case decides about its own attempts alone. A case
whose queries are new can also match conversations that no case matched; the newest of these are matched again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.errors import BadInputError, CaseError, ConflictError
from otel_agentic.evaluation.run import EvaluationRequest
from otel_agentic.reports.promotion import PromotionRequest, promote
from otel_agentic.results import from_json
from otel_agentic.results.conversations import CallPair, CaseProposal, ConversationScore, ToolFault
from otel_agentic.store.connection import to_json_value
from otel_agentic.store.queries.conversations import candidates, newest_revision, score_of
from otel_agentic.store.table import Selection
from otel_agentic.store.truth import (
    AttemptOutcome,
    attempts_of,
    case_versions,
    corrected_cases,
    outcomes_of_attempts,
    save_case,
)
from otel_agentic.truth import Case
from otel_agentic.truth.formats.base import record_of
from otel_agentic.truth.load import parse_cases, redacted_case
from otel_agentic.truth.model import CaseTurn, ExpectedCall, ToolExpectation
from otel_agentic.truth.promote import DEFAULT_DATASET

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation, ToolCall
    from otel_agentic.engine.engine import Engine
    from otel_agentic.evaluation.run import EvaluationRunner, OnScored
    from otel_agentic.evaluation.scope import Truth, TruthFile
    from otel_agentic.evaluators.registry import Chosen
    from otel_agentic.store import Store
    from otel_agentic.store.connection import Connection
    from otel_agentic.store.table import Key

#: The newest conversations without a case that are matched again, and how many at once.
_MAX_UNMATCHED: Final = 5_000
_PORTION: Final = 500
_MAX_NAMED: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Reevaluation:
    """The outcomes of conversations before and after they were evaluated again."""

    before: dict[Key, AttemptOutcome]
    after: dict[Key, AttemptOutcome]

    @property
    def changed(self) -> list[tuple[str | None, AttemptOutcome]]:
        """The outcomes that differ, each after the previous one."""
        pairs = [(self.before[key].outcome, after) for key, after in self.after.items()]
        return [(before, after) for before, after in pairs if before != after.outcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """A saved case, and the outcomes of the conversations it concerns.

    `not_matched` counts the conversations without a case that were too many to be matched again.
    """

    case: Case
    outcomes: Reevaluation
    not_matched: int


def evaluate_again(engine: Engine, keys: Sequence[Key], chosen: Chosen, on_scored: OnScored) -> Reevaluation:
    """Evaluate conversations by the current ground truth; see `EvaluationRunner.evaluate`."""
    truth = engine.runner.truth()
    with engine.store.read() as con:
        before = outcomes_of_attempts(con, keys)
    engine.runner.evaluate(truth, EvaluationRequest(keys=keys, chosen=chosen), on_scored)
    with engine.store.read() as con:
        return Reevaluation(before=before, after=outcomes_of_attempts(con, keys))


def correct_case(
    engine: Engine, record: str, *, base_version: str | None, author: str, on_scored: OnScored
) -> Correction:
    """Save a case as its current version and evaluate the conversations that it concerns.

    Args:
        engine: the store and its resources.
        record: the case as one native record, JSON text.
        base_version: the version that the author has changed; None for a new case.
        author: the name of the person.
        on_scored: see `EvaluationRunner.evaluate`.

    Raises:
        CaseError: the record is invalid; the message lists its problems.
        ConflictError: another version is current, or there is a case with this id already.
    """
    store, runner = engine.store, engine.runner
    chosen = runner.chosen  # raises before anything is stored
    case = redacted_case(_only_case(record), store.redacting)
    now_ns = engine.clock()

    def write(con: Connection) -> Case | None:
        versions = case_versions(con, case.dataset, case.case_id)
        current = next((row for row in versions if row.current), None)
        _require_base(case, None if current is None else current.version, base_version)
        save_case(con, case, author, now_ns)
        return None if current is None else Case.model_validate_json(current.definition)

    previous = store.write(write)
    runner.forget_truth()
    truth = runner.truth()
    with store.read() as con:
        keys = attempts_of(con, *case.key)
    not_matched = 0
    if previous is None or _matching_fields(previous) != _matching_fields(case):
        newly_matched, not_matched = _newly_matched(store, runner, truth, case)
        keys += newly_matched
    outcomes = evaluate_again(engine, keys, chosen, on_scored)
    return Correction(case=case, outcomes=outcomes, not_matched=not_matched)


def _only_case(record: str) -> Case:
    """Return the case of a record, which may extend over several lines."""
    cases = parse_cases("case", " ".join(record.splitlines())).require()
    if len(cases) != 1:
        raise CaseError("case: enter the case as one JSON object")
    return cases[0]


def _require_base(case: Case, current: str | None, base: str | None) -> None:
    if current == base:
        return
    name = f"case {case.case_id!r} of dataset {case.dataset!r}"
    if base is None:
        raise ConflictError(f"{name} exists already: open it and correct it, or choose another case_id")
    if current is None:
        raise ConflictError(f"{name} is not current any more: its file does not contain it, or its id was changed")
    raise ConflictError(
        f"{name} was changed meanwhile: version {current} is current, yours is based on {base}; open it again"
    )


def _matching_fields(case: Case) -> tuple[object, ...]:
    return case.agent, tuple(turn.query for turn in case.turns)


def _newly_matched(store: Store, runner: EvaluationRunner, truth: Truth, case: Case) -> tuple[list[Key], int]:
    """Return the conversations that had no case and match this one, and how many were too many to be matched."""
    with store.read() as con:
        unmatched = [
            candidate.key
            for kind in ("unmatched", "ambiguous")
            for candidate in candidates(con, Selection(), kind=kind)
            if not candidate.open
        ]
    examined = unmatched[:_MAX_UNMATCHED]
    keys = [
        (item.conversation.environment, str(item.conversation.conversation_id))
        for start in range(0, len(examined), _PORTION)
        for item in runner.match(truth, examined[start : start + _PORTION])
        if item.match.case is not None and item.match.case.key == case.key
    ]
    return keys, len(unmatched) - len(examined)


def kept_corrections(store: Store, files: Sequence[TruthFile]) -> Iterator[str]:
    """Yield a message about the cases of files that keep the version of a person who corrected them."""
    cases = [
        redacted_case(case, store.redacting) for file in files for case in parse_cases(file.name, file.text).require()
    ]
    with store.read() as con:
        names = sorted(case_id for _, case_id in corrected_cases(con, cases))
    if names:
        listed = ", ".join(map(repr, names[:_MAX_NAMED]))
        more = f" and {len(names) - _MAX_NAMED:,} more" if len(names) > _MAX_NAMED else ""
        verb = "1 case keeps" if len(names) == 1 else f"{len(names):,} cases keep"
        yield (
            f"{verb} the version that a person saved after the one in the file: {listed}{more}; "
            "`otel-agentic truth export` writes the current cases"
        )


#: Statuses of pairs whose actual call is not a part of the expectation.
_NOT_EXPECTED: Final = frozenset({"allowed", "errored"})


def propose_case(engine: Engine, key: Key) -> CaseProposal:
    """Return a case by which a conversation would pass if a person accepts what the agent did; nothing is stored.

    For a conversation without a case, it is a draft of a new one. Otherwise it is the case of the conversation, changed only
    where the conversation differs from it: other calls, parameters and answers stay as they are, with their rules.

    Raises:
        BadInputError: the conversation is not in the store, it can have no case, or it was evaluated by another version of
            its case than the current one.
    """
    with engine.store.read() as con:
        newest = newest_revision(con, key, engine.store.known_ids.periods(key[1]))
        row = score_of(con, newest)
        score = None if row is None else from_json(ConversationScore, to_json_value(row))
        versions = [] if score is None else case_versions(con, score.dataset or "", score.case_id or "")
    if score is None or not versions:
        return CaseProposal(record=_draft(engine, key), base_version=None)
    current = versions[0]
    if not current.current or current.version != score.case_version:
        raise BadInputError(
            f"conversation {key[1]!r} was evaluated by version {score.case_version} of case {score.case_id!r}, which is "
            "not current; run `otel-agentic evaluate` first"
        )
    case = Case.model_validate_json(current.definition)
    return CaseProposal(record=record_of(accepting(case, newest.conversation, score)), base_version=current.version)


def _draft(engine: Engine, key: Key) -> dict[str, Any]:
    """Return a new case of a conversation, as reviewed: the person who saves it has read it."""
    request = PromotionRequest(conversation_ids=[key[1]], selection=Selection(environment=key[0]), exact=True)
    promoted = promote(engine, request, DEFAULT_DATASET)
    if not promoted.cases:
        reasons = "; ".join(skipped.reason for skipped in promoted.skipped)
        raise BadInputError(f"conversation {key[1]!r} can have no case: {reasons}")
    return record_of(promoted.cases[0].model_copy(update={"reviewed": True, "notes": None}))


def accepting(case: Case, conversation: Conversation, score: ConversationScore) -> Case:
    """Return a case changed so that it accepts the calls and answers of a conversation that was scored by it."""
    turns = list(case.turns)
    for row in score.turn_scores:
        if row.case_turn_index is None:
            continue
        turn = turns[row.case_turn_index]
        changes: dict[str, Any] = {}
        if turn.tools is not None:
            changes["tools"] = _accepting_calls(turn.tools, row.turn_index, conversation, score)
        answer = conversation.turns[row.turn_index].answer
        if row.answer_outcome == "fail" and answer:
            changes |= _accepting_answer(turn, answer)
        turns[row.case_turn_index] = turn.model_copy(update=changes)
    tools = None if case.tools is None else _accepting_calls(case.tools, None, conversation, score)
    missing = set(map(str, score.missing_outputs or ()))
    outputs = tuple(output for output in case.outputs if str(output) not in missing)
    accepted = case.model_copy(update={"turns": tuple(turns), "tools": tools, "outputs": outputs, "reviewed": True})
    return Case.model_validate_json(accepted.model_dump_json(exclude_defaults=True))


def _accepting_answer(turn: CaseTurn, answer: str) -> dict[str, Any]:
    answers = tuple(dict.fromkeys((*turn.accepted_answers, answer)))
    is_forbidden = turn.not_answer is not None
    return ({"answer": answers} if turn.accepted_answers else {}) | ({"not_answer": None} if is_forbidden else {})


def _accepting_calls(
    tools: ToolExpectation, turn_index: int | None, conversation: Conversation, score: ConversationScore
) -> ToolExpectation:
    """Return an expectation, on a turn or on the whole conversation (None), that the actual calls meet."""
    pairs = [pair for pair in score.call_pairs if pair.turn_index == turn_index]
    if not any(fault.failed for fault in _faults(score, pairs, turn_index)):
        return tools
    scored = tools if not pairs or pairs[0].alternative is None else tools.alternatives[pairs[0].alternative]
    actual = sorted(
        (pair for pair in pairs if pair.actual_position is not None and pair.status not in _NOT_EXPECTED),
        key=lambda pair: (pair.actual_turn_index or 0, pair.actual_position or 0),
    )
    steps = _steps(scored, actual, conversation)
    calls = [
        _accepting_call(
            None if pair.expected_index is None else scored.calls[pair.expected_index],
            _actual_call(conversation, pair),
            _wrong_parameters(score, pair),
            step,
        )
        for pair, step in zip(actual, steps, strict=True)
    ]
    optional = [
        scored.calls[pair.expected_index]
        for pair in pairs
        if pair.status == "optional" and pair.expected_index is not None
    ]
    forbidden = [
        pattern for pattern in scored.forbidden if not any(fnmatchcase(call.tool_name, pattern) for call in calls)
    ]
    return tools.model_copy(update={"calls": (*calls, *optional), "order": scored.order, "forbidden": tuple(forbidden)})


def _faults(score: ConversationScore, pairs: Sequence[CallPair], turn_index: int | None) -> Iterator[ToolFault]:
    """Yield the faults of the calls of an expectation; missing calls belong to the turn of their expectation."""
    positions = {(pair.actual_turn_index, pair.actual_position) for pair in pairs}
    for fault in score.tool_faults:
        if fault.actual_position is None:
            is_own = turn_index is None or fault.turn_index == turn_index
            if is_own and any(
                (pair.status, pair.expected_index) == ("missing", fault.expected_index) for pair in pairs
            ):
                yield fault
        elif (fault.turn_index, fault.actual_position) in positions:
            yield fault


def _actual_call(conversation: Conversation, pair: CallPair) -> ToolCall:
    calls = conversation.turns[pair.actual_turn_index or 0].calls
    return next(call for call in calls if call.position == pair.actual_position)


def _wrong_parameters(score: ConversationScore, pair: CallPair) -> set[str]:
    return {
        fault.parameter
        for fault in score.tool_faults
        if fault.fault == "wrong_parameters"
        and fault.parameter is not None
        and (fault.turn_index, fault.actual_position) == (pair.actual_turn_index, pair.actual_position)
    }


def _steps(tools: ToolExpectation, actual: Sequence[CallPair], conversation: Conversation) -> list[int | None]:
    """Return the expected step of each actual call: none if the expectation has none, else without gaps from 1."""
    if all(call.step is None for call in tools.calls):
        return [None] * len(actual)
    positions = [(pair.actual_turn_index or 0, _actual_call(conversation, pair).step) for pair in actual]
    numbers = {position: number for number, position in enumerate(sorted(set(positions)), start=1)}
    return [numbers[position] for position in positions]


def _accepting_call(
    expected: ExpectedCall | None, actual: ToolCall, faulty: set[str], step: int | None
) -> ExpectedCall:
    """Return an expected call with the actual values of its wrong parameters, which are then compared exactly."""
    arguments: Mapping[str, Any] = actual.arguments or {}
    if expected is None:
        return ExpectedCall(
            tool_name=actual.name,
            parameters=dict(arguments),
            step=step,
            ignore_extra_parameters=actual.arguments is None,
        )
    remaining = {name: value for name, value in expected.parameters.items() if name not in faulty}
    corrected = {name: arguments[name] for name in sorted(faulty) if name in arguments}
    match = {name: rule for name, rule in expected.match.items() if name not in faulty}
    return expected.model_copy(update={"parameters": remaining | corrected, "match": match, "step": step})
