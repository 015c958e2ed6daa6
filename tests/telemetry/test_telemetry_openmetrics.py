from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from otel_agentic.config import EmitSettings
from otel_agentic.errors import BadInputError
from otel_agentic.telemetry import OpenMetricsHistory, names
from otel_agentic.telemetry.history import _label_set
from otel_agentic.telemetry.names import family_name
from otel_agentic.windows.model import GroupKey, WindowPoint
from tests.snapshots import raises
from tests.telemetry.builders import NOON_NS, SECOND_NS, agents, window_point
from tests.telemetry.openmetrics import at_s, families

if TYPE_CHECKING:
    from prometheus_client import Metric

    from tests.telemetry.conftest import MakeTelemetry

HOUR_NS = 3600 * SECOND_NS


def ends(count: int) -> list[int]:
    return [NOON_NS + step * HOUR_NS for step in range(count)]


def written(path: Path, *parts: Iterable[WindowPoint], emit: EmitSettings | None = None) -> list[Metric]:
    history = OpenMetricsHistory(path, emit or EmitSettings())
    for part in parts:
        history.send(part)
    return families(history.finish().read_text())


def test_what_was_computed_range_by_range_stands_family_by_family(tmp_path: Path) -> None:
    parts = [[window_point(key=key, end_ns=end_ns) for key in agents(2)] for end_ns in ends(3)]
    written_families = written(tmp_path / "past.om", *parts)
    assert [family.name for family in written_families] == [
        family_name(instrument) for instrument in names.WINDOW_INSTRUMENTS
    ]
    (success,) = [family for family in written_families if family.name == "agentic_success_ratio"]
    points = [(sample.labels["gen_ai_agent_name"], at_s(sample), sample.value) for sample in success.samples]
    assert points == [(key.agent, end_ns / SECOND_NS, 0.9) for key in agents(2) for end_ns in ends(3)]


def test_series_have_the_labels_of_a_scrape(tmp_path: Path, make_telemetry: MakeTelemetry) -> None:
    telemetry = make_telemetry()
    telemetry.set_windows([window_point()])
    _, text = telemetry.render("application/openmetrics-text;version=1.0.0")
    windows = {family_name(instrument) for instrument in names.WINDOW_INSTRUMENTS}

    def series(written_families: Iterable[Metric]) -> set[tuple[str, str, tuple[tuple[str, str], ...], float]]:
        return {
            (family.type, sample.name, tuple(sorted(sample.labels.items())), sample.value)
            for family in written_families
            if family.name in windows
            for sample in family.samples
        }

    live = series(families(text.decode()))
    assert series(written(tmp_path / "past.om", [window_point()])) == live


def test_points_that_could_not_be_stored_can_be_sent_again(tmp_path: Path) -> None:
    history = OpenMetricsHistory(tmp_path / "past.om", EmitSettings())
    with sqlite3.connect(tmp_path / "past.om.parts") as full:
        full.execute("CREATE TRIGGER full BEFORE INSERT ON samples BEGIN SELECT RAISE(ABORT, 'full'); END")
    with pytest.raises(sqlite3.IntegrityError, match="full"):
        history.send([window_point()])
    with full:
        full.execute("DROP TRIGGER full")
    full.close()
    history.send([window_point()])
    assert families(history.finish().read_text()) == written(tmp_path / "once.om", [window_point()])


def test_adding_twice_is_adding_once_and_a_restatement_replaces(tmp_path: Path) -> None:
    first, again = [window_point(c=1)], [window_point(c=1), window_point("24h")]
    once = written(tmp_path / "once.om", again)
    assert written(tmp_path / "twice.om", first, again, again) == once
    (restated,) = [
        sample.value
        for family in written(tmp_path / "restated.om", first, [window_point(c=7)])
        for sample in family.samples
        if sample.labels.get("agentic_outcome") == "pass"
    ]
    assert restated == 7


def test_a_kill_in_between_loses_nothing_that_was_added(tmp_path: Path) -> None:
    path = tmp_path / "past.om"
    killed = OpenMetricsHistory(path, EmitSettings())
    killed.send([window_point(end_ns=ends(2)[0])])
    killed.close()
    assert not path.exists()
    written_families = written(path, [window_point(end_ns=ends(2)[1])])
    (coverage,) = [family for family in written_families if family.name == "agentic_coverage_ratio"]
    assert [at_s(sample) for sample in coverage.samples] == [end_ns / SECOND_NS for end_ns in ends(2)]
    assert list(tmp_path.iterdir()) == [path]


def test_add_says_how_many_values_there_are(tmp_path: Path) -> None:
    history = OpenMetricsHistory(tmp_path / "past.om", EmitSettings())
    count = history.send([window_point()])
    text = history.finish().read_text()
    assert count == len([line for line in text.splitlines() if not line.startswith("#")])


def test_own_labels_stand_on_every_series(tmp_path: Path) -> None:
    history = OpenMetricsHistory(tmp_path / "past.om", EmitSettings(), labels={"job": "otel-agentic"})
    history.send([window_point()])
    written_families = families(history.finish().read_text())
    assert {sample.labels["job"] for family in written_families for sample in family.samples} == {"otel-agentic"}


def test_nothing_is_an_empty_file_that_readers_accept(tmp_path: Path) -> None:
    assert written(tmp_path / "past.om") == []
    assert (tmp_path / "past.om").read_text() == "# EOF\n"


def test_the_cap_on_groups_holds_at_each_end(tmp_path: Path) -> None:
    points = [window_point(key=key) for key in agents(5)]
    written_families = written(tmp_path / "past.om", points, emit=EmitSettings(max_groups=2))
    agents_shown = {sample.labels["gen_ai_agent_name"] for family in written_families for sample in family.samples}
    assert len(agents_shown) == 2


def test_a_scratch_file_that_is_something_else_is_named(tmp_path: Path) -> None:
    (tmp_path / "past.om.parts").write_text("this is no database in spite of its name")
    with raises(
        BadInputError,
        snapshot(
            "<tmp_path>/past.om.parts: cannot be used as the scratch file of past.om: file is not a database; remove it, or choose another path"
        ),
        tmp_path=tmp_path,
    ):
        OpenMetricsHistory(tmp_path / "past.om", EmitSettings())
    with pytest.raises(BadInputError, match=r"nowhere.past\.om\.parts"):
        OpenMetricsHistory(tmp_path / "nowhere" / "past.om", EmitSettings())


def test_a_hostile_name_stays_one_label(tmp_path: Path) -> None:
    hostile = 'a"} 1 2\n# EOF\n\\n\\" \ud800 \u2028 {x="y"}'
    written_families = written(tmp_path / "past.om", [window_point(key=GroupKey(agent=hostile))])
    names_found = {sample.labels["gen_ai_agent_name"] for family in written_families for sample in family.samples}
    assert names_found == {hostile.replace("\ud800", "?")}


@given(st.text(st.characters(codec="utf-8")))
def test_any_text_survives_as_a_label(text: str) -> None:
    line = f"# TYPE a gauge\na{_label_set({'name': text})} 1.0 5\n# EOF\n"
    ((sample,),) = (family.samples for family in families(line))
    assert sample.labels == {"name": text}
