"""The keys that operators of the contraction family share, and how they become a problem."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import product
from typing import Any

from msgspec.structs import asdict

from ckmlir.errors import counted
from ckmlir.ops.arrays import MAXIMUM_ARRAY_BYTES, ArraySpec
from ckmlir.ops.contraction.contraction_spec import (
    COMPUTED,
    EPILOGUES,
    LAYOUTS,
    OUTPUTS,
    PACKED_OUTPUTS,
    PRESHUFFLE,
    SCALARS,
    accumulator_names,
    computing_type,
    stored_type,
)  # fmt: skip
from ckmlir.ops.contraction.problem import REDUCTIONS, Batch, Problem
from ckmlir.ops.contraction.side import KINDS, MOST, NAMES, TYPES, SideTensor
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.list_keys import Lengths, Numbers, Words
from ckmlir.ops.request import MAXIMUM_SIZE, Choice, Integer, Key, Pitch, Real, RequestError
from ckmlir.ops.schedules import GEMM as SCHEDULES
from ckmlir.ops.tensors.expression_key import ExpressionKey
from ckmlir.targets.matrix_names import EIGHT_BIT_FLOATS

SIZES = (
    Integer("m", 512, "rows of C"),
    Integer("n", 512, "columns of C"),
    Integer("k", 512, "length of the sums; 0 gives zeros"),
)
TYPE_KEYS = (
    Choice("dtype", "f16", "of A and B; xf32: f32 whose products take 10 bits of mantissa", tuple(OUTPUTS)),
    Choice(
        "out",
        None,
        "of C; by default dtype, or f16 for fp8 and bf8, i32 for i8; 8 bits and more for i8 take an expression",
        ("f16", "bf16", "f32", "f64", "i32", "fp8", "bf8", "i8"),
    ),
    Choice("layout", "RCR", "of A, B, C: R rows, C columns are contiguous", LAYOUTS),
)
OF_B = Choice("b_dtype", None, "of B, where both are 8-bit floats; by default dtype", EIGHT_BIT_FLOATS)
PAIR_KEYS = (TYPE_KEYS[0], OF_B, *TYPE_KEYS[1:])
"""Types of products whose A and B may differ in theirs."""
PITCHES = (
    Pitch("lda", None, "elements from one row of array a to the next", minimum=1, of=("m", "k")),
    Pitch("ldb", None, "elements from one row of array b to the next", minimum=1, of=("n", "k")),
    Pitch("ldc", None, "elements from one row of array c to the next", minimum=1),
)
_DEPTHS = (4, 8, 16, 32, 64, 128)
"""Of matrix instructions."""
_SIDES = (16, 32, 64, 128, 256)
"""Of blocks."""
PLAN_FIELDS = {"block": "block", "wave": "waves", "mfma": "mfma", "epilogue": "epilogue", "schedule": "schedule"}
"""Keys of a plan -> the fields of problems and specifications that they say."""
RENAMED = {field: key for key, field in PLAN_FIELDS.items() if key != field} | {"side": "d"}
"""`Operator.renamed` of products."""
PLAN_KEYS = (
    Lengths(
        "block", None, "tile m x n x k of a workgroup", 3,
        tuple(product((*_SIDES, 48, 112, 224), (*_SIDES, 80, 96, 192), (16, 32, 64, 96, 128))),
    ),
    Lengths("wave", None, "waves of a workgroup along m x n", 2, tuple(product((1, 2, 4), repeat=2))),
    Lengths(
        "mfma", None, "shape m x n x k of the matrix instruction", 3,
        tuple((side, side, depth) for side, deepest in ((16, 128), (32, 64)) for depth in _DEPTHS if depth <= deepest),
    ),
    Choice(
        "epilogue",
        None,
        "C through LDS (cshuffle) or straight from the accumulators; by default cshuffle for blocks up to 128x128",
        EPILOGUES,
    ),
    Choice(
        "schedule",
        None,
        "of the K loop; by default compv4 where its buffers fit, else compv3; for shuffled B preshuffle",
        tuple(SCHEDULES),
    ),
)
SPLIT_KEYS = (
    Integer(
        "split_k",
        None,
        "parts of the sums, computed by workgroups of their own; by default several where few blocks and a large k "
        "leave compute units idle",
        minimum=1,
    ),
    Choice(
        "reduction",
        None,
        "how parts are combined: through a workspace by a second kernel, in a fixed order (the default); or by atomics "
        "in C, in no fixed order",
        tuple(REDUCTIONS),
    ),
)
NO_OP = "expected an op with it, or nothing"
MOST_PARTS = 65535
"""Workgroups along the third axis of a grid."""
SHUFFLED = Integer(
    "shuffled",
    None,
    "B in fragment order, by tiles of so many columns: 16 or 32, those of the matrix "
    "instruction; 0: a plain matrix; by default 0, with schedule=preshuffle those of mfma, or 32 (f64: 16)",
)


def expression_keys(default: str | None, products: int = 1, most: int = MOST) -> tuple[Key, ...]:
    """Keys of the epilogue's expression and its D tensors, so many at most."""
    names, sides = accumulator_names(products), NAMES[:most]
    return (
        ExpressionKey("op", default, f"what is stored, from {' and '.join(names)}", (*names, *sides, *SCALARS)),
        Words("d", None, f"types of the D tensors {', '.join(sides)} that op names; by default out", TYPES, most),
        Words("d_kind", None, "of each D tensor: as C, one row, one column, one number; by default full", KINDS, most),
        Numbers("ldd", None, "elements from one row of each D tensor to the next; 0: packed", most=most),
        Real("alpha", 1.0, "a number that op names"),
        Real("beta", 1.0, "a number that op names"),
    )


