"""Fair-forge's own pass@k and pass^k, where the counts cannot be included."""

from __future__ import annotations

from typing import Any

import pytest

from otel_agentic.compat.fair_forge import pass_at_k, pass_pow_k

PARITY_SCHEMA = "otel_agentic.parity.pass_k/1"


def test_compatible_rates_equal_fair_forge_for_any_counts(parity_case: Any) -> None:
    n, c, k = (parity_case.case[name] for name in ("n", "c", "k"))
    tolerances = {"rel": parity_case.document["relative_tolerance"], "abs": parity_case.document["absolute_tolerance"]}
    for field, formula in (("fair_forge_pass_at_k", pass_at_k), ("fair_forge_pass_pow_k", pass_pow_k)):
        if field in parity_case.case:
            assert formula(n, c, k) == pytest.approx(parity_case.case[field], **tolerances)
