"""What operators that work row by row share.

| module | holds |
|---|---|
| `arrays.py` | the arrays of an operator as a table, from which kernel arguments, launches and views follow |
| `layout.py` | how rows lie over a workgroup: the specification's part that all have, its choice and its checks |
| `operator.py` | reading of keys, launches and default kernels, from the table |
| `quantization.py` | quantisation of rows as NumPy sees it: scales, the rule of rounding, tolerances |
| `quantizing.py` | operators whose purpose is to quantise: their listed kernels and references |
| `block_kernel.py` | the rows of one workgroup in tile code: loads, folds over a row, stores |
| `quantize_kernel.py` | the quantised store in tile code |
"""
