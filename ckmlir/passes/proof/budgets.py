"""LDS and registers suffice.

Registers are counted from below: at each operation the vectors that it or a later one still needs, one register for
every 32 bits. What cannot fit by this count is refused for certain; that the rest fits is for the code object to show,
which knows addresses and copies too.
"""

from ckmlir.dialect.build import integer_of
from ckmlir.dialect.scalars import bits
from ckmlir.mlir import ir
from ckmlir.passes.proof.finding import Finding, tensor_name, words_for
from ckmlir.passes.proof.footprints import WIDEST, bytes_of
from ckmlir.targets import Target

LDS_BYTES = "ck.lds_bytes"


def check_budgets(function: ir.Operation, target: Target, waves: int) -> list[Finding]:
    """Findings of the kinds `lds` and `registers`."""
    return [*_check_lds(function, target), *_check_registers(function, target, waves)]


def _check_lds(function: ir.Operation, target: Target) -> list[Finding]:
    found = []
    ends = [0]
    for op in (view.operation for block in function.regions[0] for view in block):
        if op.name != "ck.lds_alloc":
            continue
        start, end = bytes_of(op)
        ends.append(end)
        if start % WIDEST:
            found.append(Finding(
                "lds", op, f"LDS tensor '{tensor_name(op)}' begins at byte {start}; accesses take up to {WIDEST} bytes "
                f"at a time, so its offset is a multiple of {WIDEST}",
            ))  # fmt: skip
        if end > target.lds_bytes:
            found.append(Finding(
                "lds", op, f"LDS tensor '{tensor_name(op)}' takes bytes {start} to {end - 1}; {target.name} has "
                f"{target.lds_bytes}: use a smaller block or fewer buffers",
            ))  # fmt: skip
    reserved = integer_of(function, LDS_BYTES) if LDS_BYTES in function.attributes else max(ends)
    if reserved > target.lds_bytes:
        message = f"reserves {reserved} bytes of LDS ({LDS_BYTES}); {target.name} has {target.lds_bytes}"
        found.append(Finding("lds", function, message))
    if reserved < max(ends):
        message = f"reserves {reserved} bytes of LDS ({LDS_BYTES}); its tensors take {max(ends)}"
        found.append(Finding("lds", function, message))
    return found


def register_limit(target: Target, waves: int) -> int:
    """Vector registers that a wave of a workgroup of so many waves can have: those of its SIMD, shared."""
    resident = -(-waves // target.simds)
    share = target.registers.vector_total // resident // target.registers.vector_granule
    return min(share * target.registers.vector_granule, target.registers.vector_per_wave)


def _check_registers(function: ir.Operation, target: Target, waves: int) -> list[Finding]:
    limit = register_limit(target, waves)
    most, where = most_live(function)
    if where is None or most <= limit:
        return []
    message = (
        f"at {words_for(where)} values of {most} vector registers are live at least; a wave of {waves} in a "
        f"workgroup has {limit} on {target.name}"
    )
    return [Finding("registers", where, message)]


def most_live(function: ir.Operation) -> tuple[int, ir.Operation | None]:
    """The largest number of vector registers that are live at once, from below, and where."""
    blocks = list(function.regions[0])
    live_in: dict[ir.Block, set[ir.Value]] = {block: set() for block in blocks}
    sizes: dict[ir.Value, int] = {}
    most: tuple[int, ir.Operation | None] = (0, None)
    changed = True
    while changed:
        changed = False
        most = (0, None)
        for block in reversed(blocks):
            ops = [view.operation for view in block]
            live = set().union(*(live_in[to] for to in ops[-1].successors)) if ops[-1].successors else set()
            count = sum(_size(one, sizes) for one in live)
            for op in reversed(ops):
                for result in op.results:
                    if result in live:
                        live.discard(result)
                        count -= _size(result, sizes)
                for operand in op.operands:
                    if operand not in live:
                        live.add(operand)
                        count += _size(operand, sizes)
                if count > most[0]:
                    most = (count, op)
            live -= set(block.arguments)
            if live != live_in[block]:
                live_in[block] = live
                changed = True
    return most


def _size(value: ir.Value, sizes: dict[ir.Value, int]) -> int:
    """Registers of a vector; scalars and constants are not counted: they may be in scalar registers, or nowhere."""
    found = sizes.get(value)
    if found is None:
        found = sizes[value] = _registers(value)
    return found


def _registers(value: ir.Value) -> int:
    if not isinstance(value.type, ir.VectorType):
        return 0
    owner = value.owner
    if not isinstance(owner, ir.Block) and owner.operation.name in ("arith.constant", "ub.poison", "vector.broadcast"):
        return 0
    shape = ir.VectorType(value.type)
    count = 1
    for length in shape.shape:
        count *= length
    return -(-count * bits(shape.element_type) // 32)
