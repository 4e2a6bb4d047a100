"""Products of different sizes in one launch: numbers, both walks, tables that are there, what is refused."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from launch_orders import in_any_order
from operator_runner import CHIPS, agree, outcome

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.contraction.grouped import packed_table, pointed_at
from ckmlir.ops.dtypes import numpy_dtype
from ckmlir.ops.plan import PackStep, make_plan
from ckmlir.ops.request import RequestError
from ckmlir.ops.schedules import GEMM
from ckmlir.runtime import open_device
from ckmlir.runtime.executable import Executable
from ckmlir.runtime.run import check_outputs, run_operator
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.scheduling.workbench import Workbench
from ckmlir.sim.debugging import Tracer
from ckmlir.targets import get_target

GROUPED = find_operator("grouped_gemm")
GFX942 = get_target("gfx942")
RAGGED = {"m": "1,65,0,70,40", "n": "70,8,64,33,1", "k": "33,0,64,129,1"}
"""Products that no tile divides, one without rows, one whose sums are of nothing."""
ONCE = {("gfx90a", "ping_pong"), ("gfx942", "v2"), ("gfx950", "mem2_interwave")}
"""Schedules of those that stay that are run each time, on one chip."""
EVEN = {"m": "64,128,64", "n": "128,64,64", "k": "64,192,128"}
REQUESTS: tuple[dict[str, Any], ...] = (
    {**RAGGED, "persistent": 0},
    {**RAGGED, "persistent": 1, "dtype": "bf16", "layout": "RRR"},
    {**RAGGED, "layout": "CRR", "op": "relu(acc * alpha + d0) - d1 * d2", "d_kind": "row,column,full",
     "alpha": "0.5,2,1,-1,3"},
    {**RAGGED, "split_k": "1,2,1,3,1", "layout": "CCR", "persistent": 1},
    {**EVEN, "split_k": 2, "reduction": "atomic", "ldc": 136},
    {**EVEN, "table": "device", "lda": 192, "op": "gelu(acc + d0)", "d_kind": "scalar"},
    {"m": "64,70,5", "n": 72, "k": 40, "c_at": "0,72,20160", "ldc": "144,144,72", "b_at": 0, "a_at": "0,2560,5360"},
    {**EVEN, "dtype": "i8", "split_k": "1,3,2", "reduction": "atomic", "persistent": 1},
    {**RAGGED, "dtype": "fp8", "out": "bf16", "persistent": 1},
    {**RAGGED, "dtype": "f64", "op": "acc * alpha + beta * d0", "beta": (0.1, 2, 3, 4, -0.3), "split_k": 2},
    {**EVEN, "table": "device", "op": "alpha * acc", "alpha": (1, 0, 1e-5)},
)


def under_all_checkers(chip: str, **keys: object) -> None:
    """Run a request under all checkers, between guard bytes, and compare."""
    target = get_target(chip)
    problem = GROUPED.problem(**keys)
    arrays = GROUPED.inputs(problem, target, seed=3)
    result = run_operator(GROUPED, problem, arrays, target, open_device("sim", target, checks="all"), guarded=True)
    comparisons = check_outputs(GROUPED, problem, arrays, result.outputs, target)
    assert {one.name for one in comparisons} == set(result.outputs)
    assert all(one.ok for one in comparisons), "; ".join(map(str, comparisons))


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("chip", "number"), [
    pytest.param(chip, number, marks=[] if (number + 2 * place) % 5 == 0 else [pytest.mark.full])
    for (place, chip), number in itertools.product(enumerate(CHIPS), range(len(REQUESTS)))
])  # fmt: skip
def test_products_of_any_sizes(chip: str, number: int) -> None:
    """Types, layouts, expressions, D tensors, parts and walks, under all checkers and between guard bytes."""
    keys = REQUESTS[number]
    if keys.get("dtype") == "fp8" and chip == "gfx90a":
        with pytest.raises(RequestError, match="gfx90a"):
            agree("grouped_gemm", chip, **keys)
        return
    under_all_checkers(chip, **keys)


def ck_sizes(count: int = 8) -> dict[str, tuple[int, ...]]:
    """Those of CK Tile's tests: test/ck_tile/grouped_gemm."""
    return {
        "m": tuple(64 + 64 * number for number in range(count)),
        "n": tuple(128 + 64 * number for number in range(count)),
        "k": tuple(64 + 32 * number for number in range(count)),
    }


