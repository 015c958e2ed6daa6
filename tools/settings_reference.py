"""Write docs/settings.md: every setting with its default, generated from the settings.

Run it as `python -m tools.settings_reference [--check]`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel

from otel_agentic.config import CONFIG_FILE_VARIABLE, DEFAULT_CONFIG_FILE, Settings
from tools.generated import ROOT, run

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

PAGE: Final = ROOT / "docs" / "settings.md"

_INTRODUCTION: Final = f"""\
# Settings

Written by `make docs` from the settings themselves. Sources, in order of precedence:

1. flags of the command line ([reference](cli.md));
2. environment variables: `OTEL_AGENTIC_`, section, two underscores, name, such as `OTEL_AGENTIC_RECEIVE__HTTP`; lists and
   tables are written as JSON;
3. a TOML file: `--config FILE`, else the file that `{CONFIG_FILE_VARIABLE}` names, else the first
   `{DEFAULT_CONFIG_FILE}` in the working directory, `$XDG_CONFIG_HOME/otel-agentic` (`~/.config`) and `/etc/otel-agentic`.

`otel-agentic config init` writes a commented file, `config check` checks one, and `config show` prints the effective settings
and where each comes from. An invalid value stops the command; the message names the setting.

```toml
[receive]
http = "127.0.0.1:4318"

[stats]
k = [1, 3, 5]
```
"""


def reference() -> str:
    """Return the page: one section per section of the settings."""
    return "\n".join([_INTRODUCTION, *(_section(name, field) for name, field in Settings.model_fields.items())])


def _section(name: str, field: FieldInfo) -> str:
    section = field.annotation
    if not (isinstance(section, type) and issubclass(section, BaseModel)):
        raise TypeError(f"setting {name} is no section; settings are two levels deep")
    rows = [
        f"| `{inner}` | {_default(inner_field)} | {_cell(inner_field.description or '')} |"
        for inner, inner_field in section.model_fields.items()
    ]
    head = ["| setting | default | description |", "|---|---|---|"]
    return "\n".join([f"## {name}\n", f"{(section.__doc__ or '').strip()}\n", *head, *rows, ""])


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True, validated_data={})
    return "unset" if value is None else f"`{_cell(_toml(value))}`"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_toml(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(inner) for inner in value) + "]"
    if isinstance(value, bool | int | float):
        return str(value).lower()
    return json.dumps(str(value), ensure_ascii=False)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    run(PAGE, reference)
