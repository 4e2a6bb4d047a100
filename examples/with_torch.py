"""Attention on PyTorch's tensors: in their own memory and on their own stream on a GPU; on the simulator without one.

    python examples/with_torch.py [--arch gfx942]

On a GPU it takes PyTorch's build for ROCm (its own HIP library is used for everything, so that memory and streams are
shared); for a try without one any build will do, that for the CPU alone included: the simulator copies tensors in and
out. PyTorch's installation page has both.
"""

import argparse
import sys

try:
    import torch
except ImportError:
    sys.exit("this example needs PyTorch, which is not installed; see its first lines")

from ckmlir.ops import find_operator
from ckmlir.runtime.executable import Executable
from ckmlir.runtime.selection import select_device
from ckmlir.targets import get_target


def main() -> None:
    """Causal attention with heads that share keys, checked against PyTorch's own in float64."""
    parser = argparse.ArgumentParser(description="attention on PyTorch's tensors")
    parser.add_argument("--arch", default="gfx942", help="gfx90a, gfx942 or gfx950")
    arguments = parser.parse_args()
    on_gpu = torch.cuda.is_available() and torch.version.hip is not None
    place = torch.device("cuda" if on_gpu else "cpu")
    selection = select_device("hip" if on_gpu else "sim", get_target(arguments.arch))
    device = selection.device
    print(f"tensors on {place}, kernels on the {device.properties.name}")

    b, h, hk, s, d = 1, 4, 2, 150, 64
    torch.manual_seed(0)
    q, k, v = (torch.randn(b, heads, s, d, dtype=torch.bfloat16, device=place) for heads in (h, hk, hk))
    o = torch.empty_like(q)
    operator = find_operator("fmha_fwd")
    problem = operator.problem(b=b, h=h, hk=hk, sq=s, sk=s, d=d, dtype="bf16", mask="top_left")
    attention = Executable(device, operator, problem)
    attention(q=q, k=k, v=v, o=o, stream=torch.cuda.current_stream() if on_gpu else None)

    repeated = (one.double().repeat_interleave(h // hk, dim=1) for one in (k, v))
    expected = torch.nn.functional.scaled_dot_product_attention(q.double(), *repeated, is_causal=True)
    error = (o.double() - expected).abs().max().item()  # on a GPU this waits for the stream
    print("largest error:", error)
    assert error < 0.03
    attention.close()
    device.close()


if __name__ == "__main__":
    main()
