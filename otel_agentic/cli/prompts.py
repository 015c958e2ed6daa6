"""`otel-agentic prompts`: the prompts of judges that call a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from otel_agentic.cli.help import HelpfulGroup
from otel_agentic.cli.options import config_option, format_option, settings_of
from otel_agentic.render.terminal import console, print_json, say
from otel_agentic.results.evaluation import JudgePrompt, PromptReply

if TYPE_CHECKING:
    from otel_agentic.config import Settings
    from otel_agentic.evaluators.prompts import Prompted


@click.group(cls=HelpfulGroup)
def prompts() -> None:
    """Show the prompts of judges that call a model."""


@prompts.command(short_help="Show the active prompts.")
@click.option(
    "--metric",
    metavar="NAME",
    help="Only the prompts of a metric, an evaluator, a family, a prompt name, or a kind of question (answer, parameter, "
    "utilization).",
)
@click.option(
    "--evaluator",
    "files",
    multiple=True,
    metavar="FILE:NAME",
    help="Also show the prompts of your own evaluator; repeatable.",
)
@click.option("--full", is_flag=True, help="Show each complete message, and the schema of its reply.")
@config_option
@format_option
def show(metric: str | None, files: tuple[str, ...], full: bool, config_file: Path | None, output: str) -> None:
    """Show the active prompts with their versions: the built-in prompts, or those of the file judge.prompt.

    Prompts do not contain the judged content. The model receives it before the prompt, as JSON between unpredictable marks.
    """
    selected_prompts = _prompts(settings_of(config_file), metric, files)
    if output == "json":
        print_json([_prompt_result(prompt, full=full) for prompt in selected_prompts])
        return
    for prompt in selected_prompts:
        _show(prompt, full=full)
    if not full:
        _show_around()


def _prompts(settings: Settings, name: str | None, files: tuple[str, ...]) -> list[Prompted]:
    """Return the selected prompts; evaluators are loaded only if the selection may include theirs."""
    from otel_agentic.evaluators.prompts import built_in_prompts, merge_prompt, prompts_named, prompts_of  # noqa: PLC0415
    from otel_agentic.evaluators.registry import all_evaluators, of_files  # noqa: PLC0415 — the same
    from otel_agentic.judges.prompts import KINDS, prompt_texts  # noqa: PLC0415 — the same

    file_prompts = prompt_texts(settings.judge.prompt)
    if name in KINDS:
        return [prompt for prompt in built_in_prompts(file_prompts) if prompt.name == name]
    evaluators = all_evaluators(settings.evaluators, of_files(files, settings.evaluators))
    if name is not None:
        return prompts_named(name, evaluators, file_prompts)
    return [*built_in_prompts(file_prompts), *prompts_of(evaluators, file_prompts), merge_prompt(file_prompts)]


def _prompt_result(prompt: Prompted, *, full: bool) -> JudgePrompt:
    from otel_agentic.evaluators.prompts import SYSTEM_MESSAGE  # noqa: PLC0415 — as above

    return JudgePrompt(
        metric=prompt.name,
        metrics=list(prompt.metrics),
        version=prompt.version,
        digest=prompt.digest,
        source=prompt.source,
        text=prompt.text,
        reply=_reply(prompt),
        system=SYSTEM_MESSAGE if full else None,
        ways={str(method): message for method, message in prompt.ways.items()} if full else None,
    )


def _reply(prompt: Prompted) -> PromptReply:
    form = prompt.form
    if form is None:
        return PromptReply(kind="score", low=0.0, high=1.0)
    if form.kind == "score":
        return PromptReply(kind="score", low=form.low, high=form.high)
    if form.kind == "label":
        return PromptReply(kind="label", labels=list(form.labels))
    return PromptReply(kind=form.kind, most=form.most)


def _show(prompt: Prompted, *, full: bool) -> None:
    out = console()
    say(out, f"{prompt.name}, version {prompt.version}, digest {prompt.digest}, {prompt.source}", style="bold")
    if prompt.metrics:
        say(out, f"metrics: {', '.join(prompt.metrics)}")
    say(out, f"reply: {_reply_description(prompt)}")
    click.echo()
    if full:
        _show_messages(prompt)
    else:
        say(out, prompt.text)
        click.echo()


def _reply_description(prompt: Prompted) -> str:
    reply = _reply(prompt)
    if reply.labels is not None:
        return f"one of the labels {', '.join(reply.labels)}"
    if reply.most is not None:
        return f"at most {reply.most} texts"
    return f"a score from {reply.low:g} to {reply.high:g}"


def _show_messages(prompt: Prompted) -> None:
    """Print the message of each method, with its schema."""
    from otel_agentic.evaluators.prompts import SYSTEM_MESSAGE  # noqa: PLC0415 — as above

    out = console()
    say(out, "system:", style="bold")
    say(out, SYSTEM_MESSAGE)
    for method, message in prompt.ways.items():
        click.echo()
        say(out, f"human, judge.method {method}:", style="bold")
        say(out, message["human"])
        if message["schema"] is not None:
            click.echo()
            say(out, f"schema, judge.method {method}:", style="bold")
            print_json(message["schema"])
    click.echo()


def _show_around() -> None:
    """Print the messages that surround each prompt."""
    from otel_agentic.evaluators.prompts import MATERIAL, NONCE, SYSTEM_MESSAGE  # noqa: PLC0415 — as above

    out = console()
    say(out, "around each prompt (--full shows the complete messages)", style="bold")
    say(out, "system:")
    say(out, SYSTEM_MESSAGE)
    click.echo()
    say(out, "human:")
    say(out, f"<data {NONCE}>\n{MATERIAL}\n</data {NONCE}>\n\n[the prompt]\n\n[how to reply, by judge.method]")
