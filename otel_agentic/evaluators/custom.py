"""Users' own evaluators: functions with `@evaluator`, and Python files named in the settings."""

from __future__ import annotations

import copy
import hashlib
import importlib
import inspect
import sys
import traceback
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from numbers import Real
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypedDict, Unpack, cast, get_args

from otel_agentic.conversations.model import Conversation, Turn
from otel_agentic.errors import OtelAgenticError, UsageError
from otel_agentic.evaluators.base import (
    AnyEvaluator,
    JudgeDialogue,
    Metric,
    MetricScore,
    Need,
    Subject,
    turn_missing,
)
from otel_agentic.evaluators.run import FAULT
from otel_agentic.judges.base import JudgeFailure, Question, Verdict
from otel_agentic.judges.registry import code_version
from otel_agentic.regular_files import read_regular

if TYPE_CHECKING:
    from otel_agentic.config import EvaluatorSettings, Severity
    from otel_agentic.judges.base import Rubric
    from otel_agentic.scoring.scope import NotEvaluatedReason

    Answers = Sequence[Verdict | JudgeFailure]

    #: A function of a subject, a conversation or a turn; `evaluator` documents its return values.
    Function = Callable[..., Any]


def together(askings: Sequence[JudgeDialogue]) -> Generator[list[Question], Answers, list[Sequence[MetricScore]]]:
    """Yield the questions of all evaluations, round by round, and return the scores of each, in their order."""
    results: dict[int, Sequence[MetricScore]] = {}
    answers: dict[int, Answers | None] = dict.fromkeys(range(len(askings)))
    while answers:
        questions_by_index: dict[int, Sequence[Question]] = {}
        for index, verdicts in answers.items():
            try:
                questions_by_index[index] = _questions(askings[index], verdicts)
            except StopIteration as ended:
                results[index] = ended.value
        if not questions_by_index:
            break
        replies = iter((yield [question for questions in questions_by_index.values() for question in questions]))
        answers = {index: [next(replies) for _ in questions] for index, questions in questions_by_index.items()}
    return [results[index] for index in range(len(askings))]


def _questions(dialogue: JudgeDialogue, verdicts: Answers | None) -> Sequence[Question]:
    """Return the next questions of an evaluation; an invalid one raises inside it, so that the others continue."""
    yielded: object = next(dialogue) if verdicts is None else dialogue.send(verdicts)
    if isinstance(yielded, Iterable):
        questions = list(yielded)
        if all(isinstance(question, Question) for question in questions):
            return questions
    return dialogue.throw(TypeError(f"it yields a {type(yielded).__name__}; allowed: lists of Question"))


_ALLOWED: Final = "a number, True or False, one of its labels, a MetricScore, None, or several of these"


#: Characters of the text of an exception that are stored.
_EXCEPTION_CHARACTERS: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreTarget:
    """The object that a function scores: a conversation, or one turn of it."""

    evaluator: str
    metrics: tuple[Metric, ...]
    conversation: Conversation
    turn: Turn | None = None

    @property
    def description(self) -> str:
        """The target in words; turns are counted from 1."""
        conversation = f"conversation {self.conversation.conversation_id}"
        return conversation if self.turn is None else f"turn {self.turn.index + 1} of {conversation}"

    def scores(self, stated: object) -> Iterator[MetricScore]:
        """Yield the scores of a value that a function returned.

        Raises:
            TypeError: the value is of an unsupported type.
        """
        if stated is None:
            yield from self.abstentions(f"evaluator {self.evaluator} returned None for {self.description}")
        elif isinstance(stated, JudgeFailure):
            yield from self.abstentions(stated.message, stated.reason)
        elif isinstance(stated, Iterable) and not isinstance(stated, str | bytes | Mapping):
            for value in stated:
                yield self.score(value)
        else:
            yield self.score(stated)

    def score(self, stated: object) -> MetricScore:
        """Return the score of one value.

        Raises:
            TypeError: the value is of an unsupported type.
        """
        if isinstance(stated, MetricScore):
            return replace(stated, turn_index=self._turn_index) if stated.turn_index is None else stated
        if not isinstance(stated, str | Real | JudgeFailure) and stated is not None:
            raise TypeError(f"it returned {type(stated).__name__}; allowed: {_ALLOWED}")
        if len(self.metrics) != 1:
            names = ", ".join(metric.name for metric in self.metrics)
            raise TypeError(
                f"it returned {stated!r}; with several metrics, return a MetricScore that names one of: {names}"
            )
        if stated is None:
            return self._abstention(self.metrics[0], f"evaluator {self.evaluator} returned None for {self.description}")
        if isinstance(stated, JudgeFailure):
            return self._abstention(self.metrics[0], stated.message, stated.reason)
        name = self.metrics[0].name
        if isinstance(stated, str):
            return MetricScore(name=name, label=stated, turn_index=self._turn_index)
        return MetricScore(name=name, value=float(stated), turn_index=self._turn_index)

    def abstentions(self, explanation: str, reason: NotEvaluatedReason = "no_data") -> list[MetricScore]:
        """Return an abstention for each metric."""
        return [self._abstention(metric, explanation, reason) for metric in self.metrics]

    def failed(self, error: Exception, provided: Iterable[MetricScore]) -> list[MetricScore]:
        """Return abstentions for the metrics that had no score when the function raised.

        `details` hold the fault of the evaluator, without the location, so that equal faults count as one.
        """
        scored_names = {score.name for score in provided}
        text = " ".join(str(error).split())[:_EXCEPTION_CHARACTERS]
        raised = f"{type(error).__name__}: {text}" if text else type(error).__name__
        explanation = f"evaluator {self.evaluator} failed at {self.description}: {raised}"
        fault = {FAULT: f"evaluator {self.evaluator} failed: {type(error).__name__}"}
        return [
            replace(abstention, details=fault)
            for abstention in self.abstentions(explanation)
            if abstention.name not in scored_names
        ]

    @property
    def _turn_index(self) -> int | None:
        return None if self.turn is None else self.turn.index

    def _abstention(self, metric: Metric, explanation: str, reason: NotEvaluatedReason = "no_data") -> MetricScore:
        return MetricScore(name=metric.name, reason=reason, explanation=explanation, turn_index=self._turn_index)


