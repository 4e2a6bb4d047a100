"""The schedule checker accepts what the passes make of every operator, and refuses it once anything in it is broken."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

import pytest

import ckmlir.passes.proof
from ckmlir.dialect.build import integer, integer_of, producer, string, text_of
from ckmlir.dialect.context import shared_context
from ckmlir.mlir import ir
from ckmlir.ops import find_operator
from ckmlir.passes.check_schedule import check_module
from ckmlir.passes.pipeline import PIPELINE, run_pipeline
from ckmlir.passes.walk import functions, operations
from ckmlir.targets import get_target

NAMES = [str(step.run) for step in PIPELINE]
FRAGMENTS = PIPELINE[: NAMES.index("ck-pipeline-loops")]
SCHEDULING = PIPELINE[NAMES.index("ck-pipeline-loops") : NAMES.index("ck-lower-fragments")]
SMALL = {"m": 128, "n": 128, "k": 128, "block": "64x64x32"}


@lru_cache(maxsize=8)
def texts(operator: str, arch: str, applied: str | None = None, **keys: object) -> tuple[str, str]:
    """A kernel's fragments, and what the scheduling passes make of them; `applied` replaces its loops' schedule."""
    found = find_operator(operator)
    target = get_target(arch)
    problem = found.problem(**keys)
    kernel = found.build(found.spec(problem, target), target)
    with kernel.module.context:
        run_pipeline(kernel.module, FRAGMENTS, dump_on_failure=False)
        before = str(kernel.module)
        if applied is not None:
            for function in functions(kernel.module):
                for op in operations(function):
                    if op.name == "scf.for":
                        op.attributes["ck.schedule"] = string(applied)
        run_pipeline(kernel.module, SCHEDULING, dump_on_failure=False)
        return before, str(kernel.module)


def findings(before: str, after: str, change: Callable[[list[ir.Operation]], None] | None = None) -> list[str]:
    """What the checker says, after a change to the operations of the scheduled kernel."""
    with shared_context():
        reference, module = ir.Module.parse(before), ir.Module.parse(after)
        if change is not None:
            change(kernel_operations(module))
            assert module.operation.verify()
        return [finding.check for finding in check_module(module, reference)]


def kernel_operations(module: ir.Module) -> list[ir.Operation]:
    return list(operations(next(functions(module))))


GEMMS = [
    ("gemm", arch, {**SMALL, **keys, "schedule": schedule})
    for schedule in ("unpipelined", "single_buffer", "prefetch")
    for arch, keys in (("gfx90a", {}), ("gfx942", {"layout": "CRR"}), ("gfx950", {"dtype": "fp8"}))
]
OTHERS = [
    ("gemm", "gfx942", {}),
    ("fmha_fwd", "gfx942", {"mask": "top_left"}),
    ("fmha_fwd", "gfx950", {"schedule": "unpipelined"}),
    ("layernorm2d", "gfx90a", {}),
    ("layernorm2d", "gfx942", {"n": 65536}),
]


@pytest.mark.parametrize(("operator", "arch", "keys"), [*GEMMS, *OTHERS])
def test_what_the_passes_make_is_proved(operator: str, arch: str, keys: dict[str, object]) -> None:
    assert findings(*texts(operator, arch, **keys)) == []


# -- mutations: every one of them must be refused

SUBJECTS = [
    ("gemm", "gfx942", {**SMALL, "schedule": "single_buffer"}),
    ("gemm", "gfx950", {**SMALL, "schedule": "async"}),
    ("fmha_fwd", "gfx950", {"d": 64}),
]


def erase(name: str) -> Callable[[list[ir.Operation]], Iterator[Callable[[list[ir.Operation]], None]]]:
    def mutations(ops: list[ir.Operation]) -> Iterator[Callable[[list[ir.Operation]], None]]:
        for number, op in enumerate(ops):
            if op.name == name:
                yield lambda copy, number=number: copy[number].erase()

    return mutations


def weaken_wait(ops: list[ir.Operation]) -> Iterator[Callable[[list[ir.Operation]], None]]:
    """One access or one copy more may be outstanding."""
    for number, op in enumerate(ops):
        if op.name == "ck.wait":
            counter = "copies" if "copies" in op.attributes else "lds"
            if counter in op.attributes:
                more = integer_of(op, counter) + 1

                def change(
                    copy: list[ir.Operation], number: int = number, counter: str = counter, more: int = more
                ) -> None:
                    copy[number].attributes[counter] = integer(more)

                yield change


def other_buffer(ops: list[ir.Operation]) -> Iterator[Callable[[list[ir.Operation]], None]]:
    """LDS reads of the steady loop from the tensor's other slot, or another tensor of its type."""
    allocations = [number for number, op in enumerate(ops) if op.name == "ck.lds_alloc"]
    for number, op in enumerate(ops):
        if op.name == "ck.lds_read" and "ck.stage" in op.attributes:
            mine = producer(op.operands[0])
            alike = (
                a
                for a in allocations
                if ops[a] != mine and ops[a].results[0].type == op.operands[0].type and same_layout(ops[a], mine)
            )
            for other in list(alike)[:1]:

                def change(copy: list[ir.Operation], number: int = number, other: int = other) -> None:
                    copy[number].operands[0] = copy[other].results[0]

                yield change


