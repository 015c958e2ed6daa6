"""Slices: groups of conversations by user, locale, tier, prompt, model or feature flag, as their spans name them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from otel_agentic.conversations.merge import Node
    from otel_agentic.conversations.model import Turn

#: The attributes of the end user, by the semantic conventions (the second name is the older one), Langfuse and OpenLLMetry.
USER_ATTRIBUTES: Final = (
    "user.id",
    "enduser.id",
    "enduser.pseudo.id",
    "langfuse.user.id",
    "traceloop.association.properties.user_id",
)
USER: Final = "user"
MODEL: Final = "model"
FLAG: Final = "flag"
#: Attribute names by slice, from the semantic conventions, OpenInference and Langfuse. `model` is read from the model calls,
#: `flag` from evaluations of feature flags.
ATTRIBUTES: Final[Mapping[str, tuple[str, ...]]] = {
    USER: USER_ATTRIBUTES,
    "locale": ("user.locale", "enduser.locale", "browser.language"),
    "tier": ("user.tier", "enduser.tier", "customer.tier"),
    "prompt": ("gen_ai.prompt.name", "langfuse.observation.prompt.name", "llm.prompt_template.name"),
    "prompt_version": ("gen_ai.prompt.version", "langfuse.observation.prompt.version", "llm.prompt_template.version"),
    MODEL: (),
    FLAG: (),
}
_FLAG_KEY: Final = "feature_flag.key"
#: The result of a feature flag, by the semantic conventions; the second name is the older one.
_VARIANTS: Final = ("feature_flag.result.variant", "feature_flag.variant", "feature_flag.result.value")
#: The largest number of slices of a conversation, and of characters of a value.
_MOST: Final = 50
_MOST_CHARACTERS: Final = 200


def slices_of(nodes: Iterable[Node], turns: Iterable[Turn], further: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Return the slices that a conversation is in, as `name=value`, sorted, each once.

    Args:
        nodes: all spans of the conversation.
        turns: its turns, with the models that they used.
        further: attribute names by further slices, from the settings; a name in `ATTRIBUTES` gets further attributes.
    """
    names: dict[str, list[str]] = {}
    for name, attributes in (*ATTRIBUTES.items(), *further.items()):
        for attribute in attributes:
            names.setdefault(attribute, []).append(name)
    pairs = {(MODEL, use.model) for turn in turns for use in turn.models if use.model}
    known = (*names, _FLAG_KEY)
    for node in nodes:
        attributes = node.span.attributes
        if not attributes.keys().isdisjoint(known):
            for attribute in names.keys() & attributes.keys():
                pairs |= {(name, value) for name in names[attribute] if (value := _text(attributes[attribute]))}
            pairs |= {(FLAG, flag) for flag in _flags(attributes)}
        for event in node.span.events:
            pairs |= {(FLAG, flag) for flag in _flags(event.attributes)}
    texts = sorted(f"{name}={value[:_MOST_CHARACTERS]}" for name, value in pairs)
    return tuple(texts[:_MOST])


def is_in(slice_name: str, names: Iterable[str]) -> bool:
    """Return whether a slice, `name=value`, has one of the names.

    >>> is_in("model=gpt-5=beta", {"model"}), is_in("model=gpt-5", {"user"})
    (True, False)
    """
    return slice_name.partition("=")[0] in names


def _flags(attributes: Mapping[str, Any]) -> Iterator[str]:
    key = attributes.get(_FLAG_KEY)
    if key is None:
        return
    variant = next((text for name in _VARIANTS if (text := _text(attributes.get(name)))), "")
    yield f"{_text(key)}:{variant}"


def _text(value: Any) -> str:
    """Return a scalar as text, and an empty text of anything else."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).strip() if isinstance(value, str | int | float) else ""
