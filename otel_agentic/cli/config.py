"""`otel-agentic config show`: the settings in force."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from otel_agentic.cli.options import config_option, format_option, settings_of
from otel_agentic.cli.output import console, print_json, table

if TYPE_CHECKING:
    from pathlib import Path


@click.group()
def config() -> None:
    """Look at settings."""


@config.command()
@config_option
@format_option
def show(config_file: Path | None, output: str) -> None:
    """Show every setting with its value, where it came from and what it means; secrets are masked."""
    from otel_agentic.config import described  # noqa: PLC0415 — the module's name is this command's too

    settings = settings_of(config_file)
    rows = described(settings, config_file)
    if output == "json":
        print_json(settings.model_dump(mode="json"))
        return
    shown: list[tuple[Any, ...]] = [(row.name, row.value, row.source, row.description) for row in rows]
    console().print(table(None, ("setting", "value", "from", "meaning"), shown))
