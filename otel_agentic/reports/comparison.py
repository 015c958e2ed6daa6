"""Two groups of scored conversations against each other: `report --compare version=1.0.0,1.1.0`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, cast, get_args

from otel_agentic.errors import UsageError
from otel_agentic.stats.compare import compare
from otel_agentic.windows import GroupKey, attempts_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from otel_agentic.config import StatsSettings
    from otel_agentic.stats.compare import Comparison, Difference
    from otel_agentic.windows import ScoredConversation

ComparedBy = Literal["agent", "version", "environment", "service", "tag"]
COMPARED_BY: Final[tuple[ComparedBy, ...]] = get_args(ComparedBy)
_EXAMPLE: Final = "give a key and two values, such as version=1.0.0,1.1.0"
#: Values that exist, told in an error.
_TOLD: Final = 10

Groups = dict[GroupKey, list["ScoredConversation"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What is compared: conversations with the value `b` of a key, against those with the value `a`."""

    by: ComparedBy
    a: str
    b: str

    @classmethod
    def parse(cls, text: str) -> Compared:
        """Return what a text such as `version=1.0.0,1.1.0` names.

        Raises:
            UsageError: it is no key with two different values.

        >>> Compared.parse("version=1.0.0, 1.1.0")
        Compared(by='version', a='1.0.0', b='1.1.0')
        """
        by, _, given = text.partition("=")
        values = [value.strip() for value in given.split(",")]
        if by.strip() not in COMPARED_BY:
            raise UsageError(f"--compare {text!r}: {_EXAMPLE}; keys: {', '.join(COMPARED_BY)}")
        if len(values) != 2 or "" in values or values[0] == values[1]:  # noqa: PLR2004 — two sides
            raise UsageError(f"--compare {text!r}: {_EXAMPLE}; exactly two different values")
        return cls(by=cast("ComparedBy", by.strip()), a=values[0], b=values[1])

    @property
    def field(self) -> str:
        """The name of the key in a group's key."""
        return "agent_version" if self.by == "version" else self.by

    def among(self, scored: Sequence[ScoredConversation]) -> list[ScoredConversation]:
        """Return the conversations that are on one side, or on both by their tags.

        Raises:
            UsageError: one of the two values is nowhere; names those that there are.
        """
        values = [self._values_of(one) for one in scored]
        there = sorted({value for each in values for value in each})
        for wanted in (self.a, self.b):
            if scored and wanted not in there:
                raise UsageError(self._missing(wanted, there))
        return [one for one, each in zip(scored, values, strict=True) if self.a in each or self.b in each]

    def groups(self, grouped: Groups) -> Groups:
        """Return the groups of the two sides; grouped by tag, conversations are in groups of their other tags, too."""
        return {key: members for key, members in grouped.items() if getattr(key, self.field) in {self.a, self.b}}

    def _values_of(self, conversation: ScoredConversation) -> tuple[str, ...]:
        if self.by == "tag":
            return conversation.tags
        value = getattr(conversation, self.field)
        return (value,) if value else ()

    def _missing(self, wanted: str, there: Sequence[str]) -> str:
        more = f" and {len(there) - _TOLD:,} more" if len(there) > _TOLD else ""
        known = ", ".join(repr(value) for value in there[:_TOLD]) + more
        return f"--compare: no closed conversation of this selection has {self.by} {wanted!r}; there are: {known or 'none'}"


def comparison_json(
    compared: Compared,
    grouped: Mapping[GroupKey, Sequence[ScoredConversation]],
    k: Sequence[int],
    settings: StatsSettings,
) -> dict[str, Any]:
    """Return the two sides of each group against each other, as JSON can say it.

    Args:
        compared: what is compared.
        grouped: the conversations of both sides, grouped by the compared key and whatever else.
        k: the k of pass@k and pass^k.
        settings: level and prior.
    """
    found, missing = [], []
    on_both = 0
    for key in sorted({replace(key, **{compared.field: None}) for key in grouped}, key=GroupKey.sort_key):
        a, b = (grouped.get(replace(key, **{compared.field: value}), ()) for value in (compared.a, compared.b))
        twice = _identities(a) & _identities(b)
        on_both += len(twice)
        one, other = (attempts_of(each for each in side if _identity(each) not in twice) for side in (a, b))
        name = asdict(key)
        if one.n and other.n:
            made = compare(one, other, k, level=settings.level, prior=settings.prior)
            counts = {"n": {"a": one.n, "b": other.n}, "c": {"a": one.c, "b": other.c}}
            found.append({**name, **counts, **_comparison_json(made, k)})
        else:
            missing.append({**name, "without": [compared.a] * (not one.n) + [compared.b] * (not other.n)})
    return {
        "by": compared.by,
        "a": compared.a,
        "b": compared.b,
        "level": settings.level,
        "groups": found,
        "not_compared": missing,
        "on_both": on_both,
    }


def _identities(members: Iterable[ScoredConversation]) -> set[tuple[str, str]]:
    return {_identity(one) for one in members}


def _identity(one: ScoredConversation) -> tuple[str, str]:
    return one.environment, one.conversation_id


def _comparison_json(made: Comparison, k: Sequence[int]) -> dict[str, Any]:
    return {
        "method": made.method,
        "cases": made.shared,
        "cases_left_out": {"a": made.only_a, "b": made.only_b} if made.method == "paired" else {"a": 0, "b": 0},
        "probability_worse": made.worse,
        "differences": {
            str(each): {
                **_difference_json(made.pooled[each]),
                "pooled": _difference_json(made.pooled[each]),
                "per_case": _difference_json(made.per_case[each]) if each in made.per_case else None,
            }
            for each in k
        },
    }


def _difference_json(found: Difference) -> dict[str, Any]:
    return {
        "method": found.method,
        "cases": found.cases,
        "pass_at_k": asdict(found.pass_at_k),
        "pass_pow_k": asdict(found.pass_pow_k),
    }