CK: dict[str, dict[str, tuple[int, ...]]] = {
    "eight": ck_sizes(),
    "zero_m": {**ck_sizes(), "m": (0,) * 8},
    "zero_k": {**ck_sizes(), "k": (0,) * 8},
    "mixed": {"m": (0, 64, 0, 192, 256, 0, 64, 128), "n": ck_sizes()["n"], "k": (64, 0, 128, 160, 0, 32, 96, 64)},
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("chip", "case", "parts"), [
    pytest.param(chip, case, parts, marks=[] if (chip, case, parts) in (
        ("gfx942", "mixed", 2), ("gfx950", "mixed", 1), ("gfx90a", "zero_m", 2),
    ) else [pytest.mark.full])
    for chip, case, parts in itertools.product(CHIPS, CK, (1, 2))
])  # fmt: skip
def test_the_sizes_of_ck_tile(chip: str, case: str, parts: int) -> None:
    """Eight products, with and without rows and sums, whole and in two parts that memory adds."""
    split = {"split_k": parts, "reduction": "atomic"} if parts > 1 else {}
    for persistent in (0, 1):
        agree("grouped_gemm", chip, **CK[case], **split, persistent=persistent)


def test_both_walks_give_the_same_bits() -> None:
    """Whoever computes a block adds in the same order; so do parts through a workspace."""
    found = []
    for persistent, seed in ((0, 1), (1, 2)):
        problem = GROUPED.problem(**RAGGED, split_k="1,2,1,3,1", persistent=persistent)
        arrays = GROUPED.inputs(problem, GFX942)
        with in_any_order(seed):
            outputs = run_operator(GROUPED, problem, arrays, GFX942, open_device("sim", GFX942)).outputs
        found.append(b"".join(one.tobytes() for one in outputs.values()))
    assert found[0] == found[1]


def with_workgroups(count: int) -> Any:
    """The operator whose persistent grid has so many workgroups."""

    class Few(type(GROUPED)):  # type: ignore[misc]
        def launch(self, *given: Any) -> Any:
            found = super().launch(*given)
            arguments = (*found.arguments[:2], np.int32(count), *found.arguments[3:])
            return type(found)((count, 1, 1), found.block, arguments)

    return Few()


def test_workgroups_that_stay_take_turns() -> None:
    """Fewer workgroups than blocks: what the launch says is what the kernel strides by."""
    problem = GROUPED.problem(m="300,64", n="200,500", k="40,72", block="64x64x64", persistent=1)
    small = get_target("gfx942")
    spec = GROUPED.spec(problem, small)
    launch = GROUPED.launch(problem, spec, small)
    assert launch.grid == (28, 1, 1) and list(launch.arguments[1:]) == [2, 28]
    operator = with_workgroups(3)
    arrays = operator.inputs(problem, small)
    result = run_operator(operator, problem, arrays, small, open_device("sim", small, checks="all"))
    assert all(one.ok for one in check_outputs(operator, problem, arrays, result.outputs, small))


@pytest.mark.parametrize(("chip", "schedule"), [
    pytest.param(chip, name, marks=[] if (chip, name) in ONCE else [pytest.mark.full])
    for chip in CHIPS for name in GEMM
])  # fmt: skip
def test_every_schedule_takes_turns(chip: str, schedule: str) -> None:
    """Whether or not loads of the next block can be on their way with it; wide rows, so that none stays behind."""
    target, operator = get_target(chip), with_workgroups(3)
    problem = operator.problem(m="300,64", n="200,504", k="40,136", block="128x128x32", persistent=1, schedule=schedule)
    arrays = operator.inputs(problem, target)
    result = run_operator(operator, problem, arrays, target, open_device("sim", target, checks="all"))
    assert all(one.ok for one in check_outputs(operator, problem, arrays, result.outputs, target))


