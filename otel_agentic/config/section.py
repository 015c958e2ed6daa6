"""The base class of all sections of the settings."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=1)]


class Section(BaseModel):
    """A section, or a part of one; unknown names are rejected."""

    model_config = ConfigDict(extra="forbid", frozen=True)
