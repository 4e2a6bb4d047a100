"""What products of routed rows take beside their matrices: scales and biases of each expert; and what bytes hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ckmlir.nn.calls import Call
from ckmlir.nn.given import Given, elements_in
from ckmlir.nn.homes import has_bytes
from ckmlir.nn.plain import shown, word
from ckmlir.nn.scales import group_forms
from ckmlir.ops.dtypes import HALF_BYTES, PACKED_FLOATS, PACKED_INTEGERS, POWER
from ckmlir.runtime.device import DeviceError
from ckmlir.targets.matrix_names import EIGHT_BIT_FLOATS

PACKED = (*PACKED_FLOATS, *PACKED_INTEGERS)
NARROW = (*EIGHT_BIT_FLOATS, "i8", *PACKED_FLOATS)
"""Types of rows that have scales."""
INTEGERS = ("i8", *PACKED_INTEGERS)
DTYPES = ("f32", POWER.name)
"""Of scales."""
OF_ELEMENTS = ("f32", "f16", "bf16", POWER.name)
"""Of those of matrices beside rows of 16 bits."""
BESIDE: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("f16", "bf16"), HALF_BYTES), **dict.fromkeys(EIGHT_BIT_FLOATS, PACKED), "i8": PACKED_INTEGERS,
    **dict.fromkeys(PACKED_FLOATS, PACKED_FLOATS),
}  # fmt: skip
"""Types of rows -> what bytes of matrices may hold beside them."""
Arguments = tuple[Any, Any]
"""What was given of the first matrix of each expert, and of `up`."""


class Beside:
    """Scales and biases of a product, read and compared with its operands.

    Attributes:
        keys: of `moe_gemm`: the type of matrices, if that is another than a's, and those that scales of groups have.
        inputs: scales of groups, by its names.
        sides: scales of rows and columns, and biases, by the names of `ckmlir.ops.moe.layer_sums`.
        bias: type of the biases; None where there are none.
    """

    def __init__(self, call: Call, a: Given, matrices: Sequence[Given]) -> None:
        """`a` (rows, k), and of each expert b, or gate and up (experts, n, …)."""
        self.call, self.a, self.matrices = call, a, matrices
        self.keys = dict[str, object]({"b_dtype": matrices[0].dtype} if matrices[0].dtype != a.dtype else {})
        self.inputs, self.sides = dict[str, Given](), dict[str, Given]()
        self.bias: str | None = None

    def set_scales(self, a_scale: Any, given: Arguments) -> None:
        """Take note of scales of rows of a, and of `scale` and `up_scale`.

        Raises DeviceError where they do not fit the operands or each other.
        """
        from ckmlir.ops.moe.experts_scales import WIDE

        dtype, of_b = self.a.dtype, self.matrices[0].dtype
        of_matrices = self._of_matrices("scale", given)
        of_rows = None if a_scale is None else self.call.scales("a_scale", a_scale).contiguous()
        if of_rows is not None and dtype not in NARROW:
            raise DeviceError(f"a_scale: found for rows of {dtype}; expected none, or a of {', '.join(NARROW)}")
        if dtype in NARROW and (of_rows is None) != (not of_matrices):
            missing, found = ("a_scale", "scale") if of_rows is None else ("scale", "a_scale")
            raise DeviceError(f"{missing}: found none beside {found}; expected both, or neither")
        packed = next((one for one in (dtype, of_b) if one in PACKED), None)
        if packed is not None and not of_matrices:
            names = "scale" if dtype in WIDE else "a_scale and scale"
            raise DeviceError(f"scale: found none of {packed}, which has scales of groups; expected {names}")
        if of_matrices and dtype in WIDE and packed is None:
            raise DeviceError(f"scale: found for b of {of_b}; expected none, or bytes that hold 4 bits")
        if of_rows is not None and packed is None and of_matrices[0].ndim == 2:
            self._set_channels(of_rows, of_matrices)
        elif of_matrices:
            self._set_groups(of_rows, of_matrices)

    def _set_channels(self, of_rows: Given, of_matrices: Sequence[Given]) -> None:
        """Scales of rows, and of the matrices' channels."""
        of_rows.require(shape=self.a.shape[:1], dtype="f32")
        for one, matrix in zip(of_matrices, self.matrices, strict=True):
            one.require(shape=matrix.shape[:2], dtype="f32")
        self.sides |= dict(zip(("x_scale", "gate_scale", "up_scale"), (of_rows, *of_matrices), strict=False))

    def _set_groups(self, of_rows: Given | None, of_matrices: Sequence[Given]) -> None:
        """Scales of groups along K, which rows have beside matrices of 8 bits."""
        k = elements_in(self.a.dtype, self.a.shape[1])
        both = zip(of_matrices, self.matrices, strict=True)
        kinds = DTYPES if of_rows is not None else OF_ELEMENTS
        words = [scale_words(one, matrix.shape[:2], k, kinds, blocks=of_rows is not None) for one, matrix in both]
        self.keys["b_scale"] = common_word(words)
        self.keys |= type_key(of_matrices)
        self.inputs |= {f"scale_{name}": one for name, one in zip(self._names, of_matrices, strict=True)}
        if of_rows is None:
            return
        check_types((of_rows, *of_matrices), (self.a, self.matrices[0]))
        self.keys["a_scale"] = word_like(scale_words(of_rows, self.a.shape[:1], k), self.keys["b_scale"])
        self.inputs["scale_a"] = of_rows

    def set_zeros(self, given: Arguments) -> None:
        """Take note of zero points, `zeros` and `up_zeros`, which lie as the scales of groups do. Raises DeviceError
        where they do not fit the matrices, their scales or each other.
        """
        found = self._of_matrices("zeros", given)
        if found:
            of_groups = [self.inputs.get(f"scale_{name}") for name in self._names]
            self.inputs |= {f"zero_{name}": one for name, one in zip(self._names, found, strict=True)}
            self.keys |= zeros_key(found, of_groups, self.matrices[0], of_rows="scale_a" in self.inputs)

    @property
    def _names(self) -> tuple[str, ...]:
        """Of the matrices, in `moe_gemm`."""
        return ("b",) if len(self.matrices) == 1 else ("gate", "up")

    def set_biases(self, given: Arguments) -> None:
        """Take note of `bias` and `up_bias`. Raises DeviceError where they do not fit the matrices or each other."""
        found = self._of_matrices("bias", given)
        if found:
            self.bias = bias_type(found, self.matrices)
            self.sides |= dict(zip(("gate_bias", "up_bias"), found, strict=False))

    def sums(self, op: str, weights: Given | None) -> tuple[dict[str, object], dict[str, Given]]:
        """The keys of what becomes of the products, which are scaled and biased first, and its arrays."""
        from ckmlir.ops.moe.layer_sums import WEIGHTS, sums_of_matrices

        scaled = "x_scale" in self.sides
        keys, names = sums_of_matrices(op, scaled=scaled, bias=self.bias, weighted=weights is not None)
        arrays = self.sides if weights is None else {**self.sides, WEIGHTS: weights}
        inputs = {f"d{place}": arrays[name] for place, name in enumerate(names)}
        return {**keys} if inputs or op != "acc" else {}, inputs

    def usual_type(self, of_sums: Mapping[str, object]) -> str | None:
        """The type of results where none is asked for, by the keys of `sums`; None: what products of a's type have."""
        if "x_scale" in self.sides or "scale_a" in self.inputs:
            return "f16"
        return "f32" if self.a.dtype == "i8" and of_sums else None  # what follows is computed in f32

    def _of_matrices(self, what: str, given: Arguments) -> list[Given]:
        """The arrays of all matrices, or none. Raises DeviceError where only some have one."""
        first, second = given
        if len(self.matrices) == 1 and second is not None:
            raise DeviceError(f"up_{what}: found without up; leave it out, or give up")
        if len(self.matrices) > 1 and (first is None) != (second is None):
            some = {"scale": "scales", "bias": "biases", "zeros": "zero points"}[what]
            expected = f"expected up_{what} and {what}, or neither"
            raise DeviceError(f"up_{what}: matrices have {some}, or none has; {expected}")
        read = self.call.scales if what == "scale" else self.call.read
        named = ((what, first), (f"up_{what}", second))
        return [read(name, one).contiguous() for name, one in named if one is not None]


