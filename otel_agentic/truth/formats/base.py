"""Case formats: the base class `Format`, the native format, and its JSON Schema."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pydantic import ValidationError

from otel_agentic.conversations.model import ConversationId
from otel_agentic.errors import CaseError
from otel_agentic.truth.formats.located import Item, Parsed, Trouble, located
from otel_agentic.truth.model import Case, describe, found_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_agentic.conversations.model import Conversation
    from otel_agentic.truth.formats.located import Unit

#: Problems told of one file; past that their number is enough.
_TOLD: int = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A field that did not come along: of which case, and why."""

    dataset: str
    case_id: str
    field: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What a file holds, in its order.

    `conversations` are there where a foreign file holds what an agent did beside what it should have done; each names its
    case. `problems` are sentences with file, line and field; `losses` what a case has no place for.
    """

    name: str
    format: str
    cases: tuple[Case, ...] = ()
    conversations: tuple[Conversation, ...] = ()
    problems: tuple[str, ...] = ()
    losses: tuple[Loss, ...] = ()

    def require(self) -> tuple[Case, ...]:
        """Return the cases.

        Raises:
            CaseError: the file has problems; the message lists them, one a line.
        """
        if self.problems:
            raise CaseError("\n".join(shown(self.problems)))
        return self.cases


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One record, read: the case as a native record, the conversation that it tells of, and what has no place.

    `other_id` is the case id where another record has the first one and expects something else.
    """

    fields: Mapping[str, Any]
    conversation: Conversation | None = None
    left_out: tuple[str, ...] = ()
    other_id: str | None = None


class Format(ABC):
    """A shape of records. `reasons` says of fields that it cannot hold why; the longest path that fits counts."""

    name: ClassVar[str]
    reasons: ClassVar[Mapping[str, str]] = {}

    @abstractmethod
    def fits(self, record: Mapping[str, Any]) -> bool:
        """Return whether a record looks like one of this format."""

    @abstractmethod
    def reading(self, item: Item, number: int) -> Reading:
        """Return a record as a case.

        Args:
            item: the record.
            number: its place among the records of the file, 0-based.

        Raises:
            ValidationError: the record breaks the format.
        """

    @abstractmethod
    def document(self, cases: Sequence[Case]) -> str:
        """Return the text of a file that holds as much of the cases as the format can."""

    def sniff(self, document: Sequence[Any]) -> bool:
        """Return whether at least half of the records of a file look like this format."""
        fitting = sum(isinstance(record, dict) and self.fits(record) for record in document)
        return 0 < fitting and len(document) <= 2 * fitting

    def items(self, items: Sequence[Item], name: str) -> Sequence[Item]:  # noqa: ARG002 — a file of one case is called like it
        """Return the records of a file, one a case: a format may spread a case over several."""
        return items

    def dataset_of(self, item: Item) -> str | None:
        """Return the dataset that the file itself names for a record, None where it names none."""
        named = item.header.get("dataset")
        return named if isinstance(named, str) and named else None

    def troubles(self, items: Sequence[Item]) -> Iterator[Trouble]:  # noqa: ARG002 — some formats look
        """Yield what is wrong with what stands around the records."""
        return iter(())

    def read(self, parsed: Parsed, name: str) -> Document:
        """Return what the records of a file hold; `name` stands in the messages."""
        collected = _Collected(name=name, unit=parsed.unit)
        for item, reading, case in self.readings(parsed, name, collected.troubles):
            collected.take(case, reading, item.place_of(("case_id",)))
        return collected.document(self.name)

    def readings(self, parsed: Parsed, name: str, troubles: list[Trouble]) -> Iterator[tuple[Item, Reading, Case]]:
        """Yield each record that can be read, with the case that it is; what is wrong with others joins the troubles.

        Args:
            parsed: the records of a file.
            name: that of the file.
            troubles: is added to.
        """
        troubles += [*parsed.troubles, *self.troubles(parsed.items)]
        for number, item in enumerate(self.items(parsed.items, name)):
            if not isinstance(item.value, dict):
                told = f"a case is a JSON object, found {found_text(item.value)}"
                troubles.append(Trouble(place=item.place_of(()), text=told))
                continue
            try:
                reading = self.reading(item, number)
                case = case_of({"dataset": self.dataset_of(item) or stem(name) or "default", **reading.fields})
            except ValidationError as error:
                troubles += [
                    Trouble(place=item.place_of(told.path), text=located(item.name_of(told.path), told.sentence))
                    for told in describe(error)
                ]
                continue
            yield item, reading, case


