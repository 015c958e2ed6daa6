"""Commands about ground truth."""

from __future__ import annotations

from collections.abc import Sequence

from otel_agentic.errors import BadInputError
from otel_agentic.pipeline.commands.base import EngineCommands, Json
from otel_agentic.pipeline.evaluate import TruthFile
from otel_agentic.pipeline.truth_in_force import unknown_labels
from otel_agentic.pipeline.wire import plain
from otel_agentic.store.datasets import current_datasets, list_datasets
from otel_agentic.store.matches import list_cases
from otel_agentic.store.truth import load_cases
from otel_agentic.truth.formats.base import record_of


class TruthCommands(EngineCommands):
    """Put ground truth in force; tell what is; give it back."""

    def truth_import(
        self, *, cases: Sequence[tuple[str, str]] = (), labels: Sequence[tuple[str, str]] = ()
    ) -> dict[str, Json]:
        """Put cases (native JSON lines) and labels (CSV), given as (name, text), in force; `evaluate` applies them."""
        with self._engine.store.read() as con:
            before = current_datasets(con)
        files_of_labels = [TruthFile(name=name, text=text) for name, text in labels]
        fresh = self._engine.evaluating.remember(
            [TruthFile(name=name, text=text) for name, text in cases], files_of_labels
        )
        with self._engine.store.read() as con:
            rows = list_cases(con)
            after = current_datasets(con)
        counts = {name: sum(row["dataset"] == name for row in rows) for name in sorted(before.keys() | after.keys())}
        datasets = [
            {
                "dataset": name,
                "version": after.get(name),
                "cases": count,
                "changed": before.get(name) != after.get(name),
            }
            for name, count in counts.items()
        ]
        return {
            "new_case_versions": fresh,
            "cases": len(rows),
            "labels": len(self._engine.evaluating.truth().labels),
            "datasets": datasets,
            "warnings": list(unknown_labels(self._engine.store, files_of_labels)),
        }

    def truth_list(self) -> Json:
        """Return the cases in force, each with the version of its dataset."""
        with self._engine.store.read() as con:
            versions = current_datasets(con)
            return plain([{**row, "dataset_version": versions[row["dataset"]]} for row in list_cases(con)])

    def truth_datasets(self, *, dataset: str | None = None) -> Json:
        """Return the versions of datasets, newest first."""
        with self._engine.store.read() as con:
            return plain(list_datasets(con, dataset))

    def truth_export(self, *, dataset: str | None = None) -> list[Json]:
        """Return the cases in force as native records, by dataset and case id.

        Raises:
            BadInputError: there are none.
        """
        with self._engine.store.read() as con:
            cases = load_cases(con)
        wanted = [case for case in cases if dataset is None or case.dataset == dataset]
        if not wanted:
            names = ", ".join(sorted({case.dataset for case in cases}))
            raise BadInputError(
                f"no case of dataset {dataset!r} is in force; there are {names}"
                if names
                else "no cases in force; `otel-agentic truth import FILE` puts some in force"
            )
        return [record_of(case) for case in wanted]
