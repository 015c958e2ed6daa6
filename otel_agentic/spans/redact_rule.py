"""A kind of text that is taken out, and what may stand before it.

Patterns have RE2's syntax: no look-around, linear time on any text. `(?P<value>…)` marks the part that is taken, where
that is not all. `hint` finds at least every text in which the pattern could match, also while it stands in JSON text inside
JSON text, where quotes and slashes are escaped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.spans import redact_checks as checks

if TYPE_CHECKING:
    from collections.abc import Callable

#: Why something was taken, as it is counted.
CREDENTIAL: Final = "credential"
CUSTOM: Final = "custom"

#: What ends a word though its last sign is a letter or digit: `%3D` of a URL, `\n` of JSON text that was cut, the colour of a
#: terminal; and `_`, which joins a name to a key.
_JOINED: Final = r"_|%[0-9A-Fa-f]{2}|\\[nrtbf]|\\u[0-9a-fA-F]{4}|\x1b\[[0-9;]*m"
#: The left edge of a key or a word, in a text as it stands, and in JSON text made of it.
EDGE: Final = rf"(?:\b|{_JOINED})"
HINTED_EDGE: Final = r"(?:^|[^A-Za-z0-9]|%[0-9A-Fa-f]{2}|\\u[0-9a-fA-F]{4}|\\[nrtbf]|(?:\x1b|\\u001[bB])\[[0-9;]*m)"
#: Where a pattern begins a word.
_LEFT: Final = re.compile(r"(^|[|(:])\\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One kind of text that is taken out.

    `check` returns the part of a match that is taken, "" for none. `same` is what makes two values equal. `generic` rules
    name their kind only where no other rule takes just as much. `named` says that a field's name stands in the match.
    """

    kind: str
    pattern: str
    hint: str = ""
    check: Callable[[str], str] = checks.whole
    same: Callable[[str], str] = checks.whole
    generic: bool = False
    named: bool = False
    group: str = CREDENTIAL

    @property
    def searched(self) -> str:
        """What finds the texts worth a look."""
        if self.hint or self.group == CUSTOM:
            return self.hint or self.pattern
        return _LEFT.sub(lambda found: found[1] + HINTED_EDGE, self.pattern)


def shaped(
    kind: str, shape: str, *, hint: str = "", check: Callable[[str], str] = checks.whole, generic: bool = False
) -> Rule:
    """Return the rule of keys that are told by their shape; a `hint` stands for the shape alone, without its edge."""
    return Rule(
        kind=kind,
        pattern=rf"{EDGE}(?P<value>{shape})",
        hint=hint or rf"{HINTED_EDGE}(?:{shape})",
        check=check,
        generic=generic,
    )
