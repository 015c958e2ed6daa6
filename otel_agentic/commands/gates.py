"""Commands that check results: suites of cases, and gates with their baselines."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import orjson
from pydantic import Field

from otel_agentic.commands.registry import Context, command
from otel_agentic.errors import BadInputError, UsageError
from otel_agentic.reports.baselines import Baseline, read, require_name, stored
from otel_agentic.reports.gate import Gate
from otel_agentic.reports.gate_conditions import GateSelection, merged
from otel_agentic.reports.suites import TrendBy, require_suite, trend
from otel_agentic.results.evaluation import Suite, SuiteTrend
from otel_agentic.results.gate import GateResult, is_file
from otel_agentic.store.connection import DEFAULT
from otel_agentic.store.queries.scored_conversations import Kinds, KindTable, scored_conversations
from otel_agentic.store.table import Selection
from otel_agentic.store.truth import load_cases, save_baseline


@command("suites", role="query")
def suites(
    context: Context,
    *,
    selection: Selection,
    evaluation: str = DEFAULT,
) -> list[Suite]:
    """Return each tag of current cases with its number of cases, drafts, conversations and correct ones."""
    with context.showing(evaluation).store.read() as con:
        cases = load_cases(con)
        kinds = KindTable(con, Kinds(selection=selection)).conversations
    tags = sorted({tag for case in cases for tag in case.tags})
    conversations, evaluated, correct = Counter[str](), Counter[str](), Counter[str]()
    for kind in kinds:
        for tag in set(kind.tags):
            conversations[tag] += kind.count
            evaluated[tag] += kind.count * (kind.outcome != "not_evaluated")
            correct[tag] += kind.count * (kind.outcome == "pass")
    return [
        Suite(
            evaluation=evaluation,
            suite=tag,
            cases=sum(tag in case.tags for case in cases),
            drafts=sum(tag in case.tags and not case.reviewed for case in cases),
            conversations=conversations[tag],
            n=evaluated[tag],
            c=correct[tag],
        )
        for tag in tags
    ]


@command("suite_trend", role="query")
def suite_trend(
    context: Context,
    *,
    suite: Annotated[str, Field(min_length=1)],
    by: TrendBy = "version",
    selection: Selection,
    evaluation: str = DEFAULT,
) -> SuiteTrend:
    """Return the results of a suite's conversations, point by point.

    Raises:
        BadInputError: no current case has the tag.
    """
    level = context.engine.settings.stats.level
    with context.showing(evaluation).store.read() as con:
        cases = require_suite(con, suite)
        scored = scored_conversations(con, selection)
    return SuiteTrend(
        evaluation=evaluation,
        suite=suite,
        by=by,
        level=level,
        cases=len(cases),
        drafts=sum(not case.reviewed for case in cases),
        points=trend((conversation for conversation in scored if suite in conversation.tags), by, level),
    )


@command("gate", role="query")
def gate(
    context: Context,
    *,
    conditions: dict[str, Any] | None = None,
    selection: GateSelection,
    estimator: str | None = None,
    baseline: Any | None = None,
    measure: Annotated[str, Field(min_length=1)] | None = None,
    evaluation: str = DEFAULT,
) -> GateResult:
    """Return whether the conditions hold for each agent: those of the settings, and those of the command.

    Args:
        context: the store and its resources.
        conditions: as in the section `gate` of the settings; they are added to, or replace, those of the settings. A
            baseline in them is the name of a stored one.
        selection: the conversations.
        estimator: the estimator of pass@k and pass^k; None means the configured one.
        baseline: the content of a baseline file; it replaces the baseline that the conditions name.
        measure: also return the current rates and metrics as a baseline with this name.
        evaluation: the evaluation whose scores are checked.

    Raises:
        UsageError: an evaluation, condition, metric, window or name is invalid, or there is no condition and nothing to save.
        PluginError: the estimator is unknown.
        BadInputError: the baseline is unknown, or no case has the tag.
    """
    changes, settings = conditions or {}, context.engine.settings.gate
    merged_conditions = merged(settings, changes)
    baseline_name = changes.get("baseline")
    # The client may run on another machine: the server opens no paths for it.
    if isinstance(baseline_name, str) and is_file(baseline_name):
        raise UsageError(
            f"baseline {baseline_name!r}: name one in the store, or send the content of the file as `baseline`"
        )
    stored_baseline = (
        _baseline(context, merged_conditions.baseline) if baseline is None else read(baseline, "the baseline file")
    )
    checked = Gate.of(
        context.showing(evaluation),
        merged_conditions,
        selection,
        estimator,
        stored_baseline,
        measures=measure is not None,
    )
    result = checked.result(measure)
    is_configured = "min_n" in settings.model_fields_set | changes.keys()
    if measure is None and not is_configured and all(row.condition == "n" for row in result.rows):
        raise UsageError(
            "no condition: the check of severities is turned off, and nothing else is configured; "
            "give one, such as --min-pass-pow-k 3=0.7"
        )
    return result


@command("gate_save_baseline")
def gate_save_baseline(context: Context, *, baseline: dict[str, Any]) -> dict[str, Any]:
    """Save a baseline in the store, or replace the one with its name.

    Raises:
        UsageError: the name is invalid.
        BadInputError: the value is not a baseline.
    """
    valid_baseline = read(baseline, "the baseline")
    name = require_name(valid_baseline.name)
    definition = orjson.dumps(valid_baseline.model_dump(mode="json")).decode()

    context.engine.store.write(
        lambda con: save_baseline(
            con,
            name,
            definition,
            conversations=valid_baseline.conversations,
            evaluations=valid_baseline.evaluations,
            now_ns=context.engine.store.clock(),
        )
    )
    return {"name": name, "conversations": valid_baseline.conversations}


def _baseline(context: Context, name: str | None) -> Baseline | None:
    """Return the baseline that the conditions name: one in the store, or a file that the server's own settings name."""
    if name is None:
        return None
    if not is_file(name):
        return stored(context.engine, name)
    try:
        return read(orjson.loads(Path(name).read_bytes()), f"{name}")
    except OSError as error:
        raise BadInputError(
            f"baseline file {name}: {error.strerror}; `otel-agentic gate --save-baseline {name}` makes one"
        ) from error
    except orjson.JSONDecodeError as error:
        raise BadInputError(f"baseline file {name} is not JSON: {error}") from error
