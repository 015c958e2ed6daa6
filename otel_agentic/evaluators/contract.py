"""What an evaluator promises, checked once when it is loaded: a fault in it is told then, and not as strange scores."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final, cast, get_args

from otel_agentic.config import Severity
from otel_agentic.errors import PluginError
from otel_agentic.evaluators.base import CORE, Metric, Need, Target
from otel_agentic.judges.base import Rubric
from otel_agentic.judges.prompts import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from otel_agentic.evaluators.base import AnyEvaluator

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")
_LONGEST: Final = 120
#: What a name on the command line means besides metrics, evaluators and families, and the evaluator of the core scores.
RESERVED: Final = frozenset({"default", "all", "none", CORE})
#: Names of the core scores, which every evaluation writes.
_CORE: Final = re.compile(r"agentic\.(conversation|answer|tool(\.\w+)?)")
_WAYS: Final = ("evaluate", "ask", "evaluate_group")


def require_evaluator(found: object, where: str, name: str | None = None) -> AnyEvaluator:
    """Return what was loaded as an evaluator.

    Args:
        found: what was loaded.
        where: who offers it, for messages.
        name: the name that it must have, None for any.

    Raises:
        PluginError: it breaks the contract; says how.
    """
    try:
        problem = next(_problems(found, name), None)
    except (TypeError, ValueError, AttributeError) as error:  # a stranger put a list where a set is wanted
        problem = f"no evaluator: an attribute of it or of a metric has the wrong type: {error}; see otel_agentic.evaluators.Evaluator"
    if problem is not None:
        raise PluginError(f"{where}: {problem}")
    return cast("AnyEvaluator", found)


def check_all(evaluators: Iterable[AnyEvaluator]) -> None:
    """Raise unless each evaluator keeps the contract, and no two share a name, a metric, or the name of different prompts.

    Raises:
        PluginError: names both owners.
    """
    names: dict[str, AnyEvaluator] = {}
    owners: dict[str, AnyEvaluator] = {}
    rubrics: dict[str, tuple[Rubric, AnyEvaluator]] = {}
    for one in evaluators:
        require_evaluator(one, f"evaluator {getattr(one, 'name', one)!r}")
        if one.name in names:
            raise PluginError(_same_name(names[one.name], one))
        names[one.name] = one
        for metric in one.metrics:
            if metric.name in owners:
                raise PluginError(
                    f"metric {metric.name!r} belongs to evaluator {owners[metric.name].name!r} and to {one.name!r}; "
                    "rename one, or leave one out"
                )
            owners[metric.name] = one
        for rubric in _rubrics(one):
            known, owner = rubrics.setdefault(rubric.name, (rubric, one))
            if known != rubric:
                raise PluginError(
                    f"evaluators {owner.name!r} and {one.name!r} ask by different rubrics of one name, {rubric.name!r}; "
                    "rename one: that is how prompts are shown and replaced"
                )


def _problems(found: object, name: str | None) -> Iterator[str]:
    """Yield what is wrong with an evaluator; what comes first may hide what comes later."""
    lacks = [attribute for attribute in ("name", "version", "metrics", "default") if not hasattr(found, attribute)]
    if lacks or isinstance(found, type):
        told = f"{found!r} is a class, not an object" if isinstance(found, type) else f"it lacks {', '.join(lacks)}"
        yield f"no evaluator: {told}; see otel_agentic.evaluators.Evaluator"
        return
    one = cast("AnyEvaluator", found)
    if name is not None and one.name != name:
        yield f"it is named {one.name!r}; the entry point and the evaluator must have the same name"
    yield from _name_problems("the name of the evaluator", one.name)
    ways = [way for way in _WAYS if hasattr(one, way)]
    if len(ways) != 1:
        yield f"it has {' and '.join(ways) or 'neither of ' + ', '.join(_WAYS)}; exactly one of them is an evaluator's"
    else:
        yield from _way_problems(one, ways[0])
    if not one.metrics:
        yield "it has no metrics; name at least one"
    for metric in one.metrics:
        yield from _metric_problems(metric)


def _way_problems(one: AnyEvaluator, way: str) -> Iterator[str]:
    if way == "evaluate_group":
        if not hasattr(one, "reads"):
            yield "it lacks `reads`, the metrics that it looks at"
        return
    needs = getattr(one, "needs", None)
    if needs is None:
        yield "it lacks `needs`; frozenset() where it can do without anything"
        return
    unknown = sorted(set(needs) - set(get_args(Need)))
    if unknown:
        yield f"needs {', '.join(map(repr, unknown))}; allowed: {', '.join(get_args(Need))}"
    if (way == "ask") != ("judge" in needs):
        yield "`judge` belongs to the needs of an evaluator that asks, and to no other's"
    if way == "ask" and one.default:
        yield "one that asks a judge costs money: `default` must be False"
    if way == "ask" and not hasattr(one, "rubrics"):
        yield "it lacks `rubrics`, all that it may ask by; () where it asks by none"
    for rubric in _rubrics(one):
        yield from _rubric_problems(rubric)


def _rubrics(one: AnyEvaluator) -> Sequence[Rubric]:
    return getattr(one, "rubrics", ()) if hasattr(one, "ask") else ()


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
    strange = sorted((metric.failing | set(metric.severities)) - set(metric.labels))
    if strange:
        yield f"metric {metric.name!r}: {', '.join(map(repr, strange))} among failing or severities is none of its labels"
    if metric.target not in get_args(Target):
        yield f"metric {metric.name!r} has the target {metric.target!r}; allowed: {', '.join(get_args(Target))}"
    awful = sorted({*metric.severities.values(), metric.severity} - set(get_args(Severity)))
    if awful:
        yield f"metric {metric.name!r} has severity {', '.join(awful)}; allowed: {', '.join(get_args(Severity))}"
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


def _same_name(one: AnyEvaluator, other: AnyEvaluator) -> str:
    if _home(one) == _home(other):
        return (
            f"evaluator {one.name!r} is given twice; give it once: --evaluator adds to `evaluators.files` of the settings, and "
            "both add to what is installed"
        )
    return f"two evaluators are named {one.name!r}: {_home(one)} and {_home(other)}; rename one"


def _home(one: AnyEvaluator) -> str:
    return f"{type(one).__module__}.{type(one).__qualname__}"
