"""Authoring: operators written as Python functions over tiles, traced once into tile IR.

from ckmlir.lang import cast, i32, kernel, load, loop, mma, ptr, stage, store, to_lds, view, zeros
"""

from ckmlir.lang.conditions import exit_unless, when
from ckmlir.lang.elements import each_element
from ckmlir.lang.folds import reduce, reduce_max, reduce_min, reduce_sum, scan, scan_max, scan_sum
from ckmlir.lang.kernel import Kernel, f32, f64, i32, i64, kernel, ptr, workgroup_id
from ckmlir.lang.loops import loop, while_loop
from ckmlir.lang.machine import multiply_high, reciprocal
from ckmlir.lang.packed import dequantize, light_exponent, pack, repack, unpack
from ckmlir.lang.shapes import join_axes, permute_axes, stretch
from ckmlir.lang.synchronization import signal, together, wait_until
from ckmlir.lang.tiles import (
    LdsTensor,
    absolute,
    bitcast,
    cast,
    ceil,
    coordinates,
    copy_to_lds,
    cut,
    exp2,
    floor,
    full,
    insert_tile,
    log2,
    maximum,
    minimum,
    mma,
    redistribute,
    rescale,
    round_even,
    rsqrt,
    slice_tile,
    splat_like,
    sqrt,
    to_lds,
    truncate,
    uniform,
    where,
    zeros,
)  # fmt: skip
from ckmlir.lang.trace import TracingError, current, stage
from ckmlir.lang.values import Pointer, Scalar, Tile
from ckmlir.lang.views import (
    View,
    Window,
    atomic_add,
    atomic_max,
    fetch_add,
    fetch_max,
    gather,
    inside,
    load,
    offsets,
    scatter,
    scatter_add,
    scatter_max,
    store,
    view,
)

__all__ = [
    "Kernel", "LdsTensor", "Pointer", "Scalar", "Tile", "TracingError", "View", "Window", "absolute", "atomic_add",
    "atomic_max", "bitcast", "cast", "ceil",
    "coordinates", "copy_to_lds", "current", "cut", "dequantize", "each_element",
    "exit_unless", "exp2", "f32", "f64", "fetch_add", "fetch_max",
    "floor", "full", "gather",
    "i32", "i64", "insert_tile", "inside", "join_axes", "kernel", "light_exponent", "load",
    "log2", "loop", "maximum", "minimum",
    "mma", "multiply_high", "offsets", "pack",
    "permute_axes", "ptr", "reciprocal", "redistribute", "reduce", "reduce_max",
    "reduce_min", "reduce_sum", "repack", "rescale",
    "round_even", "rsqrt", "scan", "scan_max", "scan_sum", "scatter",
    "scatter_add", "scatter_max", "signal", "slice_tile", "splat_like", "sqrt",
    "stage", "store", "stretch", "to_lds", "together", "truncate", "uniform", "unpack",
    "view", "wait_until", "when", "where", "while_loop",
    "workgroup_id", "zeros",
]  # fmt: skip