def read_problem(values: Mapping[str, Any], products: int = 1, ld_index: int | None = None) -> Problem:
    """The problem of keys that have been read; of a sparse A with the distance of its index's rows. Raises RequestError
    where they do not fit each other.
    """
    dtype, op = values["dtype"], values.get("op") or ""
    outputs = {**OUTPUTS, **PACKED_OUTPUTS}[dtype]
    out = values["out"] or (_computed_default(dtype) if op else outputs[0])
    computing = computing_type(dtype)
    computed = COMPUTED[computing]
    if not op and out not in outputs:
        also = f"; with an expression, such as op=acc, {', '.join(computed)}" if out in computed else ""
        raise RequestError(f"out={out}: dtype={dtype} gives {' or '.join(outputs)}{also}")
    if op and out not in computed:
        raise RequestError(
            f"out={out}: of dtype={dtype} an expression is computed in {computing}; expected {'|'.join(computed)}"
        )
    problem = Problem(
        values["m"], values["n"], values["k"], dtype, out, values["layout"], 0, 0, 0, products, op, (),
        values.get("alpha", 1.0), values.get("beta", 1.0), (), (), _shuffled(values),
        values.get("split_k"), values.get("reduction"), values["block"], values["wave"], values["mfma"],
        values["epilogue"], values["schedule"], ld_index=ld_index, b_dtype=b_type(values),
    )  # fmt: skip
    if (problem.split_k or 1) > MOST_PARTS:
        raise RequestError(f"split_k={problem.split_k}: expected at most {MOST_PARTS}")
    fields = {**asdict(problem), **_pitches(values, problem)}
    if op:
        fields["side"] = _sides(values, problem)
    else:
        check_scalars(values, "", ())
        for key in ("d", "d_kind", "ldd"):
            check_described(key, values.get(key), None, 0)
    return Problem(**fields)


def check_described(key: str, described: Sequence[object] | None, op: str | None, named: int) -> None:
    """Refuse as many descriptions of D tensors as an expression, if there is one, does not name. Raises
    RequestError."""
    if described and len(described) != named:
        which = f"op={op} names {named}" if op else f"and no op names them; {NO_OP}"
        raise RequestError(f"{key}: {counted(len(described), 'D tensor')} described, {which}")


def check_scalars(values: Mapping[str, Any], op: str, used: Collection[str]) -> None:
    """Refuse numbers that are not among those that the expression uses: they would change nothing. Raises
    RequestError."""
    for name in SCALARS:
        value = values.get(name, 1.0)
        if value != 1 and name not in used:
            who = f"op={op} does not name it" if op else "no op names it"
            raise RequestError(f"{name}={value}: {who}; {NO_OP}")


def b_type(values: Mapping[str, Any]) -> str:
    """Of the matrices B where it is not that of A; "": the same. Raises RequestError for 8-bit floats beside others."""
    other = values.get("b_dtype") or ""
    if other in EIGHT_BIT_FLOATS and values["dtype"] in OUTPUTS.keys() - EIGHT_BIT_FLOATS:
        right = f"dtype={'|'.join(EIGHT_BIT_FLOATS)}"
        raise RequestError(f"b_dtype={other}: beside dtype={values['dtype']}; expected {right}, or no b_dtype")
    return "" if other == values["dtype"] else str(other)


