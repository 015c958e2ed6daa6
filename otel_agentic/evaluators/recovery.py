"""Recovery from tool errors: tools that never worked again, consequences of failed calls, and ends of turns."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, get_args

from otel_agentic.conversations.model import CallKind, Conversation, ToolCall, Turn
from otel_agentic.evaluators.base import (
    BuiltInEvaluator,
    MetricScore,
    Subject,
    failure_runs,
    none_of,
)
from otel_agentic.evaluators.operations import RECOVERED, STEPS_TO_RECOVERY, TOOL_FAILURE, TURN_END, errors_lacking
from otel_agentic.scoring.state import CAPTURE

ANSWERED: Final = "answered"
ERROR: Final = "error"
RAW_OUTPUT: Final = "raw_output"
NO_ANSWER: Final = "no_answer"
TURN_ENDS: Final = (ANSWERED, NO_ANSWER, ERROR, RAW_OUTPUT)

#: Limits in characters of answers and errors that are searched, and of errors in explanations.
_READ: Final = 20_000
_ERROR_READ: Final = 2_000
_ERROR_CHARACTERS: Final = 160
#: Characters of a line that are matched: the patterns of frames are quadratic in the worst case.
_LINE_READ: Final = 400

#: First lines of the output of interpreters and code executors, as frameworks pass it to the model.
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
#: Words with which answers report that something did not work.
_PROBLEM_WORDS: Final = re.compile(
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
#: Words that all kinds of errors share.
_COMMON: Final = frozenset(
    {"error", "errors", "exception", "failed", "failure", "tool", "call", "with", "from", "this", "that"}
)
#: An answer that mentions an error contains at least this number, and this share, of its other words.
_FEWEST_SHARED: Final = 3
_SHARE: Final = 0.6


def turn_end(turn: Turn) -> MetricScore:
    """Return how a turn ended."""
    if turn.answer is not None:
        if not is_raw_output(turn):
            return _score(turn, ANSWERED, "with an answer")
        return _score(turn, RAW_OUTPUT, f"the answer is raw output: {_short(turn.answer)!r}")
    requests, failed = (
        sum(model_use.calls for model_use in turn.models),
        sum(model_use.failed for model_use in turn.models),
    )
    all_failed = requests > 0 and requests == failed
    if turn.error is not None and (turn.answer_captured or turn.query_captured or all_failed):
        return _score(turn, ERROR, f"without an answer: {_short(turn.error)!r}", _tool_of_error(turn))
    if all_failed:
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
    """Return whether the answer is the output of an interpreter, a stack trace, or an exception of the turn."""
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
    frames = [index for index, line in enumerate(lines) if _FRAME.match(line)]
    if not frames:
        return False
    trace_lines = set(frames) | {
        frame + 1 for frame in frames if frame + 1 < len(lines) and lines[frame + 1][:1].isspace()
    }
    trace_lines |= {index for index, line in enumerate(lines) if _TRACE_HEADING.match(line) or _EXCEPTION.match(line)}
    return len(trace_lines) >= 2 and 2 * len(trace_lines) >= len(lines)  # noqa: PLR2004 — a single line may be a quotation


def _is_exception(line: str, turn: Turn) -> bool:
    """Return whether a line is the exception with which a call or the turn ended."""
    exception = " ".join(line.split())
    errors = (turn.error, *(call.error for call in turn.calls))
    return _EXCEPTION.match(line) is not None and any(
        exception in error_text or error_text in exception
        for error in errors
        if (error_text := " ".join((error or "").split()[:_ERROR_READ]))
    )


def mentions_trouble(answer: str, error: str) -> bool:
    """Return whether an answer mentions a problem, in words for problems or with most words of the error.

    >>> mentions_trouble("I could not find this booking.", "KeyError: 'XK4'")
    True
    >>> mentions_trouble("Flight HAT030 is full on these dates.", "flight HAT030 not on sale for these dates")
    True
    >>> mentions_trouble("Your booking is confirmed.", "payment amount does not add up")
    False
    """
    if _PROBLEM_WORDS.search(answer[:_READ]):
        return True
    words = {word.casefold() for word in _WORD.findall(error[:_ERROR_READ])} - _COMMON
    shared = words & {word.casefold() for word in _WORD.findall(answer[:_READ])}
    return len(shared) >= max(_FEWEST_SHARED, _SHARE * len(words))


def _tool_of_error(turn: Turn) -> str | None:
    """Return the tool whose error ended the turn, or None."""
    turn_error = " ".join((turn.error or "").split())
    for call in reversed(turn.calls):
        call_error = " ".join((call.error or "").split())
        if call_error and (call_error in turn_error or turn_error in call_error):
            return call.name
    return None


def _score(turn: Turn, label: str, ending: str, tool_name: str | None = None) -> MetricScore:
    explanation = f"turn {turn.index + 1} ended {ending}" if label != RAW_OUTPUT else f"turn {turn.index + 1}: {ending}"
    return MetricScore(name=TURN_END, label=label, explanation=explanation, turn_index=turn.index, tool_name=tool_name)


def _short(text: str) -> str:
    visible = " ".join(text[:_READ].split())
    return f"{visible[: _ERROR_CHARACTERS - 1]}\u2026" if len(visible) > _ERROR_CHARACTERS else visible


#: Calls of these kinds can fail; after a transfer, failures belong to the other agent.
_ALL_KINDS: Final = frozenset(get_args(CallKind)) - {"transfer"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """A tool that failed; `steps` is the number of steps to its next successful call, None without one.

    `failed` are its failed calls until then, in order, each with the index of its turn (0-based).
    """

    tool_name: str
    steps: int | None
    failed: tuple[tuple[int, ToolCall], ...]

    @property
    def turn_index(self) -> int:
        """The index of the turn with the first error."""
        return self.failed[0][0]


class Recovery(BuiltInEvaluator):
    """Whether and how soon failed tools work again, the consequences of their errors, and how turns end."""

    name = "operations.recovery"
    version = "3"

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return the two scores of a conversation, one for each tool failure, and one for each turn."""
        conversation = subject.conversation
        ends = [turn_end(turn) for turn in conversation.turns]
        episodes = episodes_of(conversation)
        all_episodes = episodes_of(conversation, kinds=_ALL_KINDS)
        failures = [_tool_failure(conversation, episode, ends) for episode in all_episodes]
        missing = errors_lacking(conversation)
        if missing is None and not episodes:
            missing = "no_data", "no tool call failed"
        if missing is not None:
            abstentions = [none_of(name, *missing) for name in (STEPS_TO_RECOVERY, RECOVERED)]
            return [*abstentions, *failures, *ends]
        return [_steps(episodes), _recovered(episodes), *failures, *ends]


