"""The frameworks table: every scope finds its framework, and every framework has its instructions."""

from __future__ import annotations

import pytest

from otel_agentic import plugins
from otel_agentic.dialects.frameworks import Framework, framework_of, frameworks


@pytest.mark.parametrize(
    ("scope", "dialect", "name"),
    [
        ("pydantic-ai", "pydantic-ai", "pydantic-ai"),
        ("pydantic-ai", "openinference", "openinference-pydantic-ai"),
        ("gcp.vertex.agent", "adk", "google-adk"),
        ("strands.telemetry.tracer", "genai", "strands"),
        ("agent_framework", "genai", "agent-framework"),
        ("semantic_kernel.functions.kernel_function", "semantic-kernel", "semantic-kernel"),
        ("autogen-core", "autogen", "autogen"),
        ("opentelemetry.instrumentation.openai_v2", "genai", "openai-v2"),
        ("opentelemetry.instrumentation.genai.openai", "genai", "genai-openai"),
        ("opentelemetry.instrumentation.genai.openai_agents", "genai", "genai-openai-agents"),
        ("opentelemetry.instrumentation.genai.langchain", "genai", "genai-langchain"),
        ("opentelemetry.util.genai.handler", "genai", "genai-util"),
        ("opentelemetry.instrumentation.openai_agents", "openai-agents", "openai-agents-v2"),
        ("opentelemetry.instrumentation.openai_agents", "openllmetry", "openllmetry"),
        ("opentelemetry.instrumentation.langchain", "openllmetry", "openllmetry"),
        ("openinference.instrumentation.smolagents", "openinference", "openinference-smolagents"),
        ("ai", "vercel", "vercel"),
        ("langsmith", "langsmith", "langsmith"),
        ("langfuse-sdk", "langfuse", "langfuse"),
        ("mlflow.tracing.provider", "mlflow", "mlflow"),
        ("logfire.openai_agents", "logfire", "logfire"),
        ("logfire.openai", "genai", "logfire"),
        ("shop-tracing", "genai", "genai"),
        ("shop-tracing", "openinference", "openinference"),
        ("shop-tracing", "openllmetry", "openllmetry"),
        ("shop-tracing", "adk", "google-adk"),
        ("shop-tracing", "generic", "unknown"),
        ("shop-tracing", "custom", "unknown"),
        (None, None, "unknown"),
    ],
)
def test_scope_and_dialect_tell_the_framework(scope: str | None, dialect: str | None, name: str) -> None:
    assert name == framework_of(scope, dialect).name


def test_every_framework_is_read_by_an_installed_dialect_and_every_dialect_has_a_framework() -> None:
    installed = {name for name, result in plugins.find("dialects").items() if result.distribution == "otel-agentic"}

    assert installed == {framework.dialect for framework in frameworks()}


def test_names_are_unique_and_fit_for_a_page() -> None:
    names = [framework.name for framework in frameworks()]

    assert len(names) == len(set(names))
    assert [] == [name for name in names if not all(part.isalnum() for part in name.split("-"))]


@pytest.mark.parametrize("framework", frameworks(), ids=lambda framework: framework.name)
def test_advice_goes_into_a_sentence(framework: Framework) -> None:
    for advice in (framework.content, framework.conversation_id):
        assert advice[0].islower()
        assert not advice.endswith(".")
        assert 0 == advice.count("`") % 2