Takes = Literal["Subject", "Conversation", "Turn"]


_TAKES: Final[Mapping[Takes, type]] = {"Subject": Subject, "Conversation": Conversation, "Turn": Turn}


_VARIABLE: Final = frozenset({inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD})


def name_of(function: Function, name: str | None) -> str:
    """Return the name of the evaluator of a function.

    Raises:
        UsageError: the name is invalid or missing.
    """
    own = name or getattr(function, "__name__", None)
    if not callable(function):
        raise UsageError(
            f"evaluator {own}: a {type(function).__name__} is not called with one argument; give a function"
        )
    if not own:
        raise UsageError(
            f"an evaluator made of {type(function).__name__} has no name: give one, as in name='house.brief'"
        )
    return str(own)


def whole_name(function: Function) -> str:
    """Return the qualified name of a function."""
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def argument_kind(function: Function, name: str, *, asks: bool) -> Takes:
    """Return the kind of argument of a function, by the annotation of its first parameter.

    Raises:
        UsageError: the annotation is missing or unknown, or the function has more parameters or is async.
    """
    callables = (function, getattr(function, "__call__", None))  # noqa: B004 — it is only inspected
    if any(
        inspect.iscoroutinefunction(function_object) or inspect.isasyncgenfunction(function_object)
        for function_object in callables
    ):
        raise UsageError(f"evaluator {name}: async functions are not supported; pass an ordinary function")
    if asks and not inspect.isgeneratorfunction(function):
        raise UsageError(
            f"evaluator {name}: it has rubrics and yields no questions; a function that asks is a generator function: "
            "`(verdict,) = yield [rubric_question(RUBRIC, ...)]`"
        )
    parameters = list(inspect.signature(function).parameters.values())
    required = [
        parameter
        for parameter in parameters
        if parameter.default is parameter.empty and parameter.kind not in _VARIABLE
    ]
    kind = next((arg for arg in get_args(Takes) if parameters and _refers_to(parameters[0].annotation, arg)), None)
    if kind is None or len(required) > 1:
        raise UsageError(
            f"evaluator {name}: the function must take one argument, annotated with one of: {', '.join(get_args(Takes))}; as in "
            f"def {getattr(function, '__name__', 'name')}(turn: Turn)"
        )
    return cast("Takes", kind)


def _refers_to(annotation: object, name: Takes) -> bool:
    """Return whether an annotation is a type; it may be a string, if the type is imported only for type checkers."""
    if isinstance(annotation, str):
        return annotation.strip("'\" ").rpartition(".")[2] == name
    return annotation is _TAKES[name]


