"""Commands by which people map conversations to cases."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from otel_agentic.commands.registry import Context, command
from otel_agentic.commands.truth import changes_of
from otel_agentic.reports.conversations import iso
from otel_agentic.reports.mappings import MAX_MAPPED, Choice, Subject, choices, map_to_case
from otel_agentic.results.conversations import CaseChoice, CaseChoices, MappedConversations, SimilarConversation
from otel_agentic.store.queries.conversations import Candidate
from otel_agentic.store.table import Selection

_MAX_LISTED: Final = 1000
#: Number of queries of a case that are returned: a person recognises it by the first ones.
_MAX_QUERIES: Final = 3

Name = Annotated[str, Field(min_length=1, max_length=1000)]
Limit = Annotated[int, Field(ge=1, le=_MAX_LISTED)]


@command("truth_choices", role="query")
def truth_choices(
    context: Context,
    *,
    conversation_id: Name,
    conversation_environment: str | None = None,
    exact: bool = False,
    text: str | None = None,
    asks: str | None = None,
    limit: Limit = 20,
    selection: Selection,
) -> CaseChoices:
    """Return the cases to which a conversation may be mapped, the most similar first, and the conversations like it.

    Args:
        context: the store and its resources.
        conversation_id: the conversation.
        conversation_environment: its environment, if several have a conversation with this id.
        exact: the id and the environment are its identity; see `only_conversation`.
        text: only cases that contain it in their id or in a query.
        asks: only conversations like it with a query that contains this text.
        limit: the largest number of cases, and of conversations like it.
        selection: the conversations among which others like it are searched.

    Raises:
        BadInputError: the conversation is not in the store, or several have the id.
    """
    subject = Subject(
        conversation_id=conversation_id,
        conversation_environment=conversation_environment,
        exact=exact,
        selection=selection,
        asks=asks,
    )
    result = choices(context.engine, subject, text=text)
    conversation, match = result.conversation.conversation, result.conversation.match
    return CaseChoices(
        environment=conversation.environment,
        conversation_id=str(conversation.conversation_id),
        agent=conversation.agent_name,
        queries=[turn.query for turn in conversation.turns],
        dataset=None if match.case is None else match.case.dataset,
        case_id=None if match.case is None else match.case.case_id,
        method=match.method,
        reason=match.reason,
        mapped_by=result.mapped_by,
        cases=[_choice(choice) for choice in result.cases[:limit]],
        case_total=len(result.cases),
        similar=[_similar(candidate) for candidate in result.similar[:limit]],
        similar_total=len(result.similar),
        mapped_at_once=min(len(result.similar), MAX_MAPPED - 1),
    )


@command("truth_map", role="review")
def truth_map(
    context: Context,
    *,
    conversation_id: Name,
    annotator: Annotated[str, Field(min_length=1, max_length=100)],
    case: Name | None = None,
    conversation_environment: str | None = None,
    exact: bool = False,
    similar: bool = False,
    asks: str | None = None,
    selection: Selection,
) -> MappedConversations:
    """Map a conversation to a case, `case_id` or `dataset/case_id`, and evaluate it; without a case, withdraw the choice.

    Args:
        context: the store and its resources.
        conversation_id: the conversation.
        annotator: the person who chooses.
        case: the case.
        conversation_environment: its environment, if several have a conversation with this id.
        exact: the id and the environment are its identity; see `only_conversation`.
        similar: also map the conversations like it, which `truth_choices` returns; at most the 1,000 newest at once.
        asks: see `truth_choices`.
        selection: see `truth_choices`.

    Raises:
        BadInputError: the conversation is not in the store, no current case has the name, or it is for other agents.
        UsageError: cases of several datasets have the name.
    """
    subject = Subject(
        conversation_id=conversation_id,
        conversation_environment=conversation_environment,
        exact=exact,
        selection=selection,
        asks=asks,
    )
    result = map_to_case(
        context.engine, subject, case, annotator=annotator, similar=similar, on_scored=context.on_scored
    )
    return MappedConversations(
        dataset=None if result.case is None else result.case.dataset,
        case_id=None if result.case is None else result.case.case_id,
        mapped=result.mapped,
        left_out=result.left_out,
        evaluated=len(result.outcomes.after),
        changed=changes_of(result.outcomes),
    )


def _choice(choice: Choice) -> CaseChoice:
    queries = [turn.query for turn in choice.case.turns if turn.query is not None]
    return CaseChoice(
        dataset=choice.case.dataset,
        case_id=choice.case.case_id,
        reviewed=choice.case.reviewed,
        queries=queries[:_MAX_QUERIES],
        similarity=choice.similarity,
        fits=choice.fits,
    )


def _similar(candidate: Candidate) -> SimilarConversation:
    return SimilarConversation(
        environment=candidate.environment,
        conversation_id=candidate.conversation_id,
        agent=candidate.agent,
        query=next((query for query in candidate.queries if query and query.strip()), None),
        ended_at=iso(candidate.ended_ns),
    )
