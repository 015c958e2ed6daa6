"""How a turn ends: with an answer, in an error, or with the raw output of an interpreter given as the answer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from otel_agentic.evaluators.base import MetricScore
from otel_agentic.evaluators.needs import CAPTURE
from otel_agentic.evaluators.operations.names import TURN_END

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Turn

ANSWERED: Final = "answered"
ERROR: Final = "error"
RAW_OUTPUT: Final = "raw_output"
NO_ANSWER: Final = "no_answer"
TURN_ENDS: Final = (ANSWERED, NO_ANSWER, ERROR, RAW_OUTPUT)

#: Characters of an answer or error that are read, and of an error that are shown.
_READ: Final = 20_000
_ERROR_READ: Final = 2_000
_SHOWN: Final = 160
#: Characters of a line that are matched: the patterns of frames are quadratic in the worst case.
_LINE_READ: Final = 400

#: First lines of what interpreters and code executors print, as a framework hands it to the model.
_LOG_HEADING: Final = re.compile(
    r"\s*(?:call id: \S+\s+)?(?:observations?:\s+)?"
    r"(?:(?:execution|interpreter) (?:logs?|output)|print outputs?|last output from code snippet|code (?:execution )?output"
    r"|std(?:out|err)(?: output)?)\s*:\s*(?:\n|$)"
    r"|\s*(?:call id: \S+\s+)?error:\s+code execution failed at line\b"
    r"|\s*(?:exit|return) ?code\s*[:=]\s*-?\d+\s*(?:\(|\n|$)|\s*(?:In|Out) ?\[\d+\]:",
    re.IGNORECASE,
)
_TRACE_HEADING: Final = re.compile(r"\s*traceback \(most recent call last\)|\s*exception in thread\b", re.IGNORECASE)
#: Lines of stack traces: Python; JavaScript, Java and C#; Go and Rust.
_FRAME: Final = re.compile(
    r'\s*File "[^"]+", line \d+|\s+at \S.*[:(]\S*\d+\)?\s*$|\s+\S+\.(?:go|rs):\d+\b|\s*[~^]{2,}[~^\s]*$'
)
_EXCEPTION: Final = re.compile(r"\s*(?:[\w$]+[.:]+)*[A-Z]\w*(?:Error|Exception|Warning|Interrupt|Exit)\b\s*(?::|$)")
_FENCE: Final = re.compile(r"^\s*(?:```|~~~).*?^\s*(?:```|~~~)\s*$", re.MULTILINE | re.DOTALL)
#: A query for which a log or a stack trace is the right answer.
_WANTS_OUTPUT: Final = re.compile(
    r"\b(?:trace ?backs?|stack ?traces?|std(?:out|err)|logs?|raw output|console output|exit code|error message)\b",
    re.IGNORECASE,
)
#: Words with which people are told that something did not work.
_TROUBLE: Final = re.compile(
    r"\b(?:unfortunately|sorry|apologi[sz]e|unable|cannot|can(?:no|['\u2019])t|could(?:n['\u2019]t| not)|(?:not|\w+n['\u2019]t) able"
    r"|fail(?:s|ed|ure|ing)?|errors?|(?<!no )problems?|trouble|(?:an?|the|some|this) (?:\w+ )?issue|issues? with|difficult(?:y|ies)|oversight|mistake|unsuccessful(?:ly)?"
    r"|unavailable|invalid|insufficient|declined|rejected|denied|refused|missing|impossible|unknown|timed? ?out"
    r"|(?:not|\w+n['\u2019]t)(?: \w+){0,2}? (?:found|find|available|possible|enough|sufficient|valid|supported|permitted|allowed|exists?"
    r"|match|work|respond|succeed|go through|complete[d]?|access|retrieve|process(?:ed)?|defined?)"
    r"|no (?:\w+ ){0,3}?(?:found|available|results?|such|matching)|try again|retry"
    r"|leider|fehler|fehlgeschlagen|konnten?\b[^.]{0,80}\bnicht|nicht (?:\w+ )?(?:m\u00f6glich|verf\u00fcgbar|gefunden|g\u00fcltig)"
    r"|malheureusement|d\u00e9sol\u00e9e?s?|erreurs?|\u00e9chou\w*|\u00e9checs?|probl\u00e8mes?|pas (?:pu|disponible|trouv\w*|possible)"
    r"|lamentablemente|desafortunadamente|lo siento|errores|no (?:pude|pudo|se pudo|fue posible|es posible|encontr\w+)|fall\u00f3|problemas?"
    r"|infelizmente|desculpe|erros?|n\u00e3o (?:foi|\u00e9|consegui\w*)|purtroppo|errore|impossibile|non (?:\u00e8|sono|ho potuto)"
    r"|helaas|fout(?:en)?|niet (?:\w+ )?(?:gelukt|beschikbaar|gevonden|mogelijk))\b"
    r"|\u62b1\u6b49|\u65e0\u6cd5|\u5931\u8d25|\u5931\u6557|\u9519\u8bef|\u30a8\u30e9\u30fc|\u7533\u3057\u8a33|\u3067\u304d\u307e\u305b\u3093",
    re.IGNORECASE,
)
_WORD: Final = re.compile(r"\w{4,}|\d+")
#: Words that errors share whatever they are about.
_COMMON: Final = frozenset(
    {"error", "errors", "exception", "failed", "failure", "tool", "call", "with", "from", "this", "that"}
)
#: How many of them an answer that speaks of the error contains at least, and what share.
_FEWEST_SHARED: Final = 3
_SHARE: Final = 0.6


def turn_end(turn: Turn) -> MetricScore:
    """Return how a turn ended."""
    if turn.answer is not None:
        if not is_raw_output(turn):
            return _score(turn, ANSWERED, "with an answer")
        return _score(turn, RAW_OUTPUT, f"the answer is raw output: {_short(turn.answer)!r}")
    requests, failed = sum(use.calls for use in turn.models), sum(use.failed for use in turn.models)
    refused = requests > 0 and requests == failed
    if turn.error is not None and (turn.answer_captured or turn.query_captured or refused):
        return _score(turn, ERROR, f"without an answer: {_short(turn.error)!r}", _culprit(turn))
    if refused:
        return _score(turn, ERROR, f"without an answer: {failed} of {requests} requests to models failed")
    if turn.answer_captured:
        return _score(turn, NO_ANSWER, "without an answer, and without an error")
    return MetricScore(
        name=TURN_END,
        reason="content_not_captured",
        explanation=f"the answer of turn {turn.index + 1} was not recorded; {CAPTURE}",
        turn_index=turn.index,
    )


def is_raw_output(turn: Turn) -> bool:
    """Return whether the answer is what an interpreter printed, a stack trace, or the text of an exception of the turn."""
    answer = (turn.answer or "")[:_READ]
    query = turn.query or ""
    if not answer.strip() or _WANTS_OUTPUT.search(query) or answer.strip() in query:
        return False
    if _LOG_HEADING.match(answer):
        return True
    lines = [line[:_LINE_READ] for line in _FENCE.sub("", answer).splitlines() if line.strip()]
    return _is_trace(lines) or (len(lines) == 1 and _is_exception(lines[0], turn))


def _is_trace(lines: list[str]) -> bool:
    """Return whether a stack trace makes up at least half of the lines; the source line below a frame belongs to it."""
    frames = [place for place, line in enumerate(lines) if _FRAME.match(line)]
    if not frames:
        return False
    traced = set(frames) | {place + 1 for place in frames if place + 1 < len(lines) and lines[place + 1][:1].isspace()}
    traced |= {place for place, line in enumerate(lines) if _TRACE_HEADING.match(line) or _EXCEPTION.match(line)}
    return len(traced) >= 2 and 2 * len(traced) >= len(lines)  # noqa: PLR2004 — a single line may be a quotation


def _is_exception(line: str, turn: Turn) -> bool:
    """Return whether a line is an exception that a call or the run of the turn ended in."""
    said = " ".join(line.split())
    errors = (turn.error, *(call.error for call in turn.calls))
    return _EXCEPTION.match(line) is not None and any(
        said in raised or raised in said
        for error in errors
        if (raised := " ".join((error or "").split()[:_ERROR_READ]))
    )


def mentions_trouble(answer: str, error: str) -> bool:
    """Return whether an answer speaks of something that did not work: in words for trouble, or in most of those of the error.

    >>> mentions_trouble("I could not find this booking.", "KeyError: 'XK4'")
    True
    >>> mentions_trouble("Flight HAT030 is full on these dates.", "flight HAT030 not on sale for these dates")
    True
    >>> mentions_trouble("Your booking is confirmed.", "payment amount does not add up")
    False
    """
    if _TROUBLE.search(answer[:_READ]):
        return True
    words = {word.casefold() for word in _WORD.findall(error[:_ERROR_READ])} - _COMMON
    shared = words & {word.casefold() for word in _WORD.findall(answer[:_READ])}
    return len(shared) >= max(_FEWEST_SHARED, _SHARE * len(words))


def _culprit(turn: Turn) -> str | None:
    """Return the tool in whose error the turn ended, None where no call tells."""
    ended = " ".join((turn.error or "").split())
    for call in reversed(turn.calls):
        raised = " ".join((call.error or "").split())
        if raised and (raised in ended or ended in raised):
            return call.name
    return None


def _score(turn: Turn, label: str, how: str, tool_name: str | None = None) -> MetricScore:
    explanation = f"turn {turn.index + 1} ended {how}" if label != RAW_OUTPUT else f"turn {turn.index + 1}: {how}"
    return MetricScore(name=TURN_END, label=label, explanation=explanation, turn_index=turn.index, tool_name=tool_name)


def _short(text: str) -> str:
    shown = " ".join(text[:_READ].split())
    return f"{shown[: _SHOWN - 1]}\u2026" if len(shown) > _SHOWN else shown