@pytest.mark.parametrize(("schedule", "loads"), [
    ("compv4", 4), ("async", 0), pytest.param("mem3", 4, marks=pytest.mark.full),
])  # fmt: skip
def test_the_next_block_is_on_its_way_before_this_one_is_written(schedule: str, loads: int) -> None:
    """Between the last product of a block and its first store a wave reads the table, and where loads go to registers
    those of the next block's first step: 16 bytes a lane, of A and B 64 rows of 128 bytes each."""
    keys = {"m": "64,64", "n": 64, "k": "128,192", "block": "64x64x64", "schedule": schedule}
    problem, operator, done = GROUPED.problem(**keys, persistent=1), with_workgroups(1), []
    device = open_device("sim", GFX942)
    device.observe(Tracer("*", output=lambda one: done.append(one.instruction.split()[0]), waves={0}, limit=None))
    arrays = operator.inputs(problem, GFX942)
    result = run_operator(operator, problem, arrays, GFX942, device)
    assert all(one.ok for one in check_outputs(operator, problem, arrays, result.outputs, GFX942))
    store = next(number for number, name in enumerate(done) if name.startswith("buffer_store"))
    product = max(number for number, name in enumerate(done[:store]) if name.startswith("v_mfma"))
    between = done[product:store]
    assert sum(name.startswith("s_load") for name in between) > 0
    assert between.count("buffer_load_dwordx4") == loads


@pytest.mark.parametrize("chip", CHIPS)
def test_the_steady_loop_is_that_of_one_product(chip: str) -> None:
    """No vector arithmetic, at most ten scalar instructions a step, and nothing spilled, where sizes fit the block."""
    target = get_target(chip)
    problem = GROUPED.problem(m="128,256", n="256,128", k="64,192", persistent=1)
    kernel = compile_kernel(GROUPED, GROUPED.spec(problem, target), target)
    found = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (found.vgpr_spill_count, found.sgpr_spill_count, found.private_segment_size) == (0, 0, 0)
    loop = steady_loop(kernel.code_object, kernel.kernel_name)
    assert loop.mix["valu"] == 0 and loop.mix["salu"] <= 10
    # A load follows the write to LDS that empties its registers, though the loop carries what it loads.
    names = [one.mnemonic for one in loop.instructions]
    assert names.index("ds_write_b128") < names.index("buffer_load_dwordx4")


@pytest.mark.parametrize("keys", [
    {"persistent": 0}, {"persistent": 1}, {"persistent": 1, "schedule": "v1"},
    {"persistent": 1, "schedule": "ping_pong"},
])  # fmt: skip
def test_the_kernels_are_proved(keys: dict[str, Any]) -> None:
    """The schedule of the loop in the loop over blocks, whose bounds come from memory."""
    spec = GROUPED.spec(GROUPED.problem(m="64,300", **keys), GFX942)
    bench = Workbench.of(GROUPED, spec, GFX942)
    assert bench.compile(bench.schedule, code=False).findings == ()


def test_a_table_that_is_there_may_list_other_products() -> None:
    """Smaller ones in another order, through pointers into one allocation: the kernel knows what the table says."""
    problem = GROUPED.problem(m="128,128,64", n="64,128,64", k="128,64,64", table="device", ldc=128)
    listed = GROUPED.problem(m="100,0,7", n="64,64,32", k="64,64,192", table="device", ldc=128)
    spec = GROUPED.spec(problem, GFX942)
    device = open_device("sim", GFX942, checks="memory")
    executable = Executable(device, GROUPED, problem)
    inputs = GROUPED.inputs(listed, GFX942)
    memories = {}
    for array in GROUPED.arrays(listed):
        memories[array.name] = device.allocate(max(array.nbytes, 1 << 16))
        if array.role == "in":
            device.write(memories[array.name], inputs[array.name])
    addresses = {name: memories[name].address for name in pointed_at(listed, spec)}
    table = packed_table(listed, spec, GFX942, addresses)
    device.write(memories["table"], table)
    executable.launch(memories)
    wanted = GROUPED.reference(listed, inputs)
    for name in ("c_0", "c_2"):
        rows, columns = wanted[name].shape
        contents = np.empty((rows - 1) * 128 + columns, np.float16)
        device.read(contents, memories[name])
        found = np.lib.stride_tricks.as_strided(contents, (rows, columns), (256, 2))
        np.testing.assert_allclose(found.astype(np.float64), wanted[name], rtol=2**-10, atol=2**-6)
    executable.close()


