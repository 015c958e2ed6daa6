"""Reports and windows by slice."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot

from otel_agentic.commands import Commands
from otel_agentic.errors import UsageError
from otel_agentic.store.queries.scored_conversations import scored_conversations
from otel_agentic.store.results import results_for
from otel_agentic.store.table import Selection
from otel_agentic.windows import parse_windows, results_of, roll
from tests.builders import CASES, HOURLY, feed, hotel_conversation, rows, run_backfill
from tests.snapshots import raises

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine
    from otel_agentic.spans.model import SpanBatch
    from tests.stores import OpenEngine

#: Whether a conversation is right, and its attributes.
TALKS = [
    (True, {"user.id": "u-1", "user.locale": "de", "app.tenant": "acme"}),
    (False, {"user.id": "u-1", "user.locale": "de", "app.tenant": "acme"}),
    (True, {"user.id": "u-2", "user.locale": "fr"}),
    (True, {"user.id": "u-3"}),
]


def spoken(number: int, *, right: bool, attributes: dict[str, str]) -> SpanBatch:
    batch = hotel_conversation(number, right=right)
    return replace(
        batch, spans=tuple(replace(span, attributes={**span.attributes, **attributes}) for span in batch.spans)
    )


@pytest.fixture
def engine(open_engine: OpenEngine) -> Engine:
    """A store with the conversations above, scored."""
    opened = open_engine(
        conversations={"slices": {"tenant": ["app.tenant"]}},
        windows={"widths": ["24h"], "tags": ["locale=*", "tenant=*", "user=*", "*"]},
    )
    feed(
        opened,
        *(spoken(number, right=right, attributes=attributes) for number, (right, attributes) in enumerate(TALKS)),
    )
    Commands(opened).call("truth_import", {"cases": CASES})
    Commands(opened).call("evaluate", {})
    return opened


def groups(engine: Engine, *by: str) -> dict[str | None, tuple[int, int]]:
    """Return n and c of each group by its tag."""
    report = Commands(engine).call("report", {"by": list(by), "k": [1]})
    return {group["tag"]: (group["n"], group["c"]) for group in report["groups"]}


def test_a_report_groups_by_slice_and_a_conversation_without_one_is_in_no_group(engine: Engine) -> None:
    assert {"locale=de": (2, 1), "locale=fr": (1, 1)} == groups(engine, "locale")
    assert {"user=u-1": (2, 1), "user=u-2": (1, 1), "user=u-3": (1, 1)} == groups(engine, "user")
    assert {"tenant=acme": (2, 1)} == groups(engine, "tenant")
    assert {"locale=de": (2, 1), "locale=fr": (1, 1), "tenant=acme": (2, 1)} == groups(engine, "locale", "tenant")
    assert {None: (4, 3)} == groups(engine)


def test_an_unknown_slice_is_refused_with_those_that_exist(engine: Engine) -> None:
    with raises(
        UsageError,
        snapshot(
            "cannot group by 'colour'; allowed: agent, version, environment, service, tag, case, tool, user, locale, tier, prompt, prompt_version, model, flag, tenant"
        ),
    ):
        groups(engine, "colour")


def test_slices_have_windows_if_a_pattern_with_an_equals_sign_selects_them_but_users_never(engine: Engine) -> None:
    run_backfill(engine, **{**HOURLY, "windows": ["24h"]})

    stored = rows(engine, "SELECT DISTINCT tag FROM windows WHERE tag IS NOT NULL ORDER BY ALL")
    assert [("locale=de",), ("locale=fr",), ("tenant=acme",)] == stored


def test_windows_of_rows_in_memory_are_those_of_the_store(engine: Engine) -> None:
    tags = engine.settings.windows.tags
    windows = parse_windows(["24h"])
    with engine.store.read() as con:
        scored = scored_conversations(con, Selection(), ("locale", "tenant", "user"))
        ends = [max(row.ended_ns for row in scored)]
        stored = results_for(con, windows, ends, tags)

    def counts(results: Any) -> list[tuple[str | None, int, int]]:
        table = roll(
            results, ["24h"], ends, estimators=engine.estimators("bayesian"), settings=engine.settings.stats, k=(1,)
        )
        return [(point.summary.key.tag, point.summary.n, point.summary.c) for point in table.points()]

    assert counts(results_of(scored, tags)) == counts(stored)
    assert 4 == len(counts(stored))
