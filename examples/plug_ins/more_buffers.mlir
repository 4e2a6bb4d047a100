// A loop gets the buffers asked for; more than the chip's LDS holds are refused.

// RUN: ckmlir-opt %s --more_buffers:MoreBuffers=count=3 | filecheck %s
// RUN: not ckmlir-opt %s --more_buffers:MoreBuffers=count=8 --reproducers=none 2>&1 | filecheck %s --check-prefix=FULL
// RUN: not ckmlir-opt %s --more_buffers:MoreBuffers=count=9 --reproducers=none 2>&1 | filecheck %s --check-prefix=MANY

// CHECK: ck.schedule = "schedule mine 1; ahead load 1; buffers 3"
// FULL: error: 8 buffers take 131072 bytes of LDS; there are 65536
// MANY: count=9: schedules have 1 to 8 buffers

!lds = !ck.lds<[4096], f32>

module attributes {ck.target = "gfx942"} {
  func.func @loop(%n: i32) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %v = arith.constant dense<1.0> : vector<1xf32>
    %lds = "ck.lds_alloc"() {layout = "lengths 4096 order 0 pitch 4096"} : () -> !lds
    scf.for %i = %zero to %n step %one : i32 {
      "ck.lds_write"(%v, %lds) {ck.stage = "load", distribution = "d0: 64@y0 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
    } {ck.schedule = "schedule mine 1; ahead load 1"}
    return
  }
}
