"""A language model with experts, such as Mixtral, that continues sequences: by ckmlir.nn, with keys and values in pages
of a cache, and by NumPy in float64, without a cache, beside it.

    python examples/decoder.py [--arch gfx942] [--tokens 4]

Its weights are made from a seed. It runs on a GPU of the chip, else on the simulator."""

import argparse

import numpy as np

from ckmlir import nn

WORDS, HIDDEN, HEADS, KV_HEADS, CHANNELS, EXPERTS, TAKEN, INTER, LAYERS, PAGE = 96, 128, 4, 2, 32, 4, 2, 64, 2, 16


class Cache:
    """Keys and values of a layer for sequences that grow, in pages of a pool."""

    def __init__(self, sequences, pages_each):
        shape = (sequences * pages_each, PAGE, KV_HEADS, CHANNELS)
        self.keys, self.values = nn.empty(shape, "float16"), nn.empty(shape, "float16")
        order = np.random.default_rng(2).permutation(shape[0]).astype(np.int32)
        self.table = nn.asarray(order.reshape(sequences, pages_each))


def logits(w, caches, ids, lengths, rotary):
    """Of the word behind the last of `ids` (sequences, new), whose first stands at `lengths` of each sequence."""
    x = nn.embedding(nn.asarray(ids), w["words"])
    for layer, cache in enumerate(caches):
        normed = nn.rms_norm(x, None, w[layer, "attention_norm"])
        q, k, v = (nn.linear(normed, w[layer, one]).reshape(*ids.shape, -1, CHANNELS) for one in "qkv")
        mixed = nn.attention_with_kvcache(
            q, cache.keys, cache.values, k, v, *rotary, cache_seqlens=nn.asarray(lengths), block_table=cache.table,
            causal=True, rotary_interleaved=False,
        )  # fmt: skip
        x = nn.linear(mixed.reshape(*ids.shape, -1), w[layer, "o"], residual=x)
        normed = nn.rms_norm(x, None, w[layer, "experts_norm"])
        experts = (w[layer, one] for one in ("gate", "up", "down"))
        made = nn.moe(normed, *experts, nn.linear(normed, w[layer, "router"]), TAKEN, renormalize=True)
        x = nn.elementwise("a + b", x, made)
    return nn.linear(nn.rms_norm(x, None, w["norm"]), w["words"]).numpy()[:, -1]


def exact_logits(w, ids, cos, sin):
    """The same of whole sequences (sequences, length), in float64."""

    def norm(x, weight):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * weight

    def rotated(x):
        (a, b), c, s = np.split(x, 2, -1), cos[: ids.shape[1], None], sin[: ids.shape[1], None]
        return np.concatenate([a * c - b * s, b * c + a * s], -1)

    x, later = w["words"][ids], np.triu(np.ones((ids.shape[1],) * 2, bool), 1)
    for layer in range(LAYERS):
        normed = norm(x, w[layer, "attention_norm"])
        q, k, v = ((normed @ w[layer, one].T).reshape(*ids.shape, -1, CHANNELS) for one in "qkv")
        k, v = (one.repeat(HEADS // KV_HEADS, 2) for one in (rotated(k), v))
        scores = np.einsum("bqhd,bkhd->bhqk", rotated(q), k) / CHANNELS**0.5
        weights = np.exp(np.where(later, -np.inf, scores))
        mixed = np.einsum("bhqk,bkhd->bqhd", weights / weights.sum(-1, keepdims=True), v)
        x = x + mixed.reshape(*ids.shape, -1) @ w[layer, "o"].T
        normed = norm(x, w[layer, "experts_norm"])
        chances = np.exp(normed @ w[layer, "router"].T)
        chances *= chances >= np.sort(chances)[..., -TAKEN, None]
        gate, up = (np.einsum("bsh,eih->bsei", normed, w[layer, one]) for one in ("gate", "up"))
        made = np.einsum("bsei,ehi->bseh", gate / (1 + np.exp(-gate)) * up, w[layer, "down"])
        x = x + (chances[..., None] / chances.sum(-1)[..., None, None] * made).sum(2)
    return norm(x, w["norm"])[:, -1] @ w["words"].T


def made_weights(random):
    """Weights from a generator, as f16 holds them."""
    shapes = {"words": (WORDS, HIDDEN), "norm": (HIDDEN,)}
    for layer in range(LAYERS):
        wide, narrow = HEADS * CHANNELS, KV_HEADS * CHANNELS
        of_layer = {
            "attention_norm": (HIDDEN,), "q": (wide, HIDDEN), "k": (narrow, HIDDEN), "v": (narrow, HIDDEN),
            "o": (HIDDEN, wide), "experts_norm": (HIDDEN,), "router": (EXPERTS, HIDDEN),
            "gate": (EXPERTS, INTER, HIDDEN), "up": (EXPERTS, INTER, HIDDEN), "down": (EXPERTS, HIDDEN, INTER),
        }  # fmt: skip
        shapes |= {(layer, name): shape for name, shape in of_layer.items()}
    drawn = {name: random.standard_normal(shape) for name, shape in shapes.items()}
    ranged = {name: one / one.shape[-1] ** 0.5 if one.ndim > 1 else 1 + one / 10 for name, one in drawn.items()}
    return {name: one.astype(np.float16) for name, one in ranged.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description="a language model")
    parser.add_argument("--arch", default="gfx942", help="gfx90a, gfx942 or gfx950")
    parser.add_argument("--tokens", type=int, default=4, help="how many each sequence is continued by")
    options = parser.parse_args()
    random = np.random.default_rng(1)
    weights = made_weights(random)
    exact = {name: one.astype(float) for name, one in weights.items()}
    written = random.integers(0, WORDS, (2, 13), np.int32)
    longest = written.shape[1] + options.tokens
    angles = np.arange(longest)[:, None] / 100.0 ** (np.arange(CHANNELS // 2) / (CHANNELS // 2))
    cos, sin = np.cos(angles).astype(np.float16), np.sin(angles).astype(np.float16)
    error, ids, lengths = 0.0, written, np.zeros(len(written), np.int32)
    with nn.Session(options.arch) as session:
        held = {name: nn.asarray(one) for name, one in weights.items()}
        caches = [Cache(len(written), -(-longest // PAGE)) for _ in range(LAYERS)]
        rotary = nn.asarray(cos), nn.asarray(sin)
        for _ in range(options.tokens):
            found = logits(held, caches, ids, lengths, rotary)
            error = max(error, np.abs(found - exact_logits(exact, written, cos.astype(float), sin.astype(float))).max())
            lengths = lengths + np.int32(ids.shape[1])
            ids = found.argmax(-1, keepdims=True).astype(np.int32)
            written = np.concatenate([written, ids], 1)
        print(f"on the {session.device.properties.name}, {len(session.kernels)} kernels:", *written.tolist(), sep="\n")
    print("largest error:", error)
    assert error < 0.05


if __name__ == "__main__":
    main()
