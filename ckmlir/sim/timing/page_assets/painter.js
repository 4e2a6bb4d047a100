// Draws the lanes. Bars that fall into one pixel are drawn once, so that the whole run costs no more than its pixels.

/** A canvas of the right resolution for its size on the page, cleared; null while it has no size. */
function prepared(canvas) {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  if (!width || !height) return null;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/** A round distance of ticks: 1, 2 or 5 times a power of ten, about `wanted` cycles. */
function tickStep(wanted) {
  const power = 10 ** Math.floor(Math.log10(Math.max(wanted, 1)));
  return [1, 2, 5, 10].map((times) => times * power).find((step) => step >= wanted);
}

class Painter {
  constructor(recording, view, palette) {
    Object.assign(this, { recording, view, palette, matches: null, selected: -1, hovered: -1, measured: null, showPath: false });
    this.hues = recording.units.map(hueOf);
    this.reasonHues = recording.reasons.map(hueOf);
    this.drawn = { lanes: 0, bars: 0 };
  }

  draw() {
    const context = this.context = prepared(this.view.canvas);
    if (!context) return;
    this.drawn = { lanes: 0, bars: 0 };
    this.paintAxis();
    context.save();
    context.beginPath();
    context.rect(0, AXIS, GUTTER + this.view.width, this.view.height - AXIS);
    context.clip();
    for (const row of this.view.rows) {
      const y = row.y - this.view.top + AXIS;
      if (y + row.height > AXIS && y < this.view.height) this.paintRow(row, y);
    }
    if (this.showPath && this.recording.steps) this.paintPath();
    this.paintSelection();
    context.restore();
    this.paintMeasure();
  }

  paintAxis() {
    const { context, view, palette } = this, step = tickStep(view.span / (view.width / 90));
    context.font = "11px " + getComputedStyle(document.body).fontFamily;
    context.textBaseline = "middle";
    context.fillStyle = palette.get("--dim");
    context.fillText("cycles", 12, AXIS / 2);
    for (let tick = Math.ceil(Math.max(0, view.from) / step) * step; tick <= view.to; tick += step) {
      const x = view.x(tick);
      context.fillStyle = palette.get("--line");
      context.fillRect(x, AXIS - 5, 1, view.height);
      context.fillStyle = palette.get("--dim");
      context.fillText(grouped(tick), x + 4, AXIS / 2);
    }
  }

  paintRow(row, y) {
    const { context, palette, view } = this;
    if (row.head !== undefined) {
      context.fillStyle = palette.get("--band");
      context.fillRect(0, y, GUTTER + view.width, row.height - 2);
      this.label(`SIMD ${row.head}`, 12, y + row.height / 2 - 1, "--text", "600 11px ");
      return;
    }
    const { lane } = row;
    context.save();
    context.beginPath();
    context.rect(GUTTER, y, view.width, row.height);
    context.clip();
    if (lane.stalled) this.paintStalls(lane, y, row.height);
    else this.paintBars(lane, y, row.height);
    context.restore();
    this.paintLabels(row, y);
    this.drawn.lanes++;
  }

  paintLabels(row, y) {
    const { lane } = row, middle = y + row.height / 2 + .5;
    if (row.first) {
      this.label(`wave ${lane.wave}`, 12, middle, "--text", "600 11px ");
      const { group } = this.recording.waves[lane.wave];
      if (lane.name === ALL_UNITS) this.label(`group ${group}`, 70, middle, "--dim", "11px ");
    }
    if (this.view.compact) return;
    this.label(lane.name, 72, middle, "--dim", "10px ");
  }

  label(text, x, y, colour, font) {
    const { context } = this;
    context.font = font + getComputedStyle(document.body).fontFamily;
    context.textBaseline = "middle";
    context.fillStyle = this.palette.get(colour);
    context.fillText(text, x, y);
  }

  /** Calls paint(place, x0, x1) for the bars in view that show: of several within a pixel the first. */
  eachBar(lane, paint) {
    const { view } = this;
    let beyond = -1;
    for (let i = firstAbove(lane.reach, view.from, 0, lane.reach.length); i < lane.items.length && lane.begin[i] < view.to; i++) {
      const x0 = Math.max(view.x(lane.begin[i]), GUTTER - 2), x1 = Math.max(view.x(lane.end[i]), x0 + .75);
      if (x1 < GUTTER || x1 <= beyond) continue;
      beyond = x1 - x0 < 1 ? Math.ceil(x1) : Math.max(beyond, x0);
      paint(i, x0, x1);
      this.drawn.bars++;
    }
  }

  paintBars(lane, y, height) {
    const { context, recording, matches } = this, { unit } = recording.events;
    const solid = lane.name === ALL_UNITS || lane.name === "MFMA";
    const scale = this.view.width / this.view.span;
    this.eachBar(lane, (i, x0, x1) => {
      const item = lane.items[i], faint = matches && !matches.has(item) ? .22 : 1;
      context.fillStyle = this.palette.get(this.hues[unit[item]]);
      const following = i + 1 < lane.items.length ? this.view.x(lane.begin[i + 1]) : Infinity, room = Math.min(x1, following) - x0;
      const own = solid ? Math.max(1, room) : Math.min(x1 - x0, Math.max(1, recording.events.busy[item] * scale));
      const gap = own > 3 ? .75 : 0;
      if (!solid && x1 - x0 > own) {
        context.globalAlpha = .2 * faint;
        context.fillRect(x0, y + 2, x1 - x0, height - 4);
      }
      context.globalAlpha = faint;
      context.fillRect(x0, y + 1, own - gap, height - 2);
      if (room > 34) this.paintName(item, x0, own, room, y + height / 2 + .5);
    });
    context.globalAlpha = 1;
  }

  /** A mnemonic on its bar, or beside a short one on what is left of its time. */
  paintName(item, x0, own, whole, middle) {
    const { context, recording } = this, inside = own > 34;
    const room = Math.floor(((inside ? own : whole - own) - 6) / 5.6);
    if (room < 4) return;
    let name = recording.strings[recording.program.mnemonic[recording.events.instruction[item]]];
    if (name.length > room) name = name.replace(/^[vs]_/, "");
    context.font = "9.5px " + getComputedStyle(document.documentElement).getPropertyValue("--mono");
    context.textBaseline = "middle";
    context.fillStyle = this.palette.get(inside ? "--plot" : "--text");
    const shown = name.length > room ? name.slice(0, room - 1) + "…" : name;
    context.fillText(shown, Math.max(x0 + (inside ? 0 : own), GUTTER) + 4, middle);
  }

  paintStalls(lane, y, height) {
    const { context, recording, matches } = this, { reason } = recording.stalls;
    this.eachBar(lane, (i, x0, x1) => {
      const item = lane.items[i], hue = this.reasonHues[reason[item]];
      context.globalAlpha = matches && !matches.has(recording.eventAfterStall(item)) ? .22 : 1;
      context.fillStyle = x1 - x0 < 4 ? this.palette.get(hue) : this.palette.striped(context, hue);
      context.fillRect(x0, y + 2, x1 - x0, height - 4);
    });
    context.globalAlpha = 1;
  }

  /** The row in which an event is drawn. */
  rowOf(event) {
    const wave = this.recording.waveOf(event), unit = this.recording.units[this.recording.events.unit[event]];
    const shows = ({ name }) => name === ALL_UNITS || (LANES[name] || []).includes(unit);
    return this.view.rows.find((row) => row.lane && row.lane.wave === wave && shows(row.lane));
  }

  paintSelection() {
    const { context, view, recording } = this;
    for (const [event, colour] of [[this.hovered, "--text"], [this.selected, "--mark"]]) {
      if (event < 0) continue;
      const row = this.rowOf(event), x0 = Math.max(view.x(recording.events.issue[event]), GUTTER - 4);
      const x1 = view.x(view.compact ? recording.slotEnd[event] : recording.eventEnd[event]);
      if (!row || x1 < GUTTER) continue;
      context.strokeStyle = this.palette.get(colour);
      context.lineWidth = 1.5;
      context.strokeRect(x0 - .5, row.y - view.top + AXIS + .5, Math.max(x1 - x0, 3) + 1, row.height - 1);
    }
  }

  /** The critical path, from lane to lane: where the line runs, that cycle could not have come earlier. */
  paintPath() {
    const { context, view, recording } = this, { event, begin, end } = recording.steps;
    context.strokeStyle = this.palette.get("--mark");
    context.lineWidth = 1.75;
    context.lineJoin = "round";
    context.beginPath();
    let open = false;
    for (let i = 0; i < event.length; i++) {
      if (end[i] < view.from || begin[i] > view.to) { open = false; continue; }
      const row = this.rowOf(event[i]);
      if (!row) continue;
      const y = row.y - view.top + AXIS + row.height / 2;
      const x0 = Math.max(view.x(begin[i]), GUTTER), x1 = Math.max(view.x(end[i]), GUTTER);
      if (open) context.lineTo(x0, y); else context.moveTo(x0, y);
      context.lineTo(x1, y);
      open = true;
    }
    context.stroke();
  }

  paintMeasure() {
    if (!this.measured) return;
    const { context, view } = this, [from, to] = [...this.measured].sort((a, b) => a - b);
    context.fillStyle = this.palette.get("--veil");
    context.fillRect(view.x(from), AXIS, view.x(to) - view.x(from), view.height);
    this.label(`${grouped(to - from)} cycles`, Math.max(view.x(from), GUTTER) + 6, AXIS + 10, "--text", "600 12px ");
  }
}
