"""Measure the recall and the false positives of redaction on a corpus that is generated from a seed.

Secrets have the formats that vendors publish, defined here independently of the rules; each occurs in eight settings. Values of
named fields occur in the texts that people and models write around them. Harmless texts come from agents and source code, or are
near misses. The corpus is not stored, because repository scanners would report it as real secrets.

`python -m benchmarks.redaction_recall` prints the table of docs/redaction.md.
"""

from __future__ import annotations

import argparse
import base64
import json
import string
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final, NamedTuple

from benchmarks.redaction_texts import FIELDS, HARMLESS, PERSONAL, PERSONAL_HARMLESS, VALUES
from otel_agentic.config import RedactionSettings
from otel_agentic.redaction.engine import BatchRedactor

HEX: Final = "0123456789abcdef"
LOWER: Final = string.ascii_lowercase + string.digits
UPPER: Final = string.ascii_uppercase + string.digits
ALNUM: Final = string.ascii_letters + string.digits
URL: Final = ALNUM + "-_"
B64: Final = ALNUM + "+/"
B32: Final = string.ascii_lowercase + "234567"

#: Text around a secret, by name. Each function receives the secret and returns the text of a span.
SETTINGS: Final[dict[str, Callable[[str], str]]] = {
    "prose": lambda secret: f"I found {secret} in the notes, please rotate it.",
    "quotes": lambda secret: f'The value "{secret}" is in the log.',
    "backticks": lambda secret: f"Use `{secret}` for this call.",
    "JSON": lambda secret: json.dumps({"note": secret, "n": 1}),
    "JSON in JSON": lambda secret: json.dumps({"body": json.dumps({"x": [secret], "y": None})}),
    "shell": lambda secret: f"run --with='{secret}' && echo done",
    "repr": lambda secret: repr({"x": secret, "n": [1, None]}),
    "Markdown table": lambda secret: f"| what | which |\n|---|---|\n| it | {secret} |\n",
}


class Recall(NamedTuple):
    """The number of redacted cases out of all cases."""

    removed: int
    cases: int

    @property
    def share(self) -> float:
        return self.removed / self.cases


def _of(random: Random, alphabet: str, length: int) -> str:
    return "".join(random.choices(alphabet, k=length))


def _uuid(random: Random) -> str:
    return str(uuid.UUID(int=random.getrandbits(128), version=4))


def _b64(random: Random, length: int) -> str:
    return base64.b64encode(random.randbytes(length)).decode()


def _jwt(random: Random) -> str:
    parts = ({"alg": "HS256", "typ": "JWT"}, {"sub": _of(random, LOWER, 12), "iat": 1_700_000_000})
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
    return ".".join((*encoded, _of(random, URL, 43)))


def _pem(random: Random) -> str:
    body = "\n".join(_b64(random, 48) for _ in range(6))
    return f"-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----"


def _putty(random: Random) -> str:
    return (
        "PuTTY-User-Key-File-3: ssh-rsa\nEncryption: none\nComment: rsa-key\nPublic-Lines: 1\n"
        f"{_b64(random, 48)}\nPrivate-Lines: 2\n{_b64(random, 48)}\n{_b64(random, 48)}\nPrivate-MAC: {_of(random, HEX, 64)}\n"
    )


def _discord(random: Random) -> str:
    account = base64.b64encode(str(random.randrange(10**17, 10**18)).encode()).decode().rstrip("=")
    return f"{account}.{_of(random, URL, 6)}.{_of(random, URL, 38)}"


