"""Names of the schedule checker: values that are equal on some way have many, and are found all the same."""

from itertools import product

import pytest

from ckmlir.passes.proof.terms import Name, Signature, Table

SIGNATURE = Signature("read", (), ("f32",))
WAYS, PLACES = 16, 4
"""Names that each operand may have, and operands: 65,536 combinations."""


def table_of(depth: int) -> tuple[Table, list[list[Name]]]:
    """An operation that takes the last name of each place, all in one iteration; and the names that operands have."""
    table = Table()
    numbers = [[table.fresh(None, depth) for _ in range(WAYS)] for _ in range(PLACES)]
    shift = 0 if depth else None
    wanted = tuple(Name(row[-1], shift) for row in numbers)
    for other in (tuple(Name(row[0], shift) for row in numbers), wanted):
        table.define(None, SIGNATURE, other)
    return table, [[Name(number, 3 if depth else None) for number in row] for row in numbers]


@pytest.mark.parametrize("depth", [0, 1])
def test_of_many_names_those_that_belong_together_are_found(depth: int) -> None:
    table, choices = table_of(depth)
    shift = 3 if depth else None
    first = table.find(SIGNATURE, [row[:1] for row in choices])
    last = table.find(SIGNATURE, [row[-1:] for row in choices])
    assert {one.shift for one in first | last} == {shift}
    assert table.find(SIGNATURE, choices) == first | last
    assert table.find(SIGNATURE, [row[1:] for row in choices]) == last
    assert not table.find(SIGNATURE, [row[1:-1] for row in choices])
    assert table.tries(SIGNATURE, choices) == 2


def test_combinations_of_different_iterations_are_no_operation() -> None:
    table, choices = table_of(1)
    mixed = [[Name(one.number, shift) for one, shift in product(row, (2, 5))] for row in choices]
    assert {one.shift for one in table.find(SIGNATURE, mixed)} == {2, 5}
    apart = [[one._replace(shift=place) for one in row] for place, row in enumerate(choices)]
    assert not table.find(SIGNATURE, apart)


def test_what_is_read_from_memory_is_found_by_its_elements_too() -> None:
    table, choices = table_of(0)
    parts = tuple((row[-1], 1 << place) for place, row in enumerate(choices))
    name = table.define(None, SIGNATURE, parts)
    known = [[(one, 1 << place) for one in row] for place, row in enumerate(choices)]
    assert table.find(SIGNATURE, known) == {name}
    assert not table.find(SIGNATURE, [[(one, 3) for one, _ in row] for row in known])
