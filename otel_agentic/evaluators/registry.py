"""The installed evaluators: discovery, checks of the contract, choice of metrics by name, and ids of evaluations."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Final, cast, get_args

from otel_agentic import plugins
from otel_agentic.config import EvaluatorSettings, Severity
from otel_agentic.errors import OtelAgenticError, PluginError, UsageError
from otel_agentic.evaluators.base import (
    CORE,
    AnyEvaluator,
    AskingEvaluator,
    Evaluator,
    GroupEvaluator,
    Metric,
    Need,
    Target,
    asks,
    is_of_groups,
    is_plain,
)
from otel_agentic.judges.base import Judge, Rubric, kinds_of, version_for
from otel_agentic.judges.prompts import KINDS

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")
_LONGEST: Final = 120
#: Names that are neither metrics nor families: choices on the command line, and the evaluator of the core scores.
RESERVED: Final = frozenset({"default", "all", "none", CORE})
#: Names of the core scores, which every evaluation writes.
_CORE: Final = re.compile(r"agentic\.(conversation|answer|tool(\.\w+)?)")
_METHODS: Final = ("evaluate", "ask", "evaluate_group")


def require_evaluator(candidate: object, where: str, name: str | None = None) -> AnyEvaluator:
    """Return a loaded object as an evaluator.

    The contract is checked once, on loading, so that a violation is reported then and does not appear later as
    implausible scores.

    Args:
        candidate: the loaded object.
        where: its provider, for messages.
        name: the name that it must have, None for any.

    Raises:
        PluginError: it violates the contract; the message states how.
    """
    try:
        problem = next(_problems(candidate, name), None)
    except (TypeError, ValueError, AttributeError) as error:  # third-party code passed a list instead of a set
        problem = f"no evaluator: an attribute of it or of a metric has the wrong type: {error}; see otel_agentic.evaluators.Evaluator"
    if problem is not None:
        raise PluginError(f"{where}: {problem}")
    return cast("AnyEvaluator", candidate)


def check_all(evaluators: Iterable[AnyEvaluator]) -> None:
    """Check the contract of each evaluator, and that no two share a name, a metric, or a name of different prompts.

    Raises:
        PluginError: an evaluator violates the contract, or two share a name; the message names both owners.
    """
    names: dict[str, AnyEvaluator] = {}
    owners: dict[str, AnyEvaluator] = {}
    rubrics: dict[str, tuple[Rubric, AnyEvaluator]] = {}
    for evaluator in evaluators:
        require_evaluator(evaluator, f"evaluator {getattr(evaluator, 'name', evaluator)!r}")
        if evaluator.name in names:
            raise PluginError(_same_name(names[evaluator.name], evaluator))
        names[evaluator.name] = evaluator
        for metric in evaluator.metrics:
            if metric.name in owners:
                raise PluginError(
                    f"metric {metric.name!r} belongs to evaluator {owners[metric.name].name!r} and to {evaluator.name!r}; "
                    "rename one, or leave one out"
                )
            owners[metric.name] = evaluator
        for rubric in _rubrics(evaluator):
            first_rubric, owner = rubrics.setdefault(rubric.name, (rubric, evaluator))
            if first_rubric != rubric:
                raise PluginError(
                    f"evaluators {owner.name!r} and {evaluator.name!r} ask by different rubrics of one name, {rubric.name!r}; "
                    "rename one: that is how prompts are shown and replaced"
                )


def _problems(candidate: object, name: str | None) -> Iterator[str]:
    """Yield the contract violations of an evaluator; earlier ones may hide later ones."""
    missing = [
        attribute for attribute in ("name", "version", "metrics", "default") if not hasattr(candidate, attribute)
    ]
    if missing or isinstance(candidate, type):
        message = (
            f"{candidate!r} is a class, not an object"
            if isinstance(candidate, type)
            else f"it lacks {', '.join(missing)}"
        )
        yield f"no evaluator: {message}; see otel_agentic.evaluators.Evaluator"
        return
    evaluator = cast("AnyEvaluator", candidate)
    if name is not None and evaluator.name != name:
        yield f"it is named {evaluator.name!r}; the entry point and the evaluator must have the same name"
    yield from _name_problems("the name of the evaluator", evaluator.name)
    methods = [method for method in _METHODS if hasattr(evaluator, method)]
    if len(methods) != 1:
        yield f"it has {' and '.join(methods) or 'neither of ' + ', '.join(_METHODS)}; exactly one of them is an evaluator's"
    else:
        yield from _method_problems(evaluator, methods[0])
    if not evaluator.metrics:
        yield "it has no metrics; name at least one"
    for metric in evaluator.metrics:
        yield from _metric_problems(metric)


def _method_problems(evaluator: AnyEvaluator, method: str) -> Iterator[str]:
    if method == "evaluate_group":
        if not hasattr(evaluator, "reads"):
            yield "it lacks `reads`, the metrics that it looks at"
        return
    needs = getattr(evaluator, "needs", None)
    if needs is None:
        yield "it lacks `needs`; frozenset() where it can do without anything"
        return
    unknown = sorted(set(needs) - set(get_args(Need)))
    if unknown:
        yield f"needs {', '.join(map(repr, unknown))}; allowed: {', '.join(get_args(Need))}"
    if (method == "ask") != ("judge" in needs):
        yield "`judge` belongs to the needs of an evaluator that asks, and to no other's"
    if method == "ask" and evaluator.default:
        yield "one that asks a judge costs money: `default` must be False"
    if method == "ask" and not hasattr(evaluator, "rubrics"):
        yield "it lacks `rubrics`, all that it may ask by; () where it asks by none"
    for rubric in _rubrics(evaluator):
        yield from _rubric_problems(rubric)


def _rubrics(evaluator: AnyEvaluator) -> Sequence[Rubric]:
    return getattr(evaluator, "rubrics", ()) if hasattr(evaluator, "ask") else ()


def _rubric_problems(rubric: object) -> Iterator[str]:
    if not isinstance(rubric, Rubric):
        yield f"{rubric!r} among its rubrics is no Rubric"
        return
    yield from _name_problems("the name of a rubric", rubric.name)
    if rubric.name in KINDS:
        yield f"the name of a rubric, {rubric.name!r}, is that of a built-in prompt; choose another one"


def _metric_problems(metric: object) -> Iterator[str]:
    if not isinstance(metric, Metric):
        yield f"{metric!r} among its metrics is no Metric"
        return
    yield from _name_problems("a metric's name", metric.name)
    if _CORE.fullmatch(metric.name):
        yield f"metric {metric.name!r} is a score of every evaluation; choose another name"
    unknown = sorted(set(metric.needs) - set(get_args(Need)))
    if unknown:
        yield f"metric {metric.name!r} needs {', '.join(map(repr, unknown))}; allowed: {', '.join(get_args(Need))}"
    undeclared = sorted((metric.failing | set(metric.severities)) - set(metric.labels))
    if undeclared:
        yield f"metric {metric.name!r}: {', '.join(map(repr, undeclared))} in failing or severities is not one of its labels"
    if metric.target not in get_args(Target):
        yield f"metric {metric.name!r} has the target {metric.target!r}; allowed: {', '.join(get_args(Target))}"
    invalid = sorted({*metric.severities.values(), metric.severity} - set(get_args(Severity)))
    if invalid:
        yield f"metric {metric.name!r} has severity {', '.join(invalid)}; allowed: {', '.join(get_args(Severity))}"
    labels: Any = metric.labels
    if isinstance(labels, str) or not all(isinstance(label, str) for label in labels):
        yield f"metric {metric.name!r} has the labels {metric.labels!r}; texts are wanted"
    bounds = [bound for bound in (metric.low, metric.threshold, metric.high) if bound is not None]
    if bounds != sorted(bounds) or not all(map(math.isfinite, bounds)):
        yield f"metric {metric.name!r}: low, threshold and high must be finite, and in this order"


def _name_problems(what: str, name: str) -> Iterator[str]:
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        yield f"{what}, {name!r}, must be letters, digits, _ and - in parts joined by dots, at most {_LONGEST} characters"
    elif name in RESERVED:
        yield f"{what}, {name!r}, is reserved: default, all and none choose metrics, and core scores outcomes"


def _same_name(evaluator: AnyEvaluator, other: AnyEvaluator) -> str:
    if _class_name(evaluator) == _class_name(other):
        return (
            f"evaluator {evaluator.name!r} is passed twice; pass it once: --evaluator adds to `evaluators.files` of the settings, and "
            "both extend the installed ones"
        )
    return f"two evaluators are named {evaluator.name!r}: {_class_name(evaluator)} and {_class_name(other)}; rename one"


def _class_name(evaluator: AnyEvaluator) -> str:
    return f"{type(evaluator).__module__}.{type(evaluator).__qualname__}"


#: Prefix of the names of built-in metrics.
_OURS: Final = "agentic."
#: Maximum number of suggestions for a misspelt name, and their least similarity.
_SUGGESTED: Final = 5
_SIMILAR: Final = 0.75
#: Names of metrics in RAGAS and NeMo Evaluator that differ from ours.
_OTHER_NAMES: Final = {
    "agent_goal_accuracy": "agentic.ragas.goal_accuracy",
    "agent_goal_accuracy_with_reference": "agentic.ragas.goal_accuracy",
    "agent_goal_accuracy_without_reference": "agentic.ragas.goal_accuracy_without_reference",
    "goal_accuracy_with_reference": "agentic.ragas.goal_accuracy",
    "nv_accuracy": "agentic.ragas.answer_accuracy",
    "topic_adherence": "agentic.ragas.topic_adherence_f1",
    "topic_adherence(mode=f1)": "agentic.ragas.topic_adherence_f1",
    "topic_adherence(mode=precision)": "agentic.ragas.topic_adherence_precision",
    "topic_adherence(mode=recall)": "agentic.ragas.topic_adherence_recall",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The evaluators to run: those of single conversations, those of groups, and the requested metrics.

    An evaluator computes all of its metrics, and all are stored; `metrics` are the ones to report. `broad` are those
    requested only by a family or `all`. `unasked` were skipped because the judge is not a model.
    """

    evaluators: tuple[Evaluator | AskingEvaluator, ...] = ()
    groups: tuple[GroupEvaluator, ...] = ()
    metrics: frozenset[str] = frozenset()
    broad: frozenset[str] = frozenset()
    unasked: tuple[str, ...] = ()

    @property
    def judge_evaluators(self) -> tuple[AskingEvaluator, ...]:
        """The evaluators that ask a judge."""
        return tuple(evaluator for evaluator in self.evaluators if asks(evaluator))

    @property
    def asked_for(self) -> tuple[str, ...]:
        """The requested metrics for which a judge is asked, in the order of the evaluators."""
        return tuple(
            metric.name
            for evaluator in self.judge_evaluators
            for metric in evaluator.metrics
            if metric.name in self.metrics
        )

    def with_all(self, other: Chosen) -> Chosen:
        """Return the choice with the evaluators of another one; the metrics to report stay the same."""
        evaluators = {evaluator.name: evaluator for evaluator in (*self.evaluators, *other.evaluators)}
        return replace(self, evaluators=tuple(evaluators.values()))

    def without_judge(self) -> Chosen:
        """Return the choice without the evaluators that ask a judge, and without their metrics."""
        left_out = self.asked_for
        plain = tuple(evaluator for evaluator in self.evaluators if not asks(evaluator))
        return replace(self, evaluators=plain, metrics=self.metrics - set(left_out), unasked=left_out)


