"""Arrays of a product as views: matrices at their pitches, and tensors whose dimensions are merged."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace

from ckmlir.lang import Pointer, Scalar, View, view
from ckmlir.lang.views import Amount
from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.contraction.merged import SIDES
from ckmlir.ops.contraction.side import NAMES
from ckmlir.ops.contraction.windows import parse_windows
from ckmlir.ops.tensors.tiling import STRIDED, UNIT


def distance_arguments(spec: ContractionSpec) -> list[str]:
    """Kernel arguments that say how rows lie: pitches; or lengths and strides of tensors (`Merged.arguments`), or of
    images and windows (`WindowsSpec.arguments`).
    """
    if not spec.merged:
        if spec.windows:
            pitches = parse_windows(spec.windows).arguments()
        else:
            pitches = [f"ld_{name}" for name in spec.tensors] if spec.sources else ["lda", "ldb"]
        behind = (*NAMES[: len(spec.side)], *spec.matrices_behind, *spec.bias_behind)
        beside, written = ([f"ld_{name}" for name in names] for names in ((*spec.scales, *spec.index), behind))
        return [*pitches, *beside, "ldc", *written]
    lengths = [f"{group}{place}" for group, rank in _ranks(spec).items() if rank > 1 for place in range(rank)]
    strides = []
    for name, word in zip(spec.arrays, spec.merged, strict=True):
        letters = word.replace(".", "")
        strides += [f"{name}_stride{place}" for place, letter in enumerate(letters) if letter == STRIDED]
    return [*lengths, *strides]


def known_divisors(spec: ContractionSpec) -> dict[str, int]:
    """By group of dimensions what divides the last of them: the widest vector of those that lie along it."""
    known = dict.fromkeys("mnk", 1)
    for name, word in zip(spec.arrays, spec.merged, strict=True):
        for group, letters in zip(_sides(name), word.split("."), strict=True):
            if letters.endswith(UNIT):
                known[group] = max(known[group], _align(spec, name))
    return known


def tensor_view(
    spec: ContractionSpec, name: str, pointer: Pointer, given: SimpleNamespace, sizes: Mapping[str, Scalar]
) -> View:
    """A tensor as a matrix; `sizes` are the lengths of the merged dimensions."""
    word, known = spec.merged[spec.arrays.index(name)], known_divisors(spec)
    lengths: list[Amount] = []
    for group, letters in zip(_sides(name), word.split("."), strict=True):
        if len(letters) == 1:
            lengths.append(sizes[group])
            continue
        lengths += [getattr(given, f"{group}{place}") for place in range(len(letters) - 1)]
        lengths.append(getattr(given, f"{group}{len(letters) - 1}").multiple_of(known[group]))
    strides: list[Amount] = [
        1 if letter == UNIT else getattr(given, f"{name}_stride{place}").multiple_of(_align(spec, name))
        for place, letter in enumerate(word.replace(".", ""))
    ]
    rows, columns = map(len, word.split("."))
    seen = view(pointer, lengths, strides)
    if rows > 1:
        seen = seen.merge(*range(rows))
    return seen.merge(*range(1, 1 + columns)) if columns > 1 else seen


def _ranks(spec: ContractionSpec) -> dict[str, int]:
    """Dimensions of every group."""
    found: dict[str, int] = dict.fromkeys("mnk", 1)
    for name, word in zip(spec.arrays, spec.merged, strict=True):
        found |= {group: len(letters) for group, letters in zip(_sides(name), word.split("."), strict=True)}
    return found


def _sides(name: str) -> str:
    return SIDES.get(name, SIDES["c"])


def _align(spec: ContractionSpec, name: str) -> int:
    place = spec.arrays.index(name) - len(spec.tensors)
    if place < 0:
        return spec.align[0 if name == "a" else 1]
    return int(spec.side[place].rpartition(":")[2]) if place < len(spec.side) else spec.align[2]
