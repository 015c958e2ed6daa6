"""The attributes of the points of each metric, as a receiver sees them."""

from __future__ import annotations

from otel_agentic.telemetry import names

SUBJECT = {names.GEN_AI_AGENT_NAME, names.DEPLOYMENT_ENVIRONMENT_NAME, names.SUBJECT_SERVICE_NAME}
WINDOWED = SUBJECT | {names.WINDOW, names.CRITERION}
ESTIMATED = WINDOWED | {names.ESTIMATOR}
#: What each point must carry; all else is among `MAY`.
MUST: dict[str, set[str]] = {
    **dict.fromkeys(("agentic.success.ratio", "agentic.success.lower.ratio", "agentic.success.upper.ratio"), ESTIMATED),
    **{
        f"agentic.pass_{which}_k.{bound}ratio": ESTIMATED | {names.K}
        for which in ("at", "pow")
        for bound in ("", "lower.", "upper.")
    },
    "agentic.tool_correctness.ratio": WINDOWED | {names.TOOL_DIMENSION},
    "agentic.coverage.ratio": WINDOWED,
    "agentic.window.conversations": WINDOWED | {names.OUTCOME},
    "agentic.tier.status": SUBJECT | {names.TIER, names.CRITERION},
    "agentic.evaluation.conversations": SUBJECT | {names.OUTCOME, names.REVISION},
    "agentic.evaluation.turns": SUBJECT | {names.OUTCOME},
    "agentic.evaluation.tool_calls": SUBJECT | {names.GEN_AI_TOOL_NAME, names.TOOL_FAULT},
    "agentic.evaluation.score": SUBJECT | {names.GEN_AI_EVALUATION_NAME},
    "agentic.metric.results": SUBJECT | {names.GEN_AI_EVALUATION_NAME, names.REVISION},
    **dict.fromkeys(
        ("agentic.metric.duration", "agentic.metric.tokens", "agentic.metric.cost", "agentic.metric.amount"),
        SUBJECT | {names.GEN_AI_EVALUATION_NAME},
    ),
    "agentic.evaluation.delay": {names.STAGE},
    "agentic.ingest.spans": {names.RESULT},
    "agentic.ingest.late_spans": set(),
    "agentic.telemetry.groups_dropped": set(),
    "agentic.conversations.open": set(),
    "agentic.slo.e_value": SUBJECT | {names.K, names.OBJECTIVE, names.CRITERION},
    "agentic.judge.cost": {names.EVALUATOR, names.GEN_AI_REQUEST_MODEL},
    "agentic.judge.cache.requests": {names.EVALUATOR, names.GEN_AI_REQUEST_MODEL, names.RESULT},
    "agentic.collector.ready": set(),
    "agentic.ingest.refused": {names.TRANSPORT},
    "agentic.queue.requests": set(),
    "agentic.queue.spans": set(),
    "agentic.store.commit.duration": set(),
    "agentic.store.open": set(),
    "agentic.store.reopened": set(),
    "agentic.store.size": {names.STORE_PART},
    "agentic.pipeline.backlog": {names.STAGE},
    "agentic.background.share.ratio": set(),
    "agentic.judge.breaker.open": set(),
    "agentic.judge.breaker.opened": set(),
    "agentic.query.running": set(),
    "agentic.retention.failing": set(),
    "agentic.truth.cases": set(),
    "agentic.judge.agreement": {names.EVALUATOR, names.GEN_AI_REQUEST_MODEL, names.EVALUATION_TARGET},
}
MAY = {names.GEN_AI_AGENT_VERSION, names.CASE_TAG, names.REASON}
#: Further attributes that points of some metrics may have.
SOME: dict[str, set[str]] = {
    "agentic.evaluation.score": {names.EVALUATION_RANGE},
    "agentic.metric.results": {names.GEN_AI_EVALUATION_SCORE_LABEL, names.OUTCOME, names.SEVERITY},
}