@dataclass(slots=True, kw_only=True)
class _Collected:
    """Cases and conversations of one file, while it is read."""

    name: str
    unit: Unit
    troubles: list[Trouble] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    found: dict[tuple[str, str], tuple[int, Case]] = field(default_factory=dict)
    attempted: dict[tuple[str, str], Case] = field(default_factory=dict)
    conversations: dict[str, Conversation] = field(default_factory=dict)

    def take(self, case: Case, reading: Reading, place: int) -> None:
        """Take a case and the conversation that came with it."""
        made = reading.conversation
        if made is not None:
            # Attempts at one task are told as records of their own: they differ in nothing that a case says.
            content = (case.dataset, case.model_copy(update={"case_id": "-"}).version)
            known = self.attempted.setdefault(content, case)
            if known is not case:
                self._attempt(known, made)
                return
        if case.key in self.found and reading.other_id is not None:
            case = case.model_copy(update={"case_id": reading.other_id})
        if case.key in self.found:
            told = (
                f"case_id: {case.case_id!r} of dataset {case.dataset!r} stands on {self.unit} "
                f"{self.found[case.key][0]} already; a case_id occurs once in a dataset"
            )
            self.troubles.append(Trouble(place=place, text=told))
            return
        self.found[case.key] = (place, case)
        self.losses += [
            Loss(dataset=case.dataset, case_id=case.case_id, field=name, reason="a case has no place for it")
            for name in dict.fromkeys(reading.left_out)
        ]
        if made is not None:
            self.attempted[content] = case
            self._attempt(case, made)

    def _attempt(self, case: Case, made: Conversation) -> None:
        name, number = str(made.conversation_id), 1
        if name in self.conversations and made.agent_name:
            name = f"{name}/{made.agent_name}"
        while name in self.conversations:
            number += 1
            name = f"{made.conversation_id}#{number}"
        self.conversations[name] = replace(made, conversation_id=ConversationId(name), case_id=case.case_id)

    def document(self, format_name: str) -> Document:
        """Return what was collected."""
        self.troubles.sort(key=lambda trouble: trouble.place)
        return Document(
            name=self.name,
            format=format_name,
            cases=tuple(case for _, case in self.found.values()),
            conversations=tuple(self.conversations.values()),
            problems=tuple(said(self.name, trouble, self.unit) for trouble in self.troubles),
            losses=tuple(self.losses),
        )


def case_of(fields: Mapping[str, Any]) -> Case:
    """Return a case made of a record.

    Raises:
        ValidationError: the record breaks the case format.
    """
    return Case.model_validate_json(json.dumps(fields))


def record_of(case: Case) -> dict[str, Any]:
    """Return a case as a native record: what says nothing is left out, its dataset stands in it."""
    fields = case.model_dump(mode="json", exclude_defaults=True)
    return {"case_id": case.case_id, "dataset": case.dataset, **fields}


def native_lines(cases: Sequence[Case]) -> str:
    """Return cases as native JSON lines."""
    return "".join(json.dumps(record_of(case), ensure_ascii=False) + "\n" for case in cases)


def stem(name: str) -> str:
    """Return what a file is called, without folder and ending: the dataset of cases that name none.

    >>> stem("data/airline.v2.jsonl")
    'airline'
    """
    return name.replace("\\", "/").rsplit("/", 1)[-1].split(".", 1)[0]


def said(name: str, trouble: Trouble, unit: Unit) -> str:
    """Return a problem as it is told: with file, and line or row."""
    place = f":{'row ' if unit == 'row' else ''}{trouble.place}" if trouble.place else ""
    return f"{name}{place}: {trouble.text}"


def shown(problems: Sequence[str]) -> list[str]:
    """Return the first problems, and how many more there are."""
    more = len(problems) - _TOLD
    return [*problems[:_TOLD], *([f"… and {more:,} more problems of this kind"] if more > 0 else [])]


#: What may stand beside the list of cases.
_HEADER: Final = ("cases", "dataset", "$schema")


class Native(Format):
    """Cases as JSON lines."""

    name = "native"

    def fits(self, record: Mapping[str, Any]) -> bool:
        """Return whether a record has a case id."""
        return "case_id" in record

    def reading(self, item: Item, number: int) -> Reading:  # noqa: ARG002 — the signature of a format
        """Return the record as it is."""
        return Reading(fields=item.value)

    def troubles(self, items: Sequence[Item]) -> Iterator[Trouble]:
        """Yield the fields beside the list of cases that mean nothing."""
        for item in {id(item.header): item for item in items}.values():
            for key in item.header:
                if key not in _HEADER:
                    told = f"{key}: unknown field beside the cases; allowed: {', '.join(_HEADER)}"
                    yield Trouble(place=item.header_place((key,)), text=told)
            dataset = item.header.get("dataset", "-")
            if not (isinstance(dataset, str) and dataset):
                told = f"dataset: found {found_text(dataset)}; allowed: a text that is not empty"
                yield Trouble(place=item.header_place(("dataset",)), text=told)

    def document(self, cases: Sequence[Case]) -> str:
        """Return the cases as JSON lines."""
        return native_lines(cases)


class Yaml(Native):
    """Cases as YAML: a list."""

    name = "yaml"

    def document(self, cases: Sequence[Case]) -> str:
        """Return the cases as a YAML list."""
        from otel_agentic.truth.formats.located import write_yaml  # noqa: PLC0415 — only YAML files need PyYAML

        return write_yaml([record_of(case) for case in cases])


