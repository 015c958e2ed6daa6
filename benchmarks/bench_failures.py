"""Count the failures that need neither a case nor a judge, on real and on scripted runs.

Reads tau-airline and the captures from the shared data folder. For tau-airline, it prints the share of conversations with such
a failure among those labelled as successes and as failures. `--list` prints each failure with the answer of its turn. Agents
rarely hide an error, so the benchmark constructs hidden errors: each tau-airline conversation is cut at a failed call, and its
answer is replaced by an answer that followed a successful call of the same tool.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from otel_agentic.config import EvaluatorSettings, ScoringSettings, Settings
from otel_agentic.evaluators.base import MetricScore, Subject
from otel_agentic.evaluators.failures import failures_of
from otel_agentic.evaluators.layers import Validity
from otel_agentic.evaluators.operations import TOOL_FAILURE, Calls
from otel_agentic.evaluators.recovery import Recovery, mentions_trouble
from otel_agentic.evaluators.run import FailureRules, evaluating
from otel_agentic.judges.dialogue import run_dialogues
from otel_agentic.reports.doctor import read_traces
from otel_agentic.truth import read_labels
from tests.shared import SHARED, why_absent

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation, Turn

_EVALUATORS: Final = (Recovery(), Calls(), Validity())
_LABELLED: Final = (".tool_failure", ".turn_end")
_PRINTED: Final = 200


def main() -> None:
    """Print the failures raised on tau-airline, compared with its labels, and on the captures."""
    airline, captures = SHARED / "data" / "tau-airline", SHARED / "captures"
    why = why_absent(airline) or why_absent(captures)
    if why is not None:
        print(why)
        return
    labels = {key: label.verdict for key, label in read_labels(airline / "labels.csv").labels.items()}
    conversations = _read([str(airline / "spans.jsonl.gz")])
    _print("tau-airline", conversations, labels)
    hidden = list(_hidden(conversations))
    labels_of_failures = Counter(
        score.label for conversation in hidden for score in _scores(conversation) if score.name == TOOL_FAILURE
    )
    answers = [
        turn.answer
        for conversation in conversations
        for turn in conversation.turns
        if turn.answer is not None and _worked(turn)
    ]
    worded = sum(mentions_trouble(answer, "") for answer in answers)
    print(f"answers after calls that worked: {len(answers)}, of which {worded} contain a word for trouble")
    print(f"hidden errors: {len(hidden)}; {', '.join(f'{n} {label}' for label, n in labels_of_failures.most_common())}")
    folders = sorted(folder for folder in captures.iterdir() if folder.is_dir())
    _print(
        "captures", [conversation for folder in folders for conversation in _read(map(str, folder.glob("*.jsonl")))], {}
    )


def _read(paths: Iterable[str]) -> list[Conversation]:
    return [assembled.conversation for assembled in read_traces(Settings(), sorted(paths)).conversations]


def _scores(conversation: Conversation) -> list[MetricScore]:
    subject = Subject(conversation=conversation, case=None, score=None, aligned={}, settings=ScoringSettings())
    ((_, results),) = run_dialogues([evaluating(_EVALUATORS, subject)], lambda _: ())
    return [score for ran in results for score in ran.scores]


def _worked(turn: Turn) -> bool:
    return bool(turn.calls) and all(call.error is None for call in turn.calls)


def _hidden(conversations: list[Conversation]) -> Iterator[Conversation]:
    """Yield each conversation, cut at a failed call, with answers that followed a successful call of the tool."""
    good: dict[str, list[str]] = {}
    for turn in (turn for conversation in conversations for turn in conversation.turns):
        if turn.answer is not None and _worked(turn):
            good.setdefault(turn.calls[-1].name, []).append(turn.answer)
    hidden: Counter[str] = Counter()
    for conversation in conversations:
        for turn in conversation.turns:
            failed = [call for call in turn.calls if call.error is not None]
            if failed and failed[-1].name in good:
                answers = good[failed[-1].name]
                hidden[failed[-1].name] += 1
                last = replace(
                    turn,
                    answer=answers[hidden[failed[-1].name] % len(answers)],
                    answer_captured=True,
                    calls=turn.calls[: turn.calls.index(failed[-1]) + 1],
                )
                yield replace(conversation, turns=(last,))


def _print(what: str, conversations: list[Conversation], labels: Mapping[str, bool | None]) -> None:
    rules = FailureRules(
        [metric for conversation in _EVALUATORS for metric in conversation.metrics], EvaluatorSettings()
    )
    counts: Counter[str] = Counter()
    raised: Counter[str] = Counter()
    affected: set[str] = set()
    for conversation in conversations:
        scores = _scores(conversation)
        subject = Subject(conversation=conversation, case=None, score=None, aligned={}, settings=ScoringSettings())
        counts.update(
            f"{s.name.rpartition('.')[2]} {s.label}" for s in scores if s.label and s.name.endswith(_LABELLED)
        )
        for failure in failures_of(subject, scores, rules):
            raised[" ".join(filter(None, (failure.metric.removeprefix("agentic."), failure.label)))] += 1
            affected.add(conversation.conversation_id)
            if "--list" in sys.argv:
                answer = None if failure.turn_index is None else conversation.turns[failure.turn_index].answer
                print(
                    f"- {conversation.conversation_id}: {failure.explanation}\n  answer: {(answer or '')[:_PRINTED]!r}"
                )
    print(
        f"{what}: {len(conversations)} conversations; {', '.join(f'{n:,} {name}' for name, n in sorted(counts.items()))}"
    )
    print(f"  raised: {', '.join(f'{n} {name}' for name, n in raised.most_common())}; in {len(affected)} conversations")
    for verdict, name in ((True, "success"), (False, "failure")):
        labelled = [key for key, label in labels.items() if label is verdict]
        if labelled:
            print(f"  labelled {name}: {sum(key in affected for key in labelled)} of {len(labelled)} conversations")


if __name__ == "__main__":
    main()
