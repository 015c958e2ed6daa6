"""The JSON Schema of the case format, made of the models that read it."""

from __future__ import annotations

import json
from typing import Any, Final

from otel_agentic.truth.model import Case

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
        for field, value in record["properties"].items():
            value.pop("title", None)
            value["description"] = FIELDS[name][field]
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