def episodes_of(conversation: Conversation, kinds: Container[str] = ("tool",)) -> list[Episode]:
    """Return the failures of tools, in order; further errors before a tool works again belong to the same episode."""
    if all(call.error is None for turn in conversation.turns for call in turn.calls):
        return []
    by_step: dict[tuple[int, int], list[ToolCall]] = {}
    for turn in conversation.turns:
        for call in turn.calls:
            by_step.setdefault((turn.index, call.step), []).append(call)
    attempts: dict[str, list[tuple[int, int, ToolCall]]] = {}  # by tool: number of the step, index of the turn, call
    for number, ((turn_index, _), calls) in enumerate(sorted(by_step.items())):
        # Calls of one step run in parallel: a success ends the episode of earlier steps, but not one of the same step.
        for call in sorted(calls, key=lambda call: call.error is not None):
            if call.kind in kinds:
                attempts.setdefault(call.name, []).append((number, turn_index, call))
    episodes: list[tuple[int, Episode]] = []
    for name, calls_of_tool in attempts.items():
        for start, end in failure_runs([call.error is None for _, _, call in calls_of_tool]):
            first_step = calls_of_tool[start][0]
            failed = tuple((turn_index, call) for _, turn_index, call in calls_of_tool[start:end])
            steps = None if end is None else calls_of_tool[end][0] - first_step
            episodes.append((first_step, Episode(tool_name=name, failed=failed, steps=steps)))
    return [episode for _, episode in sorted(episodes, key=lambda entry: (entry[0], entry[1].tool_name))]


