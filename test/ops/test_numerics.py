"""GEMM and attention, through their real code objects on the simulator, against their references within tolerances.

Sizes are small but not kind: they fit the tile, miss it by one, are prime, are one; strides leave gaps. A case names
the chip first, so that `-k gfx950` selects.
"""

import itertools

import pytest
from operator_runner import CHIPS, agree

from ckmlir.ops.contraction.contraction_spec import LAYOUTS, OUTPUTS
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.schedules import GEMM as SCHEDULES

# -- gemm

NARROW = ("f16", "bf16", "fp8", "bf8", "i8")
"""The others are in `test_contraction_types.py`."""
GEMM_SIZES = {"fits": (128, 128, 128), "one": (1, 1, 1), "primes": (131, 67, 71), "below": (127, 129, 63)}


def gemm_cases() -> list[tuple[str, str, str, str, str]]:
    """Every dtype, layout and chip at two sizes; every output dtype and further sizes at one layout."""
    cases = []
    for chip, dtype in itertools.product(CHIPS, NARROW):
        if dtype in ("fp8", "bf8") and chip == "gfx90a":
            continue  # CDNA2 has no 8-bit floats; a test below says that it is refused
        for layout, size in itertools.product(LAYOUTS, ("fits", "primes")):
            cases.append((chip, dtype, OUTPUTS[dtype][0], layout, size))
        cases += [(chip, dtype, out, "RCR", size) for out in OUTPUTS[dtype] for size in ("one", "below")]
    return cases


@pytest.mark.one_in(48)
@pytest.mark.parametrize(("chip", "dtype", "out", "layout", "size"), gemm_cases())
def test_gemm(chip: str, dtype: str, out: str, layout: str, size: str) -> None:
    """C = A·B for every dtype, layout and chip."""
    m, n, k = GEMM_SIZES[size]
    agree("gemm", chip, m=m, n=n, k=k, dtype=dtype, out=out, layout=layout)


GEMM_SCHEDULES = [name for name in SCHEDULES if name not in ("single_buffer", "prefetch")]  # those are other names


