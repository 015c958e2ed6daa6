"""Agreement of a judge's verdicts with human labels, by turn and by conversation.

Human verdicts are read from a CSV file with the columns `conversation_id[,turn][,verdict|reward][,environment]`.

A row with a turn is about the answer of that turn, a row without one about the conversation as a whole. Turns count
from 1 in the column `turn`, as in all output for people, and from 0 in the column `turn_index`, as in the store and in
`conversations export`. A row without a verdict has not been labelled yet. Columns that help the annotator (query,
expected, answer, agent, notes), and the case id of a labels file of `evaluate`, are allowed and ignored.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from otel_agentic.errors import CaseError
from otel_agentic.stats.judge_error import (
    Agreement,
    CurvePoint,
    VerdictPair,
    agreement_of,
    best_threshold,
    threshold_curve,
)
from otel_agentic.truth.formats.located import column_problems
from otel_agentic.truth.load import DEFAULT_REWARD_THRESHOLD, read_verdict

if TYPE_CHECKING:
    from otel_agentic.stats.model import CaseKey

_READ: Final = ("conversation_id", "turn", "turn_index", "verdict", "reward", "environment")
_IGNORED: Final = ("case_id", "query", "expected", "answer", "agent", "notes")
_ALLOWED: Final = "conversation_id[,turn][,verdict|reward][,environment]"


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanLabel:
    """A person's verdict, True for a pass, on a turn (`turn_index`, 0-based) or on the conversation (None).

    `environment` is None if the file does not state it. `source` is the file and line.
    """

    conversation_id: str
    environment: str | None
    turn_index: int | None
    verdict: bool
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanLabelFile:
    """The verdicts of one file, the number of rows without a verdict, and the problems of the other lines."""

    labels: tuple[HumanLabel, ...]
    blank: int
    problems: tuple[str, ...]

    def require(self) -> HumanLabelFile:
        """Return the file.

        Raises:
            CaseError: there are problems; the message lists them, one per line.
        """
        if self.problems:
            raise CaseError("\n".join(self.problems))
        return self


def parse_human_labels(name: str, text: str, *, reward_threshold: float = DEFAULT_REWARD_THRESHOLD) -> HumanLabelFile:
    """Return the content of a CSV of human verdicts; `name` identifies the file in messages."""
    reader = csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline=""), restkey="", restval="", strict=True)
    labels: dict[tuple[str, str | None, int | None], HumanLabel] = {}
    problems, blank = [], 0
    try:
        header = reader.fieldnames = [cell.strip().lower() for cell in reader.fieldnames or ()]
        problems += [f"{name}:1: {problem}" for problem in _header_problems(header)]
        for row in () if problems else reader:
            source = f"{name}:{reader.line_num}"
            try:
                label = _read_row(row, source, reward_threshold)
                blank += label is None
                if label is not None:
                    _add(label, labels)
            except ValueError as error:
                problems.append(f"{source}: {error}")
    except csv.Error as error:
        problems.append(
            f"{name}:{reader.line_num + 1}: not readable as CSV: {error}; quote cells according to RFC 4180"
        )
    return HumanLabelFile(labels=tuple(labels.values()), blank=blank, problems=tuple(problems))


def _header_problems(header: list[str]) -> Iterator[str]:
    if "conversation_id" not in header:
        yield f"conversation_id: column missing, found {','.join(header) or 'no columns'}; allowed: {_ALLOWED}"
        return
    allowed = f"{_ALLOWED}, and for information: {', '.join(_IGNORED)}"
    yield from column_problems(header, (*_READ, *_IGNORED), allowed)
    for first, second in (("verdict", "reward"), ("turn", "turn_index")):
        if {first, second} <= set(header):
            yield f"{first}, {second}: both columns are present; keep one"
    if not {"verdict", "reward"} & set(header):
        yield f"verdict: column missing; a person's verdict belongs in verdict or reward; allowed: {_ALLOWED}"


def _read_row(row: Mapping[str, str], source: str, reward_threshold: float) -> HumanLabel | None:
    """Return the label of a row, or None for a row without a verdict.

    Raises:
        ValueError: a cell has an invalid value; the message names the column.
    """
    if row.get(""):
        raise ValueError("more cells than columns in the header; quote a cell that contains a comma")
    cells = {column: cell.strip() for column, cell in row.items() if column}
    verdict = read_verdict(cells.get("verdict", ""), cells.get("reward", ""), reward_threshold)
    if verdict is None:
        return None
    if not cells["conversation_id"]:
        raise ValueError("conversation_id: empty; every row needs a conversation")
    return HumanLabel(
        conversation_id=cells["conversation_id"],
        environment=cells.get("environment") or None,
        turn_index=_turn_index(cells),
        verdict=verdict,
        source=source,
    )


def _turn_index(cells: Mapping[str, str]) -> int | None:
    for column, first, other in (("turn", 1, "turn_index counts from 0"), ("turn_index", 0, "turn counts from 1")):
        text = cells.get(column, "")
        if text:
            if not (text.isascii() and text.isdecimal() and int(text) >= first):
                raise ValueError(
                    f"{column}: found {text!r}; allowed: a whole number from {first} (a column {other}), or empty"
                )
            return int(text) - first
    return None


def _add(label: HumanLabel, labels: dict[tuple[str, str | None, int | None], HumanLabel]) -> None:
    """Add a label.

    Raises:
        ValueError: the same turn or conversation already has the other verdict; the message names its line.
    """
    first = labels.setdefault((label.conversation_id, label.environment, label.turn_index), label)
    if first.verdict != label.verdict:
        target = "conversation" if label.turn_index is None else f"turn {label.turn_index + 1} of conversation"
        raise ValueError(
            f"{target} {label.conversation_id!r} has the other verdict at {first.source}; keep one of them"
        )


Target = Literal["turn", "conversation", "call"]
#: A judge, by name and version.
JudgeVersion = tuple[str, str]
#: The targets of calibrations of answers and outcomes.
TARGETS: Final[tuple[Target, ...]] = ("turn", "conversation")
#: The reason for a missing verdict if a judge does not decide.
UNSURE: Final = "judge_unsure"
#: With fewer labels of a class than this, its rate is uncertain: half the width of its interval exceeds 0.14.
_FEW: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """A turn (`turn_index`, 0-based), call (`position`, too) or conversation with a human verdict and the judge's outcome.

    `human` is True for a pass. `outcome` is the judge's; `reason` explains why it is missing or a fail. `score` is the
    score of the answer, or the lowest score among the answers of a conversation; None if no answer was judged or
    another criterion decided. `judge` is the name and version of the judge whose verdict on an answer determined the
    outcome, or that was unsure; None if no judge took part, for example if tool calls decided. The texts are for
    display, None if missing. `ended_ns` is the time at which the conversation ended.
    """

    environment: str
    conversation_id: str
    revision: int
    turn_index: int | None
    dataset: str | None
    case_id: str | None
    human: bool
    outcome: Literal["pass", "fail", "not_evaluated"]
    reason: str | None
    score: float | None
    ended_ns: int
    query: str | None = None
    expected: str | None = None
    answer: str | None = None
    reasoning: str | None = None
    judge: JudgeVersion | None = None
    position: int | None = None

    @property
    def case_key(self) -> CaseKey:
        """The cluster of attempts: the case, else the conversation itself. No dataset is named "", so none clash."""
        if self.case_id is None:
            return ("", repr((self.environment, self.conversation_id)))
        return (self.dataset or "", self.case_id)

    @property
    def disagrees(self) -> bool:
        """Whether the judge's verdict differs from the human one."""
        return self.outcome != "not_evaluated" and (self.outcome == "pass") != self.human


