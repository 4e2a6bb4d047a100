// What an instruction is and what held it back: in the tip at the pointer and, for one that was clicked, in the panel.

/** An element with a class, with text or children. Text of the recording never becomes markup. */
function make(name, className, ...content) {
  const element = document.createElement(name);
  if (className) element.className = className;
  element.append(...content);
  return element;
}

/** A sample of a unit's or reason's colour. */
function swatch(name, isStall) {
  const element = make("i", isStall ? "swatch stall" : "swatch");
  element.style.setProperty("--hue", `var(${hueOf(name)})`);
  return element;
}

function pairs(entries) {
  const list = make("dl", "pairs");
  for (const [term, text] of entries) if (text !== "") list.append(make("dt", "", term), make("dd", "", text));
  return list;
}

/** The stalls of a wave that end when an event is issued, as [reason, cycles]. */
function stallsBefore(recording, event) {
  const wave = recording.waveOf(event), { issue, stall } = recording.events, { stalls } = recording;
  const begin = issue[event] - stall[event], found = new Map();
  for (let i = recording.stallFirst[wave]; i < recording.stallFirst[wave + 1]; i++) {
    if (stalls.first[i] >= begin && recording.stallEnd[i] <= issue[event]) {
      found.set(stalls.reason[i], (found.get(stalls.reason[i]) || 0) + stalls.cycles[i]);
    }
  }
  return [...found].sort((a, b) => b[1] - a[1]);
}

/** All that is known of an event. */
function describe(recording, event) {
  const { events } = recording, known = recording.instruction(events.instruction[event]);
  const box = make("div", "", make("div", "code", make("b", "", known.mnemonic), " ", known.operands));
  if (known.source) {
    const line = make("div", "source code", make("span", "dim", known.source.split("/").pop()));
    if (known.line) line.append("\n" + known.line);
    box.append(line);
  }
  const stalled = stallsBefore(recording, event).map(([reason, cycles]) => `${grouped(cycles)} ${words(recording.reasons[reason])}`);
  const wave = recording.waveOf(event), place = recording.waves[wave];
  box.append(pairs([
    ["tile op", known.op],
    ["wave", `${wave} of group ${place.group}, SIMD ${place.simd}, slot ${place.slot}`],
    ["unit", recording.units[events.unit[event]]],
    ["issued", `at ${grouped(events.issue[event])}, after ${grouped(events.stall[event])} cycles stalled`],
    ["stalled by", stalled.join("; ")],
    ["result", `at ${grouped(recording.eventEnd[event])}, ${grouped(events.latency[event])} cycles later`],
    ["bank conflicts", events.conflict[event] ? `${grouped(events.conflict[event])} cycles` : ""],
    ["address", known.address],
  ]));
  return box;
}

/** What is said of a stall: its reason before the instruction that it holds back. */
function describeStall(recording, stall) {
  const name = recording.reasons[recording.stalls.reason[stall]], cycles = grouped(recording.stalls.cycles[stall]);
  const head = make("div", "", swatch(name, true), " ", make("b", "", `${words(name)}: ${cycles} cycles`), " before");
  return make("div", "", head, describe(recording, recording.eventAfterStall(stall)));
}

/** Show a tip beside the pointer, inside the plot. */
function showTip(tip, content, x, y) {
  tip.replaceChildren(content);
  tip.hidden = false;
  const { clientWidth, clientHeight } = tip.parentElement;
  tip.style.left = Math.max(4, Math.min(x + 14, clientWidth - tip.offsetWidth - 6)) + "px";
  tip.style.top = Math.max(4, y + 18 + tip.offsetHeight > clientHeight ? y - tip.offsetHeight - 12 : y + 18) + "px";
}
