"""Commands on annotations: record what people think of conversations, turns and calls, and list it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import Field

from otel_agentic.commands.registry import Context, command
from otel_agentic.errors import BadInputError, UsageError
from otel_agentic.evaluation.run import EvaluationRequest
from otel_agentic.evaluators.registry import metric_named
from otel_agentic.reports.conversations import iso
from otel_agentic.results.annotations import (
    AnnotationList,
    AnnotationRow,
    AnnotatorAgreement,
    RecordedFeedback,
    RecordedLabel,
    Vote,
)
from otel_agentic.stats.annotators import annotator_agreement
from otel_agentic.store.annotations import (
    add_annotations,
    annotations_on,
    calls_in_turn,
    current_annotations,
    new_annotation_id,
    retract,
    turns_of,
)
from otel_agentic.store.conversations import shared_id_message
from otel_agentic.store.judges import ConversationLocation, locations_of, locations_with
from otel_agentic.store.queries.scores import comparable_scores, stored_scores
from otel_agentic.store.table import Key
from otel_agentic.truth.annotations import (
    ANSWER,
    CASE,
    CORRECT,
    Annotation,
    AnnotationTarget,
    AnnotationVerdict,
    ResolvedVerdict,
    resolve,
    votes_of,
)

Number = Annotated[int, Field(ge=1)]
Text = Annotated[str, Field(min_length=1, max_length=4000)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
_EVALUATE: Final = "`otel-agentic evaluate` applies it"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelRequest:
    """A verdict of a person on a conversation, a turn (counted from 1) or a call of a turn (counted from 1).

    Without a verdict, `retracted` withdraws what the annotator recorded on the same target. `random_sample`: the
    conversation was drawn at random. `exact`: the id and the environment are the identity of the conversation, as pages link to
    it, and no other name of one.
    """

    conversation_id: Text
    annotator: Name
    verdict: AnnotationVerdict | None = None
    environment: str | None = None
    turn: Number | None = None
    call: Number | None = None
    name: Name = CORRECT
    note: Text | None = None
    adjudicate: bool = False
    retracted: bool = False
    random_sample: bool = False
    exact: bool = False

    def checked(self) -> LabelRequest:
        """Return the request.

        Raises:
            UsageError: its parts contradict each other.
        """
        if (self.verdict is None) != self.retracted:
            raise UsageError("label: give a verdict (pass, fail or unsure), or --retract without one")
        if self.call is not None and self.turn is None:
            raise UsageError("--call N: also give --turn, because calls are counted within a turn")
        if self.adjudicate and self.verdict == "unsure":
            raise UsageError("--adjudicate decides: give pass or fail")
        return self


@command("label", role="review")
def label(context: Context, request: LabelRequest) -> RecordedLabel:
    """Record or withdraw a person's verdict on a conversation, turn or call, and score its conversation again.

    Raises:
        BadInputError: there is no such conversation, turn or call, or several environments have a conversation with the
            id.
        UsageError: the arguments contradict each other, or no metric has the name.
    """
    request = request.checked()
    name = _full_name(context, request)
    engine = context.engine
    name_or_id = engine.store.redacting.value(request.conversation_id)
    location = _location(context, name_or_id, request.environment, exact=request.exact)
    conversation_id = location.conversation_id
    target = AnnotationTarget(
        environment=location.environment,
        conversation_id=conversation_id,
        turn_index=None if request.turn is None else request.turn - 1,
        position=None if request.call is None else request.call - 1,
        name=name,
    )
    _require_target(context, request, target, location)
    annotation = _annotation(context, request, target, location)
    withdrawn = 0
    if request.verdict is None:
        withdrawn = _retract(context, annotation)
    else:
        engine.store.write(lambda con: add_annotations(con, [annotation]))
    with engine.store.read() as con:
        current = [item for item in current_annotations(con, name=name) if item.target == target]
    resolved = resolve(current).get(target)
    rescored, note = _rescore(context, (location.environment, conversation_id), location, target)
    return _result(context, annotation, resolved, withdrawn=withdrawn, rescored=rescored, note=note)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackRequest:
    """Feedback of an end user on a conversation, or on the turn with a trace id or a response id; exactly one of the three.

    Attributes:
        conversation_id: the conversation.
        trace_id: a trace of the conversation, 32 hexadecimal digits.
        response_id: `gen_ai.response.id` of the answer of a turn.
        environment: its environment, if several have a conversation with this id.
        verdict: whether the user is content; None if only a value or a label is recorded.
        value: a rating.
        label: a rating in words.
        note: a comment, which is redacted like spans.
        user: an identifier of the user, best a pseudonym.
    """

    conversation_id: Text | None = None
    trace_id: Text | None = None
    response_id: Text | None = None
    environment: str | None = None
    verdict: Literal["pass", "fail"] | None = None
    value: float | None = None
    label: Text | None = None
    note: Text | None = None
    user: Name = "end user"


@command("feedback", role="feedback")
def feedback(context: Context, request: FeedbackRequest) -> RecordedFeedback:
    """Record the feedback of an end user. It never sets an outcome; `judge calibrate` can compare judges with verdicts of people.

    Raises:
        BadInputError: no conversation, or more than one, has the id.
        UsageError: not exactly one id, or neither a verdict nor a value nor a label.
    """
    ids = [request.conversation_id, request.trace_id, request.response_id]
    if sum(identifier is not None for identifier in ids) != 1:
        raise UsageError("feedback: give one of conversation_id, trace_id and response_id")
    if request.verdict is None and request.value is None and request.label is None:
        raise UsageError("feedback: give a verdict (pass or fail), a value or a label")
    redact = context.engine.store.redacting.value
    turn_index = None
    if request.conversation_id is not None:
        location = _location(context, redact(request.conversation_id), request.environment)
        key = (location.environment, location.conversation_id)
    else:
        with context.engine.store.read() as con:
            turns = turns_of(con, trace_id=request.trace_id, response_id=request.response_id)
        if len({turn[:2] for turn in turns}) != 1:
            name = request.trace_id or request.response_id
            raise BadInputError(
                f"{name!r} belongs to {len(turns)} turns in the store, not to one conversation; spans that arrive later than "
                "feedback need a retry"
            )
        key = turns[0][:2]
        turn_index = turns[0][2] if len(turns) == 1 else None
    annotation = Annotation(
        annotation_id=new_annotation_id(),
        annotator=redact(request.user),
        source="event",
        environment=key[0],
        conversation_id=key[1],
        turn_index=turn_index,
        name=CORRECT if turn_index is None else ANSWER,
        verdict=request.verdict,
        value=request.value,
        label=redact(request.label),
        note=redact(request.note),
        annotated_ns=context.engine.clock(),
    )
    context.engine.store.write(lambda con: add_annotations(con, [annotation]))
    return RecordedFeedback(
        annotation_id=annotation.annotation_id,
        environment=key[0],
        conversation_id=key[1],
        turn=None if turn_index is None else turn_index + 1,
    )


def _full_name(context: Context, request: LabelRequest) -> str:
    """Return the name of the annotation, that of a metric in full.

    Raises:
        UsageError: no metric has this name, or it scores other targets.
    """
    if request.name == CORRECT:
        return CORRECT
    if request.name == ANSWER:
        target = "turn"
        full = ANSWER
    else:
        metric = metric_named(request.name, context.engine.runner.installed)
        target, full = metric.target, metric.name
    needed = {"conversation": (False, False), "turn": (True, False), "call": (True, True)}.get(target)
    if needed is None:
        raise UsageError(f"--name {full} scores groups of conversations; a person annotates single conversations")
    if (request.turn is not None, request.call is not None) != needed:
        options = {"conversation": "neither --turn nor --call", "turn": "--turn", "call": "--turn and --call"}
        raise UsageError(f"--name {full} is about a {target}: give {options[target]}")
    return full


def _location(
    context: Context, conversation_id: str, environment: str | None, *, exact: bool = False
) -> ConversationLocation:
    with context.engine.store.read() as con:
        if exact:
            stored = locations_with(con, [(environment or "", conversation_id)])
        else:
            stored = locations_of(con, [conversation_id]).get(conversation_id, [])
    matches = [location for location in stored if environment is None or location.environment == environment]
    if len(matches) == 1:
        return matches[0]
    if not matches:
        where = "" if environment is None else f" in environment {environment!r}"
        raise BadInputError(
            f"conversation {conversation_id!r}: not in the store{where}; `otel-agentic conversations list` lists them"
        )
    if len({location.environment for location in matches}) < len(matches):
        raise BadInputError(
            shared_id_message(conversation_id, [(item.environment, item.conversation_id) for item in matches])
        )
    names = ", ".join(repr(location.environment) for location in matches)
    raise BadInputError(
        f"conversation {conversation_id!r} is ambiguous: it exists in environments {names}; choose one with --environment"
    )


def _require_target(
    context: Context, request: LabelRequest, target: AnnotationTarget, location: ConversationLocation
) -> None:
    """Raise BadInputError unless the turn and the call exist."""
    if request.turn is not None and request.turn > location.turn_count:
        raise BadInputError(
            f"--turn {request.turn}: conversation {target.conversation_id!r} has {location.turn_count} turns"
        )
    if request.call is None or target.turn_index is None:
        return
    with context.engine.store.read() as con:
        calls = calls_in_turn(con, (location.environment, target.conversation_id), location.revision, target.turn_index)
    if request.call > calls:
        raise BadInputError(
            f"--call {request.call}: turn {request.turn} of conversation {target.conversation_id!r} has {calls} calls"
        )


def _annotation(
    context: Context, request: LabelRequest, target: AnnotationTarget, location: ConversationLocation
) -> Annotation:
    note: str | None = context.engine.store.redacting.value(request.note)
    return Annotation(
        annotation_id=new_annotation_id(),
        annotator=request.annotator,
        source="adjudication" if request.adjudicate else "person",
        environment=target.environment,
        conversation_id=target.conversation_id,
        revision=location.revision,
        turn_index=target.turn_index,
        position=target.position,
        name=target.name,
        verdict=request.verdict,
        decides=target.name == CORRECT and target.turn_index is None,
        random_sample=request.random_sample,
        note=note,
        annotated_ns=context.engine.clock(),
    )


def _retract(context: Context, annotation: Annotation) -> int:
    """Withdraw all that the annotator recorded on a target; return how many annotations."""
    store = context.engine.store
    with store.read() as con:
        own = [
            item
            for item in annotations_on(con, annotation.target)
            if (item.annotator, item.source) == (annotation.annotator, annotation.source)
        ]
    if not own:
        kind = "adjudication" if annotation.source == "adjudication" else "annotation"
        raise BadInputError(
            f"{annotation.annotator} has no {kind} of {annotation.name} on this target of conversation {annotation.conversation_id!r}; "
            "`otel-agentic truth annotations` lists them"
        )
    store.write(lambda con: retract(con, own, annotation.annotated_ns))
    return len(own)


def _rescore(
    context: Context, key: Key, location: ConversationLocation, target: AnnotationTarget
) -> tuple[bool, str | None]:
    """Score a conversation again if an annotation may change its outcome; return whether, and otherwise why not."""
    if target.name != CORRECT or target.turn_index is not None:
        return False, None
    runner = context.engine.runner
    runner.forget_truth()
    if not location.closed:
        return False, "the conversation is still open; its score will take the verdict into account"
    truth = runner.truth()
    # The ground truth may have changed since: the conversation is scored by the current one.
    with context.engine.store.read() as con:
        is_scored = key in comparable_scores(con, truth.evaluation, [key])
    if not is_scored:
        return False, f"the conversation has no score under the current judge and settings; {_EVALUATE}"
    runner.evaluate(truth, EvaluationRequest(keys=[key]), context.on_scored)
    return True, None


def _result(
    context: Context,
    annotation: Annotation,
    resolved: ResolvedVerdict | None,
    *,
    withdrawn: int,
    rescored: bool,
    note: str | None,
) -> RecordedLabel:
    runner = context.engine.runner
    key = (annotation.environment or "", annotation.conversation_id)
    score = None
    if rescored:
        with context.engine.store.read() as con:
            score = stored_scores(con, runner.truth().evaluation.evaluation_id, [key]).get(key)
    return RecordedLabel(
        annotation_id=annotation.annotation_id if not withdrawn else None,
        annotator=annotation.annotator,
        environment=key[0],
        conversation_id=key[1],
        turn=None if annotation.turn_index is None else annotation.turn_index + 1,
        call=None if annotation.position is None else annotation.position + 1,
        name=annotation.name,
        verdict=annotation.verdict,
        retracted=withdrawn,
        votes=[]
        if resolved is None
        else [Vote(annotator=name, verdict=_verdict_text(passes=passes)) for name, passes in resolved.votes],
        active_verdict=None if resolved is None or resolved.verdict is None else _verdict_text(passes=resolved.verdict),
        active_source=None if resolved is None or resolved.verdict is None else resolved.source,
        disagree=resolved is not None and resolved.verdict is None,
        rescored=rescored,
        outcome=None if score is None else score.outcome,
        outcome_source=None if score is None else score.outcome_source,
        computed_outcome=None if score is None else score.computed_outcome,
        note=note,
    )


def _verdict_text(*, passes: bool) -> Literal["pass", "fail"]:
    return "pass" if passes else "fail"


@command("truth_annotations", role="query")
def truth_annotations(
    context: Context,
    *,
    name: str | None = None,
    conversation_id: str | None = None,
    annotator: str | None = None,
    disagreements: bool = False,
) -> AnnotationList:
    """Return the current annotations of people, and how far the annotators agree.

    Args:
        context: the resources.
        name: only annotations of `correct`, `answer` or a metric.
        conversation_id: only those of this conversation.
        annotator: only those of this annotator; the agreement then covers the targets that this annotator judged.
        disagreements: only targets on which annotators differ and without an adjudication.
    """
    if name not in {None, CORRECT, ANSWER}:
        name = metric_named(name or "", context.engine.runner.installed).name
    with context.engine.store.read() as con:
        current = current_annotations(con, name=name)
    if conversation_id is not None:
        redacted = context.engine.store.redacting.value(conversation_id)
        current = [item for item in current if item.conversation_id == redacted]
    if annotator is not None:
        targets = {item.target for item in current if item.annotator == annotator}
        current = [item for item in current if item.target in targets]
    resolved = resolve(current)
    agreement = annotator_agreement(votes_of(resolved.values()))
    if disagreements:
        current = [item for item in current if item.target in resolved and resolved[item.target].verdict is None]
    current.sort(key=lambda item: (item.target.sort_key, item.annotated_ns))
    return AnnotationList(
        annotations=[_row(item) for item in current],
        agreement=AnnotatorAgreement(
            items=agreement.items,
            annotators=list(agreement.annotators),
            disagreements=agreement.disagreements,
            agreement=agreement.agreement,
            cohen_kappa=agreement.cohen_kappa,
            alpha=agreement.alpha,
        ),
        without_verdict=sum(verdict.verdict is None for verdict in resolved.values()),
    )


def _row(annotation: Annotation) -> AnnotationRow:
    return AnnotationRow(
        annotation_id=annotation.annotation_id,
        annotator=annotation.annotator,
        source=annotation.source,
        environment=annotation.environment or "",
        conversation_id=annotation.conversation_id,
        turn=None if annotation.turn_index is None else annotation.turn_index + 1,
        call=None if annotation.position is None else annotation.position + 1,
        name=annotation.name,
        verdict=annotation.verdict,
        value=annotation.value,
        label=annotation.case_id if annotation.name == CASE else annotation.label,
        note=annotation.note,
        annotated_at=iso(annotation.annotated_ns),
    )
