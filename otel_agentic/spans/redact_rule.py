r"""One kind of text that is taken out, and the notation in which the data file writes the formats of tokens.

Patterns have RE2's syntax: no look-around, linear time on any text. `(?P<value>…)` marks the part that is taken. One of `hints` matches
at least every text in which the pattern could match, also where it is part of JSON text inside JSON text, in which quotes and
slashes are escaped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from otel_agentic.spans import redact_checks as checks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

#: Why something was taken, as it is counted.
CREDENTIAL: Final = "credential"
CUSTOM: Final = "custom"

#: What ends a word though its last character is a letter or digit: `%3D` of a URL, `\n` of JSON text that was cut, the colour
#: of a terminal; and `_`, which joins a name to a key.
_JOINED: Final = r"_|%[0-9A-Fa-f]{2}|\\[nrtbf]|\\u[0-9a-fA-F]{4}|\x1b\[[0-9;]*m"
#: The left edge of a key or a word, in a text as it stands, and in JSON text made of it.
EDGE: Final = rf"(?:\b|{_JOINED})"
HINTED_EDGE: Final = r"(?:^|[^A-Za-z0-9]|%[0-9A-Fa-f]{2}|\\u[0-9a-fA-F]{4}|\\[nrtbf]|(?:\x1b|\\u001[bB])\[[0-9;]*m)"

#: Around the names of fields in hints: an empty group marks where they end.
NAME_START: Final = "(?:(?:)(?i:"
NAME_END: Final = "))(?:)"

#: Alphabets of formats, as the inside of a character class.
ALPHABETS: Final = {
    "hex": "0-9a-fA-F",
    "digit": "0-9",
    "letter": "A-Za-z",
    "lower": "a-z0-9",
    "upper": "A-Z0-9",
    "alnum": "A-Za-z0-9",
    "word": "A-Za-z0-9_",
    "url": "A-Za-z0-9_-",
    "dot": "A-Za-z0-9._-",
    "b64": "A-Za-z0-9+/",
    "b64url": "A-Za-z0-9+/=_-",
    "base32": "a-z2-7",
    "percent": "A-Za-z0-9%",
    "crypt": "A-Za-z0-9./=,$",
    "entra": "A-Za-z0-9~._-",
    "atlassian": "A-Za-z0-9_=-",
    "discord": "MNO",
}
_UUID: Final = "<hex 8-8>-<hex 4-4>-<hex 4-4>-<hex 4-4>-<hex 12-12>"
_PART: Final = re.compile(
    r"<(?P<alphabet>\w+) (?P<least>\d+)(?:-(?P<most>\d+))?>|(?P<end>\\b)|(?P<literal>[^<\\]+|.)", re.DOTALL
)
#: A hint holds so many characters of a format: more would cost time, fewer would find too much.
_HINTED: Final = 12
_SIGNATURE: Final = 3
#: A word that must be near stands so far before a value, at most; in JSON text some of these are escaped.
_NEAR: Final = 60
_NEAR_ESCAPED: Final = 90
_NOUN: Final = "(?i:key|token|secret|credential|password|pat\\b)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One kind of text that is taken out.

    `hints` that are only a word that must be near have a stricter one, `close`: it costs more.
    `check` returns the part of a match that is taken, "" for none. `same` is what makes two values equal. `generic` rules
    name their kind only where no other rule takes just as much. `named` says that a field's name stands in the match,
    `columns` that the match is the first line of a table, whose columns are taken. `examples` are formats with `{…}` around
    what is taken.
    """

    kind: str
    pattern: str
    hints: tuple[str, ...] = ()
    close: str = ""
    check: Callable[[str], str] = checks.whole
    same: Callable[[str], str] = checks.whole
    generic: bool = False
    named: bool = False
    columns: bool = False
    group: str = CREDENTIAL
    examples: tuple[str, ...] = ()


def joined(hints: Iterable[str]) -> str:
    """Return one pattern for some hints. What many of them begin with is written once: the automaton stays small."""
    grouped: dict[str, list[str]] = {}
    for hint in dict.fromkeys(hints):
        start = next((one for one in (HINTED_EDGE, NAME_START) if hint.startswith(one)), "")
        start = hint[: hint.index(NAME_END) + len(NAME_END)] if start == NAME_START else start
        grouped.setdefault(start, []).append(hint[len(start) :])
    return "|".join(f"{start}(?:{'|'.join(f'(?:{end})' for end in ends)})" for start, ends in grouped.items())


class Part(NamedTuple):
    """A part of a format: literal text, or characters of an alphabet; `most` None is any number of them."""

    literal: str = ""
    alphabet: str = ""
    least: int = 0
    most: int | None = None
    ends: bool = False


