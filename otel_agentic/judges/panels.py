"""Panels: several questions about the same material in one call, with the material once and one reply field per question.

A panel changes the message, not the questions: each question keeps its rubric, reply form, cache key, budget and breaker, and
its two fields of the reply, the reasoning and the verdict, are read like a reply of their own. Questions belong to one panel if their material is the same, apart from
the texts that their rubrics declare as `asides`. An annotation that only some metrics show to the judge therefore never
reaches the others. The order of the questions is that of the names of their rubrics, for every choice of metrics.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count, islice
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.judges.base import metric_of
from otel_agentic.judges.messages import (
    PANEL,
    REASONING_SUFFIX,
    SCHEMA_NAME,
    PanelForm,
    Reply,
    UnreadableReplyError,
    allowed_text,
    field_of,
    json_objects,
    new_nonce,
    reasoning_field,
    require_complete,
    sealed,
    shown_fields,
    validated,
)
from otel_agentic.judges.prompts import instructions_of

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage

    from otel_agentic.judges.base import Question, QuestionKind, ReplyForm
    from otel_agentic.judges.messages import Message, Way
    from otel_agentic.judges.prompts import Prompt

#: Maximum number of questions in one call: longer replies are cut short by the length limits of providers.
MAX_QUESTIONS: Final = 16
#: Maximum length of a field name; providers allow 64 characters.
_MAX_NAME: Final = 56
#: Minimum length of a paragraph or bullet that is stated once for several rubrics: shorter ones may depend on their context.
_MIN_SHARED: Final = 60


def panel_key(question: Question) -> Hashable | None:
    """Return a key that the questions of a panel have in common, None if a question must be asked by itself.

    >>> from otel_agentic.judges.base import ReplyForm, Rubric, rubric_question
    >>> tone, tact = (Rubric(name=name, version="1", instructions="Grade.", form=ReplyForm()) for name in ("tone", "tact"))
    >>> panel_key(rubric_question(tone, answer="Hi")) == panel_key(rubric_question(tact, answer="Hi"))
    True
    """
    if question.rubric is None:
        return None
    return tuple(sorted((name, text) for name, text in question.material if name not in question.rubric.asides)) or None


def grouped(keys: Sequence[Hashable | None]) -> Iterator[list[int]]:
    """Yield the indices of each panel, in order of the first question; None is a panel of one question.

    >>> list(grouped(["turn 1", "turn 2", None, "turn 1"]))
    [[0, 3], [1], [2]]
    """
    panels: dict[Hashable, list[int]] = {}
    for index, key in enumerate(keys):
        panels.setdefault((index,) if key is None else (key, "panel"), []).append(index)
    for indices in panels.values():
        remaining = iter(indices)
        while part := list(islice(remaining, MAX_QUESTIONS)):
            yield part


@dataclass(frozen=True)
class Panel:
    """Questions that are asked in one call; they have the same `panel_key`."""

    questions: tuple[Question, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The field of each question in the reply: the last part of its rubric's name, numbered if that is ambiguous."""
        words = [metric_of(question).rpartition(".")[2][:_MAX_NAME] for question in self.questions]
        totals, names = Counter(words), dict[str, None]()
        for word in words:
            is_ambiguous = totals[word] > 1 or word.endswith(REASONING_SUFFIX)
            numbered = (f"{word}_{number}" for number in count(1))
            names[
                next(name for name in numbered if not totals[name] and name not in names) if is_ambiguous else word
            ] = None
        return tuple(names)

    @cached_property
    def form(self) -> PanelForm:
        """The forms of the replies, by field."""
        return tuple((name, question.form) for name, question in zip(self.names, self.questions, strict=True))

    def messages(
        self, prompts: Mapping[QuestionKind, Prompt], way: Way, *, max_characters: int, again: bool = False
    ) -> list[Message]:
        """Return the messages to a model.

        Args:
            prompts: the active prompts, see `prompt_texts`.
            way: the method by which the model replies.
            max_characters: the limit of characters per text.
            again: not used, since an unreadable reply is not requested again.
        """
        del again
        instructions = [instructions_of(question, prompts) for question in self.questions]
        text = "\n\n".join([PANEL["intro"].strip(), *_criteria(self.names, instructions)])
        return sealed(
            self._fields(max_characters),
            lambda nonce: f"{text}\n\n{_reply_instructions(self.form, way, nonce)}",
            new_nonce,
        )

    def read(self, output: object) -> dict[str, Reply]:
        """Return the readable replies by field.

        Raises:
            UnreadableReplyError: no field is readable.
        """
        values = _values(output, frozenset(name for name in self.names for name in (name, reasoning_field(name))))
        replies: dict[str, Reply] = {}
        problem: UnreadableReplyError | None = None
        for name, form in self.form:
            fields = {"reasoning": reasoning_field(name), field_of(form): name}
            try:
                replies[name] = validated(
                    {key: values[field] for key, field in fields.items() if field in values}, form
                )
            except UnreadableReplyError as error:
                problem = error
        if not replies and problem is not None:
            raise problem
        return replies

    def _fields(self, max_characters: int) -> dict[str, Any]:
        """Return the shared texts of the material, and each aside under `only_for` and the fields that it belongs to."""
        fields: dict[str, Any] = {}
        names_by_aside: dict[tuple[str, Any], list[str]] = {}
        for name, question in zip(self.names, self.questions, strict=True):
            asides = () if question.rubric is None else question.rubric.asides
            for key, value in shown_fields(question, max_characters).items():
                if key.removesuffix("_characters_left_out") in asides:
                    names_by_aside.setdefault((key, value), []).append(name)
                else:
                    fields[key] = value
        only_for: dict[str, dict[str, Any]] = {}
        for (key, value), names in names_by_aside.items():
            only_for.setdefault(f"only_for {', '.join(names)}", {})[key] = value
        return fields | only_for


