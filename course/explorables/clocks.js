// A position as a row of clocks (lesson 05): two words move together, and the angles between their
// hands stay. A hand starts at twelve and turns clockwise: its sine is to the right, its cosine up.

const RADIUS = 54, CENTER = 76;

function build(app, { rates, position, distance, last, farthest }) {
  let first = position, apart = distance;

  const clocks = rates.map((rate, number) => {
    const size = 2 * CENTER;
    const svg = shape("svg", {
      viewBox: `0 0 ${size} ${size}`, width: size, height: size, role: "group", "aria-label": `clock ${number}`,
    });
    const face = shape("circle", { cx: CENTER, cy: CENTER, r: RADIUS, class: "face" });
    const ticks = Array.from({ length: 12 }, (_, hour) => {
      const [[x1, y1], [x2, y2]] = [RADIUS - 5, RADIUS].map((r) => tip((hour * Math.PI) / 6, r));
      return shape("line", { x1, y1, x2, y2, class: "axis" });
    });
    const between = shape("path", { class: "between" });
    const hands = [shape("polygon", { class: "fill second" }), shape("polygon", { class: "fill" })];
    const end = handle({
      label: `first word's hand on clock ${number}`, min: 0, max: last,
      drag: ([x, y]) => turnTo(rate, Math.atan2(x - CENTER, CENTER - y)),
      step: ([dx, dy]) => move(first + dx + dy),
    });
    svg.append(face, ...ticks, between, ...hands, end.made);
    const below = [element("p"), element("p", { class: "angle" })];
    const head = element("p", {}, `clock ${number}, rate ${rate}`);
    return { rate, between, hands, end, below, made: element("div", { class: "clock" }, head, svg, ...below) };
  });

  const sliders = [
    slider({ label: "place of the first word", min: 0, max: last, value: first, text: String, change: (to) => move(to) }),
    slider({ label: "steps from the first to the second", min: 0, max: farthest, value: apart, text: String,
      change: (to) => { apart = to; draw(); } }),
  ];
  const said = element("p", { "aria-live": "polite", class: "said" });
  app.append(
    element("p", {}, "Move both words with the first slider, or turn a hand by its dot. The ",
      element("span", { class: "second" }, "red hands"), " belong to the second word."),
    element("div", { class: "side-by-side" }, ...sliders.map((one) => one.made)),
    element("div", { class: "side-by-side clocks" }, ...clocks.map((clock) => clock.made)),
    said,
  );

  /** Where a hand of this length ends when it has turned by `angle` from twelve. */
  function tip(angle, length) {
    return [CENTER + length * Math.sin(angle), CENTER - length * Math.cos(angle)];
  }

  function move(to) {
    first = within(to, [0, last]);
    sliders[0].set(first);
    draw();
  }

  /** Go to the nearest place at which a hand of this rate stands at `angle`. */
  function turnTo(rate, angle) {
    const turn = 2 * Math.PI;
    const ahead = (((angle - rate * first) % turn) + 1.5 * turn) % turn - turn / 2; // from −π to π
    move(first + Math.round(ahead / rate));
  }

  function draw() {
    let product = 0;
    for (const { rate, between, hands, end, below } of clocks) {
      const angles = [rate * first, rate * (first + apart)];
      const angle = (rate * apart) % (2 * Math.PI);
      const degrees = `${fixed((angle * 180) / Math.PI, 1)}°`;
      product += Math.cos(rate * apart);
      between.setAttribute("d", sector(angles[0], angle));
      hands[0].setAttribute("points", arrow([CENTER, CENTER], tip(angles[1], RADIUS), 3));
      hands[1].setAttribute("points", arrow([CENTER, CENTER], tip(angles[0], RADIUS), 3));
      end.place(tip(angles[0], RADIUS), first, `place ${first}`);
      below[0].textContent = `(${fixed(Math.sin(angles[0]))}, ${fixed(Math.cos(angles[0]))})`;
      below[1].replaceChildren("between: ", element("b", {}, degrees));
    }
    said.textContent = `Positions ${first} and ${first + apart}. ` +
      `The dot product of their two codes is ${fixed(product)}.`;
  }

  /** The part of a face from one hand clockwise to the other. */
  function sector(start, angle) {
    const [from, to] = [start, start + angle].map((one) => tip(one, RADIUS - 14).join(" "));
    const size = RADIUS - 14;
    return `M ${CENTER} ${CENTER} L ${from} A ${size} ${size} 0 ${angle > Math.PI ? 1 : 0} 1 ${to} Z`;
  }
  draw();
}
