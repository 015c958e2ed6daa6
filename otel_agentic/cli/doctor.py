"""`otel-agentic doctor`: how spans are read, the state of a running collector, and a check of the installation."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.text import Text
from rich.tree import Tree

from otel_agentic.cli.options import format_option, opened, settings_of, target_options
from otel_agentic.cli.render.coverage import hang, print_coverage
from otel_agentic.cli.render.store import size_text
from otel_agentic.cli.render.terminal import Column, console, print_json, print_table, say, show, text
from otel_agentic.cli.render.text import moment, percent, plural, printable, safe, short
from otel_agentic.errors import BackendError, BadInputError, DecodeError, PluginError, UsageError
from otel_agentic.results import from_json
from otel_agentic.results.store import Coverage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console

    from otel_agentic.config import Settings

_STYLES: Final = {"agent_run": "bold", "model_call": "cyan", "tool_call": "green", "plan": "cyan", "ignored": "dim"}
_QUERY: Final = 200
_ANSWER: Final = 300
_ARGUMENTS: Final = 160
#: Reasons that are told of one scope and dialect.
_MOST_REASONS: Final = 2
#: What the tree shows of arguments: the turns below it show more.
_HINT: Final = 80


def scopes_of(traces: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return how many spans of each scope were read as what, and why by that dialect."""
    found: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    reasons: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for trace in traces:
        for span in trace["spans"]:
            found[span["scope"], span["dialect"]][span["event"]] += 1
            reasons[span["scope"], span["dialect"]][span["because_of"]] += 1
    return [
        {
            "scope": key[0],
            "dialect": key[1],
            "because_of": _reasons(reasons[key]),
            "events": dict(kinds.most_common()),
        }
        for key, kinds in sorted(found.items())
    ]


def _reasons(found: Counter[str]) -> str:
    """Return the most frequent reasons."""
    named = [reason for reason, _ in found.most_common(_MOST_REASONS)]
    more = len(found) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


def print_scopes(out: Console, rows: Sequence[dict[str, Any]]) -> None:
    """Print the scopes, by whom their spans were read, and why."""
    columns = [
        Column(name="scope", least=20),
        Column(name="dialect", least=8),
        Column(name="because of", least=12),
        Column(name="read as", least=20),
    ]
    told = [
        (
            each["scope"],
            each["dialect"],
            each["because_of"],
            ", ".join(
                plural(count, kind.replace("_", " ") if kind != "ignored" else "ignored span")
                for kind, count in each["events"].items()
            ),
        )
        for each in rows
    ]
    print_table(out, columns, told)


def print_trace(out: Console, trace: dict[str, Any]) -> None:
    """Print one trace as `pipeline.traces.trace_json` gives it."""
    show(out, _tree(trace))
    if not trace["conversations"]:
        hang(
            out, "no conversation: nothing in this trace is an agent's run, a model call or a tool call", style="yellow"
        )
    for conversation in trace["conversations"]:
        _print_conversation(out, conversation)


def _tree(trace: dict[str, Any]) -> Tree:
    frameworks = ", ".join(trace["frameworks"]) or "no agent"
    service = f", service {trace['service']}" if trace["service"] else ""
    head = Text(f"trace {trace['trace_id']}", style="bold")
    head.append(f" — {plural(len(trace['spans']), 'span')}{printable(service)}, {frameworks}", style="not bold")
    main = Counter(span["dialect"] for span in trace["spans"] if span["event"] != "ignored").most_common(1)
    branches: dict[str | None, tuple[Tree, str | None]] = {None: (Tree(head), None)}
    for span in trace["spans"]:
        above, told_id = branches[span["parent_span_id"]]
        own_id = span["conversation_id"] or told_id
        line = _line(span, main[0][0] if main else None, own_id if own_id != told_id else None)
        branches[span["span_id"]] = (above.add(line), own_id)
    return branches[None][0]


