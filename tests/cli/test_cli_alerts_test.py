"""`otel-agentic alerts test`: targets are tested before an alarm needs them, and settings are checked and never printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from tests.cli.running import done, run
from tests.live.receivers import webhook


def settings(tmp_path: Path, *targets: dict[str, object]) -> Path:
    file = tmp_path / "otel-agentic.toml"
    tables = ["\n".join(f"{name} = {json.dumps(value)}" for name, value in target.items()) for target in targets]
    file.write_text("".join(f"[[notify.targets]]\n{table}\n" for table in tables))
    return file


def test_each_target_is_tested_and_a_failure_is_named(tmp_path: Path) -> None:
    with webhook() as hook, webhook() as broken:
        broken.answers = [(500, {})]
        file = settings(
            tmp_path,
            {"name": "on-call", "kind": "webhook", "url": hook.url, "secret": "s-1"},
            {"name": "chat", "kind": "slack", "url": broken.url},
        )
        ran = run("alerts", "test", "--config", file)
        alone = done("alerts", "test", "--config", file, "--target", "on-call")

        contents = [json.loads(post.body) for post in hook.posts()]
    assert (5, "sent to on-call\n") == (ran.code, ran.out)
    assert "not sent to chat: it answers 500" in ran.err
    assert "T0-secret-path" not in ran.out + ran.err
    assert "sent to on-call\n" == alone.out
    assert ["This is a test of otel-agentic: no objective is broken."] * 2 == [item["description"] for item in contents]


def test_a_target_that_does_not_exist_is_a_usage_error(tmp_path: Path) -> None:
    file = settings(tmp_path, {"name": "chat", "kind": "slack", "url": "https://example.com/T0-secret-path"})

    assert run("alerts", "test", "--config", file, "--target", "other").err == snapshot(
        "otel-agentic: no target 'other' in notify.targets; targets: 'chat'\n"
    )
    file.write_text("")
    assert run("alerts", "test", "--config", file).err == snapshot(
        "otel-agentic: no target in notify.targets; targets: none\n"
    )


def test_the_settings_print_no_secret(tmp_path: Path) -> None:
    file = settings(
        tmp_path,
        {"name": "on-call", "kind": "webhook", "url": "https://example.com/T0-secret-path", "secret": "secret-one"},
        {
            "name": "people",
            "kind": "email",
            "smtp": "mail.example.com:587",
            "user": "me",
            "password": "secret-two",
            "sender": "a@example.com",
            "recipients": ["b@example.com"],
        },
    )

    out = (
        done("config", "show", "--config", file, "--format", "json").out + done("config", "show", "--config", file).out
    )

    assert "on-call" in out
    assert "secret-" not in out


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ({"kind": "webhook"}, "target 'on-call' of kind webhook needs url"),
        (
            {"kind": "slack", "url": "ftp://secret-one.example.com"},
            "give an http or https URL without a user and a password",
        ),
        (
            {"kind": "webhook", "url": "https://me:secret-one@example.com"},
            "give an http or https URL without a user and a password",
        ),
        (
            {"kind": "webhook", "url": "https://example.com", "secret": "whsec_secret-one!"},
            "after whsec_, give a key in base64",
        ),
        (
            {"kind": "slack", "url": "https://example.com", "secret": "secret-one"},
            "target 'on-call' of kind slack has no secret",
        ),
        (
            {"kind": "email", "smtp": "mail", "sender": "a@b", "recipients": ["c@d"]},
            "target 'on-call': smtp must be host:port, such as mail.example.com:587",
        ),
        (
            {"kind": "email", "smtp": "mail:25", "sender": "a@b", "recipients": []},
            "target 'on-call' of kind email needs recipients",
        ),
        (
            {"kind": "email", "smtp": "m:25", "sender": "a@b", "recipients": ["c@d"], "user": "me"},
            "target 'on-call' needs both user and password, or neither",
        ),
        (
            {
                "kind": "email",
                "smtp": "m:25",
                "sender": "a@b",
                "recipients": ["c@d"],
                "user": "me",
                "password": "secret-one",
                "tls": "none",
            },
            "target 'on-call': a password is only sent with tls starttls or tls",
        ),
        ({"kind": "pager", "url": "https://example.com"}, "Input should be 'webhook', 'slack' or 'email'"),
    ],
)
def test_invalid_targets_are_explained(tmp_path: Path, target: dict[str, object], message: str) -> None:
    ran = run("config", "show", "--config", settings(tmp_path, {"name": "on-call", **target}))

    assert 2 == ran.code
    assert f"{message}, got" in ran.err
    assert "secret-one" not in ran.err


def test_two_targets_need_two_names(tmp_path: Path) -> None:
    target: dict[str, object] = {"name": "chat", "kind": "slack", "url": "https://example.com"}

    ran = run("config", "show", "--config", settings(tmp_path, target, target))

    assert "two targets are named 'chat'" in ran.err
