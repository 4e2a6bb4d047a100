"""What the upstream passes behind the lowering leave of the dialects that they convert: nothing."""

from __future__ import annotations

from ckmlir.mlir import ir
from ckmlir.passes.pipeline import TO_LLVM, Step, run_pipeline
from ckmlir.passes.walk import nested

MODULE = """
gpu.module @k {
  func.func @f(%x: vector<4xf32>, %i: i32, %s: f32, %p: !llvm.ptr) {
    %slice = vector.extract_strided_slice %x {offsets = [1], sizes = [2], strides = [1]}
      : vector<4xf32> to vector<2xf32>
    %first = vector.extract %slice[0] : f32 from vector<2xf32>
    %m = vector.broadcast %x : vector<4xf32> to vector<2x4xf32>
    %product = vector.contract {
      indexing_maps = [affine_map<(i, k) -> (i, k)>, affine_map<(i, k) -> (k)>, affine_map<(i, k) -> (i)>],
      iterator_types = ["parallel", "reduction"], kind = #vector.kind<add>
    } %m, %x, %slice : vector<2x4xf32>, vector<4xf32> into vector<2xf32>
    %sum = vector.reduction <add>, %product : vector<2xf32> into f32
    %root = math.sqrt %sum : f32
    %zero = arith.constant 0 : i32
    %holds = arith.cmpi slt, %i, %zero : i32
    cf.cond_br %holds, ^end(%root : f32), ^end(%first : f32)
  ^end(%value: f32):
    llvm.store %value, %p : f32, !llvm.ptr
    return
  }
}
"""


def test_nothing_of_the_converted_dialects_is_left(context: ir.Context) -> None:
    """Also where a vector's operation is made of arithmetic first."""
    module = ir.Module.parse(MODULE, context)
    run_pipeline(module, [Step(TO_LLVM)])
    assert {op.name.partition(".")[0] for op in nested(module.operation)} == {"gpu", "func", "llvm"}
