"""Conditions of a gate, the conversations that they apply to, and the sentences about estimates and limits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import ValidationError

from otel_agentic.config import GateSettings
from otel_agentic.errors import UsageError
from otel_agentic.reports.criteria import outcomes_by, scores_read_by
from otel_agentic.reports.report import tier_bases, within
from otel_agentic.reports.suites import require_suite
from otel_agentic.scoring.criteria import CORRECT
from otel_agentic.store.queries.scored_conversations import Kinds, KindTable, scored_conversations
from otel_agentic.store.table import Selection
from otel_agentic.windows import ClaimBasis, GroupKey, ScoredConversation, group_by, parse_window

if TYPE_CHECKING:
    from otel_agentic.config.quality import BoundKind
    from otel_agentic.engine.engine import Engine
    from otel_agentic.evaluators.base import Metric

#: Conditions to which a command adds entries; other conditions are replaced.
_TABLES: Final = ("min_pass_pow_k", "min_pass_at_k", "thresholds", "max_regression")


def merged(settings: GateSettings, conditions: Mapping[str, Any]) -> GateSettings:
    """Return the conditions of the settings merged with those of a command.

    Limits by k or metric are added to those of the settings, and replace one for the same k or metric; names in
    `allow_no_data` are added. Any other condition replaces the setting.

    Raises:
        UsageError: a condition is unknown or its value invalid; the message names it.
    """
    changes = dict(conditions)
    configured = settings.model_dump()
    for name in _TABLES:
        if name in changes:
            changes[name] = {**_texts(configured[name]), **_texts(changes[name])}
    if "allow_no_data" in changes:
        changes["allow_no_data"] = [*configured["allow_no_data"], *changes["allow_no_data"]]
    try:
        return GateSettings.model_validate({**configured, **changes})
    except ValidationError as error:
        first = error.errors()[0]
        path = "gate." + ".".join(str(part) for part in first["loc"] if part != "[key]")
        raise UsageError(f"{path}: {first['msg']}, got {first.get('input')!r}") from None


def _texts(table: Any) -> Any:
    """Return a table with text keys, as in JSON: 3 is the same k as "3"."""
    return {str(name): value for name, value in table.items()} if isinstance(table, dict) else table


#: How much worse a value may be: by a number, or by no more than chance explains.
Tolerance = float | Literal["chance"]
_RATE: Final = re.compile(r"pass([@^])([1-9][0-9]{0,5})")
SUCCESS: Final = "success"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A compared quantity: success or a pass rate (`metric` is None), or the mean of a metric."""

    name: str
    tolerance: Tolerance
    metric: Metric | None = None

    @property
    def falls(self) -> bool:
        """Whether lower values are worse."""
        return self.metric is None or self.metric.higher_is_better is not False

    @property
    def width(self) -> float | None:
        """The range of the metric, or None if it is not bounded."""
        if self.metric is None or self.metric.low is None or self.metric.high is None:
            return None
        return self.metric.high - self.metric.low


def is_rate(name: str) -> bool:
    """Return whether a name is the name of a rate.

    >>> is_rate("pass^3"), is_rate("success"), is_rate("helpfulness")
    (True, True, False)
    """
    return name == SUCCESS or _RATE.fullmatch(name) is not None


def targets(conditions: GateSettings, named: Mapping[str, Metric], limited: Iterable[Metric]) -> list[Target]:
    """Return the targets of `max_regression`, or if it is empty success and every rate and metric with a limit.

    Args:
        conditions: the conditions of the gate.
        named: the metrics that `max_regression` names, by that name.
        limited: the metrics that have a limit.

    Raises:
        UsageError: a named metric does not state whether higher is better, or is computed for groups.
    """
    chance: Tolerance = "chance"
    drop = chance if conditions.max_drop is None else conditions.max_drop
    if not conditions.max_regression:
        rates = [SUCCESS, *(f"pass@{k}" for k in sorted(conditions.min_pass_at_k) if k > 1)]
        rates += [f"pass^{k}" for k in sorted(conditions.min_pass_pow_k) if k > 1]  # for k = 1 both equal success
        metrics = [metric for metric in limited if metric.higher_is_better is not None and metric.target != "group"]
        return [
            *(Target(name=name, tolerance=drop) for name in rates),
            *(Target(name=metric.name, tolerance=chance, metric=metric) for metric in metrics),
        ]
    chosen = []
    for name, allowed in conditions.max_regression.items():
        metric = named.get(name)
        if metric is not None and metric.higher_is_better is None:
            raise UsageError(f"--max-regression {name}: {metric.name} has no better direction")
        if metric is not None and metric.target == "group":
            raise UsageError(
                f"--max-regression {name}: {metric.name} is one value for all conversations, without a spread to compare; "
                f"use --threshold {name}=V to compare it with a limit"
            )
        tolerance = drop if allowed == "chance" and metric is None else allowed
        chosen.append(Target(name=metric.name if metric else name, tolerance=tolerance, metric=metric))
    return chosen


def parts(name: str) -> tuple[str, int]:
    """Return the sign and the k of a rate.

    >>> parts("pass@3"), parts("success")
    (('@', 3), ('^', 1))
    """
    match = _RATE.fullmatch(name)
    return (match[1], int(match[2])) if match else ("^", 1)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "conversation"), counted(2000, "score")
    ('1 conversation', '2,000 scores')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def number(value: float) -> str:
    """Return a number with four significant digits.

    >>> number(0.7), number(3), number(0.88474), number(-0.0)
    ('0.7', '3', '0.8847', '0')
    """
    return f"{value + 0.0:.4g}"  # -0.0 + 0.0 is 0.0


