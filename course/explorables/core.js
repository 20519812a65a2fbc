// What every explorable is made of: elements, a point that can be dragged, sliders, buttons. An
// explorable is a function build(app, numbers) that fills `app` and redraws it when something moves.

const SVG = "http://www.w3.org/2000/svg";

/** element("p", { class: "said" }, "a text or a child", …) */
function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for parts of a drawing: shape("circle", { r: 5 }) */
function shape(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** 1.4523 -> "1.45", −0.001 -> "0.00" */
function fixed(number, digits = 2) {
  const text = number.toFixed(digits);
  return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
}

const within = (number, [low, high]) => Math.min(high, Math.max(low, number));

/** softmax([1, 1, 2]) -> [0.21, 0.21, 0.58] */
function softmax(scores) {
  const largest = Math.max(...scores); // else exp could be too large for a number
  const exponentials = scores.map((score) => Math.exp(score - largest));
  const total = exponentials.reduce((sum, one) => sum + one, 0);
  return exponentials.map((one) => one / total);
}

// ---- Drawings

/** A drawing of the points x, y in two ranges; `to` and `from` change from units to pixels and back. */
function plane({ width, x: [left, right], y: [low, high], names, label }) {
  const unit = width / (right - left), height = unit * (high - low);
  const to = ([x, y]) => [(x - left) * unit, (high - y) * unit];
  const from = ([x, y]) => [left + x / unit, high - y / unit];
  const [x0, y0] = to([0, 0]);
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": label });
  const line = (at, ends) => shape("line", { class: at ? "grid" : "axis", ...ends });
  const number = (at, x, y) => (at ? shape("text", { x, y, class: "quiet middle" }, fixed(at, 0)) : "");
  for (let at = Math.ceil(left); at <= right; at++) {
    const [x] = to([at, 0]);
    svg.append(line(at, { x1: x, x2: x, y1: 0, y2: height }), at < right && at > left ? number(at, x, y0 + 16) : "");
  }
  for (let at = Math.ceil(low); at <= high; at++) {
    const [, y] = to([0, at]);
    svg.append(line(at, { y1: y, y2: y, x1: 0, x2: width }));
  }
  svg.append(
    shape("text", { x: width - 4, y: height - 6, class: "quiet end" }, `${names[0]} →`),
    shape("text", { x: 4, y: 16, class: "quiet" }, `${names[1]} ↑`),
  );
  return { svg, to, from };
}

/** The outline of an arrow between two points in pixels. */
function arrow([x1, y1], [x2, y2], width) {
  const length = Math.hypot(x2 - x1, y2 - y1);
  if (length < 1) return "";
  const [dx, dy, head] = [(x2 - x1) / length, (y2 - y1) / length, Math.min(length, 5 + 3 * width)];
  const point = (along, aside) => `${x1 + along * dx - aside * dy},${y1 + along * dy + aside * dx}`;
  const [neck, half] = [length - head, width / 2];
  const outline = [[0, half], [neck, half], [neck, 2 * half + 3], [length, 0]];
  const other = outline.slice(0, -1).reverse().map(([along, aside]) => [along, -aside]);
  return [...outline, ...other].map(([along, aside]) => point(along, aside)).join(" ");
}

/** The outline of a star around a point in pixels. */
function star([x, y], radius) {
  return Array.from({ length: 10 }, (_, n) => {
    const [r, angle] = [n % 2 ? 0.4 * radius : radius, (n * Math.PI) / 5];
    return `${x + r * Math.sin(angle)},${y - r * Math.cos(angle)}`;
  }).join(" ");
}

// ---- What one moves

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowDown: [0, -1], ArrowUp: [0, 1] };

/** A point of a drawing that is dragged, or moved with the arrow keys when it has the focus.
 *
 * `drag([left, top])` is told where in its drawing, in pixels, the point is to go;
 * `step([dx, dy])` which arrow key was pressed, five times as far with Shift.
 */
