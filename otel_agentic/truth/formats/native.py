"""The case format itself: records are cases, written as JSON lines, YAML or CSV."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_agentic.truth.formats.base import Format, Reading, native_lines, record_of
from otel_agentic.truth.formats.items import Trouble
from otel_agentic.truth.problems import found_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_agentic.truth.formats.items import Item
    from otel_agentic.truth.model import Case

#: What may stand beside the list of cases.
_HEADER: Final = ("cases", "dataset", "$schema")


class Native(Format):
    """Cases as JSON lines."""

    name = "native"

    def fits(self, record: Mapping[str, Any]) -> bool:
        """Return whether a record has a case id."""
        return "case_id" in record

    def reading(self, item: Item, number: int) -> Reading:  # noqa: ARG002 — the signature of a format
        """Return the record as it is."""
        return Reading(fields=item.value)

    def troubles(self, items: Sequence[Item]) -> Iterator[Trouble]:
        """Yield the fields beside the list of cases that mean nothing."""
        for item in {id(item.header): item for item in items}.values():
            for key in item.header:
                if key not in _HEADER:
                    told = f"{key}: unknown field beside the cases; allowed: {', '.join(_HEADER)}"
                    yield Trouble(place=item.header_place((key,)), text=told)
            dataset = item.header.get("dataset", "-")
            if not (isinstance(dataset, str) and dataset):
                told = f"dataset: found {found_text(dataset)}; allowed: a text that is not empty"
                yield Trouble(place=item.header_place(("dataset",)), text=told)

    def document(self, cases: Sequence[Case]) -> str:
        """Return the cases as JSON lines."""
        return native_lines(cases)


class Yaml(Native):
    """Cases as YAML: a list."""

    name = "yaml"

    def document(self, cases: Sequence[Case]) -> str:
        """Return the cases as a YAML list."""
        from otel_agentic.truth.formats.yaml_text import write_yaml  # noqa: PLC0415 — only YAML files need PyYAML

        return write_yaml([record_of(case) for case in cases])
