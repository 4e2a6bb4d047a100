"""Where a kernel reads many arguments again, piece by piece of a long block: what the lit test would take pages for."""

from __future__ import annotations

import re

import pytest

from ckmlir.dialect.context import ck_context
from ckmlir.lowering.kernel_arguments import MANY
from ckmlir.lowering.reload_arguments import AHEAD, HALF, MOST_ACCESSES, MOST_STEADY, PIECE, SEVERAL, ReloadArguments
from ckmlir.mlir import ir

STORES = 3 * PIECE
KERNEL = """
llvm.func @alone(%count: i32, %p: !llvm.ptr<1>, ARGUMENTS) {
  %zero = llvm.mlir.constant(0 : i32) : i32
  %a = llvm.mlir.constant(dense<1.0> : vector<4xf16>) : vector<4xf16>
  %c = llvm.mlir.constant(dense<0.0> : vector<4xf32>) : vector<4xf32>
  %is = llvm.icmp "slt" %zero, %count : i32
  llvm.cond_br %is, ^work, ^end
^work:
  llvm.cond_br %is, ^way, ^end
^way:
  STORES
  llvm.br ^steady(%c : vector<4xf32>)
^steady(%sum: vector<4xf32>):
  %product = rocdl.mfma.f32.4x4x4f16 %a, %a, %sum, 0, 0, none
    : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
  %go = llvm.icmp "sgt" %count, %zero : i32
  llvm.cond_br %go, ^steady(%product : vector<4xf32>), ^end
^end:
  llvm.return
}
"""


def kernel_with(arguments: int) -> list[str]:
    """The operations of the block before the loop, which store one argument again and again."""
    given = ", ".join(f"%m{number}: i64" for number in range(arguments))
    stores = "\n".join(["llvm.store %m0, %p : i64, !llvm.ptr<1>"] * STORES)
    with ck_context(), ir.Location.unknown():
        module = ir.Module.parse(KERNEL.replace("ARGUMENTS", given).replace("STORES", stores))
        ReloadArguments().apply(module)
        text = str(module)
    return text.split("^bb2:")[1].split("^bb3")[0].splitlines()


def test_a_long_block_reads_many_arguments_several_times() -> None:
    """Each piece has what it stores from a load of its own, which stands some operations before it."""
    lines = [line for line in kernel_with(40) if "llvm.load" in line or "llvm.store" in line]
    stored = [re.findall(r"llvm.store (%\S+),", line) for line in lines]
    first = {name: place for place, names in reversed(list(enumerate(stored))) for name in names}
    loaded = {line.split()[0]: place for place, line in enumerate(lines) if "-> i64" in line}
    assert first.keys() == loaded.keys() and len(loaded) == STORES // PIECE
    begun, *later = (first[name] - place for name, place in loaded.items())
    assert begun == 2 and all(distance >= AHEAD for distance in later)


def test_few_arguments_are_not_read_again() -> None:
    assert not [line for line in kernel_with(4) if "llvm.load" in line]


TURNS = """
llvm.func @turns(%count: i32, %scale: i32, %p: !llvm.ptr<8>, ARGUMENTS) {
  %thread = rocdl.workitem.id.x : i32
  %six = llvm.mlir.constant(6 : i32) : i32
  %number = llvm.lshr %thread, %six : i32
  %wave = rocdl.readfirstlane %number : i32
  %workgroup = rocdl.workgroup.id.x : i32
  %place = llvm.shl %workgroup, %six : i32
  %zero = llvm.mlir.constant(0 : i32) : i32
  %a = llvm.mlir.constant(dense<1.0> : vector<4xf16>) : vector<4xf16>
  %c = llvm.mlir.constant(dense<0.0> : vector<4xf32>) : vector<4xf32>
  llvm.br ^head(%zero : i32)
^head(%turn: i32):
  %is = llvm.icmp "slt" %turn, %count : i32
  llvm.cond_br %is, ^begin, ^end
^begin:
  llvm.br ^steady(%c : vector<4xf32>)
^steady(%sum: vector<4xf32>):
  %product = rocdl.mfma.f32.4x4x4f16 %a, %a, %sum, 0, 0, none
    : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
  %go = llvm.icmp "sgt" %turn, %zero : i32
  llvm.cond_br %go, ^steady(%product : vector<4xf32>), ^behind
^behind:
  STORES
  rocdl.raw.ptr.buffer.store %wave, %p, %place, %zero, 0 : i32
  %following = llvm.add %turn, %scale : i32
  llvm.br ^head(%following : i32)
^end:
  llvm.return
}
"""


