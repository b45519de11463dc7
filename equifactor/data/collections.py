"""The instances of a collection: the paths of their files and their known answers."""

from __future__ import annotations

import csv
import errno
import json
import math
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equifactor.base.argument_types import checks_fields, checks_types
from equifactor.base.errors import FormatError, OptionError, brief
from equifactor.base.files import label, reason, split_name
from equifactor.base.options import choices
from equifactor.base.sources import is_file

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph
    from equifactor.graph.marginals import Marginals

INDEX = "index.json"  # The file that lists the models of a folder.
BOARD = "reference.csv"  # The file with the best values of marginal MAP, in a folder without an index.
FOLDER = "EQUIFACTOR_DATA"  # The environment variable with the default folder.
_SUFFIXES = (".uai", ".uai.gz", ".uai.xz")  # Of the models that an index lists.
# Collections of several families; the family of a model is its name without the number at the end.
_MIXED = frozenset(("MAR",))


@checks_fields("collection", "name", "path", "evidence_path", "marginals_path", "record", "query_path")
@dataclass(frozen=True)
class Instance:
    """One model with its evidence and its known answers; logarithms are natural.

    `record` is its entry in `index.json`; it is empty if the folder has no index.
    """

    collection: str
    name: str
    path: Path
    evidence_path: Path | None = None
    marginals_path: Path | None = None
    record: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    query_path: Path | None = None

    @property
    def key(self) -> str:
        """The text `collection/name`, which is unique in a folder."""
        return f"{self.collection}/{self.name}"

    @property
    def family(self) -> str:
        """The group of the model in tables of results: its collection, or its family in a mixed collection."""
        return re.sub(r"_\d+$", "", self.name) if self.collection in _MIXED else self.collection

    @property
    def split(self) -> str | None:
        """The part of the collection, `train` or `test`; None if the collection is not split."""
        return self.record.get("split")

    @property
    def log_z(self) -> float | None:
        """The exact ln Z given the evidence, or None if it is unknown."""
        return self.record.get("log_z")

    @property
    def map_log_score(self) -> float | None:
        """The best known log-score of an assignment, or None; `map_is_optimal` tells whether it is proved."""
        return self.record.get("map_log_score")

    @property
    def map_is_optimal(self) -> bool:
        """Whether `map_log_score` is proved to be the optimum."""
        return self.record.get("map_status") == "optimal"

    @property
    def map_upper_bound(self) -> float | None:
        """A proved upper bound on the best log-score, or None if it is unknown."""
        return self.record.get("map_log_score_upper_bound")

    @property
    def mmap_log_score(self) -> float | None:
        """The best known log of a sum over the variables outside the query, or None."""
        return self.record.get("mmap_log_score")

    @property
    def mmap_trivial_log_score(self) -> float | None:
        """The log of the sum of the trivial answer to the query, or None."""
        return self.record.get("mmap_trivial_log_score")

    def query(self, graph: FactorGraph) -> list[int]:
        """Read the variables over which marginal MAP maximises, given the model."""
        from equifactor.formats.results import read_query

        if self.query_path is None:
            raise FormatError(
                f"{self.path}: marginal MAP needs a query. Write the number of query variables and then each variable "
                f"into {self.path.name.removesuffix('.gz')}.query."
            )
        return read_query(self.query_path, graph)

    def graph(self) -> FactorGraph:
        """Read the model and apply its evidence."""
        from equifactor.formats import read_evidence, read_graph

        if not is_file(self.path):
            raise FormatError(
                f"{self.path}: the model of {self.key} is missing. Fetch the collection again with equifactor download."
            )
        graph = read_graph(self.path).renamed(self.key)
        if self.evidence_path is None:
            return graph
        return graph.condition(read_evidence(self.evidence_path, graph))

    def marginals(self) -> Marginals | None:
        """Read the exact marginals, or return None if they are unknown. Published marginals have about six digits."""
        from equifactor.formats.results import read_mar

        return None if self.marginals_path is None else read_mar(self.marginals_path)


@checks_types("folder", "name")
def collection(folder: str | Path | None = None, name: str | Sequence[str] | None = None) -> list[Instance]:
    """Return the instances of one, several or all collections of a folder. Only the index is read.

    Args:
        folder: the folder of the models; None takes the folder in the environment variable EQUIFACTOR_DATA.
        name: one or several names, such as `"MAR"` or `["Grids", "DBN"]`, in upper or lower case; None takes all.
    """
    instances = _instances(_folder(folder))
    if name is None:
        return instances
    known = {i.collection.lower(): i.collection for i in instances}
    wanted = set()
    for part in [name] if isinstance(name, str) else name:
        if str(part).lower() not in known:
            raise OptionError(f"There is no collection {brief(part)}; {choices(str(part), list(known.values()))}")
        wanted.add(known[part.lower()])
    return [i for i in instances if i.collection in wanted]


def collection_names(folder: str | Path | None = None) -> list[str]:
    """Return the names of the collections in a folder, in the order of its index."""
    return list(dict.fromkeys(i.collection for i in _instances(_folder(folder))))


