// Colours of units and stall reasons: those of page.css, for the canvas. A stall has the hue of the unit it waits for.

const UNIT_HUE = /(MFMA|VALU|TRANS|SALU|SMEM|VMEM|LDS|BRANCH|MESSAGE|INTERNAL)$/;
const OWN_HUE = [["BARRIER", "barrier"], ["ARBITRATION", "arbitration"], ["NOP", "nop"], ["FETCH", "fetch"], ["QUEUE_FULL", "queue"],
  ["NO_WAVE", "none"], ["NOT_STALLED", "none"]];

/** The custom property that holds the colour of a unit or reason, by its name. */
function hueOf(name) {
  const own = OWN_HUE.find(([part]) => name.includes(part));
  if (own) return "--reason-" + own[1];
  const unit = UNIT_HUE.exec(name);
  return unit ? "--unit-" + unit[1].toLowerCase() : "--reason-other";
}

class Palette {
  constructor() { this.refresh(); }

  /** Read the colours again, after the scheme has changed. */
  refresh() {
    this.known = new Map();
    this.stripes = new Map();
  }

  /** A colour as the canvas takes it; custom properties only resolve where a colour is used. */
  get(property) {
    if (!this.known.has(property)) {
      const probe = document.createElement("i");
      probe.style.color = `var(${property})`;
      document.body.append(probe);
      this.known.set(property, getComputedStyle(probe).color);
      probe.remove();
    }
    return this.known.get(property);
  }

  /** Diagonal stripes of a colour on a faint ground of it. */
  striped(context, property) {
    if (!this.stripes.has(property)) {
      const tile = document.createElement("canvas");
      tile.width = tile.height = 6;
      const paint = tile.getContext("2d");
      paint.fillStyle = paint.strokeStyle = this.get(property);
      paint.globalAlpha = .3;
      paint.fillRect(0, 0, 6, 6);
      paint.globalAlpha = 1;
      paint.lineWidth = 1.6;
      for (const shift of [-6, 0, 6]) { paint.beginPath(); paint.moveTo(shift - 1, 7); paint.lineTo(shift + 7, -1); paint.stroke(); }
      this.stripes.set(property, context.createPattern(tile, "repeat"));
    }
    return this.stripes.get(property);
  }
}
