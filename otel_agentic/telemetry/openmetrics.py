"""Window gauges of the past as an OpenMetrics file, which `promtool tsdb create-blocks-from openmetrics` loads."""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING, Final

from otel_agentic.errors import BadInputError
from otel_agentic.telemetry import names
from otel_agentic.telemetry.past import past_samples
from otel_agentic.telemetry.prometheus import family_name, family_type, label_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from otel_agentic.config import EmitSettings
    from otel_agentic.telemetry.gauges import WindowPoints
    from otel_agentic.telemetry.names import Instrument
    from otel_agentic.telemetry.past import PastSample

_NS_PER_S: Final = 1_000_000_000
#: Series whose numbers are remembered; beyond, they are looked up again.
_MAX_REMEMBERED: Final = 200_000
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS series (
    id INTEGER PRIMARY KEY, family INTEGER NOT NULL, labels TEXT NOT NULL, UNIQUE (family, labels)
);
CREATE TABLE IF NOT EXISTS samples (
    series INTEGER NOT NULL, time_ns INTEGER NOT NULL, value REAL NOT NULL, PRIMARY KEY (series, time_ns)
) WITHOUT ROWID;
"""
_SORTED: Final = """
SELECT s.family, s.labels, p.time_ns, p.value
FROM series s JOIN samples p ON p.series = s.id
ORDER BY s.family, s.labels, p.time_ns
"""
#: What stands for a character that would end a label value, and those that end a line for some reader or another.
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class OpenMetricsHistory:
    """Gathers window points and writes them as one file, families together and each series in order of time.

    Windows are computed range by range, all series of each; the format wants it the other way round. So values wait in a
    scratch file beside the target, an SQLite database, and memory stays bounded. After a kill, opening it again goes on.
    """

    def __init__(self, path: Path, emit: EmitSettings, *, labels: Mapping[str, str] | None = None) -> None:
        """Open the scratch file.

        Args:
            path: the file to be written.
            emit: the cap on groups, and the estimators to emit.
            labels: put on every series, such as `job` and `instance` of the live ones.

        Raises:
            BadInputError: the scratch file cannot be used.
        """
        self.path = path
        self._emit = emit
        self._labels = dict(labels or {})
        self._scratch = path.with_name(path.name + ".parts")
        self._ids: dict[tuple[int, str], int] = {}
        self._con = _opened(self._scratch)

    def add(self, points: WindowPoints) -> int:
        """Keep the points of some window ends, durably; return how many values they have.

        Points of a group, window and end that are there already are replaced: adding twice is adding once.
        """
        rows = [
            (self._series(sample), sample.time_ns, float(sample.value)) for sample in past_samples(points, self._emit)
        ]
        with self._con:
            self._con.executemany("INSERT OR REPLACE INTO samples VALUES (?, ?, ?)", rows)
        return len(rows)

    def finish(self) -> Path:
        """Write the file, whole or not at all; remove the scratch file; return the path."""
        unfinished = self.path.with_name(self.path.name + ".tmp")
        with unfinished.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(self._lines())
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self.path)
        self.close()
        self._scratch.unlink()
        return self.path

    def close(self) -> None:
        """Let go of the scratch file; what was added stays in it."""
        self._con.close()

    def _series(self, sample: PastSample) -> int:
        family = names.WINDOW_INSTRUMENTS.index(sample.instrument)
        attributes = {label_name(name): str(value) for name, value in (sample.attributes or {}).items()}
        key = (family, _shown({**self._labels, **attributes}))
        if key not in self._ids:
            if len(self._ids) >= _MAX_REMEMBERED:
                self._ids.clear()
            self._con.execute("INSERT OR IGNORE INTO series (family, labels) VALUES (?, ?)", key)
            found = self._con.execute("SELECT id FROM series WHERE family = ? AND labels = ?", key)
            self._ids[key] = found.fetchone()[0]
        return self._ids[key]

    def _lines(self) -> Iterator[str]:
        current = None
        for family, labels, time_ns, value in self._con.execute(_SORTED):
            instrument = names.WINDOW_INSTRUMENTS[family]
            if family != current:
                current = family
                yield from _head(instrument)
            yield f"{family_name(instrument)}{labels} {value!r} {_seconds(time_ns)}\n"
        yield "# EOF\n"


def _opened(scratch: Path) -> sqlite3.Connection:
    con = None
    try:
        con = sqlite3.connect(scratch, check_same_thread=False)
        con.executescript(_SCHEMA)
    except sqlite3.Error as error:
        if con is not None:
            con.close()
        raise BadInputError(
            f"{scratch}: cannot be used as the scratch file of {scratch.stem}: {error}; remove it, or choose another path"
        ) from error
    return con


def _head(instrument: Instrument) -> Iterator[str]:
    name = family_name(instrument)
    yield f"# HELP {name} {instrument.description.translate(_ESCAPES)}\n"
    yield f"# TYPE {name} {family_type(instrument)}\n"


def _shown(labels: Mapping[str, str]) -> str:
    r"""Return labels as they stand behind a name.

    >>> print(_shown({"agent": 'the "best"'}))
    {agent="the \"best\""}
    """
    return "{" + ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in sorted(labels.items())) + "}"


def _seconds(time_ns: int) -> str:
    """Return nanoseconds as seconds, exactly.

    >>> _seconds(1_500_000_000), _seconds(2_000_000_000)
    ('1.500000000', '2')
    """
    whole, rest = divmod(time_ns, _NS_PER_S)
    return f"{whole}.{rest:09}" if rest else str(whole)
