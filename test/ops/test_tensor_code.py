"""The machine code of tensor operators: wide accesses, no spills, no bank conflicts, transposing LDS reads."""

from __future__ import annotations

import functools
import re

import pytest

from ckmlir.compiled_kernel import CompiledKernel
from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.sim.decode.decoder import disassemble
from ckmlir.targets import get_target

CHIPS = ("gfx90a", "gfx942", "gfx950")
Keys = tuple[tuple[str, object], ...]


@functools.cache
def compiled(name: str, chip: str, keys: Keys) -> CompiledKernel:
    """The kernel of a request, with its scheduled IR."""
    operator, target = find_operator(name), get_target(chip)
    spec = operator.spec(operator.problem(**dict(keys)), target)
    return compile_kernel(operator, spec, target, keep=("scheduled",))


def mnemonics(kernel: CompiledKernel, pattern: str) -> list[str]:
    """Mnemonics of a kernel that match a pattern from their start."""
    code = disassemble(kernel.code_object, kernel.kernel_name)
    return [one.mnemonic for one in code if re.match(pattern, one.mnemonic)]


DEFAULTS: list[tuple[str, Keys]] = [
    ("transpose2d", ()),
    ("transpose2d", (("dtype", "f32"),)),
    ("transpose2d", (("dtype", "i8"),)),
    ("transpose2d", (("dtype", "i8"), ("m", 1024), ("n", 1024))),
    ("batched_transpose", (("c", 128), ("h", 128), ("w", 64))),
    ("batched_transpose", (("c", 128), ("h", 128), ("w", 64), ("dtype", "i8"))),
    ("permute", (("shape", (64, 96, 128)), ("perm", (2, 1, 0)), ("dtype", "i8"))),
    ("permute", (("shape", (64, 128, 128)), ("perm", (0, 2, 1)))),
    ("copy", ()),
    ("copy", (("through", "registers"),)),
    ("elementwise", ()),
    ("elementwise", (("op", "gelu(a) * b + c"),)),
    ("cast", (("dtype", "f32"), ("out", "bf16"))),
    ("img2col", ()),
    ("pooling", (("n", 64), ("index", 1))),
    ("pooling", (("image", (30, 30, 30)), ("op", "average"), ("count", "elements"))),
]
REDUCTIONS: list[tuple[str, Keys]] = [
    ("reduce", (("ops", ("sum", "mean", "max", "min", "amax", "sumsq")), ("shape", (256, 16384)))),
    ("reduce", (("shape", (4096, 1024)), ("dims", (0,)))),
]


@pytest.mark.one_in(12)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("name", "keys"), [*DEFAULTS, *REDUCTIONS])
def test_no_spills(name: str, keys: Keys, chip: str) -> None:
    kernel = compiled(name, chip, keys)
    metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count) == (0, 0)
    assert not mnemonics(kernel, "scratch_")


@pytest.mark.parametrize("shape", [(5, 132, 27), (3, 27, 131)])
def test_single_elements_keep_no_registers_in_lanes(shape: tuple[int, ...]) -> None:
    """Of rows that no vector divides, along three dimensions; not all have a condition of their own."""
    kernel = compiled("permute", "gfx942", (("shape", shape), ("perm", (0, 2, 1)), ("dtype", "i8")))
    metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count) == (0, 0)


def test_gelu_chooses_no_sign() -> None:
    """A choice of each element would take two scalar registers, of which products with narrow rows have none left."""
    found = [mnemonics(compiled("elementwise", "gfx942", (("op", op),)), "v_c(mp|ndmask)") for op in ("gelu(a)", "a")]
    assert found[0] == found[1]


@pytest.mark.one_in(6)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("name", "keys"), DEFAULTS)
def test_sixteen_bytes_an_access(name: str, keys: Keys, chip: str) -> None:
    """Aligned arrays move 16 bytes a lane, in both directions, also where a tile is transposed."""
    found = set(mnemonics(compiled(name, chip, keys), "buffer_(load|store)"))
    assert found <= {"buffer_load_dwordx4", "buffer_store_dwordx4"}, found


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("name", "keys"), REDUCTIONS)
def test_reductions_load_sixteen_bytes(name: str, keys: Keys, chip: str) -> None:
    assert set(mnemonics(compiled(name, chip, keys), "buffer_load")) == {"buffer_load_dwordx4"}


@pytest.mark.one_in(6)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("dtype", ["f16", "f32", "i8"])
@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("transpose2d", (("m", 1024), ("n", 1024))),
        ("transpose2d", (("m", 1000), ("n", 999))),
        ("batched_transpose", ()),
        ("permute", (("shape", (64, 96, 128)), ("perm", (2, 1, 0)))),
    ],
)
def test_transposes_have_no_bank_conflicts(name: str, keys: Keys, dtype: str, chip: str) -> None:
    """By the chip's bank rules, for whole and for ragged tiles."""
    kernel = compiled(name, chip, (*keys, ("dtype", dtype)))
    found = re.findall(r"conflict_cycles = (\d+)", str(kernel.artifacts["scheduled"]))
    assert found and set(found) == {"0"}


def test_gfx950_transposes_while_it_reads_lds() -> None:
    """16-bit elements are not transposed in registers where LDS reads can do it."""
    for name in ("transpose2d", "batched_transpose", "permute"):
        assert mnemonics(compiled(name, "gfx950", ()), "ds_read_b64_tr_b16"), name
        assert not mnemonics(compiled(name, "gfx942", ()), "ds_read_b64_tr"), name


def test_misaligned_arrays_move_narrower_pieces() -> None:
    """Bases of 4 bytes: two 16-bit elements an access."""
    found = set(mnemonics(compiled("copy", "gfx942", (("align", 4),)), "buffer_(load|store)"))
    assert found == {"buffer_load_dword", "buffer_store_dword"}


def test_direct_copies_pass_no_registers() -> None:
    """`through=direct` on gfx950: memory to LDS in 16-byte pieces."""
    kernel = compiled("copy", "gfx950", (("through", "direct"),))
    found = mnemonics(kernel, "buffer_load")
    assert found and set(found) <= {"buffer_load_dwordx4"}
    assert not mnemonics(kernel, "ds_write")


@pytest.mark.parametrize("chip", ["gfx90a", "gfx942"])
def test_one_wave_reads_lds_behind_all_of_its_writes(chip: str) -> None:
    """Each lane reads what others wrote: LLVM, which looks at one lane, once moved a read before the second write."""
    kernel = compiled("batched_transpose", chip, (("n", 2), ("c", 6), ("h", 1), ("w", 64)))
    writes = ["write" in one for one in mnemonics(kernel, "ds_")]
    assert not mnemonics(kernel, "s_barrier")
    assert any(writes) and writes == sorted(writes, reverse=True)
