"""Edges, priors and beliefs in .npy and Parquet files and in arrays.

Edges in a .npy file are not read: the file is mapped into memory, and the operating system keeps its pages only while
there is room. A Parquet file is read once, into 8 bytes an edge.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from equifactor.base.clock import Clock
from equifactor.base.errors import EquifactorError, FormatError, ModelError, OptionError, SolveError, brief
from equifactor.base.files import PathLike, check_writable, reason
from equifactor.base.optional_packages import needed
from equifactor.base.status import Status
from equifactor.base.typing import FloatArray, IntArray

# A file, an array [E, 2], or a pair of arrays or .npy files with one end each.
EdgeSource: TypeAlias = PathLike | np.ndarray | Sequence[Any]
PriorSource: TypeAlias = PathLike | np.ndarray | float

_PARQUET = (".parquet", ".pq")
_BATCH = 2**20  # Rows of a Parquet file that are decoded together. Chosen by hand.
MOST_VARIABLES = 2**31 - 2  # Ends are stored in 32 bits.


@dataclass(frozen=True)
class EdgeArrays:
    """The ends of the edges: edge e joins `first[e * step]` and `second[e * step]`, by `table[e]` or table 0.

    All arrays are one-dimensional, int32 (`table`: uint8), and read-only, so that compiled kernels meet one type.
    """

    first: IntArray
    second: IntArray
    step: int
    table: IntArray  # empty if there is one table
    num_edges: int


def read_edges(
    source: EdgeSource, tables: Any, columns: Sequence[str] | None, part: tuple[int, int], clock: Clock | None = None
) -> tuple[EdgeArrays, int, int]:
    """Return the edges of this process, the number of its first edge and the number of all edges.

    Args:
        source: a .npy or Parquet file, an array [E, 2], or a pair of arrays or .npy files with one end each.
        tables: the number of the table of each edge, as an array or .npy file; None if there is one table, or if
            a column of a Parquet file holds the numbers.
        columns: of a Parquet file: the two ends, and optionally the number of the table; default the first two.
        part: (rank, size): the edges are divided into `size` ranges of equal length, and this is range `rank`.
        clock: reading a Parquet file ends with an error when it stops.
    """
    if isinstance(source, (str, os.PathLike)) and Path(source).suffix.lower() in _PARQUET:
        if tables is not None:
            raise OptionError(
                "table_of_edge belongs to edges in arrays. In a Parquet file a third column holds the tables."
            )
        return _edges_of_parquet(source, columns, part, clock)
    if columns is not None:
        raise OptionError("columns have names only in Parquet files. A .npy file holds the ends in its two columns.")
    if hasattr(source, "data_ptr"):
        return _edges_of_tensor(source, part)
    where = _name(source)
    arrays = [_array(item, "the ends of edges") for item in (source if _is_pair(source) else [source])]  # type: ignore[union-attr]
    shape = "two arrays of one length" if _is_pair(source) else "one array with two columns"
    fits = all(array.ndim == (1 if _is_pair(source) else 2) for array in arrays)
    if not fits or len(arrays[0]) != len(arrays[-1]) or (len(arrays) == 1 and arrays[0].shape[1] != 2):
        found = " and ".join(str(array.shape) for array in arrays)
        raise ModelError(f"{where}: edges must be {shape}, one row for each edge, found the shape {found}.")
    if any(array.dtype.kind not in "iu" for array in arrays):
        raise ModelError(f"{where}: the ends of edges must be whole numbers, found {arrays[0].dtype}.")
    start, stop = _range(len(arrays[0]), part)
    count = len(arrays[0])
    arrays = [array[start:stop] for array in arrays]
    numbers = np.zeros(0, np.uint8)
    if tables is not None:
        given = _array(tables, "the tables of edges")
        if (
            given.shape != (count,)
            or given.dtype.kind not in "iu"
            or (count and not 0 <= given.min() <= given.max() < 256)
        ):
            raise ModelError(
                f"table_of_edge must hold a number from 0 to 255 for each of the {count:,} edges, found {given.dtype} "
                f"of shape {given.shape}."
            )
        numbers = given[start:stop].astype(np.uint8)
    if len(arrays) == 1 and arrays[0].dtype == np.int32 and arrays[0].flags.c_contiguous:
        flat = _read_only(arrays[0].reshape(-1))
        return EdgeArrays(flat, flat[1:], 2, _read_only(numbers), stop - start), start, count
    if len(arrays) == 1:
        arrays = [arrays[0][:, 0], arrays[0][:, 1]]
    return _edge_arrays([*arrays, numbers], where), start, count


def _edges_of_tensor(source: Any, part: tuple[int, int]) -> tuple[EdgeArrays, int, int]:
    """Return the edges in a tensor of torch, which stay where they are."""
    if source.ndim != 2 or source.shape[1] != 2 or str(source.dtype) != "torch.int32" or not source.is_contiguous():
        raise ModelError(
            f"A tensor of edges must be contiguous, of the type int32 and of the shape [E, 2], found {source.dtype} of "
            f"the shape {list(source.shape)}."
        )
    start, stop = _range(len(source), part)
    flat = source[start:stop].reshape(-1)
    return EdgeArrays(flat, flat[1:], 2, np.zeros(0, np.uint8), stop - start), start, len(source)


def check_time(clock: Clock | None) -> None:
    """Raise an error if the clock of a call stopped before there were any beliefs."""
    if clock is not None and clock.stopped:
        if clock.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        raise SolveError("Time ran out while the edges were read. Raise the time limit.")


def _is_pair(source: object) -> bool:
    """Return whether a source names two arrays or files, one for each end of the edges."""
    return (
        isinstance(source, (tuple, list))
        and len(source) == 2
        and all(isinstance(item, (str, os.PathLike, np.ndarray)) for item in source)
    )


def _range(count: int, part: tuple[int, int]) -> tuple[int, int]:
    rank, size = part
    return count * rank // size, count * (rank + 1) // size


def _edge_arrays(arrays: list[np.ndarray], where: str) -> EdgeArrays:
    """Return the arrays of both ends, and perhaps of tables, as the types of the kernels; copied only if necessary."""
    table = arrays[2] if len(arrays) == 3 else np.zeros(0, np.uint8)
    first, second = (_read_only(_as_int32(array, where)) for array in arrays[:2])
    return EdgeArrays(first, second, 1, _read_only(table), len(first))


def _as_int32(array: np.ndarray, where: str) -> np.ndarray:
    if array.dtype != np.int32 and len(array) and not 0 <= array.min() <= array.max() <= MOST_VARIABLES:
        raise ModelError(
            f"{where}: variables are numbered from 0 to at most {MOST_VARIABLES:,}, found {array.min()} and "
            f"{array.max()}. Number them from 0 on, for example with numpy.unique(.., return_inverse=True)."
        )
    return np.ascontiguousarray(array, np.int32)


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view


def _name(source: object) -> str:
    return os.fspath(source) if isinstance(source, (str, os.PathLike)) else "edges"


def _array(source: Any, what: str) -> np.ndarray:
    """Return an array, or the mapped contents of a .npy file."""
    if not isinstance(source, (str, os.PathLike)):
        try:
            return np.asarray(source)
        except Exception:  # a foreign object may raise any error when numpy asks it for numbers
            raise ModelError(f"Expected an array of {what}, found {brief(source)}.") from None
    try:
        mapped = np.load(source, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise FormatError(f"{os.fspath(source)}: cannot read this file: {reason(error)}.") from None
    except Exception:  # NumPy raises many types for damaged files.
        raise FormatError(
            f"{os.fspath(source)}: this is not a complete .npy file of numbers. Large models are read from .npy and "
            ".parquet files."
        ) from None
    if not isinstance(mapped, np.ndarray):
        raise FormatError(f"{os.fspath(source)}: this is an archive of arrays. Save {what} with numpy.save.")
    return np.asarray(mapped)


# ---- Parquet ----------------------------------------------------------------------------------------------


def _open_parquet(path: PathLike) -> Any:
    parquet = needed("pyarrow.parquet", "Reading Parquet")
    try:
        return parquet.ParquetFile(os.fspath(path), memory_map=True)
    except OSError as error:
        raise FormatError(f"{os.fspath(path)}: cannot read this file: {reason(error)}.") from None
    except Exception as error:
        raise FormatError(f"{os.fspath(path)}: this is not a Parquet file ({brief(str(error))}).") from None


def _columns(file: Any, path: PathLike, wanted: Sequence[str] | None, count: int) -> list[str]:
    names = list(file.schema_arrow.names)
    if wanted is None:
        wanted = names[:count]
        if len(wanted) < count:
            raise FormatError(f"{os.fspath(path)}: expected {count} columns, found {len(names)}.")
    for name in wanted:
        if name not in names:
            raise OptionError(f"{os.fspath(path)}: there is no column {brief(name)}. The columns are {brief(names)}.")
    return list(wanted)


def _edges_of_parquet(
    path: PathLike, columns: Sequence[str] | None, part: tuple[int, int], clock: Clock | None
) -> tuple[EdgeArrays, int, int]:
    with _open_parquet(path) as file:
        names = _columns(file, path, columns, 2)
        if len(names) not in (2, 3):
            raise OptionError(f"columns must name the two ends, and optionally the table, found {brief(names)}.")
        count = file.metadata.num_rows
        start, stop = _range(count, part)
        arrays = [np.empty(stop - start, np.int32) for _ in names[:2]]
        if len(names) == 3:
            arrays.append(np.empty(stop - start, np.uint8))
        for begin, rows in _batches(file, path, names, start, stop):
            check_time(clock)
            for array, values in zip(arrays, rows, strict=True):
                most = np.iinfo(array.dtype).max
                if values.dtype.kind not in "iu" or (len(values) and not 0 <= values.min() <= values.max() <= most):
                    raise ModelError(
                        f"{os.fspath(path)}: edges and tables must be whole numbers from 0 on, without gaps, and at "
                        f"most {most:,}. Number the variables from 0 on, for example with pandas.factorize."
                    )
                array[begin : begin + len(values)] = values
    return _edge_arrays(arrays, os.fspath(path)), start, count


def _batches(file: Any, path: PathLike, names: list[str], start: int, stop: int) -> Any:
    """Yield (place, columns) of the rows start to stop - 1; only the row groups that hold them are decoded."""
    groups: list[int] = []
    first = row = 0
    for number in range(file.num_row_groups):
        size = file.metadata.row_group(number).num_rows
        if row + size > start and row < stop:
            first = first if groups else row
            groups.append(number)
        row += size
    at = first - start
    with _intact(path):
        for batch in file.iter_batches(_BATCH, row_groups=groups, columns=names):
            low, high = max(0, -at), min(len(batch), stop - start - at)
            if high > low:
                rows = [_values(batch.column(name), path, name)[low:high] for name in names]
                yield at + low, rows
            at += len(batch)


@contextlib.contextmanager
def _intact(path: PathLike) -> Iterator[None]:
    """Raise `FormatError` for any error of pyarrow, which raises many types for damaged files."""
    try:
        yield
    except (EquifactorError, MemoryError):
        raise
    except Exception as error:
        raise FormatError(f"{os.fspath(path)}: the file is damaged ({brief(str(error))}).") from None


def _values(column: Any, path: PathLike, name: str) -> np.ndarray:
    if column.null_count:
        raise FormatError(f"{os.fspath(path)}: column {name} has rows without a value.")
    return column.to_numpy(zero_copy_only=False)


# ---- priors and beliefs -----------------------------------------------------------------------------------


def read_priors(
    source: PriorSource | None, columns: Sequence[str] | None, states: int
) -> tuple[FloatArray, IntArray | None]:
    """Return the priors of all variables together, of each variable, or of some numbered variables.

    With two states a prior is a probability of state 1, and the shapes are [], [V] and [n]. With K states it is K
    weights, and the shapes are [1, K], [V, K] and [n, K].

    Args:
        source: an array; a .npy file of one; a Parquet file with the columns variable and probability or weights; or
            None, where all states are alike.
        columns: the names of the columns of a Parquet file; default the first ones.
        states: K.
    """
    numbers, wide = None, 1 if states == 2 else states
    is_file = isinstance(source, (str, os.PathLike))
    where = _name(source) if is_file else "priors"
    if source is None:
        values = np.array(0.5) if wide == 1 else np.ones(states)
    elif isinstance(source, (str, os.PathLike)) and Path(source).suffix.lower() in _PARQUET:
        with _open_parquet(source) as file, _intact(source):
            names = _columns(file, source, columns, 1 + wide)
            read = file.read(columns=names)
            numbers, *given = (_values(read.column(name), source, name) for name in names)
        if numbers.dtype.kind not in "iu" or (len(numbers) and numbers.min() < 0):
            raise ModelError(f"{where}: column {names[0]} must hold whole numbers from 0 on.")
        if len(given) != wide:
            raise OptionError(f"prior_columns must name the variable and {wide} columns, found {brief(names)}.")
        values = given[0] if wide == 1 else np.stack(given, axis=1)
    else:
        values = _array(source, "priors")
    if wide > 1 and values.shape == (states,):
        values = values[None]
    fits = values.ndim < 2 if wide == 1 else values.ndim == 2 and values.shape[1] == states
    if values.dtype.kind not in "iufb" or not fits:
        rows = "one probability" if wide == 1 else f"a row of {states} weights"
        raise ModelError(f"{where}: priors must be {rows} for each variable, found {brief(values)}.")
    bad: Any
    if wide == 1:
        bad = ~((values >= 0.0) & (values <= 1.0))  # NaN as well
    else:
        bad = ~((values >= 0.0).all(axis=1) & np.isfinite(values).all(axis=1) & (values > 0.0).any(axis=1))
    if bad.any():
        at = int(np.argmax(bad))
        rule = "the probability of state 1, from 0 to 1" if wide == 1 else "weights of at least 0, not all of them 0"
        raise ModelError(
            f"{where}: the prior of variable {at if numbers is None else numbers[at]} is "
            f"{values if values.ndim == 0 else values[at]}. A prior is {rule}."
        )
    return values, numbers


def check_output(path: PathLike) -> None:
    """Raise an error if beliefs cannot be written to a file; called before the work for them."""
    check_writable(path)
    suffix = Path(path).suffix.lower()
    if suffix not in (".npy", *_PARQUET):
        raise OptionError(f"{os.fspath(path)}: beliefs are written to a .npy or .parquet file.")
    if suffix in _PARQUET:
        needed("pyarrow.parquet", "Writing Parquet")


def write_beliefs(path: PathLike, beliefs: FloatArray, log_odds: FloatArray) -> None:
    """Write probabilities to a .npy file, or with the log odds to a Parquet file, where each state has its columns."""
    check_output(path)
    path = os.path.realpath(path)
    temporary = Path(path).with_name(f".{Path(path).name[:100]}.{secrets.token_hex(6)}.tmp")
    try:
        if Path(path).suffix.lower() == ".npy":
            with temporary.open("wb") as handle:
                np.save(handle, beliefs)
        else:
            arrow, parquet = needed("pyarrow", "Writing Parquet"), needed("pyarrow.parquet", "Writing Parquet")
            fields: dict[str, Any] = {"node": np.arange(len(beliefs), dtype=np.int32)}
            for name, values in (("belief", beliefs), ("log_odds", log_odds)):
                many = {f"{name}_{state}": column for state, column in enumerate(values.T)}
                fields |= {name: values} if values.ndim == 1 else many
            parquet.write_table(arrow.table(fields), os.fspath(temporary))
        temporary.replace(path)
    except OSError as error:
        raise FormatError(f"{os.fspath(path)}: cannot write this file: {reason(error)}.") from None
    finally:
        temporary.unlink(missing_ok=True)
