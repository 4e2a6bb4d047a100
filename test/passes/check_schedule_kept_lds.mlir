// What an iteration leaves in LDS for the next one is followed: through halves of a tensor that are written one by one,
// loops in loops, parts of branches, and loops that decide each time.

// RUN: ckmlir-opt %S/Inputs/check_schedule_kept_lds_reference.mlir --ck-pipeline-loops --ck-allocate-lds --ck-insert-barriers --ck-place-sched-barriers -o %t.mlir
// RUN: ckmlir-opt %t.mlir --ck-check-schedule='reference=%S/Inputs/check_schedule_kept_lds_reference.mlir'
