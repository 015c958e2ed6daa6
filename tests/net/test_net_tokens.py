from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from pydantic import SecretStr

from otel_agentic.errors import ConfigError
from otel_agentic.net import Credentials, ReloadedFiles, Role, Tokens, read_tokens
from tests.snapshots import passage

ROLES = Credentials(
    {
        "ingest": Tokens("receive.token", SecretStr("in-3f1c")),
        "query": Tokens("admin.query_token", SecretStr("ask-77aa")),
        "admin": Tokens("admin.token", SecretStr("all-9d0e")),
    }
)


def private(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("header", ["Bearer all-9d0e", "bearer all-9d0e", b"BEARER all-9d0e", "Bearer  all-9d0e "])
def test_a_token_has_its_role(header: str | bytes) -> None:
    assert "admin" == ROLES.role_of([header])
    assert "query" == ROLES.role_of(["Bearer ask-77aa"])
    assert "ingest" == ROLES.role_of([b"Bearer in-3f1c"])


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [""],
        ["Bearer "],
        ["Bearer all-9d0"],
        ["Bearer all-9d0e0"],
        ["Basic all-9d0e"],
        ["all-9d0e"],
        ["Bearer \udcff"],
        [b"Bearer \xff\x00"],
        ["Bearer all-9d0e", "Bearer all-9d0e"],
        ["Bearer all-9d0e, Bearer all-9d0e"],
        ["Bearer " + "a" * 100_000],
    ],
    ids=lambda headers: str(headers)[:30],
)
def test_anything_else_has_none(headers: list[str | bytes]) -> None:
    assert ROLES.role_of(headers) is None


def test_a_token_of_two_roles_has_the_stronger_one() -> None:
    both: dict[Role, Tokens] = {"admin": Tokens("a", SecretStr("same")), "ingest": Tokens("b", SecretStr("same"))}
    assert "admin" == Credentials(both).role_of(["Bearer same"])


def test_without_tokens_nothing_is_guarded() -> None:
    assert not Credentials({"ingest": Tokens("receive.token")}).guards("ingest")
    assert not ROLES.guards()
    assert ROLES.guards("ingest")


@pytest.mark.parametrize("token", ["", " ", "two words", "tab\there", "line\nbreak", "naïve", "x" * 5000])
def test_a_token_that_no_header_carries_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(ConfigError, match=r"receive\.token") as caught:
        Tokens("receive.token", SecretStr(token))
    assert "words" not in str(caught.value)
    assert "xxxxx" not in str(caught.value)


def test_a_file_holds_a_token_a_line_and_each_is_let_in(tmp_path: Path) -> None:
    file = private(tmp_path / "tokens", "old-1\r\n\n  new-2  \n")
    result = Credentials({"ingest": Tokens("receive.token", SecretStr("fixed-3"), file)})
    assert ["ingest"] * 3 == [result.role_of([f"Bearer {token}"]) for token in ("old-1", "new-2", "fixed-3")]
    assert result.role_of(["Bearer "]) is None
    assert ["old-1", "new-2"] == read_tokens(file, "receive.token_file")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "contains no token"),
        (b"\n \n", "contains no token"),
        (b"good\nbad one s3cret\n", "line 2: a token consists of"),
        (b"\xff\xfe", "is not text"),
        (b"a" * 70_000, "larger than"),
        (None, "No such file"),
    ],
)
def test_a_file_without_a_token_is_an_error_that_names_setting_and_file(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    file = tmp_path / "tokens"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=rf"receive\.token_file.*tokens.*{message}") as caught:
        Tokens("receive.token", None, file)
    assert "s3cret" not in str(caught.value)


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_file_that_everybody_reads_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        Tokens("receive.token", None, private(tmp_path / "own", "s3cret"))
        assert "" == caplog.text
        file = private(tmp_path / "open", "s3cret")
        file.chmod(0o644)
        Tokens("receive.token", None, file)
    assert passage(caplog.text, file=file) == snapshot("receive.token_file: every user of this machine can read <file>")
    assert "s3cret" not in caplog.text


def test_a_changed_file_is_read_again_and_a_broken_one_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    now_s = 0.0
    file = private(tmp_path / "tokens", "old")
    watched = ReloadedFiles([file], lambda: read_tokens(file, "receive.token_file"), clock=lambda: now_s)
    private(file, "renewed")
    assert ["old"] == watched.get()  # looked at a moment ago
    now_s = 1.5
    assert ["renewed"] == watched.get()
    private(file, "")
    now_s = 3.0
    assert ["renewed"] == watched.get()
    assert "contains no token" in caplog.text
    file.unlink()
    now_s = 4.5
    assert ["renewed"] == watched.get()
    assert "No such file" in caplog.text


def test_tokens_are_in_no_text_about_them() -> None:
    tokens = Tokens("receive.token", SecretStr("s3cret-abc"))
    assert "s3cret" not in f"{tokens!r} {vars(tokens)!r} {ROLES!r} {vars(ROLES)!r}"
