"""Common words of agents' attributes and span names: the meanings of endings, and the attributes that are unrelated."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import islice
from typing import Any, Final

from otel_agentic.dialects.base import Table
from otel_agentic.dialects.values import MAX_NAME, session_keys, words_of

_WORDS: Final[Mapping[str, Any]] = tomllib.loads(files(__package__).joinpath("vocabulary.toml").read_text("utf-8"))
#: Meaning -> endings of the names of its attributes, the most certain first.
ENDINGS: Final[Mapping[str, tuple[str, ...]]] = {meaning: tuple(ends) for meaning, ends in _WORDS["endings"].items()}
#: Meaning -> words directly before an ending that give the name another meaning.
_NOT_AFTER: Final[Mapping[str, frozenset[str]]] = {
    meaning: frozenset(group["words"]) for group in _WORDS["not_after"] for meaning in group["meanings"]
}
_SHORT_ENDINGS: Final = frozenset[str](_WORDS["short_endings"])
_ABOUT_THE_SPAN: Final = frozenset[str](_WORDS["about_the_span"])
_ABOUT_ELSE: Final = frozenset[str](_WORDS["about_else"])
_CLASSIFIERS: Final = frozenset[str](_WORDS["classifiers"])
_FOREIGN: Final = frozenset[str](_WORDS["foreign"])
_PROTOCOLS: Final = frozenset[str](_WORDS["protocols"])
_AGENTIC: Final = frozenset[str](_WORDS["agentic"])
_ANSWERING: Final = frozenset[str](_WORDS["answering"])
_TRAILING: Final = frozenset[str](_WORDS["trailing"])
#: The user agent of HTTP, which is not an agent.
_USER_AGENT: Final = re.compile(r"(?i)(?:^|[._:])user[._]agent(?:[._]|$)")


def is_foreign(name: str) -> bool:
    """Return whether an attribute belongs to a convention that is not about agents.

    >>> is_foreign("db.query.text"), is_foreign("acme.query")
    (True, False)
    """
    words = words_of(name)
    return not words or words[0] in _FOREIGN or _USER_AGENT.search(name) is not None


#: Last significant word of a kind -> its meaning, for words that only agents use.
_SURE: Final = {word: meaning for meaning, words in _WORDS["sure_kinds"].items() for word in words}
#: The same for words that are also used outside of agents: they count only on a span with content.
_LIKELY: Final = {word: meaning for meaning, words in _WORDS["likely_kinds"].items() for word in words}
_CREATES: Final = "creates an agent, runs nothing"

#: Forms of the names of tool and agent spans that only agents use.
_SURE_NAMES: Final = (
    ("tool", re.compile(r"^(?:execute_tool|tools/call|running tool:?)\s+(?P<name>\S.*)$", re.IGNORECASE)),
    ("agent", re.compile(r"^invoke_agent\s+(?P<name>\S.*)$", re.IGNORECASE)),
)
#: Forms of the names of tool, agent and model spans that count only on a span with content.
_LIKELY_NAMES: Final = (
    (
        "tool",
        re.compile(r"^(?:(?:call|run)[_ ]tool|tool[_ ]?call|tool|function)\s*[:/]\s*(?P<name>\S.*)$", re.IGNORECASE),
    ),
    ("tool", re.compile(r"^(?:call_tool|run_tool|tool_call|tool)[ .](?P<name>\S.*)$", re.IGNORECASE)),
    ("tool", re.compile(r"^(?P<name>\S.*?)(?:[.:/ ]tool(?:[_ ]?call)?|\s*\(tool\))$", re.IGNORECASE)),
    ("agent", re.compile(r"^(?:agent(?:[_ ]run)?\s*[:/]\s*)(?P<name>\S.*)$|^agent[_ ]run$", re.IGNORECASE)),
    ("agent", re.compile(r"^(?P<name>\S.*?)[.:/]agent$", re.IGNORECASE)),
    (
        "model",
        re.compile(r"^(?:chat|text_completion|generate_content)\s+\S|^(?:llm|completion)(?:[\s:/._]|$)", re.IGNORECASE),
    ),
    ("model", re.compile(r"[.:/](?:llm|chat|completions?|generation|do_?generate|do_?stream)$", re.IGNORECASE)),
)
#: The method of a tool or agent that a span is named after.
_METHOD: Final = re.compile(r"\.(?:__call__|a?call|a?invoke|a?run|execute|forward)$")


def kind_meant(value: object) -> tuple[str | None, bool]:
    """Return the meaning of a kind of span, and whether only agents use the word; None for an unknown kind.

    >>> kind_meant("TOOL"), kind_meant("model_generation"), kind_meant("workflow"), kind_meant("GET")
    (('tool', True), ('model', True), ('maybe_agent', False), (None, False))
    """
    words = words_of(value) if isinstance(value, str) else ()
    if words[:1] == ("create",):
        return (_CREATES, False) if words[-1] == "agent" else (None, False)
    while len(words) > 1 and words[-1] in _TRAILING:
        words = words[:-1]
    if not words:
        return None, False
    if words[-1] in _SURE:
        return _SURE[words[-1]], True
    return _LIKELY.get(" ".join(words[-2:]), _LIKELY.get(words[-1])), False


def name_meant(name: str) -> tuple[str | None, bool]:
    """Return the meaning of the form of a span's name, and whether only agents use the form; None for other forms.

    >>> name_meant("execute_tool weather"), name_meant("weather.tool"), name_meant("GET /tools")
    (('tool', True), ('tool', False), (None, False))
    """
    for forms, sure in ((_SURE_NAMES, True), (_LIKELY_NAMES, False)):
        for meaning, form in forms:
            if form.search(name[:MAX_NAME]):
                return meaning, sure
    return None, False


def bare_name(name: str) -> str:
    """Return the tool or agent that a span is named after.

    >>> bare_name("execute_tool weather"), bare_name("weather.tool"), bare_name("weather.__call__")
    ('weather', 'weather', 'weather')
    """
    for _, form in (*_SURE_NAMES, *_LIKELY_NAMES):
        match = form.search(name[:MAX_NAME])
        if match is not None and "name" in form.groupindex and match["name"]:
            return match["name"]
    return _METHOD.sub("", name) or name


#: (meaning, rank among its endings) of each ending, by its words.
_BY_WORDS: Final[Mapping[tuple[str, ...], tuple[tuple[str, int], ...]]] = {
    tuple(ending.split()): tuple(
        (meaning, endings.index(ending)) for meaning, endings in ENDINGS.items() if ending in endings
    )
    for ending in dict.fromkeys(ending for endings in ENDINGS.values() for ending in endings)
}
_LONGEST: Final = max(map(len, _BY_WORDS))
#: The first of messages that are flattened over many attributes.
_SPELLED_OUT: Final = re.compile(r"^(.+?)\.0\.(?:message\.)?(?:role|content|contents|tool_calls)(?:\.|$)")
#: Paths to a conversation's id in the JSON of metadata, and of a run's arguments.
_IN_METADATA: Final = ("", "metadata.", "configurable.")
_IN_ARGUMENTS: Final = ("", "kwargs.")
#: Names and ids, which some frameworks write as JSON text.
_QUOTED: Final = ("agent_name", "agent_id", "model", "response_id", "tool_name", "name", "call_id")
#: The other meanings that are copied into a table.
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
#: Number of words before a short ending from which it is too unspecific.
_SHORT: Final = 2
#: All flattened messages except the first, which is enough to recognise them.
_LATER_ITEM: Final = re.compile(r"\.[1-9]\d*\.")
#: Maximum numbers of attributes, and of metadata attributes, that are examined on a span.
_MAX_NAMES: Final = 500
_MAX_RECORDS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonKeys:
    """The meanings of a span's attributes, by common words.

    `table` has the meanings of a dialect's table (its `query` and `answer` are the attributes of a run's query and final
    answer), `kinds` are the attributes with kinds of spans, `parameters` those with either arguments or their schema, `failed`
    those with an outcome, `why_failed` those with its reason, `id_arguments` paths to a conversation id among a run's
    arguments. `is_classified` is whether an attribute classifies the span, `is_request` whether it is a request of a protocol
    (HTTP, a database, a queue), `is_agentic` whether a name contains a word that agents use.
    """

    table: Table
    kinds: tuple[str, ...]
    parameters: tuple[str, ...]
    failed: tuple[str, ...]
    why_failed: tuple[str, ...]
    id_arguments: tuple[str, ...]
    is_classified: bool
    is_request: bool
    is_agentic: bool

    @property
    def input_keys(self) -> tuple[str, ...]:
        """The attributes with the input of a span; prefixes of flattened ones."""
        table = self.table
        return (*table.query, *table.input, *table.flat_in, *table.arguments, *self.parameters)

    @property
    def has_run(self) -> bool:
        """Whether an attribute may contain the input, the output or the tools of a run."""
        return bool(self.input_keys or self.output_keys or self.table.definitions)

    @property
    def output_keys(self) -> tuple[str, ...]:
        """The attributes with the output of a span; prefixes of flattened ones."""
        return (*self.table.answer, *self.table.output, *self.table.flat_out, *self.table.result)


def common_keys(attributes: Mapping[str, object]) -> CommonKeys:
    """Return the meanings of the names of a span's attributes.

    >>> keys = common_keys({"acme.span.kind": "TOOL", "acme.session_id": "s1", "acme.input": "{}", "db.query.text": "select 1"})
    >>> keys.kinds, keys.table.conversation_id, keys.input_keys
    (('acme.span.kind',), ('acme.session_id~',), ('acme.input',))
    """
    return _keys_of(tuple(attributes))


@lru_cache(maxsize=512)  # spans of one kind have attributes of the same names
def _keys_of(attributes: tuple[str, ...]) -> CommonKeys:
    names = (name for name in attributes if len(name) <= MAX_NAME and _LATER_ITEM.search(name) is None)
    return _keys(tuple(islice(names, _MAX_NAMES)))


@lru_cache(maxsize=512)  # they may differ only in the number of flattened items
def _keys(names: tuple[str, ...]) -> CommonKeys:
    own = [name for name in names if not is_foreign(name)]
    names_by_meaning = _names_by_meaning(own)
    flat_in, flat_out = _spelled_out(own)
    table = Table(
        kinds={},
        conversation_id=(
            *(f"{name}~" for name in names_by_meaning["conversation_id"]),
            *_id_paths(names_by_meaning["metadata"], _IN_METADATA),
        ),
        flat_in=flat_in,
        flat_out=flat_out,
        **{meaning: names_by_meaning[meaning] for meaning in _OF_TABLE},
        **{meaning: tuple(f"{name}~" for name in names_by_meaning[meaning]) for meaning in _QUOTED},
    )
    return CommonKeys(
        table=table,
        kinds=names_by_meaning["kind"],
        parameters=names_by_meaning["parameters"],
        failed=names_by_meaning["failed"],
        why_failed=names_by_meaning["why_failed"],
        id_arguments=_id_paths(names_by_meaning["input"], _IN_ARGUMENTS),
        is_classified=any(" ".join(words_of(name)[-2:]) in _CLASSIFIERS for name in own),
        is_request=any(words_of(name)[:1] and words_of(name)[0] in _PROTOCOLS for name in names),
        is_agentic=any(not _AGENTIC.isdisjoint(words_of(name)) for name in own),
    )


def _names_by_meaning(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the attributes of each meaning, the most certain first."""
    ranked: dict[str, dict[str, int]] = {meaning: {} for meaning in ENDINGS}
    for name in names:
        words = words_of(name)
        if any(part.isdecimal() for part in name.split(".")):
            continue  # an item of a flattened value
        for length in range(min(_LONGEST, len(words)), 0, -1):
            ending, before = words[-length:], words[:-length]
            for meaning, rank in _BY_WORDS.get(ending, ()):
                if _fits(meaning, ending, before):
                    ranked[meaning][name] = rank
            if ending in _BY_WORDS:
                break  # the longest ending decides: `output.messages` is not an input
    return {meaning: tuple(sorted(ranks, key=ranks.__getitem__)) for meaning, ranks in ranked.items()}


def _fits(meaning: str, ending: tuple[str, ...], before: tuple[str, ...]) -> bool:
    last = before[-1] if before else ""
    if len(ending) == 1 and ending[0] in _SHORT_ENDINGS:
        return last in _ABOUT_THE_SPAN or (len(before) < _SHORT and last not in _ABOUT_ELSE)
    return last not in _NOT_AFTER.get(meaning, ())


def _spelled_out(names: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the prefixes of flattened messages: of the input, and of the output."""
    prefixes = dict.fromkeys(match[1] for name in names if (match := _SPELLED_OUT.match(name)) is not None)
    output_prefixes = tuple(prefix for prefix in prefixes if not _ANSWERING.isdisjoint(words_of(prefix)))
    return tuple(prefix for prefix in prefixes if prefix not in output_prefixes), output_prefixes


def _id_paths(names: Sequence[str], prefixes: Iterable[str]) -> tuple[str, ...]:
    """Return the paths to a conversation's id in the JSON of some attributes."""
    return tuple(
        path for name in names[:_MAX_RECORDS] for prefix in prefixes for path in session_keys(f"{name}~{prefix}")
    )
