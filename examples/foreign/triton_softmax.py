"""Softmax of rows in Triton, compiled for gfx942 without a GPU: triton_softmax_gfx942.hsaco is what Triton 3.9.0 made.

python -m pip install triton && python triton_softmax.py
"""

from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def softmax(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    places = tl.arange(0, BLOCK)
    inside = places < n
    numbers = tl.load(x + row * n + places, mask=inside, other=-float("inf")).to(tl.float32)
    raised = tl.exp(numbers - tl.max(numbers, 0))
    tl.store(y + row * n + places, (raised / tl.sum(raised, 0)).to(tl.float16), mask=inside)


signature = {"x": "*fp16", "y": "*fp16", "n": "i32", "BLOCK": "constexpr"}
compiled = triton.compile(
    ASTSource(softmax, signature, {"BLOCK": 1024}), target=GPUTarget("hip", "gfx942", 64), options={"num_warps": 4}
)
Path(__file__).with_name("triton_softmax_gfx942.hsaco").write_bytes(compiled.asm["hsaco"])
