"""Commands on ground truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

from pydantic import Field

from otel_agentic.commands.registry import Context, command
from otel_agentic.errors import BadInputError, UsageError
from otel_agentic.evaluation.scope import TruthFile, check_labels, unknown_labels
from otel_agentic.reports.conversations import iso
from otel_agentic.reports.corrections import Reevaluation, correct_case, kept_corrections, propose_case
from otel_agentic.reports.promotion import PromotionRequest, clusters_of, promote
from otel_agentic.results import JsonObject
from otel_agentic.results.conversations import (
    CaseHistory,
    CaseProposal,
    CaseVersion,
    DatasetChange,
    NotPromoted,
    OutcomeChange,
    Promotion,
    QueryCluster,
    SavedCase,
    TruthImport,
)
from otel_agentic.store.connection import DEFAULT, to_json_value
from otel_agentic.store.queries.conversations import candidates, only_conversation
from otel_agentic.store.table import Selection
from otel_agentic.store.truth import (
    MatchKind,
    case_versions,
    current_datasets,
    datasets_of,
    list_cases,
    list_datasets,
    list_matches,
    load_cases,
)
from otel_agentic.truth import Case
from otel_agentic.truth.formats.base import record_of
from otel_agentic.truth.promote import DEFAULT_DATASET

Limit = Annotated[int, Field(ge=1)]
_LIST_CASES: Final = "`otel-agentic truth list` lists the cases"
#: The fields that come first in a draft, because they help a person to edit it.
_FIRST: Final = ("case_id", "dataset", "reviewed", "notes", "promoted_from", "tags", "agent")


@command("truth_import")
def truth_import(
    context: Context,
    *,
    cases: Sequence[tuple[str, str]] = (),
    labels: Sequence[tuple[str, str]] = (),
    random_sample: bool = False,
) -> TruthImport:
    """Import cases (native JSON lines) and labels (CSV), each as (name, text); `evaluate` applies them.

    `random_sample` declares that the labelled conversations were drawn at random.
    """
    with context.engine.store.read() as con:
        before = current_datasets(con)
    label_files = [TruthFile(name=name, text=text) for name, text in labels]
    check_labels(context.engine.store, label_files)
    case_files = [TruthFile(name=name, text=text) for name, text in cases]
    new_cases = context.engine.runner.remember(case_files, label_files, random_sample=random_sample)
    with context.engine.store.read() as con:
        rows = list_cases(con)
        after = current_datasets(con)
    counts = {name: sum(row["dataset"] == name for row in rows) for name in sorted(before.keys() | after.keys())}
    datasets = [
        DatasetChange(dataset=name, version=after.get(name), cases=count, changed=before.get(name) != after.get(name))
        for name, count in counts.items()
    ]
    return TruthImport(
        new_case_versions=new_cases,
        cases=len(rows),
        labels=len(context.engine.runner.truth().labels),
        datasets=datasets,
        warnings=[
            *unknown_labels(context.engine.store, label_files),
            *kept_corrections(context.engine.store, case_files),
        ],
    )


@command("truth_list", role="query")
def truth_list(context: Context) -> Any:
    """Return the current cases, each with the version of its dataset."""
    with context.engine.store.read() as con:
        versions = current_datasets(con)
        return to_json_value([{**row, "dataset_version": versions[row["dataset"]]} for row in list_cases(con)])


@command("truth_case", role="query")
def truth_case(context: Context, *, case_id: str, dataset: str | None = None) -> CaseHistory:
    """Return the versions of a case.

    Raises:
        BadInputError: no dataset has the case, or several have it and none is chosen.
    """
    with context.engine.store.read() as con:
        datasets = datasets_of(con, case_id)
        if dataset is None and len(datasets) == 1:
            (dataset,) = datasets
        if dataset is None or dataset not in datasets:
            known = f"datasets with a case of this id: {', '.join(map(repr, datasets))}" if datasets else _LIST_CASES
            raise BadInputError(f"case {case_id!r} of dataset {dataset!r} is not in the store; {known}")
        versions = case_versions(con, dataset, case_id)
    return CaseHistory(
        dataset=dataset,
        case_id=case_id,
        versions=[
            CaseVersion(
                version=row.version,
                current=row.current,
                author=row.author,
                source=row.source,
                saved_at=str(to_json_value(row.imported_at)),
                attempts=row.attempts,
                n=row.n,
                c=row.c,
                record=record_of(Case.model_validate_json(row.definition)),
            )
            for row in versions
        ],
    )


@command("truth_propose", role="query")
def truth_propose(
    context: Context, *, conversation_id: str, environment: str | None = None, exact: bool = False
) -> CaseProposal:
    """Return a case by which a conversation would pass. Nothing is stored: a person checks it and saves it.

    For `exact`, see `only_conversation`.

    Raises:
        BadInputError: the conversation is not in the store, or it can have no case.
    """
    with context.engine.store.read() as con:
        key = only_conversation(con, conversation_id, environment, exact=exact)
    return propose_case(context.engine, key)


@command("truth_save", role="review")
def truth_save(
    context: Context,
    *,
    record: Annotated[str, Field(max_length=1024 * 1024)],
    author: Annotated[str, Field(min_length=1, max_length=100)],
    base_version: str | None = None,
) -> SavedCase:
    """Save a case, JSON text, as its current version and evaluate the conversations that it concerns.

    Args:
        context: the store and its resources.
        record: the whole case in the native format.
        author: the person who saves it.
        base_version: the version that was changed; None for a new case.

    Raises:
        CaseError: the case is invalid.
        ConflictError: another version is current now.
    """
    correction = correct_case(
        context.engine, record, base_version=base_version, author=author, on_scored=context.on_scored
    )
    return SavedCase(
        dataset=correction.case.dataset,
        case_id=correction.case.case_id,
        version=correction.case.version,
        evaluated=len(correction.outcomes.after),
        changed=changes_of(correction.outcomes),
        not_matched=correction.not_matched,
    )


def changes_of(outcomes: Reevaluation) -> list[OutcomeChange]:
    """Return the outcomes that an evaluation changed."""
    return [
        OutcomeChange(
            environment=after.environment,
            conversation_id=after.conversation_id,
            agent=after.agent,
            agent_version=after.agent_version,
            before=before,
            after=after.outcome,
        )
        for before, after in outcomes.changed
    ]


@command("truth_datasets", role="query")
def truth_datasets(context: Context, *, dataset: str | None = None) -> Any:
    """Return the versions of datasets, newest first."""
    with context.engine.store.read() as con:
        return to_json_value(list_datasets(con, dataset))


@command("truth_export", role="query")
def truth_export(context: Context, *, dataset: str | None = None) -> list[Any]:
    """Return the current cases as native records, by dataset and case id.

    Raises:
        BadInputError: the store has no current case.
    """
    with context.engine.store.read() as con:
        cases = load_cases(con)
    selected_cases = [case for case in cases if dataset is None or case.dataset == dataset]
    if not selected_cases:
        names = ", ".join(sorted({case.dataset for case in cases}))
        raise BadInputError(
            f"no case of dataset {dataset!r} is current; datasets: {names}"
            if names
            else "no current cases; `otel-agentic truth import FILE` imports some"
        )
    return [record_of(case) for case in selected_cases]


@command("truth_matches", role="query")
def truth_matches(
    context: Context,
    *,
    selection: Selection,
    only: MatchKind | None = None,
    evaluation: str = DEFAULT,
) -> Any:
    """Return which case each conversation was matched to, and how."""
    with context.showing(evaluation).store.read() as con:
        return to_json_value([{"evaluation": evaluation, **row} for row in list_matches(con, selection, only=only)])


@command("truth_clusters", role="query")
def truth_clusters(
    context: Context,
    *,
    selection: Selection,
    only: MatchKind = "unmatched",
    text: str | None = None,
    evaluation: str = DEFAULT,
) -> list[QueryCluster]:
    """Return clusters of conversations with similar first queries, the largest cluster first.

    `text`: only conversations with a query that contains it.
    """
    with context.showing(evaluation).store.read() as con:
        conversations = candidates(con, selection, kind=only, text=text)
    return [
        QueryCluster(
            evaluation=evaluation,
            query=cluster.query,
            size=cluster.size,
            share=cluster.share,
            agents=list(cluster.agents),
            example_conversation=cluster.example.conversation_id,
            environment=cluster.example.environment,
            first_seen=iso(cluster.first_seen_ns),
            last_seen=iso(cluster.last_seen_ns),
        )
        for cluster in clusters_of(conversations)
    ]


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
    selection: Selection,
) -> Promotion:
    """Return drafts of cases made from conversations: from the named ones, else from failing and unmatched ones.

    Tags are added to the drafts, and to the current cases of the selected conversations, which are then also returned.
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
        tags=tuple(dict.fromkeys(tags)),
        selection=selection,
    )
    promotion = promote(context.engine, request, dataset)
    return Promotion(
        cases=[_record(case) for case in promotion.cases],
        tagged=[_record(case) for case in promotion.tagged],
        left_out=[
            NotPromoted(
                conversation_id=not_promoted.candidate.conversation_id,
                environment=not_promoted.candidate.environment,
                reason=not_promoted.reason,
                case_id=not_promoted.case.case_id if not_promoted.case else None,
                dataset=not_promoted.case.dataset if not_promoted.case else None,
            )
            for not_promoted in promotion.skipped
        ],
        unscored=promotion.unscored,
    )


def _record(case: Case) -> JsonObject:
    record = record_of(case)
    return {name: record[name] for name in dict.fromkeys([*_FIRST, *record]) if name in record}
