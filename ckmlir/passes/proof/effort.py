"""A proof always ends: its work is counted, and there is only so much."""

WORK = 100
"""For every operation of both programs: operations that may be followed, and sets of operands that may be tried.
The programs of operators take less than a twentieth of it.
"""


class NotSettled(Exception):
    """The work that a proof may take has been done, and it is not at an end."""


class Effort:
    """What a proof may still do: so many steps, by count and not by time, so that it ends alike on every machine."""

    def __init__(self, steps: int) -> None:
        self.steps = self.left = steps

    def spend(self, steps: int) -> None:
        """Do some of it.

        Raises:
            NotSettled: there were not so many left.
        """
        self.left -= steps
        if self.left < 0:
            raise NotSettled
