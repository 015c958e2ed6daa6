"""Windows for pictures, written as the collector writes them; and a page taken apart as a browser would."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

from otel_agentic.config import load_settings
from otel_agentic.engine.engine import Engine
from otel_agentic.store.table import Table
from tests.cli.small import NOON_NS, SECOND_NS

HOUR_NS: Final = 3600 * SECOND_NS
_VOID: Final = frozenset({"meta", "link", "br", "hr", "wbr"})
#: What a report never has.
_NEVER: Final = frozenset({"script", "iframe", "object", "embed", "form", "input", "img", "base", "audio", "video"})


def window(hour: int, pow_k: float | None, **other: Any) -> dict[str, Any]:
    """Return a row of `windows`: a 24 h window of clerk 1.0 that ends so many hours after noon."""
    end_ns = NOON_NS + hour * HOUR_NS
    at_k = None if pow_k is None else 1 - (1 - pow_k) ** 3
    row: dict[str, Any] = {
        "agent": "clerk",
        "agent_version": "1.0",
        "environment": "production",
        "service": "shop",
        "tag": None,
        "window": "24h",
        "end": end_ns,
        "k": 3,
        "estimator": "bayesian",
        "interval_method": "beta_equal_tailed",
        "level": 0.95,
        "n": 40,
        "c": 30,
        "not_evaluated": {},
        "coverage": 0.8,
        **_around("pass_at_k", at_k),
        **_around("pass_pow_k", pow_k),
        "lower_bound": 0.6,
        "upper_bound": 0.8,
        "tier": "insufficient_evidence",
        "leaning": "ready",
        "revision": 1,
        "computed_at": end_ns + SECOND_NS,
    }
    return row | other


def store_windows(db: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Write rows of `windows` into a store."""
    with Engine(load_settings(None, store={"db": db})) as engine:
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        engine.store.write(lambda con: Table(con, "windows").insert(con, columns))
    return db


def history(rows: Iterable[dict[str, Any]], **other: Any) -> dict[str, Any]:
    """Return the row of `report_pictures` that windows of one group become."""
    columns: dict[str, list[Any]] = {"end_ns": [], "restated": []}
    for row in rows:
        columns["end_ns"].append(row["end"])
        columns["restated"].append(row["revision"] > 1)
        for name in set(row) - {"end", "revision"}:
            columns.setdefault(name, []).append(row[name])
    subject = {name: columns.pop(name)[0] for name in ("agent", "agent_version", "environment", "service", "tag")}
    return subject | columns | other


@dataclass
class Page(HTMLParser):
    """A page taken apart; it fails where a tag is not closed, or one is there that a report never has."""

    ids: list[str] = field(default_factory=list)
    references: list[str] = field(default_factory=list)
    attributes: list[tuple[str, str | None]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    headings: list[str] = field(default_factory=list)
    charts: int = 0

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.glued = False

    @classmethod
    def of(cls, text: str) -> Page:
        """Take a page apart."""
        page = cls()
        page.feed(text)
        page.close()
        assert [] == page.open
        return page

    @property
    def text(self) -> str:
        """The text in order."""
        return " ".join(" ".join(self.texts).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in _NEVER
        self.charts += tag == "svg" and ("role", "img") in attrs
        self.glued = tag == "wbr"
        self.attributes += attrs
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in {"href", "clip-path", "aria-labelledby"}:
                self.references += [
                    part.strip("url(#)") for part in (value or "").split() if not part.startswith("data:")
                ]
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert tag == self.open.pop()
        self.glued = False

    def handle_data(self, data: str) -> None:
        if "style" in self.open:
            return
        if self.glued:
            self.texts[-1] += data
        else:
            self.texts.append(data)
        self.glued = False
        if self.open and self.open[-1] == "h2":
            self.headings.append(data)


def _around(name: str, value: float | None) -> dict[str, float | None]:
    if value is None:
        return {name: None, f"{name}_lower": None, f"{name}_upper": None}
    return {name: value, f"{name}_lower": max(0.0, value - 0.1), f"{name}_upper": min(1.0, value + 0.1)}
