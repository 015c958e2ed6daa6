"""What the records of foreign formats share: fields that are checked, and fields that a case has no place for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict

from otel_agentic.truth.formats.items import faults
from otel_agentic.truth.formats.json_text import whole
from otel_agentic.truth.model import Name

if TYPE_CHECKING:
    from collections.abc import Iterator

#: What says nothing: leaving it out loses nothing.
NOTHING: tuple[Any, ...] = (None, "", [], {})


class Record(BaseModel):
    """A record of a foreign file. Fields that are not declared are kept, and told as left out.

    `no_place` names declared fields that a case has no place for, `ignored` fields that nobody misses.
    """

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    no_place: ClassVar[frozenset[str]] = frozenset()
    ignored: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def of(cls, value: Any) -> Self:
        """Return a record.

        Raises:
            ValidationError: it breaks the format.
        """
        return cls.model_validate_json(json.dumps(value))

    def left_out(self, path: str = "") -> Iterator[str]:
        """Yield the fields that say something and have no place in a case; places in lists are not told."""
        for name in (*(self.model_extra or {}), *type(self).model_fields):
            value = getattr(self, name)
            if name in self.no_place or name in (self.model_extra or {}):
                if value not in NOTHING and name not in self.ignored:
                    yield f"{path}{name}"
                continue
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, Record):
                    yield from part.left_out(f"{path}{name}.")


class Silent(Record):
    """A record of what an agent did: nothing of it belongs into a case."""

    def left_out(self, path: str = "") -> Iterator[str]:  # noqa: ARG002 — the signature of a record
        """Yield nothing."""
        return iter(())


def _object(value: Any) -> Any:
    """Return the object that a JSON text says, a blank one none; anything else as it is."""
    if isinstance(value, str) and value.strip():
        try:
            found = whole(value)
        except ValueError:
            return value
        return value if any(faults(found)) else found
    return {} if value is None or isinstance(value, str) else value


def _listed(value: Any) -> Any:
    return [] if value is None else value


def _named(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _text(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


#: Arguments of a call: an object, also as JSON text as OpenAI has it; null and a blank text mean none.
Arguments = Annotated[dict[str, Any], BeforeValidator(_object)]
#: A list that may be null.
Listed = BeforeValidator(_listed)
#: An id: a text, or a whole number, which becomes one.
Id = Annotated[Name, BeforeValidator(_named)]
#: What somebody says: a text, or a number, which becomes one.
Said = Annotated[str, BeforeValidator(_text)]


def first_of(record: dict[str, Any], *names: str) -> Any:
    """Return the first of several fields that is there and not null, None where none is."""
    return next((record[name] for name in names if record.get(name) is not None), None)