def _tool_failure(conversation: Conversation, episode: Episode, ends: Sequence[MetricScore]) -> MetricScore:
    """Return the score of a tool failure, whose label is its consequence."""
    turn_index, first_call = episode.failed[0]
    last_turn_index, last_call = episode.failed[-1]
    index = next(position for position, turn in enumerate(conversation.turns) if turn.index == last_turn_index)
    turn = conversation.turns[index]
    answer = next((turn.answer for turn in conversation.turns[index:] if turn.answer is not None), None)
    label: str | None = "unhandled"
    explanation = "no call worked in its place, and no answer speaks of it"
    if episode.steps is not None:
        label, explanation = "recovered", f"it worked {episode.steps} {'step' if episode.steps == 1 else 'steps'} later"
    elif ends[index].label == ERROR or _has_caller(turn, last_call, failed=True):
        label, explanation = "passed_on", "its turn, or the agent that made the call, ended in an error"
    elif answer is not None and mentions_trouble(answer, last_call.error or ""):
        label, explanation = "reported", "the answer speaks of the trouble"
    elif turn.answer is not None and _replaced(turn, last_call):
        label, explanation = "worked_around", "another call worked, and the turn has an answer"
    elif answer is None and not turn.answer_captured:
        label, explanation = None, f"the answer was not recorded; {CAPTURE}"
    times = f", and {len(episode.failed) - 1} more times" if len(episode.failed) > 1 else ""
    error = " ".join((first_call.error or "").split())
    visible = f"{error[:_ERROR_CHARACTERS]}\u2026" if len(error) > _ERROR_CHARACTERS else error
    return MetricScore(
        name=TOOL_FAILURE,
        label=label,
        reason=None if label else "content_not_captured",
        explanation=f"{episode.tool_name} failed in turn {turn_index + 1}{times}: {visible!r}; {explanation}",
        turn_index=turn_index,
        position=first_call.position,
        tool_name=episode.tool_name,
    )


def _replaced(turn: Turn, failed: ToolCall) -> bool:
    """Return whether something worked after a call that failed: a call of a later step, or the agent that made the call."""
    return _has_caller(turn, failed, failed=False) or any(
        call.error is None and call.step > failed.step for call in turn.calls
    )


def _has_caller(turn: Turn, inner: ToolCall, *, failed: bool) -> bool:
    """Return whether an agent used as a tool made the call, and its own call failed (if not `failed`, succeeded)."""
    return inner.parent_span_id is not None and any(
        call.span_id == inner.parent_span_id and (call.error is not None) == failed for call in turn.calls
    )


def _steps(episodes: Sequence[Episode]) -> MetricScore:
    recovered = [(episode.steps, episode) for episode in episodes if episode.steps is not None]
    if not recovered:
        return none_of(STEPS_TO_RECOVERY, "no_data", f"never worked again: {_listed(episodes)}")
    steps, slowest = max(recovered, key=lambda entry: entry[0])  # the first of several
    return MetricScore(
        name=STEPS_TO_RECOVERY,
        value=float(steps),
        explanation=f"{slowest.tool_name!r} failed in turn {slowest.turn_index + 1} and worked {steps} "
        f"{'step' if steps == 1 else 'steps'} later",
        tool_name=slowest.tool_name,
        details={"steps": [steps for steps, _ in recovered]},
    )


def _recovered(episodes: Sequence[Episode]) -> MetricScore:
    unrecovered = [episode for episode in episodes if episode.steps is None]
    if not unrecovered:
        return MetricScore(name=RECOVERED, value=1.0, explanation=f"worked again: {_listed(episodes)}")
    return MetricScore(
        name=RECOVERED,
        value=0.0,
        explanation=f"never worked again: {_listed(unrecovered)}",
        tool_name=unrecovered[0].tool_name,
        details={"failed": len(episodes), "recovered": len(episodes) - len(unrecovered)},
    )


def _listed(episodes: Sequence[Episode]) -> str:
    return ", ".join(f"{episode.tool_name!r} (failed in turn {episode.turn_index + 1})" for episode in episodes)
