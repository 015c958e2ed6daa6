"""How far the arguments of a made call agree with an expected one, key by key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from otel_agentic.scoring.checks import asked, check_of, compares_like_python
from otel_agentic.scoring.opinions import NO_OPINIONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_agentic.scoring.checks import Check
    from otel_agentic.scoring.made import MadeCall
    from otel_agentic.scoring.opinions import Opinions
    from otel_agentic.truth.model import ExpectedCall, MatchRule, ModeName

_ABSENT: Final = object()


class _Wanted(NamedTuple):
    """One parameter that is compared: the value expected, and the check.

    `check` is None where Python's own comparison decides, but for truths: where `truth` is not None, the made value must
    be true or false, or must not be.
    """

    key: str
    expected: Any
    truth: bool | None
    check: Check | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Parameters:
    """The parameters of an expected call, compiled: what a made call's arguments are held against.

    `wanted` are those that are compared; `values` are the expected ones and `modes` how each compares, by key; `ignored`
    are the keys of mode `ignore`. `alike` equals arguments that are plainly as expected; where that cannot be told by
    comparing objects, it equals nothing. `strict`: keys beyond the expected ones count. `judged`: a judge may be asked.
    """

    call: ExpectedCall
    wanted: tuple[_Wanted, ...]
    values: Mapping[str, Any]
    modes: Mapping[str, ModeName]
    ignored: tuple[str, ...]
    alike: object
    strict: bool
    judged: bool

    @classmethod
    def of(cls, call: ExpectedCall, *, numbers_as_text: bool) -> Parameters:
        """Return the compiled parameters of an expected call."""
        modes: dict[str, ModeName] = {key: rule.mode for key, rule in call.rules.items()}
        exact = all(mode == "exact" for mode in modes.values())
        return cls(
            call=call,
            wanted=tuple(
                _wanted(key, call.parameters.get(key), rule, numbers_as_text=numbers_as_text)
                for key, rule in call.rules.items()
                if rule.mode != "ignore"
            ),
            values=call.parameters,
            modes=modes,
            ignored=tuple(key for key, mode in modes.items() if mode == "ignore"),
            alike=call.parameters if exact and compares_like_python(call.parameters) else object(),
            strict=not call.ignore_extra_parameters,
            judged="judge" in modes.values(),
        )

    def scores(self, made: Sequence[MadeCall], opinions: Opinions = NO_OPINIONS) -> list[float]:
        """Return the scores of several made calls, as `compare` does; they cost less without what is wrong."""
        wanted, scores = self.wanted, []
        for one in made:
            arguments = one.call.arguments
            if arguments is None or arguments == self.alike:
                scores.append(0.0 if arguments is None else 1.0)
                continue
            equal, beyond = 0, len(arguments)  # beyond the expected keys: counted down to what is left over
            for key, expected, truth, check in wanted:
                value = arguments.get(key, _ABSENT)
                if value is _ABSENT:
                    continue
                beyond -= 1
                if check is None:
                    if value == expected and (truth is None or truth is (type(value) is bool)):
                        equal += 1
                    continue
                if self._verdict(key, check, value, one, opinions) is not False:
                    equal += 1
            total = len(wanted)
            if beyond and self.strict:
                total += beyond - len([key for key in self.ignored if key in arguments])
            scores.append(equal / total if total else 1.0)
        return scores

    def compare(self, made: MadeCall, opinions: Opinions = NO_OPINIONS) -> tuple[float, list[str]]:
        """Return how far the arguments of a made call agree, and the keys that are not as expected, sorted.

        The score is equal keys over all keys, 1 where there is none to compare. Keys compared: those expected, and those
        made beyond them unless `ignore_extra_parameters`; `ignore` drops its key. One that only a judge could compare, and
        that none has, counts as equal. Of arguments that were not recorded the score is 0, and nothing is wrong.
        """
        arguments = made.call.arguments
        if arguments is None:
            return 0.0, []
        wrong: list[str] = []
        beyond = len(arguments)  # as in `scores`
        for key, expected, truth, check in self.wanted:
            value = arguments.get(key, _ABSENT)
            if value is _ABSENT:
                wrong.append(key)
                continue
            beyond -= 1
            if check is None:
                if value != expected or (truth is not None and truth is not (type(value) is bool)):
                    wrong.append(key)
                continue
            if self._verdict(key, check, value, made, opinions) is False:
                wrong.append(key)
        total = len(self.wanted)
        if beyond and self.strict:
            more = [key for key in arguments if key not in self.modes]
            total += len(more)
            wrong += more
        wrong.sort()
        return (total - len(wrong)) / total if wrong else 1.0, wrong

    def undecided(self, made: MadeCall, opinions: Opinions = NO_OPINIONS) -> int:
        """Return how many keys only a judge could compare, and none has."""
        arguments = made.call.arguments or {}
        return [
            self._verdict(key, check, arguments[key], made, opinions)
            for key, _, _, check in self.wanted
            if check is not None and self.modes[key] == "judge" and key in arguments
        ].count(None)

    def _verdict(self, key: str, check: Check, value: Any, made: MadeCall, opinions: Opinions) -> bool | None:
        verdict = asked(check, value)
        return opinions.parameter(self.call, key, made) if verdict is None else verdict


def _wanted(key: str, expected: Any, rule: MatchRule, *, numbers_as_text: bool) -> _Wanted:
    truth = isinstance(expected, bool) if isinstance(expected, (int, float)) and expected in {0, 1} else None
    if rule.mode == "exact" and not numbers_as_text and (truth is not None or compares_like_python(expected)):
        return _Wanted(key, expected, truth, None)
    return _Wanted(key, expected, None, check_of(expected, rule, numbers_as_text=numbers_as_text))
