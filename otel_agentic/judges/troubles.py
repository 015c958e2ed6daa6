"""What went wrong with a call of a model: whether another try may help, and when. Knows no provider by name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from otel_agentic.judges.replies import UnreadableReplyError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_agentic.judges.base import FailureKind

#: `again`: may pass. `reply`: the model replied, but not with a verdict. `unable`: the model cannot be asked this way.
#: `refused`: the provider wants other credentials or money. `long`: this question is longer than the model reads. `final`: it
#: will not get better.
Kind = Literal["again", "reply", "unable", "refused", "long", "final"]
#: What each is a failure of.
_FAILURES: Final[Mapping[Kind, FailureKind]] = {"again": "outage", "refused": "refused", "long": "question"}

_CREDENTIALS: Final = frozenset({401, 402, 403})
_AGAIN: Final = frozenset({408, 409, 425, 429})
#: Statuses with which providers say that a model knows no response format, or no tools.
_UNABLE: Final = frozenset({400, 404, 405, 415, 422, 500, 501})
_CLIENT_ERROR, _SERVER_ERROR, _STATUS_END = 400, 500, 600

#: How providers name what a way of asking needs, and how they say that it is missing.
_WAY: Final = re.compile(
    r"response_?format|json_?schema|\bschema\b|structured|guided|grammar|\btools?\b|tool_choice|function|"
    r"\bm(?:in|ax)Items\b|['\"`]m(?:in|ax)imum['\"`]",
    re.IGNORECASE,
)
_MISSING: Final = re.compile(
    r"support|unknown|unrecogni[sz]ed|unexpected|not (?:allowed|permitted|implemented|available|enabled)|extra|"
    r"invalid|requires|enable",
    re.IGNORECASE,
)
_MONEY: Final = re.compile(r"insufficient[ _](?:quota|balance|funds|credits?)|credit balance", re.IGNORECASE)
_MAX_TOLD: Final = 300

#: What clients raise over a reply that they understand, but do not hand on.
_UNDERSTOOD: Final = {
    "LengthFinishReasonError": "the reply was cut short by its length limit",
    "ContentFilterFinishReasonError": "the model refused to reply (content filter)",
}
#: What clients raise over a reply that they do not understand.
_NOT_UNDERSTOOD: Final = (ValueError, TypeError, AttributeError, LookupError)
#: LangChain's own words for what will not get better, and for a question that is too long.
_FINAL: Final = frozenset({"ModelNotFoundError", "ModelInvalidRequestError"})
_TOO_LONG: Final = "ContextOverflowError"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Why a call gave no verdict. `wait_s` is what the provider asks to wait for, None where it does not."""

    kind: Kind
    told: str
    wait_s: float | None = None

    @property
    def failure(self) -> FailureKind:
        """What it is a failure of, should no other try help."""
        return _FAILURES.get(self.kind, "prompt")


def trouble_of(error: Exception, secrets: Sequence[str] = (), now: datetime | None = None) -> Trouble:
    """Return what an exception of a model's client means.

    Args:
        error: whatever came out of the client.
        secrets: what is never to be repeated.
        now: the present, for a `Retry-After` that is a date; None takes the clock.

    >>> trouble_of(TimeoutError("no reply within 60 s"))
    Trouble(kind='again', told='no reply within 60 s', wait_s=None)
    """
    text = " ".join(str(error).split()) or type(error).__name__
    for secret in secrets:
        text = text.replace(secret, "***")
    status = _status(error)
    wait_s: float | None
    kind: Kind
    if any(each.__name__ == _TOO_LONG for each in type(error).__mro__):
        kind, wait_s = "long", None
    elif status is None:
        kind, wait_s = _kind_of(error, text), None
    else:
        kind, wait_s = _kind_of_status(status, text), _retry_after_s(error, now or datetime.now(UTC))
    told = _named(error, text, status)
    return Trouble(kind=kind, told=told if len(told) <= _MAX_TOLD else told[: _MAX_TOLD - 1] + "…", wait_s=wait_s)


def _kind_of_status(status: int, text: str) -> Kind:
    if status in _CREDENTIALS or _MONEY.search(text):
        return "refused"
    if status in _UNABLE and _lacks_a_way(text):
        return "unable"
    return "again" if status in _AGAIN or status >= _SERVER_ERROR else "final"


def _kind_of(error: Exception, text: str) -> Kind:
    """Return what an error without an HTTP status means; one that nobody knows may pass."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if isinstance(error, UnreadableReplyError) or names & _UNDERSTOOD.keys():
        return "reply"
    if isinstance(error, NotImplementedError):
        return "unable"
    if any("Authentication" in name or "PermissionDenied" in name for name in names):
        return "refused"
    if names & _FINAL:
        return "final"
    if not isinstance(error, _NOT_UNDERSTOOD):
        return "again"
    return "unable" if _lacks_a_way(text) else "reply"


def _lacks_a_way(text: str) -> bool:
    return bool(_WAY.search(text) and _MISSING.search(text))


def _status(error: Exception) -> int | None:
    """Return the HTTP status of an error, None where it has none."""
    response = getattr(error, "response", None)
    places = [getattr(error, name, None) for name in ("status_code", "http_status", "code", "status")]
    places.append(getattr(response, "status_code", None))
    if isinstance(response, dict):  # as botocore has it
        places.append(response.get("ResponseMetadata", {}).get("HTTPStatusCode"))
    found = (each for each in places if isinstance(each, int) and _CLIENT_ERROR <= each < _STATUS_END)
    return next((int(each) for each in found), None)


def _named(error: Exception, text: str, status: int | None) -> str:
    """Return the text of an error with what it is."""
    if status is not None:
        return text if str(status) in text[:40] else f"HTTP {status}: {text}"
    if isinstance(error, (TimeoutError, UnreadableReplyError, NotImplementedError)):
        return text
    name = type(error).__name__
    if isinstance(error, _NOT_UNDERSTOOD):
        return f"the reply could not be read: {name}: {text}"
    return _UNDERSTOOD.get(name) or f"{name}: {text}{_why(error)}"


def _why(error: BaseException) -> str:
    """Return the first cause of an error in brackets; clients wrap what the network said several times."""
    root = error
    while root.__cause__ is not None:
        root = root.__cause__
    return "" if root is error else f" ({type(root).__name__}: {root})".replace(": )", ")")


def _retry_after_s(error: Exception, now: datetime) -> float | None:
    """Return how many seconds a provider asks to wait for; None where it does not say, or nonsense."""
    headers: Mapping[str, str] | Any = getattr(getattr(error, "response", None), "headers", None)
    if not hasattr(headers, "get"):
        return None
    thousandths = _seconds(headers.get("retry-after-ms"))
    if thousandths is not None:
        return thousandths / 1000
    said = headers.get("retry-after")
    seconds = _seconds(said)
    return seconds if seconds is not None else _until(said, now)


def _seconds(text: object) -> float | None:
    return float(text) if isinstance(text, str) and re.fullmatch(r"\s*\d{1,12}(?:\.\d{1,9})?\s*", text) else None


def _until(text: object, now: datetime) -> float | None:
    try:
        then = parsedate_to_datetime(str(text))
    except (ValueError, IndexError, TypeError):
        return None
    return max(0.0, ((then if then.tzinfo else then.replace(tzinfo=UTC)) - now).total_seconds())
