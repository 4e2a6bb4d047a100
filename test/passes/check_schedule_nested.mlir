// Loops in loops are proved: an inner loop whose end is read from memory in each iteration of the outer one, values carried
// by both, an LDS tensor of the outer loop that two inner loops read, one of them with rotating buffers of its own.

// RUN: ckmlir-opt %S/Inputs/check_schedule_nested_reference.mlir --ck-pipeline-loops --ck-allocate-lds --ck-insert-barriers --ck-place-sched-barriers -o %t.mlir
// RUN: ckmlir-opt %t.mlir --ck-check-schedule='reference=%S/Inputs/check_schedule_nested_reference.mlir'
