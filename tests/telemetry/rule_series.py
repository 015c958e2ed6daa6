"""Series that rules are tested with, as promtool writes them: of the agent travel and pass^3."""

from __future__ import annotations

AGENT = 'gen_ai_agent_name="travel",job="otel-agentic"'
_OF_A_TAG = 'agentic_case_tag="hard"'


def interval(lower: float, upper: float, estimator: str = "bayesian") -> list[dict[str, str]]:
    labels = f'{AGENT},agentic_window="24h",agentic_k="3",agentic_estimator="{estimator}"'
    return [
        {"series": f"agentic_pass_pow_k_{which}_ratio{{{labels}}}", "values": f"{bound}x120"}
        for which, bound in (("lower", lower), ("upper", upper))
    ]


def held(window: str, passed: int, failed: int) -> list[dict[str, str]]:
    return [
        {
            "series": f'agentic_window_conversations{{{AGENT},agentic_window="{window}",agentic_outcome="{outcome}"}}',
            "values": f"{count}x300",
        }
        for outcome, count in (("pass", passed), ("fail", failed), ("not_evaluated", 100))
    ]


def series(name: str, values: str, **labels: str) -> dict[str, str]:
    labels_text = ",".join([AGENT, *(f'{label}="{value}"' for label, value in labels.items())])
    return {"series": f"{name}{{{labels_text}}}", "values": values}


def of_a_tag(given: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return the same of the conversations of one case tag alone."""
    return [{**series, "series": series["series"].replace("}", f",{_OF_A_TAG}}}")} for series in given]


def burning(short: str, long: str, passed: int, failed: int) -> list[dict[str, str]]:
    return [*held(short, passed, failed), *held(long, passed, failed)]


def of_version(version: str, values: str) -> dict[str, str]:
    return series("agentic_coverage_ratio", values, agentic_window="24h", gen_ai_agent_version=version)


def tier(name: str, values: str) -> dict[str, str]:
    return series("agentic_tier_status", values, agentic_tier=name)
