"""What to do about conversations that could not be evaluated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_ADVICE: Final = {
    "content_not_captured": (
        "the instrumentation does not record the texts or arguments that the score needs; `otel-agentic doctor FILE` names "
        "the setting of your framework, mostly OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY"
    ),
    "unmatched": (
        "no case belongs to them, or they were not evaluated yet; `otel-agentic evaluate --cases FILE`, then "
        "`otel-agentic truth matches --clusters` tells what to annotate next and `truth promote` drafts the cases"
    ),
    "ambiguous": (
        "several cases fit equally; `otel-agentic truth matches --only ambiguous` lists them, and a case id on the spans "
        "(agentic.case.id) or a labels file settles it"
    ),
    "unreviewed": (
        "their case is a draft, promoted from production and read by nobody yet; correct it, take out `reviewed: false`, and "
        "import its file again"
    ),
    "judge_error": "the judge failed after its retries; `otel-agentic evaluate` asks it again",
    "incomplete": (
        "idleness closed them before all turns of the case were there, or their spans contradict each other; an end mark "
        "(agentic.conversation.end) on the last span says that a conversation is over"
    ),
    "sampled_out": (
        "the judge was not asked, by sampling (`sampling.ratio`) or budget; `otel-agentic judge cache` tells what is spent, "
        "and `otel-agentic evaluate` asks what ratio and budget then allow"
    ),
    "empty": "conversations without a turn; `otel-agentic doctor FILE` shows how their spans are read",
    "no_data": (
        "their cases say nothing that could be scored: neither answers nor tools nor outputs (with --compat, nothing that the "
        "other system looks at)"
    ),
}


def advice(reasons: Iterable[str]) -> list[str]:
    """Return a line for each reason that something can be said about, in the order of this file.

    >>> advice(["judge_error", "verdict"])
    ['judge_error: the judge failed after its retries; `otel-agentic evaluate` asks it again']
    """
    given = set(reasons)
    return [f"{reason}: {told}" for reason, told in _ADVICE.items() if reason in given]