def all_evaluators(
    settings: EvaluatorSettings, extra_evaluators: Sequence[AnyEvaluator] = ()
) -> tuple[AnyEvaluator, ...]:
    """Return the installed evaluators by name, then those of the settings' files, then the extra ones.

    Raises:
        PluginError: an evaluator does not load, cannot be constructed, violates the contract, or shares the name of a
            metric with another one.
        UsageError: a file of the settings cannot be loaded.
        ConfigError: an evaluator cannot work with the settings.
    """
    evaluators = [*_installed(settings), *of_files(settings.files, settings), *extra_evaluators]
    check_all(evaluators)
    return tuple(evaluators)


def of_files(files: Iterable[str], settings: EvaluatorSettings) -> tuple[AnyEvaluator, ...]:
    """Return the evaluators named by `path.py:name`, in order.

    Raises:
        UsageError: a file cannot be loaded, or has no such evaluator.
    """
    names = tuple(files)
    if not names:
        return ()
    from otel_agentic.evaluators.custom import evaluator_of  # noqa: PLC0415 — few users have such files

    return tuple(require_evaluator(evaluator_of(name, settings), name) for name in names)


def metrics_by_name(evaluators: Iterable[AnyEvaluator]) -> dict[str, Metric]:
    """Return the metrics of some evaluators by full name, in their order."""
    return {metric.name: metric for evaluator in evaluators for metric in evaluator.metrics}


