"""Commands about ground truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from otel_agentic.commands.registry import Context, command
from otel_agentic.errors import BadInputError, UsageError
from otel_agentic.evaluation.truth import TruthFile, unknown_labels
from otel_agentic.reports.conversations import iso
from otel_agentic.reports.promotion import Promoted, PromotionRequest, clusters_of, promote
from otel_agentic.store.queries.conversations import candidates
from otel_agentic.store.selection import DEFAULT, Selection, to_json_value
from otel_agentic.store.truth import current_datasets, list_cases, list_datasets, list_matches, load_cases
from otel_agentic.truth import Case
from otel_agentic.truth.formats.base import record_of
from otel_agentic.truth.promote import DEFAULT_DATASET, Cluster

Limit = Annotated[int, Field(ge=1)]
Only = Literal["unmatched", "ambiguous", "warning", "suggested", "text"]
#: What helps a person to edit a draft stands first in it.
_FIRST: Final = ("case_id", "dataset", "reviewed", "notes", "promoted_from", "tags", "agent")


@command("truth_import")
def truth_import(
    context: Context, *, cases: Sequence[tuple[str, str]] = (), labels: Sequence[tuple[str, str]] = ()
) -> dict[str, Any]:
    """Put cases (native JSON lines) and labels (CSV), given as (name, text), in force; `evaluate` applies them."""
    with context.engine.store.read() as con:
        before = current_datasets(con)
    files_of_labels = [TruthFile(name=name, text=text) for name, text in labels]
    fresh = context.engine.evaluating.remember(
        [TruthFile(name=name, text=text) for name, text in cases], files_of_labels
    )
    with context.engine.store.read() as con:
        rows = list_cases(con)
        after = current_datasets(con)
    counts = {name: sum(row["dataset"] == name for row in rows) for name in sorted(before.keys() | after.keys())}
    datasets = [
        {
            "dataset": name,
            "version": after.get(name),
            "cases": count,
            "changed": before.get(name) != after.get(name),
        }
        for name, count in counts.items()
    ]
    return {
        "new_case_versions": fresh,
        "cases": len(rows),
        "labels": len(context.engine.evaluating.truth().labels),
        "datasets": datasets,
        "warnings": list(unknown_labels(context.engine.store, files_of_labels)),
    }


@command("truth_list", role="query")
def truth_list(context: Context) -> Any:
    """Return the cases in force, each with the version of its dataset."""
    with context.engine.store.read() as con:
        versions = current_datasets(con)
        return to_json_value([{**row, "dataset_version": versions[row["dataset"]]} for row in list_cases(con)])


@command("truth_datasets", role="query")
def truth_datasets(context: Context, *, dataset: str | None = None) -> Any:
    """Return the versions of datasets, newest first."""
    with context.engine.store.read() as con:
        return to_json_value(list_datasets(con, dataset))


@command("truth_export", role="query")
def truth_export(context: Context, *, dataset: str | None = None) -> list[Any]:
    """Return the cases in force as native records, by dataset and case id.

    Raises:
        BadInputError: there are none.
    """
    with context.engine.store.read() as con:
        cases = load_cases(con)
    wanted = [case for case in cases if dataset is None or case.dataset == dataset]
    if not wanted:
        names = ", ".join(sorted({case.dataset for case in cases}))
        raise BadInputError(
            f"no case of dataset {dataset!r} is in force; there are {names}"
            if names
            else "no cases in force; `otel-agentic truth import FILE` puts some in force"
        )
    return [record_of(case) for case in wanted]


@command("truth_matches", role="query")
def truth_matches(
    context: Context,
    *,
    since_ns: int | None = None,
    until_ns: int | None = None,
    agent: str | None = None,
    only: Only | None = None,
    evaluation: str = DEFAULT,
) -> Any:
    """Return which case each conversation was matched to, and how."""
    selection = Selection(since_ns=since_ns, until_ns=until_ns, agent=agent)
    with context.showing(evaluation).store.read() as con:
        return to_json_value([{"evaluation": evaluation, **row} for row in list_matches(con, selection, only=only)])


@command("truth_clusters", role="query")
def truth_clusters(
    context: Context,
    *,
    since_ns: int | None = None,
    until_ns: int | None = None,
    agent: str | None = None,
    only: Only = "unmatched",
    evaluation: str = DEFAULT,
) -> Any:
    """Return conversations by what they begin with, the largest cluster first."""
    selection = Selection(since_ns=since_ns, until_ns=until_ns, agent=agent)
    with context.showing(evaluation).store.read() as con:
        found = candidates(con, selection, kind=only)
    return [{"evaluation": evaluation, **_cluster_json(one)} for one in clusters_of(found)]


@command("truth_promote")
def truth_promote(
    context: Context,
    *,
    conversation_ids: Sequence[str] = (),
    failing: bool = True,
    unmatched: bool = True,
    limit: Limit | None = None,
    dataset: str = DEFAULT_DATASET,
    tags: Sequence[str] = (),
    environment: str | None = None,
    since_ns: int | None = None,
    until_ns: int | None = None,
    agent: str | None = None,
) -> dict[str, Any]:
    """Return drafts of cases made of conversations: of the named ones, else of failing and unmatched ones.

    With tags, the cases bear them; those in force that conversations of the selection belong to come with them, too.
    """
    if not dataset:
        raise UsageError("a dataset needs a name")
    if not all(tag.strip() for tag in tags):
        raise UsageError("--tag: a tag needs a name, such as regression")
    request = PromotionRequest(
        conversation_ids=conversation_ids,
        failing=failing,
        unmatched=unmatched,
        limit=limit,
        environment=environment,
        tags=tuple(dict.fromkeys(tags)),
        selection=Selection(since_ns=since_ns, until_ns=until_ns, agent=agent),
    )
    return _promoted_json(promote(context.engine, request, dataset))


def _cluster_json(found: Cluster) -> dict[str, Any]:
    return {
        "query": found.query,
        "size": found.size,
        "share": found.share,
        "agents": list(found.agents),
        "example_conversation": found.example.conversation_id,
        "environment": found.example.environment,
        "first_seen": iso(found.first_seen_ns),
        "last_seen": iso(found.last_seen_ns),
    }


def _promoted_json(found: Promoted) -> dict[str, Any]:
    return {
        "cases": [_case_json(case) for case in found.cases],
        "tagged": [_case_json(case) for case in found.tagged],
        "left_out": [
            {
                "conversation_id": one.candidate.conversation_id,
                "environment": one.candidate.environment,
                "reason": one.reason,
                "case_id": one.case and one.case.case_id,
                "dataset": one.case and one.case.dataset,
            }
            for one in found.skipped
        ],
        "unscored": found.unscored,
    }


def _case_json(case: Case) -> dict[str, Any]:
    said = record_of(case)
    return {name: said[name] for name in dict.fromkeys([*_FIRST, *said]) if name in said}
