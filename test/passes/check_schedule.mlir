// What the passes schedule is proved against the program that they scheduled, and the IR stays as it was: values carried
// from step to step, two rotating LDS buffers with a remainder, a load ahead of a store to other memory.

// RUN: ckmlir-opt %S/Inputs/check_schedule_reference.mlir --ck-pipeline-loops --ck-allocate-lds --ck-insert-barriers --ck-place-sched-barriers -o %t.mlir
// RUN: ckmlir-opt %t.mlir --ck-check-schedule='reference=%S/Inputs/check_schedule_reference.mlir' -o %t.checked
// RUN: diff %t.mlir %t.checked