def owner_of(metric: str, evaluators: Iterable[AnyEvaluator]) -> AnyEvaluator | None:
    """Return the evaluator of a metric, by its full name, or None."""
    return next((evaluator for evaluator in evaluators if any(metric == own.name for own in evaluator.metrics)), None)


def family_of(name: str) -> str | None:
    """Return the family of a metric or evaluator, None if its name has a single part.

    >>> family_of("agentic.layers.plan_quality"), family_of("layers.reasoning"), family_of("politeness")
    ('layers', 'layers', None)
    """
    family, dot, _ = name.removeprefix(_OURS).partition(".")
    return family if dot else None


def resolved(names: Iterable[str], evaluators: Sequence[AnyEvaluator]) -> tuple[str, ...]:
    """Return the full names of the metrics selected by some names, each once, in the order of the names.

    A name is that of a metric or an evaluator (in full, or its last parts) or of a family, the name of a metric in RAGAS or NeMo
    Evaluator, or `default` (all that run unless metrics are chosen), `all` or `none`.

    Raises:
        UsageError: a name is unknown or means several metrics of different evaluators; the message lists the allowed
            names.
    """
    return tuple(dict.fromkeys(metric for name in names for metric in _selected_metrics(name.strip(), evaluators)))


def metric_named(name: str, evaluators: Sequence[AnyEvaluator]) -> Metric:
    """Return the one metric with a name: its full name, its last parts, or its name in RAGAS or NeMo Evaluator.

    Raises:
        UsageError: no or several metrics have the name; the message lists them.
    """
    metrics = metrics_by_name(evaluators)
    names = _by_last_parts(name.strip(), metrics) or _by_other_name(name.strip(), metrics)
    if len(names) != 1:
        raise _name_error(name, names, evaluators, only_metrics=True)
    return metrics[names[0]]