def same_layout(one: ir.Operation, other: ir.Operation | None) -> bool:
    return other is not None and text_of(one, "layout") == text_of(other, "layout")


def carried_crosswise(ops: list[ir.Operation]) -> Iterator[Callable[[list[ir.Operation]], None]]:
    """The steady loop hands on two neighbouring values of one type in each other's place."""
    for number, op in enumerate(ops):
        if op.name == "cf.cond_br" and op.successors[0] == op.block:
            for place in range(2, len(op.successors[0].arguments)):
                if (
                    op.operands[place].type == op.operands[place + 1].type
                    and op.operands[place] != op.operands[place + 1]
                ):

                    def change(copy: list[ir.Operation], number: int = number, place: int = place) -> None:
                        branch = copy[number]
                        first, second = branch.operands[place], branch.operands[place + 1]
                        branch.operands[place], branch.operands[place + 1] = second, first

                    yield change


def is_steady(block: ir.Block) -> bool:
    return block in list(list(block.operations)[-1].operation.successors)


def reaches_window(op: ir.Operation, steps: int) -> bool:
    """Whether an operation's result is part of a window's origin, so many operations on."""
    users = [use.owner.operation for result in op.results for use in result.uses]
    return op.name == "ck.make_window" or (steps > 0 and any(reaches_window(user, steps - 1) for user in users))


def unlimited(ops: list[ir.Operation]) -> Iterator[Callable[[list[ir.Operation]], None]]:
    """An index of the steady loop's last step that is not limited to the last iteration's."""
    for number, op in list(enumerate(ops))[::-1]:
        if op.name == "arith.minsi" and is_steady(op.block) and list(op.results[0].uses):
            yield lambda copy, number=number: copy[number].results[0].replace_all_uses_with(copy[number].operands[0])
            return


def one_further(ops: list[ir.Operation]) -> Iterator[Callable[[list[ir.Operation]], None]]:
    """Loads for one iteration more ahead."""
    for number, op in enumerate(ops):
        if op.name == "arith.constant" and is_steady(op.block) and reaches_window(op, 4):

            def change(copy: list[ir.Operation], number: int = number) -> None:
                value = copy[number].attributes["value"]
                copy[number].attributes["value"] = ir.IntegerAttr.get(value.type, value.value + 1)

            yield change


def unfenced(ops: list[ir.Operation]) -> Iterator[Callable[[list[ir.Operation]], None]]:
    """Fences beside what is pinned in the steady loop."""
    for number, op in enumerate(ops):
        beside = [ops[number - 1], *ops[number + 1 : number + 2]]
        pins = any("ck.pinned" in one.attributes or one.name == "ck.barrier" for one in beside)
        if op.name == "ck.sched_barrier" and is_steady(op.block) and pins:
            yield lambda copy, number=number: copy[number].erase()


