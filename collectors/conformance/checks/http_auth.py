"""Who may send over HTTP; checked where a token is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from collectors.conformance._check import check, explained, fault, status_in
from collectors.conformance._requests import traces
from collectors.conformance.checks._skips import no_token

if TYPE_CHECKING:
    from collectors.conformance._check import Answer, Verdict
    from collectors.conformance._receiver import Receiver

_SPEC: Final = "RFC 9110, 15.5.2; RFC 6750, 3"
_FIX: Final = "compare the whole header, scheme included, and answer 401 with `WWW-Authenticate`"


def _with(receiver: Receiver, authorization: str | None, sent: str) -> Answer:
    headers = {key: value for key, value in receiver.headers().items() if key != "authorization"}
    changed = headers if authorization is None else {**headers, "authorization": authorization}
    return receiver.post(traces().SerializeToString(), headers=changed, sent=sent)


@check("http.auth.missing", "MUST", "without the token it is 401, with WWW-Authenticate", spec=_SPEC, fix=_FIX)
def auth_missing(receiver: Receiver) -> Verdict:
    """Send no token."""
    if skip := no_token(receiver):
        return skip
    answer = _with(receiver, None, "one span without a token")
    if answer.status == 401 and "www-authenticate" not in answer.headers:  # noqa: PLR2004 — Unauthorized
        return fault(answer, "the header WWW-Authenticate")
    return status_in(answer, (401,)) or explained(answer)


@check("http.auth.wrong", "MUST", "with a wrong token it is 401 or 403", spec=_SPEC, fix=_FIX)
def auth_wrong(receiver: Receiver) -> Verdict:
    """Send tokens that are nearly right."""
    if skip := no_token(receiver):
        return skip
    token = receiver.target.token or ""
    tokens = {
        "a token that is cut": f"Bearer {token[:-1]}",
        "a token with more after it": f"Bearer {token}x",
        "the token without its scheme": token,
        "the token under another scheme": f"Basic {token}",
        "bytes that are no ASCII": "Bearer \xff\xfe",
    }
    faults = (status_in(_with(receiver, header, sent), (401, 403)) for sent, header in tokens.items())
    return next(filter(None, faults), None)


@check(
    "http.auth.untold",
    "SHOULD",
    "responses do not contain the token",
    spec="RFC 6750, 5",
    fix="never put the received token into an error",
)
def auth_untold(receiver: Receiver) -> Verdict:
    """Look for the token in a refusal."""
    if skip := no_token(receiver):
        return skip
    token = receiver.target.token or ""
    answer = _with(receiver, f"Bearer {token}x", "a wrong token that holds the right one")
    leaked = token.encode() in answer.body or any(token in value for value in answer.headers.values())
    return fault(answer, "an answer without the token in it") if leaked else status_in(answer, (401, 403))
