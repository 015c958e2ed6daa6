"""`otel-agentic prompts`: what a model is told when it judges."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from otel_agentic.cli.options import config_option, format_option, settings_of
from otel_agentic.cli.render.terminal import console, print_json, say

if TYPE_CHECKING:
    from pathlib import Path

    from otel_agentic.config import Settings
    from otel_agentic.evaluators.prompts import Prompted


@click.group(short_help="Show what a judge's model is told.")
def prompts() -> None:
    """Look at the prompts of judges that ask a model."""


@prompts.command(short_help="Show the prompts in force.")
@click.option(
    "--metric",
    metavar="NAME",
    help="Only what this asks with: a metric, an evaluator or a family, a prompt, or a kind of question (answer, parameter, "
    "utilization).",
)
@click.option(
    "--evaluator", "files", multiple=True, metavar="FILE:NAME", help="Show the prompts of this evaluator of yours, too."
)
@click.option("--full", is_flag=True, help="Show each message word for word, and the schema of its reply.")
@config_option
@format_option
def show(metric: str | None, files: tuple[str, ...], full: bool, config_file: Path | None, output: str) -> None:
    """Show the prompts in force, with their versions: the built-in ones, or the file of judge.prompt in their place.

    What is judged is not in them: it is shown to the model before them, as JSON between marks that nobody can guess.
    """
    found = _prompts(settings_of(config_file), metric, files)
    if output == "json":
        print_json([_as_json(one, full=full) for one in found])
        return
    for one in found:
        _show(one, full=full)
    if not full:
        _show_around()


def _prompts(settings: Settings, name: str | None, files: tuple[str, ...]) -> list[Prompted]:
    """Return the prompts that are wanted; evaluators are loaded only where theirs may be among them."""
    from otel_agentic.evaluators.prompts import built_in_prompts, merge_prompt, prompts_named, prompts_of  # noqa: PLC0415
    from otel_agentic.evaluators.registry import all_evaluators, of_files  # noqa: PLC0415 — the same
    from otel_agentic.judges.prompts import KINDS, prompt_texts  # noqa: PLC0415 — the same

    own = prompt_texts(settings.judge.prompt)
    if name in KINDS:
        return [prompt for prompt in built_in_prompts(own) if prompt.name == name]
    evaluators = all_evaluators(settings.evaluators, of_files(files, settings.evaluators))
    if name is not None:
        return prompts_named(name, evaluators, own)
    return [*built_in_prompts(own), *prompts_of(evaluators, own), merge_prompt(own)]


def _as_json(one: Prompted, *, full: bool) -> dict[str, Any]:
    told = {
        "metric": one.name,
        "metrics": one.metrics,
        "version": one.version,
        "digest": one.digest,
        "source": one.source,
        "text": one.text,
        "reply": _reply(one),
    }
    if not full:
        return told
    from otel_agentic.evaluators.prompts import SYSTEM_MESSAGE  # noqa: PLC0415 — as above

    return {**told, "system": SYSTEM_MESSAGE, "ways": one.ways}


def _reply(one: Prompted) -> dict[str, Any]:
    if one.form is None:
        return {"kind": "score", "low": 0.0, "high": 1.0}
    used = {"score": ("kind", "low", "high"), "label": ("kind", "labels"), "texts": ("kind", "most")}[one.form.kind]
    return {name: value for name, value in asdict(one.form).items() if name in used}


def _show(one: Prompted, *, full: bool) -> None:
    out = console()
    say(out, f"{one.name}, version {one.version}, digest {one.digest}, {one.source}", style="bold")
    if one.metrics:
        say(out, f"metrics: {', '.join(one.metrics)}")
    say(out, f"reply: {_reply_told(one)}")
    click.echo()
    if full:
        _show_messages(one)
    else:
        say(out, one.text)
        click.echo()


def _reply_told(one: Prompted) -> str:
    reply = _reply(one)
    if reply["kind"] == "label":
        return f"one of the labels {', '.join(reply['labels'])}"
    if reply["kind"] == "texts":
        return f"at most {reply['most']} texts"
    return f"a score from {reply['low']:g} to {reply['high']:g}"


def _show_messages(one: Prompted) -> None:
    """Print what is sent in each way, and the schema that goes with it."""
    from otel_agentic.evaluators.prompts import SYSTEM_MESSAGE  # noqa: PLC0415 — as above

    out = console()
    say(out, "system:", style="bold")
    say(out, SYSTEM_MESSAGE)
    for way, told in one.ways.items():
        click.echo()
        say(out, f"human, judge.method {way}:", style="bold")
        say(out, told["human"])
        if told["schema"] is not None:
            click.echo()
            say(out, f"schema, judge.method {way}:", style="bold")
            print_json(told["schema"])
    click.echo()


def _show_around() -> None:
    """Print what is said around each prompt."""
    from otel_agentic.evaluators.prompts import MATERIAL, NONCE, SYSTEM_MESSAGE  # noqa: PLC0415 — as above

    out = console()
    say(out, "around each of them (--full shows each message word for word)", style="bold")
    say(out, "system:")
    say(out, SYSTEM_MESSAGE)
    click.echo()
    say(out, "human:")
    say(out, f"<data {NONCE}>\n{MATERIAL}\n</data {NONCE}>\n\n[the prompt]\n\n[how to reply, by judge.method]")