#: What a schema cannot say about the models, said beside their fields.
FIELDS: Final = {
    "Case": {
        "case_id": "name of the case; occurs once in a dataset",
        "dataset": "dataset that it belongs to; unless given, the one called like the file",
        "tags": "words to group cases by, such as capability, regression, production",
        "agent": "name or glob of the agents that it is for; unless given, all",
        "turns": "what is expected of each turn, in their order",
        "tools": "calls that are expected of the conversation, in whichever turn",
        "outputs": "texts and numbers, each to be said in some answer; numbers compare by value",
        "effects": "whether a tool reads or writes, by name or glob; the most specific pattern wins, write where none fits",
        "goal": "what the user wants to reach",
        "expected_state": "fields that the end state must have",
        "plan": "tools of a good plan, in their order",
        "minimum_steps": "calls that the task takes at least",
        "verdict": "a given label: pass, fail, or a reward, which passes at a threshold",
        "answer_threshold": "answer score at which a turn passes, in place of the setting",
        "tool_threshold": "tool score at which tools are correct, in place of the setting",
        "tool_weights": "weights of the tool dimensions, in place of the setting; those not named weigh nothing",
        "reviewed": "false for a draft made from what an agent did: nothing passes or fails by it",
        "promoted_from": "conversations that a draft was made from",
        "notes": "for people",
    },
    "CaseTurn": {
        "query": "what the user says; conversations are matched by it",
        "answer": "expected answer, or a list of accepted answers, the best of which counts; unless given, the answer is not judged",
        "tools": "calls expected in this turn; unless given, they are not judged",
        "reference_topics": "topics that the agent may talk about",
        "not_answer": "a text that must not be said",
    },
    "ToolExpectation": {
        "calls": "expected calls; an empty list expects none beyond what extra_calls allows",
        "order": "whether their order matters: any, relative to one another, or exact",
        "extra_calls": "what another call means; one rule, or one an effect",
        "forbidden": "names or globs of tools that must not be called",
        "alternatives": "other ways to be right, the best of which counts",
    },
    "ExpectedCall": {
        "tool_name": "name of the tool",
        "parameters": "expected arguments",
        "step": "calls of equal steps belong together; unless given, the place in the list",
        "required": "false for a call that may be made",
        "match": "how a parameter compares; exact unless given",
        "ignore_extra_parameters": "whether arguments beyond the expected ones do not matter",
    },
    "MatchRule": {
        "mode": "how to compare; the value, pattern, list of choices or schema is the parameter's expected value",
        "tolerance": "how far a number may be off, either way",
    },
}
_ID: Final = "urn:otel-agentic:case:1"


def case_schema() -> dict[str, Any]:
    """Return the schema of a file of cases: of one case, a list of them, or an object whose `cases` is one.

    What it allows the models may still refuse: that a parameter has a match mode but no value, that its value does not
    fit the mode, that a tool is both expected and forbidden. Beyond that both agree.

    Ref: JSON Schema, draft 2020-12.
    """
    case = Case.model_json_schema()
    records = {"Case": case, **case.pop("$defs")}
    for name, record in records.items():
        record.pop("title", None)
        for field_name, value in record["properties"].items():
            value.pop("title", None)
            value["description"] = FIELDS[name][field_name]
    _refine(records)
    listed = {"type": "array", "items": {"$ref": "#/$defs/Case"}}
    held = {
        "type": "object",
        "properties": {
            "cases": listed,
            "dataset": {"type": "string", "minLength": 1, "description": "dataset of the cases that name none"},
            "$schema": {"type": "string"},
        },
        "additionalProperties": False,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": _ID,
        "title": "Annotated cases of otel-agentic",
        "if": {"type": "array"},
        "then": listed,
        "else": {
            "if": {"type": "object", "required": ["cases"]},
            "then": held,
            "else": {"$ref": "#/$defs/Case"},
        },
        "$defs": records,
    }


def schema_text() -> str:
    """Return the schema as it is published."""
    return json.dumps(case_schema(), indent=2, ensure_ascii=False) + "\n"


def _refine(records: dict[str, Any]) -> None:
    """Say what the models check in code."""
    expectation = records["ToolExpectation"]
    alternative = {
        **expectation,
        "properties": {name: rule for name, rule in expectation["properties"].items() if name != "alternatives"},
        "description": "Another way to be right; alternatives have none of their own.",
    }
    # A list of no alternatives is allowed where one with some is not.
    alternative["properties"]["alternatives"] = {"type": "array", "maxItems": 0}
    expectation["properties"]["alternatives"]["items"] = {"$ref": "#/$defs/Alternative"}
    records["Alternative"] = alternative
    records["MatchRule"]["anyOf"] = [
        {"properties": {"mode": {"const": "number"}}},
        {"properties": {"tolerance": {"const": 0}}},
    ]
    weights = next(form for form in records["Case"]["properties"]["tool_weights"]["anyOf"] if form["type"] == "object")
    weights["not"] = {"additionalProperties": {"const": 0}}
