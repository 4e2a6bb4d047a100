"""Attention over packed queries with K and V in pages: both tables, both layouts of pages, garbage that nobody reads,
and tables that are refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from operator_runner import CHIPS, named, outcome
from poisoned_pages import poisoned

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.request import RequestError
from ckmlir.runtime.executable import Executable
from ckmlir.runtime.simulator_device import SimulatorDevice
from ckmlir.scheduling import Workbench
from ckmlir.sim.checks import parse_checks
from ckmlir.sim.checks.static import static_findings
from ckmlir.targets import get_target

PREFILL, FMHA = find_operator("fmha_batch_prefill"), find_operator("fmha_fwd")
GFX942 = get_target("gfx942")
Keys = dict[str, Any]

BASE: Keys = {"h": 2, "hk": 1, "d": 32, "seqlens_q": (3, 0, 130), "seqlens_k": (150, 50, 20), "lse": 1}
CASES: list[tuple[str, Keys]] = [
    ("gfx942", {"page_size": 16, "kv_layout": "vectorised", "table": "sglang", "mask": "bottom_right"}),
    ("gfx950", {"page_size": 128, "kv_layout": "vectorised", "soft_cap": 30, "dtype": "bf16", "d": 64}),
    ("gfx90a", {"page_size": 8, "kv_layout": "vectorised", "dv": 40, "layout": "bshd"}),
    ("gfx942", {"page_size": 32, "kv_layout": "vectorised", "dtype": "fp8", "table": "sglang", "k_scale": 0.5}),
    ("gfx950", {"page_size": 4, "kv_layout": "vectorised", "dtype": "f32", "hk": 2}),
    ("gfx950", {"page_size": 1, "table": "sglang", "mask": "bottom_right", "layout": "bshd"}),
    ("gfx90a", {"page_size": 64, "table": "sglang", "sink": 1}),
    ("gfx942", {"page_size": 1024, "seqlens_k": (0, 1, 1030), "seqlens_q": (1, 1, 1), "table": "sglang"}),
    ("gfx942", {"page_size": 64, "kv_layout": "vectorised", "d": 64, "schedule": "qr_async"}),
]
COPIES_OF_VECTORS = [
    (chip, {"page_size": size, "kv_layout": "vectorised", "d": d, "dtype": dtype, "schedule": schedule})
    for chip in CHIPS
    for size, d, dtype in ((64, 32, "bf16"), (128, 128, "f16"), (64, 128, "fp8"), (128, 80, "f16"))
    for schedule in ("qr_async", "qr_async_pinned", "qr_async_ping_pong")
    if dtype != "fp8" or chip != "gfx90a"
]
WIDE = [
    (chip, {"page_size": size, "kv_layout": layout, "table": table, "mask": mask, "soft_cap": cap, "d": 64, **lengths})
    for chip in CHIPS
    for size in (1, 16, 1024)
    for layout in ("linear", "vectorised")
    for table in ("sglang", "vllm")
    for mask in ("none", "bottom_right")
    for cap in (None, 30)
    for lengths in ({}, {"seqlens_q": (5,), "seqlens_k": (70,)},
                    {"seqlens_q": (1, 2, 3, 4, 5, 6, 7), "seqlens_k": (9, 0, 64, 63, 65, 1, 130)})
    if size > 1 or layout == "linear"
]  # fmt: skip


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("chip", "keys"),
    [*CASES, *(pytest.param(*one, marks=pytest.mark.full) for one in (*WIDE, *COPIES_OF_VECTORS))],
    ids=named,
)
def test_numbers(chip: str, keys: Keys) -> None:
    """With NaN in every row that no key lies in."""
    outcome(PREFILL, chip, {**BASE, **keys}, prepared=poisoned, specified=True)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("chip", "layout", "d"), [("gfx942", "linear", 32), ("gfx950", "vectorised", 128)])
def test_keys_behind_the_end_may_be_those_of_any_page(chip: str, layout: str, d: int) -> None:
    """K of an entry that no key has is read, here NaN, and masked; V of it is not."""

    def everywhere(problem: Any, arrays: dict[str, Any]) -> dict[str, Any]:
        """All entries that nobody uses lead to a page that nobody uses."""
        table = arrays["block_table"]
        page = int(np.setdiff1d(np.arange(problem.source.pool), table)[0])
        return poisoned(problem, {**arrays, "block_table": np.where(table < 0, page, table)})

    keys = {**BASE, "seqlens_q": (3, 70, 130), "page_size": 16, "kv_layout": layout, "d": d, "pages": 40}
    for mask in ("none", "bottom_right", "window_bottom_right:20,5"):
        outcome(PREFILL, chip, {**keys, "mask": mask}, prepared=everywhere)


@pytest.mark.parametrize("table", ["vllm", "sglang"])
@pytest.mark.parametrize("layout", ["linear", "vectorised"])
def test_the_reference_is_that_of_dense_keys(table: str, layout: str) -> None:
    """Keys copied out of their pages one by one, row by row, and given to `fmha_fwd`."""
    problem = PREFILL.problem(**BASE, page_size=16, table=table, kv_layout=layout)
    arrays = PREFILL.inputs(problem, GFX942, seed=5)
    dense = FMHA.problem(**BASE, mode="group")
    rows: dict[str, list[Any]] = {"k": [], "v": []}
    for number, length in enumerate(BASE["seqlens_k"]):
        for key in range(length):
            if table == "vllm":
                page = arrays["block_table"][number, key // 16]
            else:
                page = arrays["kv_page_indices"][arrays["kv_indptr"][number] + key // 16]
            at = key % 16
            if layout == "linear":
                rows["k"].append(arrays["k"][page, 0, at])
                rows["v"].append(arrays["v"][page, 0, at])
            else:
                rows["k"].append(arrays["k"][page, 0, :, at].reshape(-1))
                rows["v"].append(arrays["v"][page, 0, at // 8, :, at % 8])
    starts = {f"seqstart_{side}": np.cumsum([0, *BASE[f"seqlens_{side}"]]) for side in "qk"}
    given = {"q": arrays["q"], **starts, **{name: np.array(one)[None, None] for name, one in rows.items()}}
    expected, found = FMHA.reference(dense, given), PREFILL.reference(problem, arrays)
    for name in ("o", "lse"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-12)


def test_lists_that_point_nowhere_read_as_zeros() -> None:
    """Whatever device memory holds: pages that do not exist, lists that end before they begin."""
    problem = PREFILL.problem(**BASE, page_size=16, table="sglang", kv_layout="vectorised")
    arrays = PREFILL.inputs(problem, GFX942, seed=3)
    wrong = {**arrays, "kv_page_indices": np.full_like(arrays["kv_page_indices"], 10**9),
             "kv_indptr": np.array([0, 10, 3, 7], np.int32)}  # fmt: skip
    device, memories = SimulatorDevice(GFX942, checks=parse_checks("memory")), {}
    executable = Executable(device, PREFILL, problem)
    for array in PREFILL.arrays(problem):
        memories[array.name] = device.allocate(array.nbytes)
        device.write(memories[array.name], wrong.get(array.name, np.ones(array.nbytes, np.uint8)))
    executable.launch(memories)
    o = np.ones(problem.shape("o"), np.float16)
    device.read(o, memories["o"])
    assert not o.any()


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("chip", "keys"), [
    ("gfx942", {"page_size": 16, "kv_layout": "vectorised"}), ("gfx950", {"page_size": 64, "kv_layout": "vectorised"}),
    ("gfx950", {"page_size": 128, "kv_layout": "vectorised", "d": 128, "schedule": "qr_async_ping_pong"}),
])  # fmt: skip
def test_schedules_are_proved(chip: str, keys: Keys) -> None:
    target = get_target(chip)
    problem = PREFILL.problem(**{**BASE, "d": 64, **keys})
    bench = Workbench.of(PREFILL, PREFILL.spec(problem, target), target)
    assert bench.compile(bench.schedule, code=False).findings == ()


@pytest.mark.parametrize(("keys", "words"), [
    ({"page_size": 4, "kv_layout": "vectorised"}, "page_size=4: expected a multiple of 8, the elements of a vector"),
    ({"page_size": 16, "kv_layout": "vectorised", "k_strides": (8192, 1024, 40)}, "pages of vectors are packed"),
    ({"slots_k": (200, 50, 20)}, "slots_k=200,50,20: keys lie in pages; leave it out"),
    ({"seqlens_q": (3, 0)}, "seqlens_k=150,50,20: 3 numbers for 2 sequences"),
])  # fmt: skip
def test_what_is_refused(keys: Keys, words: str) -> None:
    with pytest.raises(RequestError) as refused:
        PREFILL.problem(**{**BASE, **keys})
    assert words in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(("name", "values", "words"), [
    ("kv_indptr", [0, 10, 9, 16], "array kv_indptr: 9 follows 10; expected numbers that do not fall"),
    ("kv_indptr", [0, 10, 14, 17], "array kv_indptr: pages 0 to 17 of a list of 16"),
    ("kv_indptr", [0, 11, 14, 16], "array kv_indptr: sequence 0 has 166 keys; expected at most 150"),
    ("kv_last_page_lens", [6, 17, 4], "array kv_last_page_lens: the last page of sequence 1 has 17 keys; expected 1"),
    ("kv_page_indices", [99] * 16, "array kv_page_indices: page 0 of sequence 0 is 99; expected 0 to 18"),
])  # fmt: skip
def test_lists_that_are_refused(name: str, values: list[int], words: str) -> None:
    problem = PREFILL.problem(**BASE, page_size=16, table="sglang")
    arrays = PREFILL.inputs(problem, GFX942)
    PREFILL.check_inputs(problem, arrays)
    with pytest.raises(RequestError) as refused:
        PREFILL.check_inputs(problem, {**arrays, name: np.array(values, np.int32)})
    assert words in str(refused.value)


def test_scores_are_waited_for_before_a_branch_around_both_ends_of_a_window() -> None:
    """LLVM counts by the longer of two ways only, through the selections."""
    lengths: Keys = {"seqlens_q": (8, 2), "seqlens_k": (1, 200), "hk": 2}
    problem = PREFILL.problem(
        **{**BASE, **lengths}, dtype="bf16", mask="window:63,0", page_size=8, kv_layout="vectorised"
    )
    target = get_target("gfx950")
    code = compile_kernel(PREFILL, PREFILL.spec(problem, target), target)
    assert not static_findings(code.code_object, code.kernel_name, ["hazard"])


def test_v_in_vectors_is_not_copied() -> None:
    """Its last vector may have keys that are not the sequence's, which become zeros in registers."""
    target = get_target("gfx950")
    keys = {**BASE, "page_size": 64, "kv_layout": "vectorised"}
    for schedule in ("qr_async_trload", "qr_woven_async"):
        reasons = PREFILL.validate(PREFILL.spec(PREFILL.problem(**keys, schedule=schedule), target), target)
        assert "copies V to LDS without registers, and pages are cut into vectors" in str(reasons[0])
        assert "expected qr_async" in str(reasons[0])


def test_help_names_no_type_that_is_refused() -> None:
    for operator, there in ((FMHA, True), (PREFILL, False)):
        (key,) = (key for key in operator.keys if key.name == "dtype")
        assert ("fp4" in key.help) == ("fp4" in key.form) == there
