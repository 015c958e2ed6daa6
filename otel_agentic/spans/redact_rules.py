r"""What is taken out of texts: one row a kind of secret.

Patterns have RE2's syntax: no look-around, linear time on any text. `(?P<value>…)` marks the part that is taken, where
that is not all. `hint` finds at least every text in which the pattern could match, also while it stands in JSON text inside
JSON text, where quotes and slashes are escaped.

Sources of the shapes: the pages of each vendor about its own keys, and what their secret scanning programmes publish.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.spans import redact_checks as checks
from otel_agentic.spans.redact_names import STRONG, WEAK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from otel_agentic.config import RedactionSettings

#: Why something was taken, as it is counted.
CREDENTIAL: Final = "credential"
CUSTOM: Final = "custom"

#: The left edge of a word: in JSON text an escape may stand before it, whose last letter would make it another word.
_LEFT: Final = re.compile(r"(^|[|(:])\\b")
_EDGE: Final = r"(?:^|[^A-Za-z0-9_]|\\u[0-9a-fA-F]{4}|\\[nrtbf])"


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
        return _LEFT.sub(lambda found: found[1] + _EDGE, self.pattern)


#: Between a field's name and its value, up to the quote: `": "`, `=`, ` => `, `:=`. JSON text inside JSON text has
#: backslashes before quotes, one or more.
_QUOTE: Final = r"""(?:\\*["'])?"""
_SIGN: Final = r"[ \t]*(?:=>|:=|[:=])[ \t]*"
_NAMED: Final = rf"(?i:(?P<name>{STRONG})){_QUOTE}"
_WEAKLY: Final = rf"(?:\b|[-_.])(?i:(?P<name>{WEAK})){_QUOTE}"
_SLASHES: Final = r"(?:\\?/){2}"

_KEYS: Final = (
    # platform.openai.com, and those who took over its prefix (DeepSeek, OpenRouter, Langfuse)
    Rule(kind="api_key", pattern=r"\bsk-[A-Za-z0-9_-]{20,}", check=checks.generated, generic=True),
    Rule(kind="openai_key", pattern=r"\bsk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{16,}", check=checks.generated),
    # docs.anthropic.com
    Rule(kind="anthropic_key", pattern=r"\bsk-ant-[A-Za-z0-9_-]{10,}", check=checks.generated),
    # docs.aws.amazon.com, IAM identifiers: the id of an access key; its secret is found by the field's name
    Rule(
        kind="aws_key",
        pattern=r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b",
        hint=r"A[KSBC]IA[A-Z0-9]{16}|ACCA[A-Z0-9]{16}",
    ),
    # docs.github.com, token formats
    Rule(kind="github_token", pattern=r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})"),
    # docs.gitlab.com, token prefixes
    Rule(kind="gitlab_token", pattern=r"\bgl(?:pat|oas|dt|rt|cbt|ptt|ft|imt|agent|soat|ffct)-[A-Za-z0-9_.-]{16,}"),
    # api.slack.com, token types and incoming webhooks
    Rule(kind="slack_token", pattern=r"\bxox[abceoprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,}|\bxapp-[0-9]-[A-Za-z0-9-]{10,}"),
    Rule(
        kind="slack_webhook",
        pattern=r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<value>[A-Za-z0-9/_-]{10,})",
        hint=r"hooks\.slack\.com\\*/",
    ),
    # cloud.google.com, API keys; OAuth access tokens and client secrets
    Rule(kind="google_key", pattern=r"\bAIza[A-Za-z0-9_-]{30,}|\bya29\.[A-Za-z0-9_-]{20,}|\bGOCSPX-[A-Za-z0-9_-]{20,}"),
    # docs.stripe.com: secret and restricted keys, webhook secrets; publishable keys are public
    Rule(kind="stripe_key", pattern=r"\b[sr]k_(?:live|test)_[A-Za-z0-9]{10,}|\bwhsec_[A-Za-z0-9+/=]{20,}"),
    # huggingface.co, user access tokens
    Rule(kind="huggingface_token", pattern=r"\b(?:hf|api_org)_[A-Za-z0-9]{20,}"),
    # sendgrid.com
    Rule(kind="sendgrid_key", pattern=r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    # twilio.com: API keys; account ids (AC…) are no secret
    Rule(kind="twilio_key", pattern=r"\bSK[0-9a-f]{32}\b", hint=r"SK[0-9a-f]{32}"),
    # the package registries of JavaScript and of Python
    Rule(kind="npm_token", pattern=r"\bnpm_[A-Za-z0-9]{30,}"),
    Rule(kind="pypi_token", pattern=r"\bpypi-AgE[A-Za-z0-9_-]{16,}"),
    # learn.microsoft.com: signatures of shared access; keys in connection strings are found by their names
    Rule(
        kind="azure_signature",
        pattern=r"(?i:[?&;]sig=)(?P<value>[A-Za-z0-9%+/=_-]{20,})",
        hint=r"(?i:sig=)[A-Za-z0-9%]",
    ),
    # vendors with a prefix of their own, one kind for all
    Rule(
        kind="vendor_key",
        pattern=r"\b(?:xai-|gsk_|pplx-|r8_|tvly-|lsv2_(?:pt|sk)_|dop_v1_|doo_v1_|shp(?:at|ca|pa|ss)_|dapi|hv[sb]\.|lin_api_"
        r"|ntn_|glsa_|glc_|sntry[su]_|pscale_(?:tkn|pw)_|sbp_|PMAK-|NRAK-|dp\.(?:pt|st|ct)\.|fo1_|key-|AGE-SECRET-KEY-1"
        r"|sq0(?:atp|csp)-|EAACEdEose0cBA|rubygems_|dckr_pat_|figd_|ATATT3x|ATCTT3x)[A-Za-z0-9_-]{20,}",
        hint=r"(?:xai-|gsk_|pplx-|r8_|tvly-|lsv2_|do[op]_v1_|shp[acps]{2}_|dapi|hv[sb]\.|lin_api_|ntn_|gls?[ac]_|sntry[su]_"
        r"|pscale_|sbp_|PMAK-|NRAK-|dp\.[psc]t\.|fo1_|key-|AGE-SECRET-KEY-1|sq0|EAACE|rubygems_|dckr_pat_|figd_|AT[AC]TT3x)"
        r"[A-Za-z0-9_-]{16}",
        check=checks.generated,
    ),
    Rule(kind="telegram_token", pattern=r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{32,}", hint=r"[0-9]:AA[A-Za-z0-9_-]{32}"),
    # RFC 7519; the header must decode
    Rule(
        kind="jwt",
        pattern=r"\beyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)*",
        hint=r"eyJ[A-Za-z0-9_-]{6,}\.",
        check=checks.jwt,
    ),
    # RFC 7468 and its forebears; up to two hyphens in a row where the end was cut off
    Rule(
        kind="private_key",
        pattern=r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?:[^-]|-[^-])*(?:-----END [A-Z0-9 ]*KEY(?: BLOCK)?-----)?",
        hint=r"-----BEGIN ",
        check=checks.private_key,
    ),
)

_PLACES: Final = (
    # RFC 6750, RFC 7617
    Rule(
        kind="bearer",
        pattern=r"(?i:\bbearer)[ \t]+(?P<value>[A-Za-z0-9._~+/=-]{12,})",
        hint=r"(?i:bearer)(?: |\t|\\+t)+[A-Za-z0-9._~+/=-]",
        check=checks.has_digit,
        generic=True,
    ),
    Rule(
        kind="basic_auth",
        pattern=r"(?i:\bbasic)[ \t]+(?P<value>[A-Za-z0-9+/]{6,}={0,2})",
        hint=r"(?i:basic)(?: |\t|\\+t)+[A-Za-z0-9+/]{3}",
        check=checks.basic,
        generic=True,
    ),
    # RFC 3986, user information
    Rule(
        kind="url_password",
        pattern=rf"(?i:\b[a-z][a-z0-9+.-]*):{_SLASHES}[^\s/?#:@\"'<>\\]*:(?P<value>[^\s/\"'<>\\]+)@",
        hint=r":(?:\\*/){2}[^\s/?#:@\"'<>\\]*:[^\s/\"'<>]+@",
        check=checks.after_equals,
        generic=True,
    ),
)


def _field(pattern: str, check: Callable[[str], str]) -> Rule:
    return Rule(kind=CREDENTIAL, pattern=pattern, hint=_FIELD_HINT, check=check, generic=True, named=True)


#: A name of a credential with anything behind it that could bring its value, at any depth of escaping; or a name that is
#: itself a value, as in `{"name": "password", "value": …}`.
_BLANK: Final = r"(?:\s|\\+[tnr])*"
_FIELD_HINT: Final = rf"""(?i:{STRONG}|{WEAK}){_BLANK}(?:[:=>]|\\*["']{_BLANK}[:=>,}}])"""

_FIELDS: Final = (
    _field(rf'{_NAMED}{_SIGN}"(?P<value>(?:[^"\\]|\\(?s:.))+)', checks.after_equals),
    _field(rf"{_NAMED}{_SIGN}'(?P<value>(?:[^'\\]|\\(?s:.))+)", checks.after_equals),
    # quotes that are escaped themselves: JSON text inside a text that was cut, or is no JSON as a whole
    _field(rf"""{_NAMED}{_SIGN}\\["'](?P<value>(?:[^"'\\]|\\[^"'\\]|\\{{3}}["']|\\\\)+)""", checks.after_equals),
    _field(rf"""{_NAMED}{_SIGN}\\{{2,}}["'](?P<value>[^"'\\]+(?:\\+[^"'\\]+)*)""", checks.after_equals),
    _field(
        rf"{_NAMED}[ \t]*(?:=>|:=|=)[ \t]*(?P<value>[^\s\"'`=,;&<>{{}}\[\]\\|()][^\s\"'`,;&<>\\|]*)",
        checks.after_equals,
    ),
    _field(rf"{_NAMED}[ \t]*:[ \t]*(?P<value>[^\s\"'`<>{{}}\[\],\\][^\s\"'`<>\\]*)", checks.after_colon),
    _field(rf"{_NAMED}>[ \t]*(?P<value>[^\s<>][^<>]*)</", checks.after_equals),
    # headers: cookies are many values; an authorization has a scheme
    _field(
        rf"(?i:(?P<name>cookie)){_QUOTE}[ \t]*[:=][ \t]*{_QUOTE}(?P<value>[^\s=;\"'\\]+=[^\r\n\"'\\]*)",
        checks.after_equals,
    ),
    _field(
        rf"(?i:(?P<name>authorization)){_QUOTE}[ \t]*[:=][ \t]*{_QUOTE}(?i:(?:bearer|basic|token|negotiate|digest|apikey)[ \t]+)"
        r"(?P<value>[^\s\"'\\,;<>]+)",
        checks.after_equals,
    ),
    _field(rf"{_WEAKLY}{_SIGN}{_QUOTE}(?P<value>[^\s\"'`=,;&<>{{}}\[\]\\|()][^\s\"'`,;&<>\\|]*)", checks.weak),
)

_GROUPED: Final = r"(?:[ -]?[0-9]{4})"
#: ISO/IEC 7812: lengths and first digits of the schemes; one rule a length, so that what follows a number is not drawn in.
_CARD_SHAPES: Final = (
    rf"\b(?:4[0-9]{{3}}|5[1-5][0-9]{{2}}|2[2-7][0-9]{{2}}|6[0-9]{{3}}|35[2-8][0-9]){_GROUPED}{{3}}\b",
    r"\b3[47][0-9]{2}[ -]?[0-9]{6}[ -]?[0-9]{5}\b",
    r"\b3(?:0[0-5]|[689][0-9])[0-9][ -]?[0-9]{6}[ -]?[0-9]{4}\b",
    r"\b4[0-9]{12}\b",
    rf"\b[46][0-9]{{3}}{_GROUPED}{{3}}[ -]?[0-9]{{3}}\b",
)
_PERSONAL: Final = (
    *(
        Rule(kind="card", pattern=shape, check=checks.card, same=checks.digits_of, group="personal data")
        for shape in _CARD_SHAPES
    ),
    Rule(
        kind="email",
        pattern=r"[\pL\pN._%+-]+@[\pL\pN-]+(?:\.[\pL\pN-]+)*\.\pL{2,}",
        hint="@",
        same=checks.folded,
        group="personal data",
    ),
    Rule(
        kind="phone",
        pattern=r"\+[1-9][0-9]{0,2}[ .-]?(?:\([0-9]{1,4}\)[ .-]?)?[0-9](?:[ .-]?[0-9]){5,12}\b",
        same=checks.digits_of,
        group="personal data",
    ),
    Rule(
        kind="phone",
        pattern=r"(?:\([0-9]{3}\) ?|\b[0-9]{3}[-. ])[0-9]{3}[-. ][0-9]{4}\b",
        same=checks.digits_of,
        group="personal data",
    ),
    Rule(
        kind="iban",
        pattern=r"\b[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?\b",
        check=checks.iban,
        same=checks.compact,
        group="personal data",
    ),
)


def rules_of(settings: RedactionSettings) -> tuple[Rule, ...]:
    """Return the rules in force; their order means nothing."""
    return tuple(_rules(settings))


def _rules(settings: RedactionSettings) -> Iterator[Rule]:
    if settings.credentials:
        yield from (*_KEYS, *_PLACES, *_FIELDS)
    yield from (rule for rule in _PERSONAL if rule.kind in settings.personal)
    for name, pattern in settings.custom.items():
        yield Rule(kind=name, pattern=pattern, group=CUSTOM)