def zeros_key(
    zeros: Sequence[Given], scales: Sequence[Given | None], matrix: Given, *, of_rows: bool
) -> dict[str, object]:
    """The key of zero points beside the scales of groups of integers of 4 bits: i8 where rows have scales as well, else
    of the scales' type. Raises DeviceError for others.
    """
    for one, scale in zip(zeros, scales, strict=True):
        if matrix.dtype not in PACKED_INTEGERS or scale is None:
            what = f"of integers of 4 bits with scales of groups, not of {matrix.dtype}"
            raise DeviceError(f"{one.what}: {what}; expected none")
        one.require(shape=scale.shape, dtype="i8" if of_rows else scale.dtype)
    return {"zeros": 1}


def bias_type(biases: Sequence[Given], matrices: Sequence[Given]) -> str:
    """The type of biases (experts, n) of matrices (experts, n, …). Raises DeviceError for other shapes and types."""
    from ckmlir.ops.rows.arrays import FLOATS

    dtype = biases[0].dtype
    if dtype not in FLOATS:
        raise DeviceError(f"{biases[0].what}: elements are {dtype}; expected {', '.join(FLOATS)}")
    for one, matrix in zip(biases, matrices, strict=True):
        one.require(shape=matrix.shape[:2], dtype=dtype)
    return dtype


