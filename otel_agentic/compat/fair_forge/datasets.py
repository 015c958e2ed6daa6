"""Fair Forge's datasets: one dataset is one conversation, one interaction is one turn with its ground truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict, ValidationError

from otel_agentic.errors import BadInputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable


class _Record(BaseModel):
    # Its own objects may come in too, and files may say more than the metric reads.
    model_config = ConfigDict(from_attributes=True, extra="ignore", frozen=True)


class Interaction(_Record):
    """One turn: what the user asked, what the agent said and did, and what it should have."""

    qa_id: str
    query: str
    assistant: str
    ground_truth_assistant: str
    agentic: dict[str, Any] | None = {}
    ground_truth_agentic: dict[str, Any] | None = {}


class Dataset(_Record):
    """One conversation."""

    session_id: str
    assistant_id: str
    context: str
    conversation: list[Interaction]
    language: str | None = "english"


@runtime_checkable
class Retriever(Protocol):
    """Whatever loads datasets, such as an instance of a subclass of Fair Forge's `Retriever`."""

    def load_dataset(self) -> Iterable[Any]:
        """Return the datasets."""
        ...


def load_datasets(source: Any, options: dict[str, Any]) -> list[Dataset]:
    """Return the datasets of a retriever class (made with `options`), of a retriever, or of an iterable of datasets.

    Raises:
        BadInputError: a dataset lacks a field, or has one of another kind; names the dataset and the field.
        UsageError: the source is none of the three.
    """
    retriever = source(**options) if isinstance(source, type) else source
    found = retriever.load_dataset() if isinstance(retriever, Retriever) else retriever
    try:
        datasets = list(found)
    except TypeError:
        raise UsageError(
            f"retriever is {type(source).__name__}; allowed: a class or object with load_dataset(), or a list of datasets"
        ) from None
    return [_dataset(place, dataset) for place, dataset in enumerate(datasets)]


def _dataset(place: int, dataset: Any) -> Dataset:
    try:
        return Dataset.model_validate(dataset)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "dataset"
        raise BadInputError(f"dataset {place}: {field}: {first['msg']}; found {first['input']!r:.80}") from None
