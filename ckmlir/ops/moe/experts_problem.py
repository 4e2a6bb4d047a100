"""A product of routed rows with experts' matrices: what a request of `moe_gemm` comes to, and its arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ckmlir.ops.arrays import MAXIMUM_ARRAY_BYTES, ArraySpec, array_spec, find_array
from ckmlir.ops.contraction.contraction_spec import PRESHUFFLE, SCALARS, accumulator_type
from ckmlir.ops.contraction.keys import check_described, read_problem
from ckmlir.ops.contraction.problem import Batch, Problem
from ckmlir.ops.contraction.scaling import of_matrices
from ckmlir.ops.contraction.shuffle import COLUMNS
from ckmlir.ops.contraction.side import NAMES
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.moe.experts_scales import packed_bytes, read_scales, with_scales
from ckmlir.ops.moe.routing import MOST_SLOTS, TOKEN_BITS, most_units
from ckmlir.ops.request import MAXIMUM_SIZE, RequestError
from ckmlir.ops.tensors.expression import read_expression

A_ROWS = ("token", "entry", "place")
C_ROWS = ("entry", "token", "place")
KINDS = ("row", "column", "place", "scalar")
"""Of D tensors: a row or a number of each expert, a number for each row of A, a number for each place."""
OWN = ("row", "scalar")
"""Kinds of which each expert has one of its own."""
LEAST_UNIT = min(COLUMNS)
"""Rows of the lowest blocks."""
SUMMED = ("f16", "bf16", "f32", "i32")
"""What results of a token's entries may be summed in."""
ROUNDED = ("f16", "bf16")
"""What they may be rounded to before."""
BY_WORKSPACE = ("workspace", "rounded")
"""Of how entries of a token are summed, those that are deterministic."""
REDUCTIONS = (*BY_WORKSPACE, "atomic")
ENTRIES = "entries"
"""Kernels' name for the workspace of results by entry that are summed by token."""
NAMED = "named"
"""The workspace that says which entries the list names, where no array does."""
ACCUMULATORS = ("acc", "gate", "up")
"""What an expression may name: one sum, or the two of two matrices."""


class ExpertsProblem(Struct, frozen=True):
    """Rows of tokens and slots, multiplied by the matrices of the experts that a routing chose.

    Attributes:
        t, e, topk: tokens, experts, slots of each token.
        unit: places of a unit; see `ckmlir.ops.moe.moe_sorting`.
        a_rows, c_rows: of `A_ROWS` and `C_ROWS`.
        kinds: of the D tensors, of `KINDS`.
        reduction: how entries of a token are summed, None where they are not.
        entry_ids: whether an array says which entries the list names.
        along_k: waves that share a step's K; None: open.
        product: that of one unit. Its batch strides lead from one expert's arrays to the next's.
    """

    t: int
    e: int
    topk: int
    unit: int
    a_rows: str
    c_rows: str
    kinds: tuple[str, ...]
    reduction: str | None
    product: Problem
    entry_ids: bool = False
    along_k: int | None = None

    @property
    def entries(self) -> int:
        """Pairs of a token and a slot."""
        return self.t * self.topk

    @property
    def units(self) -> int:
        """Units at most."""
        return most_units(self.entries, self.e, self.unit)

    def count(self, rows: str) -> int:
        """Rows of an array that has them by place, token or entry."""
        return {"place": self.units * self.unit, "token": self.t, "entry": self.entries}[rows]

    @property
    def rows(self) -> dict[str, str]:
        """What rows stand for in A, in C and in D tensors that are columns, by name."""
        of_kind = {"column": self.a_rows, "place": "place"}
        sides = {
            one.name: of_kind[kind] for one, kind in zip(self.product.side, self.kinds, strict=True) if kind in of_kind
        }
        of_a = {one.name: self.a_rows for one in self.product.scaling if one.operand == "a"}
        return {"a": self.a_rows, "c": self.c_rows, **of_a, **sides}

    @property
    def listed(self) -> tuple[str, ...]:
        """The same as a specification has it, of rows that a list tells."""
        return tuple(f"{name}:{word}" for name, word in self.rows.items() if word != "place")

    def arrays(self) -> tuple[ArraySpec, ...]:
        """All arrays: those of the product, and the lists."""
        rows = self.rows
        found = [
            replace(array, shape=(self.count(rows[array.name]), *array.shape[1:])) if array.name in rows else array
            for array in self.product.arrays()
        ]
        places = self.count("place")
        lists: dict[str, tuple[int, ...]] = {"sorted_ids": (places,), "expert_ids": (self.units,), "totals": (2,)}
        lists |= {"entry_ids": (self.t, self.topk)} if self.entry_ids else {}
        return (*found, *(array_spec(name, shape, "i32", "in") for name, shape in lists.items()))

    def in_units_of(self, unit: int) -> ExpertsProblem:
        """The same with other units."""
        return replace(self, unit=unit, product=replace(self.product, m=unit))

    @property
    def by_workspace(self) -> bool:
        """Whether results of a token's entries are stored, and then summed."""
        return self.reduction in BY_WORKSPACE

    @property
    def by_entry(self) -> ExpertsProblem:
        """The problem whose results a workspace holds before they are summed by token: in rows of whole vectors."""
        dtype = accumulator_type(self.product.dtype) if not self.product.op else "f32"
        dtype = self.product.out if self.reduction == "rounded" else dtype
        product = replace(self.product, out=dtype, ldc=find_dtype(dtype).whole_vectors(self.product.n))
        return replace(self, c_rows="entry", reduction=None, product=product, entry_ids=False)


