"""A page of the IR pass by pass: what each changed, all of it, and the schedules that loops have behind it.

One HTML file that opens from disk: no network, no scripts, no other files.
"""

from __future__ import annotations

import html
import re
import time
from dataclasses import dataclass, field

from msgspec import Struct

from ckmlir.mlir import ir
from ckmlir.passes.framework import Pass
from ckmlir.passes.ir_difference import difference
from ckmlir.passes.ir_printing import IrPrinter

SCHEDULE = re.compile(r'ck\.schedule = "((?:[^"\\]|\\.)*)"')
STYLE = """
body { margin: 0; font: 14px/1.45 system-ui, sans-serif; color: #1c2430; background: #fff; display: flex; }
nav { position: sticky; top: 0; height: 100vh; overflow: auto; flex: 0 0 19rem; padding: 1rem; background: #f3f5f8;
      box-sizing: border-box; }
nav a { display: block; color: inherit; text-decoration: none; padding: .15rem 0; }
nav a:hover { text-decoration: underline; }
main { flex: 1; min-width: 0; padding: 1rem 1.5rem; }
section { border-top: 1px solid #d5dae2; padding: .5rem 0 1rem; display: grid; column-gap: 1rem;
          grid-template-columns: minmax(0, 1fr) 15rem; }
pre { font: 12px/1.4 ui-monospace, monospace; overflow: auto; max-height: 80vh; background: #f8f9fb; padding: .6rem;
      margin: .3rem 0; }
pre span { display: block; } .added { background: #dcf5e0; } .gone { background: #fbe2e0; } .place { color: #5a6b85; }
.quiet { color: #5a6b85; } .schedule { border-left: 3px solid #4a78b5; white-space: pre-wrap; }
summary { cursor: pointer; }
@media (prefers-color-scheme: dark) {
  body { color: #dde3ec; background: #12161c; } nav, pre { background: #1a2029; } section { border-color: #333c49; }
  .added { background: #17391f; } .gone { background: #45201e; } .quiet, .place { color: #93a3ba; }
}
"""


class Passed(Struct, frozen=True):
    """A pass and what became of the IR.

    Attributes:
        name: of the pass, with its options. seconds: that it took.
        before, after: the IR as text.
    """

    name: str
    seconds: float
    before: str
    after: str

    @property
    def schedules(self) -> list[str]:
        """The schedules of the loops behind the pass, each once."""
        return list(dict.fromkeys(one.replace('\\\\"', '"') for one in SCHEDULE.findall(self.after)))


@dataclass
class IrPage(IrPrinter):
    """Keeps the IR behind every pass of a pipeline, or of several after each other."""

    passed: list[Passed] = field(default_factory=list, init=False)
    _text: str = field(default="", init=False)
    _started: float = field(default=0.0, init=False)

    def begin(self, current: Pass, module: ir.Module) -> None:
        """Remember what the pass begins with."""
        super().begin(current, module)
        self._text = self._text or str(module)
        self._started = time.perf_counter()

    def end(self, current: Pass, module: ir.Module) -> None:
        """Keep what the pass made."""
        seconds = time.perf_counter() - self._started
        super().end(current, module)
        text = str(module)
        self.passed.append(Passed(str(current), seconds, self._text, text))
        self._text = text

    def render(self, title: str) -> str:
        """The page; `title` says what was compiled."""
        links, sections = [], []
        for number, one in enumerate(self.passed):
            changes = difference(one.before, one.after) if one.before != one.after else []
            counts = [sum(line.startswith(sign) for line in changes) for sign in "+-"]
            said = f"+{counts[0]} −{counts[1]}" if changes else "no change"
            name = html.escape(one.name if len(one.name) < 40 else f"{one.name[:38]}…")
            links.append(f'<a href="#p{number}">{number + 1}. {name} <span class="quiet">{said}</span></a>')
            sections.append(_section(number, one, changes, said))
        heading = html.escape(title)
        return (
            f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{heading}</title>'
            f"<style>{STYLE}</style></head>\n<body><nav><strong>{heading}</strong>{''.join(links)}</nav>"
            f"<main>{''.join(sections)}</main></body></html>\n"
        )


def _section(number: int, one: Passed, changes: list[str], said: str) -> str:
    """What is shown of a pass."""
    shown = [f'<section id="p{number}"><div><h2>{html.escape(one.name)}</h2>']
    shown.append(f'<p class="quiet">{said}, {1e3 * one.seconds:.1f} ms</p>')
    if changes:
        lines = "".join(map(_line, changes))
        shown.append(f"<details open><summary>what changed</summary><pre>{lines}</pre></details>")
    shown.append(f"<details><summary>all</summary><pre>{html.escape(one.after)}</pre></details></div><aside>")
    for schedule in one.schedules:
        lines = schedule.replace("; ", "\n")
        shown.append(f'<pre class="schedule">{html.escape(lines)}</pre>')
    return "\n".join([*shown, "</aside></section>"])


def _line(line: str) -> str:
    kind = {"+": "added", "-": "gone", "@": "place"}.get(line[:1], "same")
    return f'<span class="{kind}">{html.escape(line) or " "}</span>'
