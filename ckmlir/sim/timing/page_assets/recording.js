// The timeline as the page holds it: waves, their lanes by unit, and what an instruction is called.

/** The lanes of a wave, by name, and the units of which each shows the instructions. */
const LANES = { MFMA: ["MFMA"], VALU: ["VALU", "TRANS"], memory: ["VMEM"], LDS: ["LDS"], scalar: ["SALU", "SMEM", "BRANCH", "MESSAGE", "INTERNAL"] };
const ALL_UNITS = "all", STALLED = "stalled"; // names of the other lanes

/** Bars of one wave, ascending by time; `reach` is how far any bar up to this one extends. */
function makeLane(wave, name, items, begins, ends) {
  const begin = new Float64Array(items.length), end = new Float64Array(items.length), reach = new Float64Array(items.length);
  let furthest = -1;
  items.forEach((item, i) => {
    begin[i] = begins[item];
    end[i] = ends[item];
    reach[i] = furthest = Math.max(furthest, end[i]);
  });
  return { wave, name, items, begin, end, reach, stalled: name === STALLED };
}

class Recording {
  constructor(data) {
    Object.assign(this, data);
    this.program = unpackTable(data.program);
    this.events = unpackTable(data.events, data.eventFirst);
    this.stalls = unpackTable(data.stalls, data.stallFirst);
    this.steps = data.path ? unpackTable(data.path, [0, data.pathCount]) : null;
    this.count = this.events.instruction.length;
    this.eventEnd = this.events.issue.map((issue, i) => issue + this.events.latency[i]);
    this.slotEnd = this.events.issue.map((issue, i) => issue + this.events.busy[i]);
    this.stallEnd = this.stalls.first.map((first, i) => first + this.stalls.cycles[i]);
    this.known = {};
  }

  /** The lanes of every wave: by unit, or (compact) all instructions in one; made when they are first asked for. */
  lanes(compact) {
    const make = (wave) => compact ? [this.wholeLane(wave), this.stallLane(wave)] : this.lanesOf(wave);
    return this.known[compact] ||= this.waves.map((_, wave) => make(wave));
  }

  lanesOf(wave) {
    const laneOf = this.units.map((unit) => Object.keys(LANES).find((name) => LANES[name].includes(unit)) || "scalar");
    const items = new Map(Object.keys(LANES).map((name) => [name, []]));
    for (let i = this.eventFirst[wave]; i < this.eventFirst[wave + 1]; i++) items.get(laneOf[this.events.unit[i]]).push(i);
    const used = [...items].filter(([, own]) => own.length);
    return [...used.map(([name, own]) => makeLane(wave, name, own, this.events.issue, this.eventEnd)), this.stallLane(wave)];
  }

  /** All instructions of a wave in the cycles in which they are issued. */
  wholeLane(wave) {
    const items = [];
    for (let i = this.eventFirst[wave]; i < this.eventFirst[wave + 1]; i++) items.push(i);
    return makeLane(wave, ALL_UNITS, items, this.events.issue, this.slotEnd);
  }

  stallLane(wave) {
    const items = [];
    for (let i = this.stallFirst[wave]; i < this.stallFirst[wave + 1]; i++) items.push(i);
    return makeLane(wave, STALLED, items, this.stalls.first, this.stallEnd);
  }

  /** The wave that an event belongs to. */
  waveOf(event) { return firstAbove(this.eventFirst, event, 0, this.eventFirst.length) - 1; }

  /** What is known of an instruction, as text. */
  instruction(number) {
    const at = (column) => this.strings[this.program[column][number]];
    const source = at("source");
    return {
      address: "0x" + this.program.address[number].toString(16), mnemonic: at("mnemonic"), operands: at("operands"),
      source, op: at("tile_op"), line: this.sources[source] || "",
    };
  }

  /** The event of a wave for which a stall held it back: the first issued when the stall had ended. */
  eventAfterStall(stall) {
    const wave = firstAbove(this.stallFirst, stall, 0, this.stallFirst.length) - 1;
    const limit = this.stallEnd[stall] - 1;
    return Math.min(firstAbove(this.events.issue, limit, this.eventFirst[wave], this.eventFirst[wave + 1]), this.eventFirst[wave + 1] - 1);
  }
}

/** "12,345" */
function grouped(number) { return Math.round(number).toLocaleString("en-US"); }
function percent(part, whole) { return whole ? (100 * part / whole).toFixed(1) + " %" : "0 %"; }
/** "UNIT_BUSY_MFMA" as people write it. */
function words(name) { return name.toLowerCase().replaceAll("_", " ").replace(/\b(mfma|valu|salu|smem|vmem|lds)\b/g, (unit) => unit.toUpperCase()); }
