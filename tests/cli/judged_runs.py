"""Small stores in which it is known who was right: an agent that looks orders up, case by case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cli.running import done
from tests.cli.small import NOON_NS, SECOND_NS, conversation, write_cases, write_spans

HOUR_NS = 3600 * SECOND_NS


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Spans and cases on disk."""

    spans: Path
    cases: Path


def write_run(
    folder: Path,
    outcomes: Mapping[str, Sequence[bool]],
    *,
    name: str = "run",
    agent: str = "clerk",
    version: str = "1.0",
    start_ns: int = NOON_NS,
    tags: Sequence[str] = (),
    unmatched: int = 0,
) -> Files:
    """Write conversations, an attempt of each case for each outcome, and the cases; `unmatched` more have no case.

    A conversation ends an hour after the one before.
    """
    attempts = [(case, right) for case, conversations in outcomes.items() for right in conversations]
    conversations = [
        conversation(
            f"{name}-{agent}-{item}",
            query=f"Where is order {case}?",
            calls=[("look_up", {"order": case if right else "another"}, '{"day": "Monday"}')],
            agent=agent,
            version=version,
            case=case,
            start_ns=start_ns + item * HOUR_NS,
        )
        for item, (case, right) in enumerate(attempts)
    ]
    conversations += [
        conversation(
            f"{name}-{agent}-other-{item}", query=f"Sing song {item}", agent=agent, version=version, start_ns=start_ns
        )
        for item in range(unmatched)
    ]
    return Files(
        spans=write_spans(folder / f"{name}.jsonl", conversations),
        cases=write_cases(folder / f"{name}-cases.jsonl", [case_of(case, tags) for case in outcomes]),
    )


def case_of(name: str, tags: Sequence[str] = ()) -> dict[str, Any]:
    """Return a case that wants one call with the right order."""
    calls = [{"tool_name": "look_up", "parameters": {"order": name}}]
    return {"case_id": name, "dataset": "orders", "tags": list(tags), "tools": {"calls": calls}}


def judged_store(
    folder: Path, outcomes: Mapping[str, Sequence[bool]], *, metrics: str = "none", **options: Any
) -> Path:
    """Return a store of a run that is scored, with the metrics of some evaluators."""
    files = write_run(folder, outcomes, **options)
    db = folder / f"{options.get('name', 'run')}.duckdb"
    done("ingest", files.spans, "--db", db, "--quiet")
    done("evaluate", "--db", db, "--cases", files.cases, "--metrics", metrics, "--quiet")
    return db


def add_run(db: Path, files: Files) -> None:
    """Add another run to a store, scored with the current cases."""
    done("ingest", files.spans, "--db", db, "--quiet")
    done("evaluate", "--db", db, "--metrics", "none", "--quiet")
