"""The section `notify`: where alarms of objectives are sent."""

from __future__ import annotations

import base64
import binascii
from fnmatch import fnmatchcase
from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from otel_agentic.config.sections import Deadline, Section, has_user

#: The beginning of a key in base64, by the Standard Webhooks specification.
KEY_PREFIX: Final = "whsec_"
_ALLOWED: Final = {
    "webhook": {"url", "secret"},
    "slack": {"url"},
    "email": {"smtp", "tls", "user", "password", "sender", "recipients"},
}
_REQUIRED: Final = {"webhook": ("url",), "slack": ("url",), "email": ("smtp", "sender", "recipients")}

Text = Annotated[str, Field(min_length=1)]


class NotifyTarget(Section):
    """A receiver of alarms: a webhook, a Slack-compatible webhook, or people by email."""

    name: Annotated[str, Field(min_length=1, max_length=100)] = Field(
        description="name in logs and in the list of alarms; it identifies the target"
    )
    kind: Literal["webhook", "slack", "email"] = Field(
        description="webhook sends JSON, slack a message to a Slack-compatible webhook, email a message by SMTP"
    )
    agent: Text = Field(default="*", description="alarms of this agent only, by name or glob")
    url: SecretStr | None = Field(default=None, description="of webhook and slack: http(s) URL, which is never printed")
    secret: SecretStr | None = Field(
        default=None, description="of webhook: key of the signature, whsec_ and base64, or any text; unset: not signed"
    )
    smtp: Text | None = Field(default=None, description="of email: server, host:port")
    tls: Literal["starttls", "tls", "none"] = Field(
        default="starttls", description="of email: encryption; none also sends no password"
    )
    user: Text | None = Field(default=None, description="of email: user of the server; unset: no log-in")
    password: SecretStr | None = Field(default=None, description="of email: password of the user")
    sender: Text | None = Field(default=None, description="of email: address of the sender")
    recipients: tuple[Text, ...] = Field(default=(), description="of email: addresses of the recipients")

    @field_validator("url")
    @classmethod
    def _is_http(cls, url: SecretStr | None) -> SecretStr | None:
        if url is None:
            return None
        parts = urlsplit(url.get_secret_value())
        if parts.scheme not in {"http", "https"} or not parts.hostname or has_user(url.get_secret_value()):
            raise ValueError("give an http or https URL without a user and a password")
        return url

    @field_validator("secret")
    @classmethod
    def _is_key(cls, secret: SecretStr | None) -> SecretStr | None:
        text = "" if secret is None else secret.get_secret_value()
        if text.startswith(KEY_PREFIX):
            try:
                base64.b64decode(text.removeprefix(KEY_PREFIX), validate=True)
            except binascii.Error:
                raise ValueError(f"after {KEY_PREFIX}, give a key in base64") from None
        return secret

    @model_validator(mode="after")
    def _fits_kind(self) -> Self:
        provided = self.model_fields_set - {"name", "kind", "agent"}
        if foreign := sorted(provided - _ALLOWED[self.kind]):
            raise ValueError(f"target {self.name!r} of kind {self.kind} has no {foreign[0]}")
        if missing := [name for name in _REQUIRED[self.kind] if not getattr(self, name)]:
            raise ValueError(f"target {self.name!r} of kind {self.kind} needs {missing[0]}")
        if self.kind == "email":
            host, _, port = str(self.smtp).rpartition(":")
            if not host or not port.isdecimal():
                raise ValueError(f"target {self.name!r}: smtp must be host:port, such as mail.example.com:587")
            if (self.user is None) != (self.password is None):
                raise ValueError(f"target {self.name!r} needs both user and password, or neither")
            if self.password is not None and self.tls == "none":
                raise ValueError(f"target {self.name!r}: a password is only sent with tls starttls or tls")
        return self


class NotifySettings(Section):
    """Receivers of alarms, see `slo`."""

    targets: tuple[NotifyTarget, ...] = Field(
        default=(), description="receivers: tables with name, kind, agent, url, …"
    )
    console_url: Text | None = Field(
        default=None, description="URL of the console for links in messages; unset: the admin address"
    )
    timeout_s: Deadline = Field(default=10.0, description="time limit of one attempt, seconds")
    retry_s: Deadline = Field(
        default=30.0,
        description="wait after the first failed attempt, seconds; it doubles with each one, up to an hour",
    )
    give_up_s: Annotated[float, Field(gt=0.0)] = Field(
        default=86_400.0, description="age of an alarm after which no further attempt is made, seconds"
    )

    @model_validator(mode="after")
    def _has_unique_names(self) -> Self:
        names = [target.name for target in self.targets]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two targets are named {repeated[0]!r}; each needs its own name")
        return self

    def receivers(self, agent: str | None) -> list[str]:
        """Return the names of the targets that receive the alarms of an agent; None: without an agent."""
        return [target.name for target in self.targets if fnmatchcase(agent or "", target.agent)]
