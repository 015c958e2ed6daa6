"""The page: a report as one HTML file without external resources, rendered from the Jinja templates in `templates`."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from otel_agentic.cli.html import view
from otel_agentic.cli.html.drawing import drawing
from otel_agentic.cli.render.report_notes import shown_estimates
from otel_agentic.cli.render.report_tables import can_fail, shown_name, shown_threshold, shown_value
from otel_agentic.cli.render.text import moment, percent, plural, printable, ratio

if TYPE_CHECKING:
    from otel_agentic.results.charts import Charts, ConversationOutcomes
    from otel_agentic.results.reports import Report

_FILTERS = (
    view.anchor,
    view.bound,
    view.by_count,
    view.depth,
    view.distance,
    view.evidence,
    view.label_bar,
    view.names,
    view.objective_state,
    view.outcome_counts,
    view.pieces,
    view.share,
    view.shorten,
    view.thousands,
    view.time_of,
    view.width,
    view.words,
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


def page(report: Report, charts: Charts, about: str, conversations: ConversationOutcomes | None = None) -> str:
    """Return a report as an HTML page, in ASCII.

    Args:
        report: the report.
        charts: the data of its charts, the result of `report_pictures`.
        about: the time range of the report, as text.
        conversations: the outcomes of single conversations; None omits their section.
    """
    with drawing():
        content = view.PageView.of(report, charts, about, conversations)
    style = files("otel_agentic.cli.html").joinpath("style.css").read_text(encoding="utf-8")
    template = environment().get_template("page.html.j2")
    text = template.render(view=content, style=style, version=version("otel-agentic"))
    # All other characters become numeric references, so that the page does not depend on the encoding of the output.
    return text.encode("ascii", "xmlcharrefreplace").decode("ascii")


def render(template: str, macro: str, *arguments: object) -> str:
    """Return one part of a page, rendered by a macro of `<template>.html.j2`."""
    return str(getattr(environment().get_template(f"{template}.html.j2").module, macro)(*arguments))


@cache
def environment() -> Environment:
    """Return the environment of the templates, which escapes every value that is not markup of a template."""
    templates = Environment(
        loader=PackageLoader("otel_agentic.cli.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_printable,
    )
    templates.filters |= {function.__name__: function for function in _FILTERS}
    templates.filters |= {"column": view.column_name, "zip": zip}
    templates.globals |= view.GLOBALS
    return templates


def _printable(value: Any) -> Any:
    """Return a value without control characters and direction marks; markup is returned unchanged."""
    if value is None:
        return ""
    return value if hasattr(value, "__html__") else printable(str(value))