def share(value: float, limit: float) -> str:
    """Return a ratio with three digits, or with as many as are needed to show on which side of a limit it is.

    >>> share(0.88474, 0.7), share(0.69996, 0.7), share(1.0, 0.7)
    ('.885', '.69996', '1.00')
    """
    digits = next((count for count in range(3, 10) if round(value, count) != limit or value == limit), 9)
    text = f"{value:.{digits}f}"
    return "1.00" if text == "1.000" else text.removeprefix("0")


def evidence(
    *,
    value: float,
    lower: float,
    upper: float,
    limit: float,
    bound: BoundKind,
    level: float,
    data: str,
    more: int | None,
) -> str:
    """Return a sentence about an estimate and its interval relative to a lower limit; `data` names the conversations or cases.

    >>> arguments = {"limit": 0.7, "level": 0.95, "data": "20 conversations"}
    >>> evidence(value=0.9, lower=0.6, upper=0.99, bound="estimate", more=12, **arguments)
    'the estimate meets it; the 95 % interval extends down to .600: 20 conversations do not prove it, 12 more like these would'
    >>> evidence(value=0.5, lower=0.4, upper=0.6, bound="lower", more=None, **arguments)
    'the whole 95 % interval is below it'
    """
    interval = f"{level * 100:g} % interval"
    if lower >= limit:
        return f"the whole {interval} meets it"
    if upper < limit:
        return f"the whole {interval} is below it"
    if value < limit:
        return f"the estimate is below it; the {interval} extends up to {share(upper, limit)}"
    unproven = f"{data} {'does' if data.startswith('1 ') else 'do'} not prove it"
    would = f", {more:,} more like these would" if more else ""
    if bound == "estimate":
        return f"the estimate meets it; the {interval} extends down to {share(lower, limit)}: {unproven}{would}"
    return f"the estimate meets it, the lower end of the {interval} does not: {unproven}{would}"


#: The name of all conditions in `allow_no_data`.
ALL: Final = "all"
#: The tolerance for rounding errors in sums of ratios.
SLACK: Final = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The selected conversations of one agent, sorted by end, one row each or one for each kind; None: an unknown agent."""

    agent: str | None
    members: Sequence[ScoredConversation]

    @property
    def size(self) -> int:
        """The number of conversations."""
        return sum(member.count for member in self.members)

    @property
    def evaluated(self) -> int:
        """The number of evaluated conversations."""
        return self.size - sum(self.not_evaluated.values())

    @property
    def not_evaluated(self) -> Counter[str]:
        """The reasons why conversations were not evaluated, with counts."""
        reasons: Counter[str] = Counter()
        for member in self.members:
            if member.outcome == "not_evaluated":
                reasons[member.reason or "no_data"] += member.count
        return reasons

    @property
    def keys(self) -> frozenset[tuple[str, str]]:
        """The keys of the conversations: environment and conversation id."""
        return frozenset((member.environment, member.conversation_id) for member in self.members)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSelection(Selection):
    """The conversations of a gate.

    Attributes:
        window: as in a report.
        suite: only conversations whose case has this tag.
        criterion: what they must pass, as in a report.
    """

    window: str | None = None
    suite: str | None = None
    criterion: str = CORRECT

    @property
    def narrows(self) -> bool:
        """Whether criteria in addition to those of `Selection` are set."""
        return any(value is not None for value in (self.window, self.suite, self.agent_version, self.environment))

    def tier_basis(self, engine: Engine, agent: str | None) -> ClaimBasis:
        """Return the basis of an agent's tier: all conversations of its newest version."""
        since_start = replace(self, since_ns=None, window=None)
        key = GroupKey(agent=agent, agent_version=self.agent_version, environment=self.environment, tag=self.suite)
        groups = since_start.groups(engine, by_kind=True)
        members = [member for group in groups if group.agent == agent for member in group.members]
        return tier_bases(engine, {key: members}, since_start)[key]

    def groups(self, engine: Engine, *, by_kind: bool = False) -> list[Group]:
        """Return the conversations of each agent, sorted by name.

        Args:
            engine: the opened store.
            by_kind: count equal conversations instead of reading each; not within a window.

        Raises:
            UsageError: the window or the criterion is invalid.
            BadInputError: no case has the tag.
        """
        window = None if self.window is None else parse_window(self.window)
        with engine.store.read() as con:
            if self.suite is not None:
                require_suite(con, self.suite)
            if by_kind and window is None:
                names, from_ns = scores_read_by(engine, [self.criterion]), engine.settings.slo.since_ns
                scored = KindTable(con, Kinds(selection=self, from_ns=from_ns, names=names)).conversations
            else:
                scored = scored_conversations(con, self)
        selected = [conversation for conversation in scored if self.suite is None or self.suite in conversation.tags]
        members = outcomes_by(engine, selected, self.criterion)
        if window is not None and window.width_ns is not None:
            members = within(engine, members, window.width_ns, self.until_ns)
        start = None if window is None or window.newest is None else -window.newest
        return [
            Group(agent=key.agent, members=group_members[start:]) for key, group_members in group_by(members).items()
        ]
