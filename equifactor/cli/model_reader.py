"""The reader of models named on the command line: in order, and past models that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from equifactor.base.errors import EquifactorError, FormatError, ModelError, OptionError
from equifactor.cli.exit_status import Exit, describe, say

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph


@dataclass
class ModelReader:
    """Iterates over pairs `(path, graph)`; `failed` counts the models that could not be read.

    Args:
        paths: model files.
        evidence: evidence files, or observations such as `HR=HIGH,CO=LOW`; one for all models, or one per model.
        format: format of the models; None chooses by suffix.
        sample: which sample of an evidence file with several, counted from 0.
        do: variables that are set from outside, as `HR=HIGH,CO=LOW`; the models must be Bayesian networks.
        projected: whether CNF files may list the variables to count over, which are then in `over`.
    """

    paths: list[str]
    evidence: list[str] | None = None
    format: str | None = None
    sample: int | None = None
    do: str | None = None
    projected: bool = False
    failed: int = field(default=0, init=False)
    over: list[int] | None = field(default=None, init=False)  # of the last model; None for all variables

    def __post_init__(self) -> None:
        files = self.evidence or []
        if len(files) not in (0, 1, len(self.paths)):
            raise OptionError(
                f"Expected one --evidence for all models, or one for each of the {len(self.paths)} models, "
                f"found {len(files)}."
            )
        check_stdin(*self.paths, *files)
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
                raise  # A wrong --format is wrong for every model.
            except (EquifactorError, OSError, MemoryError, RecursionError) as error:
                self.fail(path, error)
            else:
                yield path, graph

    def fail(self, path: str, error: Exception) -> None:
        """Report what is wrong with one model, and count it."""
        sentence = describe(error) or repr(error)
        named = isinstance(error, OSError) or (isinstance(error, EquifactorError) and not isinstance(error, ModelError))
        say(sentence if named else f"{path}: {sentence}")
        self.failed += 1

    def exit_if_failed(self) -> None:
        """Exit with status 3 if any model could not be read."""
        if self.failed:
            raise typer.Exit(Exit.BAD_INPUT)

    def _read(self, path: str, evidence: str | None) -> FactorGraph:
        from equifactor.base.files import split_name
        from equifactor.base.progress import bar
        from equifactor.formats import read_graph

        with bar(True, f"reading {path}"):
            self.over = None
            if self.projected and (self.format or split_name(path)[1].strip(".")) in ("cnf", "wcnf"):
                from equifactor.formats.cnf import read_projected_cnf

                graph, self.over = read_projected_cnf(path)
            else:
                graph = read_graph(path, format=self.format)
        if self.do is not None:
            from equifactor.cli.readable_answer import parse_evidence
            from equifactor.graph.interventions import intervened

            graph = intervened(graph, parse_evidence(self.do, graph))
        return graph if evidence is None else graph.condition(given_evidence(graph, evidence, self.sample))


def check_stdin(*paths: str | None) -> None:
    """Raise `OptionError` if more than one path is `-`."""
    if paths.count("-") > 1:
        raise OptionError("stdin (-) can be read only once, but it is named more than once.")


def given_evidence(graph: FactorGraph, evidence: str, sample: int | None = None) -> Mapping[Any, Any]:
    """Return the evidence that `--evidence` gives: an evidence file, or observations such as `HR=HIGH,CO=LOW`."""
    from equifactor.formats import read_evidence

    if "=" in evidence and not _exists(evidence):
        from equifactor.cli.readable_answer import parse_evidence

        return parse_evidence(evidence, graph)
    if evidence != "-" and not _exists(evidence):
        raise FormatError(f"{evidence}: this file does not exist. Write observations by name as HR=HIGH,CO=LOW.")
    return read_evidence(evidence, graph, sample=sample)


def _exists(evidence: str) -> bool:
    try:
        return Path(evidence).exists()
    except OSError:  # Many observations are longer than a file name may be.
        return False
