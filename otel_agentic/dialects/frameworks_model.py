"""What people have to know of a framework whose spans are read."""

from __future__ import annotations

from dataclasses import dataclass

#: What a span means, and where that stands.
Row = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """One framework, or one instrumentation library for it.

    `name` names its page, `title` is for people. `scopes` are globs of the instrumentation scopes that it writes under;
    none for what stands for all other spans of its `dialect`. `content` says what turns content capture on and
    `conversation_id` how an application names its conversations: each is a sentence part that begins with a verb.
    `where` tells what the dialect's table does not, `limits` what cannot be known, and why.
    """

    name: str
    title: str
    scopes: tuple[str, ...]
    dialect: str
    content: str
    conversation_id: str
    where: tuple[Row, ...] = ()
    limits: tuple[str, ...] = ()


#: What names a conversation where a framework itself does not: an id is inherited over its trace.
OWN_SPAN = (
    "open a span of your own around each turn and set `session.id` or `gen_ai.conversation.id` on it: the whole trace "
    "inherits it"
)
