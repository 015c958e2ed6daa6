"""Write docs/frameworks/: a page for each framework, generated from `frameworks.toml` and the tables of the dialects.

Run it as `python -m tools.framework_reference [--check]`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Final

from otel_agentic import plugins
from otel_agentic.dialects import Table
from otel_agentic.dialects.frameworks import Framework, frameworks
from tools.generated import ROOT, stale

FOLDER: Final = ROOT / "docs" / "frameworks"

#: The labels of meanings on the pages, if the name in the table is not clear enough.
_MEANINGS: Final = {
    "messages_in": "messages to the model",
    "messages_out": "messages from the model",
    "flat_in": "messages to the model, flattened",
    "flat_out": "messages from the model, flattened",
    "input": "input of any kind",
    "output": "output of any kind",
    "name": "name of the operation",
    "call_id": "tool call id",
    "usage": "tokens, both counts in one value",
    "definitions": "available tools",
    "flat_definitions": "available tools, flattened",
    "schema": "schema of the called tool",
}
#: Fields of the table that the pages omit.
_HIDDEN: Final = frozenset({"scopes", "marks", "kind", "kinds", "agent_id", "response_id"})
#: The meanings of a dialect's `kind` attribute; any other value is a reason to ignore the span.
_EVENTS: Final = {
    "agent": "agent run",
    "maybe_agent": "agent run if no span above or below it is one",
    "model": "model call",
    "tool": "tool call",
    "plan": "plan",
}

_INDEX: Final = """\
# Frameworks

Written by `make docs` from the tables of the dialects. Each page explains how to enable content capture, how an application
names its conversations, which attributes are read, and what cannot be known.

