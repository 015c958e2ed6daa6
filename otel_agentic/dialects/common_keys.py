"""Which of a span's attributes hold which meaning, by how their names end: a table for a framework nobody wrote one for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final

from otel_agentic.dialects.fields import session_keys
from otel_agentic.dialects.table import Table
from otel_agentic.dialects.vocabulary import (
    ABOUT_ELSE,
    ABOUT_THE_SPAN,
    AGENTIC,
    CLASSIFIERS,
    ENDINGS,
    NOT_AFTER,
    PROTOCOLS,
    SHORT_ENDINGS,
    is_foreign,
)
from otel_agentic.dialects.words import MAX_NAME, words_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: (meaning, rank among its endings) of each ending, by its words.
_BY_WORDS: Final[Mapping[tuple[str, ...], tuple[tuple[str, int], ...]]] = {
    tuple(ending.split()): tuple(
        (meaning, endings.index(ending)) for meaning, endings in ENDINGS.items() if ending in endings
    )
    for ending in dict.fromkeys(ending for endings in ENDINGS.values() for ending in endings)
}
_LONGEST: Final = max(map(len, _BY_WORDS))
#: The first of messages that are spelled out over many attributes.
_SPELLED_OUT: Final = re.compile(r"^(.+?)\.0\.(?:message\.)?(?:role|content|contents|tool_calls)(?:\.|$)")
_ANSWERING: Final = frozenset({"output", "outputs", "completion", "completions", "choices", "response", "generations"})
#: Where a conversation's id stands in a JSON object of metadata, of a run's arguments.
_IN_METADATA: Final = ("", "metadata.", "configurable.")
_IN_ARGUMENTS: Final = ("", "kwargs.")
#: Names and ids, which some write as JSON text.
_QUOTED: Final = ("agent_name", "agent_id", "model", "response_id", "tool_name", "name", "call_id")
#: The other meanings that a table has, too.
_OF_TABLE: Final = (
    "finish_reason",
    "query",
    "answer",
    "input",
    "output",
    "arguments",
    "result",
    "error",
    "input_tokens",
    "output_tokens",
    "usage",
    "definitions",
)
#: A vendor's prefix and the word itself.
_SHORT: Final = 2
#: All but the first of messages that are spelled out: they tell nothing more, and each span has more of them.
_LATER_ITEM: Final = re.compile(r"\.[1-9]\d*\.")
#: Of a span with more attributes than this, or more metadata, the rest is not looked at.
_MAX_NAMES: Final = 500
_MAX_RECORDS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonKeys:
    """The attributes of a span that common words explain.

    `table` holds the meanings a table has (its `query` and `answer` name what a run was asked and said in the end), `kinds`
    the attributes that tell kinds of spans, `parameters` those that hold either arguments or their schema, `failed` those
    that tell an outcome, `why_failed` the reason, `given` paths to a conversation id among what a run was given.
    `is_classified` says that some attribute classifies the span, `is_request` that it is a request of a protocol (HTTP, a
    database, a queue), `is_agentic` that a name has a word in it that agents use.
    """

    table: Table
    kinds: tuple[str, ...]
    parameters: tuple[str, ...]
    failed: tuple[str, ...]
    why_failed: tuple[str, ...]
    given: tuple[str, ...]
    is_classified: bool
    is_request: bool
    is_agentic: bool

    @property
    def asked(self) -> tuple[str, ...]:
        """The attributes that hold what a span was given; prefixes of those that are spelled out."""
        table = self.table
        return (*table.query, *table.input, *table.flat_in, *table.arguments, *self.parameters)

    @property
    def answered(self) -> tuple[str, ...]:
        """The attributes that hold what came of it."""
        return (*self.table.answer, *self.table.output, *self.table.flat_out, *self.table.result)


def common_keys(attributes: Mapping[str, object]) -> CommonKeys:
    """Return what the names of a span's attributes tell.

    >>> keys = common_keys({"acme.span.kind": "TOOL", "acme.session_id": "s1", "acme.input": "{}", "db.query.text": "select 1"})
    >>> keys.kinds, keys.table.conversation_id, keys.asked
    (('acme.span.kind',), ('acme.session_id~',), ('acme.input',))
    """
    names = (name for name in attributes if len(name) <= MAX_NAME and _LATER_ITEM.search(name) is None)
    return _keys(tuple(islice(names, _MAX_NAMES)))


@lru_cache(maxsize=512)  # spans of one kind have attributes of the same names
def _keys(names: tuple[str, ...]) -> CommonKeys:
    own = [name for name in names if not is_foreign(name)]
    found = _found(own)
    asked, answered = _spelled_out(own)
    table = Table(
        kinds={},
        conversation_id=(*(f"{name}~" for name in found["conversation_id"]), *_inside(found["metadata"], _IN_METADATA)),
        flat_in=asked,
        flat_out=answered,
        **{meaning: found[meaning] for meaning in _OF_TABLE},
        **{meaning: tuple(f"{name}~" for name in found[meaning]) for meaning in _QUOTED},
    )
    return CommonKeys(
        table=table,
        kinds=found["kind"],
        parameters=found["parameters"],
        failed=found["failed"],
        why_failed=found["why_failed"],
        given=_inside(found["input"], _IN_ARGUMENTS),
        is_classified=any(" ".join(words_of(name)[-2:]) in CLASSIFIERS for name in own),
        is_request=any(words_of(name)[:1] and words_of(name)[0] in PROTOCOLS for name in names),
        is_agentic=any(not AGENTIC.isdisjoint(words_of(name)) for name in own),
    )


def _found(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the attributes of each meaning, the surest first."""
    ranked: dict[str, dict[str, int]] = {meaning: {} for meaning in ENDINGS}
    for name in names:
        words = words_of(name)
        if any(part.isdecimal() for part in name.split(".")):
            continue  # an item of something that is spelled out
        for length in range(min(_LONGEST, len(words)), 0, -1):
            ending, before = words[-length:], words[:-length]
            for meaning, rank in _BY_WORDS.get(ending, ()):
                if _fits(meaning, ending, before):
                    ranked[meaning][name] = rank
            if ending in _BY_WORDS:
                break  # the longest ending tells most: what is called `output.messages` is no input
    return {meaning: tuple(sorted(ranks, key=ranks.__getitem__)) for meaning, ranks in ranked.items()}


def _fits(meaning: str, ending: tuple[str, ...], before: tuple[str, ...]) -> bool:
    last = before[-1] if before else ""
    if len(ending) == 1 and ending[0] in SHORT_ENDINGS:
        return last in ABOUT_THE_SPAN or (len(before) < _SHORT and last not in ABOUT_ELSE)
    return last not in NOT_AFTER.get(meaning, ())


def _spelled_out(names: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the prefixes of messages that are spelled out: of what went in, of what came back."""
    prefixes = dict.fromkeys(found[1] for name in names if (found := _SPELLED_OUT.match(name)) is not None)
    answered = tuple(prefix for prefix in prefixes if not _ANSWERING.isdisjoint(words_of(prefix)))
    return tuple(prefix for prefix in prefixes if prefix not in answered), answered


def _inside(names: Sequence[str], places: Iterable[str]) -> tuple[str, ...]:
    """Return the paths to a conversation's id in the JSON of some attributes."""
    return tuple(path for name in names[:_MAX_RECORDS] for place in places for path in session_keys(f"{name}~{place}"))
