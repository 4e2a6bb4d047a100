"""Where a kernel reads many arguments again, piece by piece of a long block: what the lit test would take pages for."""

from __future__ import annotations

import re

from ckmlir.dialect.context import ck_context
from ckmlir.lowering.reload_arguments import AHEAD, MOST_ACCESSES, PIECE, ReloadArguments
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
llvm.func @turns(%count: i32, %scale: i32, %p: !llvm.ptr<8>) {
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
  %following = llvm.add %turn, %scale : i32
  llvm.br ^head(%following : i32)
^end:
  llvm.return
}
"""


def test_turns_of_many_accesses_read_few_arguments_again() -> None:
    """What a turn stores one by one counts; with fewer stores it has the argument as it is."""
    store = "rocdl.raw.ptr.buffer.store %zero, %p, %zero, %zero, 0 : i32"
    for count, loads in ((MOST_ACCESSES, 0), (MOST_ACCESSES + 1, 1)):
        with ck_context(), ir.Location.unknown():
            module = ir.Module.parse(TURNS.replace("STORES", "\n".join([store] * count)))
            ReloadArguments().apply(module)
            assert str(module).count("-> i32") == loads
