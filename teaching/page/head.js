"use strict";
// One attention head whose queries, keys and values can be changed (lesson 02, sections 2 to 5).

const WORDS = ["I", "love", "cats"];
const LESSON = {
  query: [[0, 0, 0, 2], [2, 0, 1, 0], [0, 2, 1, 0]],
  key: [[0, 1, 0, 2], [1, 0, 0, 1], [1, 0, 2, 1]],
  value: [[0, 0], [2, 0], [1, 2]],
};
const LIMIT = 4; // numbers go from −4 to 4
const PIXELS = 6; // to drag for a tenth
const SVG = "http://www.w3.org/2000/svg";

let numbers = structuredClone(LESSON);
const chosen = { divisor: 2, row: 1 };

/** Q, K (3, 4), V (3, 2) and a divisor -> scores and weights (3, 3), output (3, 2). */
function attend({ query, key, value }, divisor) {
  const scores = query.map((q) => key.map((k) => dot(q, k)));
  const factor = Math.sqrt(query[0].length) / divisor; // the function divides by √d_k itself
  const asked = query.map((q) => q.map((number) => number * factor));
  return { scores, ...scaledDotProductAttention(asked, key, value) };
}

const inLimits = (number) => Math.min(LIMIT, Math.max(-LIMIT, Math.round(10 * number) / 10));
const fixed = (number, digits = 3) => number.toFixed(digits).replace("-", "−");

/** A table with a row for each word; `cell(i, j)` makes the content of row i, column j. */
function table(where, caption, columns, cell) {
  const head = element("tr", {}, element("td"), ...columns.map((text) =>
    element("th", { scope: "col" }, text)));
  const rows = WORDS.map((word, i) => element("tr", { className: i === chosen.row ? "now" : "" },
    element("th", { scope: "row" }, word), ...columns.map((_, j) => cell(i, j))));
  byId(where).replaceChildren(element("table", { className: "numbers" },
    element("caption", { className: "unseen" }, caption), head, ...rows));
}

/** A number that can be typed, stepped with the arrow keys, and dragged sideways. */
function numberField(role, i, j) {
  const input = element("input", {
    type: "number", min: -LIMIT, max: LIMIT, step: 0.1, value: numbers[role][i][j], className: role,
  });
  input.setAttribute("aria-label", `${role} of ${WORDS[i]}, feature ${j + 1}`);
  const set = (number) => { numbers[role][i][j] = inLimits(number); draw(); };
  input.addEventListener("input", () => {
    if (Number.isFinite(input.valueAsNumber)) set(input.valueAsNumber); // not while it is half typed
  });
  input.addEventListener("change", () => { input.value = numbers[role][i][j]; });
  input.addEventListener("pointerdown", (down) => {
    const [start, before] = [down.clientX, numbers[role][i][j]];
    const drag = (event) => {
      if (Math.abs(event.clientX - start) < PIXELS) return;
      set(before + Math.trunc((event.clientX - start) / PIXELS) / 10);
      input.value = numbers[role][i][j];
    };
    followPointer(input, down, drag);
  });
  return element("td", {}, input);
}

/** Call `drag` for each move until the pointer is lifted. */
function followPointer(target, down, drag) {
  target.setPointerCapture(down.pointerId);
  const stop = () => target.removeEventListener("pointermove", drag);
  target.addEventListener("pointermove", drag);
  for (const end of ["pointerup", "pointercancel"]) target.addEventListener(end, stop, { once: true });
}

/** Numbers of both signs have two colours, white is 0; weights are purple. */
function tint(cell, score, largest) {
  const color = score < 0 ? "var(--negative)" : "var(--positive)";
  const share = (45 * Math.abs(score)) / largest;
  cell.style.background = `color-mix(in srgb, ${color} ${share}%, var(--paper))`;
  return cell;
}

