"""What the pictures of a report are drawn from: the same numbers as the report, the windows as stored, tools as the views have them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from otel_agentic.commands import Commands
from otel_agentic.engine.engine import Engine
from otel_agentic.errors import PluginError, UsageError
from otel_agentic.reports.charts import choose_kind
from otel_agentic.store.queries.conversations import WindowKind
from tests.cli.hotel import build_hotel
from tests.cli.pictured import HOUR_NS, store_windows, window
from tests.cli.small import NOON_NS, SECOND_NS
from tests.stores import settings_for

_DAY: Final = WindowKind(window="24h", estimator="bayesian", k=3)


@pytest.fixture(scope="module")
def hotel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """Commands on a store with windows: of two versions of the clerk, of two widths, of a tag, and of another agent."""
    db = build_hotel(tmp_path_factory.mktemp("hotel"))
    rows = [window(hour, 0.5, n=30) for hour in (0, 1, 2)]
    rows += [window(hour, 0.6, agent_version="2.0", n=50, revision=hour) for hour in (1, 2)]
    rows += [window(0, 0.7, window=width, estimator="per_case", k=5) for width in ("1h", "7d", "n200")]
    rows += [window(0, 0.8, tag="vip"), window(0, 0.9, agent="porter", environment="", n=5)]
    store_windows(db, rows)
    with Engine(settings_for(db)) as engine:
        yield Commands(engine)


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Commands]:
    """Commands on a store without anything."""
    with Engine(settings_for(tmp_path / "t.duckdb"), create=True) as engine:
        yield Commands(engine)


def _subjects(result: dict[str, Any]) -> list[tuple[str, str, int]]:
    return [(row["agent"], row["agent_version"], len(row["end_ns"])) for row in result["history"]["rows"]]


def _pooled(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["default_estimator"] != "per_case"]


@pytest.mark.parametrize(
    "requested",
    [
        {"by": ["version"]},
        {"estimator": "plugin", "k": [2, 4]},
        *(
            pytest.param(arguments, marks=pytest.mark.slow)
            for arguments in ({}, {"window": "24h"}, {"interval": "bootstrap"})
        ),
    ],
)
def test_curves_go_through_the_numbers_of_the_report(hotel: Commands, requested: dict[str, Any]) -> None:
    rows = hotel.report_pictures(**requested)["curves"]["rows"]
    groups = [group for group in hotel.report(**requested)["groups"] if group["n"]]

    assert [group["agent_version"] for group in groups] == [row["agent_version"] for row in _pooled(rows)]
    for row in rows:
        (group,) = (item for item in groups if item["agent_version"] == row["agent_version"])
        (reported,) = (
            item for item in (group["pooled"], group["per_case"]) if item["estimator"] == row["default_estimator"]
        )
        assert (group["n"], group["tier"]) == (row["n"], row["tier"])
        for kind in ("pass_at_k", "pass_pow_k"):
            drawn = row["estimates"][row["default_estimator"]][kind]
            assert reported[kind] == {k: drawn[k] for k in reported[kind]}
            assert [str(k) for k in range(1, 9)] == list(drawn)


def test_a_comparison_is_drawn_as_the_two_groups_it_is_about(hotel: Commands) -> None:
    drawn = hotel.report_pictures(compare="version=1.9,1.10")["curves"]["rows"]
    groups = hotel.report(compare="version=1.9,1.10")["groups"]

    assert {"1.9", "1.10"} == {group["agent_version"] for group in groups}
    assert [group["agent_version"] for group in groups] == [row["agent_version"] for row in _pooled(drawn)]


def test_the_groups_with_the_most_conversations_are_drawn(hotel: Commands) -> None:
    charts = hotel.report_pictures(by=["version"], panels=1)

    assert [("1.10", 4, "bayesian"), ("1.10", 4, "per_case")] == [
        (row["agent_version"], row["n"], row["default_estimator"]) for row in charts["curves"]["rows"]
    ]
    assert 2 == charts["curves"]["left_out"]
    assert ([("clerk", "2.0", 2)], 2) == (_subjects(charts), charts["history"]["left_out"])


def test_windows_come_as_they_are_stored_by_group(hotel: Commands) -> None:
    history = hotel.report_pictures()["history"]

    assert ("24h", 3, "bayesian", 0.95) == tuple(history[name] for name in ("window", "k", "estimator", "level"))
    assert 24 * HOUR_NS == history["width_ns"]
    assert ["1h", "24h", "7d", "n200"] == history["widths"]
    assert [("clerk", "1.0", 3), ("clerk", "2.0", 2), ("porter", "1.0", 1)] == _subjects({"history": history})
    first, _, last = history["rows"]
    assert [NOON_NS + hour * HOUR_NS for hour in (0, 1, 2)] == first["end_ns"]
    assert [0.5] * 3 == first["pass_pow_k"]
    assert last["environment"] == ""


def test_windows_of_tags_are_drawn_where_tags_are_asked_for(hotel: Commands) -> None:
    (row,) = hotel.report_pictures(by=["tag"])["history"]["rows"]

    assert ("vip", [0.8]) == (row["tag"], row["pass_pow_k"])


@pytest.mark.parametrize(("requested", "drawn"), [("1h", HOUR_NS), ("n200", None)])
def test_the_window_that_is_asked_for_is_drawn(hotel: Commands, requested: str, drawn: int | None) -> None:
    history = hotel.report_pictures(window=requested)["history"]

    assert (requested, drawn, "per_case", 5) == (
        history["window"],
        history["width_ns"],
        history["estimator"],
        history["k"],
    )


def test_a_selection_bounds_the_ends_of_windows(hotel: Commands) -> None:
    noon = NOON_NS

    assert [("clerk", "1.0", 1), ("clerk", "2.0", 1)] == _subjects(
        hotel.report_pictures(since_ns=noon, until_ns=noon + HOUR_NS)
    )
    assert [("porter", "1.0", 1)] == _subjects(hotel.report_pictures(agent="port*"))
    assert hotel.report_pictures(agent="nobody")["history"] is None


def test_only_a_window_that_was_final_is_restated(tmp_path: Path) -> None:
    late = 3600 + 300 + 1
    rows = [
        window(0, 0.5, revision=5, computed_at=NOON_NS + SECOND_NS),
        window(1, 0.5, revision=2, computed_at=NOON_NS + HOUR_NS + late * SECOND_NS),
        window(2, 0.5, revision=1, computed_at=NOON_NS + 100 * HOUR_NS),
    ]
    db = tmp_path / "t.duckdb"
    Engine(settings_for(db), create=True).close()
    with Engine(settings_for(store_windows(db, rows))) as engine:
        (row,) = Commands(engine).report_pictures()["history"]["rows"]

    assert [False, True, False] == row["restated"]


def test_tools_have_the_scores_of_the_view(hotel: Commands) -> None:
    result = {row["tool"]: row for row in hotel.report_pictures()["tools"]["rows"]}
    sql = """
    SELECT tool, sum(selection * (expected + unexpected)) / nullif(sum(expected + unexpected), 0), min(utilization)
    FROM v_tool_health GROUP BY tool ORDER BY tool
    """
    expected = {row[0]: row[1:] for row in hotel.query(sql=sql)["rows"]}

    assert {"book", "drop"} == result.keys()
    for tool, row in result.items():
        assert expected[tool] == [pytest.approx(row["selection"]), row["utilization"]]
    assert (3, 1.0) == (result["book"]["parameters_faults"], result["book"]["utilization"])
    assert result["drop"]["parameters"] is None


def test_a_window_bounds_the_tools_too(hotel: Commands) -> None:
    charts = hotel.report_pictures(window="24h")

    assert [("book", 1, 1)] == [(row["tool"], row["conversations"], row["errored"]) for row in charts["tools"]["rows"]]
    assert {"errored"} == {row["fault"] for row in charts["failing"]["rows"]}


def test_what_crosses_the_wire_is_what_was_there(hotel: Commands) -> None:
    here = hotel.call("report_pictures", {"by": ["version"]})

    assert here == orjson.loads(orjson.dumps(here))


def test_a_store_without_anything_has_nothing_to_draw(empty: Commands) -> None:
    charts = empty.report_pictures()

    assert [[], [], []] == [charts[name]["rows"] for name in ("curves", "tools", "failing")]
    assert charts["history"] is None
    assert (None, None) == (charts["first_ns"], charts["last_ns"])


def test_invalid_arguments_are_refused(hotel: Commands) -> None:
    with pytest.raises(UsageError, match="k=0"):
        hotel.report_pictures(k=[0])
    with pytest.raises(PluginError, match="nonsense"):
        hotel.report_pictures(estimator="nonsense")
    with pytest.raises(UsageError, match="argument panels"):
        hotel.call("report_pictures", {"panels": 0})


def _kinds(*result: tuple[str, str, int]) -> Sequence[WindowKind]:
    return [WindowKind(window=window, estimator=estimator, k=k) for window, estimator, k in result]


def test_the_usual_windows_are_drawn_unless_others_are_asked_for_or_most() -> None:
    stored = _kinds(("24h", "bayesian", 1), ("24h", "bayesian", 3), ("24h", "per_case", 3), ("7d", "bayesian", 3))
    kinds = dict.fromkeys(stored, 10)

    assert _DAY == choose_kind(kinds, window=None, k=[1, 3, 5], estimator="bayesian")
    assert "7d" == choose_kind(kinds, window="7d", k=[1, 3, 5], estimator="bayesian").window  # type: ignore[union-attr]
    assert 1 == choose_kind(kinds, window=None, k=[1], estimator="bayesian").k  # type: ignore[union-attr]
    assert choose_kind({}, window=None, k=[1], estimator="bayesian") is None
    lone = {kind: index for index, kind in enumerate(_kinds(("1h", "plugin", 2), ("6h", "plugin", 2)))}
    assert "6h" == choose_kind(lone, window=None, k=[1], estimator="bayesian").window  # type: ignore[union-attr]
