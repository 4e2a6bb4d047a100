"""The scheduling problem of a loop: what is to be ordered, what depends on what, and what there is to run it.

A problem is plain data and its JSON form is versioned, so that it can be solved outside this project. A solution is a
`Schedule`: how many iterations ahead each fragment runs, and the order of the step (`Schedule.fragments`).

An edge `u -> v` of distance d says: v of iteration i + d comes after u of iteration i. In a step that runs u for a
iterations ahead and v for b it holds exactly if `d + a - b > 0`, or `d + a - b == 0` and u stands before v.
"""

import json
from collections.abc import Mapping
from functools import cached_property
from operator import is_
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ckmlir.errors import CkmlirError, from_json
from ckmlir.records import plain
from ckmlir.scheduling.steps import WHOLE

VERSION = 1
KINDS = ("flow", "anti", "output", "memory")


class ProblemError(CkmlirError, ValueError):
    """JSON that is not a scheduling problem of this version."""


class Node(Struct, frozen=True):
    """An operation of the loop's body that becomes instructions.

    Attributes:
        number: its place among the nodes, in program order.
        op: the operation's name.
        stage: its stage ("" outside all), and `index` its place among the fragments of that stage, -1 if it is none:
            a fragment has a place of its own in the step, other nodes follow their users.
        unit: key of `limits.units`.
        latency, busy, issue: cycles, see `targets.timing.Cycles`.
        source: where the cycles come from.
        defines, ends: vector registers of what it computes, and of what it is the last in program order to use.
        tensor, lds_bytes: the LDS tensor that it reads or writes, and its size ("" and 0: none).
        line: file:line, or "".
        carried: whether its result goes round the loop.
        least: cycles that no backend can do without on its unit; None: `busy`.
    """

    number: int
    op: str
    stage: str
    index: int
    unit: str
    latency: int
    busy: int
    issue: int
    source: str
    defines: int
    ends: int
    tensor: str
    lds_bytes: int
    line: str
    carried: bool
    least: int | None = None

    @property
    def is_fragment(self) -> bool:
        """Whether it has a place of its own in the step."""
        return self.index >= 0


class Edge(Struct, frozen=True):
    """`target` of iteration i + `distance` comes after `source` of iteration i, `latency` cycles or more.

    `rotating`: the distance is the number of LDS buffers.
    """

    source: int
    target: int
    kind: str
    latency: int
    distance: int
    rotating: bool = False


class Limits(Struct, frozen=True):
    """What there is.

    Attributes:
        vector_registers, accumulation_registers: of a wave.
        lds_bytes: of a workgroup.
        waves: of the workgroup; `simds` of a compute unit.
        units: name -> whether all SIMDs share it.
        barriers: whether waves of a workgroup must meet between accesses to LDS.
    """

    vector_registers: int
    accumulation_registers: int
    lds_bytes: int
    waves: int
    simds: int
    units: Mapping[str, bool]
    barriers: bool

    @property
    def waves_per_simd(self) -> int:
        """Waves of the workgroup on one SIMD."""
        return -(-self.waves // self.simds)


class Problem(Struct, frozen=True, dict=True):
    """A loop to be scheduled.

    Attributes:
        name: of the kernel.
        target: the chip.
        buffers: LDS buffers that the distances of anti-dependences stand for.
        effects: numbers of nodes that must not run ahead.
        groups: of waves that run the loop out of phase.
    """

    name: str
    target: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    limits: Limits
    buffers: int
    effects: tuple[int, ...]
    groups: int = 1

    def __post_init__(self) -> None:
        for edge in self.edges:
            if not (0 <= edge.source < len(self.nodes) and 0 <= edge.target < len(self.nodes)):
                raise ProblemError(f"an edge from node {edge.source} to {edge.target}; there are {len(self.nodes)}")
            if edge.kind not in KINDS or edge.distance < 0:
                raise ProblemError(f"an edge of kind '{edge.kind}' and distance {edge.distance}")
        for place, node in enumerate(self.nodes):
            if node.number != place or node.unit not in self.limits.units:
                raise ProblemError(f"node {place} has number {node.number} and unit '{node.unit}'")

    @cached_property
    def fragments(self) -> list[Node]:
        """The nodes with places of their own."""
        return [node for node in self.nodes if node.is_fragment]

    @cached_property
    def numbers(self) -> dict[tuple[str, int], int]:
        """The node that stands for each place of a step, by stage and number."""
        found: dict[tuple[str, int], int] = {}
        for node in self.nodes:
            found.setdefault((node.stage, node.index if node.is_fragment else WHOLE), node.number)
        return found

    def with_buffers(self, buffers: int, own: Mapping[str, int] | None = None) -> "Problem":
        """The same with another number of LDS buffers, some tensors (`own`) with numbers of their own."""
        numbers, edges = own or {}, list(self.edges)
        for place, edge in enumerate(edges):
            if edge.rotating:
                distance = numbers.get(self.nodes[edge.source].tensor, buffers)
                if distance != edge.distance:
                    edges[place] = replace(edge, distance=distance)
        same = buffers == self.buffers and all(map(is_, edges, self.edges))
        return self if same else replace(self, edges=tuple(edges), buffers=buffers)

    def to_json(self) -> str:
        """The problem as text; `Problem.from_json` reads it."""
        return json.dumps({"format": "ckmlir scheduling problem", "version": VERSION, **plain(self)}, indent=1)

    @staticmethod
    def from_json(text: str) -> "Problem":
        """Read what `to_json` wrote.

        Raises:
            ProblemError: it is not that, of another version, or does not hang together.
        """
        try:
            data = from_json(text)
        except ValueError as error:
            raise ProblemError(f"this is not JSON: {error}") from None
        if not isinstance(data, dict) or data.get("version") != VERSION:
            found = data.get("version") if isinstance(data, dict) else None
            raise ProblemError(f"a scheduling problem of version {VERSION} is expected, not {found}")
        try:
            return Problem(
                name=data["name"],
                target=data["target"],
                nodes=tuple(_read(Node, one) for one in data["nodes"]),
                edges=tuple(_read(Edge, one) for one in data["edges"]),
                limits=_read(Limits, data["limits"]),
                buffers=data["buffers"],
                effects=tuple(data["effects"]),
                groups=data.get("groups", 1),
            )
        except (KeyError, TypeError) as error:
            raise ProblemError(f"the scheduling problem lacks or misplaces {error}") from None


def _read(kind: Any, data: Mapping[str, Any]) -> Any:
    required = len(kind.__struct_fields__) - len(kind.__struct_defaults__)
    names = [name for place, name in enumerate(kind.__struct_fields__) if name in data or place < required]
    unknown = sorted(set(data) - set(names))
    if unknown:
        raise ProblemError(f"unknown field {', '.join(unknown)} of a {kind.__name__.lower()}")
    return kind(**{name: data[name] for name in names})
