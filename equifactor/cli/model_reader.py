"""Models named on the command line: they are read in order, and one that fails does not stop the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equifactor.base.errors import EquifactorError, FormatError, ModelError, OptionError
from equifactor.cli.exit_status import describe, say

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph


@dataclass
class ModelReader:
    """Iterates over pairs `(path, graph)` and counts in `failed` the models that could not be read.

    Args:
        paths: model files.
        evidence: evidence files, or observations as `HR=HIGH,CO=LOW`: none, one for all models, or one per model.
        format: name of the models' format; None goes by the suffix.
        sample: which sample to take from evidence files that hold several.
    """

    paths: list[str]
    evidence: list[str] | None = None
    format: str | None = None
    sample: int | None = None
    failed: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        files = self.evidence or []
        if len(files) not in (0, 1, len(self.paths)):
            raise OptionError(
                f"expected one evidence file for all models or one for each of the {len(self.paths)}, "
                f"found {len(files)}"
            )
        if [*self.paths, *files].count("-") > 1:
            raise OptionError("stdin (-) can be read once only")
        self._evidence_of: Sequence[str | None] = files * len(self.paths) if len(files) == 1 else files
        if not files:
            self._evidence_of = [None] * len(self.paths)

    def __len__(self) -> int:
        return len(self.paths)

    def __iter__(self) -> Iterator[tuple[str, FactorGraph]]:
        for path, evidence in zip(self.paths, self._evidence_of, strict=True):
            try:
                graph = self._read(path, evidence)
            except OptionError:
                raise  # a wrong --format is wrong for every model
            except (EquifactorError, OSError, MemoryError, RecursionError) as error:
                self.fail(path, error)
            else:
                yield path, graph

    def fail(self, path: str, error: Exception) -> None:
        """Say what is wrong with one model and go on."""
        sentence = describe(error) or repr(error)
        named = isinstance(error, OSError) or (isinstance(error, EquifactorError) and not isinstance(error, ModelError))
        say(sentence if named else f"{path}: {sentence}")
        self.failed += 1

    def _read(self, path: str, evidence: str | None) -> FactorGraph:
        from equifactor.base.progress import bar
        from equifactor.formats import read_graph

        with bar(True, f"reading {path}"):
            graph = read_graph(path, format=self.format)
        return graph if evidence is None else graph.condition(given_evidence(graph, evidence, self.sample))


def given_evidence(graph: FactorGraph, evidence: str, sample: int | None = None) -> Mapping[Any, Any]:
    """What `--evidence` says about a graph: an evidence file, or observations as `HR=HIGH,CO=LOW`."""
    from equifactor.formats import read_evidence

    if "=" in evidence and not _exists(evidence):
        from equifactor.cli.readable_answer import parse_evidence

        return parse_evidence(evidence, graph)
    if evidence != "-" and not _exists(evidence):
        raise FormatError(f"{evidence}: there is no such file; observations by name are written as in HR=HIGH,CO=LOW")
    return read_evidence(evidence, graph, sample=sample)


def _exists(evidence: str) -> bool:
    try:
        return Path(evidence).exists()
    except OSError:  # many observations make a name that is too long for a file
        return False