def parts_of(text: str) -> list[Part]:
    r"""Return the parts of a format.

    Raises:
        ValueError: an alphabet is unknown.

    >>> parts_of("ab_<hex 4>")
    [Part(literal='ab_', alphabet='', least=0, most=None, ends=False), Part(literal='', alphabet='hex', least=4, most=None, ends=False)]
    """
    text = text.replace("<uuid>", _UUID)
    parts = []
    for found in _PART.finditer(text):
        if found["alphabet"]:
            if found["alphabet"] not in ALPHABETS:
                raise ValueError(f"{text!r}: unknown alphabet {found['alphabet']!r}; known are {', '.join(ALPHABETS)}")
            most = found["most"] or (None if found.end() == len(text) else found["least"])
            parts.append(
                Part(alphabet=found["alphabet"], least=int(found["least"]), most=None if most is None else int(most))
            )
        else:
            parts.append(Part(ends=True) if found["end"] else Part(literal=found["literal"]))
    return parts


def token_rule(
    kind: str,
    formats: Sequence[str],
    *,
    check: Callable[[str], str],
    generic: bool = False,
    near: str = "",
    noun: bool = False,
    says: str = "",
    edge: str = "",
    suffix: str = "",
    hint: str = "",
) -> Rule:
    """Return the rule of tokens of some formats.

    Args:
        kind: the name in the mark.
        formats: what they look like.
        check: confirms a match.
        generic: see `Rule`.
        near: must match before them on the same line.
        noun: whether a word such as `key` must stand in between.
        says: an example of what is near.
        edge: what may stand right before them; "" for the edge of a word.
        suffix: what may follow and is taken, too.
        hint: "" for one that is derived from the formats.
    """
    each = [parts_of(text) for text in formats]
    shape = "|".join("".join(map(_pattern, parts)) for parts in each)
    between = rf"[^\r\n]{{0,{_NEAR}}}?{_NOUN}" if noun else ""
    before = rf"{near}{between}[^\r\n]{{0,{_NEAR}}}?{edge or EDGE}" if near else edge or EDGE
    close = ""
    if near:
        hint = near
        bodies = "|".join(dict.fromkeys("".join(map(_short, parts)) for parts in each))
        close = rf"{near}[^\r\n]{{0,{(1 + noun) * _NEAR_ESCAPED}}}?(?:{bodies})"
    return Rule(
        kind=kind,
        pattern=rf"{before}(?P<value>(?:{shape}){suffix})",
        hints=(hint,) if hint else tuple(map(_hint, each)),
        close=close,
        check=check,
        generic=generic,
        examples=tuple(f"{says}{{{text}}}" for text in formats),
    )


def _pattern(part: Part) -> str:
    if part.alphabet:
        times = f"{part.least},{'' if part.most is None else part.most}"
        return f"[{ALPHABETS[part.alphabet]}]{{{times}}}"
    return r"\b" if part.ends else re.escape(part.literal)


def _short(part: Part) -> str:
    """Return a pattern of the beginning of a part, as it may be written in JSON text."""
    if part.alphabet:
        escaped = r"\\" if "/" in ALPHABETS[part.alphabet] else ""
        return f"[{escaped}{ALPHABETS[part.alphabet]}]{{{min(part.least, _HINTED)}}}"
    return "" if part.ends else re.escape(part.literal).replace("/", r"\\*/")


def _hint(parts: Sequence[Part]) -> str:
    """Return a pattern of the part of a format that is told from other text at the least cost.

    That is its beginning, where this is literal; else what follows from its first literal that is a signature; else all.
    """
    if parts[0].literal:
        return HINTED_EDGE + _beginning(parts)
    signature = next((place for place, part in enumerate(parts) if len(part.literal) >= _SIGNATURE), None)
    if signature is not None:
        return _beginning(parts[signature:])
    return "".join(_pattern(part) for part in parts if not part.ends)


def _beginning(parts: Sequence[Part]) -> str:
    pieces, size = [], 0
    for part in parts:
        if size >= _HINTED:
            break
        if part.alphabet:
            escaped = r"\\" if "/" in ALPHABETS[part.alphabet] else ""
            count = min(part.least, _HINTED - size)
            pieces.append(f"[{escaped}{ALPHABETS[part.alphabet]}]{{{count}}}")
            size += count
            # What follows a longer or open part cannot be reached with a fixed number of characters.
            if count < part.least or part.most != part.least:
                break
        elif not part.ends:
            pieces.append(re.escape(part.literal).replace("/", r"\\*/"))
            size += len(part.literal)
    return "".join(pieces)
