"""`otel-agentic truth annotations`: what people recorded about conversations, and how far they agree."""

from __future__ import annotations

from typing import Final

import click

from otel_agentic.cli.help import HelpfulCommand
from otel_agentic.cli.options import Target, format_option, target_options
from otel_agentic.render.terminal import Column, console, print_result, print_table, say, text
from otel_agentic.render.text import moment, percent, plural, ratio, short
from otel_agentic.results.annotations import AnnotationList, AnnotationRow, AnnotatorAgreement

#: Maximum number of characters of a note in the table.
_NOTE: Final = 80
_HELP: Final = """List the annotations of people, and how far the annotators agree.

The newest annotation of each annotator is listed. The labels of labels files are in the table `labels`.

\b
Examples:
  otel-agentic truth annotations --disagreements
  otel-agentic truth annotations --name agentest.helpfulness --format json
"""


@click.command(
    cls=HelpfulCommand, name="annotations", help=_HELP, short_help="List annotations, and the agreement of annotators."
)
@target_options
@click.option("--name", metavar="METRIC", help="Only annotations of correct, answer, or this metric.")
@click.option("--conversation", metavar="ID", help="Only annotations of this conversation.")
@click.option("--annotator", metavar="NAME", help="Only what this annotator judged, with the other annotators of it.")
@click.option("--disagreements", is_flag=True, help="Only where annotators differ, without an adjudication.")
@format_option
def list_annotations(
    target: Target,
    name: str | None,
    conversation: str | None,
    annotator: str | None,
    *,
    disagreements: bool,
    output: str,
) -> None:
    """List annotations."""
    with target.open() as client:
        result = client.get(
            AnnotationList,
            "truth_annotations",
            name=name,
            conversation_id=conversation,
            annotator=annotator,
            disagreements=disagreements,
        )
    print_result(result, output, _print)


def _print(result: AnnotationList) -> None:
    out = console()
    if not result.annotations:
        say(out, "no annotations; `otel-agentic label ID pass|fail` records one")
    else:
        columns = [
            Column(name="conversation", unfolded=True),
            *text("about", "verdict", "annotator"),
            Column(name="note", least=16, spare=1),
            Column(name="at", unfolded=True, spare=2),
        ]
        print_table(out, columns, [_row(row) for row in result.annotations], "Annotations")
    for line in agreement_lines(result.agreement, result.without_verdict):
        say(out, line)


def _row(row: AnnotationRow) -> tuple[str, ...]:
    about = row.name.removeprefix("agentic.")
    about += f", turn {row.turn}" if row.turn is not None else ""
    about += f", call {row.call}" if row.call is not None else ""
    values = (row.verdict, row.label, None if row.value is None else f"{row.value:g}")
    verdict = " ".join(value for value in values if value is not None)
    annotator = f"{row.annotator} (adjudication)" if row.source == "adjudication" else row.annotator
    return (row.conversation_id, about, verdict, annotator, short(row.note or "", _NOTE), moment(row.annotated_at))


def agreement_lines(agreement: AnnotatorAgreement, without_verdict: int) -> list[str]:
    """Return lines on the agreement between annotators; none if no target was judged by two of them."""
    lines = []
    if agreement.items:
        kappa = "" if agreement.cohen_kappa is None else f", Cohen's kappa {ratio(agreement.cohen_kappa)}"
        alpha = "" if agreement.alpha is None else f", Krippendorff's alpha {ratio(agreement.alpha)}"
        items = f"{plural(agreement.items, 'item')} judged by two or more of {', '.join(agreement.annotators)}"
        lines.append(f"agreement between annotators: {percent(agreement.agreement)}{kappa}{alpha} ({items})")
    if without_verdict:
        lines.append(
            f"{plural(without_verdict, 'item')} without a verdict, because annotators disagree: "
            "`otel-agentic label ID pass|fail --adjudicate` decides"
        )
    return lines
