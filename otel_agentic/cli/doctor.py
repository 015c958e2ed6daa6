"""`otel-agentic doctor`: how spans are read, the state of a running collector, and a check of the installation."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.text import Text
from rich.tree import Tree

from otel_agentic.cli.help import HelpfulCommand
from otel_agentic.cli.options import Target, format_option, target_options
from otel_agentic.errors import BackendError, BadInputError, DecodeError, PluginError, UsageError
from otel_agentic.render.coverage import hang, print_coverage
from otel_agentic.render.store import size_text
from otel_agentic.render.terminal import Column, console, print_json, print_table, say, show, text
from otel_agentic.render.text import moment, percent, plural, printable, safe, short
from otel_agentic.results.doctor import (
    AgentRunReading,
    BreakerState,
    CollectorState,
    ConversationReading,
    FilesReading,
    IgnoredReading,
    LiveStore,
    ModelCallReading,
    PlanReading,
    ReceivedScope,
    ScopeReading,
    SpanReading,
    ToolCallReading,
    TraceReading,
    UnreadableStore,
)

if TYPE_CHECKING:
    from rich.console import Console

    from otel_agentic.config import Settings
    from otel_agentic.results import JsonObject
    from otel_agentic.results.conversations import ShownCall, ShownTurn

_STYLES: Final = {"agent_run": "bold", "model_call": "cyan", "tool_call": "green", "plan": "cyan", "ignored": "dim"}
_QUERY: Final = 200
_ANSWER: Final = 300
_ARGUMENTS: Final = 160
#: The largest number of reasons listed for one scope and dialect.
_MOST_REASONS: Final = 2
#: The largest number of characters of arguments in the tree; the turns below it show more.
_HINT: Final = 80


def scopes_of(traces: Iterable[TraceReading]) -> list[ScopeReading]:
    """Return the counts of events by scope and dialect, with the reasons for choosing the dialect."""
    events: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    reasons: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for trace in traces:
        for span in trace.spans:
            events[span.scope, span.dialect][span.event] += 1
            reasons[span.scope, span.dialect][span.because_of] += 1
    return [
        ScopeReading(
            scope=scope,
            dialect=dialect,
            because_of=_reasons(reasons[scope, dialect]),
            events=dict(kinds.most_common()),
        )
        for (scope, dialect), kinds in sorted(events.items())
    ]


def _reasons(counts: Counter[str]) -> str:
    """Return the most frequent reasons."""
    reasons = [reason for reason, _ in counts.most_common(_MOST_REASONS)]
    more = len(counts) - len(reasons)
    return ", ".join(reasons) + (f" and {more} more" if more else "")


def print_scopes(out: Console, rows: Sequence[ScopeReading]) -> None:
    """Print the scopes, the dialects that read their spans, and the reasons."""
    columns = [
        Column(name="scope", least=20),
        Column(name="dialect", least=8),
        Column(name="because of", least=12),
        Column(name="read as", least=20),
    ]
    cells = [
        (
            row.scope,
            row.dialect,
            row.because_of,
            ", ".join(
                plural(count, kind.replace("_", " ") if kind != "ignored" else "ignored span")
                for kind, count in row.events.items()
            ),
        )
        for row in rows
    ]
    print_table(out, columns, cells)


def print_trace(out: Console, trace: TraceReading) -> None:
    """Print how a trace is read."""
    show(out, _tree(trace))
    if not trace.conversations:
        hang(out, "no conversation: this trace has no agent run, model call or tool call", style="yellow")
    for conversation in trace.conversations:
        _print_conversation(out, conversation)


def _tree(trace: TraceReading) -> Tree:
    frameworks = ", ".join(trace.frameworks) or "no agent"
    service = f", service {trace.service}" if trace.service else ""
    head = Text(f"trace {trace.trace_id}", style="bold")
    head.append(f" — {plural(len(trace.spans), 'span')}{printable(service)}, {frameworks}", style="not bold")
    main = Counter(span.dialect for span in trace.spans if span.event != "ignored").most_common(1)
    branches: dict[str | None, tuple[Tree, str | None]] = {None: (Tree(head), None)}
    for span in trace.spans:
        parent_branch, inherited_id = branches[span.parent_span_id]
        own_id = span.conversation_id or inherited_id
        line = _line(span, main[0][0] if main else None, own_id if own_id != inherited_id else None)
        branches[span.span_id] = (parent_branch.add(line), own_id)
    return branches[None][0]


def _line(span: SpanReading, main_dialect: str | None, new_id: str | None) -> Text:
    """Return the line of a span, without what the lines above it already show."""
    line = Text(short(span.name), style=_STYLES[span.event])
    line.append(f" — {_meaning(span)}", style="not bold")
    if new_id is not None:
        line.append(f", conversation {short(new_id)}", style="not bold")
    if span.dialect != main_dialect and span.event != "ignored":
        line.append(f" [{printable(span.dialect)}]", style="magenta")
    if span.error and span.event != "tool_call":
        line.append(f", failed: {short(span.error)}", style="red")
    return line


def _meaning(span: SpanReading) -> str:
    match span:
        case AgentRunReading() if span.counts:
            content = _content(span, span.query, span.answer, placeholder="no content of its own")
            return f"agent run of {short(span.agent)}, {content}"
        case AgentRunReading():
            return "possible agent run, but a span above or below it is the agent run"
        case ModelCallReading():
            return f"model call, {_content(span, None, None, placeholder='content not captured')}"
        case ToolCallReading():
            return f"tool call {short(span.tool)} {_arguments(span.arguments, _HINT)} -> {_outcome(span)}"
        case PlanReading():
            return f"plan: {short(span.plan) if span.plan is not None else 'not captured'}"
        case IgnoredReading():
            same = f" ({span.same_as})" if span.same_as else ""
            return f"ignored: {short(span.reason, _ARGUMENTS)}{same}"
    raise AssertionError(span.event)  # there are no other kinds


def _content(
    span: AgentRunReading | ModelCallReading, query: str | None, answer: str | None, *, placeholder: str
) -> str:
    """Return how much input and output an agent run or a model call recorded."""
    sides = {"in": _side("in", span.messages_in, query), "out": _side("out", span.messages_out, answer)}
    if not any(sides.values()):
        return placeholder
    return ", ".join(description or f"nothing {side} captured" for side, description in sides.items())


def _side(side: str, count: int | None, text: str | None) -> str | None:
    if count is not None:
        return f"{plural(count, 'message')} {side}"
    return f"text {side}" if text is not None else None


def _arguments(arguments: JsonObject | None, limit: int = _ARGUMENTS) -> str:
    return short(arguments, limit) if arguments is not None else "arguments not captured"


def _outcome(span: ToolCallReading) -> str:
    if span.error:
        return f"error: {short(span.error)}"
    if span.handoff_to:
        return f"hands over to {short(span.handoff_to)}"
    return short(span.result) if span.result_captured else "result not captured"


def _print_conversation(out: Console, conversation: ConversationReading) -> None:
    environment = f" in {printable(conversation.environment)}" if conversation.environment else ""
    title = f"conversation {short(conversation.conversation_id)}{environment}"
    hang(out, f"{title}, id from {short(conversation.id_from, _QUERY)}", style="bold", indent="")
    for turn in conversation.turns:
        columns = [Column(name=f"turn {turn.index + 1}", unfolded=True), Column(name="", least=30)]
        print_table(out, columns, _turn_rows(turn))
    if conversation.repeats:
        hang(out, "no turn of its own: it duplicates another trace", indent="")
    elif conversation.goes_on_with is None:
        hang(out, "no turn: no model call, no tool call and no content of an agent run", indent="")
    elif not conversation.turns:
        hang(out, f"no turn begins here: the trace continues turn {conversation.goes_on_with + 1}", indent="")


def _turn_rows(turn: ShownTurn) -> list[tuple[str, str]]:
    rows = [("query", _content_text(turn.query, captured=turn.query_captured, limit=_QUERY))]
    for call in turn.tools:
        kind = "" if call.kind == "tool" else f" {call.kind}"
        rows.append((f"step {call.step}{kind}", _call(call)))
    if turn.error:
        rows.append(("error", short(turn.error, _ANSWER)))
    rows.append(("answer", _content_text(turn.answer, captured=turn.answer_captured, limit=_ANSWER)))
    return rows


def _call(call: ShownCall) -> str:
    request = f"{short(call.name)} {_arguments(call.arguments)}"
    if call.error:
        outcome = f"error: {short(call.error, _HINT)}"
    else:
        outcome = short(call.result, _HINT) if call.result_captured else "result not captured"
    return f"{request}{' ' if len(request) <= _HINT else chr(10)}-> {outcome}"


def _content_text(text: str | None, *, captured: bool, limit: int) -> str:
    return short(text, limit) if text is not None else "none" if captured else "not captured"


def print_rest(out: Console, more: int, total: int) -> None:
    """Print how many traces are not shown."""
    if more > 0:
        click.echo()
        hang(out, f"({plural(more, 'more trace')}; --traces {total} shows all, --trace ID shows one)", "dim", "")


def print_live(out: Console, live: LiveStore | UnreadableStore, collector: CollectorState) -> None:
    """Print the state of a running collector and of its store."""
    _print_health(out, collector)
    _print_pending(out, collector)
    if isinstance(live, UnreadableStore):
        _print_problems(out, _problems(collector))
        return
    parts = f"{plural(live.turns, 'turn')}, {plural(live.tool_calls, 'tool call')}"
    conversations = f"{plural(live.conversations, 'conversation')} in the store ({parts})"
    hang(out, f"{conversations}, {collector.open_conversations:,} open now", indent="")
    if live.spans:
        click.echo()
        _print_spans(out, live.spans)
    else:
        hang(out, f"no spans received yet: point the exporter at {collector.http or collector.grpc}", "yellow", "")
    if live.coverage:
        click.echo()
        print_coverage(out, live.coverage, "Content captured, share of turns or calls that have it")
    elif live.spans:
        hang(out, "no turn has ended yet: captured content is shown once one has", indent="")
    click.echo()
    problems = _problems(collector)
    if live.ambiguous_links:
        ambiguous_conversations = plural(live.ambiguous_links, "conversation")
        problems.append(f"{ambiguous_conversations} without an id whose history matches two others equally: not linked")
    reuse = [] if live.id_reuse is None else live.id_reuse.notes
    _print_problems(out, [*problems, *(safe(clock.note) for clock in live.wrong_clocks), *reuse])


def _print_health(out: Console, state: CollectorState) -> None:
    verb = "is ready," if state.ready else "does not accept spans; up"
    since = f" since {moment(state.started_at, 19)} UTC" if state.started_at else ""
    say(out, f"the collector {verb}{since}", style="bold green" if state.ready else "bold red")
    if not state.ready:
        hang(out, safe(state.why_not))
    addresses = (("OTLP/HTTP", state.http), ("OTLP/gRPC", state.grpc), ("admin", state.admin))
    endpoints = [f"{title} {address}" for title, address in addresses if address]
    hang(out, f"{safe(state.db)}; {', '.join(endpoints)}", indent="")
    counts = state.received
    hang(
        out,
        f"{counts.stored:,} spans and log records stored since then, {counts.duplicate:,} duplicate, "
        f"{counts.rejected:,} rejected, {counts.ignored:,} ignored, {counts.late:,} after their conversation closed",
        indent="",
    )
    if state.altered:
        altered_parts = ", ".join(f"{count:,} x {reason}" for reason, count in sorted(state.altered.items()))
        hang(out, f"repaired, truncated or redacted in received data: {altered_parts}", indent="")


def _print_pending(out: Console, state: CollectorState) -> None:
    counts = {
        "to write": plural(state.queued_spans, "span"),
        "to read": plural(state.backlog.read, "trace"),
        "to rebuild": plural(state.backlog.rebuild, "conversation"),
        "to score": plural(state.backlog.score, "conversation"),
    }
    details = ", ".join(f"{count} {noun}" for noun, count in counts.items() if not count.startswith("0 ")) or "nothing"
    share = state.background_share
    slow = f"; rebuilding and scoring yield to incoming spans: they get {percent(share)} of the time"
    hang(out, f"waiting: {details}{slow if share < 1 else ''}", indent="")
    details = f"store {size_text(state.store_bytes)}, log {size_text(state.log_bytes)}"
    if state.store_reopened:
        details += f", reopened {plural(state.store_reopened, 'time')} after a failure"
    if state.queries:
        details += f"; running queries: {state.queries}"
    hang(out, details, indent="")


def _print_spans(out: Console, rows: Sequence[ReceivedScope]) -> None:
    columns = [
        Column(name="service", least=10),
        Column(name="scope", least=18),
        Column(name="dialect", least=8),
        Column(name="framework", least=12, spare=1),
        Column(name="spans", right=True),
        Column(name="last received", unfolded=True, spare=2),
    ]
    cells = [
        (
            row.service,
            row.scope or "(no scope)",
            row.dialect,
            row.framework,
            f"{row.spans:,}",
            moment(row.last_received, 19),
        )
        for row in rows
    ]
    print_table(out, columns, cells, "Spans in the store, by scope")


def _problems(state: CollectorState) -> list[str]:
    """Return the problems of a collector: rejected parts, the judge, failures, and retention."""
    problems = [f"{count:,} x {reason}" for reason, count in sorted(state.reasons.items())]
    problems += [*_judge_problems(state.judge), *state.problems]
    if state.retention_problem:
        problems.append(f"{state.retention_problem}; it is retried")
    return problems


def _judge_problems(judge: BreakerState) -> Iterator[str]:
    times = f"opened {plural(judge.opened, 'time')}"
    if judge.state != "closed":
        retry_time = f"in {judge.retry_in_s:.0f} s" if judge.state == "open" else "now"
        message = f"the judge failed {plural(judge.failures, 'time')} in a row and is not called: next try {retry_time}"
        yield f"{message}, and conversations wait for it (circuit breaker {times} since the start)"
    elif judge.opened:
        yield f"the circuit breaker of the judge {times}; it is closed now"


def _print_problems(out: Console, problems: Sequence[str]) -> None:
    if not problems:
        say(out, "no problems found", style="green")
        return
    say(out, "problems found", style="bold yellow")
    for problem in problems:
        hang(out, problem)


#: The result of the command `live`.
_LIVE: Final[Any] = LiveStore | UnreadableStore
#: The number of traces shown by default.
_DEFAULT_TRACES: Final = 5


@click.command(cls=HelpfulCommand)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--trace", metavar="ID", help="Show this trace only; a prefix of its id is enough.")
@click.option(
    "--traces",
    type=click.IntRange(min=0),
    metavar="N",
    help=f"Show N traces. Default: {_DEFAULT_TRACES}, and all as JSON.",
)
@click.option(
    "--live", is_flag=True, help="Inspect the running collector; without --db and --server it is searched for."
)
@target_options
@format_option
def doctor(
    paths: tuple[str, ...],
    trace: str | None,
    traces: int | None,
    live: bool,
    target: Target,
    output: str,
) -> None:
    """Show how the spans in files are read: the event of each span, its dialect and the reason, and the resulting turns.

    With --live, show the spans that a running collector receives, the content that its instrumentation does not record and
    the setting that records it. This is the collector that holds the configured database, else the one at the configured
    admin address, else the one that holds a database in this folder.
    Without PATH and --live, check this installation.
    """
    if paths and live:
        raise UsageError("give PATH or --live, not both: a collector has its own spans")
    if not live and (target.db is not None or target.server is not None):
        raise UsageError("--db and --server need --live; to inspect files, give their paths")
    if live:
        _ask_collector(target, output)
    elif paths:
        _show_files(target.settings(), paths, trace, traces, output)
    else:
        _check_installation(target.settings(), output)


def _show_files(
    settings: Settings, paths: tuple[str, ...], trace_id: str | None, limit: int | None, output: str
) -> None:
    from otel_agentic.reports.conversations import by_framework, of_conversations  # noqa: PLC0415 — not needed for --help
    from otel_agentic.reports.doctor import read_traces, trace_reading  # noqa: PLC0415 — same

    traces_read = read_traces(settings, paths)
    selected_traces = [name for name in traces_read.traces if trace_id is None or name.startswith(trace_id.lower())]
    if trace_id is not None and not selected_traces:
        raise BadInputError(
            f"no trace {trace_id!r} in these files; they hold {plural(len(traces_read.traces), 'trace')}"
        )
    traces = [trace_reading(traces_read, name) for name in selected_traces]
    reading = FilesReading(
        traces=traces,
        scopes=scopes_of(traces),
        coverage=by_framework(of_conversations(entry.conversation for entry in traces_read.conversations)),
        wrong_clocks=traces_read.wrong_clocks(time.time_ns()),
        id_reuse=traces_read.id_reuse,
        problems=list(traces_read.problems),
    )
    if output == "json":
        print_json(replace(reading, traces=traces[:limit]))
    else:
        _print_files(reading, _DEFAULT_TRACES if limit is None else limit)
    if reading.problems:
        raise DecodeError("\n".join(reading.problems))


def _print_files(reading: FilesReading, limit: int) -> None:
    out, traces = console(), reading.traces
    if traces:
        print_scopes(out, reading.scopes)
        for trace in traces[:limit]:
            click.echo()
            print_trace(out, trace)
        print_rest(out, len(traces) - limit, len(traces))
    else:
        say(out, "no spans in these files")
    if traces and reading.coverage:
        click.echo()
        title = "Content captured in these files, share of turns or calls that have it"
        print_coverage(out, reading.coverage, title)
    for clock in reading.wrong_clocks:
        say(out, f"warning: {clock.note}", style="yellow")
    for note in reading.id_reuse.notes if reading.id_reuse is not None else ():
        say(out, f"note: {note}", style="yellow")


def _ask_collector(target: Target, output: str) -> None:
    from otel_agentic.net.server_file import find_live_server  # noqa: PLC0415 — not needed for --help

    settings = target.settings()
    db_path = settings.store.db
    is_running = target.server is not None or find_live_server(db_path) is not None
    if not is_running and target.db is None:
        db, server = _find_other_collector(settings)
        target = replace(target, db=db, server=server)
        is_running = True
    live = _live_state(target) if is_running else None
    if live is None or live.collector is None:  # it died and left its server file, so the store itself answered
        raise BackendError(
            f"no collector holds {db_path}; `otel-agentic serve --db {db_path}` starts one; --db or --server selects another"
        )
    if output == "json":
        print_json(live)
    else:
        print_live(console(), live, live.collector)


def _find_other_collector(settings: Settings) -> tuple[Path | None, str | None]:
    """Return the file or URL of a running collector with another file than the configured one, and print it to stderr.

    Raises:
        BackendError: no collector is running.
        UsageError: several collectors are running.
    """
    from otel_agentic.commands.remote import answering_at  # noqa: PLC0415 — not needed for --help
    from otel_agentic.net.server_file import held_in  # noqa: PLC0415 — same

    configured_path, address, folder = settings.store.db, settings.admin.address, Path.cwd()
    if (url := answering_at(settings.admin)) is not None:
        say(console(stderr=True), f"no collector holds {configured_path}; asking the one at {url}")
        return None, url
    match held_in(folder):
        case [db]:
            say(
                console(stderr=True),
                f"no collector holds {configured_path} or answers at {address}; asking the one that holds {db}",
            )
            return db, None
        case []:
            raise BackendError(
                f"no collector holds {configured_path}, answers at {address}, or holds a database in {folder}; "
                f"`otel-agentic serve --db {configured_path}` starts one; --db or --server selects another"
            )
        case several:
            raise UsageError(
                f"several collectors are running in {folder}; give --db with one of {', '.join(db.name for db in several)}"
            )


def _live_state(target: Target) -> LiveStore | UnreadableStore:
    with target.open() as client:
        live: LiveStore | UnreadableStore = client.get(_LIVE, "live")
    return live


def _check_installation(settings: Settings, output: str) -> None:
    from otel_agentic.reports.doctor import installation  # noqa: PLC0415 — not needed for --help

    checks = list(installation(settings))
    if output == "json":
        print_json(checks)
    else:
        rows = [("ok" if check.ok else "wrong", check.what, check.found) for check in checks]
        print_table(console(), [Column(name="state", unfolded=True), *text("what", "found")], rows)
    failed = [check for check in checks if not check.ok]
    if failed:
        raise PluginError(f"{plural(len(failed), 'check')} failed: {', '.join(check.what for check in failed)}")