def no_store(ops: list[ir.Operation]) -> Iterator[Callable[[list[ir.Operation]], None]]:
    yield from erase("ck.store_fragment")(ops)


MUTATIONS = {
    "barrier removed": erase("ck.barrier"),
    "wait removed": erase("ck.wait"),
    "wait weakened": weaken_wait,
    "fence removed": unfenced,
    "write to LDS removed": erase("ck.lds_write"),
    "copy to LDS removed": erase("ck.copy_fragment"),
    "store removed": no_store,
    "other buffer read": other_buffer,
    "carried values crosswise": carried_crosswise,
    "index not limited": unlimited,
    "load further ahead": one_further,
}
EXPECTED = {
    "barrier removed": {"hazard", "wait"},
    "wait removed": {"wait"},
    "wait weakened": {"wait"},
    "fence removed": {"fence"},
    "store removed": {"order"},
    "index not limited": {"order"},
}
"""Kinds of findings, of which there is one. Without a barrier another may still lie between a copy and its reader, but
one that the copying wave does not reach with its copy ended: that is a wait in the wrong place.
"""
MOST = 4


@pytest.mark.parametrize("mutation", MUTATIONS)
@pytest.mark.parametrize(
    ("operator", "arch", "keys"), SUBJECTS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_broken_schedules_are_refused(operator: str, arch: str, keys: dict[str, object], mutation: str) -> None:
    before, after = texts(operator, arch, **keys)
    with shared_context():
        scheduled = ir.Module.parse(after)  # owns the operations
        changes = list(MUTATIONS[mutation](kernel_operations(scheduled)))
    if not changes:
        pytest.skip("nothing of the kind in this kernel")
    every = max(1, len(changes) // MOST)
    for change in changes[::every]:
        found = findings(before, after, change)
        assert found, "a broken schedule was accepted"
        assert EXPECTED.get(mutation, set(found)) & set(found)


# -- schedules that the pass refuses, applied nevertheless

ILLEGAL = [
    "schedule too_few_buffers 1; ahead load 2, to_lds 1; buffers 1",
    "schedule buffer_dropped 1; ahead load 3, to_lds 2; buffers 2",
    "schedule further_ahead 1; ahead load 2, to_lds 2; buffers 2",
    "schedule clusters_swapped 1; step from_lds, to_lds",
    "schedule reads_ahead 1; ahead from_lds 1",
]
LEGAL = [
    "schedule prefetch 1; ahead load 2, to_lds 1; buffers 2",
    "schedule three 1; ahead load 3, to_lds 2; buffers 3",
    "schedule more_than_needed 1; ahead load 2, to_lds 1; buffers 4",
    "schedule late_load 1; ahead load 1; step to_lds, load",
]


@pytest.mark.parametrize("schedule", ILLEGAL)
@pytest.mark.usefixtures("credulous")
def test_illegal_schedules_are_refused(schedule: str) -> None:
    assert "dependence" in findings(*texts("gemm", "gfx942", schedule, **SMALL))


@pytest.mark.parametrize("schedule", LEGAL)
@pytest.mark.usefixtures("credulous")
def test_legal_schedules_are_accepted(schedule: str) -> None:
    assert findings(*texts("gemm", "gfx942", schedule, **SMALL)) == []


def test_the_proof_shares_no_code_with_what_it_judges() -> None:
    judged = {
        "pipeline_loops", "loop_expansion", "step_order", "allocate_lds", "lds_layouts", "lds_traffic",
        "insert_barriers", "place_sched_barriers", "bank_conflicts", "choose_paths", "loop_body", "step_policies",
        "step_markers", "wave_groups", "pending_accesses",
    }  # fmt: skip
    package = Path(ckmlir.passes.proof.__file__).parent
    for file in [*package.glob("*.py"), package.parent / "check_schedule.py"]:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                parts = node.module.split(".")
                assert not judged & set(parts), f"{file.name}: {node.module}"
                assert "scheduling" not in parts
