"""What a check is, and what it may find."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

if TYPE_CHECKING:
    from collections.abc import Callable

    from collectors.conformance._receiver import Receiver

Severity = Literal["MUST", "SHOULD", "GUARD"]
SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)
Transport = Literal["http", "grpc"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What was sent, what came back, and what should have."""

    sent: str
    got: str
    expected: str

    def __str__(self) -> str:
        return f"sent {self.sent}; got {self.got}; expected {self.expected}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """Why a check says nothing about this receiver."""

    reason: str


#: None: what the check asks for holds.
Verdict: TypeAlias = Fault | Skip | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that must hold of an OTLP receiver.

    `id` begins with the transport. `holds` is the sentence that must be true, `spec` where it is written, `fix` what to
    do where it is not. A check that `waits` spends its time on a clock of the receiver's and runs beside the others.
    """

    id: str
    severity: Severity
    holds: str
    spec: str
    fix: str
    run: Callable[[Receiver], Verdict]
    waits: bool = False

    @property
    def transport(self) -> Transport:
        """The transport it speaks."""
        return "grpc" if self.id.startswith("grpc.") else "http"


def check(
    name: str, severity: Severity, holds: str, *, spec: str, fix: str, waits: bool = False
) -> Callable[[Callable[[Receiver], Verdict]], Check]:
    """Return a decorator that makes a `Check` of a function."""

    def made(run: Callable[[Receiver], Verdict]) -> Check:
        return Check(id=name, severity=severity, holds=holds, spec=spec, fix=fix, run=run, waits=waits)

    return made
