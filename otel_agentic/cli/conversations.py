"""`otel-agentic conversations`: list, show and export conversations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import click

from otel_agentic.cli.help import HelpfulGroup
from otel_agentic.cli.open_conversations import (
    open_conversations_of,
    open_option,
    print_open_list,
    require_agent,
    say_empty,
)
from otel_agentic.cli.options import (
    Selection,
    Target,
    evaluation_option,
    format_option,
    selection_options,
    target_options,
)
from otel_agentic.render.expectations import aligned_turns, counted_calls, pairs_of
from otel_agentic.render.report_tables import shown_name, shown_value
from otel_agentic.render.terminal import (
    Column,
    console,
    differing_and_shared,
    print_json,
    print_line,
    print_table,
    say,
    say_evaluation,
    text,
)
from otel_agentic.render.text import WITHOUT_CASE, moment, plural, ratio, safe, short
from otel_agentic.results.conversations import (
    CallPair,
    ConversationDetails,
    ConversationRow,
    ConversationScore,
    MetricScoreRow,
    ShownCall,
    ShownConversation,
    ShownTurn,
)

if TYPE_CHECKING:
    from rich.console import Console

    from otel_agentic.results import JsonObject

_EXPLANATION: Final = 200
_NAME: Final = 40
_FAILURE: Final = "failure"
_COLUMNS: Final = (
    Column(name="metric", least=20),
    Column(name="of", least=16),
    Column(name="score", least=12),
    Column(name=_FAILURE, unfolded=True),
    Column(name="why", least=30),
)


def print_metrics(out: Console, metrics: Sequence[MetricScoreRow]) -> None:
    """Print the scores of a conversation, its turns and calls, and how many metrics had nothing to score."""
    scores = [metric for metric in metrics if metric.reason is None]
    if scores:
        click.echo()
        rows = [_cells(metric) for metric in scores]
        has_failures = any(metric.severity for metric in scores)
        indices = [index for index, column in enumerate(_COLUMNS) if has_failures or column.name != _FAILURE]
        print_table(out, [_COLUMNS[index] for index in indices], [[row[index] for index in indices] for row in rows])
    reasons = Counter(metric.reason for metric in metrics if metric.reason is not None)
    if reasons:
        summary = ", ".join(f"{count:,} {safe(reason)}" for reason, count in reasons.most_common())
        say(out, f"not scored: {summary}; --format json shows the reasons", style="dim")


def _cells(metric: MetricScoreRow) -> list[str]:
    return [
        shown_name(metric),
        _subject(metric),
        _score(metric),
        metric.severity or "",
        short(metric.explanation or "", _EXPLANATION),
    ]


def _subject(metric: MetricScoreRow) -> str:
    """Return the part of the conversation that a score applies to.

    >>> from types import SimpleNamespace as Metric
    >>> _subject(Metric(turn_index=0, position=1, tool_name="search", parameter="city"))
    'turn 1, call 2: search city'
    """
    turn, position = metric.turn_index, metric.position
    part = "the conversation" if turn is None else f"turn {turn + 1}"
    location = part if position is None else f"{part}, call {position + 1}"
    names = " ".join(short(name, _NAME) for name in (metric.tool_name, metric.parameter) if name)
    return f"{location}: {names}" if names else location


def _score(metric: MetricScoreRow) -> str:
    value = None if metric.value is None else shown_value(metric.value, metric)
    label = None if metric.label is None else short(metric.label, _NAME)
    return ": ".join(filter(None, (value, label)))


_DIMENSIONS: Final = ("selection", "parameters", "sequence", "utilization")
_QUERY: Final = 200
_ANSWER: Final = 300
_ARGUMENTS: Final = 160
_RESULT: Final = 80
#: The statuses of an actual call that has an expected call.
_PAIRED: Final = frozenset({"paired", "excused"})


def print_conversation(out: Console, details: ConversationDetails) -> None:
    """Print a conversation returned by the command `conversations_show`."""
    conversation, score = details.conversation, details.score
    _print_head(out, conversation, score)
    case = (score.case if score is not None else None) or {}
    expected = aligned_turns(case, score)
    for turn in conversation.turns:
        click.echo()
        _print_turn(out, turn, expected.get(turn.index), pairs_of(score, turn.index))
    if score is not None:
        _print_expected(out, case, score)
        _print_faults(out, score)
        _print_evidence(out, score)
    print_metrics(out, details.metrics or [])


def _print_head(out: Console, conversation: ShownConversation, score: ConversationScore | None) -> None:
    agent = " ".join(str(part) for part in (conversation.agent_name, conversation.agent_version) if part)
    say(out, f"conversation {conversation.conversation_id}", style="bold")
    environment = f" in {conversation.environment}" if conversation.environment else ""
    say(out, f"agent {agent or 'unknown'}{environment}, ended {moment(conversation.ended_at, 19)} UTC")
    if conversation.revision > 1:
        say(out, f"revision {conversation.revision}: spans arrived after it was closed")
    if score is None:
        say(out, "not evaluated yet")
        return
    reason = f" ({score.reason})" if score.reason else ""
    case = f"case {score.case_id}: " if score.case_id else ""
    style = {"pass": "green", "fail": "red"}.get(score.outcome)
    say(out, f"{case}{score.outcome}{reason} — {score.explanation}", style=style)
    criteria = [criterion for criterion in score.criteria if criterion.name != WITHOUT_CASE]
    if len(criteria) > 1 or any(criterion.name not in {"answer", "tools"} for criterion in criteria):
        decided = [f"{criterion.name} {criterion.outcome}" for criterion in criteria]
        say(out, f"decided by: {', '.join(decided)}")
    for warning in _warnings(score):
        say(out, f"warning: {warning}", style="yellow")


def _warnings(score: ConversationScore) -> Iterator[str]:
    """Yield the reasons to doubt the outcome."""
    if score.warning:
        yield score.warning
    computed, recorded = score.computed_outcome, score.outcome
    if score.outcome_source != "computed" and computed in {"pass", "fail"} and computed != recorded:
        yield f"the recorded verdict is {recorded}, but turns and tools result in {computed}"
    if score.known_failure and recorded == "not_evaluated":
        yield f"known to fail because of {score.known_failure}: it counts in the bounds of the pass rate, not in the rate"
    elif score.partial:
        yield "decided although other required parts could not be evaluated"


def _print_turn(out: Console, turn: ShownTurn, expected: JsonObject | None, pairs: Sequence[CallPair]) -> None:
    rows = _turn_rows(turn, expected or {}, pairs)
    columns = [Column(name=f"turn {turn.index + 1}", unfolded=True), *text("actual", "expected")]
    # Without a case, the third column would be empty.
    print_table(out, columns if expected else columns[:2], rows if expected else [row[:2] for row in rows])


def _turn_rows(turn: ShownTurn, expected: JsonObject, pairs: Sequence[CallPair]) -> list[list[str]]:
    rows = [["query", short(turn.query, _QUERY), _text(expected.get("query"), _QUERY)]]
    rows += _call_rows(turn, expected.get("tools") or {}, pairs)
    if turn.error:
        rows.append(["error", short(turn.error, _ANSWER), ""])
    accepted_answers = expected.get("answer")
    first, *alternatives = accepted_answers if isinstance(accepted_answers, list) else [accepted_answers]
    rows.append(["answer", short(turn.answer, _ANSWER), _text(first, _ANSWER)])
    rows += [["", "", f"or: {_text(alternative, _ANSWER)}"] for alternative in alternatives]
    if expected.get("not_answer"):
        rows.append(["", "", f"never: {_text(expected['not_answer'], _ANSWER)}"])
    return rows


def _call_rows(turn: ShownTurn, tools: JsonObject, pairs: Sequence[CallPair]) -> Iterator[list[str]]:
    """Yield the calls of a turn; an expected call is in the row of the actual call with which it was scored.

    Without a score, `pairs` is empty, and each call has its own row.
    """
    calls = counted_calls(tools, pairs)
    pair_of = {pair.actual_position: pair for pair in pairs}
    for position, call in enumerate(turn.tools):
        pair = pair_of.get(position)
        label = _kind(call) if pair is None or pair.status in _PAIRED else pair.status
        yield [label, _actual(call), "" if pair is None else _expected_of(pair, calls)]
    if pairs:
        yield from ([pair.status, "", _expected_of(pair, calls)] for pair in pairs if pair.actual_position is None)
    else:
        yield from (["expected", "", _expected(record)] for record in calls)


def _expected_of(pair: CallPair, calls: list[JsonObject]) -> str:
    index = pair.expected_index
    # The definition of the case may be missing from the store.
    return _expected(calls[index]) if index is not None and index < len(calls) else ""


def _kind(call: ShownCall) -> str:
    """Return the kind of a call, `call` for a tool."""
    return "call" if call.kind == "tool" else str(call.kind)


def _actual(call: ShownCall) -> str:
    outcome = f"error: {short(call.error, _RESULT)}" if call.error else short(call.result, _RESULT)
    return f"{safe(call.name)} {short(call.arguments, _ARGUMENTS)}\n-> {outcome}"


def _expected(record: JsonObject) -> str:
    optional = "" if record.get("required", True) else " (optional)"
    return f"{safe(record['tool_name'])} {short(record.get('parameters') or {}, _ARGUMENTS)}{optional}"


def _text(value: str | None, limit: int) -> str:
    return short(value, limit) if value else ""


def _print_expected(out: Console, case: JsonObject, score: ConversationScore) -> None:
    """Print expectations that any turn may meet: calls and outputs, with their results."""
    pairs = pairs_of(score, None)
    calls = counted_calls(case.get("tools") or {}, pairs)
    if calls:
        click.echo()
        pair_of = {pair.expected_index: pair for pair in pairs}
        results = [_result(score, pair_of.get(index)) for index in range(len(calls))]
        rows = [(_expected(record), *result) for record, result in zip(calls, results, strict=True)]
        print_table(out, text("expected in any turn", "actual", "result"), rows)
    if case.get("outputs"):
        missing = score.missing_outputs or []
        click.echo()
        occurs = [(output, "no" if str(output) in map(str, missing) else "yes") for output in case["outputs"]]
        print_table(out, text("expected output", "found"), occurs)


def _result(score: ConversationScore, pair: CallPair | None) -> tuple[str, str]:
    """Return the actual call of an expected call, and how they compare, according to the score."""
    overall = next((tools for tools in score.tool_scores if tools.turn_index is None), None)
    if pair is None or overall is None:
        return "", "not evaluated"
    if pair.actual_turn_index is None or pair.actual_position is None:
        return "", pair.status
    location = f"turn {pair.actual_turn_index + 1}, call {pair.actual_position + 1}"
    if overall.outcome == "not_evaluated":
        return location, "not evaluated"
    # Another expectation may have faults in the same call.
    kinds = {"wrong_parameters": pair.agreement != 1, "wrong_order": pair.in_order is False}
    problems = [
        " ".join(filter(None, (fault.fault, fault.parameter)))
        for fault in score.tool_faults
        if (fault.turn_index, fault.actual_position) == (pair.actual_turn_index, pair.actual_position)
        and fault.expected_index == pair.expected_index
        and kinds.get(fault.fault)
    ]
    return location, ", ".join(problems) or "as expected"


def _print_faults(out: Console, score: ConversationScore) -> None:
    # Deciding faults come first; errors only explain them, or are informational.
    faults = sorted(score.tool_faults, key=lambda fault: (not fault.failed, fault.fault == "errored"))
    if faults:
        click.echo()
        columns = [Column(name="fault", least=16), Column(name="tool", least=16), Column(name="what", least=30)]
        print_table(out, columns, [(fault.fault, fault.tool_name, fault.explanation) for fault in faults])
    scored_tools = [tools for tools in score.tool_scores if tools.overall is not None]
    if not scored_tools:
        return
    click.echo()
    columns = [*text("tools of"), *(Column(name=name, right=True) for name in (*_DIMENSIONS, "overall"))]
    rows = [
        (
            "the conversation" if tools.turn_index is None else f"turn {tools.turn_index + 1}",
            *(ratio(getattr(tools, name)) for name in (*_DIMENSIONS, "overall")),
        )
        for tools in scored_tools
    ]
    print_table(out, columns, rows)


def _print_evidence(out: Console, score: ConversationScore) -> None:
    """Print the evidence for the use of results, and the explanations of a judge about parameters."""
    evidence = [
        record
        for tools in score.tool_scores
        for records in (tools.evidence or {}).values()
        for record in records
        # Earlier releases stored a sentence.
        if isinstance(record, dict)
    ]
    if evidence:
        click.echo()
        columns = [
            Column(name="result of", least=16),
            Column(name="used", unfolded=True),
            Column(name="shown by", least=30),
        ]
        print_table(out, columns, [_evidence(record) for record in evidence])


def _evidence(record: JsonObject) -> tuple[str, str, str]:
    position = f"{record['tool']}, turn {record['turn_index'] + 1}"
    explanation = str(record["explanation"])
    if "parameter" in record:
        agrees = "agrees" if record["agrees"] else "differs"
        return (
            f"{position}, parameter {record['parameter']}",
            "\u2014",
            f"judge: {agrees} ({ratio(record['score'])}): {explanation}",
        )
    return position, "yes" if record["score"] else "no", explanation


_SUBJECT: Final = ("agent", "agent_version", "environment")


@click.group(cls=HelpfulGroup)
def conversations() -> None:
    """List, show and export conversations."""


@conversations.command(name="list", short_help="List conversations, newest first.")
@target_options
@selection_options
@click.option(
    "--outcome", type=click.Choice(["pass", "fail", "not_evaluated"]), help="Only conversations with this outcome."
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    default=50,
    show_default=True,
    help="Only the newest N conversations.",
)
@open_option
@format_option
def list_(
    target: Target,
    selection: Selection,
    outcome: str | None,
    limit: int,
    show_open: bool,
    output: str,
) -> None:
    """List conversations, newest first, with their case and outcome."""
    with target.open() as client:
        rows = client.get(
            list[ConversationRow], "conversations_list", **selection.arguments, outcome=outcome, limit=limit
        )
        open_conversations = open_conversations_of(client, selection, scored=show_open, is_empty=not rows)
    if output == "json":
        print_json(open_conversations.conversations if show_open else rows)
        return
    say_evaluation(console(), selection.evaluation)
    if show_open:
        print_open_list(console(), open_conversations)
    elif rows:
        print_conversations(rows, limit)
    else:
        say(console(), "no conversations in this selection")
        say_empty(console(), open_conversations)


@conversations.command(short_help="Show a conversation with expected and actual tool calls.")
@click.argument("conversation_id")
@click.option("--environment", help="Deployment environment, if the id exists in several.")
@evaluation_option
@target_options
@format_option
def show(
    conversation_id: str,
    environment: str | None,
    evaluation: str | None,
    target: Target,
    output: str,
) -> None:
    """Show a conversation: its turns, actual and expected tool calls, outcome and tool faults."""
    options = {"conversation_id": conversation_id, "environment": environment, "evaluation": evaluation}
    with target.open() as client:
        details = client.get(ConversationDetails, "conversations_show", **options)
    if output == "json":
        print_json(details)
        return
    say_evaluation(console(), evaluation)
    print_conversation(console(), details)


@conversations.command(short_help="Print conversations as JSON lines.")
@target_options
@selection_options
def export(
    target: Target,
    selection: Selection,
) -> None:
    """Print every conversation as one line of JSON."""
    with target.open() as client:
        count = 0
        for count, line in enumerate(client.stream("conversations_export", **selection.arguments), 1):  # noqa: B007 — used below
            print_line(line)
        if not count:
            require_agent(client, selection)


def print_conversations(rows: Sequence[ConversationRow], limit: int | None = None) -> None:
    """Print a row for each conversation; `limit` is the value of `--limit`, None if the command has no such option."""
    out = console()
    names, shared = differing_and_shared(rows, _SUBJECT)
    columns = [
        Column(name="conversation", unfolded=True),
        *text(*(name.replace("agent_", "") for name in names)),
        Column(name="ended", unfolded=True, spare=1),
        Column(name="turns", right=True, spare=3),
        Column(name="calls", right=True, spare=2),
        *text("case", "outcome"),
    ]
    cells = [
        (
            row.conversation_id,
            *(getattr(row, name) for name in names),
            moment(row.ended_at),
            row.turn_count,
            row.call_count,
            row.case_id,
            _outcome(row),
        )
        for row in rows
    ]
    subject = " ".join(str(value) for value in shared.values())
    print_table(out, columns, cells, f"Conversations of {subject}" if subject else "Conversations")
    if limit is not None and len(rows) == limit:
        say(out, f"(the newest {plural(limit, 'conversation')}; --limit shows more)", style="dim")


def _outcome(row: ConversationRow) -> str:
    if row.outcome is None:
        return "open" if row.closed_by is None else "not evaluated yet"
    return f"{row.outcome}: {row.reason}" if row.reason else str(row.outcome)