def read_experts(values: Mapping[str, Any]) -> ExpertsProblem:
    """The problem of keys that have been read. Raises RequestError where they do not fit each other."""
    t, topk, e, unit = (values[name] for name in ("t", "topk", "e", "unit"))
    if t >= 1 << TOKEN_BITS:
        raise RequestError(f"t={t}: a word has {TOKEN_BITS} bits for a token; expected less than 2^24")
    if topk > MOST_SLOTS:
        raise RequestError(f"topk={topk}: a word has a byte for a slot; expected at most {MOST_SLOTS}")
    if unit % LEAST_UNIT:
        raise RequestError(f"unit={unit}: blocks have {LEAST_UNIT} rows at least; expected a multiple of {LEAST_UNIT}")
    values = read_scales(values)
    used = used_in(values["op"])
    count = sum(name in NAMES for name in used)
    for key in ("d", "d_kind", "ldd"):
        check_described(key, values[key], values["op"], count)
    kinds = values["d_kind"] or ("row",) * count
    shuffled = values["shuffled"]
    if shuffled is None and values["schedule"] == PRESHUFFLE:
        shuffled = values["mfma"][1] if values["mfma"] else LEAST_UNIT
    if shuffled in COLUMNS and unit % shuffled:
        why = f"matrix instructions of {shuffled} columns have as many rows, a unit has {unit}"
        right = f"shuffled={LEAST_UNIT}, or units of a multiple of {shuffled}"
        raise RequestError(f"shuffled={shuffled}: {why}; expected {right}")
    asked = {
        **values, "m": unit, "split_k": None, "reduction": None, "shuffled": shuffled,
        "d_kind": tuple("column" if kind == "place" else kind for kind in kinds) or None,
    }  # fmt: skip
    product = with_scales(read_problem(asked, 2 if used & {"gate", "up"} else 1), values)
    if product.block is not None and unit % product.block[0]:
        raise RequestError(f"block: {product.block[0]} rows do not divide unit={unit}; expected a divisor")
    if product.block is None and values["wave_k"] is not None:
        raise RequestError(f"wave_k={values['wave_k']}: of a block that is left open; expected block as well")
    reduction = values["reduction"]
    if values["c_rows"] == "token":
        reduction = reduction or "workspace"
        if product.out not in SUMMED:
            raise RequestError(f"out={product.out}: entries of a token are summed; expected {'|'.join(SUMMED)}")
        _check_summed(product.out, reduction, values["entry_ids"])
    elif reduction is not None or values["entry_ids"]:
        named = "entry_ids=1" if reduction is None else f"reduction={reduction}"
        raise RequestError(f"{named}: rows of c by {values['c_rows']} are not summed; expected nothing")
    problem = ExpertsProblem(
        t, e, topk, unit, values["a_rows"], values["c_rows"], kinds, reduction,
        _with_experts(product, kinds, e, values), values["entry_ids"], values["wave_k"],
    )  # fmt: skip
    return _checked(problem)


