"""What operators on tensors of any rank share: moving, mapping and reducing strided arrays.

| module | holds |
|---|---|
| `arrays.py` | strided arrays, how they lie in the index space of an operator, keys for shapes and strides |
| `folding.py` | an index space with as few dimensions as its arrays allow |
| `tiling.py` | tiles, vectors and padding for a folded index space; the specification's part that all have |
| `blocks.py` | the tile of one workgroup in tile code: arguments, origins, views, windows |
| `expression.py` | element-wise expressions: reading, checking, evaluating them |
| `expression_key.py`, `expression_tree.py` | the key that requests give them by; their nodes |
| `linearity.py` | whether an expression is linear in some of its variables |
| `functions.py` | the named functions of expressions |
| `rounding.py` | how far an expression in f32 may be from its value; rounding to an output |
| `mapping.py`, `mapping_spec.py`, `mapping_kernel.py` | y[i] = f(a[i], b[i], …) for arrays of any strides |
| `sliding.py` | windows that slide over images |
| `tiles.py` | expressions over tiles |
| `keys.py` | keys of numbers that belong to an array: strides, permutations |
| `values.py` | values of input arrays |
"""
