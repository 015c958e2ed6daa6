"""The tools of the demo's agents: real functions over small fixed tables, so that a wrong argument has consequences."""

from __future__ import annotations

from typing import Any, Final

from langchain_core.tools import BaseTool, tool

_TRAINS: Final[dict[tuple[str, str], dict[str, Any]]] = {
    ("Zurich", "Milan"): {"train": "EC 317", "departs": "11:33", "arrives": "14:50"},
    ("Berlin", "Hamburg"): {"train": "ICE 706", "departs": "08:38", "arrives": "10:25"},
    ("Paris", "Lyon"): {"train": "TGV 6607", "departs": "09:58", "arrives": "11:56"},
    ("Vienna", "Rome"): {"train": "NJ 295", "departs": "19:18", "arrives": "09:05"},
}
_SEAT_EUR: Final = {"EC 317": {"second": 48, "first": 81}, "TGV 6607": {"second": 35, "first": 62}}
_BICYCLE_EUR: Final = {"NJ 295": 15}
_WEATHER: Final = {"Hamburg": {"sky": "sunny", "temp_c": 21}}
_ORDER_EUR: Final = {
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
}
#: Routes whose timetable is slow on the first request of a process: that call fails, and the agent tries again.
_COLD: Final = {("Berlin", "Hamburg")}


@tool
def search_trains(origin: str, destination: str, date: str) -> dict[str, Any]:
    """Find the best train between two cities on a day (YYYY-MM-DD)."""
    route = (origin, destination)
    if route in _COLD:
        _COLD.discard(route)
        raise TimeoutError(f"the timetable of {origin} to {destination} took longer than 5 s")
    return {**_TRAINS[route], "date": date}


@tool
def get_weather(city: str, date: str) -> dict[str, Any]:
    """Return the forecast of a city for a day (YYYY-MM-DD)."""
    return {**_WEATHER[city], "city": city, "date": date}


@tool
def book_seat(train: str, date: str, seat_class: str, passengers: int) -> dict[str, Any]:
    """Book seats on a train; `seat_class` is first or second."""
    total = _SEAT_EUR[train][seat_class] * passengers
    return {"booked": True, "train": train, "date": date, "total_eur": total}


@tool
def check_bicycle(train: str) -> dict[str, Any]:
    """Return whether a train takes bicycles, and for how much."""
    return {"train": train, "bicycles": train in _BICYCLE_EUR, "fee_eur": _BICYCLE_EUR.get(train)}


@tool
def lookup_order(order_id: str) -> dict[str, Any]:
    """Return an order."""
    return {"order_id": order_id, "amount_eur": _ORDER_EUR[order_id], "delivered": True}


@tool
def issue_refund(order_id: str, amount_eur: float) -> dict[str, Any]:
    """Pay the amount of an order back."""
    return {"refund_id": f"R-{order_id}", "amount_eur": amount_eur}


TOOLS: Final[dict[str, list[BaseTool]]] = {
    "trip-planner": [search_trains, get_weather, book_seat, check_bicycle],
    "refund-desk": [lookup_order, issue_refund],
}
