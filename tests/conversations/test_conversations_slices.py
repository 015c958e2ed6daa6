"""The slices of a conversation: what its spans name about user, locale, tier, prompt, model and feature flags."""

from __future__ import annotations

from typing import Any

import pytest

from otel_agentic.config import ConversationSettings
from otel_agentic.conversations import assemble
from otel_agentic.testing import event
from tests.conversations.rebuilding import assistant, chat, conversation_of, linked, run, user


def slices(*, events: Any = (), **attributes: Any) -> tuple[str, ...]:
    named = {name.replace("__", "."): value for name, value in attributes.items()}
    return conversation_of(run(0, 9, query="hi", attributes=named, events=events)).slices


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"user__id": "u-1"}, ("user=u-1",)),
        ({"traceloop__association__properties__user_id": "u-1"}, ("user=u-1",)),
        ({"user__id": "u-1", "enduser__id": "u-1"}, ("user=u-1",)),
        ({"user__locale": "de-DE", "enduser__tier": "gold"}, ("locale=de-DE", "tier=gold")),
        ({"gen_ai__prompt__name": "greet", "gen_ai__prompt__version": 3}, ("prompt=greet", "prompt_version=3")),
        ({"feature_flag__key": "new-ui", "feature_flag__result__variant": "on"}, ("flag=new-ui:on",)),
        ({"feature_flag__key": "new-ui", "feature_flag__variant": "off"}, ("flag=new-ui:off",)),
        ({"feature_flag__key": "new-ui"}, ("flag=new-ui:",)),
        ({"user__id": ""}, ()),
        ({"user__id": ["u-1"]}, ()),
        ({}, ()),
    ],
)
def test_a_conversation_is_in_the_slices_that_its_spans_name(
    attributes: dict[str, Any], expected: tuple[str, ...]
) -> None:
    assert expected == slices(**attributes)


def test_a_feature_flag_may_be_an_event() -> None:
    evaluations = [
        event("feature_flag.evaluation", {"feature_flag.key": key, "feature_flag.result.variant": "on"})
        for key in ("new-ui", "search")
    ]

    assert ("flag=new-ui:on", "flag=search:on") == slices(events=evaluations)


def test_a_conversation_is_in_the_slices_of_all_its_models() -> None:
    top = run(0, 9, query="hi")
    calls = [
        chat(start, [user("hi")], [assistant("hello")], attributes={"gen_ai.request.model": model}, parent=top)
        for start, model in ((1, "gpt-5"), (3, "gpt-5-mini"), (5, "gpt-5"))
    ]

    assert ("model=gpt-5", "model=gpt-5-mini") == conversation_of(top, *calls).slices


def test_the_settings_name_further_slices_and_attributes() -> None:
    own = ConversationSettings(slices={"tenant": ("app.tenant",), "tier": ("app.plan",)})
    (conversation,) = linked(run(0, 9, query="hi", attributes={"app.tenant": "acme", "app.plan": "free"}))

    assert ("tenant=acme", "tier=free") == assemble(conversation, own).slices


def test_slices_are_bounded() -> None:
    events = [event("feature_flag.evaluation", {"feature_flag.key": f"flag-{number:03}"}) for number in range(60)]

    assert 50 == len(slices(events=events))
    assert ("user=" + "x" * 200,) == slices(user__id="x" * 5000)
