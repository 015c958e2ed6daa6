"""Write the list of checks into docs/conformance.md, generated from the checks.

Run it as `python -m tools.conformance_reference [--check]`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from collectors.conformance import CHECKS, Check
from tools.generated import ROOT, run

PAGE: Final = ROOT / "docs" / "conformance.md"
BEGIN: Final = "<!-- checks: written by `make docs` -->\n"
END: Final = "<!-- end of checks -->\n"


def table(checks: Iterable[Check]) -> str:
    """Return the checks as a Markdown table.

    >>> table([]).splitlines()[0]
    '| check | severity | what must hold | where it is written |'
    """
    rows = [f"| `{check.id}` | {check.severity} | {check.holds} | {check.spec} |" for check in checks]
    head = ["| check | severity | what must hold | where it is written |", "|---|---|---|---|"]
    return "\n".join([*head, *rows]) + "\n"


def page() -> str:
    """Return the page with a new list; the text around the list is unchanged."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(CHECKS)}\n{END}{after}"


if __name__ == "__main__":
    run(PAGE, page)