def _rows() -> Iterator[tuple[str, Callable[[Random], str]]]:  # noqa: PLR0915 — a table
    """Yield each kind of secret and its generator; `p` is its prefix, split if it would look like a real secret."""

    def token(p: str, alphabet: str, length: int, end: str = "") -> Callable[[Random], str]:
        return lambda random: p + _of(random, alphabet, length) + end

    yield "OpenAI project key", token("sk-" + "proj-", URL, 120)
    yield "OpenAI key", lambda r: "sk-" + _of(r, ALNUM, 20) + "T3Blbk" + "FJ" + _of(r, ALNUM, 20)
    yield "Anthropic", token("sk-" + "ant-api03-", URL, 93, "AA")
    yield "OpenRouter", token("sk-or-" + "v1-", HEX, 64)
    yield "DeepSeek", token("sk" + "-", HEX, 32)
    yield "Langfuse", lambda r: "sk-lf-" + _uuid(r)
    yield "Hugging Face", token("hf" + "_", string.ascii_letters, 34)
    yield "Groq", token("gsk" + "_", ALNUM, 52)
    yield "xAI", token("xai" + "-", ALNUM, 80)
    yield "Perplexity", token("pplx" + "-", ALNUM, 48)
    yield "Replicate", token("r8" + "_", ALNUM, 37)
    yield "Tavily", token("tvly-" + "dev-", ALNUM, 32)
    yield "LangSmith", lambda r: "lsv2" + "_pt_" + _of(r, HEX, 32) + "_" + _of(r, HEX, 10)
    yield "ElevenLabs", token("sk" + "_", HEX, 48)
    yield "NVIDIA", token("nvapi" + "-", URL, 64)
    yield "Fireworks", token("fw" + "_", ALNUM, 24)
    yield "Cerebras", token("csk" + "-", LOWER, 48)
    yield "Weights & Biases", token("wandb" + "_v1_", ALNUM, 77)
    yield "Pinecone", lambda r: "pcsk" + "_" + _of(r, ALNUM, 6) + "_" + _of(r, ALNUM, 63)
    yield "Firecrawl", token("fc" + "-", HEX, 32)
    yield "LlamaCloud", token("llx" + "-", ALNUM, 48)
    yield "Jina", token("jina" + "_", ALNUM, 60)
    yield "AWS access key id", token("AK" + "IA", string.ascii_uppercase + "234567", 16)
    yield "AWS secret with its id", lambda r: "AKIA" + _of(r, UPPER, 16) + " / " + _of(r, B64, 40)
    yield "AWS Bedrock", lambda r: "ABSK" + base64.b64encode(b"BedrockAPIKey-" + r.randbytes(81)).decode()
    yield "Google API key", token("AI" + "za", URL, 35)
    yield "Google OAuth token", token("ya29" + ".a0", URL, 180)
    yield "Google OAuth refresh", token("1//0" + "4", URL, 100)
    yield "Google client secret", token("GOCSPX" + "-", URL, 28)
    yield "Azure Entra secret", lambda r: _of(r, ALNUM, 3) + "8Q" + "~" + _of(r, URL + ".~", 34)
    yield (
        "Azure OpenAI",
        lambda r: _of(r, ALNUM, 52) + "JQQJ" + "99" + "BC" + _of(r, ALNUM, 4) + "XJ3w3AAABACOG" + _of(r, ALNUM, 5),
    )
    yield "Azure DevOps", lambda r: _of(r, ALNUM, 76) + "AZ" + "DO" + _of(r, ALNUM, 4)
    yield "Azure Cosmos", lambda r: _of(r, B64, 76) + "AC" + "Db" + _of(r, B64, 5) + "A=="
    yield "Azure storage", lambda r: _of(r, B64, 76) + "+A" + "St" + _of(r, B64, 5) + "g=="
    yield "Azure storage, before 2022", lambda r: _b64(r, 64)
    yield "Azure Functions", lambda r: _of(r, URL, 44) + "Az" + "Fu" + _of(r, URL, 5) + "A=="
    yield (
        "Azure signature",
        lambda r: f"https://a.blob.core.windows.net/c?sp=r&sv=2022-11-02&sr=b&sig={_of(r, ALNUM, 42)}%3D",
    )
    yield "Databricks", token("dapi", HEX, 32)
    yield "DigitalOcean", token("dop" + "_v1_", HEX, 64)
    yield "Fly.io", lambda r: "fm2" + "_" + _b64(r, 150)
    yield "Netlify", token("nfp" + "_", ALNUM, 36)
    yield "Vercel", token("vcp" + "_", ALNUM, 56)
    yield "Heroku", token("HRKU" + "-AA", URL, 58)
    yield "Render", token("rnd" + "_", ALNUM, 28)
    yield "Cloudflare", token("cfut" + "_", ALNUM, 48)
    yield "Alibaba", token("LT" + "AI5t", ALNUM, 18)
    yield "Supabase", lambda r: "sb_" + "secret_" + _of(r, URL, 22) + "_" + _of(r, URL, 8)
    yield "Supabase access token", token("sbp" + "_", HEX, 40)
    yield "PlanetScale", token("pscale" + "_tkn_", URL, 43)
    yield "Neon", token("napi" + "_", LOWER, 64)
    yield "Terraform", lambda r: _of(r, ALNUM, 14) + ".atlas" + "v1." + _of(r, ALNUM, 67)
    yield "Pulumi", token("pul" + "-", HEX, 40)
    yield "Vault", token("hvs" + ".", URL, 90)
    yield "Doppler", token("dp" + ".pt.", ALNUM, 43)
    yield "1Password service account", lambda r: "ops" + "_eyJ" + _b64(r, 240)
    yield "1Password secret key", lambda r: "A3-" + "-".join(_of(r, UPPER, n) for n in (6, 11, 5, 5, 5))
    yield "age", token("AGE-SECRET" + "-KEY-1", UPPER, 58)
    yield "Grafana", lambda r: "glsa" + "_" + _of(r, ALNUM, 32) + "_" + _of(r, HEX, 8)
    yield "New Relic", token("NRAK" + "-", UPPER, 27)
    yield "Sentry", token("sntryu" + "_", HEX, 64)
    yield "GitHub", token("ghp" + "_", ALNUM, 36)
    yield "GitHub fine-grained", lambda r: "github" + "_pat_" + _of(r, ALNUM, 22) + "_" + _of(r, ALNUM, 59)
    yield "GitLab", token("glpat" + "-", URL, 20)
    yield "GitLab runner", token("GR" + "1348941", URL, 20)
    yield "Bitbucket", token("AT" + "BB", ALNUM, 32)
    yield "Atlassian", token("ATATT" + "3xFfGF0", URL, 180)
    yield "npm", token("npm" + "_", ALNUM, 36)
    yield "PyPI", token("pypi" + "-AgEIcHlwaS5vcmc", URL, 120)
    yield "RubyGems", token("rubygems" + "_", HEX, 48)
    yield "NuGet", token("oy" + "2", B32, 43)
    yield "Docker Hub", token("dckr" + "_pat_", URL, 27)
    yield "Figma", token("figd" + "_", URL, 40)
    yield "Linear", token("lin" + "_api_", ALNUM, 40)
    yield "Notion", token("secret" + "_", ALNUM, 43)
    yield "Notion, new", token("ntn" + "_", ALNUM, 46)
    yield "Airtable", lambda r: "pat" + _of(r, ALNUM, 14) + "." + _of(r, HEX, 64)
    yield "Asana", lambda r: "1/" + _of(r, string.digits, 16) + ":" + _of(r, HEX, 32)
    yield "Postman", lambda r: "PMAK" + "-" + _of(r, HEX, 24) + "-" + _of(r, HEX, 34)
    yield (
        "Slack bot",
        lambda r: "xox" + "b-" + _of(r, string.digits, 12) + "-" + _of(r, string.digits, 12) + "-" + _of(r, ALNUM, 24),
    )
    yield (
        "Slack webhook",
        lambda r: f"https://hooks.slack.com/services/T{_of(r, UPPER, 8)}/B{_of(r, UPPER, 8)}/{_of(r, ALNUM, 24)}",
    )
    yield "Discord bot", _discord
    yield "Discord webhook", lambda r: f"https://discord.com/api/webhooks/{_of(r, string.digits, 18)}/{_of(r, URL, 68)}"
    yield (
        "Teams webhook",
        lambda r: (
            f"https://contoso.webhook.office.com/webhookb2/{_uuid(r)}@{_uuid(r)}/IncomingWebhook/{_of(r, HEX, 32)}/{_uuid(r)}"
        ),
    )
    yield "Telegram", lambda r: _of(r, "123456789", 9) + ":AA" + _of(r, URL, 33)
    yield "SendGrid", lambda r: "SG" + "." + _of(r, URL, 22) + "." + _of(r, URL, 43)
    yield "Twilio", token("SK", HEX, 32)
    yield "Mailchimp", token("", HEX, 32, "-us" + "14")
    yield "Mailgun", token("key" + "-", HEX, 32)
    yield "Brevo", lambda r: "xkeysib" + "-" + _of(r, HEX, 64) + "-" + _of(r, ALNUM, 16)
    yield "Facebook", token("EAA" + "C", ALNUM, 160)
    yield "Stripe", token("sk" + "_live_", ALNUM, 24)
    yield "Stripe webhook", token("whsec" + "_", ALNUM, 32)
    yield "Shopify", token("shp" + "at_", HEX, 32)
    yield "Shopify, app", token("shp" + "ss_", HEX, 32)
    yield "Square", token("EAAA" + "E", URL, 59)
    yield "Square, OAuth", token("sq0" + "csp-", URL, 43)
    yield "EasyPost", token("EZ" + "AK", ALNUM, 54)
    yield "Braintree", lambda r: "access_token" + "$production$" + _of(r, LOWER, 16) + "$" + _of(r, HEX, 32)
    yield "Plaid", lambda r: "access" + "-sandbox-" + _uuid(r)
    yield "HubSpot", lambda r: "pat" + "-na1-" + _uuid(r)
    yield "Dropbox", token("sl" + ".B", URL, 135)
    yield "JWT", _jwt
    yield "private key", _pem
    yield "PuTTY key", _putty
    yield "password in a URL", lambda r: f"postgres://app:{_of(r, ALNUM, 16)}@db.internal:5432/prod"
    yield "Bearer", lambda r: f"Bearer {_of(r, ALNUM, 40)}"
    yield "bcrypt hash", lambda r: "$2" + "b$12$" + _of(r, ALNUM + "./", 53)


