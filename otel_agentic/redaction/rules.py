"""The redaction rules of `rules.toml`, and the notation for token formats in that file.

Patterns have RE2's syntax: no look-around, linear time on any text. `(?P<value>…)` marks the part that is redacted. At least
one of `hints` matches in every text in which the pattern could match, including JSON text inside JSON text, in which quotes and
slashes are escaped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from otel_agentic.redaction import checks
from otel_agentic.redaction.fields import fragments, rule_data

if TYPE_CHECKING:
    from otel_agentic.config import RedactionSettings

#: Groups of rules, as redactions are counted.
CREDENTIAL: Final = "credential"
CUSTOM: Final = "custom"

#: Text that ends a word although its last character is a letter or digit: `%3D` of a URL, `\n` of JSON text that was cut, a
#: terminal colour; and `_`, which joins a name to a key.
_JOINED: Final = r"_|%[0-9A-Fa-f]{2}|\\[nrtbf]|\\u[0-9a-fA-F]{4}|\x1b\[[0-9;]*m"
#: The left edge of a key or a word, in plain text, and in JSON text made of it.
EDGE: Final = rf"(?:\b|{_JOINED})"
HINTED_EDGE: Final = r"(?:^|[^A-Za-z0-9]|%[0-9A-Fa-f]{2}|\\u[0-9a-fA-F]{4}|\\[nrtbf]|(?:\x1b|\\u001[bB])\[[0-9;]*m)"

#: Surround field names in hints: an empty group marks their end.
NAME_START: Final = "(?:(?:)(?i:"
NAME_END: Final = "))(?:)"

#: Alphabets of formats, as the content of a character class.
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
#: The number of characters of a format in a hint: more would cost time, fewer would match too much.
_HINTED: Final = 12
_SIGNATURE: Final = 3
#: The largest distance of a word that must be near a value, in characters; in JSON text some characters are escaped.
_NEAR: Final = 60
_NEAR_ESCAPED: Final = 90
#: A character other than a line break, in UTF-8 text that is matched as bytes: a Japanese letter has three.
_CHARACTER: Final = r"[^\r\n\x80-\xBF][\x80-\xBF]*"
_NOUN: Final = "(?i:key|token|secret|credential|password|pat\\b)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule that redacts one kind of text.

    If `hints` contain only a word that must be near, `close` is a stricter, more expensive hint. It ends with `body` if the word
    comes before the value. `check` returns the part of a match to redact, "" for none. `same` normalises a value, so that equal
    values get equal marks. `generic` rules name their kind only if no other rule matches as much. `named` means that the match
    contains a field name, `columns` that the match is the first line of a table whose columns are redacted. `examples` are
    formats with `{…}` around the redacted part.
    """

    kind: str
    pattern: str
    hints: tuple[str, ...] = ()
    close: str = ""
    body: str = ""
    check: Callable[[str], str] = checks.unchecked
    same: Callable[[str], str] = checks.unchecked
    generic: bool = False
    named: bool = False
    columns: bool = False
    group: str = CREDENTIAL
    examples: tuple[str, ...] = ()


def joined(hints: Iterable[str]) -> str:
    """Return one pattern for several hints. Common prefixes are merged, which keeps the automaton small."""
    hints_by_prefix: dict[str, list[str]] = {}
    for hint in dict.fromkeys(hints):
        start = next((prefix for prefix in (HINTED_EDGE, NAME_START) if hint.startswith(prefix)), "")
        start = hint[: hint.index(NAME_END) + len(NAME_END)] if start == NAME_START else start
        hints_by_prefix.setdefault(start, []).append(hint[len(start) :])
    return "|".join(f"{start}(?:{'|'.join(f'(?:{end})' for end in ends)})" for start, ends in hints_by_prefix.items())


class Part(NamedTuple):
    """A part of a format: literal text, or characters of an alphabet; `most` None means any number of them."""

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
    for match in _PART.finditer(text):
        if match["alphabet"]:
            if match["alphabet"] not in ALPHABETS:
                raise ValueError(f"{text!r}: unknown alphabet {match['alphabet']!r}; known are {', '.join(ALPHABETS)}")
            most = match["most"] or (None if match.end() == len(text) else match["least"])
            parts.append(
                Part(alphabet=match["alphabet"], least=int(match["least"]), most=None if most is None else int(most))
            )
        else:
            parts.append(Part(ends=True) if match["end"] else Part(literal=match["literal"]))
    return parts


def token_rule(
    kind: str,
    formats: Sequence[str],
    *,
    check: Callable[[str], str],
    generic: bool = False,
    near: str = "",
    noun: bool = False,
    context: str = "",
    edge: str = "",
    suffix: str = "",
    hint: str = "",
) -> Rule:
    """Return the rule of tokens of some formats.

    Args:
        kind: the name in the mark.
        formats: the formats of the tokens.
        check: confirms a match.
        generic: see `Rule`.
        near: a pattern that must match before the token on the same line.
        noun: whether a word such as `key` must follow `near`.
        context: an example of the text near the token.
        edge: pattern of the text right before the token; "" for the edge of a word.
        suffix: pattern of text that may follow the token and is also redacted.
        hint: "" for a hint that is derived from the formats.
    """
    parsed_formats = [parts_of(text) for text in formats]
    shape = "|".join("".join(map(_pattern, parts)) for parts in parsed_formats)
    separator = rf"[^\r\n]{{0,{_NEAR}}}?{_NOUN}" if noun else ""
    prefix = rf"{near}{separator}[^\r\n]{{0,{_NEAR}}}?{edge or EDGE}" if near else edge or EDGE
    close = body = ""
    if near:
        hint = near
        body = "|".join(dict.fromkeys("".join(map(_short, parts)) for parts in parsed_formats))
        close = rf"{near}(?:{_CHARACTER}){{0,{(1 + noun) * _NEAR_ESCAPED}}}?(?:{body})"
    return Rule(
        kind=kind,
        pattern=rf"{prefix}(?P<value>(?:{shape}){suffix})",
        hints=(hint,) if hint else tuple(map(_hint, parsed_formats)),
        close=close,
        body=body,
        check=check,
        generic=generic,
        examples=tuple(f"{context}{{{text}}}" for text in formats),
    )


