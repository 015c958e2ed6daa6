"""`otel-agentic plugins`: list installed plug-ins."""

from __future__ import annotations

import click

from otel_agentic.cli.help import HelpfulCommand
from otel_agentic.cli.options import format_option
from otel_agentic.errors import PluginError
from otel_agentic.render.terminal import Column, console, fixed, print_json, print_table


@click.command(cls=HelpfulCommand)
@format_option
def plugins(output: str) -> None:
    """List collectors, dialects, judges, evaluators and estimators, and whether each loads."""
    from otel_agentic.plugins import GROUPS, find  # noqa: PLC0415 — the module has the same name as this command

    rows = []
    for group in GROUPS:
        for plugin in find(group).values():
            try:
                plugin.load()
                state = "ok"
            except PluginError as error:
                state = str(error)
            rows.append((group, plugin.name, f"{plugin.distribution} {plugin.version}", plugin.value, state))
    names = ("group", "name", "distribution", "object", "state")
    if output == "json":
        print_json([dict(zip(names, row, strict=True)) for row in rows])
        return
    columns = [
        *fixed("group", "name"),
        Column(name="distribution", least=18),
        Column(name="object", least=20, spare=1),
        Column(name="state", least=20),
    ]
    print_table(console(), columns, rows)
