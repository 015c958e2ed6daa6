"""Secrets of every kind, made up. They are put together here, so that no scanner of repositories takes them for real ones."""

from __future__ import annotations

import base64
import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.config import RedactionSettings
from otel_agentic.redaction.engine import BatchRedactor

if TYPE_CHECKING:
    from otel_agentic.spans import SpanBatch

KEY: Final = b"k" * 32
BODY: Final = "Zk3Yq8Rt5Wn2Vb7Xc1Ld4Mf6Hg9Jp0Ks"


def _base64url(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


JWT: Final = ".".join((_base64url({"alg": "HS256"}), _base64url({"sub": "1"}), BODY))
PEM: Final = f"-----BEGIN {'RSA'} PRIVATE KEY-----\nMIIE{BODY}\n{BODY}+/==\n-----END RSA PRIVATE KEY-----"

#: Text that is taken whole, by kind.
SHAPED: Final[dict[str, str]] = {
    "api_key": "sk" + f"-{BODY}",
    "openai_key": "sk" + f"-proj-{BODY}",
    "anthropic_key": "sk" + f"-ant-api03-{BODY}",
    "aws_key": "AKIA" + "ABCDEFGH23456789",
    "github_token": "ghp" + f"_{BODY}ABCD",
    "gitlab_token": "glpat" + f"-{BODY[:20]}",
    "slack_token": "xox" + f"b-123456789012-{BODY[:20]}",
    "google_key": "AIza" + f"{BODY}abc",
    "stripe_key": "sk" + f"_live_{BODY[:24]}",
    "huggingface_token": "hf" + f"_{BODY}",
    "sendgrid_key": "SG" + f".{BODY[:22]}.{BODY}",
    "twilio_key": "SK" + "0123456789abcdef" * 2,
    "npm_token": "npm" + f"_{BODY}wxyz",
    "pypi_token": "pypi" + f"-AgEI{BODY}",
    "vendor_key": "gsk" + f"_{BODY}",
    "telegram_token": "123456789" + f":AA{BODY}a",
    "jwt": JWT,
    "private_key": PEM,
}
#: Text of which a part is taken, by kind.
PLACED: Final[dict[str, tuple[str, str]]] = {
    "bearer": (f"curl -H 'Authorization: Bearer {BODY}' x", BODY),
    "basic_auth": ("Authorization: Basic Ym9iOmh1bnRlcjI=", "Ym9iOmh1bnRlcjI="),
    "url_password": ("see postgres://bob:hunter22@db.local/x", "hunter22"),
    "slack_webhook": (f"https://hooks.slack.com/services/T0/B0/{BODY}", f"T0/B0/{BODY}"),
    "azure_signature": (f"https://x.blob.core.windows.net/a?sv=1&sig={BODY}%3D", f"{BODY}%3D"),
}
#: Text of fields of credentials outside of JSON, and the redacted part.
FIELDS: Final[dict[str, str]] = {
    "export DB_PASSWORD=hunter22; ls": "hunter22",
    "password = 'two words'": "two words",
    "{'password': 'py dict'}": "py dict",
    'args={"client_secret":"cut he': "cut he",
    'text {"a": "{\\"password\\": \\"in\\\\\\"ner\\"}"} more': 'in\\\\\\"ner',
    "Your password: Tr0ub4dor&3": "Tr0ub4dor&3",
    "X-Api-Key: abcdef123": "abcdef123",
    "Cookie: session=abc; theme=dark\r\nHost: x": "session=abc; theme=dark",
    "Authorization: Token s3cr3t": "s3cr3t",
    "AccountName=x;AccountKey=ab+/c==;Z=1": "ab+/c==",
    "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG": "wJalrXUtnFEMI/K7MDENG",
    "https://x.org/?a=1&token=abcdefgh12345678&b=2": "abcdefgh12345678",
    "<password>geheim</password>": "geheim",
    "passphrase => 'opensesame'": "opensesame",
    "next=%2Fa%3Fapi_key%3Dhunter22%26b%3D1": "hunter22",
    "state=%257B%2522password%2522%253A%2522hunter22%2522%257D": "hunter22%2522%257D",
    "deploy --db-password hunter22 --force": "hunter22",
    "deploy --token 'abcdefgh12345678'": "abcdefgh12345678",
    "curl -u bob:hunter22 https://x.org": "hunter22",
    '<add key="DbPassword" value="hunter 22"/>': "hunter 22",
    "db:\n  password:\n    hunter22\n": "hunter22",
    "password=$hunter22": "$hunter22",
    "OPENAI_API_KEY_2=abcdef": "abcdef",
}
PERSONAL: Final[dict[str, str]] = {
    "card": "4111 1111 1111 1111",
    "email": "Bob.O+x@example.co.uk",
    "phone": "+49 (30) 901820-11",
    "iban": "DE89 3704 0044 0532 0130 00",
    "ssn": "219-09-9999",
    "ip": "203.0.113.7",
}
ALL: Final = {"personal": tuple(PERSONAL)}


def redactor(**settings: Any) -> BatchRedactor:
    """Return a redactor under the tests' key."""
    return BatchRedactor.from_settings(RedactionSettings.model_validate(settings), lambda: KEY)


DEFAULT: Final = redactor()
EVERYTHING: Final = redactor(**ALL)


def redacted_text(text: str, by: BatchRedactor = DEFAULT) -> tuple[str, dict[str, int]]:
    """Return a text as it is written, and the counts of redactions."""
    accepted: Counter[str] = Counter()
    return by.text(text, accepted), dict(accepted)


def clean(value: Any, by: BatchRedactor = DEFAULT) -> Any:
    """Return a value as it is written."""
    return by.value(value, Counter())


def everything_in(batch: SpanBatch) -> str:
    """Return all text of a batch, bytes decoded."""
    return repr(batch.spans) + repr(batch.logs)
