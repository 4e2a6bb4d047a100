// The page: builds everything, keeps search and view in the address (#search=mfma&from=0&to=900), and says in attributes of
// the document what it drew, for tests: data-lanes, data-bars, data-matches, data-load-ms, data-error.

const byId = (id) => document.getElementById(id);
const told = document.documentElement.dataset;
window.addEventListener("error", (event) => { told.error = event.message; });

class Page {
  constructor(recording) {
    this.recording = recording;
    this.canvas = byId("lanes");
    this.palette = new Palette();
    this.view = new View(recording, this.canvas);
    this.painter = new Painter(recording, this.view, this.palette);
    this.overview = new Overview(recording, this.view, this.palette, byId("overview"));
    this.summary = new Summary(recording, this.view, byId("panel"), (text) => this.search(text));
    this.navigation = new Navigation(this, this.canvas, byId("overview"));
    this.found = null;
    this.place = -1;
    this.fillHeader();
    this.fillLegend();
    this.view.layOut(); // header and legend have taken their height
    this.listen();
    this.readAddress();
    this.draw();
  }

  fillHeader() {
    byId("title").textContent = this.recording.title;
    byId("subtitle").textContent = this.recording.subtitle;
    byId("facts").append(...this.recording.facts.map(([term, text]) => make("div", "", make("dt", "", term), make("dd", "", text))));
    byId("path").hidden = !this.recording.steps;
  }

  /** Units and reasons that occur; a click searches for them. */
  fillLegend() {
    const { recording } = this, legend = byId("legend");
    const chip = (name, text, search, isStall) => {
      const button = make("button", "", swatch(name, isStall), text);
      button.addEventListener("click", () => this.search(search));
      return button;
    };
    const units = new Set(recording.events.unit), reasons = new Set(recording.stalls.reason);
    legend.append("issued to", ...recording.units.flatMap((name, i) => units.has(i) ? [chip(name, name, "unit:" + name.toLowerCase(), false)] : []));
    legend.append(make("span", "gap"), "stalled by");
    legend.append(...recording.reasons.flatMap((name, i) => reasons.has(i) ? [chip(name, words(name), "reason:" + name.toLowerCase(), true)] : []));
  }

  listen() {
    const click = (id, action) => byId(id).addEventListener("click", () => { action(); this.refresh(); });
    click("zoom-in", () => this.view.zoom(1 / 1.5));
    click("zoom-out", () => this.view.zoom(1.5));
    click("fit", () => this.view.fit());
    click("next", () => this.step(1));
    click("previous", () => this.step(-1));
    click("compact", () => this.toggleCompact());
    click("path", () => this.togglePath());
    click("help", () => this.toggleHelp());
    const input = byId("search");
    input.addEventListener("input", () => this.search(input.value, false));
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.step(event.shiftKey ? -1 : 1);
      if (event.key === "Escape") { this.search(""); this.canvas.focus(); }
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.palette.refresh(); this.refresh(); });
    new ResizeObserver(() => { this.view.layOut(); this.refresh(); }).observe(this.canvas);
  }

  /** search, from, to, compact, path and theme of the address. */
  readAddress() {
    const given = new URLSearchParams(location.hash.slice(1)), number = (key) => given.has(key) ? Number(given.get(key)) : NaN;
    if (["dark", "light"].includes(given.get("theme"))) { document.documentElement.dataset.theme = given.get("theme"); this.palette.refresh(); }
    if (given.get("compact") === "1") this.view.setCompact(true);
    if (given.get("path") === "1" && this.recording.steps) this.painter.showPath = true;
    if (number("to") > number("from")) this.view.show(number("from"), number("to"));
    if (given.get("search")) this.search(given.get("search"));
    if (number("event") >= 0 && number("event") < this.recording.count) this.select(number("event"));
  }

  writeAddress() {
    const kept = new URLSearchParams();
    if (byId("search").value) kept.set("search", byId("search").value);
    kept.set("from", Math.round(this.view.from));
    kept.set("to", Math.round(this.view.to));
    if (document.documentElement.dataset.theme) kept.set("theme", document.documentElement.dataset.theme);
    try { history.replaceState(null, "", "#" + kept); } catch { /* some browsers refuse that for files; the page works without */ }
  }

  search(text, write = true) {
    if (write) byId("search").value = text;
    this.found = findEvents(this.recording, text);
    this.painter.matches = this.found && new Set(this.found);
    this.place = -1;
    told.matches = this.found ? this.found.length : "";
    this.refresh();
  }

  /** Go to the next match (1) or the one before (-1), from the middle of what is in view at first. */
  step(direction) {
    const { found, view, recording } = this;
    if (!found || !found.length) return;
    if (this.place < 0) {
      const at = found.findIndex((event) => recording.events.issue[event] >= view.from);
      this.place = direction > 0 ? Math.max(at, 0) : (at > 0 ? at : found.length) - 1;
    } else {
      this.place = (this.place + direction + found.length) % found.length;
    }
    const event = found[this.place], at = recording.events.issue[event], span = Math.min(view.span, 1200);
    if (span < view.span || at < view.from || recording.slotEnd[event] > view.to) view.show(at - span / 2, at + span / 2);
    view.reveal(recording.waveOf(event));
    this.select(event);
  }

  select(event) {
    this.painter.selected = this.summary.selected = event;
    told.selected = event;
    this.refresh();
  }

  hover(found, x, y) {
    const event = found.event ?? -1;
    if (found.event === undefined && found.stall === undefined) byId("tip").hidden = true;
    else {
      const content = found.stall !== undefined ? describeStall(this.recording, found.stall) : describe(this.recording, event);
      showTip(byId("tip"), content, x, y + byId("overview").clientHeight);
    }
    if (event !== this.painter.hovered) { this.painter.hovered = event; this.refresh(true); }
  }

  focusSearch() { byId("search").focus(); byId("search").select(); }
  toggleCompact() { this.view.setCompact(!this.view.compact); }
  togglePath() { if (this.recording.steps) this.painter.showPath = !this.painter.showPath; }
  toggleHelp() { byId("keys").hidden = !byId("keys").hidden; }
  letGo() { byId("keys").hidden = true; this.painter.measured = null; this.select(-1); }

  /** Draw soon; several changes before the next frame are one drawing. `lanesOnly`: nothing else has changed. */
  refresh(lanesOnly = false) {
    this.all ||= !lanesOnly;
    this.pending ||= requestAnimationFrame(() => {
      this.pending = 0;
      if (this.all) { this.draw(); this.writeAddress(); } else this.painter.draw();
      this.all = false;
    });
  }

  draw() {
    this.painter.draw();
    this.overview.draw();
    this.summary.draw();
    const pressed = { compact: this.view.compact, path: this.painter.showPath, help: !byId("keys").hidden };
    for (const [id, on] of Object.entries(pressed)) byId(id).setAttribute("aria-pressed", on);
    const count = this.found ? this.found.length : 0;
    byId("found").textContent = !this.found ? "" : this.place < 0 ? grouped(count) + (count === 1 ? " match" : " matches") : `${grouped(this.place + 1)} / ${grouped(count)}`;
    byId("next").disabled = byId("previous").disabled = !count;
    Object.assign(told, this.painter.drawn, { from: Math.round(this.view.from), to: Math.round(this.view.to) });
  }
}

new Page(new Recording(JSON.parse(byId("data").textContent)));
told.loadMs = performance.now().toFixed(1);
