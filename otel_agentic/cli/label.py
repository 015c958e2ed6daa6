"""`otel-agentic label`: record a person's verdict on a conversation, a turn or a call."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, Final

import click

from otel_agentic.cli.help import HelpfulCommand
from otel_agentic.cli.options import Target, format_option, target_options
from otel_agentic.render.terminal import console, print_result, say
from otel_agentic.render.text import plural
from otel_agentic.results.annotations import RecordedLabel

if TYPE_CHECKING:
    from collections.abc import Iterator

_HELP: Final = """Record a verdict on a conversation, or with --turn and --call on a part of it.

The verdict on a conversation sets its outcome, and it is scored again at once. Several people may label the same
conversation: their verdict counts if they agree; otherwise none does until someone labels it with --adjudicate. A label of a
labels file takes precedence over people who agree, an adjudication over everything.

With --name, the verdict is about the answer of a turn or about a metric; `judge calibrate` compares the judge with it.

\b
Examples:
  otel-agentic label conv-17 fail --note "booked the wrong day"
  otel-agentic label conv-17 fail --random-sample
  otel-agentic label conv-17 pass --turn 2 --name answer
  otel-agentic label conv-17 fail --turn 2 --name layers.verdict --as ana
  otel-agentic label conv-17 pass --adjudicate
  otel-agentic label conv-17 --retract
"""


@click.command(cls=HelpfulCommand, help=_HELP)
@click.argument("conversation_id", metavar="ID")
@click.argument("verdict", required=False, type=click.Choice(["pass", "fail", "unsure"]))
@target_options
@click.option("--turn", metavar="N", type=click.IntRange(min=1), help="The verdict is about this turn, counted from 1.")
@click.option(
    "--call", metavar="N", type=click.IntRange(min=1), help="With --turn: it is about this call, counted from 1."
)
@click.option(
    "--name",
    metavar="METRIC",
    default="correct",
    show_default=True,
    help="What the verdict is about: correct, answer, or a metric.",
)
@click.option("--note", metavar="TEXT", help="A comment.")
@click.option("--as", "annotator", metavar="NAME", help="The annotator. Default: the name of the current user.")
@click.option("--environment", metavar="NAME", help="The environment, if several have a conversation with this id.")
@click.option("--adjudicate", is_flag=True, help="Decide where annotators disagree.")
@click.option(
    "--random-sample",
    is_flag=True,
    help="The conversation was drawn at random: use the verdict to correct the rates of all.",
)
@click.option("--retract", is_flag=True, help="Withdraw the annotator's own verdict.")
@format_option
def label(
    conversation_id: str,
    verdict: str | None,
    target: Target,
    turn: int | None,
    call: int | None,
    name: str,
    note: str | None,
    annotator: str | None,
    environment: str | None,
    *,
    adjudicate: bool,
    retract: bool,
    random_sample: bool,
    output: str,
) -> None:
    """Record a verdict."""
    with target.open() as client:
        result = client.get(
            RecordedLabel,
            "label",
            conversation_id=conversation_id,
            verdict=verdict,
            turn=turn,
            call=call,
            name=name,
            note=note,
            annotator=annotator or getpass.getuser(),
            environment=environment,
            adjudicate=adjudicate,
            retracted=retract,
            random_sample=random_sample,
        )
    print_result(result, output, _print)


def _print(result: RecordedLabel) -> None:
    out = console()
    for line in _lines(result):
        say(out, line)


def _lines(result: RecordedLabel) -> Iterator[str]:
    part = result.conversation_id
    part += f", turn {result.turn}" if result.turn is not None else ""
    part += f", call {result.call}" if result.call is not None else ""
    about = "" if result.name == "correct" else f" on {result.name}"
    if result.retracted:
        yield f"{part}: {plural(result.retracted, 'verdict')}{about} of {result.annotator} withdrawn"
    else:
        yield f"{part}: {result.verdict}{about} by {result.annotator}"
    if result.disagree:
        votes = ", ".join(f"{vote.annotator} {vote.verdict}" for vote in result.votes)
        yield f"annotators disagree ({votes}): no verdict counts; decide with --adjudicate"
    if result.rescored:
        source = "computed" if result.outcome_source == "computed" else f"set by {result.outcome_source}"
        computed = "" if result.outcome_source == "computed" else f"; computed: {result.computed_outcome}"
        yield f"outcome: {result.outcome} ({source}{computed})"
    elif result.note is not None:
        yield result.note
