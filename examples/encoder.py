"""A transformer encoder (BERT) on sentences of different lengths: by ckmlir.nn, and by NumPy in float64 beside it.

    python examples/encoder.py [--arch gfx942] [--weights model.safetensors --heads 12]

Without weights they are made from a seed. It runs on a GPU of the chip, else on the simulator."""

import argparse
from itertools import pairwise
from math import erf
from pathlib import Path

import numpy as np
from bert_weights import loaded, made

from ckmlir import nn


def encode(ops, w, ids, places, starts, heads):
    """The last hidden states of all tokens; sentences begin at `starts`. `ops` is ckmlir.nn, or NumPy's likeness."""

    def linear(x, name, activation=None):
        return ops.linear(x, w[f"{name}.weight"], w[f"{name}.bias"], activation)

    def norm(x, name, **residual):
        return ops.layer_norm(x, w[f"{name}.LayerNorm.weight"], w[f"{name}.LayerNorm.bias"], 1e-12, **residual)

    words, order, kinds = (w[f"embeddings.{one}_embeddings.weight"] for one in ("word", "position", "token_type"))
    summed = ops.elementwise("a + b + c", ops.embedding(ids, words), ops.embedding(places, order), kinds[0])
    x = norm(summed, "embeddings")
    for number in range(sum(name.endswith("query.weight") for name in w)):
        layer = f"encoder.layer.{number}"
        projected = (linear(x, f"{layer}.attention.self.{one}") for one in ("query", "key", "value"))
        q, k, v = (one.reshape(len(ids), heads, -1) for one in projected)
        mixed = ops.attention_varlen(q, k, v, starts).reshape(*x.shape)
        x = norm(linear(mixed, f"{layer}.attention.output.dense"), f"{layer}.attention.output", residual=x)
        wide = linear(x, f"{layer}.intermediate.dense", "gelu")
        x = norm(linear(wide, f"{layer}.output.dense"), f"{layer}.output", residual=x)
    return x


class InNumpy:
    """The functions of ckmlir.nn that an encoder takes."""

    embedding = staticmethod(lambda ids, table: table[ids])
    elementwise = staticmethod(lambda expression, *arrays: sum(arrays))

    def linear(self, x, weight, bias, activation):
        y = x @ weight.T + bias
        return y * (1 + np.vectorize(erf)(y / 2**0.5)) / 2 if activation == "gelu" else y

    def layer_norm(self, x, weight, bias, eps, residual=0.0):
        x = x + residual
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps) * weight + bias

    def attention_varlen(self, q, k, v, starts):
        weights = [np.exp(np.einsum("qhd,khd->hqk", q[a:b], k[a:b]) / q.shape[2] ** 0.5) for a, b in pairwise(starts)]
        ends = zip(weights, pairwise(starts), strict=True)
        return np.concatenate([np.einsum("hqk,khd->qhd", p / p.sum(-1, keepdims=True), v[a:b]) for p, (a, b) in ends])


def main() -> None:
    parser = argparse.ArgumentParser(description="a transformer encoder")
    parser.add_argument("--arch", default="gfx942", help="gfx90a, gfx942 or gfx950")
    parser.add_argument("--weights", type=Path, help="a safetensors file")
    parser.add_argument("--heads", type=int, default=4)
    options = parser.parse_args()
    exact = {name: one.astype(float) for name, one in (loaded(options.weights) if options.weights else made()).items()}
    starts = [0, 7, 8, 20]
    ids = np.random.default_rng(1).integers(0, len(exact["embeddings.word_embeddings.weight"]), starts[-1], np.int32)
    places = np.concatenate([np.arange(b - a, dtype=np.int32) for a, b in pairwise(starts)])
    with nn.Session(options.arch) as session:
        weights = {name: nn.asarray(one.astype(np.float16)) for name, one in exact.items()}
        found = encode(nn, weights, nn.asarray(ids), nn.asarray(places), starts, options.heads).numpy()
        print(f"on the {session.device.properties.name}: {found.shape} states, {len(session.kernels)} kernels")
    print("largest error:", error := np.abs(found - encode(InNumpy(), exact, ids, places, starts, options.heads)).max())
    assert error < 0.05


if __name__ == "__main__":
    main()
