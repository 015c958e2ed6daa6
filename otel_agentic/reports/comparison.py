"""Comparison of two groups of scored conversations: `report --compare version=1.0.0,1.1.0`."""

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
#: Existing values listed in an error message.
_MAX_VALUES: Final = 10

Groups = dict[GroupKey, list["ScoredConversation"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The compared sides: conversations with the value `b` of a key, and those with the value `a`."""

    by: ComparedBy
    a: str
    b: str

    @classmethod
    def parse(cls, text: str) -> Compared:
        """Return the sides of a text such as `version=1.0.0,1.1.0`.

        Raises:
            UsageError: the text is not a key with two different values.

        >>> Compared.parse("version=1.0.0, 1.1.0")
        Compared(by='version', a='1.0.0', b='1.1.0')
        """
        by, _, sides = text.partition("=")
        values = [value.strip() for value in sides.split(",")]
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
        """Return the conversations on either side; with tags, a conversation may be on both.

        Raises:
            UsageError: no conversation has one of the two values; the message lists the existing ones.
        """
        values = [self._values_of(conversation) for conversation in scored]
        existing = sorted({value for own in values for value in own})
        for value in (self.a, self.b):
            if scored and value not in existing:
                raise UsageError(self._missing(value, existing))
        return [
            conversation for conversation, own in zip(scored, values, strict=True) if self.a in own or self.b in own
        ]

    def groups(self, grouped: Groups) -> Groups:
        """Return the groups of the two sides, without the groups of other tags that their conversations have."""
        return {key: members for key, members in grouped.items() if getattr(key, self.field) in {self.a, self.b}}

    def _values_of(self, conversation: ScoredConversation) -> tuple[str, ...]:
        if self.by == "tag":
            return conversation.tags
        value = getattr(conversation, self.field)
        return (value,) if value else ()

    def _missing(self, value: str, existing: Sequence[str]) -> str:
        more = f" and {len(existing) - _MAX_VALUES:,} more" if len(existing) > _MAX_VALUES else ""
        known = ", ".join(map(repr, existing[:_MAX_VALUES])) + more
        return (
            f"--compare: no closed conversation of this selection has {self.by} {value!r}; existing: {known or 'none'}"
        )


def comparison_json(
    compared: Compared,
    grouped: Mapping[GroupKey, Sequence[ScoredConversation]],
    k: Sequence[int],
    settings: StatsSettings,
) -> dict[str, Any]:
    """Return the comparison of the two sides of each group as a JSON object.

    Args:
        compared: the compared sides.
        grouped: the conversations of both sides, grouped by the compared key and possibly others.
        k: the k of pass@k and pass^k.
        settings: level and prior.
    """
    groups, missing = [], []
    on_both = 0
    for key in sorted({replace(key, **{compared.field: None}) for key in grouped}, key=GroupKey.sort_key):
        a, b = (grouped.get(replace(key, **{compared.field: value}), ()) for value in (compared.a, compared.b))
        common = _identities(a) & _identities(b)
        on_both += len(common)
        before, after = (attempts_of(member for member in side if _identity(member) not in common) for side in (a, b))
        name = asdict(key)
        if before.n and after.n:
            comparison = compare(before, after, k, level=settings.level, prior=settings.prior)
            counts = {"n": {"a": before.n, "b": after.n}, "c": {"a": before.c, "b": after.c}}
            groups.append({**name, **counts, **_comparison_json(comparison, k)})
        else:
            missing.append({**name, "without": [compared.a] * (not before.n) + [compared.b] * (not after.n)})
    return {
        "by": compared.by,
        "a": compared.a,
        "b": compared.b,
        "level": settings.level,
        "groups": groups,
        "not_compared": missing,
        "on_both": on_both,
    }


def _identities(members: Iterable[ScoredConversation]) -> set[tuple[str, str]]:
    return {_identity(member) for member in members}


def _identity(conversation: ScoredConversation) -> tuple[str, str]:
    return conversation.environment, conversation.conversation_id


def _comparison_json(comparison: Comparison, k: Sequence[int]) -> dict[str, Any]:
    return {
        "method": comparison.method,
        "cases": comparison.shared,
        "cases_left_out": {"a": comparison.only_a, "b": comparison.only_b}
        if comparison.method == "paired"
        else {"a": 0, "b": 0},
        "probability_worse": comparison.worse,
        "differences": {
            str(attempts): {
                **_difference_json(comparison.pooled[attempts]),
                "pooled": _difference_json(comparison.pooled[attempts]),
                "per_case": _difference_json(comparison.per_case[attempts])
                if attempts in comparison.per_case
                else None,
            }
            for attempts in k
        },
    }


def _difference_json(difference: Difference) -> dict[str, Any]:
    return {
        "method": difference.method,
        "cases": difference.cases,
        "pass_at_k": asdict(difference.pass_at_k),
        "pass_pow_k": asdict(difference.pass_pow_k),
    }
