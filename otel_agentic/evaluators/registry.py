"""Which evaluators there are, and which of their metrics somebody means by a name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from otel_agentic import plugins
from otel_agentic.errors import OtelAgenticError, PluginError, UsageError
from otel_agentic.evaluators.contract import check_all, require_evaluator

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from otel_agentic.config import EvaluatorSettings
    from otel_agentic.evaluators.base import AnyEvaluator, AskingEvaluator, Evaluator, GroupEvaluator, Metric

#: What stands before the family in the name of a built-in metric.
_OURS: Final = "agentic."
#: Names told in a message that lists candidates.
_TOLD: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What is to be computed: evaluators of single conversations, those of groups, and the metrics that were asked for.

    An evaluator computes all of its metrics, and all are stored; `metrics` are the ones to be told of. `broad` are those of
    them that nobody named: a family or `all` means them. `unasked` were left out of these, for the judge asks no model.
    """

    evaluators: tuple[Evaluator | AskingEvaluator, ...] = ()
    groups: tuple[GroupEvaluator, ...] = ()
    metrics: frozenset[str] = frozenset()
    broad: frozenset[str] = frozenset()
    unasked: tuple[str, ...] = ()

    @property
    def judged(self) -> tuple[AskingEvaluator, ...]:
        """Those that ask a judge."""
        return tuple(evaluator for evaluator in self.evaluators if asks(evaluator))

    @property
    def asked_for(self) -> tuple[str, ...]:
        """The metrics among these for which a judge is asked, in the order of the evaluators."""
        return tuple(metric.name for one in self.judged for metric in one.metrics if metric.name in self.metrics)

    def without_judge(self) -> Chosen:
        """Return what of it asks nobody."""
        left_out = self.asked_for
        plain = tuple(one for one in self.evaluators if not asks(one))
        return replace(self, evaluators=plain, metrics=self.metrics - set(left_out), unasked=left_out)


def asks(evaluator: AnyEvaluator) -> TypeGuard[AskingEvaluator]:
    """Return whether an evaluator asks a judge."""
    return hasattr(evaluator, "ask")


def is_of_groups(evaluator: AnyEvaluator) -> TypeGuard[GroupEvaluator]:
    """Return whether an evaluator looks at many conversations at once."""
    return hasattr(evaluator, "evaluate_group")


def is_plain(evaluator: AnyEvaluator) -> TypeGuard[Evaluator]:
    """Return whether an evaluator computes the scores of single conversations."""
    return hasattr(evaluator, "evaluate")


def all_evaluators(settings: EvaluatorSettings, given: Sequence[AnyEvaluator] = ()) -> tuple[AnyEvaluator, ...]:
    """Return the installed evaluators by name, then those of the settings' files, one each, then the given ones.

    Raises:
        PluginError: one does not load, cannot be made, breaks the contract, or has a metric of the same name as another one's.
        UsageError: a file of the settings cannot be loaded.
        ConfigError: one cannot work with the settings.
    """
    found = [*_installed(settings), *of_files(settings.files, settings), *given]
    check_all(found)
    return tuple(found)


def of_files(files: Iterable[str], settings: EvaluatorSettings) -> tuple[AnyEvaluator, ...]:
    """Return the evaluators that `path.py:name` mean, in their order.

    Raises:
        UsageError: a file cannot be loaded, or has no evaluator of that name.
    """
    names = tuple(files)
    if not names:
        return ()
    from otel_agentic.evaluators.files import evaluator_of  # noqa: PLC0415 — few have files of their own

    return tuple(require_evaluator(evaluator_of(name, settings), name) for name in names)


def metrics_by_name(evaluators: Iterable[AnyEvaluator]) -> dict[str, Metric]:
    """Return the metrics of some evaluators by whole name, in their order."""
    return {metric.name: metric for evaluator in evaluators for metric in evaluator.metrics}


def owner_of(metric: str, evaluators: Iterable[AnyEvaluator]) -> AnyEvaluator | None:
    """Return whose metric that is, by its whole name; None for nobody's."""
    return next((one for one in evaluators if any(metric == own.name for own in one.metrics)), None)


def family_of(name: str) -> str | None:
    """Return the family of a metric or evaluator, None where its name has a single part.

    >>> family_of("agentic.layers.plan_quality"), family_of("layers.reasoning"), family_of("politeness")
    ('layers', 'layers', None)
    """
    family, dot, _ = name.removeprefix(_OURS).partition(".")
    return family if dot else None


def resolved(names: Iterable[str], evaluators: Sequence[AnyEvaluator]) -> tuple[str, ...]:
    """Return the whole names of the metrics that some names mean, each once, in the order of the names.

    A name is a metric's (whole, or its last parts), an evaluator's, a family, `default` (all that run unless metrics are
    chosen), `all` or `none`.

    Raises:
        UsageError: a name is unknown or means several metrics of different evaluators; tells what is allowed.
    """
    return tuple(dict.fromkeys(metric for name in names for metric in _meant(name.strip(), evaluators)))


def metric_named(name: str, evaluators: Sequence[AnyEvaluator]) -> Metric:
    """Return the one metric that a name means: its whole name, or its last parts.

    Raises:
        UsageError: there is none, or there are several; names them.
    """
    metrics = metrics_by_name(evaluators)
    found = _by_last_parts(name.strip(), metrics)
    if len(found) != 1:
        raise _unclear(name, found, evaluators, only_metrics=True)
    return metrics[found[0]]


