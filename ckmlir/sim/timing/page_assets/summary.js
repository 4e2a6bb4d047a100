// The panel: an instruction that was clicked, and sums over the cycles in view by reason, line, unit and wave.

const LINES_SHOWN = 8, PATH_SHOWN = 8, LONGEST_PLACE = 21;

/** Sums of what lies within [from, to): cycles of stalls by reason, line and wave, and of issue and units. */
function sumsOf(recording, from, to) {
  const { stalls, events, program } = recording;
  const within = (begin, end) => Math.max(0, Math.min(end, to) - Math.max(begin, from));
  const sums = { byReason: new Map(), byLine: new Map(), byWave: recording.waves.map(() => new Map()), byUnit: new Map(), issued: 0, present: 0 };
  const add = (map, key, cycles) => map.set(key, (map.get(key) || 0) + cycles);
  recording.waves.forEach((place, wave) => {
    sums.present += within(place.start, place.end);
    for (let i = recording.stallFirst[wave]; i < recording.stallFirst[wave + 1]; i++) {
      const cycles = within(stalls.first[i], recording.stallEnd[i]);
      if (!cycles) continue;
      add(sums.byReason, stalls.reason[i], cycles);
      add(sums.byWave[wave], stalls.reason[i], cycles);
      add(sums.byLine, program.source[stalls.instruction[i]], cycles);
    }
  });
  for (let i = 0; i < recording.count; i++) {
    const cycles = within(events.issue[i], recording.slotEnd[i]);
    if (cycles) { add(sums.byUnit, events.unit[i], cycles); sums.issued++; }
  }
  return sums;
}

/** A place by its end, which has the line. */
function placeName(source) {
  const name = source.split("/").pop() || "no line";
  return name.length > LONGEST_PLACE ? "…" + name.slice(1 - LONGEST_PLACE) : name;
}

/** A row: a name, a bar of parts [name, share, isStall], a number; a click searches. */
function barRow(name, parts, number, search) {
  const track = make("div", "track");
  for (const [hue, share, isStall] of parts) {
    const part = make("i", isStall ? "stall" : "");
    part.style.setProperty("--hue", `var(${hue})`);
    part.style.width = (100 * share).toFixed(2) + "%";
    track.append(part);
  }
  const label = make("td", "", name);
  label.title = name;
  const row = make("tr", search ? "link" : "", label, make("td", "", track), make("td", "", number));
  if (search) { row.title = "Search " + search; row.dataset.search = search; }
  return row;
}

function section(title, remark, ...content) {
  return make("section", "", make("h2", "", title, make("small", "", remark)), ...content);
}

const descending = (map) => [...map].sort((a, b) => b[1] - a[1]);

class Summary {
  constructor(recording, view, panel, search) {
    Object.assign(this, { recording, view, panel, selected: -1 });
    panel.addEventListener("click", (event) => {
      const row = event.target.closest("[data-search]");
      if (row) search(row.dataset.search);
    });
  }

  draw() {
    const { recording, view } = this, from = Math.max(0, view.from), to = Math.min(recording.cycles, view.to);
    const sums = sumsOf(recording, from, to);
    const sections = [this.reasons(sums, from, to), this.lines(sums), this.units(sums, to - from), this.perWave(sums, from, to)];
    if (this.selected >= 0) sections.unshift(section("Instruction", "Esc lets go", describe(recording, this.selected)));
    if (recording.pathLines) sections.push(this.path());
    this.panel.replaceChildren(...sections);
  }

  reasons(sums, from, to) {
    const rows = descending(sums.byReason).filter(([, cycles]) => cycles >= sums.present / 2000), largest = rows.length ? rows[0][1] : 1;
    const table = make("table", "bars", ...rows.map(([reason, cycles]) => {
      const name = this.recording.reasons[reason];
      return barRow(words(name), [[hueOf(name), cycles / largest, true]], percent(cycles, sums.present), "reason:" + name.toLowerCase());
    }));
    const total = [...sums.byReason.values()].reduce((sum, cycles) => sum + cycles, 0);
    return section(`Stalled ${percent(total, sums.present)} of the waves' time`, `${grouped(from)} – ${grouped(to)}`, table);
  }

  lines(sums) {
    const rows = descending(sums.byLine).slice(0, LINES_SHOWN), largest = rows.length ? rows[0][1] : 1;
    return section("Lines that wait", "cycles of all waves", make("table", "bars", ...rows.map(([source, cycles]) => {
      const whole = this.recording.strings[source], name = whole.split("/").pop();
      const text = (this.recording.sources[this.recording.strings[source]] || "").trim();
      const row = barRow(placeName(whole), [["--accent", cycles / largest, false]], grouped(cycles), name);
      if (text) row.title = text;
      return row;
    })));
  }

  units(sums, span) {
    const rows = descending(sums.byUnit).filter(([, cycles]) => cycles >= sums.present / 2000).map(([unit, cycles]) => {
      const name = this.recording.units[unit];
      return barRow(name, [[hueOf(name), cycles / Math.max(1, sums.present), false]], percent(cycles, sums.present), "unit:" + name.toLowerCase());
    });
    const remark = `${grouped(sums.issued)} in ${grouped(span)} cycles`;
    return section("Issuing, by unit", remark, make("table", "bars", ...rows));
  }

  perWave(sums, from, to) {
    const rows = sums.byWave.map((byReason, wave) => {
      const place = this.recording.waves[wave];
      const present = Math.max(0, Math.min(place.end, to) - Math.max(place.start, from));
      const total = [...byReason.values()].reduce((sum, cycles) => sum + cycles, 0);
      const parts = descending(byReason).map(([reason, cycles]) => [hueOf(this.recording.reasons[reason]), cycles / Math.max(1, present), true]);
      return barRow(`wave ${wave}`, parts, percent(total, present), `wave:${wave}`);
    });
    return section("Stalled, by wave", "share of its time", make("table", "bars", ...rows));
  }

  path() {
    const { pathLines } = this.recording, largest = pathLines.length ? pathLines[0][2] : 1;
    const rows = pathLines.slice(0, PATH_SHOWN).map(([source, why, cycles]) => {
      const row = barRow(placeName(source), [["--mark", cycles / largest, false]], grouped(cycles));
      row.title = why;
      return row;
    });
    return section("Critical path", "cycles by line", make("table", "bars", ...rows));
  }
}
