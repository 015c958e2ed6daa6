"""`otel-agentic config show`: the settings in force."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

import click

from otel_agentic.cli.options import config_option, format_option, settings_of
from otel_agentic.cli.render.terminal import Column, console, print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from otel_agentic.config import SettingDescription

#: Where a value may come from, for people; a default says nothing of itself.
_ORIGINS: Final = {"environment": "from the environment", "file": "from the file"}


@click.group(short_help="Show the settings in force.")
def config() -> None:
    """Look at settings."""


@config.command(short_help="Show every setting.")
@config_option
@format_option
def show(config_file: Path | None, output: str) -> None:
    """Show every setting with its value, what it means, and where it came from unless it is the default.

    Secrets are masked. A setting `name` of section `section` is OTEL_AGENTIC_SECTION__NAME in the environment.
    """
    from otel_agentic.config import describe_settings  # noqa: PLC0415 — the module's name is this command's too

    settings = settings_of(config_file)
    if output == "json":
        print_json(settings.model_dump(mode="json"))
        return
    columns = [Column(name="setting", whole=True), Column(name="value", least=16), Column(name="meaning", least=24)]
    print_table(console(), columns, list(_rows(describe_settings(settings, config_file))))


def _rows(settings: Iterable[SettingDescription]) -> Iterator[tuple[str, str, str]]:
    """Yield a heading for each section, in the words of the TOML file, and its settings below."""
    for section, found in groupby(settings, key=lambda setting: setting.name.partition(".")[0]):
        yield f"[{section}]", "", ""
        for setting in found:
            origin = _ORIGINS.get(setting.source)
            meaning = f"{setting.description} ({origin})" if origin else setting.description
            value = "not set" if setting.value == "None" else setting.value
            yield f"  {setting.name.partition('.')[2]}", value, meaning
