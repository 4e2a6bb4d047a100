"""A tiny model of attention that learns, with NumPy around the kernels of attention and of its gradients.

    python examples/train_attention.py [--arch gfx942] [--steps 40]

The model reads tokens and says of every place which token came just before. All that it has is one layer of causal
attention between embeddings and logits, so it has to learn to look one place back. Attention and its gradients run on
the device that `select_device` finds, the simulator where there is no GPU; the rest is NumPy. The gradients have a
fixed order of sums (`deterministic`, with workgroups that stay), so that a training can be repeated to the last bit.
"""

import argparse

import numpy as np

from ckmlir.ops import find_operator
from ckmlir.runtime.executable import Executable
from ckmlir.runtime.selection import select_device
from ckmlir.targets import get_target

BATCH, LENGTH, TOKENS, WIDTH, HEADS, CHANNELS = 8, 16, 8, 32, 2, 16
RATE, DECAYS, SMALL = 0.02, (0.9, 0.99), 1e-8
"""Of Adam."""


class Attention:
    """Causal attention of arrays (batch, place, head, channel) in f16, and its gradients."""

    def __init__(self, device, target) -> None:
        keys = {"b": BATCH, "h": HEADS, "sq": LENGTH, "d": CHANNELS, "mask": "top_left", "layout": "bshd"}
        forward, backward = find_operator("fmha_fwd"), find_operator("fmha_bwd")
        self.forward = Executable(device, forward, forward.problem(**keys, lse=1), target=target)
        problem = backward.problem(**keys, deterministic=1, persistent=1)
        self.backward = Executable(device, backward, problem, target=target)

    def __call__(self, q, k, v):
        """The outcome, and what its gradients will need."""
        known = {"q": q, "k": k, "v": v, "o": np.empty_like(q), "lse": np.empty((BATCH, HEADS, LENGTH), np.float32)}
        self.forward(**known)
        return known["o"], known

    def gradients(self, known, do):
        """Those of q, k and v."""
        found = {name: np.empty_like(do) for name in ("dq", "dk", "dv")}
        self.backward(**known, do=do, **found)
        return found.values()

    def close(self) -> None:
        self.forward.close()
        self.backward.close()


def step(attention, weights, tokens):
    """The loss on some tokens, and the gradients of all weights."""
    x = weights["embedding"][tokens] + weights["place"]
    q, k, v = ((x @ weights[name]).astype(np.float16).reshape(BATCH, LENGTH, HEADS, CHANNELS) for name in "qkv")
    o, known = attention(q, k, v)
    o = o.reshape(BATCH, LENGTH, -1).astype(np.float32)
    logits = (o @ weights["out"])[:, 1:]  # nothing came before the first
    wanted = np.eye(TOKENS, dtype=np.float32)[tokens[:, :-1]]
    chances = np.exp(logits - logits.max(-1, keepdims=True))
    chances /= chances.sum(-1, keepdims=True)
    loss = -np.log((chances * wanted).sum(-1)).mean()

    d_logits = np.zeros((BATCH, LENGTH, TOKENS), np.float32)
    d_logits[:, 1:] = (chances - wanted) / (BATCH * (LENGTH - 1))
    found = {"out": np.einsum("bsi,bsj->ij", o, d_logits)}
    scale = 1024  # small gradients are not lost in f16
    do = (scale * d_logits @ weights["out"].T).astype(np.float16).reshape(BATCH, LENGTH, HEADS, CHANNELS)
    d_x = np.zeros_like(x)
    for name, gradient in zip("qkv", attention.gradients(known, do), strict=True):
        gradient = gradient.reshape(BATCH, LENGTH, -1).astype(np.float32) / scale
        found[name] = np.einsum("bsi,bsj->ij", x, gradient)
        d_x += gradient @ weights[name].T
    found["place"] = d_x.sum(0)
    found["embedding"] = np.zeros_like(weights["embedding"])
    np.add.at(found["embedding"], tokens, d_x)
    return float(loss), found


def main() -> None:
    """Train, and say how the loss fell."""
    parser = argparse.ArgumentParser(description="a tiny model of attention that learns to look one place back")
    parser.add_argument("--arch", default="gfx942", help="gfx90a, gfx942 or gfx950")
    parser.add_argument("--steps", type=int, default=40)
    arguments = parser.parse_args()
    target = get_target(arguments.arch)
    selection = select_device("auto", target)
    print(f"training on the {selection.device.properties.name}: {selection.reason}")
    attention = Attention(selection.device, target)
    random = np.random.default_rng(1)
    shapes = {"embedding": (TOKENS, WIDTH), "place": (LENGTH, WIDTH), "out": (HEADS * CHANNELS, TOKENS)}
    shapes |= dict.fromkeys("qkv", (WIDTH, HEADS * CHANNELS))
    weights = {name: random.standard_normal(shape, np.float32) / shape[0] ** 0.5 for name, shape in shapes.items()}
    moments = {name: [np.zeros_like(one), np.zeros_like(one)] for name, one in weights.items()}
    losses = []
    for number in range(1, arguments.steps + 1):
        loss, gradients = step(attention, weights, random.integers(0, TOKENS, (BATCH, LENGTH)))
        losses.append(loss)
        for name, gradient in gradients.items():
            for moment, power, decay in zip(moments[name], (gradient, gradient**2), DECAYS, strict=True):
                moment += (1 - decay) * (power - moment)
            mean, square = (one / (1 - decay**number) for one, decay in zip(moments[name], DECAYS, strict=True))
            weights[name] -= RATE * mean / (np.sqrt(square) + SMALL)
    attention.close()
    selection.device.close()
    first, last, guessing = losses[0], losses[-1], np.log(TOKENS)
    print(f"loss {first:.3f} in the first step, {last:.3f} in step {len(losses)}; that of guessing is {guessing:.3f}")


if __name__ == "__main__":
    main()