def _pattern(part: Part) -> str:
    if part.alphabet:
        times = f"{part.least},{'' if part.most is None else part.most}"
        return f"[{ALPHABETS[part.alphabet]}]{{{times}}}"
    return r"\b" if part.ends else re.escape(part.literal)


def _short(part: Part) -> str:
    """Return a pattern for the beginning of a part, including its escaped forms in JSON text."""
    if part.alphabet:
        escaped = r"\\" if "/" in ALPHABETS[part.alphabet] else ""
        return f"[{escaped}{ALPHABETS[part.alphabet]}]{{{min(part.least, _HINTED)}}}"
    return "" if part.ends else re.escape(part.literal).replace("/", r"\\*/")


def _hint(parts: Sequence[Part]) -> str:
    """Return a pattern for the part of a format that is cheapest to distinguish from other text.

    This is its beginning if it is literal, else the format from its first literal that is a signature, else the whole
    format.
    """
    if parts[0].literal:
        return HINTED_EDGE + _beginning(parts)
    signature = next((index for index, part in enumerate(parts) if len(part.literal) >= _SIGNATURE), None)
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
            # Text after a longer or open-ended part has no fixed position.
            if count < part.least or part.most != part.least:
                break
        elif not part.ends:
            pieces.append(re.escape(part.literal).replace("/", r"\\*/"))
            size += len(part.literal)
    return "".join(pieces)


_VENDOR: Final = "vendor_key"
#: Placeholders for field names in a hint.
_NAMES: Final = re.compile(r"\(\?i:(\{(?:strong|weak|words|pins|cards)\})\)")
_PERSONAL: Final = "personal data"
#: A letter beyond ASCII; in JSON text it may be an escape.
_FOREIGN: Final = re.compile(r"[^\x00-\x7f]")


def rules_of(settings: RedactionSettings) -> tuple[Rule, ...]:
    """Return the active rules, in no particular order."""
    return tuple(_rules(settings))


@cache
def credential_rules() -> tuple[Rule, ...]:
    """Return the rules that find credentials."""
    data = rule_data()
    return (
        *(_token_rule(row) for row in data["token"]),
        *(_pattern_rule(row) for row in data["pattern"]),
        *(_pattern_rule(row, named=True) for row in data["field"]),
        *(_pattern_rule(row, columns=True) for row in data["columns"]),
    )


@cache
def personal_rules() -> tuple[Rule, ...]:
    """Return the rules that find personal data."""
    return tuple(
        Rule(
            kind=row["kind"],
            pattern=row["pattern"],
            hints=(_insert_fragments(row["hint"], hint=True),),
            close=row.get("close", ""),
            check=_function(row.get("check", "unchecked")),
            same=_function(row.get("same", "unchecked")),
            group=_PERSONAL,
            examples=tuple(row["examples"]),
        )
        for row in rule_data()["personal"]
    )


@cache
def naming_hint() -> str:
    """Return the hint for a map that names a field in a value: `{"name": "password", "value": …}`."""
    return _insert_fragments(rule_data()["naming"]["hint"], hint=True)


def _rules(settings: RedactionSettings) -> Iterator[Rule]:
    if settings.credentials:
        yield from credential_rules()
    yield from (rule for rule in personal_rules() if rule.kind in settings.personal)
    for name, pattern in settings.custom.items():
        yield Rule(kind=name, pattern=pattern, group=CUSTOM)


def _token_rule(row: dict[str, Any]) -> Rule:
    return token_rule(
        row.get("kind", _VENDOR),
        row["formats"],
        check=_function(row.get("check", "generated")),
        generic=row.get("generic", False),
        hint=_insert_fragments(row.get("hint", ""), hint=True),
        **{name: row[name] for name in ("near", "noun", "context", "edge", "suffix") if name in row},
    )


def _pattern_rule(row: dict[str, Any], *, named: bool = False, columns: bool = False) -> Rule:
    return Rule(
        kind=row.get("kind", CREDENTIAL),
        pattern=_insert_fragments(row["pattern"]),
        hints=(_insert_fragments(row["hint"], hint=True),),
        check=_function(row.get("check", "unchecked")),
        generic=row.get("generic", named or columns),
        named=named,
        columns=columns,
        examples=tuple(row["examples"]),
    )


def _function(name: str) -> Callable[[str], str]:
    function: Callable[[str], str] = getattr(checks, name)
    return function


def _insert_fragments(pattern: str, *, hint: bool = False) -> str:
    """Return a pattern of the data file with its fragments inserted; in a hint, letters beyond ASCII may be escapes."""
    pattern = pattern.replace("{edge}", EDGE).replace("{hinted_edge}", HINTED_EDGE)
    if hint:  # hints that begin with equal names are joined
        pattern = _NAMES.sub(rf"{NAME_START}\1{NAME_END}", pattern)
    for name, text in fragments().items():
        pattern = pattern.replace(f"{{{name}}}", text)
    return _FOREIGN.sub(lambda match: _escapable(match[0]), pattern) if hint else pattern


def _escapable(letter: str) -> str:
    written = dict.fromkeys((letter, letter.upper(), letter.lower()))
    return f"(?:{'|'.join(written)}|\\\\+u(?i:{'|'.join(f'{ord(character):04x}' for character in written)}))"
