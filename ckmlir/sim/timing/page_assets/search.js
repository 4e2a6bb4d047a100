// Search: words that all have to hold of an instruction. A word is a part of its mnemonic, operands, line or tile op or of
// the reason of its stall; or unit:NAME, reason:NAME, wave:N, stall>CYCLES.

/** A function event -> whether a word holds of it. */
function wordTest(recording, word) {
  const { events, stalls } = recording, [, key, value] = /^(unit|reason|wave|stall)[:=>]+(.*)$/.exec(word) || [];
  if (key === "wave") return (event, wave) => String(wave) === value;
  if (key === "stall") return (event) => events.stall[event] > Number(value);
  if (key === "unit") {
    const fits = recording.units.map((name) => name.toLowerCase().includes(value));
    return (event) => fits[events.unit[event]];
  }
  const reasons = recording.reasons.map((name) => (name.toLowerCase() + " " + words(name).toLowerCase()).includes(key ? value : word));
  const stalled = new Set();
  stalls.reason.forEach((reason, i) => { if (reasons[reason]) stalled.add(recording.eventAfterStall(i)); });
  if (key === "reason") return (event) => stalled.has(event);
  const fits = Array.from(recording.program.mnemonic, (_, number) => {
    const known = recording.instruction(number);
    return [known.mnemonic, known.operands, known.source, known.op, known.address, known.line].join(" ").toLowerCase().includes(word);
  });
  return (event) => fits[events.instruction[event]] || stalled.has(event);
}

/** Events of which all words of a text hold, in order of their cycle; null for an empty text. */
function findEvents(recording, text) {
  const tests = text.toLowerCase().split(/\s+/).filter(Boolean).map((word) => wordTest(recording, word));
  if (!tests.length) return null;
  const found = [];
  recording.waves.forEach((_, wave) => {
    for (let i = recording.eventFirst[wave]; i < recording.eventFirst[wave + 1]; i++) {
      if (tests.every((test) => test(i, wave))) found.push(i);
    }
  });
  return found.sort((a, b) => recording.events.issue[a] - recording.events.issue[b] || a - b);
}
