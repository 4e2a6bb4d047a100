"""Moves between memory and rows of registers, without any check: memory and its shadow take the same."""

from __future__ import annotations

from ckmlir.sim import state
from ckmlir.sim.access import Access
from ckmlir.sim.builder import Value
from ckmlir.sim.handler import HandlerBuilder


def work_addresses(b: HandlerBuilder) -> str:
    return b.work(state.WORK_ADDRESSES)


def note_addresses(b: HandlerBuilder, addresses: Value) -> str:
    """Put the lanes' host addresses where the helpers read them."""
    place = work_addresses(b)
    b.emit(f"store {b.typed(addresses)}, ptr {place}, align 64")
    return place


def move(b: HandlerBuilder, access: Access, rows: str, mask: str, store: bool) -> None:
    """Between the noted addresses and the rows at a pointer, for the lanes of a mask (an i64); nothing is checked."""
    verb, addresses = "store" if store else "load", work_addresses(b)
    if access.is_part:
        b.emit(f"call void @{verb}_masked_{access.name}(i64 {mask}, ptr {addresses}, ptr {rows})")
        return
    every, some, done = b.new_label("every"), b.new_label("some"), b.new_label("done")
    b.emit(f"br i1 {b.assign(f'icmp eq i64 {mask}, -1')}, label %{every}, label %{some}")
    b.label(every)
    whole = verb if store or b.key.mnemonic.startswith("ds_") else "stream"
    b.emit(f"call void @{whole}_all_{access.name}(ptr {addresses}, ptr {rows})")
    b.emit(f"br label %{done}")
    b.label(some)
    b.emit(f"call void @{verb}_masked_{access.name}(i64 {mask}, ptr {addresses}, ptr {rows})")
    b.emit(f"br label %{done}")
    b.label(done)


def dword_of(access: Access) -> Access:
    return access if access.is_part else Access(4)


def clear_lanes(b: HandlerBuilder, access: Access, row: str, out_of_range: str) -> None:
    """What an out-of-range load gives: 0 in its part of the register."""
    old = b.assign(f"load <64 x i32>, ptr {row}, align 64")
    kept = {"whole": 0, "low": 0xFFFF0000, "high": 0xFFFF}[access.place]
    zeroed = b.assign(f"and <64 x i32> {old}, splat (i32 {kept})")
    mask = b.mask_of_bits(out_of_range)
    merged = b.assign(f"select {b.typed(mask)}, <64 x i32> {zeroed}, <64 x i32> {old}")
    b.emit(f"store <64 x i32> {merged}, ptr {row}, align 64")
