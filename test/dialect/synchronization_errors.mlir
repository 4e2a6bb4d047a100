// Waits, fences and priorities outside what the hardware has are refused in words.

// RUN: ckmlir-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{'ck.wait' names no counter; the counters are vector_memory, lds}}
"ck.wait"() : () -> ()

// -----

// expected-error@+1 {{'ck.wait' lds = 16 is outside 0..15}}
"ck.wait"() {lds = 16 : i64} : () -> ()

// -----

// expected-error@+1 {{'ck.wait' vector_memory = -1 is outside 0..63}}
"ck.wait"() {vector_memory = -1 : i64} : () -> ()

// -----

// expected-error@+1 {{'ck.wait' attribute 'lds' must be an integer, not "0"}}
"ck.wait"() {lds = "0"} : () -> ()

// -----

// expected-error@+1 {{'ck.sched_barrier' mask 'mfma' is not one of none, non_mem_non_sideeffect,}}
"ck.sched_barrier"() {mask = "mfma"} : () -> ()

// -----

// expected-error@+1 {{'ck.sched_barrier' needs the attribute 'mask', a string}}
"ck.sched_barrier"() : () -> ()

// -----

// expected-error@+1 {{'ck.sched_group_barrier' mask 'none' is not one of non_mem_non_sideeffect,}}
"ck.sched_group_barrier"() {mask = "none", count = 1 : i64, group = 0 : i64} : () -> ()

// -----

// expected-error@+1 {{'ck.sched_group_barrier' count must be positive}}
"ck.sched_group_barrier"() {mask = "ds_read", count = 0 : i64, group = 0 : i64} : () -> ()

// -----

// expected-error@+1 {{'ck.sched_group_barrier' group must not be negative}}
"ck.sched_group_barrier"() {mask = "ds_read", count = 1 : i64, group = -1 : i64} : () -> ()

// -----

// expected-error@+1 {{'ck.priority' level 4 is outside 0..3}}
"ck.priority"() {level = 4 : i64} : () -> ()

// -----

// expected-error@+1 {{'ck.group_barrier' groups = 1; waves form 2 groups at least}}
"ck.group_barrier"() {groups = 1 : i64, first = 0 : i64, last = 0 : i64} : () -> ()

// -----

// expected-error@+1 {{'ck.group_barrier' groups 1 to 2 are not some of groups 0 to 1}}
"ck.group_barrier"() {groups = 2 : i64, first = 1 : i64, last = 2 : i64} : () -> ()

// -----

// expected-error@+1 {{'ck.group_barrier' all groups arrive; that is a ck.barrier}}
"ck.group_barrier"() {groups = 2 : i64, first = 0 : i64, last = 1 : i64} : () -> ()

// -----

// expected-error@+1 {{'ck.group_barrier' needs the attribute 'last'}}
"ck.group_barrier"() {groups = 2 : i64, first = 0 : i64} : () -> ()

// -----

func.func @wide(%flag: !llvm.ptr<1>, %number: i64) {
  // expected-error@+1 {{'ck.set_flag' a flag is an i32, not i64}}
  "ck.set_flag"(%number, %flag) : (i64, !llvm.ptr<1>) -> ()
  return
}

// -----

func.func @elsewhere(%flag: !llvm.ptr<3>, %number: i32) {
  // expected-error@+1 {{'ck.await_flag' a flag lies in memory, behind an !llvm.ptr<1>, not !llvm.ptr<3>}}
  "ck.await_flag"(%number, %flag) : (i32, !llvm.ptr<3>) -> ()
  return
}
