"""The file that a backfill writes, and the labels on its series."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from otel_agentic.cli.output import print_text
from otel_agentic.errors import BadInputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@contextmanager
def written(out: Path | None, *, wanted: bool) -> Iterator[Callable[[str], object]]:
    """Lend a function that writes text to a file, which takes its name once all of it is there; None: to standard output.

    Args:
        out: the file.
        wanted: whether there will be a text at all.

    Raises:
        BadInputError: the file cannot be written; on entering, unless the disk fills up.
    """
    if out is None or not wanted:
        yield print_text
        return
    unfinished = out.with_name(f"{out.name}.partial")
    characters = 0
    with _told(out):
        file = unfinished.open("w", encoding="utf-8", newline="")
    try:
        with file:

            def write(piece: str) -> None:
                nonlocal characters
                with _told(out):
                    characters += file.write(piece)

            yield write
            with _told(out):
                file.flush()
        if characters:
            with _told(out):
                unfinished.replace(out)
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def _told(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise BadInputError(f"--out {out}: cannot be written: {reason}; give another file") from error


def labels_of(given: tuple[str, ...]) -> dict[str, str]:
    """Return labels by name.

    Raises:
        UsageError: one is no NAME=VALUE, or a name is given twice.

    >>> labels_of(("job=otel-agentic", "instance=collector:9464"))
    {'job': 'otel-agentic', 'instance': 'collector:9464'}
    """
    labels: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals:
            raise UsageError(f"--label {each}: give NAME=VALUE, such as job=otel-agentic")
        if name in labels:
            raise UsageError(f"--label {each}: {name} is given twice")
        labels[name] = value
    return labels
