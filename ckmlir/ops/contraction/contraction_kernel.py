"""The kernels of the contraction family as tile code: one workgroup computes one block of C."""

from types import SimpleNamespace

from ckmlir.dialect.mma import Mma
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import Kernel, Scalar, View, f32, i32, kernel, ptr
from ckmlir.lang.kernel import Argument
from ckmlir.ops.contraction.contraction_spec import SCALARS, ContractionSpec
from ckmlir.ops.contraction.epilogue_kernel import Output, write_block
from ckmlir.ops.contraction.loop_kernel import contract
from ckmlir.ops.contraction.merged_kernel import distance_arguments, known_divisors
from ckmlir.ops.contraction.operands_kernel import array_view, operand_a, operand_b
from ckmlir.ops.contraction.side import NAMES, SideSpec
from ckmlir.ops.contraction.walks_kernel import (
    batch_arguments,
    batch_coordinates,
    block_of_grid,
    in_batch,
    in_part,
    part_arguments,
    part_of_k,
)  # fmt: skip
from ckmlir.targets import Target

LDS_NAMES = ("a", "b", "up")
"""What schedules call A and the matrices B."""


def build(spec: ContractionSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    # Swapped operands: a lane's consecutive accumulators are then consecutive columns of C.
    product = Mma.select(target, "x".join(map(str, spec.mfma)), spec.dtype, block_k=spec.block[2], transposed=True)
    sides = dict(zip(NAMES, map(SideSpec.parse, spec.side), strict=False))
    dtypes = {**dict.fromkeys(spec.tensors, spec.dtype), **{name: one.dtype for name, one in sides.items()}}
    pointers = {**dtypes, **dict.fromkeys(spec.outputs, spec.out)}
    integers = ["m", "n", "k", *distance_arguments(spec), *batch_arguments(spec, list(pointers)), *part_arguments(spec)]
    numbers = SCALARS if spec.op else ()
    arguments: dict[str, Argument] = {
        **{name: ptr(dtype) for name, dtype in pointers.items()},
        **dict.fromkeys(integers, i32),
        **dict.fromkeys(numbers, f32),
    }

    @kernel(spec.name, target=target, waves=spec.wave_count, arguments=arguments)
    def contraction(given: SimpleNamespace) -> None:
        m, n, k = _divisors(spec, given.m, given.n, given.k)
        row, column = block_of_grid(spec, n)
        begin, end = part_of_k(spec, given, k)
        place = batch_coordinates(spec, given)
        aligns = {**dict.fromkeys(spec.tensors, spec.align[1]), "a": spec.align[0]}
        aligns |= dict.fromkeys(spec.outputs, spec.align[2])
        aligns |= {name: one.align for name, one in sides.items()}
        at = {name: in_batch(name, getattr(given, name), given, place, aligns[name]) for name in pointers}

        def seen(name: str) -> View:
            return array_view(spec, name, at[name], given, {"m": m, "n": n, "k": k})

        totals = contract(
            product,
            spec.waves,
            spec.block,
            operand_a(spec, seen("a"), row),
            [
                operand_b(spec, known_as, seen(name), column)
                for known_as, name in zip(LDS_NAMES[1:], spec.tensors[1:], strict=False)
            ],
            begin,
            end,
            Schedule.parse(spec.schedule_text),
        )
        scalars = {name: getattr(given, name) for name in numbers}
        at |= {name: in_part(spec, at[name], given) for name in spec.outputs}
        output = Output([seen(name) for name in spec.outputs], {name: seen(name) for name in sides}, scalars)
        write_block(spec, output, totals, row, column)

    return contraction


def _divisors(spec: ContractionSpec, m: Scalar, n: Scalar, k: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """The sizes with what is known to divide them: the block, or the alignment of the rows that they are the
    length of.
    """
    known = known_divisors(spec) if spec.merged else dict.fromkeys("mnk", 1)
    rows = {0: "k" if spec.layout[0] == "R" else "m", 1: "n" if spec.layout[1] == "R" else "k", 2: "n"}
    if spec.shuffled:
        del rows[1]  # rows of tiles, filled up
    if spec.merged:
        rows.clear()
    for operand, letter in rows.items():
        known[letter] = max(known[letter], spec.align[operand])
    for letter, length in zip("mnk", spec.block, strict=True):
        if letter not in spec.pad:
            known[letter] = length
    return m.multiple_of(known["m"]), n.multiple_of(known["n"]), k.multiple_of(known["k"])
