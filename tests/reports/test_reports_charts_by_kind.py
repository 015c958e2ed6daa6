"""Charts of conversations that were counted by kind are those of conversations that were read one by one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from otel_agentic.commands import Commands
from otel_agentic.reports.report import ReportRequest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.stores import CopyOf


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        *(
            pytest.param(arguments, marks=pytest.mark.slow)
            for arguments in ({"by": ["version"]}, {"by": ["case"]}, {"window": "24h"})
        ),
        {"criterion": "tools"},
        {"until_ns": 1},
    ],
)
def test_both_give_the_same_charts(
    copy_of: CopyOf, labelled_file: Path, arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = copy_of(labelled_file)
    commands = Commands(engine)
    engine.store.write(lambda con: con.execute("DELETE FROM annotations"))  # labels are read one by one
    assert ReportRequest(**arguments).kinds(engine) is not None
    by_kind = rounded(commands.call("report_pictures", arguments))

    monkeypatch.setattr(ReportRequest, "kinds", lambda *_: None)

    assert rounded(commands.call("report_pictures", arguments)) == by_kind


def rounded(value: Any) -> Any:
    """Return a value with its numbers rounded: sums of the same numbers in another order differ in the last digit."""
    return json.loads(json.dumps(value), parse_float=lambda text: round(float(text), 9))