class MetricFields(TypedDict, total=False):
    """Options of the one metric of a function, see `Metric`."""

    title: str
    definition: str
    source: str
    limits: str
    low: float | None
    high: float | None
    unit: str
    higher_is_better: bool | None
    labels: tuple[str, ...]
    failing: frozenset[str]
    threshold: float | None
    severity: Severity
    severities: Mapping[str, Severity]


class _Custom:
    """Base class of evaluators made from functions; `evaluator` creates a subclass for each, with one instance."""

    name: str
    version: str
    metrics: tuple[Metric, ...]
    needs: frozenset[Need]
    default: bool
    takes: Takes
    function: Function

    @classmethod
    def from_settings(cls, settings: EvaluatorSettings) -> Self:  # noqa: ARG003 — the plug-in point
        """Return the evaluator; it has no settings of its own."""
        return cls()

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the function as if it were not decorated."""
        return self.function(*arguments, **named)

    def _targets(self, subject: Subject) -> list[ScoreTarget]:
        conversation_target = ScoreTarget(evaluator=self.name, metrics=self.metrics, conversation=subject.conversation)
        if self.takes != "Turn":
            return [conversation_target]
        return [
            ScoreTarget(evaluator=self.name, metrics=self.metrics, conversation=subject.conversation, turn=turn)
            for turn in subject.conversation.turns
        ]

    def _argument(self, target: ScoreTarget, subject: Subject) -> Subject | Conversation | Turn:
        """Return the argument of the function."""
        return target.turn or (subject if self.takes == "Subject" else subject.conversation)

    def _lacking(self, target: ScoreTarget) -> list[MetricScore] | None:
        """Return the abstentions of a turn that lacks data the function needs, or None."""
        missing = (turn_missing(target.turn, need) for need in sorted(self.needs)) if target.turn is not None else ()
        return next((target.abstentions(explanation, reason) for reason, explanation in filter(None, missing)), None)


class FunctionEvaluator(_Custom):
    """An evaluator made from a function that computes scores."""

    def evaluate(self, subject: Subject) -> list[MetricScore]:
        """Return the scores of the conversation or of each of its turns; if the function raises, it abstains."""
        return [score for target in self._targets(subject) for score in self._scores(target, subject)]

    def _scores(self, target: ScoreTarget, subject: Subject) -> list[MetricScore]:
        lacking = self._lacking(target)
        if lacking is not None:
            return lacking
        results: list[MetricScore] = []
        try:
            for score in target.scores(self.function(self._argument(target, subject))):
                results.append(score)  # noqa: PERF402 — scores yielded before it raised count
        except Exception as error:  # noqa: BLE001 — a user's function may raise anything
            return [*results, *target.failed(error, results)]
        return results


class AskingFunctionEvaluator(_Custom):
    """An evaluator made from a generator function that asks a judge."""

    rubrics: tuple[Rubric, ...]

    def ask(self, subject: Subject) -> JudgeDialogue:
        """Ask about the conversation, or about all of its turns together; if the function raises, it abstains."""
        scores_by_target = yield from together([self._scores(target, subject) for target in self._targets(subject)])
        return [score for scores in scores_by_target for score in scores]

    def _scores(self, target: ScoreTarget, subject: Subject) -> JudgeDialogue:
        lacking = self._lacking(target)
        if lacking is not None:
            return lacking
        results: list[MetricScore] = []
        try:
            value = yield from self.function(self._argument(target, subject))
            for score in target.scores(value):
                results.append(score)  # noqa: PERF402 — as above
        except Exception as error:  # noqa: BLE001 — the same
            return [*results, *target.failed(error, results)]
        return results


def evaluator(
    *,
    name: str | None = None,
    version: str | None = None,
    metrics: Sequence[Metric] = (),
    needs: Iterable[Need] = (),
    rubrics: Sequence[Rubric] = (),
    default: bool | None = None,
    **metric: Unpack[MetricFields],
) -> Callable[[Function], FunctionEvaluator | AskingFunctionEvaluator]:
    """Return a decorator that turns a function into an evaluator.

    The annotation of the first parameter selects the argument: a `Subject`, a `Conversation`, or each `Turn`. The
    function returns a number, True or False (1 and 0), a label, a `MetricScore`, None to abstain, or several of these.
    With `rubrics` it is a generator function: it yields lists of questions, is sent a `Verdict` or a `JudgeFailure` for
    each, and returns the same, or the failure. If it raises, the result is an abstention, never a score.

    Args:
        name: the name of the evaluator and of its metric; None uses that of the function.
        version: increases with every change that may change a score; None uses a hash of the function's code.
        metrics: several metrics, or one with another name; scores then name their metric.
        needs: required data; a function of turns abstains from each turn that lacks it.
        rubrics: prompts that it may ask a judge with.
        default: whether it runs unless metrics are chosen by name; None means yes, except with `rubrics`.
        metric: further fields of its only metric: `low` and `high` (0 and 1 by default, unbounded with labels),
            `labels`, `failing`, `threshold` and the other fields of `Metric`.

    Raises:
        UsageError: the function cannot become an evaluator.

    >>> @evaluator(name="house.short", threshold=1)
    ... def short(turn: Turn) -> bool:
    ...     return len(turn.answer or "") < 200
    >>> short.metrics[0].name, short.metrics[0].target
    ('house.short', 'turn')
    """

    def decorate(function: Function) -> FunctionEvaluator | AskingFunctionEvaluator:
        evaluator_name = name_of(function, name)
        takes = argument_kind(function, evaluator_name, asks=bool(rubrics))
        if metrics and metric:
            raise UsageError(f"evaluator {evaluator_name}: set {', '.join(metric)} on the metrics, not next to them")
        kind = AskingFunctionEvaluator if rubrics else FunctionEvaluator
        all_needs: set[Need] = {*needs, "judge"} if rubrics else {*needs}
        attributes = {
            "name": evaluator_name,
            "version": version or code_version(function),
            "metrics": tuple(metrics) or (_metric(evaluator_name, function, takes, metric),),
            "needs": frozenset(all_needs),
            "default": not rubrics if default is None else default,
            "takes": takes,
            "function": staticmethod(function),
            "rubrics": tuple(rubrics),
            "__doc__": function.__doc__,
            "__module__": function.__module__,
        }
        return cast("FunctionEvaluator | AskingFunctionEvaluator", type(evaluator_name, (kind,), attributes)())

    return decorate


def _metric(name: str, function: Function, takes: Takes, fields: MetricFields) -> Metric:
    docstring = inspect.getdoc(function) or ""
    options: dict[str, Any] = {
        "title": name.rpartition(".")[2].replace("_", " "),
        "definition": " ".join(docstring.partition("\n\n")[0].split()) or f"What {whole_name(function)} returns.",
        "source": f"{function.__module__}.{whole_name(function)}",
        "target": "turn" if takes == "Turn" else "conversation",
        **({"low": None, "high": None} if fields.get("labels") else {}),  # unless it has numbers, too
        **fields,
    }
    options |= {"labels": tuple(options.get("labels", ())), "failing": frozenset(options.get("failing", ()))}
    return Metric(name=name, **options)


_FORM: Final = "FILE.py:NAME, as in checks.py:polite"
_METHODS: Final = ("evaluate", "ask", "evaluate_group")
_ERROR_CHARACTERS: Final = 300
#: Modules that such files imported from their own folder: name -> folder.
_folder_modules: Final[dict[str, Path]] = {}
#: Files that were run, successfully or not.
_executed_files: Final[set[Path]] = set()


def evaluator_of(provided: str, settings: EvaluatorSettings) -> AnyEvaluator:
    """Return the evaluator named by `path.py:name`.

    Its version combines its own version and a hash of the file, so that an edited file is evaluated again. Imported
    files are not part of the hash.

    Args:
        provided: the file, and the name of an evaluator in it: a function decorated with `evaluator`, a class or an
            object.
        settings: passed to `from_settings` of a class.

    Raises:
        UsageError: the file is missing, does not load, or has no such evaluator; the message lists those it has.
        ConfigError: the evaluator cannot work with the settings.
    """
    path, name = _split(provided)
    try:
        content = read_regular(path)
    except OSError as error:
        raise UsageError(f"evaluator {provided}: {path} cannot be read: {error.strerror or error}") from error
    try:
        module = _loaded(path.resolve(), content)
    except ImportError as error:
        raise UsageError(f"evaluator {provided}: {path} does not load: {error}") from error
    candidate = getattr(module, name, None)
    if not _is_evaluator(candidate):
        raise UsageError(f"evaluator {provided}: {_problem(candidate, name, path)}; {_evaluators_text(module, path)}")
    return _with_file_version(_constructed(candidate, provided, settings), _digest(content))


def _split(reference: str) -> tuple[Path, str]:
    file, colon, name = reference.rpartition(":")
    if not (colon and file.endswith(".py") and name.isidentifier()):
        raise UsageError(f"evaluator {reference}: give {_FORM}")
    return Path(file), name


@cache
def _loaded(path: Path, content: bytes) -> ModuleType:
    """Return the module of a file with this content, which is executed only once.

    Raises:
        ImportError: the file raises; the message names the line.
    """
    name = f"otel_agentic_evaluators_{path.stem}_{_digest(content)}"
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module  # dataclasses look themselves up there
    _forget_folder_modules(path)
    before = set(sys.modules)
    sys.path.insert(0, str(path.parent))  # as for a script: it may import modules from its folder
    try:
        exec(compile(content, str(path), "exec"), vars(module))  # noqa: S102 — the user's own file, named by the user
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise ImportError(_error_text(error, path)) from error
    finally:
        with suppress(ValueError):
            sys.path.remove(str(path.parent))
        _record_folder_modules(path.parent, before)
    return module


def _forget_folder_modules(path: Path) -> None:
    """Forget modules that a file must import itself: of the same name in another folder, or all of an edited file."""
    for name, folder in list(_folder_modules.items()):
        if folder != path.parent or path in _executed_files:
            sys.modules.pop(name, None)
            del _folder_modules[name]
    _executed_files.add(path)
    importlib.invalidate_caches()


def _record_folder_modules(folder: Path, before: Container[str]) -> None:
    """Record the modules imported from the folder of a file, except those of packages imported before."""
    for name in list(sys.modules):
        top = name.partition(".")[0]
        if top not in before and _lies_in(folder, top):
            _folder_modules[name] = folder


def _lies_in(folder: Path, name: str) -> bool:
    """Return whether an imported module is a file of a folder, or a folder in it."""
    module = sys.modules.get(name)
    paths = {getattr(module, "__file__", None), *getattr(module, "__path__", ())}
    return not paths.isdisjoint({str(folder / f"{name}.py"), str(folder / name)})


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:8]


def _error_text(error: BaseException, path: Path) -> str:
    """Return an exception in words, with the last line of the file that led to it."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        line = error.lineno
        text = error.msg
    else:
        frames = traceback.extract_tb(error.__traceback__)
        line = next((frame.lineno for frame in reversed(frames) if frame.filename == str(path)), None)
        text = " ".join(str(error).split())[:_ERROR_CHARACTERS]
    where = "" if line is None else f"line {line}: "
    return f"{where}{type(error).__name__}: {text}" if text else f"{where}{type(error).__name__}"


