"""Programs for `drawn_programs`, from a seed."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
from drawn_programs import BINARY, Program, Step
from kernel_runner import DTYPES

from ckmlir.dialect.distribution import Distribution

LANES = 64
STEPS = [
    "load", "binary", "binary", "choose", "spread", "scan", "permute", "piece", "moved", "by_index", "update", "keep",
    "change", "kept_tile",
]  # fmt: skip
AROUND = ["loop", "branch"]
"""Steps, and those that have steps in them."""


def distribution(random: Random, lengths: tuple[int, ...], waves: int) -> Distribution:
    """Each factor of two goes to lanes, waves or registers, as far as there are any; the rest hold copies."""
    left = {"lane": LANES, "wave": waves}
    share = random.choice((0.0, 0.2, 0.5))
    dims = [dim for dim, length in enumerate(lengths) for _ in range(length.bit_length() - 1)]
    owners: list[str] = []
    for _ in dims:
        free = [owner for owner in left if left[owner] > 1]
        owner = random.choice(free) if free and random.random() >= share else "register"
        if owner in left:
            left[owner] //= 2
        owners.append(owner)
    if random.random() < 0.5:  # lanes along the last dimension
        owners.sort(key=("wave", "register", "lane").index)
    texts: list[list[str]] = [[] for _ in lengths]
    for number, (dim, owner) in enumerate(zip(dims, owners, strict=True)):
        texts[dim].append(f"2@y{owners[:number].count('register')}" if owner == "register" else f"2@{owner}")
    copies = " ".join(f"{count}@{owner}" for owner, count in left.items() if count > 1)
    parts = [f"r: {copies}"] * bool(copies)
    return Distribution.parse(", ".join(parts + [f"d{dim}: {' '.join(one) or '1'}" for dim, one in enumerate(texts)]))


class Drawing:
    """A program as it is drawn: `known` has the tiles that may be taken where the drawing stands, `held` what lies in
    LDS there, each by how it lies.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.waves = self.random.choice((1, 2, 4))
        self.arrays: list[np.ndarray[Any, Any]] = []
        self.known: dict[int, Distribution] = {}
        self.held: dict[int, Distribution] = {}
        self.steps: list[Step] = []
        self.count = self.depth = 0

    def program(self) -> Program:
        """Steps, and at the end stores of some tiles."""
        self.load()
        for _ in range(self.random.randint(4, 14)):
            self.step()
        for number in self.random.sample(sorted(self.known), min(len(self.known), 5)):
            shape = tuple(max(length - self.random.choice((0, 0, 1, 3)), 1) for length in self.known[number].lengths)
            self.add("store", (number,), self.known[number], array=self.array(shape), makes=False)
        return Program(self.waves, self.steps, self.arrays)

    def step(self) -> None:
        """One that can be drawn here."""
        getattr(self, self.random.choice(STEPS + AROUND * (self.depth < 2)))()

    def add(self, name: str, sources: tuple[int, ...], lies: Distribution, *, makes: bool = True, **data: Any) -> int:
        """Add a step. Returns the number of its tile."""
        body, number = data.pop("body", ()), self.number(lies) if makes else -1
        self.steps.append(Step(name, sources, number, lies, data, body))
        return number

    def number(self, lies: Distribution) -> int:
        """Of a new tile."""
        self.count += 1
        self.known[self.count] = lies
        return self.count

    def array(self, shape: tuple[int, ...]) -> int:
        """A new array of small and of any numbers."""
        made = np.array([self.random.randint(-99, 99) for _ in range(int(np.prod(shape)))], np.int32)
        made[:: self.random.choice((2, 7))] *= self.random.choice((1, 1, 12345678))
        self.arrays.append(made.reshape(shape))
        return len(self.arrays) - 1

    def any(self, lies: Distribution | None = None) -> int:
        """A tile, one that lies so."""
        return self.random.choice([number for number, one in self.known.items() if lies in (None, one)])

    def moved_to(self, number: int, lies: Distribution) -> int:
        """The tile, where it has to lie."""
        if self.known[number] == lies:
            return number
        dtype = self.random.choice(tuple(DTYPES))
        return self.add("moved", (number,), lies, dtype=dtype, lds=self.random.random() < 0.5)

    # -- steps

    def load(self) -> None:
        bits = (LANES * self.waves).bit_length() - 1 + self.random.choice((-1, 0, 1, 2, 3))
        first = self.random.randint(1, bits - 1)
        lengths = (1 << first, 1 << bits - first)
        shape = tuple(2 * length + self.random.choice((0, 1, 8, -length // 2)) for length in lengths)
        lies = distribution(self.random, lengths, self.waves)
        self.add(
            "load", (), lies, array=self.array(shape), first=self.random.choice((0, 1, lengths[0])),
            moved=self.random.choice((0, 1, lengths[0])) * bool(self.depth), open=self.random.random() < 0.3,
        )  # fmt: skip

    def binary(self) -> None:
        left = self.any()
        lies = self.known[left]
        self.add("binary", (left, self.any(lies)), lies, symbol=self.random.choice(tuple(BINARY)))

    def choose(self) -> None:
        left = self.any()
        lies = self.known[left]
        self.add("choose", (left, self.any(lies)), lies, number=self.random.randint(-9, 9))

    def spread(self) -> None:
        tile, kind = self.any(), self.random.choice(("sum", "max"))
        self.add("spread", (tile,), self.known[tile], axis=self.random.randrange(2), kind=kind)

    def scan(self) -> None:
        tile = self.any()
        self.add("scan", (tile,), self.known[tile], axis=self.random.randrange(2), exclusive=self.random.random() < 0.5)

    def permute(self) -> None:
        tile = self.any()
        self.add("permute", (tile,), self.known[tile].permute((1, 0)), order=(1, 0))

    def piece(self) -> None:
        tile, axis = self.any(), self.random.randrange(2)
        length = self.known[tile].lengths[axis] // self.random.choice((2, 4)) or 1
        start = length * self.random.randrange(self.known[tile].lengths[axis] // length)
        try:
            lies = self.known[tile].slice(axis, start, length)[0]
        except ValueError:  # within lanes or waves
            return
        self.add("piece", (tile,), lies, axis=axis, start=start, length=length)

    def moved(self) -> None:
        tile = self.any()
        self.moved_to(tile, distribution(self.random, self.known[tile].lengths, self.waves))

    def _indices(self, lies: Distribution, axis: int) -> int:
        """Numbers for an axis of a tile that lies so."""
        length = lies.lengths[axis]
        array = self.array((length,))
        tile = self.add("load", (), lies.along(axis), array=array, first=0, moved=0, open=False)
        found = self.add("indices", (tile,), lies.along(axis), count=length + 3)
        for number in (tile, found):
            del self.known[number]  # of one dimension
        return found

    def by_index(self) -> None:
        tile, axis = self.any(), self.random.randrange(2)
        lies = distribution(self.random, self.known[tile].lengths, self.waves)
        dtype = self.random.choice(tuple(DTYPES))
        self.add("by_index", (tile, self._indices(lies, axis)), lies, axis=axis, dtype=dtype)

    def update(self) -> None:
        tile, axis = self.any(), self.random.randrange(2)
        added = self.any(self.known[tile])
        lies = distribution(self.random, self.known[tile].lengths, self.waves)
        self.add("update", (tile, added, self._indices(self.known[added], axis)), lies, axis=axis)

    def keep(self) -> None:
        tile = self.any()
        self.count += 1
        self.held[self.count] = self.known[tile]
        self.add("keep", (tile,), self.known[tile], makes=False, held=self.count)

    def change(self) -> None:
        alike = [number for number, lies in self.held.items() if lies in self.known.values()]
        if alike:
            held, axis = self.random.choice(alike), self.random.randrange(2)
            lies = self.held[held]
            sources = self.any(lies), self._indices(lies, axis)
            self.add("change", sources, lies, makes=False, held=held, axis=axis)

    def kept_tile(self) -> None:
        if self.held:
            held = self.random.choice(sorted(self.held))
            lies = distribution(self.random, self.held[held].lengths, self.waves)
            self.add("kept_tile", (), lies, held=held)

    def loop(self) -> None:
        self._around("loop", carried=self.number(self.known[self.any()]))

    def branch(self) -> None:
        self._around("branch", bound=self.random.choice((-100, 0, 90, 10**6)))

    def _around(self, name: str, **data: Any) -> None:
        """A step whose body makes of one tile another that lies as that does."""
        outside, kept, held = self.steps, dict(self.known), dict(self.held)
        lies = self.known[data["carried"]] if "carried" in data else self.known[self.any()]
        if "carried" in data:
            kept.pop(data["carried"])
        self.steps, self.depth = [], self.depth + 1
        for _ in range(self.random.randint(1, 4)):
            self.step()
        alike = [number for number, one in self.known.items() if one.lengths == lies.lengths]
        data["ends"] = self.moved_to(self.random.choice(alike), lies)
        body, self.steps, self.known, self.depth = tuple(self.steps), outside, kept, self.depth - 1
        self.held = held
        self.add(name, (self.any(lies),), lies, body=body, **data)
