r"""What stands behind the name of a field of credentials: in plain text, headers, XML, command lines, URLs, JSON text that was cut.

Values of maps and of JSON text that can be read are taken by `redact`, which knows their names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_agentic.spans import redact_checks as checks
from otel_agentic.spans.redact_names import STRONG, WEAK
from otel_agentic.spans.redact_rule import CREDENTIAL, Rule

if TYPE_CHECKING:
    from collections.abc import Callable

#: Between a field's name and its value, up to the quote: `": "`, `=`, ` => `, `:=`. JSON text inside JSON text has
#: backslashes before quotes, one or more.
QUOTE: Final = r"""(?:\\*["'])?"""
_SIGN: Final = r"[ \t]*(?:=>|:=|[:=])[ \t]*"
_NAMED: Final = rf"(?i:(?P<name>{STRONG})){QUOTE}"
_WEAKLY: Final = rf"(?:\b|[-_.])(?i:(?P<name>{WEAK})){QUOTE}"


def _field(pattern: str, check: Callable[[str], str]) -> Rule:
    return Rule(kind=CREDENTIAL, pattern=pattern, hint=_FIELD_HINT, check=check, generic=True, named=True)


#: A name of a credential with anything behind it that could bring its value, at any depth of escaping; or a name that is
#: itself a value, as in `{"name": "password", "value": …}`.
_BLANK: Final = r"(?:\s|\\+[tnr])*"
_FIELD_HINT: Final = (
    rf"""(?i:{STRONG}|{WEAK}){_BLANK}(?:[:=>]|\\*["']{_BLANK}(?:[:=>,}}]|value)|%(?:25)*[23][27aAdD])"""
    rf"|--[A-Za-z0-9_-]*(?i:{STRONG}|{WEAK})(?: |\t|\\+t)"
)
_OPTION: Final = r"--(?:[A-Za-z0-9]+[-_])*"

FIELDS: Final = (
    _field(rf'{_NAMED}{_SIGN}"(?P<value>(?:[^"\\]|\\(?s:.))+)', checks.after_equals),
    _field(rf"{_NAMED}{_SIGN}'(?P<value>(?:[^'\\]|\\(?s:.))+)", checks.after_equals),
    # quotes that are escaped themselves: JSON text inside a text that was cut, or is no JSON as a whole
    _field(rf"""{_NAMED}{_SIGN}\\["'](?P<value>(?:[^"'\\]|\\[^"'\\]|\\{{3}}["']|\\\\)+)""", checks.after_equals),
    _field(rf"""{_NAMED}{_SIGN}\\{{2,}}["'](?P<value>[^"'\\]+(?:\\+[^"'\\]+)*)""", checks.after_equals),
    _field(
        rf"{_NAMED}[ \t]*(?:=>|:=|=)[ \t]*(?P<value>[^\s\"'`=,;&<>{{}}\[\]\\|()][^\s\"'`,;&<>\\|]*)",
        checks.after_equals,
    ),
    _field(
        rf"{_NAMED}[ \t]*:[ \t]*(?:\r?\n[ \t]+)?(?P<value>[^\s\"'`<>{{}}\[\],\\][^\s\"'`<>\\]*)", checks.after_colon
    ),
    _field(rf"{_NAMED}>[ \t]*(?P<value>[^\s<>][^<>]*)</", checks.after_equals),
    # headers: cookies are many values; an authorization has a scheme
    _field(
        rf"(?i:(?P<name>cookie)){QUOTE}[ \t]*[:=][ \t]*{QUOTE}(?P<value>[^\s=;\"'\\]+=[^\r\n\"'\\]*)",
        checks.after_equals,
    ),
    _field(
        rf"(?i:(?P<name>authorization)){QUOTE}[ \t]*[:=][ \t]*{QUOTE}(?i:(?:bearer|basic|token|negotiate|digest|apikey)[ \t]+)"
        r"(?P<value>[^\s\"'\\,;<>]+)",
        checks.after_equals,
    ),
    _field(rf"{_WEAKLY}{_SIGN}{QUOTE}(?P<value>[^\s\"'`=,;&<>{{}}\[\]\\|()][^\s\"'`,;&<>\\|]*)", checks.weak),
    # <add key="password" value="…"/>
    _field(rf"{_NAMED}\s+value=\\*[\"'](?P<value>[^\"'<>\\]+)", checks.after_equals),
    # a setting in a URL that stands in another URL, once encoded or more often
    _field(
        rf"{_NAMED}(?:%(?:25)*2[27])?%(?:25)*3[aAdD](?:%(?:25)*20|\+)*(?:%(?:25)*2[27])?"
        r"(?P<value>(?:[^\s\"'<>&%;,\\]|%(?:[013-9A-Fa-f][0-9A-Fa-f]|2[0134589A-Fa-f]))+)",
        checks.after_equals,
    ),
    # an option of a command
    _field(
        rf"{_OPTION}(?i:(?P<name>{STRONG}))[ \t]+{QUOTE}(?P<value>[^\s\"'\\|&<>-][^\s\"'\\|&<>]*)", checks.after_colon
    ),
    _field(rf"{_OPTION}(?i:(?P<name>{WEAK}))[ \t]+{QUOTE}(?P<value>[^\s\"'\\|&<>-][^\s\"'\\|&<>]*)", checks.weak),
)