def turns_with(stores: int, rest: int = 1) -> str:
    """Turns with so many stores, of a kernel with so many dwords of arguments that it does not need."""
    store = "rocdl.raw.ptr.buffer.store %zero, %p, %zero, %zero, 0 : i32"
    given = ", ".join(f"%m{number}: i32" for number in range(rest))
    with ck_context(), ir.Location.unknown():
        module = ir.Module.parse(TURNS.replace("STORES", "\n".join([store] * stores)).replace("ARGUMENTS", given))
        ReloadArguments().apply(module)
        return str(module)


def test_turns_of_many_accesses_read_few_arguments_again() -> None:
    """What a turn stores one by one counts; with fewer stores it has the argument as it is, and the wave's number."""
    for stores, again in ((MOST_ACCESSES - 1, 0), (MOST_ACCESSES, 1)):
        text = turns_with(stores)
        assert (text.count("-> i32"), text.count("rocdl.readfirstlane")) == (3 * again, 1 + again)


@pytest.mark.parametrize(("rest", "again"), [(SEVERAL // 4, 1), (MANY // 4, 0)])
def test_turns_of_many_arguments_keep_the_numbers_of_the_wave_and_the_workgroup(rest: int, again: int) -> None:
    """Others compute the wave's number anew behind a steady loop, and what follows from the workgroup's."""
    text = turns_with(MOST_ACCESSES, rest)
    assert text.count("!llvm.ptr<4> -> i32") >= 1
    assert (text.count("rocdl.readfirstlane"), text.count("llvm.shl")) == (1 + again, 1 + again)


ONLY = """
llvm.func @only(%count: i32, %scale: i64, %p: !llvm.ptr<8>, %q: !llvm.ptr<1>, ARGUMENTS) {
  %zero = llvm.mlir.constant(0 : i32) : i32
  %a = llvm.mlir.constant(dense<1.0> : vector<4xf16>) : vector<4xf16>
  %c = llvm.mlir.constant(dense<0.0> : vector<4xf32>) : vector<4xf32>
  llvm.br ^steady(%c : vector<4xf32>)
^steady(%sum: vector<4xf32>):
  STORES
  %product = rocdl.mfma.f32.4x4x4f16 %a, %a, %sum, 0, 0, none
    : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
  %go = llvm.icmp "sgt" %count, %zero : i32
  llvm.cond_br %go, ^steady(%product : vector<4xf32>), ^behind
^behind:
  llvm.store %scale, %q : i64, !llvm.ptr<1>
  llvm.return
}
"""


@pytest.mark.parametrize(
    ("stores", "rest", "again"),
    [(MOST_STEADY + 1, HALF // 4, 1), (MOST_STEADY, HALF // 4, 0), (MOST_STEADY + 1, 1, 0)],
)
def test_what_is_behind_a_steady_loop_of_many_accesses_reads_again(stores: int, rest: int, again: int) -> None:
    """Arguments of a kernel with one turn; with fewer accesses or arguments it has them as they are."""
    store = "rocdl.raw.ptr.buffer.store %zero, %p, %zero, %zero, 0 : i32"
    given = ", ".join(f"%m{number}: i32" for number in range(rest))
    with ck_context(), ir.Location.unknown():
        module = ir.Module.parse(ONLY.replace("STORES", "\n".join([store] * stores)).replace("ARGUMENTS", given))
        ReloadArguments().apply(module)
        _, behind = str(module).split("^bb2:")
    assert behind.count("!llvm.ptr<4> -> i64") == again
