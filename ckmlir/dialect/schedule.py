"""A schedule: when the stages of a loop run, as data apart from what they compute.

Text form, one statement a line or separated by `;`, `#` starts a comment:

```
schedule double_buffer 1         # name, version of this format
ahead   load 2, to_lds 1         # iterations that a stage runs ahead of the loop index; 0 where not named
buffers 2                        # LDS buffers of each tensor; they rotate
step    load, math, to_lds       # order of the stages in the steady step; stages not named keep the program's order
order   interleave               # of the fragments in a step: source | interleave
fences  memory                   # sched_barriers: none | memory (around every memory fragment)
```
"""

from dataclasses import dataclass
from functools import lru_cache

VERSION = 1
ORDERS = ("source", "interleave")
FENCES = ("none", "memory")
STATEMENTS = ("schedule", "ahead", "buffers", "step", "order", "fences")


@dataclass(frozen=True, slots=True)
class Schedule:
    """How a loop of stages is pipelined.

    Attributes:
        name: for people and reports.
        ahead: (stage, iterations) pairs, sorted; a stage that is not named runs with the loop index.
        buffers: rotating LDS buffers of every tensor that the loop writes.
        step: stages in their order inside the steady step; those not named come where the program has them.
        order: `source` keeps the program's order inside a step; `interleave` spreads memory fragments between the MFMAs
            and reads operand fragments from LDS one group of MFMAs before their use.
        fences: where sched_barriers pin that order.
    """

    name: str
    ahead: tuple[tuple[str, int], ...] = ()
    buffers: int = 1
    step: tuple[str, ...] = ()
    order: str = "source"
    fences: str = "none"

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ValueError(f"schedule name '{self.name}' is not an identifier")
        if list(self.ahead) != sorted(self.ahead) or len(dict(self.ahead)) != len(self.ahead):
            raise ValueError(f"schedule '{self.name}': stages must be sorted and named once: {self.ahead}")
        for stage, iterations in self.ahead:
            if not 0 <= iterations <= 8:
                raise ValueError(
                    f"schedule '{self.name}': stage '{stage}' runs {iterations} iterations ahead; 0 to 8 make sense"
                )
        if not 1 <= self.buffers <= 8:
            raise ValueError(f"schedule '{self.name}': {self.buffers} LDS buffers; 1 to 8 make sense")
        if len(set(self.step)) != len(self.step):
            raise ValueError(f"schedule '{self.name}': a stage stands twice in the step: {', '.join(self.step)}")
        if not all(self.step):
            raise ValueError(f"schedule '{self.name}': a stage of the step has no name: {', '.join(self.step)}")
        if self.step and self.order != "source":
            raise ValueError(
                f"schedule '{self.name}': order '{self.order}' finds the step's order itself; leave 'step' out"
            )
        if self.order not in ORDERS:
            raise ValueError(f"schedule '{self.name}': order '{self.order}' is not one of {', '.join(ORDERS)}")
        if self.fences not in FENCES:
            raise ValueError(f"schedule '{self.name}': fences '{self.fences}' is not one of {', '.join(FENCES)}")

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that the schedule speaks of."""
        return tuple(dict.fromkeys((*(stage for stage, _ in self.ahead), *self.step)))

    def ahead_of(self, stage: str) -> int:
        """Iterations that a stage runs ahead."""
        return dict(self.ahead).get(stage, 0)

    @staticmethod
    @lru_cache(maxsize=1024)
    def parse(text: str) -> "Schedule":
        """Read the text form; ValueError names the statement that is wrong and what would be right."""
        fields: dict[str, str] = {}
        for line in text.replace(";", "\n").splitlines():
            words = line.partition("#")[0].split(None, 1)
            if not words:
                continue
            if words[0] in fields:
                raise ValueError(f"schedule: '{words[0]}' is given twice")
            if words[0] not in STATEMENTS:
                raise ValueError(f"schedule: unknown statement '{words[0]}'; there are {', '.join(STATEMENTS)}")
            if len(words) == 1:
                raise ValueError(f"schedule: '{words[0]}' needs a value")
            fields[words[0]] = words[1].strip()
        head = fields.get("schedule", "").split()
        if len(head) != 2 or head[1] != str(VERSION):
            raise ValueError(f"a schedule begins with 'schedule NAME {VERSION}', not '{' '.join(['schedule', *head])}'")
        return Schedule(
            name=head[0],
            ahead=_parse_ahead(fields.get("ahead", "")),
            buffers=_number(fields.get("buffers", "1"), "buffers"),
            step=tuple(stage.strip() for stage in fields["step"].split(",")) if "step" in fields else (),
            order=fields.get("order", "source"),
            fences=fields.get("fences", "none"),
        )

    def __str__(self) -> str:
        parts = [f"schedule {self.name} {VERSION}"]
        if self.ahead:
            parts.append("ahead " + ", ".join(f"{stage} {iterations}" for stage, iterations in self.ahead))
        if self.buffers != 1:
            parts.append(f"buffers {self.buffers}")
        if self.step:
            parts.append(f"step {', '.join(self.step)}")
        if self.order != "source":
            parts.append(f"order {self.order}")
        if self.fences != "none":
            parts.append(f"fences {self.fences}")
        return "; ".join(parts)


def _parse_ahead(text: str) -> tuple[tuple[str, int], ...]:
    pairs = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        words = item.split()
        if len(words) != 2:
            raise ValueError(f"schedule: 'ahead' takes 'STAGE ITERATIONS, …', not '{item}'")
        pairs.append((words[0], _number(words[1], f"ahead {words[0]}")))
    return tuple(sorted(pairs))


def _number(text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"schedule: {what} takes a number, not '{text}'")
    return int(text)


UNPIPELINED = Schedule("unpipelined")
"""Stages one after another, one LDS buffer."""
