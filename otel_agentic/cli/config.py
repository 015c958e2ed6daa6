"""`otel-agentic config`: the effective settings, and settings files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from otel_agentic.cli.help import HelpfulCommand, HelpfulGroup
from otel_agentic.cli.options import FILE, config_option, format_option, settings_of
from otel_agentic.errors import UsageError
from otel_agentic.render.terminal import Column, console, print_json, print_table, say
from otel_agentic.render.text import plural

if TYPE_CHECKING:
    from otel_agentic.config import SettingDescription

#: The origins of a value as text; a default is not marked.
_ORIGINS: Final = {"environment": "from the environment", "file": "from the file"}


@click.group(cls=HelpfulGroup)
def config() -> None:
    """Show the effective settings; write and check a settings file."""


@config.command(cls=HelpfulCommand, short_help="Show every setting.")
@click.option("--changed", is_flag=True, help="Only settings that differ from their default.")
@config_option
@format_option
def show(config_file: Path | None, output: str, *, changed: bool) -> None:
    """Show every setting with its value, its meaning, and its origin unless it is the default.

    Secrets are masked. A setting `name` of section `section` is OTEL_AGENTIC_SECTION__NAME in the environment.
    """
    from otel_agentic.config import describe_settings, settings_file  # noqa: PLC0415 — the name of this command

    settings = settings_of(config_file)
    if output == "json":
        print_json(settings.model_dump(mode="json", exclude_defaults=changed))
        return
    columns = [Column(name="setting", unfolded=True), Column(name="value", least=16), Column(name="meaning", least=24)]
    described = [
        setting for setting in describe_settings(settings, config_file) if not changed or setting.source in _ORIGINS
    ]
    if described:
        print_table(console(), columns, list(_rows(described)))
    else:
        say(console(), "every setting has its default")
    file = settings_file(config_file)
    say(
        console(),
        f"settings file: {file}" if file else "no settings file; `otel-agentic config init` writes one",
        style="dim",
    )


@config.command(cls=HelpfulCommand, short_help="Write a commented settings file.")
@click.argument("file", type=FILE, default=Path("otel-agentic.toml"))
def init(file: Path) -> None:
    """Write a settings file with every setting, its meaning and its default, all commented out."""
    from otel_agentic.config import commented_settings  # noqa: PLC0415 — the name of this command

    try:
        with file.open("x", encoding="utf-8") as stream:
            stream.write(commented_settings())
    except FileExistsError as error:
        raise UsageError(f"{file} exists already; give another FILE, or remove it") from error
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}; give a file that can be written") from error
    say(
        console(),
        f"{file}: every setting with its default, commented out; `otel-agentic config check {file}` checks it",
    )


@config.command(cls=HelpfulCommand, short_help="Check a settings file.")
@click.argument("file", type=FILE, required=False)
def check(file: Path | None) -> None:
    """Check a settings file: every name and every value, with the environment applied."""
    from otel_agentic.config import describe_settings, settings_file  # noqa: PLC0415 — the name of this command

    settings = settings_of(file)
    origins = [setting.source for setting in describe_settings(settings, file)]
    path = settings_file(file)
    counts = (
        f"{plural(origins.count('file'), 'setting')} of the file, {origins.count('environment')} of the environment"
    )
    say(console(), f"{path or 'no settings file'}: valid ({counts})")


def _rows(settings: Iterable[SettingDescription]) -> Iterator[tuple[str, str, str]]:
    """Yield a TOML heading for each section, followed by its settings."""
    for section, members in groupby(settings, key=lambda setting: setting.name.partition(".")[0]):
        yield f"[{section}]", "", ""
        for setting in members:
            origin = _ORIGINS.get(setting.source)
            description = f"{setting.description} ({origin})" if origin else setting.description
            value = "not set" if setting.value == "None" else setting.value
            yield f"  {setting.name.partition('.')[2]}", value, description
