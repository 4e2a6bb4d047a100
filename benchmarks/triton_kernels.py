"""The kernels of compile_time.py and timing.py in Triton, to be compiled beside ours. Needs the package `triton`;
nothing runs.

f16, 4096 columns, pointers and sizes that 16 divides, so that accesses are 16 bytes wide. Rows come in two forms: as
in Triton's tutorials (programs that take several rows, pipelined; columns in a loop, for rows of any length), and the
least there is, one block that holds the row.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def softmax(x, y, x_stride, y_stride, rows, columns, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        values = tl.load(x + row * x_stride + offsets, mask=inside, other=-float("inf"))
        powers = tl.exp(values.to(tl.float32) - tl.max(values, axis=0))
        tl.store(y + row * y_stride + offsets, powers / tl.sum(powers, axis=0), mask=inside)


@triton.jit
def softmax_of_a_block(x, y, x_stride, y_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    values = tl.load(x + row * x_stride + offsets, mask=inside, other=-float("inf")).to(tl.float32)
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row * y_stride + offsets, powers / tl.sum(powers, axis=0), mask=inside)


@triton.jit
def layernorm(x, gamma, beta, y, x_stride, y_stride, columns, epsilon, BLOCK: tl.constexpr):
    x += tl.program_id(0) * x_stride
    y += tl.program_id(0) * y_stride
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for first in range(0, columns, BLOCK):
        offsets = first + tl.arange(0, BLOCK)
        total += tl.load(x + offsets, mask=offsets < columns, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / columns
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for first in range(0, columns, BLOCK):
        offsets = first + tl.arange(0, BLOCK)
        inside = offsets < columns
        centred = tl.where(inside, tl.load(x + offsets, mask=inside, other=0.0).to(tl.float32) - mean, 0.0)
        squares += centred * centred
    inverse = tl.rsqrt(tl.sum(squares, axis=0) / columns + epsilon)
    for first in range(0, columns, BLOCK):
        offsets = first + tl.arange(0, BLOCK)
        inside = offsets < columns
        values = tl.load(x + offsets, mask=inside, other=0.0).to(tl.float32)
        scale, shift = tl.load(gamma + offsets, mask=inside), tl.load(beta + offsets, mask=inside)
        tl.store(y + offsets, (values - mean) * inverse * scale + shift, mask=inside)


@triton.jit
def layernorm_of_a_block(x, gamma, beta, y, x_stride, y_stride, columns, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    values = tl.load(x + row * x_stride + offsets, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(values, axis=0) / columns
    centred = tl.where(inside, values - mean, 0.0)
    inverse = tl.rsqrt(tl.sum(centred * centred, axis=0) / columns + epsilon)
    scale, shift = tl.load(gamma + offsets, mask=inside), tl.load(beta + offsets, mask=inside)
    tl.store(y + row * y_stride + offsets, centred * inverse * scale + shift, mask=inside)


@triton.jit
def rmsnorm(x, gamma, y, x_stride, y_stride, columns, epsilon, BLOCK: tl.constexpr):
    x += tl.program_id(0) * x_stride
    y += tl.program_id(0) * y_stride
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for first in range(0, columns, BLOCK):
        offsets = first + tl.arange(0, BLOCK)
        values = tl.load(x + offsets, mask=offsets < columns, other=0.0).to(tl.float32)
        squares += values * values
    inverse = tl.rsqrt(tl.sum(squares, axis=0) / columns + epsilon)
    for first in range(0, columns, BLOCK):
        offsets = first + tl.arange(0, BLOCK)
        inside = offsets < columns
        values = tl.load(x + offsets, mask=inside, other=0.0).to(tl.float32)
        tl.store(y + offsets, values * inverse * tl.load(gamma + offsets, mask=inside), mask=inside)


@triton.jit
def rmsnorm_of_a_block(x, gamma, y, x_stride, y_stride, columns, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    values = tl.load(x + row * x_stride + offsets, mask=inside, other=0.0).to(tl.float32)
    inverse = tl.rsqrt(tl.sum(values * values, axis=0) / columns + epsilon)
    tl.store(y + row * y_stride + offsets, values * inverse * tl.load(gamma + offsets, mask=inside), mask=inside)


@triton.jit
def transpose(x, y, m, n, x_stride, y_stride, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    values = tl.load(x + rows[:, None] * x_stride + columns[None, :], mask=inside)
    tl.store(y + columns[:, None] * y_stride + rows[None, :], tl.trans(values), mask=tl.trans(inside))


@triton.jit
def copy(x, y, size, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < size
    tl.store(y + offsets, tl.load(x + offsets, mask=inside), mask=inside)


@triton.jit
def gemm(
    a, b, c, m, n, k, a_stride, b_stride, c_stride,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(n, N)
    rows = tl.program_id(0) // tiles * M + tl.arange(0, M)
    columns = tl.program_id(0) % tiles * N + tl.arange(0, N)
    depth = tl.arange(0, K)
    a_places = a + (rows % m)[:, None] * a_stride + depth[None, :]
    b_places = b + (columns % n)[None, :] * b_stride + depth[:, None]
    total = tl.zeros((M, N), dtype=tl.float32)
    for step in range(tl.cdiv(k, K)):
        if WHOLE:
            left = tl.load(a_places)
            right = tl.load(b_places)
        else:
            left = tl.load(a_places, mask=depth[None, :] < k - step * K, other=0.0)
            right = tl.load(b_places, mask=depth[:, None] < k - step * K, other=0.0)
        total = tl.dot(left, right, total)
        a_places += K
        b_places += K
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * c_stride + columns[None, :], total.to(c.dtype.element_ty), mask=inside)


@dataclass(frozen=True)
class Form:
    """A kernel as it is compiled: its arguments (* for f16 arrays, i and f for numbers), constants and waves."""

    function: Any
    kinds: str
    constants: dict[str, int]
    waves: int = 4


ROW = {"BLOCK": 4096}
KERNELS: dict[str, tuple[Form, ...]] = {
    "gemm f16 128x128x64": (Form(gemm, "***iiiiii", {"M": 128, "N": 128, "K": 64, "WHOLE": 0}),),
    "gemm f16, default": (Form(gemm, "***iiiiii", {"M": 256, "N": 256, "K": 64, "WHOLE": 0}, waves=8),),
    "layernorm2d f16 n4096": (
        Form(layernorm, "****iiif", {"BLOCK": 1024}),
        Form(layernorm_of_a_block, "****iiif", ROW),
    ),
    "rmsnorm2d f16 n4096": (Form(rmsnorm, "***iiif", {"BLOCK": 1024}), Form(rmsnorm_of_a_block, "***iiif", ROW)),
    "softmax f16 n4096": (
        Form(softmax, "**iiii", {**ROW, "STAGES": 2}, waves=8),
        Form(softmax_of_a_block, "**iii", ROW),
    ),
    "transpose2d f16": (Form(transpose, "**iiii", {"BLOCK": 64}),),
    "copy f16": (Form(copy, "**i", {"BLOCK": 8192}),),
}
"""By name in compile_time.py."""
TYPES = {"*": "*fp16", "i": "i32", "f": "fp32"}


def compilers(name: str, arch: str) -> list[Callable[[], Any]]:
    """What compiles the forms of a kernel, each from its Python function to a code object, with no cache to help."""
    return [_compiler(form, arch) for form in KERNELS.get(name, ())]


def _compiler(form: Form, arch: str) -> Callable[[], Any]:
    arguments = dict(zip(form.function.arg_names, form.kinds, strict=False))
    signature = {name: TYPES[kind] for name, kind in arguments.items()} | dict.fromkeys(form.constants, "constexpr")
    divisible = {(place,): [["tt.divisibility", 16]] for place, kind in enumerate(form.kinds) if kind != "f"}

    def compile_once() -> Any:
        with tempfile.TemporaryDirectory() as fresh, triton.knobs.cache.scope():
            triton.knobs.cache.dir = fresh
            source = ASTSource(form.function, signature, dict(form.constants), divisible)
            return triton.compile(source, target=GPUTarget("hip", arch, 64), options={"num_warps": form.waves})

    return compile_once