def chosen(
    settings: EvaluatorSettings,
    names: Sequence[str] | None = None,
    extra_evaluators: Sequence[AnyEvaluator] = (),
    *,
    among: Sequence[AnyEvaluator] | None = None,
) -> Chosen:
    """Return the evaluators to run.

    Args:
        settings: which metrics are computed unless names are given, and files of further evaluators.
        names: exactly these metrics, see `resolved`, or evaluators of the settings' files as `path.py:name`; None takes the
            metrics of the settings and of all of their files.
        extra_evaluators: additional evaluators; all of their metrics are computed.
        among: the result of `all_evaluators(settings)`, if it was called before.

    Raises:
        PluginError: an evaluator does not load or violates the contract.
        UsageError: a name is unknown or ambiguous, or a file cannot be loaded.
    """
    own = all_evaluators(settings) if among is None else tuple(among)
    evaluators = (*own, *extra_evaluators)
    check_all(evaluators)
    files = dict(zip(settings.files, own[len(own) - len(settings.files) :], strict=True))
    selection = (*settings.metrics, *files) if names is None else tuple(names)
    metric_names = [name for name in selection if name not in files]
    extra = metrics_by_name((*(files[name] for name in selection if name in files), *extra_evaluators))
    choice = chosen_of(evaluators, (*resolved(metric_names, evaluators), *extra))
    single = resolved((name for name in metric_names if not _is_broad(name.strip(), evaluators)), evaluators)
    return replace(choice, broad=choice.metrics - chosen_of(evaluators, (*single, *extra)).metrics)


def chosen_of(evaluators: Sequence[AnyEvaluator], metrics: Iterable[str]) -> Chosen:
    """Return the evaluators of some metrics (full names), and of the metrics that group evaluators among them read."""
    selected = set(metrics)
    for evaluator in evaluators:
        if is_of_groups(evaluator) and _selects(evaluator, selected) and not evaluator.default:
            selected |= {metric for metric in evaluator.reads if owner_of(metric, evaluators)}
    owners = [evaluator for evaluator in evaluators if _selects(evaluator, selected)]
    return Chosen(
        evaluators=tuple(evaluator for evaluator in owners if asks(evaluator) or is_plain(evaluator)),
        groups=tuple(evaluator for evaluator in owners if is_of_groups(evaluator)),
        metrics=frozenset(selected),
    )


