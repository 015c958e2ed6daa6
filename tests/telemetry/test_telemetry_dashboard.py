from __future__ import annotations

import re
from itertools import combinations
from typing import Any

import pytest

from otel_agentic.telemetry import names
from tests.telemetry.dashboards import VALUES, dashboard, filled, panels, targets
from tests.telemetry.test_telemetry_alerts import LABELS, SERIES, words

#: Labels of Prometheus itself.
OTHER_LABELS = {"le"}


def variables() -> list[dict[str, Any]]:
    return list(dashboard()["templating"]["list"])


def test_queries_ask_for_emitted_names_only() -> None:
    for title, target in targets():
        ours = {term for term in words(target["expr"]) if term.startswith(("agentic", "gen_ai", "deployment"))}
        assert (title, ours - SERIES - LABELS) == (title, set())
        assert (title, bool(ours & SERIES)) == (title, True)


def test_legends_name_labels_that_are_there() -> None:
    for title, target in targets():
        used = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
        assert (title, used - LABELS - OTHER_LABELS) == (title, set())


def test_every_metric_of_the_table_is_shown_somewhere() -> None:
    displayed = {term for _, target in targets() for term in words(target["expr"])}
    family = {
        instrument.name: [name for name in SERIES if name.startswith(instrument.name.replace(".", "_"))]
        for instrument in names.INSTRUMENTS
    }
    assert {name for name, series in family.items() if not displayed & set(series)} == set()


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    ids = [panel["id"] for panel in panels()]
    assert sorted(set(ids)) == sorted(ids)
    for first, other in combinations([panel["gridPos"] for panel in panels()], 2):
        apart_x = first["x"] + first["w"] <= other["x"] or other["x"] + other["w"] <= first["x"]
        apart_y = first["y"] + first["h"] <= other["y"] or other["y"] + other["h"] <= first["y"]
        assert apart_x or apart_y, (first, other)
    assert max(panel["gridPos"]["x"] + panel["gridPos"]["w"] for panel in panels()) == 24


def test_queries_of_one_panel_have_names_of_their_own() -> None:
    for panel in panels():
        names_of = [target["refId"] for target in panel.get("targets", ())]
        assert sorted(set(names_of)) == sorted(names_of)
        assert panel["type"] == "row" or names_of


def test_everything_asks_the_data_source_that_the_reader_chooses() -> None:
    (source,) = [variable for variable in variables() if variable["type"] == "datasource"]
    assert (source["name"], source["query"]) == ("datasource", "prometheus")
    sources = [target["datasource"] for _, target in targets()]
    sources += [panel["datasource"] for panel in panels() if panel["type"] != "row"]
    sources += [variable["datasource"] for variable in variables() if variable["type"] == "query"]
    assert sources == [{"type": "prometheus", "uid": "${datasource}"}] * len(sources)


def test_every_variable_that_is_used_is_there() -> None:
    declared = {f"${variable['name']}" for variable in variables()} | {"$__rate_interval", "$__range"}
    used = {term for _, target in targets() for term in re.findall(r"\$\w+", target["expr"])}
    used |= {term for variable in variables() for term in re.findall(r"\$\w+", str(variable.get("definition", "")))}
    assert used - declared == set()
    assert used <= set(VALUES)
    assert [expression for _, target in targets() if "$" in (expression := filled(target["expr"]))] == []


def test_lists_of_values_come_from_labels_that_are_there() -> None:
    for variable in variables():
        if variable["type"] == "query":
            (label,) = re.findall(r", (\w+)\)$", variable["definition"])
            assert label in LABELS
            assert variable["definition"] == variable["query"]["query"]


def test_it_imports_without_an_id_of_another_grafana() -> None:
    content = dashboard()
    assert (content["id"], content["uid"]) == (None, "otel-agentic")
    assert content["schemaVersion"] >= 39


@pytest.mark.parametrize("kind", ["timeseries", "heatmap", "bargauge", "state-timeline"])
def test_pictures_are_of_kinds_that_grafana_has_built_in(kind: str) -> None:
    assert kind in {panel["type"] for panel in panels()}
    assert {panel["type"] for panel in panels()} <= {"row", "timeseries", "heatmap", "bargauge", "state-timeline"}
