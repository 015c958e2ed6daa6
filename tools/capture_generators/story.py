"""The conversations at the travel desk: the truth that every capture is recorded from and compared with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any, Final

from tools.capture_generators.shapes import Call, Conversation, Turn
from tools.capture_generators.tools import AGENT, REFUND_TOOLS, REFUNDS, TOOLS
from tools.capture_generators.truth import expected

__all__ = [
    "AGENT",
    "INSTRUCTIONS",
    "REFUNDS",
    "REFUND_INSTRUCTIONS",
    "REFUND_TOOLS",
    "STORY",
    "TOOLS",
    "TRANSFER",
    "Call",
    "Conversation",
    "Turn",
    "delegation",
    "expected",
    "interleaved",
    "keyed_turns",
    "transfer",
]

INSTRUCTIONS: Final = "You are atlas, the travel desk. Use the tools; never guess a price or a time."
REFUND_INSTRUCTIONS: Final = "You are refunds. You pay bookings back."


_SEATS: Final = "How many seats are left in coach 2 of RJ-63?"
_WISHES: Final = {"floor": 3, "quiet": True, "beds": [{"width_cm": 90, "count": 2}], "note": "près du château"}

STORY: Final = (
    Conversation(
        "trip-alps",
        (
            Turn(query="Hello! What can you do?", answer="I look up trains, rooms and prices for you 🚆."),
            Turn(
                query="What do 3 nights at 120.5 euros cost, shared by 2 people?",
                steps=(
                    (Call("multiply", {"price": 120.5, "count": 3}, 361.5),),
                    (Call("split", {"amount": 361.5, "people": 2}, 180.75),),
                ),
                answer="3 nights cost 361.5 euros, that is 180.75 each.",
            ),
            Turn(
                query="When are the next trains from Zürich to München and to Genève?",
                steps=(
                    (
                        Call(
                            "next_train",
                            {"origin": "Zürich", "destination": "München"},
                            {"train": "EC-97", "leaves": "09:33", "platform": 8},
                        ),
                        Call(
                            "next_train",
                            {"origin": "Zürich", "destination": "Genève"},
                            {"train": "IC-5", "leaves": "09:02", "platform": 14},
                        ),
                    ),
                ),
                answer="München: EC-97 at 09:33, platform 8. Genève: IC-5 at 09:02, platform 14.",
            ),
        ),
    ),
    Conversation(
        "trip-east",
        (
            Turn(
                query="Which station do I need in 京都?",
                steps=((Call("find_station", {"city": "京都"}, "京都駅 (Kyoto Station), north exit"),),),
                answer="You need 京都駅, the north exit.",
            ),
            Turn(
                query="Is a seat free in coach 14 of EC-8?",
                steps=(
                    (Call("seats_left", {"train": "EC-8", "coach": 14}, error="EC-8 has no coach 14"),),
                    (Call("seats_left", {"train": "EC-8", "coach": 4}, 7),),
                ),
                answer="EC-8 has no coach 14, but coach 4 has 7 free seats.",
            ),
            Turn(
                query="Book quiet rooms in Kraków for Łukasz and Zoë, please.",
                steps=(
                    (
                        Call(
                            "book_rooms",
                            {"city": "Kraków", "guests": ["Łukasz", "Zoë"], "wishes": _WISHES},
                            {
                                "booking": "B-29",
                                "city": "Kraków",
                                "rooms": [{"guest": "Łukasz", "floor": 3}, {"guest": "Zoë", "floor": 3}],
                            },
                        ),
                    ),
                ),
                answer="Booked as B-29: two quiet rooms on floor 3.",
            ),
        ),
    ),
    Conversation(
        "trip-family",
        (
            Turn(
                query=_SEATS,
                steps=((Call("seats_left", {"train": "RJ-63", "coach": 2}, 12),),),
                answer="There are 12 seats left.",
            ),
            Turn(
                query=_SEATS,
                steps=((Call("seats_left", {"train": "RJ-63", "coach": 2}, 12),),),
                answer="I looked again: still 12.",
            ),
            Turn(
                query="For 4 people: a train at 79.5 each or a flight at 95 each?",
                steps=(
                    (
                        Call("multiply", {"price": 79.5, "count": 4}, 318.0),
                        Call("multiply", {"price": 95, "count": 4}, 380),
                    ),
                    (Call("split", {"amount": 62, "people": 4}, 15.5),),
                ),
                answer="The train: 318 instead of 380 euros, so each of you saves 15.5.",
            ),
        ),
    ),
)

_REFUND: Final = Call("refund", {"booking": "B-17"}, {"booking": "B-17", "euros": 49.9, "to": "card"}, agent=REFUNDS)
_MISSED: Final = "I missed my train. Can I have the money for booking B-17 back?"
_PAID: Final = "Done: 49.9 euros for B-17 are on their way to your card."
_TWICE: Final = "And two of these would be?"


def transfer(name: str = "transfer_to_refunds", arguments: dict[str, Any] | None = None) -> Conversation:
    """Return a conversation that is handed off to the agent `refunds` by a call of `name`, and stays there."""
    handoff = Call(name, arguments or {}, kind="handoff")
    twice = Call("multiply", {"price": 49.9, "count": 2}, 99.8, agent=REFUNDS)
    return Conversation(
        "trip-refund",
        (
            Turn(query=_MISSED, steps=((handoff,), (_REFUND,)), answer=_PAID),
            Turn(query=_TWICE, steps=((twice,),), answer="Two of these are 99.8 euros."),
        ),
    )


def delegation(name: str = REFUNDS, argument: str = "request") -> Conversation:
    """Return a conversation in which the agent `refunds` is the tool `name`, with one text argument."""
    inner = Turn(query="Pay booking B-17 back.", steps=((_REFUND,),), answer="B-17 is paid back: 49.9 euros.")
    call = Call(name, {argument: inner.query}, inner.answer, kind="sub_agent", inner=inner)
    twice = Call("multiply", {"price": 49.9, "count": 2}, 99.8)
    return Conversation(
        "trip-refund",
        (
            Turn(query=_MISSED, steps=((call,),), answer=_PAID),
            Turn(query=_TWICE, steps=((twice,),), answer="Two of these are 99.8 euros."),
        ),
    )


#: A fourth conversation, for frameworks that can hand off.
TRANSFER: Final = transfer()


def interleaved(conversations: Iterable[Conversation]) -> Iterator[tuple[int, int, Turn]]:
    """Yield conversation index, turn index and turn: all first turns, then all second ones, and so on."""
    columns = zip_longest(*(conversation.turns for conversation in conversations))
    for turn_index, column in enumerate(columns):
        for index, turn in enumerate(column):
            if turn is not None:
                yield index, turn_index, turn


def keyed_turns(conversations: Iterable[Conversation]) -> Iterator[tuple[str, Turn]]:
    """Yield every turn with a key of its own: `2_3` is the third of the second conversation, `4_1_1_1` a sub-agent's."""
    for c, conversation in enumerate(conversations, 1):
        for t, turn in enumerate(conversation.turns, 1):
            yield f"{c}_{t}", turn
            for s, step in enumerate(turn.steps, 1):
                for i, call in enumerate(step, 1):
                    if call.inner:
                        yield f"{c}_{t}_{s}_{i}", call.inner
