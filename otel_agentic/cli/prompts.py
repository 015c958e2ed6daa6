"""`otel-agentic prompts`: what a model is told when it judges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from otel_agentic.cli.options import config_option, format_option, settings_of
from otel_agentic.cli.output import console, print_json, say

if TYPE_CHECKING:
    from pathlib import Path

_KINDS: Final = ("answer", "parameter", "utilization")


@click.group(short_help="Show what a judge's model is told.")
def prompts() -> None:
    """Look at the prompts of judges that ask a model."""


@prompts.command(short_help="Show the prompts in force.")
@click.option("--metric", type=click.Choice(_KINDS), help="Only the prompt of this kind of question.")
@config_option
@format_option
def show(metric: str | None, config_file: Path | None, output: str) -> None:
    """Show the prompts in force, with their versions: the built-in ones, or the file of judge.prompt in their place.

    What is judged is not in them: it is shown to the model before them, as JSON between marks that nobody can guess.
    """
    from otel_agentic.judges.prompts import prompt_texts  # noqa: PLC0415 — not needed for --help

    found = prompt_texts(settings_of(config_file).judge.prompt)
    chosen = [prompt for kind, prompt in found.items() if metric in {None, kind}]
    if output == "json":
        print_json(
            [
                {
                    "metric": one.kind,
                    "version": one.version,
                    "digest": one.digest,
                    "source": one.source,
                    "text": one.text,
                }
                for one in chosen
            ]
        )
        return
    for place, one in enumerate(chosen):
        if place:
            click.echo()
        say(console(), f"{one.kind}, version {one.version}, digest {one.digest}, {one.source}", style="bold")
        say(console(), one.text)
