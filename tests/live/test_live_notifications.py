"""Alarms are sent to webhooks, Slack and people: signed, again after a failure, and not again after a restart."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import re
import time
from collections.abc import Iterator
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

import pytest

from otel_agentic.config import NotifySettings, NotifyTarget
from otel_agentic.engine.engine import Engine
from otel_agentic.live.notifications import NotificationLoop, NotSentError, sample_notification, send
from otel_agentic.results import from_json
from otel_agentic.results.reports import RaisedAlarm
from otel_agentic.store.alarms import Alarm, list_alarms, save_alarms
from otel_agentic.store.connection import to_json_value
from otel_agentic.store.table import Selection
from otel_agentic.testing import NOON_NS, SECOND_NS
from otel_agentic.windows import GroupKey
from tests.live.receivers import Mailbox, Webhook, mail_server, webhook
from tests.stores import settings_for

NOTIFICATION = sample_notification(NOON_NS)
NOW_S = NOON_NS // SECOND_NS


@pytest.fixture
def hook() -> Iterator[Webhook]:
    with webhook() as server:
        yield server


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    with mail_server() as server:
        yield server


def alarm() -> Alarm:
    return Alarm(
        alarm_id="a-1",
        key=GroupKey(
            agent="trip-planner", agent_version="1.1.0", environment="prod", service="shop", criterion="correct"
        ),
        objective="nine of ten",
        kind="broken",
        conversation_ended_ns=NOON_NS,
        text="trip-planner 1.1.0: nine of ten is broken",
    )


class Running:
    """An engine with one target and one pending alarm; `now_ns` is the present."""

    def __init__(self, db: Path, url: str, **settings: Any) -> None:
        self.now_ns = NOON_NS
        self.engine = Engine(
            settings_for(db, notify={"targets": [{"name": "on-call", "kind": "webhook", "url": url}], **settings}),
            create=not db.exists(),
            clock=lambda: self.now_ns,
        )
        (target,) = self.engine.settings.notify.targets
        self.loop = NotificationLoop(self.engine, target, lambda: "https://console.example.com/")

    def raise_alarm(self) -> None:
        self.engine.store.write(lambda con: save_alarms(con, [alarm()], {"a-1": ["on-call"]}, self.now_ns))

    def state(self) -> dict[str, Any]:
        """Return the state of the notification, as the list of alarms has it."""
        with self.engine.store.read() as con:
            (row,) = list_alarms(con, Selection(), 10)
        (sent,) = from_json(RaisedAlarm, to_json_value(row)).notifications
        return {"attempts": sent.attempts, "sent": sent.sent_at is not None, "again": sent.next_at is not None}


@pytest.fixture
def running(tmp_path: Path, hook: Webhook) -> Iterator[Running]:
    run = Running(tmp_path / "t.duckdb", hook.url)
    with run.engine:
        run.raise_alarm()
        yield run


@pytest.mark.parametrize(
    ("secret", "key"),
    [("whsec_" + base64.b64encode(b"0123456789abcdef").decode(), b"0123456789abcdef"), ("any text", b"any text")],
)
def test_a_webhook_gets_the_alarm_with_a_signature(hook: Webhook, secret: str, key: bytes) -> None:
    target = NotifyTarget.model_validate({"name": "on-call", "kind": "webhook", "url": hook.url, "secret": secret})

    send(target, NOTIFICATION, now_s=NOW_S, timeout_s=10)

    (post,) = hook.posts()
    signed = b".".join([post.headers["webhook-id"].encode(), post.headers["webhook-timestamp"].encode(), post.body])
    expected = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    assert f"v1,{expected}" == post.headers["webhook-signature"]
    content = json.loads(post.body)
    assert ("alarm", NOTIFICATION.alarm.alarm_id) == (content["type"], content["alarm_id"])
    assert content["alarm_id"] == post.headers["webhook-id"]
    assert NOTIFICATION.url == content["url"]


def test_the_documentation_verifies_a_signature(hook: Webhook) -> None:
    page = (Path(__file__).parents[2] / "docs" / "monitoring.md").read_text()
    code = re.search(r"```python\n(.*?is_genuine.*?)```", page, re.DOTALL)
    assert code is not None
    names: dict[str, Any] = {}
    exec(code[1], names)  # noqa: S102 — our own documentation
    secret = "whsec_" + base64.b64encode(b"key").decode()
    target = NotifyTarget.model_validate({"name": "on-call", "kind": "webhook", "url": hook.url, "secret": secret})

    for now_s in (int(time.time()), int(time.time()) - 600):
        send(target, NOTIFICATION, now_s=now_s, timeout_s=10)
    recent, old = hook.posts()

    assert names["is_genuine"](recent.headers, recent.body, secret)
    assert not names["is_genuine"](recent.headers, recent.body + b" ", secret)
    assert not names["is_genuine"](old.headers, old.body, secret)


def test_in_a_slack_message_no_text_becomes_markup(hook: Webhook) -> None:
    target = NotifyTarget.model_validate({"name": "chat", "kind": "slack", "url": hook.url})
    hostile = from_json(RaisedAlarm, {**_plain(), "agent": "<!channel>\n&", "description": "<https://evil|ok>"})

    send(target, type(NOTIFICATION)(alarm=hostile, url="https://console/x"), now_s=NOW_S, timeout_s=10)

    (post,) = hook.posts()
    assert {
        "text": "*&lt;!channel&gt; &amp;: objective broken (pass^3&gt;=0.7)*\n&lt;https://evil|ok&gt;\n"
        "<https://console/x|Failed conversations>"
    } == json.loads(post.body)
    assert "webhook-signature" not in post.headers


def _plain() -> dict[str, Any]:
    return {name: getattr(NOTIFICATION.alarm, name) for name in type(NOTIFICATION.alarm).__dataclass_fields__}


def test_people_get_an_email(mailbox: Mailbox) -> None:
    target = NotifyTarget.model_validate(_email(mailbox))
    hostile = from_json(RaisedAlarm, {**_plain(), "agent": "agent\r\nBcc: all@example.com"})

    send(target, type(NOTIFICATION)(alarm=hostile, url="https://console/x"), now_s=NOW_S, timeout_s=10)

    (content,) = mailbox.messages
    message = message_from_bytes(content, policy=policy.default)
    assert ("ops@example.com, on-call@example.com", "agents@example.com") == (message["To"], message["From"])
    assert message["Subject"].strip().startswith("[otel-agentic] agent Bcc: all@example.com: objective broken")
    assert message["Bcc"] is None
    assert f"<{NOTIFICATION.alarm.alarm_id}@otel-agentic>" == message["Message-ID"]
    assert "https://console/x" in message.get_content()


def test_an_email_is_not_sent_without_the_encryption_of_the_settings(mailbox: Mailbox) -> None:
    target = NotifyTarget.model_validate({**_email(mailbox), "tls": "starttls", "user": "me", "password": "pw-1"})

    with pytest.raises(NotSentError, match="STARTTLS"):
        send(target, NOTIFICATION, now_s=NOW_S, timeout_s=10)

    assert [] == mailbox.messages
    assert "AUTH" not in " ".join(mailbox.commands)


def _email(mailbox: Mailbox) -> dict[str, Any]:
    return {
        "name": "people",
        "kind": "email",
        "smtp": f"127.0.0.1:{mailbox.port}",
        "tls": "none",
        "sender": "agents@example.com",
        "recipients": ["ops@example.com", "on-call@example.com"],
    }


def test_a_failed_attempt_is_repeated_when_it_is_due_and_a_sent_alarm_never_again(
    running: Running, hook: Webhook, tmp_path: Path
) -> None:
    hook.answers = [(500, {})]
    running.loop.send_due()
    assert {"attempts": 1, "sent": False, "again": True} == running.state()

    running.now_ns += 29 * SECOND_NS
    running.loop.send_due()
    assert 1 == running.state()["attempts"]

    running.now_ns += SECOND_NS
    running.loop.send_due()
    assert {"attempts": 2, "sent": True, "again": False} == running.state()

    posts = hook.posts()
    assert 2 == len(posts)
    assert posts[0].headers["webhook-id"] == posts[1].headers["webhook-id"] == "a-1"
    content = json.loads(posts[1].body)
    assert "https://console.example.com/conversations?" in content["url"]
    assert ("trip-planner", "prod", "broken") == (content["agent"], content["environment"], content["kind"])
    running.engine.close()
    again = Running(tmp_path / "t.duckdb", hook.url)
    with again.engine:
        again.now_ns += 3600 * SECOND_NS
        again.loop.send_due()
    assert [] == hook.posts()


def test_a_pending_alarm_is_sent_after_a_restart(running: Running, hook: Webhook, tmp_path: Path) -> None:
    running.engine.close()

    again = Running(tmp_path / "t.duckdb", hook.url)
    with again.engine:
        again.loop.send_due()

    assert 1 == len(hook.posts())


def test_the_receiver_may_request_a_longer_wait(running: Running, hook: Webhook) -> None:
    hook.answers = [(429, {"retry-after": "120"})]
    running.loop.send_due()

    running.now_ns += 119 * SECOND_NS
    running.loop.send_due()
    assert 1 == len(hook.posts())

    running.now_ns += SECOND_NS
    running.loop.send_due()
    assert running.state()["sent"]


def test_an_old_alarm_is_given_up(tmp_path: Path, hook: Webhook, caplog: pytest.LogCaptureFixture) -> None:
    run = Running(tmp_path / "t.duckdb", hook.url, give_up_s=60)
    hook.answers = [(404, {})] * 3
    with run.engine:
        run.raise_alarm()
        for _ in range(5):
            run.loop.send_due()
            run.now_ns += 60 * SECOND_NS

        assert {"attempts": 2, "sent": False, "again": False} == run.state()
    assert "no further attempt is made" in caplog.text


def test_a_redirect_is_not_followed(running: Running, hook: Webhook) -> None:
    hook.answers = [(302, {"location": "/elsewhere"})]

    running.loop.send_due()

    assert ["/hook/T0-secret-path"] == [post.path for post in hook.posts()]
    assert running.state()["again"]


def test_a_failure_does_not_print_the_url(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with webhook() as closed:
        url = closed.url
    run = Running(tmp_path / "t.duckdb", url)
    with run.engine, caplog.at_level(logging.WARNING):
        run.raise_alarm()
        run.loop.send_due()

    assert "alarm a-1 was not sent to on-call: " in caplog.text
    assert "next attempt in 30 s" in caplog.text
    assert "T0-secret-path" not in caplog.text


def test_a_target_gets_the_alarms_of_its_agents_only() -> None:
    targets = [
        {"name": name, "kind": "slack", "url": "https://example.com", "agent": agent}
        for name, agent in (("all", "*"), ("trips", "trip-*"), ("others", "shop-*"))
    ]
    settings = NotifySettings.model_validate({"targets": targets})

    assert ["all", "trips"] == settings.receivers("trip-planner")
    assert ["all"] == settings.receivers(None)
