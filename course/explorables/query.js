// One look-up in the plane (lesson 02): whoever turns the query sees the weights and the mixture move.

const DEGREES_OF_HEAT = [-1, 1]; // the slider's exponents: a temperature from 0.1 to 10

function build(app, { words, keys, values, query, names, reach, asker }) {
  let asked = query, temperature = 1;

  // ---- What is drawn once: the keys, and the triangle of the values
  const left = plane({ width: 300, x: [-reach, reach], y: [-reach, reach], names, label: "The query and the keys" });
  for (const [number, key] of keys.entries()) {
    const [x, y] = left.to(key), length = Math.hypot(...key);
    const [aside, up] = length ? [-key[1] / length, key[0] / length] : [-0.7, -0.7]; // beside the arrow
    const anchor = aside < -0.3 ? "end" : aside > 0.3 ? "" : "middle";
    left.svg.append(
      shape("polygon", { points: arrow(left.to([0, 0]), [x, y], 5), class: "fill key" }),
      shape("circle", { cx: x, cy: y, r: 4, class: "fill key" }),
      shape("text", { x: x + 12 * aside, y: y - 14 * up + 4, class: `key ${anchor}` }, words[number]),
    );
  }
  const needle = left.svg.appendChild(shape("polygon", { class: "fill query" }));
  const tip = handle({
    label: `query: what “${asker}” asks for`, min: -reach, max: reach,
    drag: (pixels) => turn(left.from(pixels).map((one) => Math.round(20 * one) / 20)),
    step: ([dx, dy]) => turn([asked[0] + dx / 10, asked[1] + dy / 10]),
  });
  tip.made.classList.add("query");
  left.svg.append(tip.made);

  const range = (entry) => [0, ...values.map((value) => value[entry])];
  const [x, y] = [0, 1].map((entry) => [Math.min(...range(entry)) - 0.7, Math.max(...range(entry)) + 0.7]);
  const right = plane({ width: 300, x, y, names, label: "The values and their mixture" });
  right.svg.append(shape("polygon", { points: values.map(right.to).join(" "), class: "area value" }));
  const middle = values.reduce((sum, value) => sum + value[1], 0) / values.length;
  const dots = values.map((value, number) => {
    const [cx, cy] = right.to(value);
    const text = { x: cx, y: cy + (value[1] > middle ? -24 : 36), class: "value middle" };
    right.svg.append(shape("text", text, words[number]));
    return right.svg.appendChild(shape("circle", { cx, cy, class: "fill value" }));
  });
  const mixture = right.svg.appendChild(shape("polygon", { class: "fill star" }));

  const numbers = element("div");
  const said = element("p", { "aria-live": "polite", class: "said" });
  const heat = slider({
    label: "temperature", min: DEGREES_OF_HEAT[0], max: DEGREES_OF_HEAT[1], step: 0.1, value: 0,
    text: (exponent) => `${Number((10 ** exponent).toPrecision(2))}`,
    change: (exponent) => { temperature = 10 ** exponent; draw(); },
  });

  const again = button("From the beginning", () => {
    [asked, temperature] = [query, 1];
    heat.set(0);
    draw();
  });
  const colored = (text, role) => element("span", { class: role }, text);
  app.append(
    element("p", {}, "Drag the ", colored("query", "query"), " among the ", colored("keys", "key"),
      ", or press ← ↑ → ↓. The star is the mixture of the ", colored("values", "value"), "."),
    element("div", { class: "side-by-side" },
      element("div", { class: "half" }, left.svg), element("div", { class: "half" }, right.svg, numbers)),
    said,
    element("div", { class: "side-by-side" }, heat.made, again),
  );

  // ---- What moves
  function turn(to) {
    asked = to.map((one) => within(Math.round(100 * one) / 100, [-reach, reach]));
    draw();
  }

  function draw() {
    const scores = keys.map((key) => (key[0] * asked[0] + key[1] * asked[1]) / temperature);
    const weights = softmax(scores);
    const output = [0, 1].map((entry) => values.reduce((sum, value, j) => sum + weights[j] * value[entry], 0));
    needle.setAttribute("points", arrow(left.to([0, 0]), left.to(asked), 2.5));
    tip.place(left.to(asked), asked[0], names.map((name, entry) => `${name} ${fixed(asked[entry])}`).join(", "));
    dots.forEach((dot, j) => dot.setAttribute("r", 3 + 17 * Math.sqrt(weights[j])));
    mixture.setAttribute("points", star(right.to(output), 11));
    const heads = ["word", temperature === 1 ? "score" : "score ÷ temperature", "weight", ""];
    numbers.replaceChildren(table("Scores and weights", heads, words.map((word, j) =>
      [word, fixed(scores[j]), fixed(weights[j]), bar(weights[j])])));
    said.textContent = `“${asker}” asks [${asked.map((one) => fixed(one)).join(", ")}] ` +
      `and gets [${output.map((one) => fixed(one)).join(", ")}].`;
  }
  draw();
}
