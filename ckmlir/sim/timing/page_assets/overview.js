// The strip above the lanes: all cycles at once. Below, which share of the waves was stalled, by reason; above, the share
// of the SIMDs whose matrix unit was busy. The part in view is framed; a drag there moves it.

const BUCKETS = 700;

class Overview {
  constructor(recording, view, palette, canvas) {
    Object.assign(this, { recording, view, palette, canvas });
    this.size = Math.max(1, recording.cycles / BUCKETS);
    this.reasons = recording.reasons.map(() => null);
    const { reason } = recording.stalls;
    recording.stalls.first.forEach((first, i) => {
      this.add(this.reasons[reason[i]] ||= new Float64Array(BUCKETS), first, recording.stallEnd[i]);
    });
    this.matrix = new Float64Array(BUCKETS);
    recording.matrixBusy.forEach(([from, to]) => this.add(this.matrix, from, to));
    this.simds = Math.max(1, new Set(recording.waves.map((wave) => wave.simd)).size);
  }

  /** Spread the cycles [from, to) over buckets. */
  add(buckets, from, to) {
    for (let i = Math.max(0, Math.floor(from / this.size)); i < BUCKETS && i * this.size < to; i++) {
      buckets[i] += Math.max(0, Math.min(to, (i + 1) * this.size) - Math.max(from, i * this.size));
    }
  }

  x(cycle) { return GUTTER + this.view.width * cycle / this.recording.cycles; }
  cycle(x) { return (x - GUTTER) * this.recording.cycles / this.view.width; }

  draw() {
    const context = prepared(this.canvas);
    if (!context) return;
    const { palette, recording } = this, height = this.canvas.clientHeight, half = height / 2;
    context.font = "11px " + getComputedStyle(document.body).fontFamily;
    context.textBaseline = "middle";
    context.fillStyle = palette.get("--dim");
    context.fillText("matrix units busy", 12, half / 2 + 1);
    context.fillText("waves stalled", 12, half * 1.5);
    const step = this.view.width / BUCKETS;
    for (let i = 0; i < BUCKETS; i++) {
      const x = GUTTER + i * step, busy = this.matrix[i] / this.size / this.simds * (half - 6);
      context.fillStyle = palette.get("--unit-mfma");
      context.fillRect(x, half - 2 - busy, step + .5, busy);
      let y = height - 3;
      this.reasons.forEach((stalled, reason) => {
        if (!stalled || !stalled[i]) return;
        const part = stalled[i] / this.size / recording.waves.length * (half - 6);
        context.fillStyle = palette.get(hueOf(recording.reasons[reason]));
        context.fillRect(x, y - part, step + .5, part);
        y -= part;
      });
    }
    this.paintFrame(context, height);
  }

  paintFrame(context, height) {
    const from = Math.max(GUTTER, this.x(this.view.from)), to = Math.min(this.x(this.view.to), GUTTER + this.view.width);
    context.fillStyle = this.palette.get("--veil");
    context.fillRect(GUTTER, 0, from - GUTTER, height);
    context.fillRect(to, 0, GUTTER + this.view.width - to, height);
    context.strokeStyle = this.palette.get("--accent");
    context.lineWidth = 1.5;
    context.strokeRect(from + .75, .75, Math.max(to - from - 1.5, 2), height - 1.5);
  }
}
