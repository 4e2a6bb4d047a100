"""Manifold-constrained hyper-connections: what mixes the streams of a residual network, and the mixing.

| module | holds |
|---|---|
| `kinds.py` | how many coefficients there are, of which kinds and forms |
| `mixing.py` | coefficients in NumPy, how far kernels may be from them, and their keys |
| `mhc.py` | the operator that makes them of rows, by a product with sums of squares beside it |
| `mhc_coefficients.py`, `mhc_coefficients_kernel.py` | its second step: of the sums of all parts of K |
| `streams.py`, `streams_kernel.py` | sums of streams with these as weights: what the two below share |
| `mhc_input.py`, `mhc_post.py` | the operators that make a layer's input, and the streams behind the layer |

The product is the loop of `ckmlir.ops.contraction` with the accumulation of `squares_kernel.py`.
"""
