"""Flags about scoring are rejected if a running collector would ignore them."""

from __future__ import annotations

from typing import Any

import pytest

from otel_agentic.cli.options import require_own_file
from otel_agentic.commands import RemoteClient
from otel_agentic.errors import UsageError

_RUNNING = "a running collector holds the store and scores with its own settings"


@pytest.mark.parametrize(
    ("scoring", "flags", "message"),
    [
        ({"judge": "exact"}, "--judge exact", "start it with `otel-agentic serve --judge exact`"),
        (
            {"match-text": "off", "compat": "ragas"},
            "--match-text off --compat ragas",
            "set matching.text, scoring.compat in its settings and restart it",
        ),
    ],
    ids=["judge", "settings"],
)
def test_a_flag_that_would_be_ignored_is_refused_with_what_to_do(
    scoring: dict[str, Any], flags: str, message: str
) -> None:
    client = RemoteClient("http://127.0.0.1:1", None)
    with pytest.raises(UsageError) as refused:
        require_own_file(client, "evaluate", scoring)
    client.close()

    assert f"evaluate {flags}: {_RUNNING}; {message}" == str(refused.value)


def test_without_such_a_flag_any_collector_will_do() -> None:
    client = RemoteClient("http://127.0.0.1:1", None)
    require_own_file(client, "evaluate", {})
    client.close()
