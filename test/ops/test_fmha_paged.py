"""Attention with K and V in pages, or in slots of a cache: numbers under all checkers, garbage that nobody reads,
tables that point nowhere, pools larger than 32-bit offsets reach, and what is refused.
"""

from __future__ import annotations

import math
import mmap
from typing import Any

import numpy as np
import pytest
from operator_runner import CHIPS, named, outcome
from poisoned_pages import poisoned

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.request import RequestError
from ckmlir.ops.schedules import ATTENTION
from ckmlir.runtime import check_outputs
from ckmlir.runtime.executable import Executable
from ckmlir.runtime.simulator_device import SimulatorDevice
from ckmlir.scheduling import Workbench
from ckmlir.sim import Simulator
from ckmlir.sim.checks import parse_checks
from ckmlir.targets import get_target

PAGED, SPLIT = find_operator("fmha_fwd_pagedkv"), find_operator("fmha_fwd_splitkv")
PREFILL = find_operator("fmha_batch_prefill")
GFX942 = get_target("gfx942")
Keys = dict[str, Any]

FEW: Keys = {"h": 2, "hk": 1, "sq": 3, "seqlens_k": (150, 0, 70), "d": 32, "lse": 1}
GROUP: Keys = {"mode": "group", "seqlens_q": (3, 0, 130), "seqlens_k": (150, 50, 20), "h": 2, "d": 32, "lse": 1}
CASES: list[tuple[str, Any, Keys]] = [
    ("gfx942", PAGED, {**FEW, "page_size": 64, "layout": "bshd", "mask": "bottom_right"}),
    ("gfx950", PAGED, {**GROUP, "page_size": 128, "dtype": "bf16", "sink": 1}),
    ("gfx90a", PAGED, {**FEW, "page_size": 16, "mask": "window_bottom_right:70,0,9"}),
    ("gfx950", PAGED, {**GROUP, "page_size": 1, "layout": "bshd", "hk": 1}),
    ("gfx942", PAGED, {**FEW, "page_size": 2, "dtype": "fp8", "alibi": "head"}),
    ("gfx90a", PAGED, {**FEW, "page_size": 32, "dtype": "f32", "bias": "head", "dv": 64}),
    ("gfx950", SPLIT, {**FEW, "page_size": 16, "splits": 3, "k_strides": (2560, 1280, 64)}),
    ("gfx942", SPLIT, {**GROUP, "page_size": 256, "splits": 2}),
    ("gfx942", PAGED, {**FEW, "page_size": 64, "v_strides": (3072, 3072, 48), "layout": "bhsd"}),
    ("gfx942", SPLIT, {**FEW, "cache_batches": 5, "splits": 2, "layout": "bshd"}),
    ("gfx950", PAGED, {**FEW, "page_size": 16, "mask": "bottom_right", "edge": "qr_fenced"}),
    ("gfx950", SPLIT, {"sq": 2, "sk": 70, "b": 2, "d": 32, "cache_batches": 2, "v_layout": "columns", "splits": 1}),
]
WIDE = [
    (chip, operator, {**shape, "page_size": size, "layout": layout, "dtype": dtype, "d": d, **more})
    for chip in CHIPS
    for operator, more in ((PAGED, {}), (SPLIT, {"splits": 3}))
    for shape in (FEW, GROUP)
    for size in (1, 16, 64, 1024)
    for layout in ("bhsd", "bshd")
    for dtype in ("f16", "bf16", "f32", "fp8")
    for d in (64, 128)
    if dtype != "fp8" or chip != "gfx90a"
]


@pytest.mark.one_in(24)
@pytest.mark.parametrize(
    ("chip", "operator", "keys"), [*CASES, *(pytest.param(*one, marks=pytest.mark.full) for one in WIDE)], ids=named
)
def test_numbers(chip: str, operator: Any, keys: Keys) -> None:
    """With NaN in every row that no key lies in."""
    outcome(operator, chip, keys, prepared=poisoned, specified=True)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("size", [16, 64, 128])
def test_pages_that_do_not_exist_read_as_zeros(size: int) -> None:
    """Whatever a table in device memory holds, and where a length goes beyond it."""
    problem = PAGED.problem(**{**FEW, "hk": 2}, page_size=size)
    arrays = PAGED.inputs(problem, GFX942, seed=3)
    table = arrays["block_table"].copy()
    table[0, 1], table[2, 0] = 2**31 - 1, -(2**31)
    given = {**arrays, "block_table": table, "seqlen_k": np.array([150, 10**6, 70], np.int32)}
    device = SimulatorDevice(GFX942, checks=parse_checks("memory"))
    executable, memories = Executable(device, PAGED, problem), {}
    for array in PAGED.arrays(problem):
        memories[array.name] = device.allocate(array.nbytes)
        device.write(memories[array.name], given.get(array.name, np.zeros(array.nbytes, np.uint8)))
    executable.launch(memories)
    o = np.zeros(problem.shape("o"), np.float16)
    device.read(o, memories["o"])
    zeros = {name: arrays[name].copy() for name in "kv"}
    for number, place in ((0, 1), (2, 0)):
        for values in zeros.values():
            values[arrays["block_table"][number, place]] = 0
    expected = PAGED.reference(problem, {**arrays, **zeros})["o"]
    np.testing.assert_allclose(o[[0, 2]], expected[[0, 2]], atol=4e-3)
    assert np.isfinite(o[1]).all()