def _values(output: object, names: frozenset[str]) -> dict[str, Any]:
    """Return the only object in the output of a model that has one of these fields, without any other field."""
    from langchain_core.messages import AIMessage  # noqa: PLC0415 — heavy

    raw = output.get("raw") if isinstance(output, dict) else output
    parsed = output.get("parsed", output) if isinstance(output, dict) else output
    objects = _objects_in(raw) if isinstance(raw, AIMessage) else [parsed] if isinstance(parsed, dict) else []
    candidates = [value for value in objects if names & value.keys()]
    if len(candidates) != 1:
        raise UnreadableReplyError("unreadable", "the reply was not one JSON object with a field for each criterion")
    if not candidates[0].keys() <= names:
        raise UnreadableReplyError("unreadable", "the reply has a field that is no criterion")
    return candidates[0]


def _objects_in(message: AIMessage) -> list[dict[str, Any]]:
    require_complete(message)
    calls = [call["args"] for call in message.tool_calls if call["name"] == SCHEMA_NAME]
    return calls or list(json_objects(str(message.text)))


def _reply_instructions(form: PanelForm, way: Way, nonce: str) -> str:
    names_by_form: dict[Any, list[str]] = {}
    for name, part in form:
        names_by_form.setdefault(part, []).append(f"`{name}`")
    lines = [
        PANEL["field"].format(names=", ".join(names), allowed=_allowed(part)) for part, names in names_by_form.items()
    ]
    return str(PANEL["reply"].strip().format(form=PANEL["replies"][way], fields="\n".join(lines), nonce=nonce))


def _allowed(form: ReplyForm | None) -> str:
    """Return the allowed values of a verdict, in words; labels are listed in the schema, which models get with a panel."""
    return str(PANEL["label"]) if form is not None and form.kind == "label" else allowed_text(form)


def _criteria(names: Sequence[str], instructions: Sequence[str]) -> Iterator[str]:
    """Yield the text of the criteria, in which what several of them state word by word is stated once."""
    names_by_text: dict[str, list[str]] = {}
    for name, text in zip(names, instructions, strict=True):
        names_by_text.setdefault(text, []).append(name)
    blocks_by_text = {text: list(_blocks(text)) for text in names_by_text}
    users: dict[str, list[str]] = {}
    for text, blocks in blocks_by_text.items():
        for block in dict.fromkeys(map(_normalised, blocks)):
            users.setdefault(block, []).append(text)
    shared = {block for block, texts in users.items() if len(texts) > 1 and len(block) >= _MIN_SHARED}
    yield from _shared_sections(blocks_by_text, users, shared, names_by_text)
    for text, blocks in blocks_by_text.items():
        title = ", ".join(f"`{name}`" for name in names_by_text[text])
        yield f"## {title}\n\n{_joined(block for block in blocks if _normalised(block) not in shared)}"


def _shared_sections(
    blocks_by_text: Mapping[str, Sequence[str]],
    users: Mapping[str, Sequence[str]],
    shared: set[str],
    names_by_text: Mapping[str, Sequence[str]],
) -> Iterator[str]:
    sections: dict[tuple[str, ...], dict[str, str]] = {}
    for blocks in blocks_by_text.values():
        for block in blocks:
            if _normalised(block) in shared:
                sections.setdefault(tuple(users[_normalised(block)]), {}).setdefault(_normalised(block), block)
    for texts, blocks_by_norm in sections.items():
        names = ", ".join(f"`{name}`" for text in texts for name in names_by_text[text])
        title = PANEL["all"] if len(texts) == len(blocks_by_text) else PANEL["some"].format(names=names)
        yield f"## {title}\n\n{_joined(blocks_by_norm.values())}"


def _blocks(text: str) -> Iterator[str]:
    """Yield the paragraphs of a text, and each bullet of a list by itself."""
    for paragraph in re.split(r"\n[ \t]*\n", text):
        yield from re.split(r"\n(?=- )", paragraph) if paragraph.startswith("- ") else [paragraph]


def _normalised(block: str) -> str:
    return " ".join(block.split())


def _joined(blocks: Iterable[str]) -> str:
    """Return blocks as text: bullets one a line, paragraphs with a blank line between them."""
    parts: list[str] = []
    for block in blocks:
        between = "\n" if parts and block.startswith("- ") and parts[-1].startswith("- ") else "\n\n"
        parts += [between, block] if parts else [block]
    return "".join(parts)
