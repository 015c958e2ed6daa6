"""A baseline: what was measured of each agent, to be held against what is measured later. In the store or in a JSON file."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from otel_agentic.errors import BadInputError, UsageError
from otel_agentic.pipeline.export import iso
from otel_agentic.stats.means import Values
from otel_agentic.stats.model import Attempts, CaseWeights, case_count
from otel_agentic.store.baselines import list_baselines, load_baseline
from otel_agentic.windows import attempts_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_agentic.pipeline.engine import Engine
    from otel_agentic.pipeline.gate.model import Group

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_Count = Annotated[int, Field(ge=0)]
_Number = Annotated[float, Field(allow_inf_nan=False)]
_Weight = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CaseAttempts(_Part):
    """Evaluated attempts of one case; `weights` as in `CaseWeights`, None where all are 1."""

    dataset: str
    case_id: str
    n: Annotated[int, Field(ge=1)]
    c: _Count
    weights: tuple[_Weight, _Number, _Weight] | None = None


class Alone(_Part):
    """Evaluated conversations without a case: `n` of them, all correct or none, each of one weight."""

    correct: bool
    n: Annotated[int, Field(ge=1)]
    weight: _Weight = 1.0


class CaseMean(_Part):
    """The mean of a metric over the `n` conversations of one case that have a value."""

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
        """Return values as they are written."""
        cases = (CaseMean(dataset=key[0], case_id=key[1], mean=mean, n=n) for key, (mean, n) in values.cases.items())
        return cls(n=values.n, units=values.units, mean=values.mean, variance=values.variance, cases=tuple(cases))

    @property
    def values(self) -> Values:
        """The values as they are compared."""
        cases = {(case.dataset, case.case_id): (case.mean, case.n) for case in self.cases}
        return Values(n=self.n, units=self.units, mean=self.mean, variance=self.variance, cases=cases)


class AgentBaseline(_Part):
    """What was measured of one agent; None is the one that is not known."""

    agent: str | None
    versions: tuple[str, ...] = ()
    conversations: _Count
    n: _Count
    c: _Count
    cases: tuple[CaseAttempts, ...] = ()
    alone: tuple[Alone, ...] = ()
    metrics: dict[str, MetricMean] = {}

    @classmethod
    def of(cls, group: Group, metrics: Mapping[str, Values]) -> AgentBaseline:
        """Return what is measured of a group now."""
        with_case = {one.case_key for one in group.members if one.case_id is not None}
        attempts = attempts_of(group.members)
        cases = [case for case in attempts.cases if (case.dataset, case.case_id) in with_case]
        alone = Counter(
            (case.c == 1, case.weights.total if case.weights else 1.0)
            for case in attempts.cases
            if (case.dataset, case.case_id) not in with_case
        )
        return cls(
            agent=group.agent,
            versions=tuple(sorted({one.agent_version for one in group.members if one.agent_version})),
            conversations=len(group.members),
            n=attempts.n,
            c=attempts.c,
            cases=tuple(
                CaseAttempts(dataset=one.dataset, case_id=one.case_id, n=one.n, c=one.c, weights=one.weights)
                for one in cases
            ),
            alone=tuple(Alone(correct=correct, n=n, weight=weight) for (correct, weight), n in sorted(alone.items())),
            metrics={name: MetricMean.of(values) for name, values in sorted(metrics.items())},
        )

    @property
    def attempts(self) -> Attempts:
        """The evaluated conversations by case, as they were; those without a case have names of their own."""
        cases = [
            case_count((one.dataset, one.case_id), one.n, one.c, CaseWeights(*(one.weights or (one.n, one.c, one.n))))
            for one in self.cases
        ]
        for place, one in enumerate(self.alone):
            weights = CaseWeights(one.weight, one.weight * one.correct, one.weight**2)
            # A name that no conversation's identity can be.
            names = (("", f"baseline {place}/{number}") for number in range(one.n))
            cases += [case_count(name, 1, int(one.correct), weights) for name in names]
        return Attempts(cases=tuple(sorted(cases, key=lambda case: (case.dataset, case.case_id))))


class Baseline(_Part):
    """A baseline; `evaluations` are those that its scores belong to, `last_end` is when its last conversation ended."""

    format: Literal["otel-agentic gate baseline"] = "otel-agentic gate baseline"
    version: Literal[1] = 1
    name: str
    saved_at: str
    conversations: _Count
    last_end: str | None = None
    evaluations: tuple[str, ...] = ()
    agents: tuple[AgentBaseline, ...]

    def of(self, agent: str | None) -> AgentBaseline | None:
        """Return what it says of an agent."""
        return next((one for one in self.agents if one.agent == agent), None)


def is_file(given: str) -> bool:
    """Return whether a baseline is meant that lies in a file: it ends in `.json`, or has a folder.

    >>> is_file("main"), is_file("main.json"), is_file("ci/main")
    (False, True, True)
    """
    return given.endswith(".json") or len(PurePath(given).parts) > 1


def require_name(name: str) -> str:
    """Return the name of a stored baseline.

    Raises:
        UsageError: it is none.
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
    """Return what is measured now as a baseline; `metrics` are values by agent and name of the metric."""
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
        UsageError: that is no name.
        BadInputError: there is none of that name; tells which there are.
    """
    with engine.store.read() as con:
        definition = load_baseline(con, require_name(name))
        there = [row["name"] for row in list_baselines(con)]
    if definition is None:
        known = f"there are {', '.join(there)}" if there else "there is none yet"
        raise BadInputError(
            f"no baseline {name!r} in this store: {known}; `otel-agentic gate --save-baseline {name}` saves one"
        )
    return read(definition, f"baseline {name!r}")


def read(definition: Any, what: str) -> Baseline:
    """Return a baseline of what JSON holds.

    Raises:
        BadInputError: it is none; says what is wrong.
    """
    try:
        return Baseline.model_validate(definition)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise BadInputError(
            f"{what} is no baseline of `otel-agentic gate --save-baseline`: {where}: {first['msg']}"
        ) from None
