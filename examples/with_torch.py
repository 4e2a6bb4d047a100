"""Attention on PyTorch's tensors, and its gradients: in their own memory and on their own stream on a GPU; on the
simulator without one.

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


class Attention(torch.autograd.Function):
    """Attention by an executable of `fmha_fwd` with lse=1, its gradients by one of `fmha_bwd`."""

    @staticmethod
    def forward(ctx, q, k, v, ahead, back):
        o = torch.empty_like(q)
        lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
        ahead(q=q, k=k, v=v, o=o, lse=lse, stream=stream_of(q))
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.back = back
        return o

    @staticmethod
    def backward(ctx, do):
        q, k, v, o, lse = ctx.saved_tensors
        dq, dk, dv = (torch.empty_like(one) for one in (q, k, v))
        ctx.back(q=q, k=k, v=v, o=o, lse=lse, do=do.contiguous(), dq=dq, dk=dk, dv=dv, stream=stream_of(q))
        return dq, dk, dv, None, None


def stream_of(tensor):
    """PyTorch's current stream; none on the host."""
    return torch.cuda.current_stream(tensor.device) if tensor.is_cuda else None


def main() -> None:
    """Causal attention with heads that share keys, and its gradients, checked against PyTorch's own in float64."""
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
    keys = {"b": b, "h": h, "hk": hk, "sq": s, "sk": s, "d": d, "dtype": "bf16", "mask": "top_left"}
    ahead, back = find_operator("fmha_fwd"), find_operator("fmha_bwd")
    # Workspaces of the gradients come from PyTorch, too, where it has memory of the GPU.
    lent = {"allocate": lambda size: torch.empty(size, dtype=torch.uint8, device=place)} if on_gpu else {}
    attention = Executable(device, ahead, ahead.problem(**keys, lse=1))
    gradients = Executable(device, back, back.problem(**keys), **lent)
    given = [one.requires_grad_() for one in (q, k, v)]
    o = Attention.apply(*given, attention, gradients)
    do = torch.randn_like(o)
    o.backward(do)

    exact = [one.detach().double().requires_grad_() for one in given]
    repeated = (one.repeat_interleave(h // hk, dim=1) for one in exact[1:])
    expected = torch.nn.functional.scaled_dot_product_attention(exact[0], *repeated, is_causal=True)
    expected.backward(do.double())
    error = (o.double() - expected).abs().max().item()  # on a GPU this waits for the stream
    print("largest error:", error)
    assert error < 0.03
    for name, one, wanted in zip("qkv", given, exact, strict=True):
        error = ((one.grad.double() - wanted.grad).abs() / (1 + wanted.grad.abs())).max().item()
        print(f"largest error of the gradient of {name}, relative where that is above 1:", error)
        assert error < 0.03
    attention.close()
    gradients.close()
    device.close()


if __name__ == "__main__":
    main()