def batched(problem: Problem, batch: tuple[int, ...], values: Mapping[str, Any]) -> Problem:
    """The problem for every place of a batch. `X_batch` is the shape of array X's own batch dimensions, broadcast to
    `batch` by NumPy's rule; `X_batch_strides` their strides in elements, by default packed. An input repeats along a
    dimension with stride 0 as it does where its own length is 1, and has that length.

    Raises RequestError for shapes that do not broadcast and strides that do not fit.
    """
    batches = []
    for array in problem.arrays():
        name = array.name
        shape = values.get(f"{name}_batch") or batch
        shape = (1,) * (len(batch) - len(shape)) + shape
        if len(shape) != len(batch) or any(own not in (1, whole) for own, whole in zip(shape, batch, strict=True)):
            text = "x".join(map(str, shape))
            raise RequestError(f"{name}_batch={text}: does not broadcast to batch={'x'.join(map(str, batch))}")
        if name == "c" and shape != batch:
            raise RequestError("c_batch: every product of the batch has a C of its own; expected batch, or nothing")
        shape = _without_repeated(array, shape, values)
        batches.append((name, Batch(shape, _batch_strides(array, shape, values))))
    return _check_parts(Problem(**{**asdict(problem), "batch": batch, "batches": tuple(batches)}))


def check_sizes(problem: Problem) -> Problem:
    """The problem, if each matrix can be addressed from its beginning. Raises RequestError."""
    single = Problem(**{**asdict(problem), "batch": (), "batches": ()})
    partial = single.parted().arrays() if problem.asks_for_parts else ()
    for array in (*single.arrays(), *partial):
        if array.nbytes > MAXIMUM_ARRAY_BYTES:
            raise RequestError(
                f"array {array.name} of shape {'x'.join(map(str, array.shape))} takes {array.nbytes} bytes; "
                f"kernels address at most {MAXIMUM_ARRAY_BYTES}"
            )
    return problem


def check_packed(values: Mapping[str, Any], types: tuple[str, str], *, zeros: bool = False) -> None:
    """Raise RequestError where packed elements do not fill the bytes of rows, or A's type lacks integers of B."""
    _check_held(types, zeros)
    for operand, dtype, along_k, rows in zip("ab", types, "RC", "mn", strict=True):
        packing = find_dtype(dtype).packing
        if packing is None:
            continue
        matrix, across = operand.upper(), values["layout"]["ab".index(operand)] != along_k
        shuffled = operand == "b" and (values.get("shuffled") or values["schedule"] == PRESHUFFLE)
        if shuffled and packing.bytes > 1:
            raise RequestError(
                f"shuffled: a lane's 16 bytes in fragment order hold some of {matrix}'s elements of {dtype} in part; "
                "expected elements of 8 or 4 bits, or shuffled=0"
            )
        for key in (rows if across else "k", f"ld{operand}"):
            if (values[key] or 0) % packing.elements:
                raise RequestError(
                    f"{key}={values[key]}: rows of array {operand} are whole bytes, which {packing.elements} elements "
                    f"of {dtype} share; expected a multiple of {packing.elements}"
                )


def _check_held(types: tuple[str, str], zeros: bool) -> None:
    """Raise RequestError where A's type, which integers of B less zero points become, does not hold all of them."""
    held, packing = find_dtype(types[0]), find_dtype(types[1]).packing
    if packing is None or not packing.is_integer:
        if zeros:
            raise RequestError(f"zeros: of integers of 4 bits, not of {types[1]}; expected b_dtype=i4, or u4")
        return
    most = packing.largest - packing.least if zeros else max(packing.largest, -packing.least)
    if not held.is_integer and most > 2 << held.mantissa:
        what = "differences" if zeros else "integers"
        raise RequestError(
            f"b_dtype={types[1]}: its {what} become {held.name}, which lacks {(2 << held.mantissa) + 1}; "
            "expected dtype=fp8, or i8"
        )


def _check_parts(problem: Problem) -> Problem:
    """The problem, if kernels count to the outputs of a part that it asks for. Raises RequestError."""
    if problem.asks_for_parts and problem.parted().part_outputs > MAXIMUM_SIZE:
        raise RequestError(
            f"split_k={problem.split_k}: a part has {problem.parted().part_outputs} partial sums; kernels count to "
            f"{MAXIMUM_SIZE}: expected reduction=atomic, or a smaller batch"
        )
    return problem


def _computed_default(dtype: str) -> str:
    """The output of an expression: the inputs' type, or f16 where that is narrow."""
    stored = stored_type(dtype)
    return stored if find_dtype(stored).bytes > 1 else "f16"


def _pitches(values: Mapping[str, Any], problem: Problem) -> dict[str, int]:
    # Rows of tiles are whole vectors, with K = 0 too: what B promises does not depend on K. Empty rows of other
    # arrays are as far apart, or a group without K would make the loads of all others narrow.
    found, vectors = {}, [one.widest for one in problem.held]
    shapes = {"lda": problem.a_shape, "ldb": problem.b_shape, "ldc": (problem.m, problem.n)}
    for (name, (_, row)), vector in zip(shapes.items(), (*vectors, 1), strict=True):
        in_vectors = not row or (problem.shuffled and name == "ldb")
        found[name] = max(row, vector if in_vectors else 1) if values[name] is None else values[name]
        if found[name] < row:
            wrong = f"rows of array {name[2]} have {row} elements; expected at least that"
            raise RequestError(f"{name}={found[name]}: {wrong}")
    pitch = max(problem.b_shape[1], vectors[1])
    if problem.shuffled and found["ldb"] != pitch:
        right = f"expected {pitch}, or nothing"
        raise RequestError(f"ldb={found['ldb']}: shuffled tiles of B follow each other without gaps; {right}")
    return found


