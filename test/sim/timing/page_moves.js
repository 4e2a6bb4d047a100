// Wheel, drag, keys and search as a person does them; data-views has the range in view after each.

addEventListener("load", () => {
  const lanes = document.getElementById("lanes"), box = lanes.getBoundingClientRect();
  const at = (x, y) => ({ clientX: box.left + x, clientY: box.top + y, bubbles: true, cancelable: true });
  const frame = () => new Promise(requestAnimationFrame), key = (name) => document.dispatchEvent(new KeyboardEvent("keydown", { key: name }));
  const told = document.documentElement.dataset, view = () => `${told.from},${told.to}`, seen = [];
  const act = async (name, action) => { action(); await frame(); await frame(); seen.push(`${name}=${view()}`); told.views = seen.join(" "); };
  (async () => {
    await act("start", () => {});
    await act("wheel", () => lanes.dispatchEvent(new WheelEvent("wheel", { ...at(600, 100), deltaY: -120 })));
    await act("drag", () => {
      lanes.dispatchEvent(new PointerEvent("pointerdown", at(600, 100)));
      lanes.dispatchEvent(new PointerEvent("pointermove", { ...at(500, 100), buttons: 1 }));
      lanes.dispatchEvent(new PointerEvent("pointerup", at(500, 100)));
    });
    await act("key", () => key("w"));
    await act("all", () => key("0"));
    await act("compact", () => key("c"));
    told.compact = told.lanes;
    document.getElementById("search").value = "mfma";
    document.getElementById("search").dispatchEvent(new Event("input"));
    await act("next", () => key("n"));
    await act("next2", () => key("n"));
    told.first = told.selected;
    lanes.dispatchEvent(new PointerEvent("pointermove", at(lanes.clientWidth / 2 + 66, 60)));
    await frame();
    told.tip = document.getElementById("tip").textContent;
    told.panel = document.getElementById("panel").textContent;
  })();
});
