"""What tiers rest on, out of the store: evaluated results by case since each agent version began, removed ones included."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from otel_agentic.stats.choose import headline_among
from otel_agentic.stats.grouped import GroupedAttempts
from otel_agentic.stats.tiers import claim_tiers
from otel_agentic.store.result_columns import MEMBERS, TAGGED, fetched, groups_of
from otel_agentic.windows.claims import JudgedByProbability, RemovedAttempts
from otel_agentic.windows.model import GroupKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    from duckdb import DuckDBPyConnection

    from otel_agentic.config import StatsSettings
    from otel_agentic.stats import Estimator, Tier
    from otel_agentic.store.result_columns import Columns

    IntArray = npt.NDArray[np.int64]
    _Kind = tuple[int, int]

#: The tier that was claimed of a group at an end, ns.
Claims = dict[tuple[GroupKey, int], "Tier"]

_EVALUATED: Final = """
    outcome IN ('pass', 'fail') AND ($since IS NULL OR window_time >= make_timestamp_ns($since))
"""
#: By case, up to the first end; removed results are older than any end whose windows are computed.
_BEFORE: Final = f"""
SELECT subject, tag, case_no, 0 AS ended_ns, count(*) FILTER (outcome = 'pass') AS passed,
    count(*) FILTER (outcome = 'fail') AS failed
FROM members WHERE {_EVALUATED} AND window_time <= make_timestamp_ns($first)
GROUP BY subject, tag, case_no
UNION ALL
SELECT subject, tag, case_no, 0, sum(c)::BIGINT, sum(n - c)::BIGINT
FROM gone WHERE $since IS NULL OR first_time >= make_timestamp_ns($since)
GROUP BY subject, tag, case_no
"""  # noqa: S608 — constants of our own
#: One by one after it.
_AFTER: Final = f"""
SELECT subject, tag, case_no, epoch_ns(window_time) AS ended_ns, (outcome = 'pass')::BIGINT AS passed,
    (outcome = 'fail')::BIGINT AS failed
FROM members WHERE {_EVALUATED} AND window_time > make_timestamp_ns($first) AND window_time <= make_timestamp_ns($last)
ORDER BY window_time
"""  # noqa: S608 — the same
#: Conversations of which a calibrated judge decided the answers.
_BY_PROBABILITY: Final = """
SELECT
    subject, tag, epoch_ns(window_time) AS ended_ns, pass_probability,
    (outcome <> 'not_evaluated')::BIGINT AS evaluated, (outcome = 'pass')::BIGINT AS passed
FROM members
WHERE pass_probability IS NOT NULL AND ($since IS NULL OR window_time >= make_timestamp_ns($since))
    AND window_time <= make_timestamp_ns($last)
ORDER BY window_time
"""
_GONE: Final = MEMBERS.replace("FROM results", "FROM removed_attempts")
_GONE_TAGGED: Final = TAGGED.replace("FROM results", "FROM removed_attempts")
#: Kept counts, and results of conversations that are not in the store any more.
_REMOVED: Final = """
WITH found AS (
    SELECT subject, case_no, tags, n, c, first_time, last_time FROM removed_attempts
    UNION ALL
    SELECT
        subject, case_no, tags, count(*), count(*) FILTER (outcome = 'pass'), min(window_time), max(window_time)
    FROM results ANTI JOIN conversations USING (environment, conversation_id)
    WHERE outcome IN ('pass', 'fail')
    GROUP BY subject, case_no, tags
)
SELECT
    s.agent, s.agent_version, s.environment, s.service, k.dataset, k.case_id, f.tags, f.n, f.c, epoch_ns(f.first_time),
    epoch_ns(f.last_time)