def _sides(values: Mapping[str, Any], problem: Problem) -> tuple[SideTensor, ...]:
    """The D tensors that the expression names, from d0 on."""
    from ckmlir.ops.tensors.expression import check_f64, read_expression  # plain products load quickly without

    expression = read_expression(problem.op, (*problem.accumulators, *NAMES, *SCALARS))
    if problem.computing == "f64":
        check_f64(expression)
    used = expression.variables
    if not set(used) & set(problem.accumulators):
        wanted = " or ".join(problem.accumulators)
        raise RequestError(f"op={problem.op}: it does not depend on the product; expected {wanted} in it")
    check_scalars(values, problem.op, used)
    count = max((place + 1 for place, name in enumerate(NAMES) if name in used), default=0)
    missing = [name for name in NAMES[:count] if name not in used]
    if missing:
        raise RequestError(f"op={problem.op}: it names {NAMES[count - 1]} but not {missing[0]}; number them from d0 on")
    given = {key: values[key] or () for key in ("d", "d_kind", "ldd")}
    for key, found in given.items():
        check_described(key, found, problem.op, count)
    sides = []
    for place, name in enumerate(NAMES[:count]):
        dtype = given["d"][place] if given["d"] else problem.out
        if dtype == "f64" and problem.computing != "f64":
            raise RequestError(f"d: {name} is f64, and op of dtype={problem.dtype} is computed in f32; expected f32")
        kind = given["d_kind"][place] if given["d_kind"] else "full"
        least = max(problem.n, 1) if kind == "full" else 1
        pitch = (given["ldd"][place] if given["ldd"] else 0) or least
        if pitch < least:
            raise RequestError(f"ldd={pitch}: rows of {name} have {problem.n} elements; expected at least that, or 0")
        sides.append(SideTensor(name, dtype, kind, pitch))
    return tuple(sides)


def _without_repeated(array: ArraySpec, shape: tuple[int, ...], values: Mapping[str, Any]) -> tuple[int, ...]:
    """An array's own batch dimensions, of length 1 where a stride of 0 repeats an input."""
    strides = values.get(f"{array.name}_batch_strides")
    if array.role == "out" or strides is None or len(strides) != len(shape):
        return shape
    return tuple(1 if length and not stride else length for length, stride in zip(shape, strides, strict=True))


def _batch_strides(array: ArraySpec, shape: Sequence[int], values: Mapping[str, Any]) -> tuple[int, ...]:
    """Strides of an array's batch dimensions, packed behind each other unless they are given; 0 where it repeats."""
    from ckmlir.ops.tensors.arrays import checked_strides

    name = array.name
    given = values.get(f"{name}_batch_strides")
    if given is not None and len(given) != len(shape):
        raise RequestError(f"{name}_batch_strides: {len(given)} strides; expected one for each of {len(shape)}")
    strides, reach = [0] * len(shape), max(array.elements, 1)
    for dim in reversed(range(len(shape))):
        stride = reach if given is None else given[dim]
        if shape[dim] > 1 and given is None:
            reach *= shape[dim]
        strides[dim] = stride if shape[dim] > 1 else 0
    checked_strides(f"{name}_batch_strides", (*shape, *array.shape), (*strides, *array.strides))
    return tuple(strides)


def _shuffled(values: Mapping[str, Any]) -> int:
    """Columns of B's tiles in memory, 0 for a plain matrix."""
    asked, mfma = values.get("shuffled"), values["mfma"]
    if asked is None and (values["schedule"] != PRESHUFFLE or "shuffled" not in values):
        return 0
    from ckmlir.ops.contraction.shuffle import COLUMNS

    if asked is None:
        by_default = min(COLUMNS) if values["dtype"] == "f64" else max(COLUMNS)  # no chip multiplies 32 columns of f64
        asked = mfma[1] if mfma is not None and mfma[1] in COLUMNS else by_default
    if asked not in (0, *COLUMNS):
        raise RequestError(f"shuffled={asked}: B is in tiles of 16 or 32 columns, or plain; expected 0, 16 or 32")
    a, b, c = values["layout"]
    if asked and b != "C":
        raise RequestError(f"layout={a}{b}{c}: shuffled B is made of rows along k; expected {a}C{c}")
    return int(asked)