@pytest.mark.one_in(16)
@pytest.mark.parametrize("number", range(len(GEMM_SCHEDULES)), ids=GEMM_SCHEDULES)
def test_gemm_schedules_with_small_blocks(number: int) -> None:
    """Every schedule with the block of 64 x 64, no terms or a last step of odd length; `test_schedule_grid.py` has the
    default blocks, every type, chip and trip count."""
    schedule, chip = GEMM_SCHEDULES[number], CHIPS[number % 3]
    dtype = ("f16", "bf16", "i8")[number // 3 % 3]
    step = 128 // find_dtype(dtype).bytes
    for k in (0, 4 * step - (step // 2 - 4)):
        pitches = {"lda": max(k, step)} if schedule == "preshuffle" else {"lda": max(k, step), "ldb": max(k, step)}
        agree("gemm", chip, m=64, n=64, k=k, dtype=dtype, schedule=schedule, **pitches)


@pytest.mark.one_in(24)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("k", [1, 63, 65, 449])
@pytest.mark.parametrize("schedule", ["unpipelined", "compv3", "compv4"])
def test_gemm_odd_lengths(chip: str, k: int, schedule: str) -> None:
    """Sums of odd length, whose rows are not aligned."""
    agree("gemm", chip, m=64, n=64, k=k, schedule=schedule)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_gemm_strides(layout: str) -> None:
    """Rows with gaps between them: nothing is read from or written to the gaps."""
    agree("gemm", "gfx942", m=100, n=72, k=40, layout=layout, lda=131, ldb=160, ldc=77)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("keys", [
    {"block": "256x128x32", "wave": "2x2"},
    {"block": "128x256x64", "wave": "1x4", "mfma": "16x16x16"},
    {"block": "64x128x128", "wave": "2x1", "mfma": "32x32x8"},
    {"block": "64x64x64", "wave": "1x1", "mfma": "32x32x8"},
    {"epilogue": "direct"},
    {"epilogue": "direct", "mfma": "16x16x16", "out": "f32"},
])  # fmt: skip
def test_gemm_tiles(keys: dict[str, str]) -> None:
    """Blocks, waves, instructions and epilogues that are not the default."""
    agree("gemm", "gfx942", m=257, n=131, k=200, **keys)


def test_gemm_large() -> None:
    """A problem of several workgroups and many iterations."""
    agree("gemm", "gfx942", m=512, n=640, k=1024, dtype="f16")


@pytest.mark.parametrize(("m", "n", "k"), [(0, 5, 7), (5, 0, 7), (5, 7, 0), (0, 0, 0)])
def test_gemm_empty(m: int, n: int, k: int) -> None:
    """No rows or columns: nothing to do; no terms: zeros."""
    agree("gemm", "gfx942", m=m, n=n, k=k)


# -- attention

MASKS = ("none", "top_left", "bottom_right", "window:20,5", "window_bottom_right:7,0")


@pytest.mark.one_in(24)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("d", [32, 64, 96, 128, 256])
def test_fmha_fwd(chip: str, dtype: str, d: int) -> None:
    """Every head dimension, type and chip, with lengths that do not fit the tile."""
    agree("fmha_fwd", chip, b=1, h=2, sq=150, sk=203, d=d, dtype=dtype, lse=1)


@pytest.mark.one_in(16)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(("sq", "sk"), [(128, 128), (1, 130), (200, 70), (70, 200), (257, 1)])
def test_fmha_fwd_masks(mask: str, sq: int, sk: int) -> None:
    """Every mask, for more queries than keys and the reverse; rows that attend to nothing give zeros and -inf."""
    agree("fmha_fwd", "gfx942", b=1, h=1, sq=sq, sk=sk, d=64, mask=mask, lse=1)


@pytest.mark.one_in(12)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_fmha_fwd_heads(chip: str, dtype: str, layout: str) -> None:
    """Grouped heads, several batches, both layouts, dv different from d."""
    keys = {"b": 2, "h": 4, "hk": 2, "d": 64, "dv": 40, "dtype": dtype, "layout": layout, "mask": "bottom_right"}
    agree("fmha_fwd", chip, sq=40, sk=100, **keys)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("sq", "sk"), [(128, 256), (127, 63), (129, 65), (1, 1)])
def test_fmha_fwd_lengths(chip: str, sq: int, sk: int) -> None:
    """Lengths that fit the tile exactly, miss it by one, and are one."""
    agree("fmha_fwd", chip, sq=sq, sk=sk, d=64, lse=1)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("d", "dv"), [(8, 8), (40, 72), (64, 128), (200, 96)])
def test_fmha_fwd_channels(d: int, dv: int) -> None:
    """Head dimensions that no tile has exactly."""
    agree("fmha_fwd", "gfx942", b=1, h=1, sq=64, sk=64, d=d, dv=dv)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("chip", ["gfx942", "gfx950"])
@pytest.mark.parametrize("d", [32, 64, 96, 128, 256])
def test_fmha_fwd_fp8(chip: str, d: int) -> None:
    """8-bit floats of each chip's format, with lengths that do not fit the tile and a scale for every operand."""
    scales = {"q_scale": 0.5, "k_scale": 0.25, "v_scale": 3.0}
    agree("fmha_fwd", chip, b=1, h=2, sq=150, sk=203, d=d, dtype="fp8", lse=1, **scales)


@pytest.mark.one_in(24)
@pytest.mark.parametrize("chip", ["gfx942", "gfx950"])
@pytest.mark.parametrize("out", ["bf16", "f16", "f32"])
@pytest.mark.parametrize("mask", MASKS)
def test_fmha_fwd_fp8_outputs(chip: str, out: str, mask: str) -> None:
    """Every output type and mask; grouped heads, sequence before heads, dv different from d."""
    keys = {"b": 2, "h": 4, "hk": 2, "sq": 70, "sk": 130, "d": 64, "dv": 48, "layout": "bshd", "mask": mask}
    agree("fmha_fwd", chip, dtype="fp8", out=out, **keys)
