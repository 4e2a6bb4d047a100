"""How arguments of a launch become bytes, whatever the order of memories and scalars."""

from __future__ import annotations

import struct

import pytest

from ckmlir.runtime.hip.modules import LaunchForm, argument_structure

ORDERS = ("Q", "QQi", "iQ", "QiQ", "iQQfQ", "QiiQQdQ", "iif")


@pytest.mark.parametrize("order", ORDERS)
def test_addresses_and_scalars_are_where_the_kernel_has_them(order: str) -> None:
    """`Q` stands for an address. Scalars are packed before, addresses when memories are known."""
    packer, text, addresses = struct.Struct("@" + order), "", {}
    for place, letter in enumerate(order):
        text += letter
        if letter == "Q":
            addresses[place] = struct.calcsize("@" + text) - 8
    values = [(1 << 40) + place if letter == "Q" else place for place, letter in enumerate(order)]
    form = LaunchForm(packer, argument_structure(packer.size), len(order), addresses)
    packed = form.structure.from_buffer_copy(form.pack([one for one in values if one < 1 << 40]))
    memories = [one for one in values if one >= 1 << 40]
    assert form.memories == len(memories)
    for pack, offset, which in form.runs:
        pack(packed, offset, *memories[which])
    assert bytes(packed) == packer.pack(*values)