def _selects(evaluator: AnyEvaluator, metrics: set[str]) -> bool:
    return any(metric.name in metrics for metric in evaluator.metrics)


def _installed(settings: EvaluatorSettings) -> Iterator[AnyEvaluator]:
    for plugin in plugins.find("evaluators").values():
        where = f"evaluators plug-in {plugin.name!r} of {plugin.distribution} {plugin.version}"
        yield require_evaluator(_constructed(plugin.load(), where, settings), where, plugin.name)


def _constructed(factory: Any, where: str, settings: EvaluatorSettings) -> object:
    try:
        return factory.from_settings(settings)
    except OtelAgenticError:
        raise
    except Exception as error:
        raise PluginError(f"{where}: it cannot be made: {type(error).__name__}: {error}") from error


def _selected_metrics(name: str, evaluators: Sequence[AnyEvaluator]) -> Iterable[str]:
    """Return the metrics that one name selects."""
    if name == "none":
        return ()
    if name in {"default", "all"}:
        return metrics_by_name(evaluator for evaluator in evaluators if evaluator.default or name == "all")
    metrics = metrics_by_name(evaluators)
    if name in metrics:
        return (name,)
    of_evaluator = metrics_by_name(evaluator for evaluator in evaluators if evaluator.name == name)
    of_family = [
        metric.name
        for evaluator in evaluators
        for metric in evaluator.metrics
        if name in {family_of(evaluator.name), family_of(metric.name)}
    ]
    if of_evaluator or of_family:
        return of_evaluator or of_family
    names = _by_last_parts(name, metrics)
    if len(names) == 1:
        return names
    selected = _of_evaluator_by_last_parts(name, evaluators) or _by_other_name(name, metrics)
    if names or not selected:
        raise _name_error(name, names, evaluators)
    return selected


def _is_broad(name: str, evaluators: Sequence[AnyEvaluator]) -> bool:
    """Return whether a name selects all metrics of a group: a family, or `all`."""
    single = {evaluator.name for evaluator in evaluators} | metrics_by_name(evaluators).keys()
    return name == "all" or (name not in single and name in map(family_of, single))


def _by_last_parts(name: str, metrics: Mapping[str, Metric]) -> list[str]:
    if name in metrics:
        return [name]
    return [metric for metric in metrics if name and metric.endswith(f".{name}")]


def _of_evaluator_by_last_parts(name: str, evaluators: Sequence[AnyEvaluator]) -> list[str]:
    """Return the metrics of the evaluator whose name ends with some parts, empty without a single such evaluator."""
    owners = [evaluator for evaluator in evaluators if name and evaluator.name.endswith(f".{name}")]
    return [metric.name for metric in owners[0].metrics] if len(owners) == 1 else []


def _by_other_name(name: str, metrics: Mapping[str, Metric]) -> list[str]:
    metric = _OTHER_NAMES.get(name.removeprefix("ragas."))
    return [metric] if metric is not None and metric in metrics else []


def _name_error(
    name: str, candidates: Sequence[str], evaluators: Sequence[AnyEvaluator], *, only_metrics: bool = False
) -> UsageError:
    if candidates:
        return UsageError(f"metric {name!r} may be {' or '.join(candidates)}; give more of its name")
    if not evaluators:
        return UsageError(f"no metric {name!r}: no evaluator is installed")
    hint = did_you_mean(name, list(metrics_by_name(evaluators)))
    families = ", ".join(dict.fromkeys(filter(None, (family_of(evaluator.name) for evaluator in evaluators))))
    if only_metrics:
        of_families = f" of the families {families}" if families else ""
        return UsageError(f"no metric {name!r}; {hint}allowed: a metric{of_families}, such as {_example(evaluators)}")
    of_families = f"a family ({families}), " if families else ""
    return UsageError(
        f"no metric {name!r}; {hint}allowed: default, all, none, {of_families}an evaluator (`otel-agentic plugins` lists them), or "
        f"a metric, such as {_example(evaluators)}"
    )


def _example(evaluators: Sequence[AnyEvaluator]) -> str:
    return next(iter(metrics_by_name(evaluators))).removeprefix(_OURS)