function handle({ label, drag, step, min, max }) {
  const circles = [["target", 28], ["ring", 14], ["fill", 7]].map(([name, r]) => shape("circle", { class: name, r }));
  const made = shape("g", {
    class: "handle", role: "slider", tabindex: 0, "aria-label": label, "aria-valuemin": min, "aria-valuemax": max,
  }, ...circles);
  let at = [0, 0], held = null; // where the point is; how far from it the finger took hold
  const seen = (event) => {
    const inDrawing = made.ownerSVGElement.getScreenCTM().inverse();
    const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(inDrawing);
    return [x, y];
  };
  made.addEventListener("pointerdown", (event) => {
    if (event.button > 0) return;
    const [x, y] = seen(event);
    held = [at[0] - x, at[1] - y];
    made.setPointerCapture(event.pointerId);
    made.focus({ preventScroll: true });
    event.preventDefault(); // else a text would be marked
  });
  // Else the finger would scroll the page: inside a drawing, touch-action is not enough for Chromium.
  made.addEventListener("touchstart", (event) => event.preventDefault(), { passive: false });
  made.addEventListener("pointermove", (event) => {
    if (!held) return;
    const [x, y] = seen(event);
    drag([x + held[0], y + held[1]]);
  });
  for (const end of ["pointerup", "pointercancel"]) made.addEventListener(end, () => { held = null; });
  made.addEventListener("keydown", (event) => {
    const [dx, dy] = ARROWS[event.key] ?? [0, 0];
    if (!dx && !dy) return;
    event.preventDefault(); // else the page would scroll
    step([dx, dy].map((one) => one * (event.shiftKey ? 5 : 1)));
  });
  /** Put the point at [left, top]; `now` and `text` are what a screen reader is told. */
  const place = ([x, y], now, text) => {
    at = [x, y];
    for (const circle of circles) filled(circle, { cx: x, cy: y }, []);
    filled(made, { "aria-valuenow": now, "aria-valuetext": text }, []);
  };
  return { made, place };
}

/** A slider under its label and its value as a text; `change(number)` is called when it moves. */
function slider({ label, min, max, step = 1, value, text, change }) {
  const input = element("input", { type: "range", min, max, step, value, "aria-label": label });
  const shown = element("span");
  const show = () => {
    shown.textContent = `${label}: ${text(input.valueAsNumber)}`;
    input.setAttribute("aria-valuetext", text(input.valueAsNumber));
  };
  input.addEventListener("input", () => { show(); change(input.valueAsNumber); });
  show();
  const set = (number) => { input.value = number; show(); };
  return { made: element("label", { class: "slider" }, shown, input), set };
}

function button(text, act) {
  const made = element("button", { type: "button" }, text);
  made.addEventListener("click", act);
  return made;
}

/** One of several texts, each with a value: choices("width", [[1, "one"], [2, "two"]], 1, change) */
function choices(legend, options, chosen, change) {
  const name = `explorable-${Math.random()}`; // one group for each, also if a page has two of a kind
  const pills = options.map(([value, text]) => {
    const input = element("input", { type: "radio", name, ...(value === chosen && { checked: "" }) });
    input.addEventListener("change", () => change(value));
    return element("label", { class: "pill" }, input, element("span", {}, text));
  });
  return element("fieldset", {}, element("legend", {}, legend), element("div", { class: "pills" }, ...pills));
}

/** A cell of a table that shows a share from 0 to 1 as a bar. */
function bar(share) {
  return element("td", { class: "bar" }, element("div", { style: `width: ${100 * share}%` }));
}

/** A table of texts and cells, the first of each row being its head. */
function table(caption, heads, rows) {
  const head = element("tr", {}, ...heads.map((text) => (text ? element("th", { scope: "col" }, text) : element("td"))));
  const body = rows.map(([first, ...others]) => element("tr", {},
    element("th", { scope: "row" }, first),
    ...others.map((one) => (typeof one === "string" ? element("td", {}, one) : one))));
  const made = element("table", { "aria-label": caption }, element("thead", {}, head), element("tbody", {}, ...body));
  return element("div", { class: "wide" }, made);
}

// ---- Where it stands

/** Whether the page around is dark: as JupyterLab or the book says, else as the reader's system. */
function isDark() {
  const lab = document.body.dataset.jpThemeLight; // JupyterLab: "true" or "false"
  const book = document.documentElement.dataset.theme; // the book: "light" or "dark"
  if (lab) return lab === "false";
  if (book) return book === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

function followTheme(app) {
  const follow = () => app.classList.toggle("dark", isDark());
  const watch = { attributeFilter: ["data-jp-theme-light", "data-theme"] };
  for (const part of [document.documentElement, document.body]) new MutationObserver(follow).observe(part, watch);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", follow);
  follow();
}

/** Show the explorable of this name in the place of its picture, which stays for paper. */
function start(name, style, title, build, numbers) {
  // Not every program runs a script where it stands; then it is the first that does not move yet.
  const waiting = [...document.querySelectorAll(`[data-explorable="${name}"]`)].find((one) => !one.shadowRoot);
  const host = document.currentScript?.closest("[data-explorable]") ?? waiting;
  const app = element("section", { class: "app", "aria-label": title }, element("p", { class: "title" }, title));
  followTheme(app);
  host.attachShadow({ mode: "open" }).append(element("style", {}, style), app, element("slot"));
  build(app, numbers);
}
