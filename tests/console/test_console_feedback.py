"""Feedback of end users: recorded on the turn that it is about, visible, and never an outcome."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.console.conftest import RunningConsole, serving
from tests.console.test_console_pages import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_ID = "lyon-family-1.1.0-3"


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory, demo_file: Path) -> Iterator[RunningConsole]:
    """Serve a store with tokens of each role."""
    db = tmp_path_factory.mktemp("feedback") / "demo.duckdb"
    shutil.copy(demo_file, db)
    tokens = {"token": "root-token", "query_token": "reader", "review_token": "judge", "feedback_token": "app"}
    yield from serving(db, admin=tokens, redaction={"personal": ["email"]})


def send(console: RunningConsole, body: dict[str, Any], role: str = "app") -> httpx.Response:
    """Send feedback."""
    return httpx.post(f"{console.url}/v1/feedback", json=body, headers={"authorization": f"Bearer {role}"})


def test_feedback_on_a_trace_is_on_its_turn_and_sets_no_outcome(console: RunningConsole) -> None:
    with console.session() as session:
        details = session.get("/conversation.json", params={"id": _ID}).json()
        trace = details["conversation"]["turns"][1]["trace_id"]
        answer = send(
            console, {"trace_id": trace, "verdict": "pass", "note": "great, mail me at bo@example.com", "user": "u-17"}
        )
        page = session.get("/conversation", params={"id": _ID})
        after = session.get("/conversation.json", params={"id": _ID}).json()

        assert (answer.status_code, answer.json()["turn"]) == (200, 2)
        assert "u-17 end user, never sets an outcome" in text_of(page).replace("userend", "user end").replace(
            "17end", "17 end"
        )
        assert "great, mail me at [redacted:email:" in text_of(page)
        assert after["score"] == details["score"]
        labelled = session.get("/conversations.json?labelled=yes").json()["rows"]
        assert _ID not in {row["conversation_id"] for row in labelled}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"verdict": "pass"}, "give one of conversation_id, trace_id and response_id"),
        ({"conversation_id": _ID, "trace_id": "0" * 32, "verdict": "pass"}, "give one of"),
        ({"conversation_id": _ID}, "give a verdict"),
        ({"conversation_id": _ID, "verdict": "great"}, "verdict"),
        ({"trace_id": "0" * 32, "value": 1}, "belongs to 0 turns in the store"),
        ({"conversation_id": "unknown", "value": 1}, "not in the store"),
    ],
)
def test_invalid_feedback_is_explained(console: RunningConsole, body: dict[str, Any], reason: str) -> None:
    answer = send(console, body)

    assert answer.status_code == 400
    assert reason in answer.json()["message"]


def test_a_token_of_a_role_does_only_what_its_role_may(console: RunningConsole) -> None:
    body = {"conversation_id": _ID, "value": 4.0}
    commands = {
        "report": {},
        "label": {"conversation_id": "lyon-family-1.0.0-1", "annotator": "x", "verdict": "unsure"},
        "evaluate": {},
    }
    status: dict[str, list[int]] = {}
    for token in ("app", "reader", "judge", "root-token"):
        headers = {"authorization": f"Bearer {token}"}
        answers = [
            httpx.post(f"{console.url}/v1/commands/{name}", json=value, headers=headers)
            for name, value in commands.items()
        ]
        status[token] = [send(console, body, token).status_code, *(answer.status_code for answer in answers)]

    assert status == {
        "app": [200, 403, 403, 403],
        "reader": [403, 200, 403, 403],
        "judge": [403, 200, 200, 403],
        "root-token": [200, 200, 200, 200],
    }
