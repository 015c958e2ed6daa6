"""A baseline: the measured rates and metrics of each agent, for comparison with later ones; in the store or a JSON file."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from otel_agentic.errors import BadInputError, UsageError
from otel_agentic.reports.conversations import iso
from otel_agentic.stats.compare import Values
from otel_agentic.stats.model import Attempts, CaseWeights, case_count
from otel_agentic.store.truth import list_baselines, load_baseline
from otel_agentic.windows import attempts_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_agentic.engine.engine import Engine
    from otel_agentic.reports.gate_conditions import Group

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_Count = Annotated[int, Field(ge=0)]
_Number = Annotated[float, Field(allow_inf_nan=False)]
_Weight = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CaseAttempts(_Part):
    """Evaluated attempts of one case; `weights` as in `CaseWeights`, or None if all are 1."""

    dataset: str
    case_id: str
    n: Annotated[int, Field(ge=1)]
    c: _Count
    weights: tuple[_Weight, _Number, _Weight] | None = None


class WithoutCase(_Part):
    """Evaluated conversations without a case: `n` of them, all correct or none, with the same weight."""

    correct: bool
    n: Annotated[int, Field(ge=1)]
    weight: _Weight = 1.0


class CaseMean(_Part):
    """The mean of a metric over the `n` conversations of one case with a value."""

    dataset: str
    case_id: str
    mean: _Number
    n: Annotated[int, Field(ge=1)] = 1


class MetricMean(_Part):
    """The values of one metric; see `stats.means.Values`."""

    n: Annotated[int, Field(ge=1)]
    units: Annotated[int, Field(ge=1)]
    mean: _Number
    variance: Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
    cases: tuple[CaseMean, ...] = ()

    @classmethod
    def of(cls, values: Values) -> MetricMean:
        """Return values in the form in which they are stored."""
        cases = (CaseMean(dataset=key[0], case_id=key[1], mean=mean, n=n) for key, (mean, n) in values.cases.items())
        return cls(n=values.n, units=values.units, mean=values.mean, variance=values.variance, cases=tuple(cases))

    @property
    def values(self) -> Values:
        """The values in the form in which they are compared."""
        cases = {(case.dataset, case.case_id): (case.mean, case.n) for case in self.cases}
        return Values(n=self.n, units=self.units, mean=self.mean, variance=self.variance, cases=cases)


class AgentBaseline(_Part):
    """The rates and metrics of one agent; the agent is None if it is unknown."""

    agent: str | None
    versions: tuple[str, ...] = ()
    conversations: _Count
    n: _Count
    c: _Count
    cases: tuple[CaseAttempts, ...] = ()
    alone: tuple[WithoutCase, ...] = ()
    metrics: dict[str, MetricMean] = {}

    @classmethod
    def of(cls, group: Group, metrics: Mapping[str, Values]) -> AgentBaseline:
        """Return the current rates and metrics of a group."""
        with_case = {member.case_key for member in group.members if member.case_id is not None}
        attempts = attempts_of(group.members)
        cases = [case for case in attempts.cases if (case.dataset, case.case_id) in with_case]
        alone = Counter(
            (case.c == 1, case.weights.total if case.weights else 1.0)
            for case in attempts.cases
            if (case.dataset, case.case_id) not in with_case
        )
        return cls(
            agent=group.agent,
            versions=tuple(sorted({member.agent_version for member in group.members if member.agent_version})),
            conversations=len(group.members),
            n=attempts.n,
            c=attempts.c,
            cases=tuple(
                CaseAttempts(dataset=case.dataset, case_id=case.case_id, n=case.n, c=case.c, weights=case.weights)
                for case in cases
            ),
            alone=tuple(
                WithoutCase(correct=correct, n=n, weight=weight) for (correct, weight), n in sorted(alone.items())
            ),
            metrics={name: MetricMean.of(values) for name, values in sorted(metrics.items())},
        )

    @property
    def attempts(self) -> Attempts:
        """The evaluated conversations by case; each conversation without a case has a unique name."""
        cases = [
            case_count(
                (case.dataset, case.case_id), case.n, case.c, CaseWeights(*(case.weights or (case.n, case.c, case.n)))
            )
            for case in self.cases
        ]
        for index, part in enumerate(self.alone):
            weights = CaseWeights(part.weight, part.weight * part.correct, part.weight**2)
            # A name that no conversation can have.
            names = (("", f"baseline {index}/{number}") for number in range(part.n))
            cases += [case_count(name, 1, int(part.correct), weights) for name in names]
        return Attempts(cases=tuple(sorted(cases, key=lambda case: (case.dataset, case.case_id))))


class Baseline(_Part):
    """A baseline; `evaluations` are those of its scores, `last_end` is the end of its last conversation."""

    format: Literal["otel-agentic gate baseline"] = "otel-agentic gate baseline"
    version: Literal[1] = 1
    name: str
    saved_at: str
    conversations: _Count
    last_end: str | None = None
    evaluations: tuple[str, ...] = ()
    agents: tuple[AgentBaseline, ...]

    def of(self, agent: str | None) -> AgentBaseline | None:
        """Return the baseline of an agent, or None."""
        return next((candidate for candidate in self.agents if candidate.agent == agent), None)


def is_file(baseline: str) -> bool:
    """Return whether a baseline is a file, not a name: it ends in `.json`, or contains a folder.

    >>> is_file("main"), is_file("main.json"), is_file("ci/main")
    (False, True, True)
    """
    return baseline.endswith(".json") or len(PurePath(baseline).parts) > 1


def require_name(name: str) -> str:
    """Return the name of a stored baseline.

    Raises:
        UsageError: the name is invalid.
    """
    if _NAME.fullmatch(name) is None:
        raise UsageError(
            f"baseline {name!r}: a name is up to 100 letters, digits and ._- (or give a file that ends in .json)"
        )
    return name


def measured(
    engine: Engine,
    groups: Sequence[Group],
    metrics: Mapping[str | None, Mapping[str, Values]],
    *,
    name: str,
    evaluations: Sequence[str],
) -> Baseline:
    """Return the current rates and metrics as a baseline; `metrics` are values by agent and metric name."""
    ended = [member.ended_ns for group in groups for member in group.members]
    return Baseline(
        name=name,
        saved_at=iso(engine.store.clock()),
        conversations=len(ended),
        last_end=iso(max(ended)) if ended else None,
        evaluations=tuple(evaluations),
        agents=tuple(AgentBaseline.of(group, metrics.get(group.agent, {})) for group in groups),
    )


def stored(engine: Engine, name: str) -> Baseline:
    """Return a baseline of the store.

    Raises:
        UsageError: the name is invalid.
        BadInputError: the baseline is unknown; the message lists those of the store.
    """
    with engine.store.read() as con:
        definition = load_baseline(con, require_name(name))
        known = [row["name"] for row in list_baselines(con)]
    if definition is None:
        raise BadInputError(
            f"no baseline {name!r} in this store (saved: {', '.join(known) or 'none'}); "
            f"`otel-agentic gate --save-baseline {name}` saves one"
        )
    return read(definition, f"baseline {name!r}")


def read(definition: Any, source: str) -> Baseline:
    """Return the baseline that a JSON value defines; `source` names it in messages.

    Raises:
        BadInputError: the value is not a baseline; the message has field and reason.
    """
    try:
        return Baseline.model_validate(definition)
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(str(part) for part in first["loc"]) or "document"
        raise BadInputError(
            f"{source} was not written by `otel-agentic gate --save-baseline`: {path}: {first['msg']}"
        ) from None