def chosen(
    settings: EvaluatorSettings,
    names: Sequence[str] | None = None,
    given: Sequence[AnyEvaluator] = (),
    *,
    among: Sequence[AnyEvaluator] | None = None,
) -> Chosen:
    """Return what is to be computed.

    Args:
        settings: which metrics are computed unless names are given, and files of further evaluators.
        names: exactly these metrics, see `resolved`, or evaluators of the settings' files as `path.py:name`; None takes the
            metrics of the settings and of all of their files.
        given: further evaluators; all of their metrics are computed.
        among: what `all_evaluators(settings)` returned, where it was called before.

    Raises:
        PluginError: an evaluator does not load or breaks the contract.
        UsageError: a name is unknown or ambiguous, or a file cannot be loaded.
    """
    own = all_evaluators(settings) if among is None else tuple(among)
    evaluators = (*own, *given)
    check_all(evaluators)
    files = dict(zip(settings.files, own[len(own) - len(settings.files) :], strict=True))
    wanted = (*settings.metrics, *files) if names is None else tuple(names)
    named = [name for name in wanted if name not in files]
    extra = metrics_by_name((*(files[name] for name in wanted if name in files), *given))
    found = chosen_of(evaluators, (*resolved(named, evaluators), *extra))
    single = resolved((name for name in named if not _is_broad(name.strip(), evaluators)), evaluators)
    return replace(found, broad=found.metrics - chosen_of(evaluators, (*single, *extra)).metrics)


def chosen_of(evaluators: Sequence[AnyEvaluator], metrics: Iterable[str]) -> Chosen:
    """Return the evaluators of some metrics (whole names), and of those that evaluators of groups among them look at."""
    kept = set(metrics)
    for evaluator in evaluators:
        if is_of_groups(evaluator) and _wanted(evaluator, kept) and not evaluator.default:
            kept |= {metric for metric in evaluator.reads if owner_of(metric, evaluators)}
    taken = [evaluator for evaluator in evaluators if _wanted(evaluator, kept)]
    return Chosen(
        evaluators=tuple(one for one in taken if asks(one) or is_plain(one)),
        groups=tuple(one for one in taken if is_of_groups(one)),
        metrics=frozenset(kept),
    )


def _wanted(evaluator: AnyEvaluator, metrics: set[str]) -> bool:
    return any(metric.name in metrics for metric in evaluator.metrics)


def _installed(settings: EvaluatorSettings) -> Iterator[AnyEvaluator]:
    for plugin in plugins.find("evaluators").values():
        where = f"evaluators plug-in {plugin.name!r} of {plugin.distribution} {plugin.version}"
        yield require_evaluator(_made(plugin.load(), where, settings), where, plugin.name)


def _made(kind: Any, where: str, settings: EvaluatorSettings) -> object:
    try:
        return kind.from_settings(settings)
    except OtelAgenticError:
        raise
    except Exception as error:
        raise PluginError(f"{where}: it cannot be made: {type(error).__name__}: {error}") from error


def _meant(name: str, evaluators: Sequence[AnyEvaluator]) -> Iterable[str]:
    """Return the metrics that one name means."""
    if name == "none":
        return ()
    if name in {"default", "all"}:
        return metrics_by_name(one for one in evaluators if one.default or name == "all")
    metrics = metrics_by_name(evaluators)
    if name in metrics:
        return (name,)
    of_one = metrics_by_name(one for one in evaluators if one.name == name)
    of_family = [
        metric.name
        for one in evaluators
        for metric in one.metrics
        if name in {family_of(one.name), family_of(metric.name)}
    ]
    found = of_one or of_family or _by_last_parts(name, metrics)
    if not found or (not of_one and not of_family and len(found) > 1):
        raise _unclear(name, list(found), evaluators)
    return found


def _is_broad(name: str, evaluators: Sequence[AnyEvaluator]) -> bool:
    """Return whether a name means whatever there is of a kind: a family, or `all`."""
    single = {one.name for one in evaluators} | metrics_by_name(evaluators).keys()
    return name == "all" or (name not in single and name in map(family_of, single))


def _by_last_parts(name: str, metrics: Mapping[str, Metric]) -> list[str]:
    if name in metrics:
        return [name]
    return [metric for metric in metrics if name and metric.endswith(f".{name}")]


def _unclear(
    name: str, found: Sequence[str], evaluators: Sequence[AnyEvaluator], *, only_metrics: bool = False
) -> UsageError:
    if found:
        return UsageError(f"metric {name!r} may be {' or '.join(found)}; give more of its name")
    if not evaluators:
        return UsageError(f"no metric {name!r}: no evaluator is installed")
    metrics = [metric.removeprefix(_OURS) for metric in metrics_by_name(evaluators)]
    more = f" and {len(metrics) - _TOLD} more" if len(metrics) > _TOLD else ""
    told = f"{', '.join(metrics[:_TOLD])}{more}"
    close = get_close_matches(
        name.rpartition(".")[2], [metric.rpartition(".")[2] for metric in metrics], n=1, cutoff=0.8
    )
    meant = next((metric for metric in metrics if close and metric.rpartition(".")[2] == close[0]), None)
    hint = f"did you mean {meant}? " if meant else ""
    if only_metrics:
        return UsageError(f"no metric {name!r}; {hint}there are {told}")
    families = dict.fromkeys(filter(None, (family_of(one.name) for one in evaluators)))
    of_families = f"a family ({', '.join(families)}), " if families else ""
    return UsageError(
        f"no metric {name!r}; {hint}allowed: default, all, none, {of_families}an evaluator (`otel-agentic plugins` lists them), or "
        f"a metric: {told}"
    )