KINDS: Final = dict(_rows())
#: The part of a secret that must not remain: URLs keep their hosts, key files their first lines.
_VISIBLE: Final = 12


def is_left(secret: str, text: str) -> bool:
    """Return whether part of the secret remains: its last characters, which no marker repeats."""
    plain = secret.rstrip("=").splitlines()[-1].rsplit("@db.", 1)[0].removesuffix("%3D").removesuffix("-us14")
    return plain[-_VISIBLE:] in text


def by_shape(redact: Callable[[str], str], count: int, seed: int = 1) -> dict[str, Recall]:
    """Return for each kind how many secrets were redacted, over all settings."""
    recalls = {}
    for kind, make in KINDS.items():
        random = Random(f"{seed} {kind}")  # noqa: S311 — a corpus, not a secret
        removed = 0
        for surround in SETTINGS.values():
            secrets = [make(random) for _ in range(count)]
            removed += sum(not is_left(secret, redact(surround(secret))) for secret in secrets)
        recalls[kind] = Recall(removed, count * len(SETTINGS))
    return recalls


def by_field(redact: Callable[[str], str]) -> dict[str, Recall]:
    """Return for each notation of a named value how many values were redacted."""
    recalls = {}
    for name, values, text in FIELDS:
        values_of_kind = VALUES[values]
        recalls[f"{name}: {text}"] = Recall(
            sum(value not in redact(text.replace("§", value)) for value in values_of_kind), len(values_of_kind)
        )
    return recalls