def test_gaps_in_a_shared_output_stay() -> None:
    """What lies between the rows of products belongs to somebody else."""
    problem = GROUPED.problem(m="3,5", n=8, k=16, ldc=32, c_at="0,16", c_size=400)
    device = open_device("sim", GFX942)
    executable = Executable(device, GROUPED, problem)
    inputs = GROUPED.inputs(problem, GFX942)
    c = np.full(400, 7, np.float16)
    executable(**inputs, c=c)
    executable.close()
    written = np.zeros(400, bool)
    for start, rows in ((0, 3), (16, 5)):
        for row in range(rows):
            written[start + 32 * row : start + 32 * row + 8] = True
    assert (c[~written] == 7).all() and not (c[written] == 7).any()


def test_what_is_queued() -> None:
    """The table in the stream's order, then the kernel; zeros before what atomics add to, sums behind parts."""
    steps = make_plan(GROUPED, GROUPED.problem(m="64,0"), GFX942).steps
    assert isinstance(steps[0], PackStep) and len(steps) == 2
    assert [name for name, _ in steps[0].places] == ["a_0", "b_0", "c_0", "a_1", "b_1", "c_1"]
    assert len(make_plan(GROUPED, GROUPED.problem(table="device"), GFX942).steps) == 1
    assert not make_plan(GROUPED, GROUPED.problem(m="0", n="5,6"), GFX942).steps
    parts = make_plan(GROUPED, GROUPED.problem(m="64,0,64", n="64", k="256", split_k="2,2,1"), GFX942)
    assert [step.operator.name for step in parts.kernels] == ["grouped_gemm", "sum_parts", "sum_parts"]
    assert GROUPED.arrays(GROUPED.problem(table="device"))[0].name == "table"


COMPARED = {"m": (7768, 7233), "n": 2752, "k": 3456, "dtype": "bf16", "layout": "CRR", "out": "f32",
            "op": "gelu(acc) * d0 + d1 * d2 * alpha + beta * silu(d3)"}  # fmt: skip
SINGLE = {"m": (837, 1641, 1192), "n": 2737, "k": (96, 200, 464), "dtype": "bf16",
          "op": "gelu(acc + d0) + d1", "d_kind": "row,full"}  # fmt: skip


@pytest.mark.parametrize("chip", ["gfx90a", "gfx942"])
@pytest.mark.parametrize(("keys", "others"), [
    (COMPARED, ({"persistent": 1}, {"m": (7768, 7232)})),
    (SINGLE, ({"persistent": 1}, {"n": 2736}, {"op": "gelu(acc + d0)", "d_kind": "full"})),
])  # fmt: skip
def test_who_does_not_stay_keeps_no_register_in_a_lane(
    chip: str, keys: dict[str, Any], others: tuple[dict[str, Any], ...]
) -> None:
    """Narrow loads, and single elements of C beside D tensors: a workgroup for each block, unless they are told to
    stay.
    """
    target = get_target(chip)
    spec = GROUPED.spec(GROUPED.problem(**keys), target)
    assert spec.walk == "table"
    kernel = compile_kernel(GROUPED, spec, target)
    found = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (found.vgpr_spill_count, found.sgpr_spill_count, found.private_segment_size) == (0, 0, 0)
    for changed in others:
        assert GROUPED.spec(GROUPED.problem(**keys | changed), target).walk == "persistent"


@pytest.mark.parametrize("chip", ["gfx942", "gfx950"])
def test_who_is_told_to_stay_reads_tensors_behind_the_sums(chip: str) -> None:
    """Four D tensors beside rows that are compared: no register is kept in a lane, and the numbers are right."""
    target = get_target(chip)
    keys = {"m": "131,70", "n": "67,128", "k": "71,33", "layout": "CRR", "persistent": 1}
    keys |= {"op": "acc * d0 + d1 * d2 + d3"}
    spec = GROUPED.spec(GROUPED.problem(**keys), target)
    kernel = compile_kernel(GROUPED, spec, target)
    found = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (found.vgpr_spill_count, found.sgpr_spill_count, found.private_segment_size) == (0, 0, 0)
    agree("grouped_gemm", chip, **keys)


