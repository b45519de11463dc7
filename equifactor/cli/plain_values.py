"""Values of arguments that need no conversion library: texts, whole numbers, decimals and flags.

Recent releases of typer convert every argument by pydantic, whose import takes as long as that of NumPy. Most arguments
are texts and flags, which are already what the command expects.
"""

from __future__ import annotations

import math
import re
from typing import Any

_WHOLE = re.compile(r"-?[0-9]{1,15}")
_DECIMAL = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")
_OTHER = object()  # Stands for a value that typer must convert.


def with_plain_values(command: Any) -> Any:
    """Return the command after its parameters have got a conversion that leaves only unusual values to typer.

    Releases of typer without pydantic have no such conversion to replace; then nothing changes.
    """
    whole = command.get_params  # with --help, which exists only once the command runs

    def get_params(ctx: Any) -> Any:
        found = whole(ctx)
        for parameter in found:
            descriptor = getattr(parameter, "type_descriptor", None)
            if descriptor is not None and getattr(parameter, "_runtime_param", _OTHER) is None:
                parameter._runtime_param = _PlainValue(descriptor)
        return found

    command.get_params = get_params
    for part in getattr(command, "commands", {}).values():
        with_plain_values(part)
    return command


class _PlainValue:
    """The conversion of one parameter, in place of the one that typer makes at its first use."""

    def __init__(self, descriptor: Any) -> None:
        info = descriptor.parameter_info
        self.annotation = descriptor.annotation
        self.has_parser = info.parser is not None
        self.low = -math.inf if info.min is None else info.min
        self.high = math.inf if info.max is None else info.max

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value in the type of the parameter, as the conversion of typer does."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        found: Any = _OTHER if self.has_parser else self._plain(value)
        if found is not _OTHER and (type(found) not in (int, float) or self.low <= found <= self.high):
            return found
        param._runtime_param = None  # typer makes its own conversion
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)

    def _plain(self, value: Any) -> Any:
        wanted, given = self.annotation, type(value)
        if wanted == list[str] and given in (list, tuple) and all(type(item) is str for item in value):
            return list(value)
        if wanted is given and given in (str, bool, int, float):
            return value
        if given is str and wanted is int and _WHOLE.fullmatch(value):
            return int(value)
        if given is str and wanted is float and _DECIMAL.fullmatch(value):
            return float(value)
        return _OTHER
