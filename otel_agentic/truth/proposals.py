"""Match modes for the parameters of a draft whose values another correct run need not repeat.

A value that a user or an earlier result states must be repeated, so it stays `exact`, and so does everything that no rule
below covers. A text that the agent composed is left to a judge, or ignored without one. The time of the run and an id
that the agent generated are ignored, and so is a value that differs between successful runs of the same queries.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, Literal

from otel_agentic.truth.values import UNSPACED, canonical, is_number, leaves, normalise, says_text, words

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation, ToolCall, Turn

_COMPOSED: Final = "text that occurs in no earlier query or result"
_TIME: Final = "the time of the run"
_GENERATED: Final = "an id that occurs in no earlier query or result"
_DIFFERS: Final = "differs between successful runs"

#: Minimum number of words, or of characters in scripts without spaces, of a text that an agent composes.
_COMPOSED_WORDS: Final = 3
_COMPOSED_CHARACTERS: Final = 8
#: A text of at most so many words may be composed of the words of one query or result, as a name or an address is.
_PUT_TOGETHER_WORDS: Final = 6
#: Maximum number of texts and numbers that are read from one argument and from one result.
_ARGUMENT_LEAVES: Final = 200
_RESULT_LEAVES: Final = 5_000
#: Maximum number of characters of all queries and results, each of which every argument is looked up in.
_KNOWN_CHARACTERS: Final = 2_000_000
#: Clocks may differ by so much; a time without an offset may also be local.
_CLOCK_S: Final = 300
_LOCAL_S: Final = 14 * 3600
_EPOCH_UNITS: Final = (1, 1_000, 1_000_000, 1_000_000_000)
_NS: Final = 1_000_000_000

_ISO: Final = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:?\d\d.*)?")
_EPOCH_DIGITS: Final = re.compile(r"\d{10}(?:\d{3}){0,3}(?:\.\d+)?")
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}", re.IGNORECASE)
#: Runs of letters and digits: hashes by their characters, or random ones by their length.
_HASH: Final = re.compile(r"(?<![^\W_])[0-9a-fA-F]{8,}(?![^\W_])")
_RANDOM: Final = re.compile(r"[^\W_]{16,}")
_ID_NAME: Final = re.compile(
    r"(?:^|[_.-])(?:id|uuid|guid|nonce|token|hash)$|(?:Id|ID|Uuid|UUID|Guid|Nonce|Token|Hash)$"
)
_UNSPACED: Final = re.compile(f"[{UNSPACED}]")
_LETTER: Final = re.compile(r"[^\W\d_]")
_OPERATORS: Final = frozenset({"+", "-", "*", "/", "%", "^", "**", "//", "=", "<", ">"})
_DIGIT: Final = re.compile(r"\d")

#: Turn index and position of a call.
CallKey = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A match mode for a parameter, and the reason; `part` is the key in the value that it concerns, "" for the value itself."""

    mode: Literal["ignore", "judge"]
    reason: str
    part: str = ""


def proposals(
    conversation: Conversation, *, has_judge: bool = False, others: Sequence[Conversation] = ()
) -> dict[CallKey, dict[str, Proposal]]:
    """Return the proposed modes by call and parameter; a parameter without one is compared exactly.

    Args:
        conversation: the conversation that becomes a case.
        has_judge: whether a judge compares parameters; otherwise, text that the agent composed is ignored.
        others: further successful conversations with the same queries.
    """
    proposed: dict[CallKey, dict[str, Proposal]] = defaultdict(dict)
    for turn, call, known in _calls_and_known(conversation):
        choices = (conversation.tool_definitions or {}).get(call.name)
        for name, value in (call.arguments or {}).items():
            parts = list(_unrepeatable(name, value, known, conversation, _choices(choices, name)))
            if parts:
                # A judge compares texts: it is no help with a value that contains a time or an id as well.
                reason, part = min(parts, key=lambda item: item[0] == _COMPOSED)
                mode: Literal["ignore", "judge"] = "judge" if reason == _COMPOSED and has_judge else "ignore"
                proposed[turn.index, call.position][name] = Proposal(mode=mode, reason=reason, part=part)
    for key, name in _differing(conversation, others):
        proposed[key].setdefault(name, Proposal(mode="ignore", reason=_DIFFERS))
    return dict(proposed)


def _calls_and_known(conversation: Conversation) -> Iterator[tuple[Turn, ToolCall, _Known]]:
    """Yield each call with the queries and results before it; calls of one step do not know each other's results."""
    known = _Known()
    for turn in conversation.turns:
        known.add(turn.query)
        calls = sorted(turn.calls, key=lambda call: (call.step, call.position))
        for _, step in groupby(calls, key=lambda call: call.step):
            parallel = list(step)
            yield from ((turn, call, known) for call in parallel)
            for call in parallel:
                known.add(call.result)
                known.add(call.error)


class _Known:
    """The texts and numbers of queries and results so far."""

    def __init__(self) -> None:
        self._texts: dict[str, frozenset[str]] = {}
        self._space = _KNOWN_CHARACTERS

    def add(self, value: Any) -> None:
        """Add a query or a result."""
        parts = [str(leaf) for _, leaf in leaves(_decoded(value), limit=_RESULT_LEAVES) if leaf is not None]
        text = normalise("\n".join(parts)[: self._space])
        if text and text not in self._texts:
            self._texts[text] = frozenset(words(text))
            self._space -= len(text)

    def says(self, text: str) -> bool:
        """Return whether a normalised text occurs in a query or result as complete words."""
        return any(says_text(known, text) for known in self._texts)

    def has_words(self, tokens: Iterable[str]) -> bool:
        """Return whether one query or result contains all of these words."""
        required = set(tokens)
        return bool(required) and any(required <= known for known in self._texts.values())


