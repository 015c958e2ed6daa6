"""What all sections of the settings are made of."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=1)]


class Section(BaseModel):
    """A section, or a part of one: what nobody has described is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)