def scale_words(
    given: Given, rows: tuple[int, ...], k: int, dtypes: Sequence[str] = DTYPES, *, blocks: bool = False
) -> list[str]:
    """What `moe_gemm` may call scales of groups along K, several where rows are short.

    Args:
        given: (…, rows that have scales, groups).
        rows: the leading dimensions of the operand, (rows,) or (experts, n).
        dtypes: which types scales may have.
        blocks: 128 rows may share a scale.

    Raises DeviceError for other groups and types.
    """
    from ckmlir.ops.moe.experts_scales import MX

    is_power = given.dtype == POWER.name
    if given.dtype in dtypes and given.ndim == len(rows) + 1 and given.shape[:-2] == rows[:-1]:
        found = group_forms(given.shape[-2:], rows[-1], k, is_power=is_power, blocks=blocks)
        if found:
            return [MX] if is_power else found
    able = " or ".join(one for one in dtypes if one != POWER.name)
    each = f"one for each of {'x'.join(map(str, rows))} rows and 32 of {k} of e8m0, or 32, 64 or 128 of {able}"
    together = ", or for 128 rows and 128 of f32" if blocks else ""
    raise DeviceError(f"{given.what}: shape {given.shape} of {given.dtype}; expected {each}{together}")


def common_word(words: Sequence[Sequence[str]]) -> str:
    """What the scales of all matrices may be called. Raises DeviceError where they are of different groups."""
    common = next((name for name in words[0] if all(name in one for one in words)), None)
    if common is None:
        raise DeviceError("scales: groups of matrices differ in length or type; expected all alike")
    return common


def type_key(scales: Sequence[Given]) -> dict[str, object]:
    """The key that says what type scales of matrices have, where kernels ask. Raises DeviceError for several types."""
    first = scales[0]
    for one in scales[1:]:
        if one.dtype != first.dtype:
            raise DeviceError(f"{one.what}: elements are {one.dtype}; expected {first.dtype}, as those of {first.what}")
    return {} if first.dtype in DTYPES else {"scale": first.dtype}


def word_like(words: Sequence[str], other: object) -> str:
    """What scales may be called: as others, or else by their usual name."""
    return str(other) if other in words else words[0]


def check_types(scales: Sequence[Given], operands: Sequence[Given]) -> None:
    """Raises DeviceError for scales of rows, the first, of another type than those of matrices; for powers of two of
    integers, and for other scales of packed floats.
    """
    of_rows, is_power = scales[0], scales[0].dtype == POWER.name
    for one in operands:
        if is_power and one.dtype in INTEGERS:
            raise DeviceError(f"{of_rows.what}: powers of two beside {one.dtype}; expected f32")
        if not is_power and one.dtype in PACKED_FLOATS:
            raise DeviceError(f"{of_rows.what}: {of_rows.dtype} beside {one.dtype}; expected powers of two (e8m0)")
    for one in scales[1:]:
        if (one.dtype == POWER.name) != is_power:
            types = f"{of_rows.dtype} beside {one.dtype} of {one.what}"
            raise DeviceError(f"{of_rows.what}: elements are {types}; expected powers of two (e8m0) of both, or f32")


def read_rows(call: Call, what: str, array: Any, packed: str | None) -> Given:
    """Rows, or bytes of packed floats. Raises DeviceError as `read`, and for bytes that hold something else."""
    if packed is not None:
        word(f"{what}_packed", packed, PACKED_FLOATS)
    return call.read(what, array, packed)


def held_by(rows: Given, packed: str | None, matrix: Any) -> str | None:
    """What the bytes of matrices hold; None: they have none. Without a word (`packed`) fp4 beside rows of 16 bits, and
    what packed rows hold.

    Raises DeviceError for what does not go with the rows.
    """
    from ckmlir.ops.moe.experts_scales import WIDE

    if packed is not None and rows.dtype not in BESIDE:
        raise DeviceError(f"packed={shown(packed)}: found for rows of {rows.dtype}; expected none")
    if packed is not None:
        return word("packed", packed, BESIDE[rows.dtype])
    usual = "fp4" if rows.dtype in WIDE else rows.dtype if rows.dtype in PACKED_FLOATS else None
    return usual if has_bytes(matrix) else None


def require_pair(rows: Given, matrix: Given) -> Given:
    """A matrix, if its type goes with that of rows. Raises DeviceError."""
    if matrix.dtype in PACKED or {rows.dtype, matrix.dtype} <= {*EIGHT_BIT_FLOATS, *PACKED_FLOATS}:
        return matrix
    return matrix.require(dtype=rows.dtype)
