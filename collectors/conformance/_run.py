"""Running checks: which, in which order, and what came of each."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal

from collectors.conformance._check import Check, Fault, Skip
from otel_agentic.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from collectors.conformance._check import Verdict
    from collectors.conformance._receiver import Receiver

Result = Literal["pass", "fail", "skip"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a check: why it was skipped or failed, and how long it took."""

    check: Check
    verdict: Verdict
    duration_s: float

    @property
    def result(self) -> Result:
        """Pass, fail or skip."""
        if self.verdict is None:
            return "pass"
        return "skip" if isinstance(self.verdict, Skip) else "fail"

    @property
    def reason(self) -> str:
        """Why it was skipped or failed; empty where it passed."""
        if self.verdict is None:
            return ""
        return self.verdict.reason if isinstance(self.verdict, Skip) else str(self.verdict)


def select(checks: Iterable[Check], *, only: Sequence[str] = (), skip: Sequence[str] = ()) -> tuple[Check, ...]:
    """Return the checks whose id fits one glob of `only` (all where it is empty) and none of `skip`.

    Raises:
        UsageError: a glob fits no check.
    """
    given = tuple(checks)
    for glob in (*only, *skip):
        if not any(fnmatchcase(check.id, glob) for check in given):
            raise UsageError(f"no check is called {glob!r}; --list shows them all")
    chosen = [check for check in given if not only or any(fnmatchcase(check.id, glob) for glob in only)]
    return tuple(check for check in chosen if not any(fnmatchcase(check.id, glob) for glob in skip))


def run(
    receiver: Receiver, checks: Sequence[Check], progress: Callable[[Outcome], None] = lambda _outcome: None
) -> list[Outcome]:
    """Return what came of each check, in their order; `progress` is told of each as it ends.

    Those that wait for a clock of the receiver's run beside the others, which run one after another: a check that sends
    a hundred requests would disturb another's.
    """

    def one(check: Check) -> Outcome:
        outcome = run_check(receiver, check)
        progress(outcome)
        return outcome

    waiting = [check for check in checks if check.waits]
    with ThreadPoolExecutor(max(len(waiting), 1)) as pool:
        begun = {check.id: pool.submit(one, check) for check in waiting}
        done = {check.id: one(check) for check in checks if not check.waits}
        return [done[check.id] if check.id in done else begun[check.id].result() for check in checks]


def run_check(receiver: Receiver, check: Check) -> Outcome:
    """Return what came of one check; where it cannot even connect, that is a fault."""
    begun = time.monotonic()
    address = receiver.target.url if check.transport == "http" else receiver.target.grpc
    verdict: Verdict
    if address is None:
        verdict = Skip(reason="no URL was given" if check.transport == "http" else "no gRPC address was given (--grpc)")
    else:
        try:
            verdict = check.run(receiver)
        except Exception as error:  # noqa: BLE001 — a receiver may do what no check foresaw; the others still run
            verdict = Fault(sent="what the check sends", got=f"{type(error).__name__}: {error}", expected="an answer")
    return Outcome(check=check, verdict=verdict, duration_s=time.monotonic() - begun)