def test_slots_that_do_not_exist_read_as_zeros() -> None:
    problem = SPLIT.problem(b=2, h=1, sq=2, sk=70, d=32, cache_batches=3, splits=1)
    arrays = SPLIT.inputs(problem, GFX942, seed=3)
    device = SimulatorDevice(GFX942, checks=parse_checks("memory"))
    executable, memories = Executable(device, SPLIT, problem), {}
    given = {**arrays, "cache_batch_idx": np.array([3, -1], np.int32)}
    for array in SPLIT.arrays(problem):
        memories[array.name] = device.allocate(array.nbytes)
        device.write(memories[array.name], given.get(array.name, np.ones(array.nbytes, np.uint8)))
    executable.launch(memories)
    o = np.ones(problem.shape("o"), np.float16)
    device.read(o, memories["o"])
    assert not o.any()


class Reserved:
    """Address space that only takes memory where it is touched, known to a simulator as one allocation."""

    def __init__(self, simulator: Simulator, size: int) -> None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
        self.bytes = np.frombuffer(mmap.mmap(-1, size, flags=flags), np.uint8)
        self.address = self.bytes.ctypes.data
        simulator.share(self.bytes, "reserved address space")


LONGEST = 2**29
"""Elements from page to page, above which rows are as far apart as pages have room for."""


@pytest.mark.one_in(12)
@pytest.mark.parametrize(("size", "pages", "distance", "word"), [
    (16, 4, 2**28 - 512, "pages_16_alike"),  # 2 GiB less a little
    (16, 11, 2**28, "pages_16_alike_far"),  # 5.5 GiB: pages begin at every half GiB, at 2 and at 4 too
    (1, 21, 2**27 + 64, "pages_1_alike_far"),
    (64, 11, 2**28, "pages_64_alike"),
    (64, 2, 2**30 - 512, "pages_64_alike"),
    (128, 2, 2**30 - 1024, "pages_128_alike"),
    (16, 11, 2**28, "pages_16_vectors_alike_far"),
])  # fmt: skip
@pytest.mark.parametrize("chip", ["gfx942", pytest.param("gfx90a", marks=pytest.mark.full),
                                  pytest.param("gfx950", marks=pytest.mark.full)])  # fmt: skip
