// Wheel, drag, pointer and keys.

const HIT_SLACK = 3;

/** What lies under a point of the lanes: { event } or { stall }, or {}. */
function hit(recording, view, x, y) {
  if (x < GUTTER) return {};
  const cycle = view.cycle(x), slack = HIT_SLACK * view.span / view.width;
  for (const { lane } of view.rowsAt(y)) {
    // The last bar that has begun; before it, any that still lasts.
    for (let i = firstAbove(lane.begin, cycle + slack, 0, lane.begin.length) - 1; i >= 0 && lane.reach[i] >= cycle - slack; i--) {
      if (lane.end[i] >= cycle - slack) return lane.stalled ? { stall: lane.items[i] } : { event: lane.items[i] };
    }
  }
  return {};
}

class Navigation {
  /** `page` has: recording, view, painter, overview, refresh(), select(event), hover(found, x, y), and the actions of keys. */
  constructor(page, canvas, overviewCanvas) {
    Object.assign(this, { page, canvas, drag: null });
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.press(event));
    canvas.addEventListener("pointermove", (event) => this.pointerMoved(event));
    canvas.addEventListener("pointerup", (event) => this.release(event));
    canvas.addEventListener("pointerleave", () => page.hover({}, 0, 0));
    canvas.addEventListener("dblclick", (event) => this.doubleClick(event));
    for (const name of ["pointerdown", "pointermove"]) overviewCanvas.addEventListener(name, (event) => this.overview(event));
    overviewCanvas.addEventListener("wheel", (event) => this.wheel(event, page.overview), { passive: false });
    document.addEventListener("keydown", (event) => this.key(event));
  }

  wheel(event, from = this.page.view) {
    event.preventDefault();
    const { view } = this.page, lines = event.deltaMode === 1 ? 16 : 1;
    if (event.shiftKey) view.scroll((event.deltaY || event.deltaX) * lines);
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) view.move(event.deltaX * lines * view.span / view.width);
    else view.zoom(Math.exp(Math.max(-120, Math.min(120, event.deltaY * lines)) * .0022), from.cycle(Math.max(event.offsetX, GUTTER)));
    this.page.refresh();
  }

  press(event) {
    if (event.button) return;
    this.canvas.focus();
    if (event.isTrusted) this.canvas.setPointerCapture(event.pointerId);
    this.drag = { x: event.offsetX, y: event.offsetY, moved: false, measure: event.shiftKey ? this.page.view.cycle(event.offsetX) : null };
  }

  pointerMoved(event) {
    const { view, painter } = this.page, { drag } = this;
    if (!drag) return this.page.hover(hit(this.page.recording, view, event.offsetX, event.offsetY), event.offsetX, event.offsetY);
    const dx = event.offsetX - drag.x, dy = event.offsetY - drag.y;
    if (!drag.moved && Math.abs(dx) + Math.abs(dy) < 4) return;
    drag.moved = true;
    this.page.hover({}, 0, 0);
    if (drag.measure !== null) {
      painter.measured = [drag.measure, view.cycle(event.offsetX)];
    } else {
      this.canvas.classList.add("dragging");
      view.move(-dx * view.span / view.width);
      view.scroll(-dy);
      Object.assign(drag, { x: event.offsetX, y: event.offsetY });
    }
    this.page.refresh();
  }

  release(event) {
    const { drag } = this, { view, painter, recording } = this.page;
    this.drag = null;
    this.canvas.classList.remove("dragging");
    if (!drag) return;
    if (drag.moved && drag.measure !== null && event.altKey) {
      view.show(...[...painter.measured].sort((a, b) => a - b));
      painter.measured = null;
    } else if (!drag.moved) {
      painter.measured = null;
      const found = hit(recording, view, event.offsetX, event.offsetY);
      this.page.select(found.stall !== undefined ? recording.eventAfterStall(found.stall) : found.event ?? -1);
    }
    this.page.refresh();
  }

  doubleClick(event) {
    const { recording, view } = this.page, found = hit(recording, view, event.offsetX, event.offsetY);
    const target = found.stall !== undefined ? recording.eventAfterStall(found.stall) : found.event;
    if (target === undefined) return;
    const begin = recording.events.issue[target] - recording.events.stall[target], end = recording.eventEnd[target];
    view.show(begin - (end - begin) * .4 - 8, end + (end - begin) * .4 + 8);
    this.page.refresh();
  }

  overview(event) {
    if (!(event.buttons & 1)) return;
    const { view, overview } = this.page, middle = overview.cycle(event.offsetX);
    view.show(middle - view.span / 2, middle + view.span / 2);
    this.page.refresh();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "INPUT") return;
    const { page } = this, { view } = page, step = view.span * .15;
    const actions = {
      "+": () => view.zoom(1 / 1.5), "=": () => view.zoom(1 / 1.5), w: () => view.zoom(1 / 1.5),
      "-": () => view.zoom(1.5), s: () => view.zoom(1.5), 0: () => view.fit(),
      a: () => view.move(-step), ArrowLeft: () => view.move(-step), d: () => view.move(step), ArrowRight: () => view.move(step),
      ArrowUp: () => view.scroll(-60), ArrowDown: () => view.scroll(60), Home: () => view.show(0, view.span),
      End: () => view.show(page.recording.cycles - view.span, page.recording.cycles),
      n: () => page.step(1), p: () => page.step(-1), N: () => page.step(-1), "/": () => page.focusSearch(),
      c: () => page.toggleCompact(), k: () => page.togglePath(), "?": () => page.toggleHelp(), Escape: () => page.letGo(),
    };
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
    page.refresh();
  }
}
