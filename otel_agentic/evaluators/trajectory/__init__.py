"""Trajectory: were the expected calls made, with their arguments, in their order, and no others."""

from otel_agentic.evaluators.trajectory.calls import Calls

__all__ = ["Calls"]
