"""Writes docs/frameworks/: a page for each framework, from the frameworks table and the tables of their dialects.

Run it as `python -m tools.framework_reference [--check]`.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields
from typing import TYPE_CHECKING, Final

from otel_agentic import plugins
from otel_agentic.dialects import Table
from otel_agentic.dialects.frameworks import FRAMEWORKS
from tools.generated import ROOT, stale

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from otel_agentic.dialects.frameworks import Framework

FOLDER: Final = ROOT / "docs" / "frameworks"

#: How meanings of a table are called on the pages, where their own name does not say it.
_MEANINGS: Final = {
    "messages_in": "messages to the model",
    "messages_out": "messages from the model",
    "flat_in": "messages to the model, flattened",
    "flat_out": "messages from the model, flattened",
    "input": "whatever went in",
    "output": "whatever came out",
    "name": "name of what the span does",
    "call_id": "tool call id",
    "usage": "tokens, both counts in one value",
    "definitions": "tools that were given",
    "flat_definitions": "tools that were given, flattened",
    "schema": "schema of the called tool",
}
#: How the table works, or what no reader looks for.
_HIDDEN: Final = frozenset({"scopes", "marks", "kind", "kinds", "agent_id", "response_id"})
#: What the values of a dialect's `kind` attribute may mean; anything else is a reason to ignore the span.
_EVENTS: Final = {
    "agent": "agent run",
    "maybe_agent": "agent run where nothing above or below it is one",
    "model": "model call",
    "tool": "tool call",
    "plan": "plan",
}

_INDEX: Final = """\
# Frameworks

Written by `make docs` from the tables that the reader works with. Each page says what to switch on so that content is
recorded, how an application names its conversations, what is read from where, and what cannot be known.

Many instrumentations record no content unless they are told to. `otel-agentic doctor FILE` shows how each span of a file is
read and names the setting for what is missing; `otel-agentic doctor --live` asks a running collector the same. A framework that is not listed works when it follows one of these conventions; else name its attributes in the
[settings](../plugins.md#attribute-names-without-code), or write a [plug-in](../plugins.md).

## What is a turn

A turn is one user query and the final answer to it, over however many traces it took. **Several user inputs under one root are
several turns, whatever the spans are called**: voice agents and chat loops keep a whole conversation in one trace, with one span a
turn. A root that holds them is not read as an agent run. An input is a user's in two cases:

- a model call was sent `text 1, answer 1, text 2`, and an earlier model call below the same root was asked text 1;
- the root records no input, and one agent runs below it several times in a row, each time with another input.

These are one turn: a run whose history holds queries that no span below the root was asked; a sub-agent that a tool call started;
an input that another model call wrote (an orchestrator that delegates, a critic); a run with model calls of its own, whose
framework asks again when an answer does not fit; a run that records the query of its first model call; a run that failed and was tried again with
the same query. A greeting belongs to the first turn. Where no content is recorded, a trace with one root run is one turn.

## What is a call

A call is what the agent did: the union of tool spans and of the calls that model responses ask for. These are not calls: a tool
that gives the answer (`final_answer`); the events of a tool call that have spans of their own (`error`, `retry`); the interpreter of an agent
that **acts by writing code**, where the calls that the code makes are the calls. An interpreter is such a wrapper when other tools
ran inside it, or when the model wrote the code into its answer text. An interpreter that the model chose by a function call, and in
which no tool ran, is a tool (`code_interpreter` of OpenAI).

## Pages

| framework | dialect | instrumentation scopes |
|---|---|---|
"""


def pages() -> dict[Path, str]:
    """Return the pages by path: one a framework, and an index."""
    found = {FOLDER / f"{framework.name}.md": page(framework) for framework in FRAMEWORKS}
    return {FOLDER / "index.md": index(), **found}


def index() -> str:
    """Return the page that lists all others."""
    rows = [
        f"| [{framework.title}]({framework.name}.md) | {framework.dialect} | {_scopes(framework)} |"
        for framework in FRAMEWORKS
    ]
    return _INDEX + "\n".join(rows) + "\n"


def page(framework: Framework) -> str:
    """Return the page of one framework."""
    table: Table = plugins.get("dialects", framework.dialect).load().table
    parts = [
        f"# {framework.title}\n",
        f"Read by the dialect `{framework.dialect}`. Instrumentation scopes: {_scopes(framework)}.\n",
        "## What to switch on\n",
        f"- To have content recorded, {framework.content}.",
        f"- To name conversations, {framework.conversation_id}.\n",
        "## What is read from where\n",
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
        yield "| meaning | place |\n|---|---|"
        yield from (f"| {_cell(meaning)} | {_cell(place)} |" for meaning, place in framework.where)
        yield ""


def _read(table: Table) -> Iterator[str]:
    yield "The dialect looks at these attributes, the first that is there counts. `a~.b` is the field `b` of the JSON in `a`.\n"
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
    yield f"What a span is, by {', '.join(f'`{path}`' for path in table.kind)}:\n"
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


def problems(wanted: dict[Path, str]) -> list[str]:
    """Return how the folder differs from what is wanted: pages that are not current, and pages of nobody."""
    strangers = sorted(set(FOLDER.glob("*.md")) - wanted.keys())
    differing = [problem for path, text in wanted.items() if (problem := stale(path, text))]
    return [*differing, *(f"{path.relative_to(ROOT)} is of no framework; run `make docs`" for path in strangers)]


def main() -> int:
    """Write the pages, or with `--check` say what is not current; return the exit code."""
    parser = argparse.ArgumentParser(description="Write docs/frameworks/ from the code.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 when a page is not current")
    wanted = pages()
    if parser.parse_args().check:
        found = problems(wanted)
        print("\n".join(found), end="\n" if found else "")
        return 1 if found else 0
    FOLDER.mkdir(exist_ok=True)
    for path in set(FOLDER.glob("*.md")) - wanted.keys():
        path.unlink()
    for path, text in wanted.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
