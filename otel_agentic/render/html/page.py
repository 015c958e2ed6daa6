"""The page: a report as one HTML file without external resources, rendered from the Jinja templates in `templates`."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from otel_agentic.render.html import failures, filters, reliability
from otel_agentic.render.html.sections import PageView
from otel_agentic.render.report_notes import shown_estimates
from otel_agentic.render.report_tables import (
    NOTHING_FOUND,
    can_fail,
    shown_name,
    shown_threshold,
    shown_value,
)
from otel_agentic.render.text import NOTHING, moment, percent, plural, printable, ratio

if TYPE_CHECKING:
    from otel_agentic.results.charts import Charts, ConversationOutcomes
    from otel_agentic.results.conversations import ConversationDetails
    from otel_agentic.results.reports import Report

#: Notes on single groups are collapsed if there are more than this many.
_MAX_NOTES = 8
_FILTERS = (
    filters.anchor,
    filters.bound,
    filters.by_count,
    filters.evidence,
    filters.filled_bar,
    filters.interval_bars,
    filters.label_bar,
    filters.loss,
    filters.names,
    filters.outcome_counts,
    filters.pieces,
    filters.reach,
    filters.share_bars,
    filters.shorten,
    filters.thousands,
    filters.time_of,
    filters.words,
    reliability.objective_state,
    can_fail,
    moment,
    percent,
    plural,
    ratio,
    shown_estimates,
    shown_name,
    shown_threshold,
    shown_value,
)
_CONSTANTS = {
    "bands": list(failures.BANDS),
    "change_limit": reliability.CHANGE_LIMIT,
    "dash": NOTHING,
    "few_conversations": failures.FEW_CONVERSATIONS,
    "few_rows": failures.FEW_ROWS,
    "id_limit": filters.ID_LIMIT,
    "name_limit": filters.NAME_LIMIT,
    "note_limit": _MAX_NOTES,
    "nothing_found": NOTHING_FOUND,
    "outcomes": filters.OUTCOMES,
    "scale": (1.0, 0.95, 0.9, 0.75, 0.5, 0.25, 0.0),
    "severity_signs": filters.SEVERITY_SIGNS,
    "tiers": {name: style for name, style in filters.TIERS.items() if name},
    "tier_styles": filters.TIERS,
    "value_limit": filters.VALUE_LIMIT,
}


def page(
    report: Report,
    charts: Charts,
    about: str,
    conversations: ConversationOutcomes | None = None,
    details: Sequence[ConversationDetails] = (),
) -> str:
    """Return a report as an HTML page, in ASCII.

    Args:
        report: the report.
        charts: the data of its charts, the result of `report_pictures`.
        about: the time range of the report, as text.
        conversations: the outcomes of single conversations; None omits their section.
        details: conversations that the page contains with their turns, to which their ids link.
    """
    view = PageView.of(report, charts, about, outcomes=conversations, details=details)
    template = environment().get_template("report.html.j2")
    text = template.render(view=view, style_hash=style_hash(), version=version("otel-agentic"))
    # All other characters become numeric references, so that the page does not depend on the encoding of the output.
    return text.encode("ascii", "xmlcharrefreplace").decode("ascii")


@cache
def style_hash() -> str:
    """Return the hash by which a browser accepts the style of the page, and no other style."""
    style = environment().get_template("style.css").render()
    return f"sha256-{b64encode(sha256(style.encode()).digest()).decode()}"


def render(template: str, macro: str, *arguments: object) -> str:
    """Return one part of a page, rendered by a macro of `<template>.html.j2`."""
    return str(getattr(environment().get_template(f"{template}.html.j2").module, macro)(*arguments))


@cache
def environment() -> Environment:
    """Return the environment of the templates, which escapes every value that is not markup of a template."""
    templates = Environment(
        loader=PackageLoader("otel_agentic.render.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_printable,
    )
    templates.filters |= {function.__name__: function for function in _FILTERS}
    templates.filters |= {"column": filters.column_name, "zip": zip}
    templates.globals |= _CONSTANTS
    return templates


def _printable(value: Any) -> Any:
    """Return a value without control characters and direction marks; markup is returned unchanged."""
    if value is None:
        return ""
    return value if hasattr(value, "__html__") else printable(str(value))
