r"""What is taken out of texts: one row a kind of secret, and what personal data looks like.

Sources of the shapes: the pages of each vendor about its own keys, and what their secret scanning programmes publish.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_agentic.spans import redact_checks as checks
from otel_agentic.spans.redact_fields import FIELDS, QUOTE
from otel_agentic.spans.redact_rule import CREDENTIAL, CUSTOM, EDGE, Rule, shaped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_agentic.config import RedactionSettings

_SLASHES: Final = r"(?:\\?/){2}"

_KEYS: Final = (
    # platform.openai.com, and those who took over its prefix (DeepSeek, OpenRouter, Langfuse)
    shaped("api_key", r"sk-[A-Za-z0-9_-]{20,}", check=checks.generated, generic=True),
    shaped("openai_key", r"sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{16,}", check=checks.generated),
    # docs.anthropic.com
    shaped("anthropic_key", r"sk-ant-[A-Za-z0-9_-]{10,}", check=checks.generated),
    # docs.aws.amazon.com, IAM identifiers: the id of an access key; its secret is found by the field's name
    shaped(
        "aws_key",
        r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b",
        hint=r"A[KSBC]IA[A-Z0-9]{16}|ACCA[A-Z0-9]{16}",
    ),
    # docs.github.com, token formats
    shaped("github_token", r"(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})"),
    # docs.gitlab.com, token prefixes
    shaped("gitlab_token", r"gl(?:pat|oas|dt|rt|cbt|ptt|ft|imt|agent|soat|ffct)-[A-Za-z0-9_.-]{16,}"),
    # api.slack.com, token types and incoming webhooks
    shaped("slack_token", r"xox[abceoprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,}|xapp-[0-9]-[A-Za-z0-9-]{10,}"),
    Rule(
        kind="slack_webhook",
        pattern=r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<value>[A-Za-z0-9/_-]{10,})",
        hint=r"hooks\.slack\.com\\*/",
    ),
    # cloud.google.com, API keys; OAuth access tokens and client secrets
    shaped("google_key", r"AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,}"),
    # docs.stripe.com: secret and restricted keys, webhook secrets; publishable keys are public
    shaped("stripe_key", r"[sr]k_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{20,}"),
    # huggingface.co, user access tokens
    shaped("huggingface_token", r"(?:hf|api_org)_[A-Za-z0-9]{20,}"),
    # sendgrid.com
    shaped("sendgrid_key", r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    # twilio.com: API keys; account ids (AC…) are no secret
    shaped("twilio_key", r"SK[0-9a-f]{32}\b", hint=r"SK[0-9a-f]{32}"),
    # the package registries of JavaScript and of Python
    shaped("npm_token", r"npm_[A-Za-z0-9]{30,}"),
    shaped("pypi_token", r"pypi-AgE[A-Za-z0-9_-]{16,}"),
    # learn.microsoft.com: signatures of shared access; keys in connection strings are found by their names
    Rule(
        kind="azure_signature",
        pattern=r"(?i:[?&;]sig=)(?P<value>[A-Za-z0-9%+/=_-]{20,})",
        hint=r"(?i:sig=)[A-Za-z0-9%]",
    ),
    # vendors with a prefix of their own, one kind for all
    shaped(
        "vendor_key",
        r"(?:xai-|gsk_|pplx-|r8_|tvly-|lsv2_(?:pt|sk)_|dop_v1_|doo_v1_|shp(?:at|ca|pa|ss)_|dapi|hv[sb]\.|lin_api_"
        r"|ntn_|glsa_|glc_|sntry[su]_|pscale_(?:tkn|pw)_|sbp_|PMAK-|NRAK-|dp\.(?:pt|st|ct)\.|fo1_|key-|AGE-SECRET-KEY-1"
        r"|sq0(?:atp|csp)-|EAACEdEose0cBA|rubygems_|dckr_pat_|figd_|ATATT3x|ATCTT3x)[A-Za-z0-9_-]{20,}",
        hint=r"(?:xai-|gsk_|pplx-|r8_|tvly-|lsv2_|do[op]_v1_|shp[acps]{2}_|dapi|hv[sb]\.|lin_api_|ntn_|gls?[ac]_|sntry[su]_"
        r"|pscale_|sbp_|PMAK-|NRAK-|dp\.[psc]t\.|fo1_|key-|AGE-SECRET-KEY-1|sq0|EAACE|rubygems_|dckr_pat_|figd_|AT[AC]TT3x)"
        r"[A-Za-z0-9_-]{16}",
        check=checks.generated,
    ),
    shaped("telegram_token", r"[0-9]{8,10}:AA[A-Za-z0-9_-]{32,}", hint=r"[0-9]:AA[A-Za-z0-9_-]{32}"),
    # RFC 7519; the header must decode
    shaped(
        "jwt",
        r"eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)*",
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
        pattern=rf"{EDGE}(?i:bearer)(?:[ \t]|%(?:25)*20|\+)+(?P<value>[A-Za-z0-9._~+/=-]{{12,}})",
        hint=r"(?i:bearer)(?: |\t|\\+t|%(?:25)*20|\+)+[A-Za-z0-9._~+/=-]",
        check=checks.has_digit,
        generic=True,
    ),
    Rule(
        kind="basic_auth",
        pattern=rf"{EDGE}(?i:basic)(?:[ \t]|%(?:25)*20|\+)+(?P<value>[A-Za-z0-9+/]{{6,}}={{0,2}})",
        hint=r"(?i:basic)(?: |\t|\\+t|%(?:25)*20|\+)+[A-Za-z0-9+/]{3}",
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
    # the same, encoded to stand in another URL
    Rule(
        kind="url_password",
        pattern=r"(?i:%3a%2f%2f)[^\s/?#%@\"'<>\\]*(?i:%3a)"
        r"(?P<value>(?:[^\s/?&#%@\"'<>\\]|%(?:[0135-9A-Fa-f][0-9A-Fa-f]|2[0-9A-Ea-e]|4[1-9A-Fa-f]))+)%40",
        hint=r"(?i:%3a%2f%2f)[^\s/?#%@\"'<>\\]*(?i:%3a)[^\s/?#@\"'<>\\]+%40",
        check=checks.after_equals,
        generic=True,
    ),
    # curl and its like, which take a user and a password as one argument
    Rule(
        kind=CREDENTIAL,
        pattern=rf"(?:^|[\s\"'])(?:-u|--(?:proxy-)?user)[ \t=]*{QUOTE}[A-Za-z0-9._%@+-]+:(?P<value>[^\s\"'\\/]{{6,}})(?:[\s\"'\\]|$)",
        hint=r"(?:-u|-user)(?:[ \t=]|\\+t)*(?:\\*[\"'])?[A-Za-z0-9._%@+-]+:[^\s\"'\\/]{6}",
        check=checks.after_colon,
        generic=True,
    ),
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
        yield from (*_KEYS, *_PLACES, *FIELDS)
    yield from (rule for rule in _PERSONAL if rule.kind in settings.personal)
    for name, pattern in settings.custom.items():
        yield Rule(kind=name, pattern=pattern, group=CUSTOM)
