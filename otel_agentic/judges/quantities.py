"""Numbers in text, by value: thousands separators, signs, currencies, units, scale words, small number words."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.judges.units import UNITS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_RELATIVE_TOLERANCE: Final = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A number in a text: `value` as written (scale words applied), `factor` times that in the base unit of `dimension`.

    `dimension` of a bare number: None. `decimals` counts the digits after the point. `start` and `end` are its position.
    `worded`: written as a word ("three").
    """

    value: float
    dimension: str | None
    factor: float
    decimals: int
    start: int
    end: int
    worded: bool = False

    def same_as(self, other: Quantity) -> bool:
        """Return whether both have the same value; a bare number matches any unit, 5 % matches 5 and 0.05."""
        if self.dimension is None or other.dimension is None:
            # Only a percentage changes its bare value: 1000 is not written for 1 km without a unit.
            percent = 0.01 if "percent" in {self.dimension, other.dimension} else 1.0
            own, others = self.value, other.value
            scaled = (own * percent, others) if self.dimension else (own, others * percent)
            return _close(own, others) or _close(*scaled)
        return self.dimension == other.dimension and _close(self.value * self.factor, other.value * other.factor)

    def same_kind(self, other: Quantity) -> bool:
        """Return whether the two could contradict each other: equal dimensions."""
        return self.dimension == other.dimension


def _close(first: float, second: float) -> bool:
    return first == second or math.isclose(first, second, rel_tol=_RELATIVE_TOLERANCE, abs_tol=1e-12)


def rounds_to(exact: float, stated: Quantity) -> bool:
    """Return whether a stated number equals an exact one, perhaps rounded to the decimals that are written.

    >>> rounds_to(11.4567, next(quantities("about 11.46")))
    True
    """
    return _close(exact, stated.value) or abs(exact - stated.value) <= 0.5 * 10.0**-stated.decimals * (1 + 1e-9)


