"""No two waves meet in LDS without a barrier between them, and nobody relies on an access that has not ended.

Abstract interpretation over the control-flow graph. The state is the set of accesses that may be open, that is, not yet
ordered before what all waves do next, and how far each has got on the path where it is furthest from its end:

- An access to LDS has ended for certain after a wait with `lds = 0`. Smaller counts than all prove nothing here: the
  backend merges neighbouring accesses into one instruction (ds_read2), so that fragments do not count instructions.
- A copy to LDS has ended after a wait that leaves no more copies in flight than were issued behind it. Every copy has a
  mark of its own in the machine code, so these counts are exact. At the end of the kernel s_endpgm waits for all
  (CDNA3 ISA, SOPP S_ENDPGM).
- A barrier closes what has ended. What has not ended stays open beyond it.

An access that meets an open one in the same bytes, one of them writing, is a race if different waves touch those bytes.
The waves of a workgroup take the same way (`uniformity`), so two accesses that no barrier separates are always met in
one order or the other on some path.

Groups of waves may be out of phase (`arrivals`): the barrier at which one group meets another is then not the same one
of the program. So an ended access has for every pair of groups the barriers at which the second has arrived since the
first ended it, less those by which it was ahead then; it is over for the second once that is positive. What comes later
in the program thus happens later, whichever waves do it, or is refused.

A wave's own accesses to LDS take effect in the order in which they are issued (CDNA3 ISA, 4.4: LDS instructions return
in order). Its copies land in the order of their issue too (vmcnt counts them so), but not in that of other accesses:
they travel through the memory pipeline, so a wave waits for its own copy before it reads or writes there, and for its
own accesses before it copies over them.
"""

from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import NamedTuple

from ckmlir.dialect.build import integer_of
from ckmlir.mlir import ir
from ckmlir.passes.proof.arrivals import GROUP_BARRIER, Arrivals, Lead, after
from ckmlir.passes.proof.finding import Finding, tensor_name, words_for
from ckmlir.passes.proof.footprints import Footprint, footprint, in_any_order, is_access, span

MANY = 1 << 30


class Open(NamedTuple):
    """How far an open access has got: ended or not; copies issued behind it; whether a barrier was passed too early.

    `since`, once it has ended: the barriers between, for every group that did it (rows) and every one that comes later.
    """

    ended: bool
    behind: int
    passed: bool
    since: tuple[tuple[int, ...], ...] = ()

    def join(self, other: "Open") -> "Open":
        """Where two paths meet: the lesser knowledge."""
        since = tuple(tuple(map(min, *rows)) for rows in zip(self.since, other.since, strict=False))
        return Open(self.ended and other.ended, min(self.behind, other.behind), self.passed or other.passed, since)

    def arrived(self, groups: range) -> "Open":
        """After a barrier of some groups."""
        if not self.ended:
            return self._replace(passed=True)
        return self._replace(
            since=tuple(tuple(min(1, n + (group in groups)) for group, n in enumerate(row)) for row in self.since)
        )

    @property
    def over(self) -> bool:
        """Whether it is for all groups."""
        return self.ended and all(n > 0 for row in self.since for n in row)


def ended_now(lead: Lead) -> tuple[tuple[int, ...], ...]:
    """The barriers between an access that ends here and later ones, if none follows."""
    return tuple(tuple(min(1, theirs - mine) for theirs in lead) for mine in lead)


State = dict[int, Open]
"""Open accesses by number."""


def check_hazards(function: ir.Operation, waves: int, arrivals: Arrivals, *, drains: bool = False) -> list[Finding]:
    """Findings of the kinds `hazard` and `wait`; each pair of operations once. `drains`: copies may land in any order,
    so that only a wait for all accesses to memory ends one."""
    return _Hazards(function, waves, arrivals, drains=drains).run()


