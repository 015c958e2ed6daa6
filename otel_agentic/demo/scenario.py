"""The conversations of the demo: queries, tool calls and answers of its agents, with their faults.

Conversations are named `CASE-VERSION-ATTEMPT`. The expected behaviour is not in this module but in `cases.jsonl`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

#: The collector's progress: spans stored, conversations closed and scored.
PROGRESS: Final = """
SELECT (SELECT count(*) FROM spans), (SELECT count(*) FROM v_conversations WHERE outcome IS NOT NULL)
"""
#: The outcome of the conversation with the late span, after its new revision is scored.
REVISED: Final = """
SELECT conversation_id, revision, outcome FROM v_conversations
WHERE conversation_id = 'lyon-family-1.0.0-2' AND revision > 1 AND outcome IS NOT NULL
"""


AgentName = Literal["trip-planner", "refund-desk"]

#: The number of attempts of each version of the trip planner at each case.
ATTEMPTS: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call that the scripted model requests."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One response of the scripted model: tool calls, or the answer."""

    text: str = ""
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedTurn:
    """A user's query and the model's responses to it."""

    query: str
    responses: tuple[Response, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedConversation:
    """One conversation; the span of `late_tool` is delayed until the process is asked to send it."""

    conversation_id: str
    turns: tuple[ScriptedTurn, ...]
    late_tool: str | None = None


def conversations(agent: AgentName, version: str) -> list[ScriptedConversation]:
    """Return the conversations of a version of an agent."""
    if agent == "refund-desk":
        return [_refund(order_id, amount, version) for order_id, amount in REFUNDS.items()]
    trips = [
        _trip(case, version, attempt, _SLIPS.get((version, case), ())) for attempt in range(ATTEMPTS) for case in _TRIPS
    ]
    return [*trips, *_unannotated(version)]


def _turn(query: str, answer: str, *calls: Call) -> ScriptedTurn:
    """Return a turn with its calls in sequence and then its answer."""
    requests = tuple(Response(calls=(call,)) for call in calls)
    return ScriptedTurn(query=query, responses=(*requests, Response(text=answer)))


def _search(origin: str, destination: str, date: str) -> Call:
    return Call(name="search_trains", arguments={"origin": origin, "destination": destination, "date": date})


def _book(train: str, date: str, passengers: int, seat_class: str = "second") -> Call:
    arguments = {"train": train, "date": date, "seat_class": seat_class, "passengers": passengers}
    return Call(name="book_seat", arguments=arguments)


_MILAN: Final = (
    _turn(
        "Which train takes me from Zurich to Milan on 2026-05-04 and arrives before 15:00?",
        "Take EC 317: it leaves Zurich at 11:33 and arrives in Milan at 14:50.",
        _search("Zurich", "Milan", "2026-05-04"),
    ),
    _turn(
        "Book two second class seats on it. What do they cost?",
        "Done: two seats on EC 317, 96 euros in all.",
        _book("EC 317", "2026-05-04", 2),
    ),
)
_HAMBURG: Final = (
    _turn(
        "Will it rain in Hamburg on 2026-05-09?",
        "No, it will be sunny at 21 degrees.",
        Call(name="get_weather", arguments={"city": "Hamburg", "date": "2026-05-09"}),
    ),
    _turn(
        "Then find me a train from Berlin that morning.",
        "ICE 706 leaves Berlin at 08:38 and arrives in Hamburg at 10:25.",
        _search("Berlin", "Hamburg", "2026-05-09"),
    ),
)
_LYON: Final = (
    _turn(
        "When is there a train from Paris to Lyon on 2026-05-12 before noon?",
        "TGV 6607 leaves Paris at 09:58 and arrives in Lyon at 11:56.",
        _search("Paris", "Lyon", "2026-05-12"),
    ),
    _turn(
        "Book it for the three of us, second class.",
        "Your seats are booked. Have a good trip!",
        _book("TGV 6607", "2026-05-12", 3),
    ),
)
_ROME: Final = (
    _turn(
        "Can my bicycle come along on the night train from Vienna to Rome on 2026-05-15?",
        "Yes, NJ 295 takes bicycles for 15 euros.",
        _search("Vienna", "Rome", "2026-05-15"),
        Call(name="check_bicycle", arguments={"train": "NJ 295"}),
    ),
)
_TRIPS: Final = {
    "milan-weekend": _MILAN,
    "hamburg-picnic": _HAMBURG,
    "lyon-family": _LYON,
    "night-train-bicycle": _ROME,
}

# A fault: the index of the turn, and the faulty turn that replaces it.
_Slip = tuple[int, ScriptedTurn]
_WRONG_SUM: Final[_Slip] = (
    1,
    _turn(_MILAN[1].query, "Done: two seats on EC 317, 69 euros in all.", _book("EC 317", "2026-05-04", 2)),
)
_FIRST_CLASS_TO_MILAN: Final[_Slip] = (
    1,
    _turn(_MILAN[1].query, "Done: two seats on EC 317, 162 euros in all.", _book("EC 317", "2026-05-04", 2, "first")),
)
_WEATHER_FROM_MEMORY: Final[_Slip] = (
    0,
    _turn(_HAMBURG[0].query, "Yes, take an umbrella: Hamburg is rainy at 12 degrees in May."),
)
_FIRST_CLASS_TO_LYON: Final[_Slip] = (
    1,
    _turn(_LYON[1].query, _LYON[1].responses[-1].text, _book("TGV 6607", "2026-05-12", 3, "first")),
)
_ONE_SEAT_TO_LYON: Final[_Slip] = (
    1,
    _turn(_LYON[1].query, _LYON[1].responses[-1].text, _book("TGV 6607", "2026-05-12", 1)),
)
_BICYCLE_FROM_MEMORY: Final[_Slip] = (
    0,
    _turn(
        _ROME[0].query, "No, NJ 295 takes no bicycles, as most night trains.", _search("Vienna", "Rome", "2026-05-15")
    ),
)
#: By version and case: the faults of the first attempts; later attempts are correct.
_SLIPS: Final[Mapping[tuple[str, str], Sequence[_Slip]]] = {
    ("1.0.0", "milan-weekend"): (_WRONG_SUM,),
    ("1.1.0", "milan-weekend"): (_FIRST_CLASS_TO_MILAN,) * 3,
    ("1.1.0", "hamburg-picnic"): (_WEATHER_FROM_MEMORY,) * 2,
    ("1.1.0", "lyon-family"): (*(_FIRST_CLASS_TO_LYON,) * 3, _ONE_SEAT_TO_LYON),
    ("1.1.0", "night-train-bicycle"): (_BICYCLE_FROM_MEMORY,) * 2,
}
#: The conversation with a tool span that arrives after it was closed, and the tool.
_LATE: Final = ("lyon-family-1.0.0-2", "book_seat")

#: Amounts of the orders that are refunded, in euros, as an agent writes them.
REFUNDS: Final = {
    "1001": 24.90,
    "1002": 89.00,
    "1003": 15.50,
    "1004": 230.00,
    "1005": 42.75,
    "1006": 67.20,
    "1007": 11.99,
    "1008": 150.00,
    "1009": 33.40,
    "1010": 78.10,
    "1011": 19.95,
    "1012": 54.30,
    "1013": 120.00,
    "1014": 8.49,
    "1015": 36.80,
    "1016": 99.90,
    "1017": 62.15,
    "1018": 47.25,
    "1019": 205.50,
    "1020": 13.70,
    "1021": 71.60,
    "1022": 28.35,
    "1023": 88.88,
    "1024": 164.20,
    "1025": 31.45,
    "1026": 57.90,
    "1027": 22.10,
    "1028": 140.75,
    "1029": 9.99,
    "1030": 83.30,
    "1031": 45.60,
    "1032": 17.85,
    "1033": 110.40,
    "1034": 66.66,
    "1035": 38.20,
    "1036": 92.75,
    "1037": 26.50,
    "1038": 59.95,
    "1039": 181.00,
    "1040": 12.30,
}


def _trip(case: str, version: str, attempt: int, slips: Sequence[_Slip]) -> ScriptedConversation:
    turns = list(_TRIPS[case])
    if attempt < len(slips):
        index, turn = slips[attempt]
        turns[index] = turn
    name = f"{case}-{version}-{attempt + 1}"
    late_tool = _LATE[1] if name == _LATE[0] else None
    return ScriptedConversation(conversation_id=name, turns=tuple(turns), late_tool=late_tool)


def _unannotated(version: str) -> Iterator[ScriptedConversation]:
    """Yield a conversation without a case: it lowers the coverage, but is not a failure."""
    if version == "1.0.0":
        turn = _turn("Which seat has the best view?", "On most trains, a window seat on the lake side.")
        yield ScriptedConversation(conversation_id=f"small-talk-{version}-1", turns=(turn,))


def _refund(order_id: str, amount: float, version: str) -> ScriptedConversation:
    turn = _turn(
        f"Order {order_id} arrived broken. I want my money back.",
        f"I am sorry. I refunded {amount:.2f} euros for order {order_id}.",
        Call(name="lookup_order", arguments={"order_id": order_id}),
        Call(name="issue_refund", arguments={"order_id": order_id, "amount_eur": amount}),
    )
    return ScriptedConversation(conversation_id=f"refund-{order_id}-{version}-1", turns=(turn,))
