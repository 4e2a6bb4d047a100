// What another workgroup has written is read behind a wait for its flag.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[64], strides=[1]); view(d0)", [64]>
module attributes {ck.target = "gfx942"} {
  func.func @read(%p: !llvm.ptr<1>, %flag: !llvm.ptr<1>, %n: i32) -> vector<1xf32> attributes {ck.waves = 1 : i32, arg_attrs = [{llvm.noalias}, {llvm.noalias}, {}]} {
    %zero = arith.constant 0 : i32
    %v = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !view
    %w = "ck.make_window"(%v, %zero) : (!view, i32) -> !window
    "ck.await_flag"(%n, %flag) : (i32, !llvm.ptr<1>) -> ()
    %t = "ck.load_fragment"(%w) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
    return %t : vector<1xf32>
  }
}
