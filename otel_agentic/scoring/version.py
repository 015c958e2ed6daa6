"""The evaluator version: two evaluations of the same version give the same scores for the same conversation."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_agentic.config import ScoringSettings
    from otel_agentic.judges.base import Judge
    from otel_agentic.truth.model import Case

#: Raised with every change that may change a score; old scores are then kept, and superseded.
SCORING_VERSION: Final = "4"


def truth_version(cases: Iterable[Case]) -> str:
    """Return the content hash of some cases, whatever their order."""
    return _hash(sorted((*case.key, case.version) for case in cases))


def evaluator_version(judge: Judge, settings: ScoringSettings, truth: str) -> str:
    """Return the hash of everything a score depends on besides the conversation: code, judge, settings, truth."""
    content = settings.model_dump(mode="json")
    return _hash([SCORING_VERSION, judge.name, judge.version, content, truth])


def _hash(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
