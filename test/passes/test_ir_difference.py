"""What the difference of printed IR shows: what changed, and not that values have other numbers."""

from __future__ import annotations

from ckmlir.passes.ir_difference import difference

BEFORE = """\
  func.func @f(%arg0: i32) {
    %0 = "ck.promise"(%arg0) {divisor = 8 : i64} : (i32) -> i32
    %1 = arith.constant 4 : i32
    %2 = arith.muli %arg0, %1 : i32
    %3 = arith.addi %2, %1 : i32
    %4 = arith.addi %3, %2 : i32
    "use"(%4) {view = "length=?1%4"} : (i32) -> ()
  }
"""


def changed(after: str, before: str = BEFORE) -> list[str]:
    return [line for line in difference(before, after) if line[0] in "+-"]


def test_numbers_of_values_do_not_count() -> None:
    assert difference(BEFORE, BEFORE) == []
    after = BEFORE.replace('    %0 = "ck.promise"(%arg0) {divisor = 8 : i64} : (i32) -> i32\n', "")
    for number in range(1, 5):
        after = after.replace(f"%{number} ", f"%{number - 1} ").replace(f"%{number},", f"%{number - 1},")
    after = after.replace("(%4)", "(%3)")
    assert changed(after) == ["-    %0' = \"ck.promise\"(%arg0) {divisor = 8 : i64} : (i32) -> i32"]


def test_an_operand_that_changed_is_shown_and_its_users_are_not() -> None:
    after = BEFORE.replace("arith.addi %2, %1", "arith.addi %2, %2")
    assert changed(after) == ["-    %3 = arith.addi %2, %1 : i32", "+    %3 = arith.addi %2, %2 : i32"]


def test_names_begin_anew_with_each_function() -> None:
    other = BEFORE.replace("@f", "@g").replace("%1 ", "%one ").replace("%1:", "%one:").replace("%1 :", "%one :")
    assert changed(BEFORE + other, BEFORE + BEFORE.replace("@f", "@g")) == []


def test_blocks_are_renamed_too() -> None:
    before = "  cf.br ^bb1(%0 : i32)\n^bb1(%1: i32):\n  cf.br ^bb1(%1 : i32)\n"
    after = "  cf.br ^bb2(%7 : i32)\n^bb2(%8: i32):\n  cf.br ^bb2(%8 : i32)\n"
    assert changed(after, before) == []
    assert len(changed(after.replace("^bb2(%8 : i32)", "^bb2(%7 : i32)"), before)) == 2
