"""The tools of the travel desk: plain functions, which every framework can wrap.

Annotations are evaluated at once here: some frameworks read them from the function and cannot resolve text.
"""

from collections.abc import Callable
from typing import Any, Final

#: The names of the travel desk's agent and of the one that it can reach.
AGENT: Final = "atlas"
REFUNDS: Final = "refunds"

_COACHES: Final = {("EC-8", 4): 7, ("RJ-63", 2): 12}
_STATIONS: Final = {"京都": "京都駅 (Kyoto Station), north exit", "Łódź": "Łódź Fabryczna"}
_TRAINS: Final = {
    ("Zürich", "München"): {"train": "EC-97", "leaves": "09:33", "platform": 8},
    ("Zürich", "Genève"): {"train": "IC-5", "leaves": "09:02", "platform": 14},
}
_REFUNDS: Final = {"B-17": {"booking": "B-17", "euros": 49.9, "to": "card"}}


def multiply(price: float, count: int) -> float:
    """Multiply a price by a count.

    Args:
        price: The price of one, in euros.
        count: How many there are.

    Returns:
        The price of all, in euros.
    """
    return price * count


def split(amount: float, people: int) -> float:
    """Split an amount between people.

    Args:
        amount: The amount, in euros.
        people: How many people share it.

    Returns:
        What each of them pays, in euros.
    """
    return amount / people


def find_station(city: str) -> str:
    """Find the main station of a city.

    Args:
        city: The name of the city.

    Returns:
        The name of the station.
    """
    return _STATIONS[city]


def next_train(origin: str, destination: str) -> dict[str, Any]:
    """Look up the next direct train between two cities.

    Args:
        origin: The city where it leaves.
        destination: The city where it arrives.

    Returns:
        The train, the time and the platform.
    """
    return dict(_TRAINS[origin, destination])


def seats_left(train: str, coach: int) -> int:
    """Count the free seats in a coach of a train.

    Args:
        train: The number of the train.
        coach: The number of the coach.

    Returns:
        How many seats are free.
    """
    if (train, coach) not in _COACHES:
        raise ValueError(f"{train} has no coach {coach}")
    return _COACHES[train, coach]


def book_rooms(city: str, guests: list[str], wishes: dict[str, Any]) -> dict[str, Any]:
    """Book rooms in a city.

    Args:
        city: The city to stay in.
        guests: The names of the guests.
        wishes: What the guests want, by subject.

    Returns:
        The booking.
    """
    return {"booking": "B-29", "city": city, "rooms": [{"guest": guest, "floor": wishes["floor"]} for guest in guests]}


def refund(booking: str) -> dict[str, Any]:
    """Pay a booking back.

    Args:
        booking: The number of the booking.

    Returns:
        The refunded amount and its recipient.
    """
    return dict(_REFUNDS[booking])


#: What the travel desk's agent has.
TOOLS: Final[tuple[Callable[..., Any], ...]] = (multiply, split, find_station, next_train, seats_left, book_rooms)
#: What the agent `refunds` has.
REFUND_TOOLS: Final[tuple[Callable[..., Any], ...]] = (refund, multiply)
