// What is in view: the range of cycles, the rows, and where both lie on the canvas.

const GUTTER = 132, AXIS = 24, HEAD = 22, ROW = 15, STALL_ROW = 11, COMPACT_ROW = 17, GAP = 7;
const LARGEST_STRETCH = 1.7;

class View {
  constructor(recording, canvas) {
    this.recording = recording;
    this.canvas = canvas;
    this.compact = recording.waves.length > 12;
    this.top = 0;
    this.fit();
    this.layOut();
  }

  get width() { return Math.max(1, this.canvas.clientWidth - GUTTER); }
  get height() { return this.canvas.clientHeight; }
  get span() { return this.to - this.from; }
  x(cycle) { return GUTTER + (cycle - this.from) * this.width / this.span; }
  cycle(x) { return this.from + (x - GUTTER) * this.span / this.width; }

  fit() { this.show(0, this.recording.cycles); }

  /** Show the cycles [from, to), kept within the recording and no shorter than a few cycles. */
  show(from, to) {
    const margin = this.recording.cycles * .01 + 4, low = -margin, high = this.recording.cycles + margin;
    const span = Math.min(Math.max(to - from, 12), high - low);
    this.from = Math.min(Math.max((from + to - span) / 2, low), high - span);
    this.to = this.from + span;
  }

  zoom(factor, about = (this.from + this.to) / 2) {
    this.show(about - (about - this.from) * factor, about + (this.to - about) * factor);
  }

  move(cycles) { this.show(this.from + cycles, this.to + cycles); }

  scroll(pixels) {
    this.top = Math.max(0, Math.min(this.top + pixels, this.content - this.height));
  }

  setCompact(compact) {
    this.compact = compact;
    this.layOut();
    this.scroll(0);
  }

  /** Rows from top to bottom: a head a SIMD, then every wave's lanes; y counts from below the axis. Few waves get
   *  higher rows, up to the height of the canvas. */
  layOut() {
    this.place(1);
    const free = Math.max(1, (this.height - AXIS) / (this.content - AXIS));
    if (free > 1) this.place(Math.min(free, LARGEST_STRETCH));
  }

  place(stretch) {
    const { waves } = this.recording, order = waves.map((_, i) => i);
    order.sort((a, b) => waves[a].simd - waves[b].simd || waves[a].start - waves[b].start || a - b);
    this.rows = [];
    let y = 0, simd = null;
    for (const wave of order) {
      if (waves[wave].simd !== simd) {
        simd = waves[wave].simd;
        this.rows.push({ y, height: HEAD, head: simd });
        y += HEAD;
      }
      this.recording.lanes(this.compact)[wave].forEach((lane, i) => {
        const both = this.compact && lane.stalled;
        const height = stretch * (this.compact ? COMPACT_ROW : lane.stalled ? STALL_ROW : ROW);
        // A compact wave has its stalls in the row of its instructions, between them.
        this.rows.push({ y: both ? y - height : y, height, lane, first: i === 0 });
        y += both ? 0 : height;
      });
      y += stretch * (this.compact ? 3 : GAP);
    }
    this.content = y + AXIS;
  }

  /** The rows at a height of the canvas, lanes first in the order in which they are drawn. */
  rowsAt(y) {
    const inside = y - AXIS + this.top;
    return y < AXIS ? [] : this.rows.filter((row) => row.lane && inside >= row.y && inside < row.y + row.height);
  }

  /** Scroll so that a wave's lane is seen; returns whether it has to move. */
  reveal(wave) {
    const rows = this.rows.filter((row) => row.lane && row.lane.wave === wave);
    const low = rows[0].y, last = rows[rows.length - 1], high = last.y + last.height + AXIS;
    if (low < this.top) this.top = Math.max(0, low - HEAD);
    else if (high > this.top + this.height) this.top = Math.max(0, high - this.height);
  }
}
