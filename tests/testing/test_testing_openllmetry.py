"""What `speak_openllmetry` writes is what OpenLLMetry writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_args

import pytest

from otel_agentic.testing import AgentRunScript, OpenLLMetryForm, scripted_call, speak_openllmetry
from tests.testing.likeness import RUN, nesting, recorded, statuses, strange_keys

if TYPE_CHECKING:
    from otel_agentic.spans import Span

FORMS: Final[tuple[OpenLLMetryForm, ...]] = get_args(OpenLLMetryForm)


def kind_of(span: Span) -> str:
    return span.name.rpartition(".")[2]


@pytest.mark.parametrize("form", FORMS)
def test_the_spans_are_like_those_of_the_decorators(form: OpenLLMetryForm, shared_dir: Path) -> None:
    spoken = speak_openllmetry(RUN, form).spans
    real = recorded(shared_dir, f"openllmetry-decorators-{form}")

    assert set() == strange_keys(spoken, real, kind_of)
    assert nesting(real, kind_of) == nesting(spoken, kind_of)
    assert statuses(real, kind_of) == statuses(spoken, kind_of)
    assert {result.scope.name for result in real} == {result.scope.name for result in spoken}


@pytest.mark.parametrize("form", FORMS)
def test_functions_record_their_arguments_and_what_they_return_as_ascii_json(form: OpenLLMetryForm) -> None:
    tools = [span for span in speak_openllmetry(RUN, form).spans if span.name == "weather.tool"]
    root = speak_openllmetry(RUN, form).spans[0]

    assert {"args": [], "kwargs": {"city": "Zürich"}} == json.loads(tools[0].attributes["traceloop.entity.input"])
    assert '"18 \\u00b0C"' == tools[0].attributes["traceloop.entity.output"]
    assert "Wohin?" == json.loads(root.attributes["traceloop.entity.input"])["args"][0]


def test_a_sub_agent_without_an_id_has_that_of_its_caller() -> None:
    helper = AgentRunScript(agent_name="helper", conversation_id=None).ask("Book").answers("B-1")
    script = AgentRunScript(conversation_id="c").ask("Wohin?").calls(scripted_call("ask", agent=helper)).answers("Rom.")

    named = {span.attributes.get("gen_ai.conversation.id") for span in speak_openllmetry(script).spans}

    assert {"c"} == named
