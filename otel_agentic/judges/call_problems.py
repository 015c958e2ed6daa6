"""Problems of calls of a model: classes of the errors that clients of providers raise, and requested waiting times."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from otel_agentic.judges.messages import UnreadableReplyError

if TYPE_CHECKING:
    from otel_agentic.judges.base import FailureKind

#: `again`: possibly temporary. `reply`: the model replied, but without a verdict. `unable`: the model does not support this
#: method. `refused`: the provider wants other credentials or money. `long`: this question exceeds the model's context.
#: `final`: permanent.
Kind = Literal["again", "reply", "unable", "refused", "long", "final"]
#: Kind of problem -> kind of judge failure, `prompt` for all others.
_FAILURES: Final[Mapping[Kind, FailureKind]] = {"again": "outage", "refused": "refused", "long": "question"}

_CREDENTIALS: Final = frozenset({401, 402, 403})
_AGAIN: Final = frozenset({408, 409, 425, 429})
#: HTTP statuses with which providers report that a model does not support a response format or tools.
_UNABLE: Final = frozenset({400, 404, 405, 415, 422, 500, 501})
_CLIENT_ERROR, _SERVER_ERROR, _STATUS_END = 400, 500, 600

#: Words with which providers name the requirements of a method, and with which they report that these are missing.
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
_MAX_MESSAGE: Final = 300

#: Errors that clients raise for a reply that they understand but do not return.
_UNDERSTOOD: Final = {
    "LengthFinishReasonError": "the reply was cut short by its length limit",
    "ContentFilterFinishReasonError": "the model refused to reply (content filter)",
}
#: Errors that clients raise for a reply that they do not understand.
_NOT_UNDERSTOOD: Final = (ValueError, TypeError, AttributeError, LookupError)
#: Permanent errors of LangChain, and its error for a question that is too long.
_FINAL: Final = frozenset({"ModelNotFoundError", "ModelInvalidRequestError"})
_TOO_LONG: Final = "ContextOverflowError"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallProblem:
    """Why a call returned no verdict. `wait_s` is the waiting time requested by the provider, or None."""

    kind: Kind
    message: str
    wait_s: float | None = None

    @property
    def failure(self) -> FailureKind:
        """The kind of judge failure, if no other try helps."""
        return _FAILURES.get(self.kind, "prompt")


def problem_of(error: Exception, secrets: Sequence[str] = (), now: datetime | None = None) -> CallProblem:
    """Classify an exception of a model's client.

    Args:
        error: any exception of the client.
        secrets: texts that must not be repeated.
        now: the current time, used for a `Retry-After` with a date; None uses the clock.

    >>> problem_of(TimeoutError("no reply within 60 s"))
    CallProblem(kind='again', message='no reply within 60 s', wait_s=None)
    """
    text = " ".join(str(error).split()) or type(error).__name__
    for secret in secrets:
        text = text.replace(secret, "***")
    status = _status(error)
    wait_s: float | None
    kind: Kind
    if any(base.__name__ == _TOO_LONG for base in type(error).__mro__):
        kind, wait_s = "long", None
    elif status is None:
        kind, wait_s = _kind_of(error, text), None
    else:
        kind, wait_s = _kind_of_status(status, text), _requested_wait_s(error, now or datetime.now(UTC))
    message = _message_for(error, text, status)
    message = message if len(message) <= _MAX_MESSAGE else message[: _MAX_MESSAGE - 1] + "…"
    return CallProblem(kind=kind, message=message, wait_s=wait_s)


def _kind_of_status(status: int, text: str) -> Kind:
    if status in _CREDENTIALS or _MONEY.search(text):
        return "refused"
    if status in _UNABLE and _reports_unsupported_method(text):
        return "unable"
    return "again" if status in _AGAIN or status >= _SERVER_ERROR else "final"


def _kind_of(error: Exception, text: str) -> Kind:
    """Return the kind of an error without an HTTP status; unknown errors may be temporary."""
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
    return "unable" if _reports_unsupported_method(text) else "reply"


def _reports_unsupported_method(text: str) -> bool:
    return bool(_WAY.search(text) and _MISSING.search(text))


def _status(error: Exception) -> int | None:
    """Return the HTTP status of an error, or None if it has no status."""
    response = getattr(error, "response", None)
    candidates = [getattr(error, name, None) for name in ("status_code", "http_status", "code", "status")]
    candidates.append(getattr(response, "status_code", None))
    if isinstance(response, dict):  # botocore
        candidates.append(response.get("ResponseMetadata", {}).get("HTTPStatusCode"))
    statuses = (status for status in candidates if isinstance(status, int) and _CLIENT_ERROR <= status < _STATUS_END)
    return next((int(status) for status in statuses), None)


def _message_for(error: Exception, text: str, status: int | None) -> str:
    """Return the text of an error with its status or type."""
    if status is not None:
        return text if str(status) in text[:40] else f"HTTP {status}: {text}"
    if isinstance(error, (TimeoutError, UnreadableReplyError, NotImplementedError)):
        return text
    name = type(error).__name__
    if isinstance(error, _NOT_UNDERSTOOD):
        return f"the reply could not be read: {name}: {text}"
    return _UNDERSTOOD.get(name) or f"{name}: {text}{_root_cause(error)}"


def _root_cause(error: BaseException) -> str:
    """Return the root cause of an error in brackets, because clients wrap network errors several times."""
    root = error
    while root.__cause__ is not None:
        root = root.__cause__
    return "" if root is error else f" ({type(root).__name__}: {root})".replace(": )", ")")


def _requested_wait_s(error: Exception, now: datetime) -> float | None:
    headers: Mapping[str, str] | Any = getattr(getattr(error, "response", None), "headers", None)
    return retry_after_s(headers, now) if hasattr(headers, "get") else None


def retry_after_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the delay that the headers of a response request, seconds, or None if it is missing or malformed."""
    milliseconds = _seconds(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    header = headers.get("retry-after")
    seconds = _seconds(header)
    return seconds if seconds is not None else _seconds_until(header, now)


def _seconds(text: object) -> float | None:
    return float(text) if isinstance(text, str) and re.fullmatch(r"\s*\d{1,12}(?:\.\d{1,9})?\s*", text) else None


def _seconds_until(text: object, now: datetime) -> float | None:
    try:
        date = parsedate_to_datetime(str(text))
    except (ValueError, IndexError, TypeError):
        return None
    return max(0.0, ((date if date.tzinfo else date.replace(tzinfo=UTC)) - now).total_seconds())
