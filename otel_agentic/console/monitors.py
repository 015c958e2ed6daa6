"""The page of monitors: the objectives of all groups, and their alarms, which people acknowledge with a note."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from otel_agentic.console.pages import Page
from otel_agentic.console.requests import PERIODS, PageRequest, page_url
from otel_agentic.render.html.reliability import Objectives, evidence_panels
from otel_agentic.results import to_json
from otel_agentic.results.reports import Acknowledged, MonitorList, RaisedAlarm

if TYPE_CHECKING:
    from otel_agentic.commands import Client


#: The largest number of charts; the JSON form of the page has the points of all objectives.
_MAX_CHARTS: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmRow:
    """An alarm and the link to the failed conversations of its group."""

    alarm: RaisedAlarm
    conversations: str


def monitors(client: Client, request: PageRequest) -> Page:
    """Return the objectives with the evidence over time, and the alarms."""
    result = client.get(MonitorList, "monitors", **request.selection())
    panels = list(islice(evidence_panels(result.objectives, result.histories), _MAX_CHARTS))
    return Page(
        template="monitors",
        values={
            "panels": panels,
            "panels_left_out": sum(len(row.end_ns) > 1 for row in result.histories) - len(panels),
            "objectives": Objectives.of(result.objectives) if result.objectives else None,
            "alarms": [AlarmRow(alarm=alarm, conversations=failed_conversations(alarm)) for alarm in result.alarms],
            "here": request.url(),
            "periods": PERIODS,
        },
        payload=result,
        rows=[to_json(alarm) for alarm in result.alarms],
    )


def failed_conversations(alarm: RaisedAlarm) -> str:
    """Return the path of the list of the failed conversations of an alarm's group."""
    return page_url(
        "/conversations",
        agent=alarm.agent,
        agent_version=alarm.agent_version,
        environment=alarm.environment or None,
        outcome="fail",
    )


def acknowledge(client: Client, request: PageRequest) -> str:
    """Record that the annotator has taken note of an alarm; return the link to continue with."""
    client.get(
        Acknowledged,
        "acknowledge_alarm",
        alarm_id=request.required("alarm_id"),
        annotator=request.session.annotator,
        note=request.text("note"),
    )
    return page_url("/monitors")
