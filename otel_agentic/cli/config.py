"""`otel-agentic config show`: the effective settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from otel_agentic.cli.options import config_option, format_option, settings_of
from otel_agentic.cli.render.terminal import Column, console, print_json, print_table

if TYPE_CHECKING:
    from otel_agentic.config import SettingDescription

#: The origins of a value as text; a default is not marked.
_ORIGINS: Final = {"environment": "from the environment", "file": "from the file"}


@click.group()
def config() -> None:
    """Show settings."""


@config.command(short_help="Show every setting.")
@config_option
@format_option
def show(config_file: Path | None, output: str) -> None:
    """Show every setting with its value, its meaning, and its origin unless it is the default.

    Secrets are masked. A setting `name` of section `section` is OTEL_AGENTIC_SECTION__NAME in the environment.
    """
    from otel_agentic.config import describe_settings  # noqa: PLC0415 — the module has the same name as this command

    settings = settings_of(config_file)
    if output == "json":
        print_json(settings.model_dump(mode="json"))
        return
    columns = [Column(name="setting", unfolded=True), Column(name="value", least=16), Column(name="meaning", least=24)]
    print_table(console(), columns, list(_rows(describe_settings(settings, config_file))))


def _rows(settings: Iterable[SettingDescription]) -> Iterator[tuple[str, str, str]]:
    """Yield a TOML heading for each section, followed by its settings."""
    for section, members in groupby(settings, key=lambda setting: setting.name.partition(".")[0]):
        yield f"[{section}]", "", ""
        for setting in members:
            origin = _ORIGINS.get(setting.source)
            description = f"{setting.description} ({origin})" if origin else setting.description
            value = "not set" if setting.value == "None" else setting.value
            yield f"  {setting.name.partition('.')[2]}", value, description