def _check_summed(out: str, reduction: str, entry_ids: bool) -> None:
    """Raises RequestError for a way to sum entries that does not go with the type, or with the arrays."""
    if entry_ids and reduction not in BY_WORKSPACE:
        raise RequestError(f"entry_ids=1: reduction={reduction} reads no entries; expected nothing")
    if reduction == "rounded" and out not in ROUNDED:
        raise RequestError(f"reduction=rounded: out={out} is what sums are added in; expected workspace")


def used_in(op: str | None) -> frozenset[str]:
    """What an expression names. Raises RequestError for one that names both one sum and two."""
    used = frozenset(read_expression(op, (*ACCUMULATORS, *NAMES, *SCALARS)).variables) if op else frozenset()
    if "acc" in used and used & {"gate", "up"}:
        raise RequestError(f"op={op}: it names acc and gate or up; expected one sum, acc, or two, gate and up")
    return used


def _with_experts(product: Problem, kinds: tuple[str, ...], experts: int, values: Mapping[str, Any]) -> Problem:
    """The product with the distances from one expert's arrays to the next's. Raises RequestError for what overlaps."""
    matrix = find_array(product.arrays(), product.operands[1])
    asked = values["b_stride"]
    stride = matrix.shape[0] * matrix.strides[0]
    if asked is not None:
        stride = packed_bytes(asked, product.b_dtype or product.dtype, "b_stride")
    if stride < matrix.elements:
        least = matrix.elements if asked in (None, stride) else f"{matrix.elements} bytes"
        raise RequestError(f"b_stride={asked}: an expert's matrix takes {least}; expected that at least")
    batches = [(name, Batch((experts,), (stride,))) for name in product.operands[1:]]
    arrays = {array.name: array for array in product.arrays()}
    for scale in of_matrices(product.scaling):
        array = arrays[scale.name]
        batch = Batch((experts,), (array.shape[0] * array.strides[0],))
        batches += [(name, batch) for name in (scale.name, *scale.zero_names)]
    sides = []
    for place, (one, kind) in enumerate(zip(product.side, kinds, strict=True)):
        least = max(product.n, 1) if kind == "row" else 1
        pitch = (values["ldd"][place] if values["ldd"] else 0) or least
        if pitch < least:
            wrong = f"{one.name} has {least} elements for each expert"
            raise RequestError(f"ldd={pitch}: {wrong}; expected that at least, or 0")
        sides.append(replace(one, pitch=pitch))
        if kind in OWN:
            batches.append((one.name, Batch((experts,), (pitch,))))
    return replace(product, side=tuple(sides), batches=tuple(batches))


def _checked(problem: ExpertsProblem) -> ExpertsProblem:
    """The problem, if kernels count to its rows and address its arrays. Raises RequestError."""
    product = problem.product
    if problem.count("place") > MAXIMUM_SIZE or problem.entries > MAXIMUM_SIZE:
        raise RequestError(f"t={problem.t}: {problem.count('place')} places; kernels count to {MAXIMUM_SIZE}")
    single = {array.name: array for array in replace(product, batches=()).arrays()}
    matrix, distance = single[product.operands[1]], product.batch_of(product.operands[1]).strides[0]
    if distance > MAXIMUM_SIZE:
        shape = "x".join(map(str, matrix.shape))
        raise RequestError(
            f"array {matrix.name} of shape {shape} for each expert: from one to the next are {distance} elements; "
            f"kernels count to {MAXIMUM_SIZE}"
        )
    made = problem.by_entry.arrays() if problem.by_workspace else problem.arrays()
    for array in (*problem.arrays(), *made):
        own = single[array.name] if array.name not in problem.rows and array.name in single else array
        if own.nbytes > MAXIMUM_ARRAY_BYTES:
            shape = "x".join(map(str, own.shape))
            raise RequestError(
                f"array {own.name} of shape {shape} takes {own.nbytes} bytes; kernels address at most "
                f"{MAXIMUM_ARRAY_BYTES}"
            )
    return problem