def _is_evaluator(candidate: object) -> bool:
    return any(hasattr(candidate, way) for way in _METHODS)


def _problem(candidate: object, name: str, path: Path) -> str:
    if candidate is None:
        return f"there is no {name} in {path}"
    if callable(candidate) and not isinstance(candidate, type):
        return f"{name} is a function; put @evaluator(...) of otel_agentic before it"
    return f"{name}, of type {type(candidate).__name__}, is no evaluator: it has none of {', '.join(_METHODS)}"


def _evaluators_text(module: ModuleType, path: Path) -> str:
    """Return a sentence that lists the evaluators of a file, without those that it imports."""
    names = [name for name, value in vars(module).items() if _is_own(value, module)]
    return f"evaluators in {path.name}: {', '.join(names)}" if names else f"{path.name} has no evaluator"


def _is_own(candidate: object, module: ModuleType) -> bool:
    return _is_evaluator(candidate) and getattr(candidate, "__module__", None) == module.__name__


def _constructed(candidate: Any, reference: str, settings: EvaluatorSettings) -> Any:
    """Return an object as an evaluator, constructed from the settings if it is a class."""
    if not isinstance(candidate, type):
        return candidate
    try:
        return candidate.from_settings(settings) if hasattr(candidate, "from_settings") else candidate()
    except OtelAgenticError:
        raise
    except Exception as error:
        raise UsageError(f"evaluator {reference}: it cannot be made: {type(error).__name__}: {error}") from error


def _with_file_version(evaluator: Any, digest: str) -> AnyEvaluator:
    """Return an evaluator whose version changes with its file, regardless of how it stores its version."""
    version = "-".join(filter(None, (str(getattr(evaluator, "version", "")), digest)))
    kind = type(evaluator)
    attributes = {"version": version, "__slots__": (), "__module__": kind.__module__}
    copied_evaluator = copy.copy(evaluator)
    if "version" in getattr(copied_evaluator, "__dict__", {}):
        object.__setattr__(copied_evaluator, "version", version)  # it may be frozen
    else:
        object.__setattr__(copied_evaluator, "__class__", type(kind.__name__, (kind,), attributes))
    return cast("AnyEvaluator", copied_evaluator)
