"""Asked order against emitted order: what the backend kept of the steady step, cluster by cluster.

Asked is the order of fragments in the steady loop of the scheduled IR, a cluster being what lies between two barriers.
Emitted is the steady loop of the code object, each instruction with the source line that its line table gives. A
fragment and an instruction belong together when they are of one kind and one line; since fragments of one kind and line
are alike, changes of place among them are not seen. The longest common subsequence of both counts as kept.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath

from msgspec import Struct

from ckmlir.codeobject import CodeObject
from ckmlir.diagnostics import position_of
from ckmlir.mlir import ir
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.scheduling.steady_blocks import steady_blocks
from ckmlir.sim.decode import Instruction
from ckmlir.sim.decode.mix import category

KINDS = {
    "ck.mfma": "mfma", "ck.lds_read": "ds_read", "ck.lds_write": "ds_write", "ck.load_fragment": "load",
    "ck.gather_fragment": "load", "ck.store_fragment": "store", "ck.scatter_fragment": "store",
    "ck.copy_fragment": "copy", "ck.barrier": "barrier",
}  # fmt: skip
Token = tuple[str, str]
"""Kind, and file name with line ("" for barriers)."""


class Cluster(Struct, frozen=True):
    """Between two barriers of the step: fragments asked for and kept in their order, and what the backend inserted.

    `waits`, `nops`, `moves` and `vector` are instructions that stand in the emitted cluster beside the fragments.
    """

    asked: int
    kept: int
    waits: int
    nops: int
    moves: int
    vector: int


class Fidelity(Struct, frozen=True):
    """What became of a step.

    Attributes:
        clusters: in the order of the step.
        moved: fragments that were emitted elsewhere in the order.
        merged: pairs of accesses to LDS in one instruction (ds_read2, ds_write2).
        missing: fragments that were not emitted as instructions of their kind and line at all.
    """

    clusters: tuple[Cluster, ...]
    moved: int
    merged: int
    missing: int

    @property
    def asked(self) -> int:
        """Fragments of the step."""
        return sum(cluster.asked for cluster in self.clusters)

    @property
    def kept(self) -> int:
        """Fragments in the order asked for."""
        return sum(cluster.kept for cluster in self.clusters)

    def __str__(self) -> str:
        lines = [f"{self.kept} of {self.asked} fragments kept, {self.moved} moved, {self.missing} missing, "
                 f"{self.merged} pairs merged"]  # fmt: skip
        for number, one in enumerate(self.clusters):
            lines.append(
                f"  cluster {number}: {one.kept} of {one.asked} kept; inserted {one.waits} waits, {one.nops} nops, "
                f"{one.moves} moves, {one.vector} other vector instructions"
            )
        return "\n".join(lines)


def fidelity(module: ir.Module, code_object: CodeObject, kernel: str) -> Fidelity:
    """Compare the steady step of a scheduled module (its context entered) with its code object."""
    asked = asked_order(module)
    loop = steady_loop(code_object, kernel)
    emitted, extras, merged = _emitted_order(loop.instructions, code_object)
    asked = _widened(asked, emitted)
    matched = _common(asked, emitted)
    available = Counter(emitted)
    missing = sum(max(0, count - available[token]) for token, count in Counter(asked).items())
    clusters, start = [], 0
    for number, end in enumerate([*(place for place, token in enumerate(asked) if token[0] == "barrier"), len(asked)]):
        inside = [place for place in range(start, end) if asked[place][0] != "barrier"]
        inserted = extras[number] if number < len(extras) else Counter()
        clusters.append(Cluster(
            len(inside), sum(place in matched for place in inside), inserted["wait"], inserted["nop"],
            inserted["vmov"] + inserted["accvgpr_move"], inserted["valu"],
        ))  # fmt: skip
        start = end + 1
    fragments = sum(one.asked for one in clusters)
    kept = sum(one.kept for one in clusters)
    return Fidelity(tuple(clusters), fragments - kept - missing, merged, missing)


def asked_order(module: ir.Module) -> list[Token]:
    """The fragments and barriers of the steady loop; of a branch those of each way."""
    ops = (op.operation for block in steady_blocks(module) for op in block.operations)
    return [_token(op) for op in ops if op.name in KINDS]


def _token(op: ir.Operation) -> Token:
    kind, position = KINDS[op.name], position_of(op.location)
    if kind == "barrier" or position is None:
        return kind, ""
    return kind, f"{PurePath(position.file).name}:{position.line}"


def _emitted_order(
    instructions: Sequence[Instruction], code_object: CodeObject
) -> tuple[list[Token], list[Counter[str]], int]:
    """Fragments and barriers of machine code, what else stands in each cluster, and how many pairs were merged."""
    tokens: list[Token] = []
    extras: list[Counter[str]] = [Counter()]
    merged = 0
    for one in instructions:
        kind = _kind(one)
        if kind is None:
            extras[-1][category(one)] += 1
            continue
        line = code_object.line_table.lookup(one.address)
        where = f"{PurePath(line.file).name}:{line.line}" if line is not None and kind != "barrier" else ""
        pair = "2" in one.mnemonic.split("_")[1] and one.mnemonic.startswith("ds_")
        merged += pair
        tokens += [(kind, where)] * (2 if pair else 1)
        if kind == "barrier":
            extras.append(Counter())
    return tokens, extras, merged


def _kind(one: Instruction) -> str | None:
    name = one.mnemonic
    if one.encoding == "MFMA":
        return "mfma"
    if name == "s_barrier":
        return "barrier"
    if one.encoding == "DS":
        return "ds_read" if "read" in name else "ds_write" if "write" in name else None
    if one.encoding in ("MUBUF", "GLOBAL", "FLAT"):
        if one.modifiers.get("lds"):
            return "copy"
        return "load" if "load" in name else "store" if "store" in name else None
    return None


def _widened(asked: list[Token], emitted: list[Token]) -> list[Token]:
    """A fragment as often as it was split: where every one of a kind and line became n instructions."""
    have, want = Counter(emitted), Counter(asked)
    widened = []
    for token in asked:
        times = have[token] // want[token] if have[token] and have[token] % want[token] == 0 else 1
        widened += [token] * max(1, times)
    return widened


def _common(asked: Sequence[Token], emitted: Sequence[Token]) -> set[int]:
    """The places of `asked` in a longest common subsequence with `emitted`."""
    rows, columns = len(asked), len(emitted)
    longest = [[0] * (columns + 1) for _ in range(rows + 1)]
    for i in range(rows - 1, -1, -1):
        row, below = longest[i], longest[i + 1]
        for j in range(columns - 1, -1, -1):
            row[j] = below[j + 1] + 1 if asked[i] == emitted[j] else max(below[j], row[j + 1])
    found, i, j = set(), 0, 0
    while i < rows and j < columns:
        if asked[i] == emitted[j]:
            found.add(i)
            i, j = i + 1, j + 1
        elif longest[i + 1][j] >= longest[i][j + 1]:
            i += 1
        else:
            j += 1
    return found
