"""The prompts of judged metrics and built-in questions, with the messages that models receive."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, get_args

from otel_agentic import plugins
from otel_agentic.errors import UsageError
from otel_agentic.evaluators.base import AnyEvaluator, AskingEvaluator, asks
from otel_agentic.evaluators.registry import did_you_mean, resolved
from otel_agentic.judges.messages import SYSTEM, Way, human_message, schema_of
from otel_agentic.judges.prompts import KINDS, Prompt, merge_rubric, own_prompt

if TYPE_CHECKING:
    from otel_agentic.judges.base import QuestionKind, ReplyForm, Rubric

#: Placeholders for the parts that differ between messages: the nonce of the markers, and the material.
NONCE: Final = "NONCE"
MATERIAL: Final = '{"NAME": "TEXT", ...}'
#: The system message, with a placeholder for the nonce of the markers.
SYSTEM_MESSAGE: Final = SYSTEM.format(nonce=NONCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompted:
    """One current prompt. `metrics` are the metrics of the evaluators that use it; there may be no such metric.

    `source` is `built-in`, the distribution or file that provides it, or the file that replaces it; `form` None means a
    score from 0 to 1.
    """

    name: str
    version: str
    text: str
    source: str
    metrics: tuple[str, ...] = ()
    form: ReplyForm | None = None

    @property
    def digest(self) -> str:
        """The hash of the text."""
        return hashlib.blake2b(self.text.encode(), digest_size=8).hexdigest()

    def human(self, way: Way) -> str:
        """Return the message to a model verbatim, with placeholders for the parts that differ between messages."""
        return human_message(MATERIAL, self.text, self.form, way, NONCE)

    @property
    def ways(self) -> dict[Way, dict[str, Any]]:
        """By way of asking, the message and the schema of the reply; models that reply in plain text get no schema."""
        schemas = {"structured": schema_of(self.form), "tool": schema_of(self.form)}
        return {way: {"human": self.human(way), "schema": schemas.get(way)} for way in get_args(Way)}


def built_in_prompts(own: Mapping[QuestionKind, Prompt]) -> list[Prompted]:
    """Return the current prompts of the questions that scoring asks."""
    return [
        Prompted(name=kind, version=own[kind].version, text=own[kind].text, source=own[kind].source) for kind in KINDS
    ]


def prompts_of(evaluators: Iterable[AnyEvaluator], own: Mapping[QuestionKind, Prompt]) -> list[Prompted]:
    """Return the prompts of evaluators, sorted by name, each once.

    Args:
        evaluators: the evaluators.
        own: the current prompts, see `prompt_texts`, including a user's own.
    """
    metrics: dict[str, dict[str, None]] = {}
    rubrics: dict[str, tuple[Rubric, str]] = {}
    for evaluator in evaluators:
        for rubric in evaluator.rubrics if asks(evaluator) else ():
            rubrics.setdefault(rubric.name, (rubric, _provider_of(evaluator)))
            metrics.setdefault(rubric.name, {}).update(dict.fromkeys(metric.name for metric in evaluator.metrics))
    return [
        _current_prompt(rubric, source, tuple(metrics[name]), own) for name, (rubric, source) in sorted(rubrics.items())
    ]


def merge_prompt(own: Mapping[QuestionKind, Prompt]) -> Prompted:
    """Return the prompt that joins groups of failures; it belongs to no metric."""
    return _current_prompt(merge_rubric(), "built-in", (), own)


#: Names of prompts in other systems.
_OTHER_NAMES: Final = {"error_deduplication": "failures.merge"}


def prompts_named(name: str, evaluators: Sequence[AnyEvaluator], own: Mapping[QuestionKind, Prompt]) -> list[Prompted]:
    """Return the prompts with a name, or of the metric, evaluator or family with this name.

    Args:
        name: a kind of question, a prompt, or a metric, an evaluator or a family as on the command line.
        evaluators: all evaluators.
        own: the current prompts.

    Raises:
        UsageError: the name is unknown or ambiguous, or asks no judge; the message lists the allowed ones.
    """
    asking_evaluators = [evaluator for evaluator in evaluators if asks(evaluator)]
    all_prompts = [*built_in_prompts(own), merge_prompt(own), *prompts_of(asking_evaluators, own)]
    name = _OTHER_NAMES.get(name.strip(), name.strip())
    named_prompts = [prompt for prompt in all_prompts if prompt.name == name]
    if named_prompts:
        return named_prompts
    metrics = set(_judge_metrics_named(name, evaluators, asking_evaluators, [prompt.name for prompt in all_prompts]))
    selected = [
        evaluator for evaluator in asking_evaluators if any(metric.name in metrics for metric in evaluator.metrics)
    ]
    return prompts_of(selected, own)


def _judge_metrics_named(
    name: str, evaluators: Sequence[AnyEvaluator], asking_evaluators: Sequence[AskingEvaluator], prompts: Sequence[str]
) -> tuple[str, ...]:
    """Return the metrics with a name that ask a judge."""
    judge_metrics = {metric.name for evaluator in asking_evaluators for metric in evaluator.metrics}
    try:
        metrics = resolved([name], evaluators)
    except UsageError as error:
        if " may be " in str(error):
            raise
        raise UsageError(
            f"no prompt and no metric {name!r}; {did_you_mean(name, [*prompts, *judge_metrics])}allowed: a prompt (`otel-agentic prompts show` lists them), or a metric, "
            "evaluator or family that asks a judge"
        ) from None
    selected = tuple(metric for metric in metrics if metric in judge_metrics)
    if not selected:
        raise UsageError(
            f"{name} asks no judge, so it has no prompt; those that do: {', '.join(sorted(judge_metrics))}"
        )
    return selected


def _current_prompt(
    rubric: Rubric, source: str, metrics: tuple[str, ...], own: Mapping[QuestionKind, Prompt]
) -> Prompted:
    replacement = own_prompt(rubric, own)
    return Prompted(
        name=rubric.name,
        version=rubric.version if replacement is None else replacement.version,
        text=rubric.instructions if replacement is None else replacement.text,
        source=source if replacement is None else replacement.source,
        metrics=metrics,
        form=rubric.form,
    )


def _provider_of(evaluator: AnyEvaluator) -> str:
    """Return the distribution that provides an evaluator, or else its file."""
    module = type(evaluator).__module__
    if module.startswith("otel_agentic."):
        return "built-in"
    plugin = plugins.find("evaluators").get(evaluator.name)
    if plugin is not None:
        return f"{plugin.distribution} {plugin.version}"
    return getattr(sys.modules.get(module), "__file__", None) or evaluator.name
