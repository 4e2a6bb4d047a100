"""What runs by default of tests with many cases."""

from __future__ import annotations

from dataclasses import dataclass

from chosen_cases import chips_in_turn, one_in

CHIPS = ("gfx90a", "gfx942", "gfx950")


@dataclass(frozen=True)
class Case:
    name: str


def cases(*subjects: str) -> list[Case]:
    return [Case(f"test[{chip}-{subject}]") for subject in subjects for chip in CHIPS]


def test_every_subject_and_every_chip_is_met() -> None:
    chosen = [case.name for case in chips_in_turn(cases("a", "b", "c", "d"))]
    assert chosen == ["test[gfx90a-a]", "test[gfx942-b]", "test[gfx950-c]", "test[gfx90a-d]"]


def test_two_subjects_keep_every_chip() -> None:
    assert chips_in_turn(cases("a", "b")) == cases("a", "b")


def test_a_subject_of_one_chip_stays() -> None:
    alone = Case("test[gfx950-only]")
    assert alone in chips_in_turn([alone, *cases("a", "b", "c")])


def test_pairs_of_chips_stay() -> None:
    """There a chip is the subject."""
    pairs = [Case(f"test[{one}-{other}]") for one in CHIPS for other in CHIPS]
    assert chips_in_turn(pairs) == pairs


def test_one_in_n_and_one_at_least() -> None:
    assert len(one_in(3, cases("a", "b", "c"))) == 3
    assert len(one_in(10, cases("a"))) == 1


def test_a_new_case_changes_little() -> None:
    before = one_in(3, cases("a", "b", "c", "d"))
    after = one_in(3, cases("a", "b", "c", "d", "e"))
    assert len(set(before) - set(after)) <= 1
