"""What expressions in kernels come to: names to write them in, and the error that tracing or compiling ends in."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

import ckmlir.lang
from ckmlir.compiler import compile_traced
from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.mma import Mma
from ckmlir.dialect.schedule import Schedule
from ckmlir.errors import CkmlirError
from ckmlir.lang import Kernel, Tile, Window, f32, i32, i64, kernel, ptr, store, to_lds, view, zeros
from ckmlir.targets import get_target

TARGET = get_target("gfx942")
GFX950 = get_target("gfx950")
D = Distribution.parse
LANES, TURNED = D("d0: 64@lane"), D("d0: 32@lane.1 2@lane.0")
FRONT, BACK = D("d0: 2@y0 64@lane"), D("d0: 64@lane 2@y0")
WAVES, ROWS = D("d0: 4@wave 64@lane"), D("d0: 4@y0, d1: 64@lane")
MMA = Mma.select(TARGET, "16x16x16", "f16", block_k=16)
leaked: dict[str, Any] = {}
"""Values of a kernel that is finished."""


def traced(body: Callable[..., Any]) -> Kernel:
    """A kernel of one wave whose body gets an i32, an f32, an i64 and pointers to f32 and f16."""

    @kernel("probe", target=TARGET, waves=1)
    def probe(n: i32, x: f32, wide: i64, p: ptr("f32"), h: ptr("f16")) -> None:
        body(n, x, wide, p, h)

    return probe


def window(pointer: Any, length: int = 64, origin: Any = 0) -> Window:
    """A window that is the whole of a view."""
    return view(pointer, (length,), (1,)).window((length,), (origin,))


def plane(pointer: Any, m: int = 4, n: int = 64) -> Window:
    """The same of two dimensions."""
    return view(pointer, (m, n), (n, 1)).window((m, n), (0, 0))


def tile(length: int = 64, distribution: Distribution | None = LANES, dtype: str = "f32") -> Tile:
    """A tile of zeros."""
    return zeros((length,), dtype, distribution)


def put(what: Tile, pointer: Any) -> None:
    """Have a tile stored, so that it is compiled."""
    store(what, window(pointer, what.lengths[0]))


def _leak(n: Any, x: Any, wide: Any, p: Any, h: Any) -> None:
    leaked.update(n=n, x=x, p=p, t=tile(), w=window(p), v=view(p, (n,), (1,)), l=to_lds(tile()))


NAMES = {name: getattr(ckmlir.lang, name) for name in ckmlir.lang.__all__} | {
    "np": np, "Mma": Mma, "Schedule": Schedule, "D": D, "LANES": LANES, "TURNED": TURNED, "FRONT": FRONT, "BACK": BACK,
    "WAVES": WAVES, "ROWS": ROWS, "MMA": MMA, "TARGET": TARGET, "GFX950": GFX950, "leaked": leaked, "window": window,
    "plane": plane, "tile": tile, "put": put,
}  # fmt: skip


def outcome(expression: str) -> str:
    """What is said of a kernel that consists of an expression, without its place; "" where it compiles.

    Raises:
        Exception: anything but a CkmlirError, or one that does not name the expression's line.
    """
    if not leaked:
        compile_traced(traced(_leak))  # its IR is used up
    body = eval(f"lambda n, x, wide, p, h: {expression}", NAMES)  # the tests' own text
    try:
        compile_traced(traced(body))
    except CkmlirError as error:
        where, found, text = str(error).partition(": error: ")
        place = where.rpartition("/")[2]
        assert found and (place == "<string>:1:0" or place.startswith(f"{__name__}.py:")), f"no place in: {error}"
        return text.partition("\n")[0]
    return ""


def line_of(function: Callable[..., Any], text: str) -> int:
    """The line of a function that holds a text."""
    lines, first = inspect.getsourcelines(function)
    return first + next(number for number, line in enumerate(lines) if text in line)
