"""Commands about which conversation is an attempt of which case."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal

from pydantic import Field

from otel_agentic.errors import UsageError
from otel_agentic.pipeline.commands.base import EngineCommands, Json
from otel_agentic.pipeline.export import iso
from otel_agentic.pipeline.promote import Promoted, Wanted, clusters_of, promote
from otel_agentic.pipeline.wire import plain
from otel_agentic.store.evaluations import DEFAULT
from otel_agentic.store.matches import list_matches
from otel_agentic.store.promotion import candidates
from otel_agentic.store.selection import Selection
from otel_agentic.truth import Case
from otel_agentic.truth.clusters import Cluster
from otel_agentic.truth.formats.base import record_of
from otel_agentic.truth.promote import DEFAULT_DATASET

Limit = Annotated[int, Field(ge=1)]
Only = Literal["unmatched", "ambiguous", "warning", "suggested", "text"]
#: What helps a person to edit a draft stands first in it.
_FIRST: Final = ("case_id", "dataset", "reviewed", "notes", "promoted_from", "tags", "agent")


class MatchCommands(EngineCommands):
    """Tell what was matched, and what was not; make cases of conversations."""

    def truth_matches(
        self,
        *,
        since_ns: int | None = None,
        until_ns: int | None = None,
        agent: str | None = None,
        only: Only | None = None,
        evaluation: str = DEFAULT,
    ) -> Json:
        """Return which case each conversation was matched to, and how."""
        selection = Selection(since_ns=since_ns, until_ns=until_ns, agent=agent)
        with self._showing(evaluation).store.read() as con:
            return plain([{"evaluation": evaluation, **row} for row in list_matches(con, selection, only=only)])

    def truth_clusters(
        self,
        *,
        since_ns: int | None = None,
        until_ns: int | None = None,
        agent: str | None = None,
        only: Only = "unmatched",
        evaluation: str = DEFAULT,
    ) -> Json:
        """Return conversations by what they begin with, the largest cluster first."""
        selection = Selection(since_ns=since_ns, until_ns=until_ns, agent=agent)
        with self._showing(evaluation).store.read() as con:
            found = candidates(con, selection, kind=only)
        return [{"evaluation": evaluation, **_cluster_json(one)} for one in clusters_of(found)]

    def truth_promote(
        self,
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
    ) -> dict[str, Json]:
        """Return drafts of cases made of conversations: of the named ones, else of failing and unmatched ones.

        With tags, the cases bear them; those in force that conversations of the selection belong to come with them, too.
        """
        if not dataset:
            raise UsageError("a dataset needs a name")
        if not all(tag.strip() for tag in tags):
            raise UsageError("--tag: a tag needs a name, such as regression")
        wanted = Wanted(
            conversation_ids=conversation_ids,
            failing=failing,
            unmatched=unmatched,
            limit=limit,
            environment=environment,
            tags=tuple(dict.fromkeys(tags)),
            selection=Selection(since_ns=since_ns, until_ns=until_ns, agent=agent),
        )
        return _promoted_json(promote(self._engine, wanted, dataset))


def _cluster_json(found: Cluster) -> dict[str, Json]:
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


def _promoted_json(found: Promoted) -> dict[str, Json]:
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
            for one in found.left_out
        ],
        "unscored": found.unscored,
    }


def _case_json(case: Case) -> dict[str, Json]:
    said = record_of(case)
    return {name: said[name] for name in dict.fromkeys([*_FIRST, *said]) if name in said}
