"""A conformance test kit for OTLP receivers, both those of this project and any other.

`python -m collectors.conformance http://127.0.0.1:4318 --grpc 127.0.0.1:4317` runs it. Each `Check` sends requests to
the receiver as a sender would, and examines only the responses; see docs/conformance.md.
"""

from collectors.conformance._check import Check, Fault, Severity, Skip, Verdict
from collectors.conformance._receiver import Receiver, Target
from collectors.conformance._run import Outcome, run, run_check, select
from collectors.conformance.checks import CHECKS

__all__ = [
    "CHECKS",
    "Check",
    "Fault",
    "Outcome",
    "Receiver",
    "Severity",
    "Skip",
    "Target",
    "Verdict",
    "run",
    "run_check",
    "select",
]
