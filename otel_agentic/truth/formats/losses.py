"""What of cases did not come back from a file: found by reading it, so that nothing is lost in silence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_agentic.truth.formats.base import Loss

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_agentic.truth.formats.base import Document
    from otel_agentic.truth.formats.items import Path
    from otel_agentic.truth.model import Case

#: Fields that hold records: a difference in them is one of a field of these.
_HOLDERS: Final = frozenset({"turns", "tools", "calls"})


def losses_of(cases: Sequence[Case], back: Document, reasons: Mapping[str, str]) -> Iterator[Loss]:
    """Yield the fields that differ between cases and what a file of them gives back, in the order of the cases."""
    found = {case.key: case for case in back.cases}
    for case in cases:
        other = found.get(case.key)
        paths = [()] if other is None else differences(case.model_dump(mode="json"), other.model_dump(mode="json"))
        for path in paths:
            yield Loss(
                dataset=case.dataset,
                case_id=case.case_id,
                field=".".join(str(part) for part in path),
                reason=_reason(path, reasons) if path else "the file cannot hold this case",
            )


def differences(one: Mapping[str, Any], other: Mapping[str, Any], path: Path = ()) -> Iterator[Path]:
    """Yield the ways to the fields in which two dumped records differ; of lists of other lengths the list itself."""
    for name, value in one.items():
        yield from _differences(name, value, other.get(name), (*path, name))


def _differences(name: str, value: Any, other: Any, path: Path) -> Iterator[Path]:
    if _same(value, other):
        return
    if name in _HOLDERS and isinstance(value, dict) and isinstance(other, dict):
        yield from differences(value, other, path)
    elif name in _HOLDERS and isinstance(value, list) and isinstance(other, list) and len(value) == len(other):
        for place, (left, right) in enumerate(zip(value, other, strict=True)):
            yield from differences(left, right, (*path, place))
    elif name == "parameters":
        yield from ((*path, key) for key in value if key not in other or not _same(value[key], other[key]))
        yield from ((*path, key) for key in other if key not in value)
    else:
        yield path


def _same(one: Any, other: Any) -> bool:
    """Return whether two JSON values are the same; true is not 1, and 1.0 is 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


def _reason(path: Path, reasons: Mapping[str, str]) -> str:
    """Return why a field is lost: the reason of the longest way that leads to it."""
    names = [str(part) for part in path if not isinstance(part, int)]
    ways = (".".join(names[:end]) for end in range(len(names), -1, -1))
    return next((reasons[way] for way in ways if way in reasons), "the format has no field for it")
