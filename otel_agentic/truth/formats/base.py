"""Case formats: the base class `Format`, the native format, and its JSON Schema."""

from __future__ import annotations

import json
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Any, ClassVar, Final

from pydantic import ValidationError

from otel_agentic.conversations.model import Conversation, ConversationId
from otel_agentic.errors import CaseError
from otel_agentic.truth.formats.located import Item, Parsed, Problem, Unit, located
from otel_agentic.truth.model import Case, describe, found_text

#: Maximum number of problems listed for one file; the number of further ones follows.
_MAX_PROBLEMS: int = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A field that was lost: its case, and the reason."""

    dataset: str
    case_id: str
    field: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The content of a file, in file order.

    `conversations` are present if a foreign file contains the agent's actions in addition to the expectations; each names its
    case. `problems` are sentences with file, line and field; `losses` are fields that a case cannot represent.
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
            CaseError: the file has problems; the message lists them, one per line.
        """
        if self.problems:
            raise CaseError("\n".join(first_problems(self.problems)))
        return self.cases


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The content of one record: the case as a native record, its conversation, and the fields that were skipped.

    `other_id` is the case id to use if another record has the same id but different expectations. `attempt` names the attempt if
    records with equal expectations are attempts at one case; None if the case id alone decides that.
    """

    fields: Mapping[str, Any]
    conversation: Conversation | None = None
    left_out: tuple[str, ...] = ()
    other_id: str | None = None
    attempt: str | None = None


class Format(ABC):
    """A format of records."""

    name: ClassVar[str]

    @abstractmethod
    def fits(self, record: Mapping[str, Any]) -> bool:
        """Return whether a record looks like one of this format."""

    @abstractmethod
    def reading(self, item: Item, number: int) -> Reading:
        """Return a record as a case.

        Args:
            item: the record.
            number: index of the record in the file, 0-based.

        Raises:
            ValidationError: the record violates the format.
        """

    @abstractmethod
    def document(self, cases: Sequence[Case]) -> str:
        """Return the text of a file with the cases, as far as the format can represent them."""

    def sniff(self, document: Sequence[Any]) -> bool:
        """Return whether at least half of the records of a file look like this format."""
        matching = sum(isinstance(record, dict) and self.fits(record) for record in document)
        return 0 < matching and len(document) <= 2 * matching

    def items(self, items: Sequence[Item], name: str) -> Sequence[Item]:  # noqa: ARG002 — used by some formats
        """Return the records of a file, one per case; a format whose cases span several records merges them."""
        return items

    def dataset_of(self, item: Item) -> str | None:
        """Return the dataset that the file names for a record, or None."""
        named = item.header.get("dataset")
        return named if isinstance(named, str) and named else None

    def header_problems(self, items: Sequence[Item]) -> Iterator[Problem]:  # noqa: ARG002 — some formats check it
        """Yield the problems of the fields around the records."""
        return iter(())

    def read(self, parsed: Parsed, name: str) -> Document:
        """Return the content of parsed records; `name` identifies the file in messages."""
        collected = _Collected(name=name, unit=parsed.unit)
        for item, reading, case in self.readings(parsed, name, collected.problems):
            collected.take(case, reading, item.line_of(("case_id",)))
        return collected.document(self.name)

    def readings(self, parsed: Parsed, name: str, problems: list[Problem]) -> Iterator[tuple[Item, Reading, Case]]:
        """Yield each valid record with its case; the problems of the others are appended to `problems`.

        Args:
            parsed: the records of a file.
            name: name of the file.
            problems: the list to which problems are appended.
        """
        problems += [*parsed.problems, *self.header_problems(parsed.items)]
        for number, item in enumerate(self.items(parsed.items, name)):
            if not isinstance(item.value, dict):
                message = f"a case is a JSON object, found {found_text(item.value)}"
                problems.append(Problem(line=item.line_of(()), text=message))
                continue
            try:
                reading = self.reading(item, number)
                case = case_of({"dataset": self.dataset_of(item) or stem(name) or "default", **reading.fields})
            except ValidationError as invalid:
                problems += [
                    Problem(line=item.line_of(error.path), text=located(item.name_of(error.path), error.sentence))
                    for error in describe(invalid)
                ]
                continue
            yield item, reading, case


@dataclass(slots=True, kw_only=True)
class _Collected:
    """Cases and conversations of one file, while it is read."""

    name: str
    unit: Unit
    problems: list[Problem] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    cases: dict[tuple[str, str], tuple[int, Case]] = field(default_factory=dict)
    attempted: dict[tuple[str, str], Case] = field(default_factory=dict)
    conversations: dict[str, Conversation] = field(default_factory=dict)

    def take(self, case: Case, reading: Reading, line: int) -> None:
        """Add a case and the conversation of the same record."""
        conversation = reading.conversation
        if conversation is not None:
            # Several attempts at one task are separate records with equal case content.
            content = content_of(case)
            first_case = self.attempted.setdefault(content, case)
            if first_case is not case:
                self._add_attempt(first_case, conversation)
                return
        if case.key in self.cases and reading.other_id is not None:
            case = case.model_copy(update={"case_id": reading.other_id})
        if case.key in self.cases:
            message = (
                f"case_id: {case.case_id!r} of dataset {case.dataset!r} is already used on {self.unit} "
                f"{self.cases[case.key][0]}; a case_id is unique within a dataset"
            )
            self.problems.append(Problem(line=line, text=message))
            return
        self.cases[case.key] = (line, case)
        self.losses += [
            Loss(dataset=case.dataset, case_id=case.case_id, field=name, reason="cases do not have this field")
            for name in dict.fromkeys(reading.left_out)
        ]
        if conversation is not None:
            self.attempted[content] = case
            self._add_attempt(case, conversation)

    def _add_attempt(self, case: Case, conversation: Conversation) -> None:
        name, number = str(conversation.conversation_id), 1
        if name in self.conversations and conversation.agent_name:
            name = f"{name}/{conversation.agent_name}"
        while name in self.conversations:
            number += 1
            name = f"{conversation.conversation_id}#{number}"
        self.conversations[name] = replace(conversation, conversation_id=ConversationId(name), case_id=case.case_id)

    def document(self, format_name: str) -> Document:
        """Return the collected document."""
        self.problems.sort(key=lambda problem: problem.line)
        return Document(
            name=self.name,
            format=format_name,
            cases=tuple(case for _, case in self.cases.values()),
            conversations=tuple(self.conversations.values()),
            problems=tuple(problem_text(self.name, problem, self.unit) for problem in self.problems),
            losses=tuple(self.losses),
        )


def content_of(case: Case) -> tuple[str, str]:
    """Return dataset and version of a case without its id: equal for cases with equal content."""
    return case.dataset, case.model_copy(update={"case_id": "-"}).version


def case_of(fields: Mapping[str, Any]) -> Case:
    """Return the case of a record.

    Raises:
        ValidationError: the record violates the case format.
    """
    return Case.model_validate_json(json.dumps(fields))


def record_of(case: Case) -> dict[str, Any]:
    """Return a case as a native record, without default values, with its dataset."""
    fields = case.model_dump(mode="json", exclude_defaults=True)
    return {"case_id": case.case_id, "dataset": case.dataset, **fields}


def native_lines(cases: Sequence[Case]) -> str:
    """Return cases as native JSON lines."""
    return "".join(json.dumps(record_of(case), ensure_ascii=False) + "\n" for case in cases)


def stem(name: str) -> str:
    """Return the name of a file without folder and extension: the dataset of cases that name none.

    >>> stem("data/airline.v2.jsonl")
    'airline'
    """
    return name.replace("\\", "/").rsplit("/", 1)[-1].split(".", 1)[0]


def problem_text(name: str, problem: Problem, unit: Unit) -> str:
    """Return the message of a problem, with file and line or row."""
    position = f":{'row ' if unit == 'row' else ''}{problem.line}" if problem.line else ""
    return f"{name}{position}: {problem.text}"


def first_problems(problems: Sequence[str]) -> list[str]:
    """Return the first problems, followed by the number of further ones."""
    more = len(problems) - _MAX_PROBLEMS
    return [*problems[:_MAX_PROBLEMS], *([f"… and {more:,} more problems"] if more > 0 else [])]


#: Fields allowed next to the list of cases.
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

    def header_problems(self, items: Sequence[Item]) -> Iterator[Problem]:
        """Yield the invalid fields next to the list of cases."""
        for item in {id(item.header): item for item in items}.values():
            for key in item.header:
                if key not in _HEADER:
                    message = f"{key}: unknown field next to the cases; allowed: {', '.join(_HEADER)}"
                    yield Problem(line=item.header_line((key,)), text=message)
            dataset = item.header.get("dataset", "-")
            if not (isinstance(dataset, str) and dataset):
                message = f"dataset: found {found_text(dataset)}; allowed: a text that is not empty"
                yield Problem(line=item.header_line(("dataset",)), text=message)

    def document(self, cases: Sequence[Case]) -> str:
        """Return the cases as JSON lines."""
        return native_lines(cases)


class Yaml(Native):
    """Cases as a YAML list."""

    name = "yaml"

    def document(self, cases: Sequence[Case]) -> str:
        """Return the cases as a YAML list."""
        from otel_agentic.truth.formats.yaml_text import write_yaml  # noqa: PLC0415 — only YAML files need PyYAML

        return write_yaml([record_of(case) for case in cases])


_ID: Final = "urn:otel-agentic:case:1"


def field_descriptions() -> dict[str, dict[str, str]]:
    """Return the descriptions of the fields, by model."""
    return tomllib.loads(files(__package__).joinpath("case_fields.toml").read_text("utf-8"))


def case_schema() -> dict[str, Any]:
    """Return the schema of a file of cases: one case, a list of cases, or an object with the list `cases`.

    The models check more than the schema can: a parameter with a match mode but no value, a value that does not fit its mode, a
    tool that is both expected and forbidden. Otherwise schema and models agree.

    Ref: JSON Schema, draft 2020-12.
    """
    descriptions = field_descriptions()
    case = Case.model_json_schema()
    records = {"Case": case, **case.pop("$defs")}
    for name, record in records.items():
        record.pop("title", None)
        for field_name, value in record["properties"].items():
            value.pop("title", None)
            value["description"] = descriptions[name][field_name]
    _refine(records)
    listed = {"type": "array", "items": {"$ref": "#/$defs/Case"}}
    wrapped = {
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
            "then": wrapped,
            "else": {"$ref": "#/$defs/Case"},
        },
        "$defs": records,
    }


def schema_text() -> str:
    """Return the schema as published."""
    return json.dumps(case_schema(), indent=2, ensure_ascii=False) + "\n"


def _refine(records: dict[str, Any]) -> None:
    """Add the rules that the models check in code."""
    expectation = records["ToolExpectation"]
    alternative = {
        **expectation,
        "properties": {name: rule for name, rule in expectation["properties"].items() if name != "alternatives"},
        "description": "Another correct way; alternatives cannot have alternatives.",
    }
    # Within an alternative, only an empty list of alternatives is allowed.
    alternative["properties"]["alternatives"] = {"type": "array", "maxItems": 0}
    expectation["properties"]["alternatives"]["items"] = {"$ref": "#/$defs/Alternative"}
    records["Alternative"] = alternative
    records["MatchRule"]["anyOf"] = [
        {"properties": {"mode": {"const": "number"}}},
        {"properties": {"tolerance": {"const": 0}}},
    ]
    weights = next(form for form in records["Case"]["properties"]["tool_weights"]["anyOf"] if form["type"] == "object")
    weights["not"] = {"additionalProperties": {"const": 0}}