FROM found f JOIN subjects s USING (subject) LEFT JOIN result_cases k USING (case_no)
ORDER BY ALL
"""


def removed_attempts(con: DuckDBPyConnection) -> list[RemovedAttempts]:
    """Return the counts of evaluated conversations that retention removed, of the default evaluation."""
    return [
        RemovedAttempts(
            key=GroupKey(
                agent=row[0],
                agent_version=row[1],
                environment=row[2],
                service=row[3],
                dataset=None if row[5] is None else row[4],
                case=row[5],
            ),
            tags=tuple(row[6]),
            n=row[7],
            c=row[8],
            first_ns=row[9],
            last_ns=row[10],
        )
        for row in con.execute(_REMOVED).fetchall()
    ]


def claims_at(
    con: DuckDBPyConnection,
    ends: Sequence[int],
    *,
    tags: Sequence[str],
    since_ns: int | None,
    settings: StatsSettings,
    estimators: Sequence[Estimator],
) -> Claims:
    """Return the tier that each group's conversations up to each end support, counted from its first one on.

    Args:
        con: a connection, in one transaction.
        ends: window ends, ns.
        tags: case tags, names or globs, that make groups of their own beside the whole.
        since_ns: count from this time on; None: from each group's first conversation.
        settings: rule, mode and prior.
        estimators: those of the windows; the rule looks at pass@1 and pass@3 of the headline one among them.
    """
    places = sorted(set(ends))
    if not places:
        return {}
    members, gone = (TAGGED, _GONE_TAGGED) if tags else (MEMBERS, _GONE)
    tagged = {"tags": list(tags)} if tags else {}
    bound = {"since": since_ns, "first": places[0], **tagged}
    before = fetched(con, f"WITH members AS ({members}), gone AS ({gone}) {_BEFORE}", bound)
    after = fetched(con, f"WITH members AS ({members}) {_AFTER}", {**bound, "last": places[-1]})
    columns = {name: np.concatenate((before[name], after[name])) for name in before}
    if not len(columns["subject"]):
        return {}
    groups, group = groups_of(con, columns["subject"], columns["tag"])
    found = _Contents(
        group=group,
        end=np.searchsorted(places, columns["ended_ns"].astype(np.int64)),
        case=columns["case_no"].astype(np.int64),
        passed=columns["passed"].astype(np.int64),
        failed=columns["failed"].astype(np.int64),
    )
    contents, which = found.by_end(len(groups), len(places))
    _, estimator = headline_among(estimators, settings)
    claims = claim_tiers(_grouped(contents), settings, needed=False, estimator=estimator)
    judged = fetched(
        con, f"WITH members AS ({members}) {_BY_PROBABILITY}", {**tagged, "since": since_ns, "last": places[-1]}
    )
    withheld = _withheld(con, judged, places) if settings.tier_rule == "interval" else set()
    return {
        (group, end): "insufficient_evidence" if (group, end) in withheld else claims[which[number][at]].tier
        for number, group in enumerate(groups)
        for at, end in enumerate(places)
        if which[number][at] >= 0
    }


def _withheld(con: DuckDBPyConnection, judged: Columns, ends: Sequence[int]) -> set[tuple[GroupKey, int]]:
    """Return the groups and ends of which a judge's doubt lets nothing be claimed; rows are in order of their end."""
    if not len(judged["subject"]):
        return set()
    groups, group = groups_of(con, judged["subject"], judged["tag"])
    found = set()
    for number, key in enumerate(groups):
        own = group == number
        counted = np.searchsorted(judged["ended_ns"][own], ends, side="right")
        totals = [
            np.concatenate(([0], np.cumsum(judged[name][own]))) for name in ("pass_probability", "evaluated", "passed")
        ]
        for end, n in zip(ends, counted.tolist(), strict=True):
            probability, evaluated, passed = (float(total[n]) for total in totals)
            rated = JudgedByProbability(n=n, probability=probability, evaluated=int(evaluated), passed=int(passed))
            if rated.withheld is not None:
                found.add((key, end))
    return found


class _Contents:
    """Evaluated conversations of groups by the first end that is not before theirs; rows are in order of that."""

    def __init__(self, *, group: IntArray, end: IntArray, case: IntArray, passed: IntArray, failed: IntArray) -> None:
        columns: Any = (each.tolist() for each in (group, end, case, passed, failed))
        self._rows: dict[int, list[tuple[int, int, int, int]]] = defaultdict(list)
        for number, *row in zip(*columns, strict=True):
            self._rows[number].append(tuple(row))

    def by_end(self, groups: int, ends: int) -> tuple[list[dict[_Kind, int]], list[list[int]]]:
        """Return distinct contents as cases by kind, and of each group and end which of them it has, -1 for nothing."""
        contents: list[dict[_Kind, int]] = []
        which = []
        for number in range(groups):
            cases: dict[int, _Kind] = {}
            kinds: dict[_Kind, int] = defaultdict(int)
            rows, place, own = self._rows[number], 0, []
            for at in range(ends):
                began = place
                while place < len(rows) and rows[place][0] <= at:
                    _, case, passed, failed = rows[place]
                    _count(cases, kinds, case, passed, failed)
                    place += 1
                if place > began or (at == 0 and place):
                    contents.append({kind: many for kind, many in kinds.items() if many})
                own.append(len(contents) - 1 if place else -1)
            which.append(own)
        return contents, which


def _count(cases: dict[int, _Kind], kinds: dict[_Kind, int], case: int, passed: int, failed: int) -> None:
    """Add conversations to the cases of a group; those without a case, -1, are cases of their own."""
    if case < 0:
        kinds[1, 1] += passed
        kinds[1, 0] += failed
        return
    n, c = cases.get(case, (0, 0))
    if n:
        kinds[n, c] -= 1
    cases[case] = (n + passed + failed, c + passed)
    kinds[cases[case]] += 1


def _grouped(contents: Sequence[dict[_Kind, int]]) -> GroupedAttempts:
    rows = np.array(
        [(number, n, c, many) for number, kinds in enumerate(contents) for (n, c), many in sorted(kinds.items())],
        dtype=np.int64,
    ).reshape(-1, 4)
    return GroupedAttempts(size=len(contents), group=rows[:, 0], n=rows[:, 1], c=rows[:, 2], cases=rows[:, 3])
