"""Operators on tensors of any rank through their real code objects on the simulator: reduce, elementwise, cast,
permute, transposes, copy, img2col, pooling.

A part of every grid runs by default, one case in STEP; `-m full` runs the rest.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from launch_orders import in_any_order

from ckmlir.ops import find_operator
from ckmlir.ops.comparison import Array
from ckmlir.ops.tensors.functions import function_names
from ckmlir.runtime import open_device
from ckmlir.runtime.run import check_outputs, run_operator
from ckmlir.targets import get_target

CHIPS = ("gfx90a", "gfx942", "gfx950")
FLOATS = ("f16", "bf16", "f32")
EIGHT_BIT = ("fp8", "bf8")
STEP = 12
Keys = dict[str, object]


def on_chip(chip: str, *dtypes: object) -> bool:
    """Whether the chip has these types; a test of its own says that it refuses the others."""
    return chip != "gfx90a" or not set(dtypes) & set(EIGHT_BIT)


def grid(name: str, cases: Iterable[Keys], chips: Iterable[str] = CHIPS) -> list[Any]:
    """The cases on every chip; those that are not the representative part are marked."""
    everything = [
        (name, chip, keys)
        for keys in cases
        for chip in chips
        if on_chip(chip, *(value for key, value in keys.items() if "dtype" in key or key == "out"))
    ]
    return [
        pytest.param(*case, marks=[] if number % STEP == 0 else [pytest.mark.full], id=f"{case[1]}-{name}-{number}")
        for number, case in enumerate(everything)
    ]


def run(name: str, chip: str, keys: Keys, arrays: dict[str, Array] | None = None) -> dict[str, Array]:
    """Run a request, compare every output, and give them back."""
    operator, target = find_operator(name), get_target(chip)
    problem = operator.problem(**keys)
    given = {**operator.inputs(problem, target, seed=7), **(arrays or {})}
    result = run_operator(operator, problem, given, target, open_device("sim", target, seed=11))
    comparisons = check_outputs(operator, problem, given, result.outputs, target)
    assert {one.name for one in comparisons} == {a.name for a in operator.arrays(problem) if a.role == "out"}
    assert all(one.ok for one in comparisons), "; ".join(map(str, comparisons))
    return result.outputs


def product(**choices: Iterable[object]) -> list[Keys]:
    """Every combination of the choices."""
    return [dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())]


MOVED = (*FLOATS, "i8", "i32", *EIGHT_BIT)
MATRICES = ((64, 64), (128, 256), (127, 129), (1, 1), (1, 300), (300, 1), (67, 61), (0, 5))
TRANSPOSES = [
    {"m": m, "n": n, "dtype": dtype, **stride}
    for (m, n), dtype, stride in itertools.product(MATRICES, MOVED, ({}, {"stride": 320, "ystride": 301}))
]
IMAGES = [
    {"n": n, "c": c, "h": h, "w": w, "layout": layout, "dtype": dtype}
    for (n, c, h, w), layout, dtype in itertools.product(
        ((2, 16, 1, 16), (1, 64, 8, 8), (3, 5, 7, 9), (2, 130, 3, 1)), ("NCHW", "NHWC"), MOVED
    )
]
WRITTEN_APART = [
    {"shape": (9, 33, 40), "perm": (0, 2, 1), "ystrides": (1400, 34, 1), "dtype": "f16"},
    {"shape": (9, 33, 40), "ystrides": (1, 41, 1700), "dtype": "i8", "align": 1},
    {"shape": (5, 6, 7, 8), "perm": (0, 1, 2, 3), "ystrides": (720, 120, 17, 2), "dtype": "f32"},
    {"shape": (65, 127), "perm": (0, 1), "ystrides": (1, 72), "dtype": "bf16"},
    {"shape": (4, 64), "perm": (0, 1), "ystrides": (128, 1), "dtype": "fp4"},
]
PERMUTATIONS = [
    {"shape": shape, "perm": order, "dtype": dtype}
    for (shape, order), dtype in itertools.product(
        [
            ((2, 3, 4), (2, 1, 0)),
            ((65, 127), (1, 0)),
            ((9, 33, 40), (0, 2, 1)),
            ((40, 7, 33), (1, 0, 2)),
            ((64, 3, 64), (2, 1, 0)),
            ((5, 6, 7, 8), (0, 2, 1, 3)),
            ((5, 6, 7, 8), (3, 0, 1, 2)),
            ((1, 2, 1, 3, 1), (4, 3, 2, 1, 0)),
            ((3, 5, 7, 2, 4, 3, 2, 3), (7, 0, 3, 1, 2, 6, 5, 4)),
            ((2, 3, 2, 3, 2, 3, 2, 3), (1, 3, 5, 7, 0, 2, 4, 6)),
            ((17,), (0,)),
        ],
        MOVED,
    )
]
COPIES = [
    {"m": m, "n": n, "dtype": dtype, "through": through, **stride}
    for (m, n), dtype, through, stride in itertools.product(
        ((64, 256), (65, 200), (3, 1024)),
        MOVED,
        ("none", "registers", "direct"),
        ({}, {"stride": 1040, "ystride": 1280}),
    )
]
CASTS = [
    {"shape": shape, "dtype": dtype, "out": out}
    for dtype, out, shape in itertools.product(MOVED, MOVED, ((3, 1024), (5, 33)))
    if dtype != out
]
UNPACKED = [{"shape": s, "dtype": d} for s, d in itertools.product(((3, 4096), (7, 130), (5, 2), (0, 2)), FLOATS)]
PATCHES: list[Keys] = [
    {"dtype": dtype, **keys}
    for dtype in MOVED
    for keys in (
        {"image": (12, 13), "window": (3, 3), "c": 32},
        {"image": (9, 7), "window": (3, 2), "c": 5, "g": 2, "strides": (2, 1), "dilations": (1, 2), "pads": (1, 0),
         "right_pads": (0, 2)},
        {"image": (5, 6, 4), "window": (2, 3, 1), "c": 8, "pads": (1, 1, 0)},
        {"image": (17,), "window": (4,), "c": 3, "pads": (0,), "right_pads": (-3,)},
        {"image": (2, 2), "window": (3, 3), "pads": (0,)},
        {"n": 0},
    )
]  # fmt: skip
POOLS: list[Keys] = [
    {"dtype": dtype, **keys, **option}
    for dtype in (*FLOATS, *EIGHT_BIT)
    for keys in (
        {"image": (9, 7), "c": 5},
        {"image": (8, 8), "c": 64, "pads": (0,), "n": 1},
        {"image": (8, 9), "c": 8, "pads": (1,), "right_pads": (-2, -1), "n": 1},
        {"image": (5, 6, 7), "window": (2, 3, 2), "strides": (2, 1, 1), "dilations": (1, 2, 1), "pads": (1, 0, 0),
         "right_pads": (0, 2, 0), "c": 16, "n": 1},
        {"image": (2, 2), "window": (1, 5), "pads": (0,), "c": 3},
    )
    for option in (
        {}, {"index": 1}, {"index": 1, "propagate_nan": 1}, {"op": "average"}, {"op": "average", "count": "elements"},
    )
]  # fmt: skip
POOLS += [
    {"dtype": dtype, "op": "average", "image": (9, 7), "c": 5, "right_pads": (2, 3), "counted_pads": (1, 0)}
    for dtype in FLOATS
]
ALL = "sum,mean,max,min,amax,sumsq"
REDUCTIONS: list[Keys] = [
    {"shape": shape, "dims": dims, "dtype": dtype, "ops": ALL, "out": "f32" if dtype in (*EIGHT_BIT, "i8") else None}
    for (shape, dims), dtype in itertools.product(
        [
            ((5, 1000), (1,)),
            ((3, 7001), (1,)),
            ((300, 100), (0,)),
            ((70, 1), (0,)),
            ((3, 5, 7, 2, 6), (1, 3)),
            ((3, 5, 7, 2, 6), (0, 2, 4)),
            ((3, 5, 7, 2, 6), (0, 1, 2, 3, 4)),
            ((4, 64, 33), (1,)),
            ((1, 1), (0, 1)),
            ((4, 0), (1,)),
            ((0, 4), (1,)),
        ],
        (*FLOATS, "i8", *EIGHT_BIT),
    )
]
SPLITS: list[Keys] = [
    {"shape": shape, "dims": dims, "split": split, "dtype": dtype, "ops": ALL}
    for (shape, dims), split, dtype in itertools.product(
        [((3, 20000), (1,)), ((2000, 40), (0,)), ((9, 5, 300), (0, 2))], (2, 7), FLOATS
    )
]
ATOMICS: list[Keys] = [
    {"shape": (3, 20000), "split": 3, "atomic": 1, "out": "f32", "dtype": dtype, "ops": "sum,mean,max,amax,sumsq"}
    for dtype in FLOATS
] + [{"shape": (3, 9000), "split": 3, "atomic": 1, "dtype": "i8", "ops": "sum,max,amax,sumsq"}]


@pytest.mark.one_in(16)
@pytest.mark.parametrize(
    ("name", "chip", "keys"),
    [
        *grid("transpose2d", TRANSPOSES),
        *grid("batched_transpose", IMAGES),
        *grid("permute", [*PERMUTATIONS, *WRITTEN_APART]),
        *grid("copy", COPIES),
        *grid("cast", CASTS),
        *grid("unpack_int4", UNPACKED),
        *grid("img2col", PATCHES),
        *grid("pooling", POOLS),
        *grid("reduce", REDUCTIONS),
        *grid("reduce", [*SPLITS, *ATOMICS]),
    ],
)
def test_grid(name: str, chip: str, keys: Keys) -> None:
    """Every operator over shapes, types, options and chips: multiples of tiles, one more, primes, one, none."""
    if keys.get("through") == "direct" and _has_no_pieces(chip, keys):
        pytest.skip("rows of this kind have no aligned pieces of 4 bytes; a test below says that they are refused")
    run(name, chip, keys)


def _has_no_pieces(chip: str, keys: Keys) -> bool:
    operator, target = find_operator("copy"), get_target(chip)
    return bool(operator.validate(operator.spec(operator.problem(**keys), target), target))


CALLS = {"clamp": "clamp(a, -0.5, 0.5)", "where": "where(a > b, a, -b)", "pow": "pow(abs(a) + 0.1, b)"}
POSITIVE = ("sqrt", "rsqrt", "log", "log2", "log1p")


def call_of(name: str) -> str:
    """An expression that calls a function with arguments that it takes."""
    if name in CALLS:
        return CALLS[name]
    if name in POSITIVE:
        return f"{name}(abs(a) + 0.01)"
    return f"{name}(a, b)" if name in ("maximum", "minimum", "leaky_relu", "elu", "swiglu") else f"{name}(a)"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", function_names())
def test_function(name: str) -> None:
    """Every function that an expression may name, within the bound that its operations give."""
    run("elementwise", "gfx942", {"op": call_of(name), "shape": (3, 67), "dtype": "f32"})


ELEMENTWISE: list[Keys] = [
    {"op": "a + b", "shape": (33, 129)},
    {"op": "silu(a) * b", "shape": (4, 512)},
    {"op": "gelu(a * 0.5 + b) - 1", "shape": (7, 40), "b": (40,)},
    {"op": "a * b + c", "shape": (4, 3, 5, 33, 40), "a": (5, 1, 40), "b": (4, 1, 5, 33, 1), "c": (1,), "out": "f32"},
    {"op": "a - b", "shape": (40, 64), "b_strides": (1, 40), "strides": (80, 1)},
    {"op": "a - b", "shape": (2, 40, 64), "a_strides": (1, 2, 80)},
    {"op": "2", "shape": (5, 7)},
    {"op": "a + b", "shape": (3, 0)},
    {"op": "relu(a)", "shape": (1,)},
    {"op": "a / b", "shape": (3, 65), "a_dtype": "i8", "out": "f32"},
]
INTEGERS: list[Keys] = [
    {"op": "a * b + c", "shape": (40, 64), "b_strides": (1, 40), "dtype": "i32"},
    {"op": "maximum(a, b) * 3 - abs(c)", "shape": (40, 64), "dtype": "i8", "out": "i32"},
    {"op": "clamp(a, -5, 5) + where(a > b, 1, 2)", "shape": (9, 17), "dtype": "i32", "out": "i8"},
]


@pytest.mark.parametrize(
    ("name", "chip", "keys"),
    [
        *grid("elementwise", [{**keys, "dtype": dtype} for keys in ELEMENTWISE for dtype in FLOATS]),
        *grid("elementwise", INTEGERS),
    ],
)
def test_elementwise(name: str, chip: str, keys: Keys) -> None:
    """Broadcasting, strides, mixed types, integers, constants."""
    run(name, chip, keys)


def test_elementwise_takes_a_python_function() -> None:
    """A function of the arrays is the expression that it writes."""
    operator = find_operator("elementwise")
    problem = operator.problem(op=lambda a, b: (a + b) * 0.5 - 1 / b, shape=(4, 8))
    assert problem == operator.problem(op="(a + b) * 0.5 - 1 / b", shape=(4, 8))


@pytest.mark.parametrize("propagate", [0, 1])
def test_pooling_nan_and_infinity(propagate: int) -> None:
    """NaN is passed over or stays, also where it comes first or last; infinities are numbers like others."""
    x = np.random.default_rng(3).standard_normal((2, 9, 7, 8), np.float32)
    x.ravel()[::3] = np.nan
    x[0, :3], x[1, 4:7, 2] = -np.inf, np.inf
    keys: Keys = {"image": (9, 7), "c": 8, "index": 1, "propagate_nan": propagate, "dtype": "f32"}
    y = run("pooling", "gfx942", keys, {"x": x})["y"]
    assert bool(np.isnan(y).any()) == bool(propagate)


@pytest.mark.parametrize("chip", CHIPS)
def test_split_sums_are_the_same_every_time(chip: str) -> None:
    """Two steps through a workspace add in one order, whatever the order of the workgroups."""
    operator, target = find_operator("reduce"), get_target(chip)
    problem = operator.problem(shape=(2, 30000), split=5, dtype="f32")
    arrays = operator.inputs(problem, target, seed=1)
    found = []
    for seed in (1, 2):
        with in_any_order(seed):
            result = run_operator(operator, problem, arrays, target, open_device("sim", target))
        found.append(result.outputs["y"])
    np.testing.assert_array_equal(*found)


def test_numbers_that_do_not_fit_saturate() -> None:
    """Casts to i8, i32 and 8-bit floats stop at the largest number; NaN is 0 in integers and stays in floats."""
    x = np.array([[1e30, -1e30, 300.0, -300.0, np.inf, -np.inf, np.nan, 0.5, 1.5, -2.5]], np.float32)
    for out, expected in (
        ("i8", [127, -128, 127, -128, 127, -128, 0, 0, 2, -2]),
        ("fp8", [240, -240, 240, -240, 240, -240, np.nan, 0.5, 1.5, -2.5]),
    ):
        y = run("cast", "gfx942", {"shape": x.shape, "dtype": "f32", "out": out}, {"x": x})["y"]
        np.testing.assert_array_equal(y.astype(np.float64), [expected])


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("name", "keys"), [
    ("elementwise", {"op": "0.5 - 1e30", "shape": (3, 70)}),
    ("elementwise", {"op": "300", "dtype": "i8", "shape": (70,)}),
    ("elementwise", {"op": "inf", "dtype": "fp8", "shape": (70,)}),
    ("elementwise", {"op": "where(2 > 1, 1e30, a)", "dtype": "bf16", "out": "f16", "shape": (70,)}),
    ("reduce", {"shape": (3, 40), "dims": (1,), "ops": "max,sum", "before": "3", "after": "1e9"}),
    ("gemm", {"m": 40, "n": 40, "k": 40, "op": "where(2 > 1, 1e9, acc)"}),
    ("gemm", {"m": 40, "n": 40, "k": 40, "dtype": "i8", "out": "i8", "op": "where(2 > 1, 1000, acc)"}),
    ("gemm_multi_abd", {"m": 40, "n": 40, "k": 40, "a_op": "where(2 > 1, 2, a0 + a1)"}),
])  # fmt: skip
def test_numbers_round_and_saturate_as_arrays_do(name: str, keys: Keys) -> None:
    """What no array decides, in types that cannot hold it."""
    run(name, "gfx942", keys)
