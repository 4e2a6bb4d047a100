"""What a mixture of experts does to rows: choosing experts, sorting by them, multiplying by their matrices.

| module | holds |
|---|---|
| `topk_softmax.py`, `topk_softmax_kernel.py` | the operator that chooses each token's experts |
| `moe_sorting.py`, `moe_sorting_kernel.py` | the operator that lists a routing's entries by expert |
| `routing.py`, `routing_kernel.py` | the words of that list |
| `listed_entries.py`, `listed_entries_kernel.py` | the operator that says which entries a list names |
| `moe_smoothquant.py`, `moe_smoothquant_kernel.py` | the operator that quantises rows for experts |
| `moe_gemm.py` | the operator that multiplies rows by their experts' matrices |
| `experts_problem.py`, `experts_scales.py` | what its requests come to, scales of groups among them |
| `experts_weights.py`, `experts_weights_plans.py` | matrices of 4 bits beside rows of 16: arithmetic, blocks |
| `experts_plans.py`, `experts_grid.py` | its blocks where a request leaves them open; the grid that these make |
| `experts_blocks.py` | blocks, and how many of them run at a time |
| `experts_few_tokens.py` | those for few tokens |
| `experts_copies.py` | those whose operands are copied to LDS, and those whose matrices go past it |
| `experts_reference.py` | its results in NumPy, and how far kernels may be from them |
| `fused_moe.py`, `moe_layer.py` | the operators of whole layers, of a given routing and of a router's logits |
| `layer_problem.py` | what requests of layers come to |
| `layer_sums.py` | what a layer makes of the sums of its products, as an expression |
| `apart.py`, `chained.py` | a layer's products by kernels of their own, or by one kernel |
| `between.py` | what is between the products: rows as computed, or quantised, by rows or by groups |

The kernels of products are those of `ckmlir.ops.contraction`: `experts_kernel.py` finds a block's rows and its expert,
`rows_kernel.py` loads and stores rows by a list, `chain_kernel.py` multiplies a block by a second matrix.
"""
