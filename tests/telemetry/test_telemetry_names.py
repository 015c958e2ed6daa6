from __future__ import annotations

import importlib
import subprocess
import sys

from opentelemetry.semconv._incubating.attributes import gen_ai_attributes

import otel_agentic.telemetry as room
from otel_agentic.telemetry import names


def _constants() -> dict[str, str]:
    return {name: value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)}


def _loaded_by(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


def test_importing_the_names_imports_no_sdk() -> None:
    loaded = _loaded_by("import otel_agentic.telemetry.names")
    assert {name for name in loaded if name.split(".")[0] in {"opentelemetry", "grpc", "requests"}} == set()


def test_the_public_names_are_sorted_and_all_there() -> None:
    assert sorted(room.__all__) == room.__all__
    assert [name for name in room.__all__ if not hasattr(room, name)] == []


def test_each_name_is_written_once() -> None:
    values = list(_constants().values())
    assert sorted(set(values)) == sorted(values)
    metrics = [instrument.name for instrument in names.INSTRUMENTS]
    assert sorted(set(metrics)) == sorted(metrics)


def test_own_metrics_stay_out_of_the_namespaces_of_opentelemetry() -> None:
    assert {instrument.name.split(".")[0] for instrument in names.INSTRUMENTS} == {"agentic"}


def test_standard_genai_names_are_those_of_the_semantic_conventions() -> None:
    standard = {name: value for name, value in _constants().items() if name.startswith("GEN_AI_")}
    assert {name: getattr(gen_ai_attributes, name) for name in standard} == standard


def test_ratios_are_gauges_of_unit_one() -> None:
    ratios = [instrument for instrument in names.INSTRUMENTS if instrument.name.endswith(".ratio")]
    assert {(instrument.kind, instrument.unit) for instrument in ratios} == {("observable_gauge", "1")}


def test_an_unknown_name_of_the_room_is_an_attribute_error() -> None:
    module = importlib.import_module("otel_agentic.telemetry")
    assert not hasattr(module, "nonsense")
