"""Grids of launches: extents, or functions that the library calls when the configuration is known."""

import itertools
import operator

from .errors import USAGE_ERROR
from .library import lib
from .structs import GridFunction

pending_calls = {}
tokens = itertools.count(1)


@GridFunction
def grid_callback(token, config, out):
    call = pending_calls[token]
    try:
        kernel, grid, meta = call[:3]
        if callable(grid):
            grid = grid({**meta, **kernel._config(config)})
        out[0], out[1], out[2] = grid_extents(grid)
        return 0
    except BaseException as error:
        call[3] = error
        lib.tegula_set_error(str(error).encode())
        return USAGE_ERROR


def grid_extents(grid):
    """x, y, z of a grid as the user says it."""
    if not isinstance(grid, (tuple, list)):
        grid = (grid, )
    if not 1 <= len(grid) <= 3:
        raise TypeError(f"the grid {tuple(grid)} has {len(grid)} extents, expected 1 to 3")
    try:
        x, y, z = (*map(operator.index, grid), 1, 1)[:3]
    except TypeError:
        wrong = next(extent for extent in grid if not hasattr(extent, "__index__"))
        advice = "; divide by '//' or tegula.cdiv()" if isinstance(wrong, float) else ""
        raise TypeError(f"the grid {tuple(grid)} has the extent {wrong!r}, expected an int{advice}") from None
    if (x | y | z) >> 31:
        raise ValueError(f"the grid {tuple(grid)} has an extent that is negative or above {2**31 - 1}")
    return x, y, z
