"""The `[dialects]` section: which dialect reads which scope, and a dialect of the user's own attribute names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from inline_snapshot import snapshot

from otel_agentic import plugins
from otel_agentic.config import DialectSettings, load_settings
from otel_agentic.dialects import AgentRun, Ignored, ModelCall, Reader, ToolCall
from otel_agentic.errors import ConfigError, codes_of
from otel_agentic.testing import span
from tests.dialects.reading import SETTINGS
from tests.snapshots import raises

if TYPE_CHECKING:
    from otel_agentic.spans.model import Span

_ACME: Final[dict[str, Any]] = {
    "scopes": ["acme.*"],
    "kind": ["acme.op"],
    "kinds": {"agent_loop": "agent", "completion": "model", "call": "tool", "beat": "ignore"},
    "conversation_id": ["acme.chat"],
    "query": ["acme.user_text"],
    "answer": "acme.reply~.text",
    "tool_name": ["acme.call~.tool"],
    "arguments": ["acme.call~.args"],
}


def reader(**section: Any) -> Reader:
    return Reader.from_settings(SETTINGS, DialectSettings(**section))


def acme(operation: str, scope: str = "acme.loop", **more: Any) -> Span:
    return span(scope=scope, attributes={"acme.op": operation, **{f"acme.{key}": value for key, value in more.items()}})


def test_a_table_of_the_settings_reads_the_spans_of_its_scopes() -> None:
    own = reader(custom=_ACME)

    run = own.read(acme("agent_loop", chat="c1", user_text="Which hotel?", reply='{"text": "The Ritz."}'))
    call = own.read(acme("call", call='{"tool": "search", "args": {"q": "hotels"}}'))

    assert isinstance(run.event, AgentRun)
    assert (run.event.header.dialect, run.why) == snapshot(("custom", "chosen by [dialects.custom] scopes acme.*"))
    assert ("c1", "Which hotel?", "The Ritz.") == (
        run.event.header.conversation_id,
        run.event.query,
        run.event.answer,
    )
    assert isinstance(call.event, ToolCall)
    assert ("search", {"q": "hotels"}) == (call.event.name, call.event.arguments)
    assert isinstance(own.read(acme("completion")).event, ModelCall)


def test_what_the_table_ignores_says_so_and_other_scopes_are_not_its_own() -> None:
    own = reader(custom=_ACME)
    beat = own.read(acme("beat")).event

    assert isinstance(beat, Ignored)
    assert beat.reason == snapshot("ignored by [dialects.custom.kinds]")
    assert "custom" != own.read(acme("agent_loop", scope="other")).event.header.dialect


def test_a_mark_claims_spans_of_any_scope_and_may_end_in_an_asterisk() -> None:
    own = reader(custom={**_ACME, "scopes": [], "marks": ["acme.*"]} | {"scopes": ["nobody"]})

    assert own.read(acme("agent_loop", scope="any")).why == snapshot("chosen by [dialects.custom] marks acme.*")


def test_the_users_table_is_asked_before_the_built_in_dialects() -> None:
    result = reader(custom=_ACME).read(span(scope="acme.x", attributes={"gen_ai.operation.name": "chat"}))

    assert "custom" == result.event.header.dialect


@pytest.mark.parametrize(("name", "dialect"), [("openinference", "openinference"), ("none", "none")])
def test_a_scope_is_read_by_the_dialect_that_the_settings_name_with_any_attributes(name: str, dialect: str) -> None:
    chosen = reader(scopes={"acme.*": name}, custom=_ACME)

    result = chosen.read(span(scope="acme.agents", attributes={"gen_ai.operation.name": "chat"}))

    assert (dialect, "chosen by [dialects.scopes] acme.*") == (result.event.header.dialect, result.why)


def test_the_first_glob_that_fits_decides() -> None:
    chosen = reader(scopes={"acme.a": "genai", "acme.*": "none"})

    assert ["genai", "none"] == [chosen.read(span(scope=scope)).event.header.dialect for scope in ("acme.a", "acme.b")]


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (
            {"scopes": {"a.*": "opentracing"}},
            r"dialects\.scopes: unknown dialect 'opentracing' for 'a\.\*'; allowed: .*openinference.*genai.*none",
        ),
        ({"custom": {**_ACME, "qeury": ["x"]}}, r"dialects\.custom\.qeury: .*allowed: scopes, marks.*query, answer"),
        (
            {"custom": {**_ACME, "kinds": {"call": "tol"}}},
            r"dialects\.custom\.kinds\.call: there is no kind 'tol'; allowed: agent, maybe_agent, model, tool, plan, ignore",
        ),
        ({"custom": {**_ACME, "kinds": "tool"}}, r"dialects\.custom\.kinds: give a table.*got 'tool'"),
        ({"custom": {**_ACME, "query": 3}}, r"dialects\.custom\.query: give a list of names.*got 3"),
        ({"custom": {**_ACME, "query": []}}, r"dialects\.custom\.query: give a list of names.*got \[\]"),
        ({"custom": {"kind": ["a"], "kinds": {"x": "tool"}}}, r"it selects no spans; set scopes.*or marks"),
        ({"custom": {"scopes": ["a"], "query": ["q"]}}, r"spans have no meaning; set kind.*or tool_name"),
    ],
)
def test_a_name_that_is_not_there_is_refused_with_those_that_are(section: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        reader(**section)

    assert 2 == codes_of(refused.value).exit


def test_the_section_is_read_from_a_file_as_the_documentation_shows_it(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text(
        '[dialects.scopes]\n"acme.agents" = "genai"\n'
        '[dialects.custom]\nscopes = ["acme.*"]\nkind = ["acme.op"]\nquery = ["acme.user_text"]\n'
        '[dialects.custom.kinds]\nagent_loop = "agent"\n',
        encoding="utf-8",
    )
    settings = load_settings(file)
    result = Reader.from_settings(settings.conversations, settings.dialects)

    assert "genai" == result.read(acme("agent_loop", scope="acme.agents")).event.header.dialect
    assert "custom" == result.read(acme("agent_loop", scope="acme.loop")).event.header.dialect
    assert "custom" == result.names[0]


def test_an_unknown_name_of_the_section_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text("[dialects]\nscope = 1\n", encoding="utf-8")

    with raises(
        ConfigError,
        snapshot(
            "unknown setting dialects.scope (from flags, OTEL_AGENTIC_* or <tmp_path>/a.toml); did you mean scopes? allowed: scopes, custom"
        ),
        tmp_path=tmp_path,
    ):
        load_settings(file)


def test_every_built_in_dialect_has_its_place_in_the_order() -> None:
    own = {name for name, plugin in plugins.find("dialects").items() if plugin.distribution == "otel-agentic"}
    request = Reader.from_settings(SETTINGS).names

    # Plug-ins come first, by name: a built-in one without a position would be among them.
    assert ("openinference", "generic") == (request[-len(own)], request[-1])
    assert own == set(request[-len(own) :])
