"use strict";
// The page around the model: what is typed, what is drawn.

const EXAMPLES = ["sun, apr 7, 1957", "Mar 3, 1987", "07/04/1957", "31 february 2019", "hello"];
const PAUSE = matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : 90; // ms for a character
const MEAN = -1; // in the place of a head: the mean of all

const model = loadModel(DATE_MODEL);
const { num_heads: H, num_decoder_layers: N, max_length: LONGEST } = model.config;
const shown = { letters: [], steps: [], step: 6, layer: N - 1, head: MEAN, temperature: 0 };
let writing; // the timer of the animation

const readable = (id) => ({ "▁": "␣" })[model.pieces[id]] ?? model.pieces[id];
const percent = (share) =>
  share > 0.999 ? "> 99.9 %" : share < 0.001 ? "< 0.1 %" : `${(100 * share).toFixed(1)} %`;
const mean = (rows) =>
  rows[0].map((_, i) => rows.reduce((sum, row) => sum + row[i], 0) / rows.length);

/** The weights (Ls) of a step, of the layer and head that are chosen. */
function weightsOf(step) {
  const heads = step.weights[shown.layer];
  return shown.head === MEAN ? mean(heads) : heads[shown.head];
}

const labelOfHead = () => (shown.head === MEAN ? "mean of all heads" : `head ${shown.head}`);

/** Read the form, run the model, show the answer: at once, or one character after the other. */
function write(slowly) {
  const text = byId("date").value;
  const source = tokenize(model, text);
  const tooLong = source.length > LONGEST;
  byId("problem").textContent = !text ? "Type a date first."
    : tooLong ? `This has ${source.length - 1} characters; the model reads ${LONGEST - 1} at most.`
    : "";
  if (!text || tooLong) return;
  shown.letters = source.map(readable);
  shown.temperature = Number(byId("temperature").value);
  shown.steps = translate(model, source, { temperature: shown.temperature });
  clearInterval(writing);
  if (!slowly || PAUSE === 0) return finish();
  let written = 0;
  writing = setInterval(() => {
    show(written++, written);
    if (written === shown.steps.length) finish();
  }, PAUSE);
}

function finish() {
  clearInterval(writing);
  show(Math.min(shown.step, shown.steps.length - 1));
  const written = shown.steps.map(({ token }) => token).filter((token) => token !== EOS);
  byId("said").textContent = `The model wrote ${written.map(readable).join("")}`;
  performance.mark("answered");
}

/** Draw step number `step`, of `written` so far. */
function show(step, written = shown.steps.length) {
  shown.step = step;
  const steps = shown.steps.slice(0, written);
  const options = steps.map(({ token }, i) => ({
    value: i, text: readable(token), label: `step ${i + 1}: ${readable(token)}`,
  }));
  const focused = document.activeElement.name === "step";
  radios(byId("answer").querySelector(".pills"), "step", options, step, (i) => show(i));
  if (focused) byId("answer").querySelector(":checked").focus();
  showLetters(steps[step]);
  showNext(steps[step]);
  showMap(steps);
}

function showLetters(step) {
  const weights = weightsOf(step);
  byId("letters").replaceChildren(...shown.letters.map((letter, i) =>
    paint(element("span", { title: weights[i].toFixed(3) }, letter), weights[i])));
  const order = weights.map((_, i) => i).sort((a, b) => weights[b] - weights[a]).slice(0, 3);
  const most = order.map((i) => `${shown.letters[i]} (place ${i + 1}) ${weights[i].toFixed(2)}`);
  const words = `Writing ${readable(step.token)}, layer ${shown.layer}, ${labelOfHead()}. ` +
    `Most weight on ${most.join(", ")}.`;
  byId("step").textContent = words;
  byId("letters").setAttribute("aria-label", words);
}

/** The most probable next characters, and, if it was drawn from further down, the one written. */
function showNext(step) {
  const probabilities = softmax(step.logits.map((logit) => logit / (shown.temperature || 1)));
  const order = probabilities.map((_, id) => id);
  const ids = order.sort((a, b) => probabilities[b] - probabilities[a]).slice(0, 6);
  if (!ids.includes(step.token)) ids[5] = step.token;
  byId("bars").replaceChildren(...ids.flatMap((id) => {
    const bar = element("div", { className: "bar" });
    bar.style.width = `${100 * probabilities[id]}%`;
    return [
      element("dt", {}, readable(id)),
      element("dd", {}, bar),
      element("dd", {}, percent(probabilities[id]) + (id === step.token ? " · written" : "")),
    ];
  }));
}

function showMap(steps) {
  const read = shown.letters.map((letter) => element("th", {}, letter));
  const rows = steps.map((step, i) => element("tr",
    { className: i === shown.step ? "now" : "", onclick: () => show(i) },
    element("th", {}, readable(step.token)),
    ...weightsOf(step).map((weight) => paint(element("td", { title: weight.toFixed(3) }), weight)),
  ));
  const table = element("table", { className: "map" },
    element("tr", {}, element("td"), ...read), ...rows);
  table.style.minWidth = `${3 + 0.7 * shown.letters.length}rem`;
  byId("map").replaceChildren(table);
  byId("map").setAttribute("aria-label",
    `Cross-attention of ${steps.length} steps over ${shown.letters.length} characters, layer ` +
    `${shown.layer}, ${labelOfHead()}. Choose a step above to hear its largest weights.`);
}

/** Radio buttons for layers or heads. */
function offer(where, name, options) {
  radios(byId(where).querySelector(".pills"), name, options, shown[name], (value) => {
    shown[name] = value;
    show(shown.step);
  });
}

function start() {
  const numbered = (count) => Array.from({ length: count }, (_, i) => ({ value: i, text: `${i}` }));
  offer("layers", "layer", numbered(N));
  offer("heads", "head", [{ value: MEAN, text: "mean" }, ...numbered(H)]);
  byId("examples").append(...EXAMPLES.map((text) => element("button",
    { type: "button", onclick: () => { byId("date").value = text; write(true); } }, text)));
  byId("form").addEventListener("submit", (event) => { event.preventDefault(); write(true); });
  byId("temperature").addEventListener("input", (event) => {
    byId("degrees").value = event.target.value;
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => show(shown.step));
  byId("facts").textContent = `${DATE_MODEL.parameters.toLocaleString("en")} parameters of 16 bits; ` +
    `${(100 * DATE_MODEL.exact_match).toFixed(2)} % of 2,000 dates right that it had never seen.`;
  byId("app").hidden = false;
  write(false);
}

start();
