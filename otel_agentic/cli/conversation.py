"""One conversation for people: what was expected beside what was made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from otel_agentic.cli.conversation_metrics import print_metrics
from otel_agentic.cli.output import say
from otel_agentic.cli.tables import Column, print_table, text
from otel_agentic.cli.text import moment, ratio, safe, short

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

_DIMENSIONS: Final = ("selection", "parameters", "sequence", "utilization")
_QUERY: Final = 200
_ANSWER: Final = 300
_ARGUMENTS: Final = 160
_RESULT: Final = 80


def print_conversation(out: Console, found: dict[str, Any]) -> None:
    """Print one conversation, given as the command `conversations_show` returns it."""
    conversation, score = found["conversation"], found["score"]
    _print_head(out, conversation, score)
    case = (score or {}).get("case") or {}
    expected = _aligned(case, score)
    for turn in conversation["turns"]:
        click.echo()
        _print_turn(out, turn, expected.get(turn["index"]))
    if score is not None:
        _print_expected(out, case, score)
        _print_faults(out, score)
        _print_evidence(out, score)
    print_metrics(out, found.get("metrics") or [])


def _print_head(out: Console, conversation: dict[str, Any], score: dict[str, Any] | None) -> None:
    agent = " ".join(str(part) for part in (conversation["agent_name"], conversation["agent_version"]) if part)
    say(out, f"conversation {conversation['conversation_id']}", style="bold")
    environment = f" in {conversation['environment']}" if conversation["environment"] else ""
    say(out, f"agent {agent or 'unknown'}{environment}, ended {moment(conversation['ended_at'], 19)} UTC")
    if conversation["revision"] > 1:
        say(out, f"revision {conversation['revision']}: spans came after it was closed")
    if score is None:
        say(out, "not evaluated yet")
        return
    reason = f" ({score['reason']})" if score["reason"] else ""
    case = f"case {score['case_id']}: " if score["case_id"] else ""
    style = {"pass": "green", "fail": "red"}.get(score["outcome"])
    say(out, f"{case}{score['outcome']}{reason} — {score['explanation']}", style=style)
    for warning in _warnings(score):
        say(out, f"warning: {warning}", style="yellow")


def _warnings(score: dict[str, Any]) -> Iterator[str]:
    """Yield what speaks against the outcome."""
    if score["warning"]:
        yield score["warning"]
    own, given = score["computed_outcome"], score["outcome"]
    if score["outcome_source"] != "computed" and own in {"pass", "fail"} and own != given:
        yield f"the given verdict says {given}, turns and tools say {own}"
    if score.get("known_failure") and given == "not_evaluated":
        yield f"fails all the same, by {score['known_failure']}: it counts in the bounds of the pass rate, not in the rate"
    elif score.get("partial"):
        yield "decided although other needed parts could not be evaluated"


def _aligned(case: dict[str, Any], score: dict[str, Any] | None) -> dict[int, dict[str, Any]]:
    """Return the case's turn that each turn of the conversation was held against."""
    expected = case.get("turns") or []
    pairs = [(turn["turn_index"], turn["case_turn_index"]) for turn in (score or {}).get("turn_scores") or []]
    return {made: expected[place] for made, place in pairs if place is not None and place < len(expected)}


def _print_turn(out: Console, turn: dict[str, Any], expected: dict[str, Any] | None) -> None:
    rows = _turn_rows(turn, expected or {})
    columns = [Column(name=f"turn {turn['index'] + 1}", whole=True), *text("made", "expected")]
    # The third column would be empty where nothing is annotated.
    print_table(out, columns if expected else columns[:2], rows if expected else [row[:2] for row in rows])


def _turn_rows(turn: dict[str, Any], expected: dict[str, Any]) -> list[list[str]]:
    calls = (expected.get("tools") or {}).get("calls") or []
    rows = [["query", short(turn["query"], _QUERY), _text(expected.get("query"), _QUERY)]]
    beside, without = _side_by_side(turn["tools"], calls)
    rows += [[_kind(made), _made(made), _wanted(beside[place])] for place, made in enumerate(turn["tools"])]
    rows += [["call", "", _wanted(call)] for call in without]
    if turn["error"]:
        rows.append(["error", short(turn["error"], _ANSWER), ""])
    accepted = expected.get("answer")
    first, *others = accepted if isinstance(accepted, list) else [accepted]
    rows.append(["answer", short(turn["answer"], _ANSWER), _text(first, _ANSWER)])
    rows += [["", "", f"or: {_text(other, _ANSWER)}"] for other in others]
    if expected.get("not_answer"):
        rows.append(["", "", f"never: {_text(expected['not_answer'], _ANSWER)}"])
    return rows