def _folder(folder: str | Path | None) -> Path:
    given = folder if folder is not None else os.environ.get(FOLDER)
    if given is None:
        raise OptionError(
            f"No folder of models is given. Pass a folder or set {FOLDER}; `equifactor download FOLDER` fetches one."
        )
    if not isinstance(given, (str, os.PathLike)):
        raise OptionError(f"A folder of models must be a path, found {brief(given)}.")
    path = Path(given)
    try:
        path.stat()
    except (OSError, ValueError) as error:  # a ValueError is about a zero byte in the name
        if isinstance(error, ValueError) or error.errno == errno.ENAMETOOLONG:
            raise FormatError(f"{label(path)}: this is not the name of a folder.") from None
    if path.is_file():
        raise FormatError(
            f"{path}: expected a folder of models, found a file. Pass the folder of the file, or compare solvers on "
            f"one model with `equifactor compare {path}`."
        )
    if not path.is_dir():
        raise FormatError(f"{path}: there is no such folder. Fetch it with `equifactor download {path}`.")
    return path


def _instances(folder: Path) -> list[Instance]:
    index = folder / INDEX
    found = _from_index(folder, index) if index.is_file() else _from_files(folder)
    if not found:
        known = " ".join(_model_suffixes())
        raise FormatError(f"{folder}: expected {INDEX} or model files ({known}, also .gz and .xz), found neither.")
    return found


def _model_suffixes() -> list[str]:
    from equifactor.formats import FORMATS

    return [suffix for f in FORMATS.values() for suffix in f.suffixes]


def _from_index(folder: Path, index: Path) -> list[Instance]:
    """Return one instance per record; a record needs `collection` and `name`, everything else is optional."""
    try:
        records = json.loads(index.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise FormatError(f"{index}: cannot read this file: {error}") from None
    if not isinstance(records, list):
        raise FormatError(f"{index}: expected a list of records, found an object of type {type(records).__name__}.")
    instances = []
    for n, record in enumerate(records):
        if not isinstance(record, dict) or not all(isinstance(record.get(k), str) for k in ("collection", "name")):
            raise FormatError(f"{index}: record {n} must be an object with the texts `collection` and `name`.")
        at, name = folder / record["collection"], record["name"]
        marginals = record.get("marginals")
        instances.append(
            Instance(
                record["collection"],
                name,
                _first(at, [name + s for s in _SUFFIXES]) or at / f"{name}.uai.gz",
                # Evidence that the index lists must exist: without it, the model would be a different one.
                _evidence(at / f"{name}.uai.evid", record.get("evidence_count")),
                folder / marginals if marginals else None,
                record,
                _first(at, [f"{name}.uai.query"]),
            )
        )
    return instances


def _evidence(path: Path, count: int | None) -> Path | None:
    if count is None:  # the index does not tell, so the evidence is used if the file exists
        return path if path.is_file() else None
    return path if count else None


def _from_files(folder: Path) -> list[Instance]:
    """Return one instance per model file of any format below the folder; result files beside it are its answers.

    The name of a model is its file name without suffixes, or with them if two models would have the same name.
    """
    from equifactor.formats.results import read_pr

    known = frozenset(_model_suffixes())
    try:
        paths = sorted(p for p in folder.rglob("*") if split_name(p)[1] in known and p.is_file())
    except OSError as error:
        raise FormatError(f"{folder}: cannot list this folder: {reason(error)}.") from None
    count = Counter((p.parent, split_name(p)[0]) for p in paths)
    board = _from_board(folder / BOARD)
    num_listed = 0
    instances = []
    for path in paths:
        stem, suffix = split_name(path)
        log_z = _first(path.parent, [f"{stem}{suffix}.PR", f"{stem}.PR"])
        record: dict[str, Any] = {} if log_z is None else {"log_z": read_pr(log_z)}
        if stem in board:
            record |= {**board[stem], "split": ("train", "test")[num_listed % 2]}
            num_listed += 1
        instances.append(
            Instance(
                path.parent.name if path.parent != folder else folder.resolve().name,
                stem if stem and count[path.parent, stem] == 1 else path.name,
                path,
                _first(path.parent, [f"{stem}{suffix}.evid", f"{stem}.evid"]),
                _first(path.parent, [f"{stem}{mid}.MAR{end}" for mid in ("", suffix) for end in ("", ".gz")]),
                record,
                _first(path.parent, [f"{stem}{suffix}.query", f"{stem}.query"]),
            )
        )
    return instances


def _from_board(path: Path) -> dict[str, dict[str, float]]:
    """Return the best and the trivial value of marginal MAP by the name of a model; the file has log10 of them."""
    if not path.is_file():
        return {}
    columns = {"best_log10": "mmap_log_score", "trivial_log10_estimate": "mmap_trivial_log_score"}
    found = {}
    try:
        for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines()):
            values = {to: float(row[name]) * math.log(10.0) for name, to in columns.items() if row.get(name)}
            found[row["problem"]] = values
    except (OSError, ValueError, KeyError) as error:
        raise FormatError(
            f"{path}: expected columns problem, best_log10 and trivial_log10_estimate: {error}."
        ) from None
    return found


def _first(folder: Path, names: Sequence[str]) -> Path | None:
    return next((folder / n for n in names if (folder / n).is_file()), None)
