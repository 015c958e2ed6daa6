"""How pictures look: a colour for each role, the style of a tier, and what matplotlib is told.

A drawing is made in marks, one unlikely colour a role, which become CSS variables: the page then has one drawing for
light, dark and print. The colours behind them are Okabe and Ito's, told apart with every kind of colour vision.

Ref: M. Okabe, K. Ito, "Color Universal Design", 2008.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Role -> the mark that matplotlib draws it with; `style.css` gives each role its colours.
MARKS: Final[Mapping[str, str]] = {
    role: f"#0d0e{place:02x}"
    for place, role in enumerate(
        (
            "ink",
            "muted",
            "grid",
            "surface",
            "at",
            "pow",
            "cover",
            "ready",
            "needs-improvement",
            "inconsistent",
            "not-ready",
            "insufficient-evidence",
        ),
        start=0xA0,
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TierStyle:
    """A deployment tier as people see it: in words, in colour, and in a shape for those who see no colour.

    `marker` is matplotlib's name of the shape, `sign` the character.
    """

    words: str
    role: str
    marker: str
    sign: str


TIERS: Final[Mapping[str, TierStyle]] = {
    "ready": TierStyle(words="ready", role="ready", marker="o", sign="●"),
    "needs_improvement": TierStyle(words="needs improvement", role="needs-improvement", marker="^", sign="▲"),
    "inconsistent": TierStyle(words="inconsistent", role="inconsistent", marker="D", sign="◆"),
    "not_ready": TierStyle(words="not ready", role="not-ready", marker="s", sign="■"),
    "insufficient_evidence": TierStyle(
        words="insufficient evidence", role="insufficient-evidence", marker="", sign="○"
    ),
    "no_row": TierStyle(words="no row in the table", role="insufficient-evidence", marker="d", sign="◇"),
}
#: How opaque a band is drawn; the page has its own value for it, by light and dark.
BAND: Final = 0.161
#: Font size of a drawing in px, when it is shown in its own size.
FONT_PX: Final = 11.5
_RC: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",  # text stays text: searchable, and in the page's font
    "svg.hashsalt": "otel-agentic",
    "figure.dpi": 72,  # so that a point is a pixel
    "font.size": FONT_PX,
    "axes.edgecolor": MARKS["grid"],
    "axes.labelcolor": MARKS["muted"],
    "axes.linewidth": 1.0,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "grid.color": MARKS["grid"],
    "grid.linewidth": 0.8,
    "text.color": MARKS["ink"],
    "xtick.color": MARKS["grid"],
    "ytick.color": MARKS["grid"],
    "xtick.labelcolor": MARKS["muted"],
    "ytick.labelcolor": MARKS["muted"],
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "lines.linewidth": 1.9,
    "lines.markersize": 5,
    "lines.solid_joinstyle": "round",
    "text.parse_math": False,
    "timezone": "UTC",
}


@contextmanager
def drawing() -> Iterator[None]:
    """Draw in our own style while the block runs, whatever style the user has for matplotlib."""
    import matplotlib as mpl  # noqa: PLC0415 — only pictures pay for it

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_RC)
        yield