@dataclass(frozen=True, slots=True, kw_only=True)
class Decider:
    """The labelled items that one judge decided, or that were decided without a judge (`judge` is None).

    `agreement` covers the decided items; `unsure` counts the further items about which the judge was unsure.
    """

    judge: JudgeVersion | None
    agreement: Agreement
    unsure: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Agreement of outcomes with human labels on turns, or on conversations, and how many of them each judge decided.

    `not_judged` counts, by reason, the labelled items without a verdict of the judge; no figure includes them. `curve`
    and `best` are computed from the `curve_n` labelled items with a score. `best` is None if the human verdicts are of
    one class only; it is chosen on the same labels on which it is measured. `deciders` are the judges, then (if any)
    the items that no judge decided. `examples` are disagreements.
    """

    target: Target
    agreement: Agreement
    not_judged: Mapping[str, int]
    threshold: float | None
    curve: tuple[CurvePoint, ...]
    curve_n: int
    best: CurvePoint | None
    deciders: tuple[Decider, ...]
    examples: tuple[Labelled, ...]
    warnings: tuple[str, ...]


def calibrate(
    target: Target, labelled: Sequence[Labelled], *, threshold: float | None, level: float, examples: int = 10
) -> Calibration:
    """Return the agreement of the judge with human labels.

    Args:
        target: the kind of all labelled items: turns, or conversations.
        labelled: the labelled items, each once.
        threshold: the smallest passing score; None if no threshold decides.
        level: confidence level of the intervals.
        examples: maximum number of disagreements of each kind.
    """
    decided = [item for item in labelled if item.outcome != "not_evaluated"]
    scored = [(item.score, item.human) for item in decided if item.score is not None and threshold is not None]
    curve = threshold_curve(scored)
    return Calibration(
        target=target,
        agreement=_agreement(decided, level),
        not_judged=_not_judged(labelled),
        threshold=threshold,
        curve=tuple(curve),
        curve_n=len(scored),
        # Among equally good thresholds the active one is retained. It rarely equals a score, so it is added to the
        # curve.
        best=None if threshold is None else best_threshold(threshold_curve(scored, also=[threshold]), threshold),
        deciders=tuple(_deciders(labelled, level)),
        examples=tuple(_examples(decided, threshold, examples)),
        warnings=tuple(_warnings(target, decided)),
    )


def _agreement(decided: Sequence[Labelled], level: float) -> Agreement:
    pairs = [VerdictPair(judge=item.outcome == "pass", human=item.human, case=item.case_key) for item in decided]
    return agreement_of(pairs, level)


def _deciders(labelled: Sequence[Labelled], level: float) -> Iterator[Decider]:
    """Yield the deciders: judges by name and version, then the items that no judge decided."""
    judges = sorted({item.judge for item in labelled if item.judge is not None})
    for judge in (*judges, None):
        judge_items = [item for item in labelled if item.judge == judge]
        decided = [item for item in judge_items if item.outcome != "not_evaluated"]
        unsure = sum(item.reason == UNSURE for item in judge_items)
        if decided or unsure:
            yield Decider(judge=judge, agreement=_agreement(decided, level), unsure=unsure)


def _not_judged(labelled: Sequence[Labelled]) -> dict[str, int]:
    counts = Counter(item.reason or "no_data" for item in labelled if item.outcome == "not_evaluated")
    return dict(sorted(counts.items()))


def _examples(decided: Sequence[Labelled], threshold: float | None, limit: int) -> Iterator[Labelled]:
    """Yield disagreements, false passes first: by decreasing confidence of the judge, then the newest."""

    def confidence(item: Labelled) -> tuple[float, int]:
        distance = 0.0 if item.score is None or threshold is None else abs(item.score - threshold)
        return (distance, item.ended_ns)

    for human in (False, True):
        disagreements = [item for item in decided if item.disagrees and item.human == human]
        yield from sorted(disagreements, key=confidence, reverse=True)[:limit]


def _warnings(target: Target, decided: Sequence[Labelled]) -> Iterator[str]:
    passes = sum(item.human for item in decided)
    fails = len(decided) - passes
    if not decided:
        return
    for count, word, rate in ((passes, "passing", "sensitivity"), (fails, "failing", "specificity")):
        if count == 0:
            yield f"people labelled no {word} {target}: {rate}, the best threshold and kappa cannot be determined"
        elif count < _FEW:
            yield f"only {count} {word} {target}{'' if count == 1 else 's'} among the labels: {rate} is uncertain, see its interval"
