"""Commands of gates: check conditions, save baselines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import orjson
from pydantic import Field

from otel_agentic.commands.registry import Context, command
from otel_agentic.errors import BadInputError, UsageError
from otel_agentic.reports.baselines import Baseline, is_file, read, require_name, stored
from otel_agentic.reports.gate import Gate
from otel_agentic.reports.gate_conditions import GateSelection, merged
from otel_agentic.store.selection import DEFAULT, Selection, to_json_value
from otel_agentic.store.truth import save_baseline


def _of_evaluation(name: str) -> list[str]:
    """Return a note that names the evaluation unless it is the default one."""
    return [] if name == DEFAULT else [f"evaluation {name}, not the default one"]


@command("gate", role="query")
def gate(
    context: Context,
    *,
    conditions: dict[str, Any] | None = None,
    since_ns: int | None = None,
    until_ns: int | None = None,
    agent: str | None = None,
    window: str | None = None,
    suite: str | None = None,
    agent_version: str | None = None,
    environment: str | None = None,
    estimator: str | None = None,
    baseline: Any | None = None,
    measure: Annotated[str, Field(min_length=1)] | None = None,
    evaluation: str = DEFAULT,
) -> dict[str, Any]:
    """Return whether the conditions hold for each agent: those of the settings, and those of the command.

    Args:
        context: the store and its resources.
        conditions: as in the section `gate` of the settings; they are added to, or replace, those of the settings. A
            baseline in them is the name of a stored one.
        since_ns: conversations that ended at or after this time.
        until_ns: conversations that ended before this time.
        agent: a name or glob.
        window: as in `report`.
        suite: only conversations whose case has this tag.
        agent_version: only conversations of this version.
        environment: only conversations of this deployment environment.
        estimator: of pass@k and pass^k; unless given, the configured one.
        baseline: the content of a baseline file; it replaces the one that the conditions name.
        measure: also return the current rates and metrics as a baseline with this name.
        evaluation: the evaluation whose scores are checked.

    Raises:
        UsageError: an evaluation, condition, metric, window or name is invalid, or there is no condition and nothing to save.
        PluginError: the estimator is unknown.
        BadInputError: the baseline is unknown, or no case has the tag.
    """
    merged_conditions = merged(context.engine.settings.gate, conditions or {})
    gate_selection = GateSelection(
        selection=Selection(since_ns=since_ns, until_ns=until_ns, agent=agent),
        window=window,
        suite=suite,
        agent_version=agent_version,
        environment=environment,
    )
    named = (conditions or {}).get("baseline")
    if isinstance(named, str) and is_file(
        named
    ):  # the client may run on another machine: the server opens no paths for it
        raise UsageError(f"baseline {named!r}: name one in the store, or send the content of the file as `baseline`")
    compared = (
        _baseline(context, merged_conditions.baseline) if baseline is None else read(baseline, "the baseline file")
    )
    gate = Gate.of(context.showing(evaluation), merged_conditions, gate_selection, estimator, compared)
    rows = gate.rows()
    configured = context.engine.settings.gate.model_fields_set | set(conditions or {})
    if measure is None and "min_n" not in configured and all(row.condition == "n" for row in rows):
        raise UsageError(
            "no condition: the check of severities is turned off, and nothing else is configured; "
            "give one, such as --min-pass-pow-k 3=0.7"
        )
    result = {
        "evaluation": evaluation,
        "passed": not any(row.stops for row in rows),
        "agents": [group.agent for group in gate.groups],
        "conversations": sum(len(group.members) for group in gate.groups),
        "evaluated": sum(group.evaluated for group in gate.groups),
        "level": context.engine.settings.stats.level,
        "bound": merged_conditions.bound,
        "baseline": compared
        and {"name": compared.name, "saved_at": compared.saved_at, "conversations": compared.conversations},
        "rows": [row.json() for row in rows],
        "not_evaluated": gate.reasons,
        "notes": [*_of_evaluation(evaluation), *gate.notes()],
        "measured": gate.measured(measure).model_dump(mode="json") if measure is not None else None,
    }
    return dict(to_json_value(result))


@command("gate_save_baseline")
def gate_save_baseline(context: Context, *, baseline: dict[str, Any]) -> dict[str, Any]:
    """Save a baseline in the store, or replace the one with its name.

    Raises:
        UsageError: the name is invalid.
        BadInputError: the value is not a baseline.
    """
    checked = read(baseline, "the baseline")
    name = require_name(checked.name)
    definition = orjson.dumps(checked.model_dump(mode="json")).decode()

    context.engine.store.write(
        lambda con: save_baseline(
            con,
            name,
            definition,
            conversations=checked.conversations,
            evaluations=checked.evaluations,
            now_ns=context.engine.store.clock(),
        )
    )
    return {"name": name, "conversations": checked.conversations}


def _baseline(context: Context, name: str | None) -> Baseline | None:
    """Return the baseline that the conditions name: one in the store, or a file that our own settings name."""
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