def test_who_looks_for_products_keeps_no_register_in_a_lane() -> None:
    """Beside four D tensors, where what a search begins with takes scalar registers from turn to turn."""
    target = get_target("gfx90a")
    keys = {"m": "1000,300,77", "n": "1023,515,333", "k": "4096,512,777", "layout": "CRR", "persistent": 1}
    keys |= {"dtype": "bf16", "op": "silu(acc * d0 + d1) * alpha + d2 * beta + d3"}
    kernel = compile_kernel(GROUPED, GROUPED.spec(GROUPED.problem(**keys), target), target)
    assert kernel.code_object.kernel(kernel.kernel_name).metadata.sgpr_spill_count == 0


@pytest.mark.parametrize("persistent", [0, 1])
def test_one_of_64_products_is_found_as_soon_as_one_of_two(persistent: int) -> None:
    """All lanes look for it at once: no workgroup executes an instruction more."""
    counts = []
    for products in (2, 64):
        problem = GROUPED.problem(m=(16,) * products, n=16, k=32, persistent=persistent)
        device = open_device("sim", GFX942)
        run_operator(GROUPED, problem, GROUPED.inputs(problem, GFX942), GFX942, device)
        counts.append(device.last_statistics.wave_instructions / products)
    assert counts[0] == counts[1]


@pytest.mark.full
def test_who_is_told_to_stay_stores_single_elements_without_lanes() -> None:
    """A GELU with bias and residual: the next block's numbers are not kept while C is written, and are right."""
    spec = GROUPED.spec(GROUPED.problem(**SINGLE, persistent=1), GFX942)
    kernel = compile_kernel(GROUPED, spec, GFX942)
    found = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (found.vgpr_spill_count, found.sgpr_spill_count, found.private_segment_size) == (0, 0, 0)
    sizes = {"m": (257, 130, 0, 300), "n": (133, 129, 7, 65), "k": (96, 200, 32, 64)}
    problem, operator = GROUPED.problem(**SINGLE | sizes, persistent=1), with_workgroups(3)
    arrays = operator.inputs(problem, GFX942)
    result = run_operator(operator, problem, arrays, GFX942, open_device("sim", GFX942, checks="all"))
    assert all(one.ok for one in check_outputs(operator, problem, arrays, result.outputs, GFX942))


@pytest.mark.parametrize("layout", ["RCR", "CRR", "RRR"])
def test_a_group_without_k_makes_no_loads_narrow(layout: str) -> None:
    """Its rows have no elements, so that nothing is known to divide their length but what they are said to be apart."""
    problem = GROUPED.problem(m="64,40", n="64,72", k="96,0", layout=layout)
    assert GROUPED.spec(problem, GFX942).align == (8, 8, 8)
    agree("grouped_gemm", "gfx942", m="64,40", n="64,72", k="96,0", layout=layout, persistent=1)


def test_products_as_wide_as_each_other_are_rows_of_blocks() -> None:
    """What neighbours along both axes read in common is the model's to see."""

    def shape(**keys: Any) -> tuple[int, ...] | None:
        problem = GROUPED.problem(k=64, block="64x64x32", **keys)
        found: tuple[int, ...] | None = GROUPED.launch(problem, GROUPED.spec(problem, GFX942), GFX942).shape
        return found

    assert shape(m="64,130,0", n=200, persistent=0) == (4, 4)
    assert shape(m="64,130,0", n="200,256,200", persistent=0) == (4, 4)
    assert shape(m="64,130,0", n="200,300,200", persistent=0) is None
    assert shape(m="6400,64", n=300, persistent=1) == (5, 101)


