// Flags become atomics and fences of the device's scope: one thread sets, every wave looks, pauses and looks again.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

module attributes {ck.target = "gfx942"} {
  // CHECK-LABEL: llvm.func @flags
  func.func @flags(%flag: !llvm.ptr<1>, %number: i32) attributes {ck.waves = 2 : i32} {
    // CHECK: rocdl.workitem.id.x
    // CHECK: llvm.fence syncscope("agent") release
    // CHECK: rocdl.s.barrier
    // CHECK: arith.cmpi eq
    // CHECK: cf.cond_br %{{.*}}, ^[[SET:bb[0-9]+]], ^[[BEHIND:bb[0-9]+]]
    // CHECK: ^[[SET]]:
    // CHECK: llvm.atomicrmw xchg %{{.*}}, %{{.*}} syncscope("agent") monotonic
    // CHECK: ^[[BEHIND]]:
    "ck.release"() : () -> ()
    "ck.barrier"() : () -> ()
    "ck.set_flag"(%number, %flag) : (i32, !llvm.ptr<1>) -> ()
    // CHECK: llvm.load %{{.*}} atomic syncscope("agent") monotonic
    // CHECK: rocdl.readfirstlane
    // CHECK: arith.cmpi sge
    // CHECK: cf.cond_br %{{.*}}, ^[[ON:bb[0-9]+]], ^[[PAUSE:bb[0-9]+]]
    // CHECK: ^[[PAUSE]]:
    // CHECK: rocdl.s.sleep 1
    // CHECK: ^[[ON]]:
    // CHECK: llvm.fence syncscope("agent") acquire
    "ck.await_flag"(%number, %flag) : (i32, !llvm.ptr<1>) -> ()
    return
  }
}
