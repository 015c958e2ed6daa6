"""Failures that need neither a case nor a judge: how many are raised on real and on scripted runs, and in which.

Reads tau-airline and the captures from the folder of shared data. Of tau-airline it prints the share of conversations with such
a failure among those labelled as successes and as failures; `--list` prints each failure with the answer of its turn, to be read.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Final

from otel_agentic.config import EvaluatorSettings, ScoringSettings, Settings
from otel_agentic.evaluators.base import Subject
from otel_agentic.evaluators.failures import FailureRules, failures_of
from otel_agentic.evaluators.layers import Validity
from otel_agentic.evaluators.operations import Calls, Recovery
from otel_agentic.evaluators.run import evaluate
from otel_agentic.pipeline.inspect import read_traces
from otel_agentic.truth import read_labels
from tests.shared import SHARED, why_absent

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from otel_agentic.conversations.model import Conversation

_EVALUATORS: Final = (Recovery(), Calls(), Validity())
_LABELLED: Final = (".tool_failure", ".turn_end")
_SHOWN: Final = 200


def main() -> None:
    """Print what is raised on tau-airline, held against its labels, and on the captures."""
    airline, captures = SHARED / "data" / "tau-airline", SHARED / "captures"
    why = why_absent(airline) or why_absent(captures)
    if why is not None:
        print(why)
        return
    labels = {key: label.verdict for key, label in read_labels(airline / "labels.csv").labels.items()}
    _print("tau-airline", _read([str(airline / "spans.jsonl.gz")]), labels)
    folders = sorted(folder for folder in captures.iterdir() if folder.is_dir())
    _print("captures", [one for folder in folders for one in _read(map(str, folder.glob("*.jsonl")))], {})


def _read(paths: Iterable[str]) -> list[Conversation]:
    return [made.conversation for made in read_traces(Settings(), sorted(paths)).conversations]


def _print(what: str, conversations: list[Conversation], labels: Mapping[str, bool | None]) -> None:
    rules = FailureRules([metric for one in _EVALUATORS for metric in one.metrics], EvaluatorSettings())
    counts: Counter[str] = Counter()
    raised: Counter[str] = Counter()
    affected: set[str] = set()
    for one in conversations:
        subject = Subject(conversation=one, case=None, score=None, aligned={}, settings=ScoringSettings())
        scores = [score for ran in evaluate(_EVALUATORS, [subject]) for score in ran.scores]
        counts.update(
            f"{s.name.rpartition('.')[2]} {s.label}" for s in scores if s.label and s.name.endswith(_LABELLED)
        )
        for failure in failures_of(subject, scores, rules):
            raised[" ".join(filter(None, (failure.metric.removeprefix("agentic."), failure.label)))] += 1
            affected.add(one.conversation_id)
            if "--list" in sys.argv:
                answer = None if failure.turn_index is None else one.turns[failure.turn_index].answer
                print(f"- {one.conversation_id}: {failure.explanation}\n  answer: {(answer or '')[:_SHOWN]!r}")
    print(
        f"{what}: {len(conversations)} conversations; {', '.join(f'{n:,} {name}' for name, n in sorted(counts.items()))}"
    )
    print(f"  raised: {', '.join(f'{n} {name}' for name, n in raised.most_common())}; in {len(affected)} conversations")
    for verdict, name in ((True, "success"), (False, "failure")):
        labelled = [key for key, given in labels.items() if given is verdict]
        if labelled:
            print(f"  labelled {name}: {sum(key in affected for key in labelled)} of {len(labelled)} conversations")


if __name__ == "__main__":
    main()
