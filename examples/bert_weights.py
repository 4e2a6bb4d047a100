"""Weights of a BERT encoder, for encoder.py: made from a seed, or read from a safetensors file."""

import json
from pathlib import Path

import numpy as np
from ml_dtypes import bfloat16

KINDS = {"F32": np.float32, "F16": np.float16, "BF16": bfloat16}
EARLIER = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}  # names of files from TensorFlow


def made(n: int = 64, inner: int = 128, layers: int = 2, words: int = 50, seed: int = 0) -> dict[str, np.ndarray]:
    """Weights of a small encoder, by the names that BERT's have."""
    random = np.random.default_rng(seed)
    found = {}
    for kind, rows in (("word", words), ("position", 64), ("token_type", 2)):
        found[f"embeddings.{kind}_embeddings.weight"] = random.standard_normal((rows, n))
    norms, square = ["embeddings"], ("self.query", "self.key", "self.value", "output.dense")
    for number in range(layers):
        layer = f"encoder.layer.{number}."
        shapes = {f"{layer}attention.{one}": (n, n) for one in square}
        shapes |= {f"{layer}intermediate.dense": (inner, n), f"{layer}output.dense": (n, inner)}
        norms += [f"{layer}attention.output", f"{layer}output"]
        for name, shape in shapes.items():
            found[f"{name}.weight"] = random.standard_normal(shape) / shape[1] ** 0.5
            found[f"{name}.bias"] = random.standard_normal(shape[0]) / 4
    for name in norms:
        found[f"{name}.LayerNorm.weight"] = 1 + random.standard_normal(n) / 4
        found[f"{name}.LayerNorm.bias"] = random.standard_normal(n) / 4
    return found


def loaded(path: Path) -> dict[str, np.ndarray]:
    """The weights of a file: the length of a line of JSON, in 8 bytes; the line; the numbers that it describes."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    found = {}
    for name, entry in json.loads(data[8:start]).items():
        if name != "__metadata__" and entry["dtype"] in KINDS:
            begin, end = (start + offset for offset in entry["data_offsets"])
            numbers = np.frombuffer(data[begin:end], KINDS[entry["dtype"]])
            name = name.removeprefix("bert.")
            for earlier, today in EARLIER.items():
                name = name.replace(earlier, today)
            found[name] = numbers.reshape(entry["shape"])
    return found