def test_pools_of_gigabytes(chip: str, size: int, pages: int, distance: int, word: str) -> None:
    """All pages are used, the first and the last among them; what is not touched of the pool takes no memory."""
    target, d = get_target(chip), 64
    keys = {"h": 1, "sq": 2, "seqlens_k": (pages * size,), "d": d, "page_size": size, "pages": pages, "lse": 1}
    # A page of 2 GiB less a little holds rows that are as long as they may be.
    operator, strides = PAGED, (distance, size * d, distance // size if distance > LONGEST else d)
    if "vectors" in word:
        operator, keys = PREFILL, {**keys, "sq": None, "seqlens_q": (2,), "kv_layout": "vectorised"}
    problem = operator.problem(**keys, k_strides=strides, v_strides=strides)
    near = operator.problem(**keys)
    arrays = operator.inputs(near, target, seed=4)
    assert sorted(arrays["block_table"][0]) == list(range(pages))
    spec = operator.spec(problem, target)
    assert (problem.source.word, near.source.word) == (word, word.removesuffix("_far"))
    compiled, launch = compile_kernel(operator, spec, target), operator.launch(problem, spec, target)
    simulator, pointers, kept = Simulator(chip, seed=9), {}, []
    for array in operator.arrays(problem):
        if array.name not in "kv":
            dtype = {"f32": np.float32, "i32": np.int32, "f16": np.float16}[array.dtype]
            pointers[array.name] = simulator.upload(arrays.get(array.name, np.zeros(array.shape, dtype)))
            continue
        reserved = Reserved(simulator, -(-array.nbytes // 4096) * 4096)
        rows = np.lib.stride_tricks.as_strided(
            reserved.bytes[: array.nbytes].view(np.float16), array.shape, [2 * one for one in array.strides]
        )
        rows[:] = arrays[array.name]
        pointers[array.name] = np.uint64(reserved.address)
        kept.append(reserved)
    arguments = [pointers[one] if isinstance(one, str) else one for one in launch.arguments]
    simulator.launch(compiled.code_object, compiled.kernel_name, launch.grid, launch.block, arguments)
    rows = (1, 1, 2) if operator is PAGED else (1, 2)
    outputs = {"o": pointers["o"].read("f2", problem.shape("o")), "lse": pointers["lse"].read("f4", rows)}
    comparisons = check_outputs(operator, near, arrays, outputs, target)
    assert all(one.ok for one in comparisons), "; ".join(map(str, comparisons))


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("chip", "size", "schedule"), [
    ("gfx942", 16, "qr"), ("gfx950", 64, "qr_async_trload"), ("gfx90a", 1, "qr"),
    *(pytest.param(chip, size, schedule, marks=pytest.mark.full)
      for chip in CHIPS for size in (1, 16, 64, 128) for schedule in ATTENTION),
])  # fmt: skip
def test_schedules_are_proved(chip: str, size: int, schedule: str) -> None:
    """Every named one with every source that it can have."""
    target = get_target(chip)
    problem = PAGED.problem(h=1, sk=200, d=64, page_size=size, schedule=schedule)
    spec = PAGED.spec(problem, target)
    if reasons := PAGED.validate(spec, target):
        assert size < 64 or "transpose" in str(reasons) or "fill no register" in str(reasons)
        return
    bench = Workbench.of(PAGED, spec, target)
    assert bench.compile(bench.schedule, code=False).findings == ()
    keys = {**FEW, "d": 64, "page_size": size, "schedule": schedule}
    outcome(PAGED, chip, keys, prepared=poisoned, specified=True)


def test_references_by_hand() -> None:
    problem = PAGED.problem(**FEW, page_size=16)
    arrays = PAGED.inputs(problem, GFX942, seed=5)
    found = PAGED.reference(problem, arrays)
    for number, length in enumerate(FEW["seqlens_k"]):
        rows = [(arrays["block_table"][number, key // 16], key % 16) for key in range(length)]
        k, v = (np.array([arrays[name][page, 0, row] for page, row in rows], np.float64) for name in "kv")
        for head in range(2 * bool(length)):
            scores = arrays["q"][number, head].astype(np.float64) @ k.T / math.sqrt(32)
            weights = np.exp(scores)
            expected = weights @ v / weights.sum(1, keepdims=True)
            np.testing.assert_allclose(found["o"][number, head], expected, rtol=1e-9)


@pytest.mark.parametrize(("operator", "keys", "words"), [
    (PAGED, {"page_size": 24}, "page_size=24: expected a power of two"),
    (PAGED, {"page_size": 0}, "page_size=0: expected a whole number from 1"),
    (PAGED, {"v_layout": "columns"}, "v_layout=columns: pages hold rows of V; expected rows"),
    (PAGED, {**GROUP, "slots_k": (200, 50, 20)}, "slots_k=200,50,20: keys lie in pages; leave it out"),
    (PAGED, {"page_size": 16, "k_strides": (40000, 2176, 136)}, "k_strides=40000x2176x136: pages of 16 keys are read"),
    (PAGED, {"page_size": 1024, "k_strides": (2**30 + 2**13, 64, 2**20 + 8), "d": 64, "h": 1},
     "k_strides=1073750016x64x1048584: a page of 1024 keys takes 2147500032 bytes; kernels address at most 2147483647"),
    (PAGED, {"page_size": 1, "pages": 2**31 - 1, "h": 9}, "pages=2147483647: more than 2147483647 rows"),
    (PAGED, {"pages": 0, "sk": 2**31 - 2, "mask": "window_bottom_right:99,2147483647"},
     "sk=2147483646: beside 256 queries kernels count keys to 2147482879; expected at most that"),
    (SPLIT, {"pages": 3}, "pages=3: K and V are not in pages; expected page_size as well"),
    (SPLIT, {"page_size": 64, "cache_batches": 2}, "cache_batches=2: it does not go with page_size=64"),
    (SPLIT, {**GROUP, "cache_batches": 2}, "cache_batches=2: in group mode K and V have no batches"),
])  # fmt: skip
def test_what_is_refused(operator: Any, keys: Keys, words: str) -> None:
    with pytest.raises(RequestError) as refused:
        operator.problem(**keys)
    assert words in str(refused.value) and "\n" not in str(refused.value)


def test_tables_that_are_refused() -> None:
    problem = PAGED.problem(**FEW, page_size=64, pages=9)
    arrays = PAGED.inputs(problem, GFX942)
    table = arrays["block_table"].copy()
    table[1] = 99  # nobody reads it
    PAGED.check_inputs(problem, {**arrays, "block_table": table})
    table[0, 2] = 9
    with pytest.raises(RequestError, match="array block_table: page 2 of sequence 0 is 9; expected 0 to 8"):
        PAGED.check_inputs(problem, {**arrays, "block_table": table})
    lengths = np.array([150, 0, 151], np.int32)
    with pytest.raises(RequestError, match="array seqlen_k: sequence 2 has 151 rows; expected 0 to 150"):
        PAGED.check_inputs(problem, {**arrays, "seqlen_k": lengths})
    slots = SPLIT.problem(b=2, sq=1, sk=9, d=32, cache_batches=2)
    arrays = {**SPLIT.inputs(slots, GFX942), "cache_batch_idx": np.array([1, 2], np.int32)}
    with pytest.raises(RequestError, match="array cache_batch_idx: sequence 1 has slot 2; expected 0 to 1"):
        SPLIT.check_inputs(slots, arrays)