@pytest.mark.parametrize(("keys", "words"), [
    ({"m": "1,2,3", "n": "4,5"}, "n: 2 numbers for 3 products; expected 1 or 3"),
    ({"m": "64,x"}, "m=64,x"),
    ({"m": "64,64", "a_at": "0,100000000000"}, "100000000000 is among them; expected .* 0 to 2147483647,"),
    ({"m": "64,128", "n": "64", "k": "64,96", "lda": "64,95"}, "product 1: lda=95: rows of array a have 96 elements"),
    ({"m": "64", "n": "64,65", "k": "8", "ldc": "64"}, "product 1: ldc=64: rows of array c have 65 elements"),
    ({"m": "64", "n": "64", "k": "8", "ldb": "7"}, "ldb=7: rows of array b have 8 elements"),
    ({"split_k": "0"}, "split_k"),
    ({"table": "device", "split_k": 2}, "table=device: .* expected reduction=atomic"),
    ({"split_k": 2, "reduction": "atomic", "op": "relu(acc)"}, "does not add up to op of their sum"),
    ({"op": "acc + d1"}, "number them from d0 on"),
    ({"m": "64,100", "n": 64, "c_at": "0,56", "ldc": 128}, "rows of products 0 and 1 overlap at element 56 of array c"),
    ({"m": "64,0,64", "n": 64, "c_at": "0,0,4088"}, "rows of products 0 and 2 overlap at element 4088 of array c"),
    ({"m": "64,100", "n": 64, "c_at": "0,4096", "c_size": 5000},
     "c_at: product 1 reaches to element 10495 of array c, which has 5000; expected c_size=10496 at least"),
    ({"m": "64,100", "k": 64, "shuffled": 32, "b_at": "0,16388"}, "begins at element 16388 of array b; expected .* 8"),
    ({"m": "64,100", "b_size": 5}, "b_size=5: each product has an array of its own"),
    ({"m": "64,64", "c_at": "0,16384", "split_k": 2}, "c_at: parts of sums are added in arrays of each product"),
    ({"m": "64,64", "a_at": "1,2,3"}, "a_at: 3 numbers for 2 products"),
    ({"m": "64,64", "op": "alpha * acc", "alpha": "1,2,3"}, "m: 2 numbers for 3 products"),
    ({"op": "alpha * acc", "alpha": "1,x"}, "alpha=1,x: expected finite numbers that f32 can hold"),
    ({"op": "alpha * acc", "alpha": "1,1e-40"}, "alpha=1,1e-40: expected finite numbers"),
    ({"m": "70000", "n": "70000", "k": "1"}, "kernels address at most"),
])  # fmt: skip
def test_requests_that_are_refused(keys: dict[str, Any], words: str) -> None:
    """Each is one error that says what is wrong, and of which product."""
    with pytest.raises(RequestError, match=words):
        problem = GROUPED.problem(**keys)
        reasons = GROUPED.validate(GROUPED.spec(problem, GFX942), GFX942)
        if reasons:
            raise RequestError(str(reasons[0]))


def test_a_kernel_serves_other_products() -> None:
    """As many as one likes, of sizes that the same numbers divide; not another walk, if one is asked for."""
    spec = GROUPED.spec(GROUPED.problem(m="64,128", n="64", k="64", persistent=0), GFX942)
    assert not GROUPED.mismatches(GROUPED.problem(m="128,128,64,0", n="64", k="128"), spec, GFX942)
    assert GROUPED.mismatches(GROUPED.problem(m="64", n="63", k="64"), spec, GFX942)
    assert GROUPED.mismatches(GROUPED.problem(m="64", n="64", k="64", persistent=1), spec, GFX942)
    assert GROUPED.mismatches(GROUPED.problem(m="64", n="64", k="64", split_k=2), spec, GFX942)


def test_a_result_of_another_product_is_out_of_tolerance() -> None:
    """The comparison tells products apart: c_0 and c_1 exchanged are wrong."""
    problem = GROUPED.problem(m="64,64", n="64", k="64", persistent=0)
    arrays = GROUPED.inputs(problem, GFX942)
    result = run_operator(GROUPED, problem, arrays, GFX942, open_device("sim", GFX942)).outputs
    swapped = {"c_0": result["c_1"], "c_1": result["c_0"]}
    assert not any(one.ok for one in check_outputs(GROUPED, problem, arrays, swapped, GFX942))
    assert result["c_0"].dtype == numpy_dtype("f16", GFX942)


def test_parts_that_overflow_are_those_of_the_kernel_of_all() -> None:
    """Of 64 rows alone `gemm` would have one part of 128 along K, and the sum would be -inf; here there are two, of
    which memory adds the second as +inf.
    """

    def spoiled(problem: Any, arrays: dict[str, Any]) -> dict[str, Any]:
        a, b = np.zeros_like(arrays["a_0"]), np.ones_like(arrays["b_0"])
        a[1, 28], a[1, 64:] = -np.inf, 30000
        return {**arrays, "a_0": a, "b_0": b}

    keys = {"m": (64, 128), "n": 256, "k": 128, "split_k": 3, "reduction": "atomic"}
    found = outcome(GROUPED, "gfx90a", keys, prepared=spoiled)
    assert np.isnan(found.outputs["c_0"][1].astype(np.float64)).all()
