"""Evaluation configurations of NeMo Evaluator: read from JSON, run on rows, and results in its shape.

Each task names a metric and a judge. The tasks run one after the other with our metrics of the same name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError, model_validator

from otel_agentic.api.rows import RowsEvaluated, evaluate_rows
from otel_agentic.config import Settings, load_settings
from otel_agentic.errors import ConfigError, UsageError
from otel_agentic.regular_files import read_regular

#: Task types, and the metric of each; those with a suffix depend on the parameters.
_METRICS: Final[Mapping[str, str]] = {
    "topic_adherence": "ragas.topic_adherence_{mode}",
    "tool_call_accuracy": "ragas.tool_call_accuracy",
    "tool_call_f1": "ragas.tool_call_f1",
    "agent_goal_accuracy": "ragas.goal_accuracy{reference}",
    "agent_goal_accuracy_with_reference": "ragas.goal_accuracy",
    "goal_accuracy_with_reference": "ragas.goal_accuracy",
    "agent_goal_accuracy_without_reference": "ragas.goal_accuracy_without_reference",
    "goal_accuracy_without_reference": "ragas.goal_accuracy_without_reference",
    "answer_accuracy": "ragas.answer_accuracy",
}
_ENDPOINT: Final = "/chat/completions"

Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]


class _Part(BaseModel):
    # Other fields are kept, and reported as unused.
    model_config = ConfigDict(extra="allow", frozen=True, populate_by_name=True, protected_namespaces=())

    def unused(self, path: str) -> Iterator[str]:
        """Yield the paths of the fields that are not used."""
        yield from (f"{path}{name}" for name in self.model_extra or {})
        for name in type(self).model_fields:
            value = getattr(self, name)
            if isinstance(value, _Part):
                yield from value.unused(f"{path}{name}.")


class _Model(_Part):
    """The judge's model: an OpenAI-compatible endpoint, also nested in `api_endpoint`."""

    url: str | None = None
    model_id: str = Field(validation_alias=AliasChoices("model_id", "name"))
    api_key: str | None = None
    api_key_name: str | None = Field(default=None, validation_alias=AliasChoices("api_key_name", "api_key_secret"))
    format: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _endpoint(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"model_id": value}
        endpoint = value.get("api_endpoint") if isinstance(value, dict) else None
        return (
            {**{key: value[key] for key in value if key != "api_endpoint"}, **endpoint}
            if isinstance(endpoint, dict)
            else value
        )


class _Inference(_Part):
    """How the judge's model is called."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: Count | None = Field(default=None, validation_alias=AliasChoices("max_tokens", "max_new_tokens"))
    max_retries: Annotated[int, Field(ge=0)] | None = None
    request_timeout: Seconds | None = None
    max_workers: Count | None = Field(default=None, validation_alias=AliasChoices("max_workers", "parallelism"))
    judge_sanity_check: bool | None = None


class _Judge(_Inference):
    """The judge of a task."""

    model: _Model
    inference_params: _Inference | None = None
    extra: _Inference | None = None


class _Params(_Inference):
    """The parameters of a task, or of all tasks."""

    metric_mode: Literal["f1", "precision", "recall"] = "f1"
    use_reference: bool = True
    judge: _Judge | None = None
    extra: _Inference | None = None


class _Task(_Part):
    """A task: one metric."""

    type: str
    params: _Params = _Params()


class _Config(_Part):
    """A configuration with tasks, or with a single one."""

    type: str | None = None
    name: str | None = None
    namespace: str | None = None
    description: str | None = None
    params: _Params = _Params()
    tasks: Annotated[dict[str, _Task], Field(min_length=1)]

    @model_validator(mode="before")
    @classmethod
    def _single(cls, value: Any) -> Any:
        if isinstance(value, dict) and "tasks" not in value and "type" in value:
            return {
                **{key: value[key] for key in value if key != "params"},
                "tasks": {"task1": {"type": value["type"], "params": value.get("params", {})}},
            }
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class NemoTask:
    """A task: its name, the name of its metric in NeMo, our metric, and the settings of its judge."""

    name: str
    metric_name: str
    metric: str
    settings: Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class NemoConfig:
    """The tasks of a configuration, and the paths of the fields that are not used."""

    tasks: tuple[NemoTask, ...]
    unused: tuple[str, ...]


def is_nemo_config(path: Path) -> bool:
    """Return whether a settings file is JSON: our own settings are TOML, which never begins with a brace.

    Raises:
        ConfigError: the file cannot be read.
    """
    return _content(path).lstrip().startswith(b"{")


def _content(path: Path) -> bytes:
    try:
        return read_regular(path)
    except OSError as error:
        raise ConfigError(f"settings file {path}: {error.strerror}; give an existing file") from error


def read_nemo_config(path: Path, judge: str | None = None) -> NemoConfig:
    """Return the tasks of a configuration file.

    Other settings are those of the environment and of `./otel-agentic.toml`.

    Args:
        path: a JSON file.
        judge: a judge that replaces those of the tasks.

    Raises:
        ConfigError: the file is not JSON, or a field is invalid; the message names it.
        UsageError: a task has no metric here, or a key of the judge is missing.
    """
    try:
        config = _Config.model_validate(json.loads(_content(path)))
    except ValueError as error:  # ValidationError is one
        raise ConfigError(f"{path}: {_problem(error)}") from None  # the cause would show keys
    unused = list(config.unused(""))
    tasks = []
    for name, task in config.tasks.items():
        unused += task.unused(f"tasks.{name}.")
        metric_name, metric = _metric_of(task, f"{path}: tasks.{name}")
        settings = _settings_of(config.params, task.params, judge)
        tasks.append(NemoTask(name=name, metric_name=metric_name, metric=metric, settings=settings))
    return NemoConfig(tasks=tuple(tasks), unused=tuple(unused))


def _problem(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return f"not a NeMo Evaluator configuration: {error}"
    first = error.errors(include_url=False, include_input=False)[0]
    location = ".".join(str(part) for part in first["loc"])
    return f"{location}: {first['msg']}; a configuration has `tasks`, each with `type` and `params`"


def _metric_of(task: _Task, location: str) -> tuple[str, str]:
    kind = task.type.replace("-", "_")
    if kind not in _METRICS:
        raise UsageError(f"{location}.type: {task.type!r} is not available here; allowed: {', '.join(_METRICS)}")
    reference = "" if task.params.use_reference else "_without_reference"
    metric = _METRICS[kind].format(mode=task.params.metric_mode, reference=reference)
    return (f"{kind}(mode={task.params.metric_mode})" if kind == "topic_adherence" else kind), metric


def _settings_of(shared: _Params, params: _Params, judge: str | None) -> Settings:
    """Return the settings of a task; its judge's parameters precede those of the task, of all tasks and of the environment."""
    judge_of_task = params.judge or shared.judge
    layers: list[_Inference | None] = [shared, shared.extra, params, params.extra]
    if judge_of_task is not None:
        layers += [judge_of_task, judge_of_task.extra, judge_of_task.inference_params]
    inference: dict[str, Any] = {}
    for layer in layers:
        inference |= {} if layer is None else layer.model_dump(include=set(_Inference.model_fields), exclude_none=True)
    values: dict[str, Any] = {}
    if "max_retries" in inference:
        values["tries"] = inference["max_retries"] + 1
    for name, setting in (
        ("request_timeout", "timeout_s"),
        ("max_workers", "concurrency"),
        ("judge_sanity_check", "sanity_check"),
    ):
        if name in inference:
            values[setting] = inference[name]
    if judge is not None:
        return load_settings(None, scoring={"judge": judge}, judge=values)
    if judge_of_task is None:
        return load_settings(None, judge=values)
    options = {name: inference[name] for name in ("temperature", "top_p", "max_tokens") if name in inference}
    values["model_options"] = options | _endpoint_of(judge_of_task.model)
    return load_settings(None, scoring={"judge": f"langchain:openai:{judge_of_task.model.model_id}"}, judge=values)