def _line(span: dict[str, Any], main_dialect: str | None, new_id: str | None) -> Text:
    """Return the line of a span: what differs from the lines above it is said, what is like them is not."""
    line = Text(short(span["name"]), style=_STYLES[span["event"]])
    line.append(f" — {_meaning(span)}", style="not bold")
    if new_id is not None:
        line.append(f", conversation {short(new_id)}", style="not bold")
    if span["dialect"] != main_dialect and span["event"] != "ignored":
        line.append(f" [{printable(span['dialect'])}]", style="magenta")
    if span["error"] and span["event"] != "tool_call":
        line.append(f", failed: {short(span['error'])}", style="red")
    return line


def _meaning(span: dict[str, Any]) -> str:
    match span["event"]:
        case "agent_run" if span["counts"]:
            return f"agent run of {short(span['agent'])}, {_content(span, nothing='no content of its own')}"
        case "agent_run":
            return "may be an agent run, but one above or below it is"
        case "model_call":
            return f"model call, {_content(span, nothing='content not captured')}"
        case "tool_call":
            return f"tool call {short(span['tool'])} {_arguments(span['arguments'], _HINT)} -> {_outcome(span)}"
        case "plan":
            return f"plan: {short(span['plan']) if span['plan'] is not None else 'not captured'}"
        case _:
            same = f" ({span['same_as']})" if span["same_as"] else ""
            return f"ignored: {short(span['reason'], _ARGUMENTS)}{same}"


def _content(span: dict[str, Any], *, nothing: str) -> str:
    """Return how much of input and output a run or a model call recorded."""
    sides = {"in": (span["messages_in"], span.get("query")), "out": (span["messages_out"], span.get("answer"))}
    told = {side: _side(side, count, text) for side, (count, text) in sides.items()}
    if not any(told.values()):
        return nothing
    return ", ".join(found or f"nothing {side} captured" for side, found in told.items())


def _side(side: str, count: int | None, text: str | None) -> str | None:
    if count is not None:
        return f"{plural(count, 'message')} {side}"
    return f"text {side}" if text is not None else None


def _arguments(arguments: dict[str, Any] | None, limit: int = _ARGUMENTS) -> str:
    return short(arguments, limit) if arguments is not None else "arguments not captured"


def _outcome(span: dict[str, Any]) -> str:
    if span["error"]:
        return f"error: {short(span['error'])}"
    if span["handoff_to"]:
        return f"hands over to {short(span['handoff_to'])}"
    return short(span["result"]) if span["result_captured"] else "result not captured"


def _print_conversation(out: Console, conversation: dict[str, Any]) -> None:
    environment = f" in {printable(conversation['environment'])}" if conversation["environment"] else ""
    named = f"conversation {short(conversation['conversation_id'])}{environment}"
    hang(out, f"{named}, id from {short(conversation['id_from'], _QUERY)}", style="bold", indent="")
    for turn in conversation["turns"]:
        columns = [Column(name=f"turn {turn['index'] + 1}", whole=True), Column(name="", least=30)]
        print_table(out, columns, _turn_rows(turn))
    if conversation["repeats"]:
        hang(out, "no turn of its own: it adds nothing", indent="")
    elif conversation["goes_on_with"] is None:
        hang(out, "no turn: neither a model call nor a tool call nor the content of an agent's run", indent="")
    elif not conversation["turns"]:
        hang(out, f"no turn begins here: the trace goes on with turn {conversation['goes_on_with'] + 1}", indent="")


