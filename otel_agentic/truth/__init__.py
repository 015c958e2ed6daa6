"""Annotated ground truth: cases, labels, and which conversation is an attempt of which case."""

from otel_agentic.truth.load import Label, LabelFile, parse_cases, parse_labels, read_cases, read_labels
from otel_agentic.truth.match import CaseIndex, Match, MatchMethod
from otel_agentic.truth.model import Case, CaseTurn, ExpectedCall, MatchRule, ToolExpectation

__all__ = [
    "Case",
    "CaseIndex",
    "CaseTurn",
    "ExpectedCall",
    "Label",
    "LabelFile",
    "Match",
    "MatchMethod",
    "MatchRule",
    "ToolExpectation",
    "parse_cases",
    "parse_labels",
    "read_cases",
    "read_labels",
]
