"""Cases as the text of a file, and what did not come along."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from otel_agentic.truth.formats.columns import COLUMNS
from otel_agentic.truth.formats.flat import flat_rows
from otel_agentic.truth.formats.losses import losses_of
from otel_agentic.truth.formats.reading import FORMATS, read_document, read_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_agentic.truth.formats.base import Loss
    from otel_agentic.truth.model import Case


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The text of a file of cases, and the fields that reading it again does not give back."""

    text: str
    losses: tuple[Loss, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRows:
    """The rows of a table of cases, and the fields that reading it again does not give back."""

    rows: tuple[Mapping[str, Any], ...]
    losses: tuple[Loss, ...]


def write_document(cases: Sequence[Case], format_name: str) -> Written:
    """Return cases in a format that is text.

    Raises:
        KeyError: there is no such format.
    """
    chosen = FORMATS[format_name]
    text = chosen.document(cases)
    back = read_document("", text, format_name)
    return Written(text=text, losses=tuple(losses_of(cases, back, chosen.reasons)))


def write_rows(cases: Sequence[Case]) -> WrittenRows:
    """Return cases as rows of the flat layout, for Parquet."""
    rows = tuple(flat_rows(cases))
    back = read_rows("", COLUMNS, list(enumerate(rows, start=1)), "parquet")
    return WrittenRows(rows=rows, losses=tuple(losses_of(cases, back, FORMATS["parquet"].reasons)))