def _side_by_side(
    made: list[dict[str, Any]], expected: list[dict[str, Any]]
) -> tuple[dict[int, dict[str, Any] | None], list[dict[str, Any]]]:
    """Return the expected call to show beside each made one, and those that stand alone.

    For the eye only: beside a call of its name, one that worked and has its arguments where there is one.
    """
    beside: dict[int, dict[str, Any] | None] = dict.fromkeys(range(len(made)))
    without = []
    for call in expected:
        fitting = [
            (_fit(one, call), -place)
            for place, one in enumerate(made)
            if one["name"] == call["tool_name"] and beside[place] is None
        ]
        if fitting:
            beside[-max(fitting)[1]] = call
        else:
            without.append(call)
    return beside, without


def _fit(made: dict[str, Any], call: dict[str, Any]) -> tuple[bool, bool]:
    return made["error"] is None, made["arguments"] == (call.get("parameters") or {})


def _kind(call: dict[str, Any]) -> str:
    """Return what kind of call it is, `call` for a tool."""
    return "call" if call["kind"] == "tool" else str(call["kind"])


def _made(call: dict[str, Any]) -> str:
    outcome = f"error: {short(call['error'], _RESULT)}" if call["error"] else short(call["result"], _RESULT)
    return f"{safe(call['name'])} {short(call['arguments'], _ARGUMENTS)}\n-> {outcome}"


def _wanted(call: dict[str, Any] | None) -> str:
    if call is None:
        return ""
    optional = "" if call.get("required", True) else " (optional)"
    return f"{safe(call['tool_name'])} {short(call.get('parameters') or {}, _ARGUMENTS)}{optional}"


def _text(value: str | None, limit: int) -> str:
    return short(value, limit) if value else ""


def _print_expected(out: Console, case: dict[str, Any], score: dict[str, Any]) -> None:
    """Print what may fall in any turn: calls, each with what became of it, and outputs."""
    tools = case.get("tools") or {}
    calls = tools.get("calls") or []
    if calls:
        click.echo()
        rows = [(_wanted(call), _found(score, place, call)) for place, call in enumerate(calls)]
        columns = text("expected in any turn", "made")
        # The faults may be those of an alternative, or of a turn's own calls: then they stand below only.
        others = tools.get("alternatives") or any(turn.get("tools") for turn in case.get("turns") or [])
        alone = 1 if others else 2
        print_table(out, columns[:alone], [row[:alone] for row in rows])
    if case.get("outputs"):
        missing = score["missing_outputs"] or []
        click.echo()
        rows = [(output, "no" if str(output) in map(str, missing) else "yes") for output in case["outputs"]]
        print_table(out, text("to be said", "said"), rows)


def _found(score: dict[str, Any], place: int, call: dict[str, Any]) -> str:
    """Return what became of an expected call, as far as the score says it."""
    whole = [tools for tools in score["tool_scores"] if tools["turn_index"] is None]
    if not whole or whole[0]["outcome"] == "not_evaluated":
        return "not evaluated"
    faults = [
        " ".join(filter(None, (fault["fault"], fault["parameter"])))
        for fault in score["tool_faults"]
        if fault["expected_index"] == place
    ]
    if faults:
        return ", ".join(faults)
    return "as expected" if call.get("required", True) else "as expected, or not needed"


def _print_faults(out: Console, score: dict[str, Any]) -> None:
    # What decided stands first: an error is there to explain it, or for the record.
    faults = sorted(score["tool_faults"], key=lambda fault: (not fault["failed"], fault["fault"] == "errored"))
    if faults:
        click.echo()
        columns = [Column(name="fault", least=16), Column(name="tool", least=16), Column(name="what", least=30)]
        print_table(out, columns, [(fault["fault"], fault["tool_name"], fault["explanation"]) for fault in faults])
    scored = [tools for tools in score["tool_scores"] if tools["overall"] is not None]
    if not scored:
        return
    click.echo()
    columns = [*text("tools of"), *(Column(name=name, right=True) for name in (*_DIMENSIONS, "overall"))]
    rows = [
        (
            "the conversation" if tools["turn_index"] is None else f"turn {tools['turn_index'] + 1}",
            *(ratio(tools[name]) for name in (*_DIMENSIONS, "overall")),
        )
        for tools in scored
    ]
    print_table(out, columns, rows)


def _print_evidence(out: Console, score: dict[str, Any]) -> None:
    """Print what shows that results were used, or not, and what a judge said of parameters."""
    found = [
        record
        for tools in score["tool_scores"]
        for records in (tools["evidence"] or {}).values()
        for record in records
        # Written by an earlier release, it is a sentence.
        if isinstance(record, dict)
    ]
    if found:
        click.echo()
        columns = [
            Column(name="result of", least=16),
            Column(name="used", whole=True),
            Column(name="shown by", least=30),
        ]
        print_table(out, columns, [_evidence(record) for record in found])


def _evidence(record: dict[str, Any]) -> tuple[str, str, str]:
    place = f"{record['tool']}, turn {record['turn_index'] + 1}"
    told = str(record["explanation"])
    if "parameter" in record:
        agrees = "agrees" if record["agrees"] else "differs"
        return (
            f"{place}, parameter {record['parameter']}",
            "\u2014",
            f"judge: {agrees} ({ratio(record['score'])}): {told}",
        )
    return place, "yes" if record["score"] else "no", told