def did_you_mean(name: str, names: Sequence[str]) -> str:
    """Return a question with the names whose last part is similar to that of a name, without its opposites; "" without any.

    >>> did_you_mean("helpfulnes", ["agentic.agentest.helpfulness", "agentic.layers.recall"])
    'did you mean agentest.helpfulness? '
    """
    last_part = name.rpartition(".")[2]
    other_names = [(other, metric) for other, metric in _OTHER_NAMES.items() if metric in names]
    by_last_part: dict[str, list[str]] = {}
    for part, candidate in (*((candidate.rpartition(".")[2], candidate) for candidate in names), *other_names):
        by_last_part.setdefault(part, []).append(candidate.removeprefix(_OURS))
    possible = [part for part in by_last_part if not _are_opposites(last_part, part)]
    similar = get_close_matches(last_part, possible, n=_SUGGESTED, cutoff=_SIMILAR)
    *others, last = [*dict.fromkeys(other for part in similar for other in by_last_part[part])][:_SUGGESTED] or [""]
    return f"did you mean {', '.join(others)}{' or ' if others else ''}{last}? " if last else ""


def _are_opposites(name: str, other: str) -> bool:
    """Return whether one of two names has a word whose opposite is in the other one.

    >>> _are_opposites("accuracy_with_reference", "goal_accuracy_without_reference"), _are_opposites("recal", "recall")
    (True, False)
    """
    own, others = set(name.split("_")), set(other.split("_"))
    pairs = [("with", "without"), *((word, f"un{word}") for word in own | others)]
    return any(
        (first in own - others and second in others - own) or (second in own - others and first in others - own)
        for first, second in pairs
    )


#: Maximum number of metric names in one message.
_NAMED: Final = 5


def require_judge(chosen: Chosen, judge: Judge) -> Chosen:
    """Return the evaluators that can run with a judge.

    Without an LLM judge, the metrics of a family that need one are omitted.

    Raises:
        UsageError: a metric that needs an LLM judge was requested by name, or no metric remains.
    """
    if not chosen.judge_evaluators or "rubric" in kinds_of(judge):
        return chosen
    names = [name for name in chosen.asked_for if name not in chosen.broad]
    without_judge = chosen.without_judge()
    if not names and (without_judge.evaluators or without_judge.groups):
        return without_judge
    raise UsageError(
        f"an LLM judge is needed for {_name_list(names or without_judge.unasked)}, and judge {judge.name!r} calls no model; pass "
        "--judge langchain:openai:gpt-5-mini, or choose other metrics"
    )


def unasked_note(names: Sequence[str]) -> str:
    """Return a message that names the metrics skipped because they need an LLM judge.

    >>> unasked_note(["agentic.agentest.coherence"])
    'skipped (needs an LLM judge): agentest.coherence; pass --judge langchain:openai:gpt-5-mini'
    """
    skipped = ", ".join(name.removeprefix("agentic.") for name in names)
    return f"skipped (needs an LLM judge): {skipped}; pass --judge langchain:openai:gpt-5-mini"


def _name_list(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


def evaluation_id_of(evaluator: AnyEvaluator, core: str, judge: Judge, settings: EvaluatorSettings) -> str:
    """Return the hash of everything that the scores of an evaluator depend on besides the conversation.

    Settings are included only if the evaluator declares them: by `prices` among its needs, or in an attribute
    `configuration` with JSON values.

    Args:
        evaluator: the evaluator; its prompts are included.
        core: the id of the evaluation of the outcomes, by the code of scoring, judge, settings and truth.
        judge: the judge; a user's own instructions for a prompt are included.
        settings: the evaluator settings.
    """
    prices = settings.prices if "prices" in getattr(evaluator, "needs", ()) else {}
    rubrics = evaluator.rubrics if asks(evaluator) else ()
    content: list[Any] = [
        core,
        evaluator.name,
        evaluator.version,
        [
            [rubric.name, rubric.version, rubric.instructions, repr(rubric.form), version_for(judge, rubric)]
            for rubric in rubrics
        ],
        {name: [price.input_usd, price.output_usd] for name, price in prices.items()},
        getattr(evaluator, "configuration", None),
    ]
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=repr).encode()).hexdigest()[:16]
