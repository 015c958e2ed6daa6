"""Write docs/case.schema.json: the JSON Schema of the case format, generated from the models that parse it.

Run it as `python -m tools.case_schema [--check]`.
"""

from __future__ import annotations

from typing import Final

from otel_agentic.truth.formats.base import schema_text
from tools.generated import ROOT, run

PAGE: Final = ROOT / "docs" / "case.schema.json"


if __name__ == "__main__":
    run(PAGE, schema_text)
