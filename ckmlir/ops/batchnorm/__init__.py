"""Batch normalisation: channels of images normalised over all places of all images.

| module | holds |
|---|---|
| `problem.py` | what requests of training and gradients come to |
| `images.py` | how images lie, channels last or first, and the keys that say so |
| `statistics.py` | statistics and gradients in NumPy, and how far kernels may be from them |
| `channels_operator.py` | what the operators of training and gradients share |
| `channels.py`, `channels_kernel.py` | what kernels share that make numbers of channels from the sums of all parts |
| `batchnorm2d_sums.py`, `batchnorm2d_sums_kernel.py` | sums of every channel over parts of the places, in f64 |
| `batchnorm2d.py`, `batchnorm2d_kernel.py` | normalisation by statistics of the images themselves, for training |
| `batchnorm2d_infer.py` | normalisation by given statistics: one mapping |
| `batchnorm2d_bwd.py`, `batchnorm2d_bwd_kernel.py` | gradients of the images, gamma and beta |

Images pass once for sums, and once more through a mapping of `ckmlir.ops.tensors`.
"""