class _Hazards:
    def __init__(self, function: ir.Operation, waves: int, arrivals: Arrivals, *, drains: bool) -> None:
        self.waves, self.drains = waves, drains
        self.groups = arrivals.groups
        self.leads = [arrivals.entering.get(block, ()) for block in function.regions[0]]
        blocks = list(function.regions[0])
        number = {block: index for index, block in enumerate(blocks)}
        self.successors = [[number[to] for op in block for to in op.operation.successors] for block in blocks]
        self.accesses: list[Footprint] = []
        self.place: dict[int, tuple[int, int]] = {}
        self.findings: dict[tuple[ir.Operation, ir.Operation], Finding] = {}
        self.blocks = [list(self._events(index, block)) for index, block in enumerate(blocks)]
        self.conflicts = self._conflicts()

    def _events(self, block: int, ops: ir.Block) -> Iterator[tuple[ir.Operation, int | None]]:
        for place, op in enumerate(view.operation for view in ops):
            if is_access(op):
                self.place[len(self.accesses)] = block, place
                yield op, len(self.accesses)
                self.accesses.append(footprint(op, self.waves))
            elif op.name in ("ck.wait", "ck.barrier", GROUP_BARRIER):
                yield op, None

    def _conflicts(self) -> list[dict[int, tuple[int, int]]]:
        """For every access those that it conflicts with: (bytes shared by different waves, by one wave)."""
        spans = [found.every for found in self.accesses]
        table: list[dict[int, tuple[int, int]]] = []
        for one, every in zip(self.accesses, spans, strict=True):
            row: dict[int, tuple[int, int]] = {}
            for number, (other, also) in enumerate(zip(self.accesses, spans, strict=True)):
                if not (one.writes or other.writes) or not every & also:
                    continue
                if one.alloc == other.alloc and in_any_order(one.op, other.op):
                    continue
                apart = same = 0
                for mine, theirs, rest in zip(one.waves, other.waves, other.others, strict=True):
                    apart |= mine & rest
                    same |= mine & theirs
                if (one.kind == "copy") == (other.kind == "copy"):
                    same = 0
                if apart or same:
                    row[number] = apart, same
            table.append(row)
        return table

    def run(self) -> list[Finding]:
        entering: list[State | None] = [{}, *[None] * (len(self.blocks) - 1)]
        pending = [0]
        while pending:
            index = pending.pop(0)
            state = dict(entering[index] or {})
            lead = self.leads[index]
            for op, access in self.blocks[index]:
                state = self._step(op, access, state, lead)
                lead = after(op, lead)
            for successor in self.successors[index]:
                before = entering[successor]
                joined = dict(state) if before is None else _join(before, state)
                if joined != before:
                    entering[successor] = joined
                    pending.append(successor)
        return list(self.findings.values())

    def _step(self, op: ir.Operation, access: int | None, state: State, lead: Lead) -> State:
        if access is not None:
            return self._access(access, state)
        if op.name in ("ck.barrier", GROUP_BARRIER):
            some = op.name == GROUP_BARRIER
            groups = range(integer_of(op, "first"), integer_of(op, "last") + 1) if some else range(self.groups)
            passed = {one: open_.arrived(groups) for one, open_ in state.items()}
            return {one: open_ for one, open_ in passed.items() if not open_.over}
        return {one: self._waited(op, one, open_, lead) for one, open_ in state.items()}

    def _waited(self, wait: ir.Operation, one: int, open_: Open, lead: Lead) -> Open:
        if open_.ended or not self._ends(wait, one, open_):
            return open_
        return open_._replace(ended=True, since=ended_now(lead))

    def _ends(self, wait: ir.Operation, one: int, open_: Open) -> bool:
        if self.accesses[one].kind != "copy":
            return "lds" in wait.attributes and integer_of(wait, "lds") == 0
        if self.drains:
            return "vector_memory" in wait.attributes and integer_of(wait, "vector_memory") == 0
        # Copies are among the accesses to memory, of which no more are outstanding than all of these.
        left = [integer_of(wait, name) for name in ("copies", "vector_memory") if name in wait.attributes]
        return bool(left) and (min(left) == 0 or open_.behind >= min(left))

    def _access(self, access: int, state: State) -> State:
        for other, (apart, same) in self.conflicts[access].items():
            if other not in state:
                continue
            open_ = state[other]
            near = self._too_near(access, other, open_) if apart and self.groups > 1 else None
            if apart and (self.groups == 1 or not open_.ended or near):
                self._race(access, other, open_, apart, near)
            elif same and not open_.ended:
                self._unfinished(access, other, same)
        if self.accesses[access].kind != "copy":
            return {**state, access: Open(False, 0, False)}
        counted = {
            one: open_._replace(behind=min(open_.behind + 1, MANY)) if self.accesses[one].kind == "copy" else open_
            for one, open_ in state.items()
        }
        return {**counted, access: Open(False, 0, False)}

    def _too_near(self, access: int, other: int, open_: Open) -> tuple[int, int, int] | None:
        """The least barriers that lie between two groups, that of the other access and that of this; None: enough."""
        if not open_.ended:
            return None
        pairs = [
            (barriers, there, here)
            for there, row in enumerate(open_.since)
            for here, barriers in enumerate(row)
            if barriers < 1 and self._meet(other, there, access, here)
        ]
        return min(pairs, default=None)

    def _meet(self, other: int, there: int, access: int, here: int) -> bool:
        """Whether different waves of these groups touch the same bytes."""
        theirs, mine = self._of_group(other, there), self._of_group(access, here)
        if there != here:
            return bool(reduce(or_, theirs) & reduce(or_, mine))
        return any(one & two for at, one in enumerate(theirs) for to, two in enumerate(mine) if at != to)

    def _of_group(self, access: int, group: int) -> tuple[int, ...]:
        size = self.waves // self.groups
        return self.accesses[access].waves[group * size : (group + 1) * size]

    def _race(
        self, access: int, other: int, open_: Open, shared: int, near: tuple[int, int, int] | None = None
    ) -> None:
        mine, theirs = self.accesses[access], self.accesses[other]
        doing = {
            "read": "be reading", "write": "be writing", "copy": "be copying into", "update": "be changing",
        }[theirs.kind]  # fmt: skip
        message = (
            f"{words_for(mine.op)} {_verb(mine)} LDS tensor '{tensor_name(mine.alloc)}' at {span(shared)}, "
            f"which another wave may still {doing}: "
        )
        if near is not None and near[1] != near[2]:
            barriers, there, here = near
            message += (
                f"group {here} of the waves is {_counted(1 - barriers)} too near to group {there}, which comes behind "
                "it; put more between them"
            )
            check = "hazard"
        elif not open_.passed:
            message += "no barrier lies between them"
            check = "hazard"
        else:
            counter = "copies" if theirs.kind == "copy" else "lds = 0"
            message += (
                f"a barrier lies between them, but a wave may pass it before its own {theirs.kind} has ended; "
                f"wait for {counter} before the barrier"
            )
            check = "wait"
        self._report(Finding(check, mine.op, message, ((self._other(access, other), theirs.op),)), theirs.op)

    def _unfinished(self, access: int, other: int, shared: int) -> None:
        mine, theirs = self.accesses[access], self.accesses[other]
        counter = "copies" if theirs.kind == "copy" else "lds = 0"
        message = (
            f"{words_for(mine.op)} {_verb(mine)} LDS tensor '{tensor_name(mine.alloc)}' at {span(shared)} while the "
            f"wave's own {theirs.kind} there may be under way; wait for {counter} before"
        )
        self._report(Finding("wait", mine.op, message, ((self._other(access, other), theirs.op),)), theirs.op)

    def _other(self, access: int, other: int) -> str:
        mine, theirs = self.accesses[access], self.accesses[other]
        block, place = self.place[access]
        there, earlier = self.place[other]
        when = ", one time round the loop earlier" if block == there and earlier >= place else ""
        tensor = "" if theirs.alloc == mine.alloc else f" to '{tensor_name(theirs.alloc)}', which shares these bytes"
        return f"the {theirs.kind} is here{tensor}{when}"

    def _report(self, finding: Finding, other: ir.Operation) -> None:
        self.findings.setdefault((finding.op, other), finding)


def _counted(barriers: int) -> str:
    return f"{barriers} barrier" + ("s" if barriers > 1 else "")


def _verb(access: Footprint) -> str:
    return {"read": "reads", "write": "overwrites", "copy": "copies over", "update": "changes"}[access.kind]


def _join(left: State, right: State) -> State:
    return {
        one: left[one].join(right[one]) if one in left and one in right else left.get(one) or right[one]
        for one in {**left, **right}
    }