def _decoded(value: Any) -> Any:
    """Return the content of a text that is a JSON object or list, else the value."""
    if isinstance(value, str) and value.lstrip()[:1] in {"{", "["}:
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _unrepeatable(
    name: str, value: Any, known: _Known, conversation: Conversation, choices: frozenset[str]
) -> Iterator[tuple[str, str]]:
    """Yield the reason and the key of each part of an argument that another run need not repeat."""
    for inner_name, leaf in leaves(_decoded(value), limit=_ARGUMENT_LEAVES):
        if not (isinstance(leaf, str) or is_number(leaf)) or leaf in choices:
            continue
        text = normalise(str(leaf))
        if not text or known.says(text):
            continue
        moment = _is_now(leaf, conversation)
        if moment is not None:
            if moment:
                yield _TIME, inner_name
        elif _is_generated(inner_name or name, str(leaf)):
            # A known number may have a prefix: "#A17" or "order-17" of order 17.
            if not known.has_words(token for token in words(text) if _DIGIT.search(token)):
                yield _GENERATED, inner_name
        elif isinstance(leaf, str) and _is_composed(leaf, words(text), known):
            yield _COMPOSED, inner_name


def _is_now(value: Any, conversation: Conversation) -> bool | None:
    """Return whether a time is that of the conversation, None if the value is no time."""
    first, last = conversation.started_ns / _NS, conversation.ended_ns / _NS
    if isinstance(value, str) and _ISO.fullmatch(value.strip()):
        try:
            moment = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
        if len(value.strip()) == len("2026-03-02"):
            # A day ahead or behind is yesterday or tomorrow, or today elsewhere.
            return _day(first, -1) <= moment.date() <= _day(last, 1)
        margin = _LOCAL_S if moment.tzinfo is None else _CLOCK_S
        seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        return first - margin <= seconds <= last + margin
    digits = str(value).strip()
    if _EPOCH_DIGITS.fullmatch(digits):
        times = (float(digits) / unit for unit in _EPOCH_UNITS)
        return True if any(first - _CLOCK_S <= seconds <= last + _CLOCK_S for seconds in times) else None
    return None


def _day(seconds: float, days: int) -> date:
    return (datetime.fromtimestamp(seconds, UTC) + timedelta(days=days)).date()


def _is_generated(name: str, text: str) -> bool:
    if len(text.split()) != 1:
        return False
    runs = (*_HASH.findall(text), *_RANDOM.findall(text))
    if _UUID.fullmatch(text.strip()) or any(_DIGIT.search(run) and _LETTER.search(run) for run in runs):
        return True
    return _ID_NAME.search(name) is not None and _DIGIT.search(text) is not None


def _is_composed(text: str, tokens: Sequence[str], known: _Known) -> bool:
    """Return whether an agent composed a text that occurs nowhere before: prose, a search query, a formula, code."""
    if len(text.split()) < _COMPOSED_WORDS and len(_UNSPACED.findall(text)) < _COMPOSED_CHARACTERS:
        return False
    if _LETTER.search(text) is None:
        return any(token in _OPERATORS for token in text.split())  # a formula, unlike a telephone number
    return len(tokens) > _PUT_TOGETHER_WORDS or not known.has_words(tokens)


def _choices(schema: Any, name: str) -> frozenset[str]:
    """Return the texts that the schema of a tool lists for a parameter, in any `enum` below it."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    pending = [properties.get(name)] if isinstance(properties, Mapping) else []
    texts: set[str] = set()
    while pending:
        node = pending.pop()
        if isinstance(node, Mapping):
            listed = node.get("enum")
            texts.update(choice for choice in listed if isinstance(choice, str)) if isinstance(listed, list) else None
            pending.extend(inner for key, inner in node.items() if key != "enum")
        elif isinstance(node, list):
            pending.extend(node)
    return frozenset(texts)


def _differing(conversation: Conversation, others: Sequence[Conversation]) -> Iterator[tuple[CallKey, str]]:
    """Yield each parameter whose value another run differs in, for tools that both call equally often in a turn."""
    for other in others:
        for turn, other_turn in zip(conversation.turns, other.turns, strict=False):
            own, others_calls = _calls_by_name(turn), _calls_by_name(other_turn)
            for name, calls in own.items():
                if len(calls) != len(others_calls.get(name, ())):
                    continue
                for call, other_call in zip(calls, others_calls[name], strict=True):
                    arguments, other_arguments = call.arguments or {}, other_call.arguments or {}
                    for parameter, value in arguments.items():
                        if parameter not in other_arguments or not _equal(value, other_arguments[parameter]):
                            yield (turn.index, call.position), parameter


def _calls_by_name(turn: Turn) -> dict[str, list[ToolCall]]:
    calls: dict[str, list[ToolCall]] = defaultdict(list)
    for call in turn.calls:
        if call.error is None and call.arguments is not None:
            calls[call.name].append(call)
    return calls


def _equal(value: Any, other: Any) -> bool:
    try:
        return canonical(value) == canonical(other)
    except RecursionError:
        return False
