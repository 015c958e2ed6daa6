"""`otel-agentic truth`: cases, labels and which conversation belongs to which."""

from __future__ import annotations

import click

from otel_agentic.cli.help import HelpfulGroup
from otel_agentic.cli.truth.annotations import list_annotations
from otel_agentic.cli.truth.export import datasets, export, schema
from otel_agentic.cli.truth.files import import_, validate
from otel_agentic.cli.truth.matches import list_, matches
from otel_agentic.cli.truth.promote import promote

__all__ = ["truth"]


@click.group(cls=HelpfulGroup)
def truth() -> None:
    """Handle annotated ground truth."""


for _command in (import_, export, list_, datasets, matches, list_annotations, promote, validate, schema):
    truth.add_command(_command)
