// What a chip lacks is refused before the backend sees it, with the chips that have it.

// RUN: ckmlir-opt %s --ck-lower-fragments --split-input-file --verify-diagnostics

gpu.module @kernels [#rocdl.target<chip = "gfx942">] {
  func.func @transposed() attributes {ck.waves = 1 : i32, ck.lds_bytes = 2048 : i64} {
    %lds = "ck.lds_alloc"() {layout = "lengths 16x64 order 0,1 pitch 64", offset = 0 : i64} : () -> !ck.lds<[16, 64], f16>
    // expected-error@+1 {{a transposing LDS read: gfx942 has no transposing LDS read (ds_read_b64_tr_b16, _b8, _b4); gfx950 has}}
    %0 = "ck.lds_read"(%lds) {distribution = "d0: 4@y0 4@lane, d1: 16@lane 4@y1", registers = array<i32: 0, 1, 2, 3>, transposed} : (!ck.lds<[16, 64], f16>) -> vector<4xf16>
    return
  }
}

// -----

!view = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1) align 8">
!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1) align 8", [8, 64]>
gpu.module @kernels [#rocdl.target<chip = "gfx90a">] {
  func.func @wide_copy(%p: !llvm.ptr<1>) attributes {ck.waves = 1 : i32, ck.lds_bytes = 1024 : i64} {
    %zero = arith.constant 0 : i32
    %view = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !view
    %window = "ck.make_window"(%view, %zero, %zero) : (!view, i32, i32) -> !window
    %lds = "ck.lds_alloc"() {layout = "lengths 8x64 order 0,1 pitch 64", offset = 0 : i64} : () -> !ck.lds<[8, 64], f16>
    // expected-error@+1 {{a copy to LDS: gfx90a loads 4 bytes a lane straight to LDS, not 16}}
    "ck.copy_fragment"(%window, %lds) {distribution = "d0: 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[8, 64], f16>) -> ()
    return
  }
}

// -----

gpu.module @kernels [#rocdl.target<chip = "gfx942">] {
  func.func @halves(%x: vector<1xf32>) attributes {ck.waves = 1 : i32} {
    // expected-error@+1 {{the halves of a wave: gfx942 has no lane swap (v_permlane32_swap_b32); gfx950 has}}
    %0 = "ck.half"(%x) {upper} : (vector<1xf32>) -> vector<1xf32>
    return
  }
}