Many instrumentations record no content by default. `otel-agentic doctor FILE` shows how each span of a file is read and names
the setting for missing content; `otel-agentic doctor --live` asks a running collector the same. A framework that is not listed works if it follows one of these conventions; otherwise name its attributes in the
[settings](../plugins.md#attribute-names-without-code), or write a [plug-in](../plugins.md).

## Turns

A turn is one user query and the final answer to it, over however many traces it took. **Several user inputs under one root are
several turns, regardless of the names of the spans**: voice agents and chat loops keep a whole conversation in one trace, with
one span per turn. Such a root is not read as an agent run. An input is a user's in two cases:

- a model call's input is `text 1, answer 1, text 2`, and text 1 is the query of an earlier model call below the same root;
- the root records no input, and one agent runs below it several times in a row, each time with another input.

These are one turn: a run whose history contains queries that are not the query of any span below the root; a sub-agent that a
tool call started; an input that another model call wrote (an orchestrator that delegates, a critic); a run with model calls
of its own, whose framework asks again if an answer is unsuitable; a run that records the query of its first model call; a run
that failed and was retried with the same query. A greeting belongs to the first turn. Without recorded content, a trace with
one root run is one turn.

## Calls

A call is an action of the agent: the union of tool spans and of the calls that model responses request. These are not calls: a
tool that gives the answer (`final_answer`); the events of a tool call that have spans of their own (`error`, `retry`); the
interpreter of an agent that **acts by writing code**, whose calls are those of the code. An interpreter is such a wrapper if
other tools ran inside it, or if the model wrote the code into its answer text. An interpreter that the model chose by a function call, and in
which no tool ran, is a tool (`code_interpreter` of OpenAI).

## Plans

Plans are content: without content capture it is unknown whether there was one. They are read from

1. spans of the operation `plan`;
2. calls of a tool whose name contains plan, planner or todo (`write_todos`, `TodoWrite`, `update_plan`), with steps in their
   arguments, or in the result of a planner;
3. texts of the model in a turn that are not its answer (reasoning parts, text next to tool calls, the responses of planners
   and sub-agents, the thoughts of a tool such as `think`) if they have the form of a plan: JSON with `steps`, `plan`, `todos` and
   the like; text between marks (`/*PLANNING*/`, `<plan>`); two or more list items below a line that announces a plan.

Other statements of intentions in these texts are read by a judge, and only by
[`plan_quality_judged` and `plan_adherence_judged`](../metrics.md#agenticlayersplan_quality_judged). A plan that the agent
presents to the user as its answer, or keeps in a state that no message contains (the state of a graph, the memory of an agent),
is not read. [This table](../metric-availability.md) shows how many recorded conversations have a plan.

## Pages

| framework | dialect | instrumentation scopes |
|---|---|---|
"""


def pages() -> dict[Path, str]:
    """Return the pages by path: one per framework, and an index."""
    return {FOLDER / "index.md": index(), **{FOLDER / f"{entry.name}.md": page(entry) for entry in frameworks()}}


def index() -> str:
    """Return the page that lists all others."""
    rows = [
        f"| [{framework.title}]({framework.name}.md) | {framework.dialect} | {_scopes(framework)} |"
        for framework in frameworks()
    ]
    return _INDEX + "\n".join(rows) + "\n"


def page(framework: Framework) -> str:
    """Return the page of one framework."""
    table: Table = plugins.get("dialects", framework.dialect).load().table
    parts = [
        f"# {framework.title}\n",
        f"Read by the dialect `{framework.dialect}`. Instrumentation scopes: {_scopes(framework)}.\n",
        "## Settings\n",
        f"- To record content, {framework.content}.",
        f"- To name conversations, {framework.conversation_id}.\n",
        "## Plans\n",
        f"Plans are read {framework.plans}. [How](index.md#plans) they are read, and [where metrics are\navailable](../metric-availability.md).\n",
        "## Where values are read from\n",
        *_where(framework),
        *_read(table),
        *_kinds(table),
        *_limits(framework),
    ]
    return "\n".join(parts) + "\n"


def _scopes(framework: Framework) -> str:
    return ", ".join(f"`{glob}`" for glob in framework.scopes) or "any other"


def _where(framework: Framework) -> Iterator[str]:
    if framework.where:
        yield "| meaning | location |\n|---|---|"
        yield from (f"| {_cell(meaning)} | {_cell(location)} |" for meaning, location in framework.where)
        yield ""


def _read(table: Table) -> Iterator[str]:
    yield "The dialect reads the first of these attributes that exists. `a~.b` is the field `b` of the JSON in `a`.\n"
    yield "| meaning | attributes |\n|---|---|"
    for field in fields(Table):
        paths = getattr(table, field.name)
        if paths and field.name not in _HIDDEN:
            meaning = _MEANINGS.get(field.name, field.name.replace("_", " "))
            yield f"| {meaning} | {', '.join(f'`{_cell(path)}`' for path in paths)} |"
    yield ""


def _kinds(table: Table) -> Iterator[str]:
    if not (table.kind and table.kinds):
        return
    yield f"Kinds of spans, by {', '.join(f'`{path}`' for path in table.kind)}:\n"
    yield "| value | read as |\n|---|---|"
    for value, meaning in table.kinds.items():
        yield f"| `{value}` | {_EVENTS.get(meaning, f'ignored: {meaning}')} |"
    yield ""


def _limits(framework: Framework) -> Iterator[str]:
    if framework.limits:
        yield "## Known limits\n"
        yield from (f"- {limit}" for limit in framework.limits)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def problems(expected: dict[Path, str]) -> list[str]:
    """Return the pages that are not current, and the files in the folder that belong to no framework."""
    others = sorted(set(FOLDER.glob("*.md")) - expected.keys())
    differing = [problem for path, text in expected.items() if (problem := stale(path, text))]
    return [*differing, *(f"{path.relative_to(ROOT)} belongs to no framework; run `make docs`" for path in others)]


def main() -> int:
    """Write the pages, or with `--check` print the pages that are not current; return the exit code."""
    parser = argparse.ArgumentParser(description="Write docs/frameworks/ from the code.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if a page is not current")
    expected = pages()
    if parser.parse_args().check:
        messages = problems(expected)
        print("\n".join(messages), end="\n" if messages else "")
        return 1 if messages else 0
    FOLDER.mkdir(exist_ok=True)
    for path in set(FOLDER.glob("*.md")) - expected.keys():
        path.unlink()
    for path, text in expected.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
