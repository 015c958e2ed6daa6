"""Notifications of alarms: webhooks with a signature, Slack-compatible webhooks, and email.

Each target has its own thread, so that one that does not answer delays no other. The pending notifications are in the store:
a restart loses none, and a notification whose answer was lost is sent again with the same id.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import smtplib
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import formatdate
from functools import partial
from typing import TYPE_CHECKING, Final

import httpx
import orjson

from otel_agentic.config.notify import KEY_PREFIX
from otel_agentic.console.monitors import failed_conversations
from otel_agentic.judges.call_problems import retry_after_s
from otel_agentic.live.loops import BackgroundLoop, LoopErrorLogger
from otel_agentic.reports.conversations import iso
from otel_agentic.results import from_json, to_json
from otel_agentic.results.reports import RaisedAlarm
from otel_agentic.store.alarms import due_notifications, notification_failed, notification_sent
from otel_agentic.store.connection import to_json_value

if TYPE_CHECKING:
    from otel_agentic.config import NotifyTarget
    from otel_agentic.engine.engine import Engine

_log = logging.getLogger(__name__)
_NS_PER_S: Final = 1_000_000_000
#: The longest wait between two attempts, seconds.
_LONGEST_WAIT_S: Final = 3600.0
#: The longest wait of a loop for its next look at the store, seconds.
_CHECK_S: Final = 30.0
#: How long a stop waits for an attempt; it is made again after the next start.
_CLOSING_S: Final = 1.0
_MAX_ERROR: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """An alarm to send, with the link to the failed conversations of its group."""

    alarm: RaisedAlarm
    url: str

    @property
    def title(self) -> str:
        """The alarm in a few words."""
        event = "objective broken" if self.alarm.kind == "broken" else "pass rate fell"
        return " ".join(f"{self.alarm.agent or 'agent'}: {event} ({self.alarm.objective})".split())

    @property
    def text(self) -> str:
        """The alarm as a sentence, and the link."""
        return f"{self.alarm.description}\n{self.url}"


class NotSentError(Exception):
    """An attempt failed; `retry_after_s` is the delay that the receiver requests, seconds, or None."""

    def __init__(self, reason: str, retry_after_s: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s


def sample_notification(now_ns: int) -> Notification:
    """Return a notification that tests a target; its text names it a test."""
    time = iso(now_ns)
    alarm = RaisedAlarm(
        alarm_id=f"test-{now_ns}",
        raised_at=time,
        agent="example-agent",
        agent_version="1.0",
        environment="",
        service=None,
        criterion="correct",
        objective="pass^3>=0.7",
        kind="broken",
        conversation_ended_at=time,
        description="This is a test of otel-agentic: no objective is broken.",
        acknowledged_at=None,
        acknowledged_by=None,
        note=None,
        notifications=[],
    )
    return Notification(alarm=alarm, url="https://example.com/conversations?outcome=fail")


def send(target: NotifyTarget, notification: Notification, *, now_s: int, timeout_s: float) -> None:
    """Send a notification.

    Args:
        target: the receiver.
        notification: the alarm.
        now_s: the time of the signature, seconds since the epoch.
        timeout_s: time limit of each step of the connection, seconds.

    Raises:
        NotSentError: the receiver did not accept it.
    """
    if target.kind == "email":
        _send_email(target, notification, now_s, timeout_s)
        return
    if target.kind == "slack":
        body, headers = slack_body(notification), {}
    else:
        body = webhook_body(notification)
        headers = signature_headers(target, notification.alarm.alarm_id, body, now_s)
    _post(target, body, headers, timeout_s)


def webhook_body(notification: Notification) -> bytes:
    """Return the alarm as JSON, with the fields of the command `monitors`."""
    alarm = {name: value for name, value in to_json(notification.alarm).items() if name != "notifications"}
    return orjson.dumps({"type": "alarm", **alarm, "url": notification.url})


def slack_body(notification: Notification) -> bytes:
    """Return a message of a Slack-compatible webhook: `&`, `<` and `>` are escaped, so that no text becomes a link."""
    title, description = (
        text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        for text in (notification.title, notification.alarm.description)
    )
    return orjson.dumps({"text": f"*{title}*\n{description}\n<{notification.url}|Failed conversations>"})


def signature_headers(target: NotifyTarget, message_id: str, body: bytes, now_s: int) -> dict[str, str]:
    """Return the headers of the Standard Webhooks specification: id, time, and the signature if there is a secret.

    The signature is the HMAC-SHA256 of `id.time.body`, in base64 after `v1,`.
    """
    headers = {"webhook-id": message_id, "webhook-timestamp": str(now_s)}
    if target.secret is None:
        return headers
    secret = target.secret.get_secret_value()
    key = base64.b64decode(secret.removeprefix(KEY_PREFIX)) if secret.startswith(KEY_PREFIX) else secret.encode()
    digest = hmac.new(key, f"{message_id}.{now_s}.".encode() + body, hashlib.sha256).digest()
    return {**headers, "webhook-signature": f"v1,{base64.b64encode(digest).decode()}"}


def _post(target: NotifyTarget, body: bytes, headers: dict[str, str], timeout_s: float) -> None:
    url = str(target.url and target.url.get_secret_value())
    try:
        with httpx.stream(
            "POST", url, content=body, headers={"content-type": "application/json", **headers}, timeout=timeout_s
        ) as response:  # its body is not read
            status, wait_s = response.status_code, retry_after_s(response.headers, datetime.now(UTC))
    except httpx.HTTPError as error:
        raise NotSentError(str(error).replace(url, "its URL") or type(error).__name__) from None
    if not httpx.codes.is_success(status):
        raise NotSentError(f"it answers {status}", wait_s)


def _send_email(target: NotifyTarget, notification: Notification, now_s: int, timeout_s: float) -> None:
    message = EmailMessage()
    message["Subject"] = f"[otel-agentic] {notification.title}"
    message["From"] = target.sender
    message["To"] = ", ".join(target.recipients)
    message["Date"] = formatdate(now_s)
    message["Message-ID"] = f"<{notification.alarm.alarm_id}@otel-agentic>"  # so that readers display a repetition once
    message.set_content(notification.text)
    host, _, port = str(target.smtp).rpartition(":")
    context = ssl.create_default_context()
    try:
        with (
            smtplib.SMTP_SSL(host, int(port), timeout=timeout_s, context=context)
            if target.tls == "tls"
            else smtplib.SMTP(host, int(port), timeout=timeout_s)
        ) as server:
            if target.tls == "starttls":
                server.starttls(context=context)
            if target.user is not None and target.password is not None:
                server.login(target.user, target.password.get_secret_value())
            server.send_message(message)
    except (OSError, smtplib.SMTPException) as error:
        raise NotSentError(str(error) or type(error).__name__) from None


class NotificationLoop(BackgroundLoop):
    """Sends the pending notifications of one target on its own thread, and retries until they are too old."""

    def __init__(self, engine: Engine, target: NotifyTarget, console_url: Callable[[], str]) -> None:
        """Create the loop.

        Args:
            engine: its store has the pending notifications.
            target: the receiver.
            console_url: returns the URL of the console, for links.
        """
        super().__init__(f"notify-{target.name}")
        self._engine = engine
        self._target = target
        self._console_url = console_url
        self._settings = engine.settings.notify
        self._errors = LoopErrorLogger(_log, f"notifying {target.name}")

    def stop(self) -> None:
        """End the thread; an attempt that does not end soon is made again after the next start."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(_CLOSING_S)

    def send_due(self) -> None:
        """Make the attempts that are due, and store their results."""
        store, name = self._engine.store, self._target.name
        with store.read() as con:
            rows = due_notifications(con, name, self._engine.clock())
        for row in rows:
            if self._stopping.is_set():
                return
            attempts = row.pop("attempts") + 1
            alarm = from_json(RaisedAlarm, {**to_json_value(row), "notifications": []})
            error, next_ns = self._attempt(alarm, attempts, raised_ns=row["raised_ns"])
            if error is None:
                result = partial(notification_sent, now_ns=self._engine.clock())
            else:
                result = partial(notification_failed, error=error, next_ns=next_ns)
            store.write(partial(result, alarm_id=alarm.alarm_id, target=name))

    def _attempt(self, alarm: RaisedAlarm, attempts: int, *, raised_ns: int) -> tuple[str | None, int | None]:
        """Return the error of an attempt, None if it succeeded, and the time of the next one, None after the last."""
        notification = Notification(alarm=alarm, url=self._console_url().rstrip("/") + failed_conversations(alarm))
        now_ns = self._engine.clock()
        try:
            send(self._target, notification, now_s=now_ns // _NS_PER_S, timeout_s=self._settings.timeout_s)
        except NotSentError as error:
            reason = str(error)[:_MAX_ERROR]
            wait_s = min(_LONGEST_WAIT_S, max(self._settings.retry_s * 2 ** (attempts - 1), error.retry_after_s or 0.0))
            next_ns = now_ns + int(wait_s * _NS_PER_S)
            is_last = next_ns - raised_ns > self._settings.give_up_s * _NS_PER_S
            if is_last or attempts == 1:
                then = "no further attempt is made" if is_last else f"next attempt in {wait_s:.0f} s"
                _log.warning("alarm %s was not sent to %s: %s; %s", alarm.alarm_id, self._target.name, reason, then)
            return reason, None if is_last else next_ns
        return None, None

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._errors.attempt(self.send_due)
            self._wake.wait(min(_CHECK_S, self._settings.retry_s))
            self._wake.clear()