_SCALES: Final[Mapping[str, float]] = {
    "k": 1e3,
    "thousand": 1e3,
    "mn": 1e6,
    "million": 1e6,
    "m": 1e6,
    "b": 1e9,
    "bn": 1e9,
    "billion": 1e9,
    "trillion": 1e12,
}
_WORDED_NAMES: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
)
_TENS_NAMES: Final = "twenty thirty forty fifty sixty seventy eighty ninety"
#: From two on, without names that are also English words ("elf", "once").
_OTHER_NAMES: Final = (
    "zwei drei vier fünf sechs sieben acht neun zehn",
    "deux trois quatre cinq six _ huit neuf dix",
    "_ tres cuatro cinco seis siete ocho nueve diez",
)
_WORDED: Final[Mapping[str, int]] = {
    **{word: value for names in _OTHER_NAMES for value, word in enumerate(names.split(), start=2) if word != "_"},
    **{word: value for value, word in enumerate(_WORDED_NAMES.split())},
}
_TENS: Final[Mapping[str, int]] = {word: 10 * value for value, word in enumerate(_TENS_NAMES.split(), start=2)}
_WORDED_SCALES: Final[Mapping[str, float]] = {"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9}
_CURRENCIES: Final = "$€£¥₹"

#: Starts at a digit, so that the search skips from number to number; the prefix is read afterwards.
_NUMBER: Final = re.compile(
    rf"""
    (?<!\w)(?<!\d\.)
    (?P<digits>
        \d{{1,3}}(?:\.\d{{3}})+,\d+ |                    # 1.234,56
        \d{{1,3}}(?:\.\d{{3}}){{2,}}(?![\d.]) |          # 1.234.567
        \d{{1,3}}(?:[,'\u2019\u00a0\u202f\u2009]\d{{3}})+(?!\d)(?:\.\d+)? |   # 1,234.56  1'234  1 234
        (?<!\d,)\d+,\d{{1,2}}(?![\d,]) |                 # 3,50, but not in 1,2,3
        \d+(?:\.\d+)?(?:[eE][+-]?\d{{1,3}}(?!\w))? |     # 1234.56  1e6
        \.\d+
    )
    (?:(?:st|nd|rd|th)(?!\w))?
    (?:(?P<scale>[MB](?!\w)|\ ?(?:[kK]|thousand|mn|million|bn|billion|trillion)(?!\w)))?
    (?:[\ \u00a0\u202f-]?(?:degrees?\ )?(?P<unit>%|°\ ?[cCfF]|[{_CURRENCIES}]|[^\W\d_]+)(?!\w))?
    """,
    re.VERBOSE,
)
_BEFORE: Final = re.compile(
    rf"(?:(?<![\w)])(?P<minus>[-\u2212]))?(?:(?P<currency>[{_CURRENCIES}])(?P<late_minus>[-\u2212])?\ ?)?$"
)
#: Maximum number of characters before the digits, plus one to recognise that the dash is no hyphen.
_BEFORE_CHARACTERS: Final = 4
_WORD: Final = re.compile(
    rf"""
    (?<![\w-])
    (?:(?P<tens>{"|".join(_TENS)})(?:[\ -](?P<ones>{"|".join(_WORDED_NAMES.split()[1:10])}))?|(?P<word>{"|".join(_WORDED)}))
    (?P<half>\ and\ a\ half)?
    (?:\ (?P<scale>{"|".join(_WORDED_SCALES)}))?
    (?:[\ -](?P<unit>[^\W\d_]+))?
    (?!\w)
    """,
    re.IGNORECASE | re.VERBOSE,
)


def quantities(text: str) -> Iterator[Quantity]:
    """Yield the numbers of a text, first those in digits, then those in words, each group in order.

    >>> [(q.value, q.dimension) for q in quantities("$1,234.50 for 3 nights, 5 km away")]
    [(1234.5, 'usd'), (3.0, None), (5.0, 'length')]
    """
    for match in _NUMBER.finditer(text):
        yield _quantity(text, match)
    for match in _WORD.finditer(text):
        yield _worded(match)


def _quantity(text: str, match: re.Match[str]) -> Quantity:
    digits = match.start("digits")
    before = _BEFORE.search(text[max(0, digits - _BEFORE_CHARACTERS) : digits])
    minus, currency, late_minus = before.group("minus", "currency", "late_minus") if before else ("", "", "")
    value, decimals = _value(match["digits"])
    scale = _SCALES[match["scale"].strip().lower()] if match["scale"] else 1.0
    # A word that is no unit ("3 nights") is not part of the number.
    unit = UNITS.get(match["unit"].lower().replace(" ", "")) if match["unit"] else None
    dimension, factor = UNITS[currency] if currency else unit or (None, 1.0)
    return Quantity(
        value=(-value if minus or late_minus else value) * scale,
        dimension=dimension,
        factor=factor,
        decimals=0 if scale > 1 else decimals,
        start=digits - (len(before.group()) if before else 0),
        end=match.end() if unit else match.end("scale") if match["scale"] else match.end("digits"),
    )


def _worded(match: re.Match[str]) -> Quantity:
    part = {name: (text or "").lower() for name, text in match.groupdict().items()}
    unit = UNITS.get(part["unit"])
    # A word that is no unit ("three nights") is not part of the number.
    end = match.end() if unit else match.start("unit") - 1 if part["unit"] else match.end()
    value = _TENS[part["tens"]] + _WORDED.get(part["ones"], 0) if part["tens"] else _WORDED[part["word"]]
    dimension, factor = unit or (None, 1.0)
    return Quantity(
        value=(value + (0.5 if part["half"] else 0.0)) * _WORDED_SCALES.get(part["scale"], 1.0),
        dimension=dimension,
        factor=factor,
        decimals=0,
        start=match.start(),
        end=end,
        worded=True,
    )


_CONTINENTAL: Final = re.compile(r"\d{1,3}(?:\.\d{3})+,\d+|\d+,\d{1,2}")
_CONTINENTAL_THOUSANDS: Final = re.compile(r"\d{1,3}(?:\.\d{3}){2,}")
_SEPARATORS: Final = str.maketrans("", "", ",'\u2019\u00a0\u202f\u2009")


def _value(digits: str) -> tuple[float, int]:
    """Return the value of a written number and the number of its decimals."""
    if digits.isascii() and digits.isdigit():
        return float(digits), 0
    if _CONTINENTAL_THOUSANDS.fullmatch(digits):
        digits = digits.replace(".", "")
    if "," in digits and _CONTINENTAL.fullmatch(digits):
        digits = digits.replace(".", "").replace(",", ".")
    digits = digits.translate(_SEPARATORS)
    mantissa = digits.lower().partition("e")[0]
    return float(digits), len(mantissa.partition(".")[2])