def _turn_rows(turn: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [("query", _said(turn["query"], captured=turn["query_captured"], limit=_QUERY))]
    for call in turn["tools"]:
        kind = "" if call["kind"] == "tool" else f" {call['kind']}"
        rows.append((f"step {call['step']}{kind}", _call(call)))
    if turn["error"]:
        rows.append(("error", short(turn["error"], _ANSWER)))
    rows.append(("answer", _said(turn["answer"], captured=turn["answer_captured"], limit=_ANSWER)))
    return rows


def _call(call: dict[str, Any]) -> str:
    asked = f"{short(call['name'])} {_arguments(call['arguments'])}"
    if call["error"]:
        outcome = f"error: {short(call['error'], _HINT)}"
    else:
        outcome = short(call["result"], _HINT) if call["result_captured"] else "result not captured"
    return f"{asked}{' ' if len(asked) <= _HINT else chr(10)}-> {outcome}"


def _said(text: str | None, *, captured: bool, limit: int) -> str:
    return short(text, limit) if text is not None else "none" if captured else "not captured"


def print_rest(out: Console, more: int, total: int) -> None:
    """Say how many traces are not shown."""
    if more > 0:
        click.echo()
        hang(out, f"({plural(more, 'more trace')}; --traces {total} shows all, --trace ID shows one)", "dim", "")


def print_live(out: Console, found: dict[str, Any]) -> None:
    """Print what the command `live` of a running collector returns."""
    state = found["collector"]
    _print_health(out, state)
    _print_waiting(out, state)
    if "store_error" in found:
        _print_problems(out, found, state)
        return
    _print_conversations(out, found, state)
    if found["spans"]:
        click.echo()
        _print_spans(out, found["spans"])
    else:
        hang(
            out,
            f"nothing has arrived yet: point the exporter at {state.get('http') or state.get('grpc')}",
            "yellow",
            "",
        )
    if found["coverage"]:
        click.echo()
        print_coverage(
            out, from_json(list[Coverage], found["coverage"]), "Content captured, share of turns or calls that have it"
        )
    elif found["spans"]:
        hang(out, "no turn is over yet: once one is, this tells which content is captured", indent="")
    click.echo()
    _print_problems(out, found, state)


def _print_health(out: Console, state: dict[str, Any]) -> None:
    ready = state["ready"]
    word = "is ready," if ready else "does not take spans; up"
    since = f" since {moment(state['started_at'], 19)} UTC" if state.get("started_at") else ""
    say(out, f"the collector {word}{since}", style="bold green" if ready else "bold red")
    if not ready:
        hang(out, safe(state["why_not"]))
    addresses = (("OTLP/HTTP", "http"), ("OTLP/gRPC", "grpc"), ("admin", "admin"))
    told = [f"{title} {state[name]}" for title, name in addresses if state.get(name)]
    hang(out, f"{safe(state['db'])}; {', '.join(told)}", indent="")
    counts = state["received"]
    hang(
        out,
        f"{counts['stored']:,} spans and log records stored since then, {counts['duplicate']:,} duplicate, "
        f"{counts['rejected']:,} rejected, {counts['ignored']:,} ignored, {counts['late']:,} after their conversation closed",
        indent="",
    )
    if state["altered"]:
        altered = ", ".join(f"{count:,} x {reason}" for reason, count in sorted(state["altered"].items()))
        hang(out, f"in what was received, mended, cut or redacted: {altered}", indent="")


def _print_waiting(out: Console, state: dict[str, Any]) -> None:
    backlog, share = state["backlog"], state["background_share"]
    counts = {
        "to be written": plural(state["queued_spans"], "span"),
        "to be read": plural(backlog["read"], "trace"),
        "to be rebuilt": plural(backlog["rebuild"], "conversation"),
        "to be scored": plural(backlog["score"], "conversation"),
    }
    told = ", ".join(f"{count} {what}" for what, count in counts.items() if not count.startswith("0 ")) or "nothing"
    slow = f"; rebuilding and scoring give way to what arrives: {percent(share)} of the time is left to them"
    hang(out, f"waiting: {told}{slow if share < 1 else ''}", indent="")
    told = f"store {size_text(state['store_bytes'])}, log {size_text(state['log_bytes'])}"
    if state["store_reopened"]:
        told += f", opened again {plural(state['store_reopened'], 'time')} after a failure"
    if state["queries"]:
        told += f"; queries that run: {state['queries']}"
    hang(out, told, indent="")


def _judge_told(judge: dict[str, Any]) -> list[str]:
    if judge["state"] == "closed":
        return (
            [f"the judge was left alone {plural(judge['opened'], 'time')}; it answers now"] if judge["opened"] else []
        )
    when = f"in {judge['retry_in_s']:.0f} s" if judge["state"] == "open" else "now"
    told = f"the judge failed {plural(judge['failures'], 'time')} in a row and is left alone: it is tried again {when}"
    return [f"{told}, and conversations wait for it (left alone {plural(judge['opened'], 'time')} since the start)"]


def _print_conversations(out: Console, found: dict[str, Any], state: dict[str, Any]) -> None:
    kept = ", ".join(plural(found[name], noun) for name, noun in (("turns", "turn"), ("tool_calls", "tool call")))
    held = plural(found["conversations"], "conversation")
    hang(out, f"{held} in the store ({kept}), {state['open_conversations']:,} open now", indent="")


def _print_spans(out: Console, rows: Sequence[dict[str, Any]]) -> None:
    columns = [
        Column(name="service", least=10),
        Column(name="scope", least=18),
        Column(name="dialect", least=8),
        Column(name="framework", least=12, spare=1),
        Column(name="spans", right=True),
        Column(name="last received", whole=True, spare=2),
    ]
    shown = [
        (
            row["service"],
            row["scope"] or "(no scope)",
            row["dialect"],
            row["framework"],
            f"{row['spans']:,}",
            moment(row["last_received"], 19),
        )
        for row in rows
    ]
    print_table(out, columns, shown, "Spans in the store, by scope")


def _print_problems(out: Console, found: dict[str, Any], state: dict[str, Any]) -> None:
    told = [f"{count:,} x {reason}" for reason, count in sorted(state["reasons"].items())]
    told += [*_judge_told(state["judge"]), *state["problems"]]
    if state["retention_problem"]:
        told.append(f"{state['retention_problem']}; it is tried again")
    if found.get("ambiguous_links"):
        alone = plural(found["ambiguous_links"], "conversation")
        told.append(f"{alone} without an id whose history fits two others equally: each stands alone")
    told += [safe(row["note"]) for row in found.get("wrong_clocks", ())]
    if not told:
        say(out, "no problems seen", style="green")
        return
    say(out, "problems seen", style="bold yellow")
    for each in told:
        hang(out, each)


#: Traces that people are shown unless they ask for more.
_SHOWN: Final = 5


@click.command(short_help="Show how spans are read; check a collector or the installation.")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--trace", metavar="ID", help="Show this trace only; the beginning of its id is enough.")
@click.option(
    "--traces",
    type=click.IntRange(min=0),
    metavar="N",
    help=f"Show so many traces; unless given, {_SHOWN}, and all of them as JSON.",
)
@click.option("--live", is_flag=True, help="Ask the running collector; without --db and --server it is looked for.")
@target_options
@format_option
def doctor(
    paths: tuple[str, ...],
    trace: str | None,
    traces: int | None,
    live: bool,
    db: Path | None,
    server: str | None,
    config_file: Path | None,
    output: str,
) -> None:
    """Show how the spans of files are read: what each became, by which dialect and why, and the turns they come to.

    With --live, tell what a running collector receives, what its instrumentation leaves out and which setting records it:
    the collector that holds the database of the settings, else the one at the admin address of the settings, else the one
    that holds a database in this folder.
    Without either, check this installation.
    """
    if paths and live:
        raise UsageError("give files, or --live: a collector has its own spans")
    if not live and (db is not None or server is not None):
        raise UsageError("--db and --server go with --live; to look at files, give their paths")
    if live:
        _ask_collector(db, server, config_file, output)
    elif paths:
        _show_files(settings_of(config_file), paths, trace, traces, output)
    else:
        _check_installation(settings_of(config_file), output)


def _show_files(settings: Settings, paths: tuple[str, ...], wanted: str | None, limit: int | None, output: str) -> None:
    from otel_agentic.reports.conversations import by_framework, of_conversations  # noqa: PLC0415 — not needed for --help
    from otel_agentic.reports.doctor import (  # noqa: PLC0415
        read_traces,
        trace_json,
    )

    inspected = read_traces(settings, paths)
    chosen = [name for name in inspected.traces if wanted is None or name.startswith(wanted.lower())]
    if wanted is not None and not chosen:
        raise BadInputError(f"no trace {wanted!r} in these files; they hold {plural(len(inspected.traces), 'trace')}")
    told = [trace_json(inspected, name) for name in chosen]
    scopes = scopes_of(told)
    covered = by_framework(of_conversations(each.conversation for each in inspected.conversations))
    clocks = inspected.wrong_clocks(time.time_ns())
    if output == "json":
        shown = told if limit is None else told[:limit]
        problems = list(inspected.problems)
        print_json(
            {"traces": shown, "scopes": scopes, "coverage": covered, "wrong_clocks": clocks, "problems": problems}
        )
    else:
        _print_files(told, scopes, covered, _SHOWN if limit is None else limit)
        for clock in clocks:
            say(console(), f"warning: {clock['note']}", style="yellow")
    if inspected.problems:
        raise DecodeError("\n".join(inspected.problems))


def _print_files(
    traces: Sequence[dict[str, Any]], scopes: Sequence[dict[str, Any]], covered: Sequence[dict[str, Any]], limit: int
) -> None:
    out = console()
    if not traces:
        say(out, "no spans in these files")
        return
    print_scopes(out, scopes)
    for trace in traces[:limit]:
        click.echo()
        print_trace(out, trace)
    print_rest(out, len(traces) - limit, len(traces))
    if covered:
        click.echo()
        print_coverage(
            out,
            from_json(list[Coverage], covered),
            "Content captured in these files, share of turns or calls that have it",
        )


def _ask_collector(db: Path | None, server: str | None, config_file: Path | None, output: str) -> None:
    from otel_agentic.net.server_file import find_live_server  # noqa: PLC0415 — not needed for --help

    settings = settings_of(config_file, db)
    held = settings.store.db
    running = server is not None or find_live_server(held) is not None
    if not running and db is None:
        db, server = _found_elsewhere(settings)
        running = True
    found = _asked(db, server, config_file) if running else {}
    if "collector" not in found:  # it died without saying so, and the file itself answered
        raise BackendError(
            f"no collector holds {held}; `otel-agentic serve --db {held}` starts one, --db or --server names another"
        )
    if output == "json":
        print_json(found)
    else:
        print_live(console(), found)


def _found_elsewhere(settings: Settings) -> tuple[Path | None, str | None]:
    """Return the file or the URL of a running collector that does not hold the file of the settings; says which on stderr.

    Raises:
        BackendError: there is none.
        UsageError: there are several.
    """
    from otel_agentic.commands.client import answering_at  # noqa: PLC0415 — not needed for --help
    from otel_agentic.net.server_file import held_in  # noqa: PLC0415 — same

    held, address, folder = settings.store.db, settings.admin.address, Path.cwd()
    if (url := answering_at(settings.admin)) is not None:
        say(console(stderr=True), f"no collector holds {held}; asking the one at {url}")
        return None, url
    match held_in(folder):
        case [db]:
            say(
                console(stderr=True),
                f"no collector holds {held} or answers at {address}; asking the one that holds {db}",
            )
            return db, None
        case []:
            raise BackendError(
                f"no collector holds {held}, answers at {address}, or holds a database in {folder}; "
                f"`otel-agentic serve --db {held}` starts one, --db or --server names another"
            )
        case several:
            raise UsageError(
                f"several collectors run in {folder}; give --db with one of {', '.join(db.name for db in several)}"
            )


def _asked(db: Path | None, server: str | None, config_file: Path | None) -> dict[str, Any]:
    with opened(db, server, config_file) as client:
        found: dict[str, Any] = client.call("live")
    return found


def _check_installation(settings: Settings, output: str) -> None:
    from otel_agentic.reports.doctor import installation  # noqa: PLC0415 — not needed for --help

    checks = list(installation(settings))
    if output == "json":
        print_json([{"what": check.name, "ok": check.ok, "found": check.result} for check in checks])
    else:
        rows = [("ok" if check.ok else "wrong", check.name, check.result) for check in checks]
        print_table(console(), [Column(name="state", whole=True), *text("what", "found")], rows)
    wrong = [check for check in checks if not check.ok]
    if wrong:
        raise PluginError(f"{plural(len(wrong), 'check')} failed: {', '.join(check.name for check in wrong)}")