def _endpoint_of(model: _Model) -> dict[str, str]:
    options: dict[str, str] = {}
    if model.url is not None:
        options["base_url"] = model.url.rstrip("/").removesuffix(_ENDPOINT)
    if model.api_key_name is not None:
        key = os.environ.get(model.api_key_name)
        if key is None:
            raise UsageError(
                f"judge {model.model_id}: the environment variable {model.api_key_name} with its key is not set"
            )
        options["api_key"] = key
    elif model.api_key is not None:
        options["api_key"] = model.api_key
    elif model.url is not None and "OPENAI_API_KEY" not in os.environ:
        options["api_key"] = "none"  # the client requires one, a server of one's own does not
    return options


def evaluate_tasks(
    config: NemoConfig, paths: Sequence[Path], *, progress: Callable[[int, int], None] = lambda *_: None
) -> dict[str, RowsEvaluated]:
    """Return the evaluation of each task, by its name.

    Raises:
        UsageError: the judge of a task is missing or unusable; the message names the task.
        OtelAgenticError: see `evaluate_rows`.
    """
    results: dict[str, RowsEvaluated] = {}
    checked: list[tuple[str, dict[str, Any]]] = []
    for task in config.tasks:
        settings = task.settings
        judge = (settings.scoring.judge, settings.judge.model_options)
        if judge in checked:  # one test question for each model
            settings = settings.model_copy(update={"judge": settings.judge.model_copy(update={"sanity_check": False})})
        checked.append(judge)
        try:
            results[task.name] = evaluate_rows(paths, settings, [task.metric], progress=progress)
        except UsageError as error:
            raise UsageError(f"tasks.{task.name}: {error}") from error
    return results


def nemo_json(tasks: Sequence[tuple[str, str, RowsEvaluated]]) -> dict[str, Any]:
    """Return results in NeMo's shape, `tasks.TASK.metrics.METRIC.scores.METRIC.value`, for (task, metric name, evaluation).

    A value without any scored row is null; `stats.count` is the number of scored rows.
    """
    results: dict[str, Any] = {}
    for name, metric_name, evaluation in tasks:
        metrics = evaluation.metrics.to_json(evaluation.names)["metrics"]
        for metric in metrics:
            own_name = metric_name or metric["name"].rpartition(".")[2]
            score = {"value": metric["mean"], "stats": {"count": metric["n"], "mean": metric["mean"]}}
            entry = results.setdefault(name or own_name, {"metrics": {}})
            entry["metrics"][own_name] = {"scores": {own_name: score}}
    return {"tasks": results}