/** Everything that follows from the numbers. */
function draw() {
  const { scores, weights, output } = attend(numbers, chosen.divisor);
  const largest = Math.max(1, ...scores.flat().map(Math.abs));
  const cell = (number, digits) => element("td", {}, fixed(number, digits));
  table("scores", "Scores: a row for each query, a column for each key", WORDS, (i, j) =>
    tint(cell(scores[i][j], 1), scores[i][j], largest));
  table("weights", "Weights: a row for each query, a column for each key", WORDS, (i, j) =>
    paint(cell(weights[i][j]), weights[i][j]));
  table("output", "Output: a row for each query", ["1", "2"], (i, j) => cell(output[i][j]));
  const row = weights[chosen.row].map((weight, j) => `${fixed(weight)} × ${WORDS[j]}`);
  byId("said").textContent = `“${WORDS[chosen.row]}” reads ${row.join(" + ")}: its output is ` +
    `[${output[chosen.row].map((number) => fixed(number)).join(", ")}].`;
  drawPlane(weights[chosen.row], output[chosen.row]);
}

function shape(tag, attributes, text = "") {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.textContent = text;
  return made;
}

/** The three values (x to the right, y upwards), their triangle, and the output. */
function drawPlane(weights, output) {
  const points = numbers.value.map(([x, y]) => [x, -y]);
  const [x, y] = [output[0], -output[1]];
  const star = Array.from({ length: 10 }, (_, n) => {
    const [radius, angle] = [n % 2 ? 0.1 : 0.25, (n * Math.PI) / 5];
    return `${x + radius * Math.sin(angle)},${y - radius * Math.cos(angle)}`;
  });
  const grid = [-3, -2, -1, 0, 1, 2, 3].flatMap((at) => [
    shape("line", { x1: at, x2: at, y1: -4, y2: 4, class: at ? "grid" : "axis" }),
    shape("line", { y1: at, y2: at, x1: -4, x2: 4, class: at ? "grid" : "axis" }),
  ]);
  byId("plane").replaceChildren(
    ...grid,
    shape("polygon", { points: points.join(" "), class: "hull" }),
    ...points.map(([cx, cy], j) => shape("circle",
      { cx, cy, r: 0.12 + 0.35 * Math.sqrt(weights[j]), class: "point", "data-word": j })),
    ...points.map(([px, py], j) => shape("text", { x: px + 0.25, y: py - 0.3 }, WORDS[j])),
    shape("polygon", { points: star.join(" "), class: "star" }),
  );
  byId("plane").setAttribute("aria-label",
    `The values of ${WORDS.join(", ")} as corners of a triangle; the output at ` +
    `${fixed(output[0])}, ${fixed(output[1])} lies inside it.`);
}

/** Drag a point of the plane: the same as changing its two numbers. */
function dragPoint(down) {
  const word = down.target.dataset.word;
  if (word === undefined) return;
  const plane = byId("plane");
  followPointer(plane, down, (event) => {
    const toPlane = plane.getScreenCTM().inverse(); // from pixels to the numbers of the axes
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(toPlane);
    numbers.value[word] = [inLimits(at.x), inLimits(-at.y)];
    drawFields();
    draw();
  });
}

function drawFields() {
  for (const role of ["query", "key", "value"]) {
    const columns = numbers[role][0].map((_, j) => `${j + 1}`);
    table(role, `${role}: a row for each word, a column for each feature`, columns, (i, j) =>
      numberField(role, i, j));
  }
}

/** Radio buttons for `chosen[name]`, with pairs of a value and its text. */
function offer(name, pairs) {
  const options = pairs.map(([value, text]) => ({ value, text }));
  radios(byId(name).querySelector(".pills"), name, options, chosen[name], (value) => {
    chosen[name] = value;
    drawFields();
    draw();
  });
}

function start() {
  offer("divisor", [[1, "1"], [2, "√dₖ = 2"], [4, "dₖ = 4"]]);
  offer("row", WORDS.map((word, row) => [row, word]));
  byId("reset").addEventListener("click", () => {
    numbers = structuredClone(LESSON);
    drawFields();
    draw();
  });
  byId("plane").addEventListener("pointerdown", dragPoint);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  byId("app").hidden = false;
  drawFields();
  draw();
}

start();