def mistaken(redact: Callable[[str], str]) -> list[str]:
    """Return the harmless texts that were changed."""
    return [text for text in HARMLESS if redact(text) != text]


def personal(redact: Callable[[str], str]) -> dict[str, Recall]:
    """Return for each kind of personal data in how many texts it was redacted."""
    return {
        kind: Recall(sum(value not in redact(f"It is {value}, as of today.") for value in values), len(values))
        for kind, values in PERSONAL.items()
    }


def redactor(**settings: Any) -> Callable[[str], str]:
    """Return a function that redacts a text."""
    by = BatchRedactor.from_settings(RedactionSettings.model_validate(settings), lambda: b"k" * 32)
    return lambda text: by.text(text, Counter())


def total(recalls: dict[str, Recall]) -> Recall:
    return Recall(sum(recall.removed for recall in recalls.values()), sum(recall.cases for recall in recalls.values()))


def main() -> None:
    """Print recall, and the values that were missed or redacted by mistake."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=5, help="secrets of a kind in a setting")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    default = redactor()
    everything = redactor(personal=list(PERSONAL))
    shapes, fields, people = by_shape(default, arguments.each, arguments.seed), by_field(default), personal(everything)
    mistakes = mistaken(default)
    print("| | found | of | share |\n|---|---:|---:|---:|")
    for name, recall in (
        (f"credentials by their shape, {len(shapes)} kinds in {len(SETTINGS)} settings", total(shapes)),
        (f"named fields, {len(fields)} ways to write them", total(fields)),
        ("harmless texts, changed by mistake", Recall(len(mistakes), len(HARMLESS))),
        *((f"personal data: {kind}", recall) for kind, recall in people.items()),
        (
            "harmless numbers, taken as personal data",
            Recall(sum(everything(text) != text for text in PERSONAL_HARMLESS), len(PERSONAL_HARMLESS)),
        ),
    ):
        print(f"| {name} | {recall.removed:,} | {recall.cases:,} | {recall.share:.1%} |")
    for name, recall in (*shapes.items(), *fields.items(), *people.items()):
        if recall.removed < recall.cases:
            print(f"missed: {recall.cases - recall.removed} of {recall.cases}: {name}")
    for text in (*mistakes, *(text for text in PERSONAL_HARMLESS if everything(text) != text)):
        print(f"by mistake: {text!r}")


if __name__ == "__main__":
    main()
