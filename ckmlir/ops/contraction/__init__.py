"""What all products of matrices share: one loop over K whose parts are chosen, and the operators' common half.

| part | file | what it decides |
|---|---|---|
| walk | `walks_kernel.py`, `table_kernel.py`, `experts_kernel.py` | which block of which product, and which part of K |
| rows | `rows_kernel.py` | which rows of an array belong to those of a block |
| operand | `operands_kernel.py` | how a tile of A or B is found and brought to the matrix instruction |
| accumulation | `accumulation_kernel.py`, `scaling_kernel.py` | what a step adds: products, or scaled ones of groups |
| loop | `loop_kernel.py` | the loop over K: the only one |
| epilogue | `epilogue_kernel.py` | what is computed from the accumulators, and how it is arranged |
| sink | `sinks_kernel.py` | how it gets to memory, and who adds sums that workgroups share |

Parts are objects chosen by a name of the specification: `walks_kernel.WALKS`, `sinks_kernel.SINKS`.

`work_kernel.py` has what walks share, `parts_kernel.py` which part of K and product of a batch a workgroup has.
`merged_kernel.py` shows the parts tensors as matrices, dimensions merged; `sum_parts.py` adds what workgroups have
summed in parts (`added_parts.py`). `contraction_spec.py` has what a kernel's code depends on, `defaults.py` chooses it
(`few_rows.py` and `few_blocks.py` with `low_blocks.py`, and `large_blocks.py`, for products of such sizes),
`problem.py` holds a request, `grouped.py` several in one launch; `operator.py` is the operators' base; what it chooses
kernels with (`choosing.py`, `axes.py`), and compares results with (`expected.py`), is imported when it is asked to.
"""
