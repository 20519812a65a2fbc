// Beam search, step by step, on a language that is a tree (lesson 09). Where a word was chosen its
// chance is multiplied; the logarithms of the chances are added.

const ROW = 44, BOX = [64, 36], GAP = 40; // the tree in pixels: narrow enough for a telephone

/** The state of a search after each step: [{ candidates, kept, finished }, …] */
function search(root, width) {
  const steps = [];
  let living = [root], finished = [];
  while (living.length && finished.length < width) {
    const candidates = living.flatMap((one) => one.next).sort((a, b) => b.chance - a.chance);
    const kept = candidates.slice(0, width);
    finished = [...finished, ...kept.filter((one) => !one.next.length)];
    living = kept.filter((one) => one.next.length);
    steps.push({ candidates, kept });
  }
  return { steps, best: finished.sort((a, b) => b.chance - a.chance)[0] };
}

function build(app, { tree, widths, width: chosen }) {
  const root = grown(tree, [], 1);
  const all = leaves(root);
  const best = all.toSorted((a, b) => b.chance - a.chance)[0];
  let width = chosen, step = 0;

  // ---- The tree: a row for each sentence, a column for each word
  const nodes = [];
  all.forEach((leaf, row) => { leaf.row = row; });
  place(root);
  const depth = Math.max(...all.map((leaf) => leaf.words.length));
  const size = { width: 12 + depth * (GAP + BOX[0]), height: ROW * all.length };
  const svg = shape("svg", { viewBox: `0 0 ${size.width} ${size.height}`, ...size, "aria-hidden": "true" });
  svg.append(shape("circle", { cx: root.at[0], cy: root.at[1], r: 4, class: "fill" }), ...nodes.map((node) => node.edge), ...nodes.map((node) => node.mark));

  const next = button("Next step", () => { step += 1; draw(); });
  const back = button("One back", () => { step -= 1; draw(); });
  const numbers = element("div");
  const said = element("p", { "aria-live": "polite", class: "said" });
  const options = widths.map((one) => [one, one === 1 ? "1 (greedy)" : `${one}`]);
  app.append(
    element("div", { class: "side-by-side" },
      choices("width of the beam", options, width, (to) => { [width, step] = [to, 0]; draw(); }),
      element("div", { class: "side-by-side" }, next, back)),
    element("div", { class: "side-by-side" },
      element("div", { class: "half" }, svg), element("div", { class: "half" }, said, numbers)),
  );

  /** A node of the tree with the words that lead to it, its chance, and what may follow. */
  function grown(below, words, chance) {
    const node = { words, chance, next: [] };
    node.next = Object.entries(below).map(([word, [share, more]]) => {
      const child = grown(more, [...words, word], chance * share);
      return Object.assign(child, { parent: node, share });
    });
    return node;
  }

  function leaves(node) {
    return node.next.length ? node.next.flatMap(leaves) : [node];
  }

  /** Draw a node in the middle of its sentences: its word, its probability, the chance on its edge. */
  function place(node) {
    const below = leaves(node);
    const y = ROW * ((below[0].row + below.at(-1).row + 1) / 2);
    const x = 4 + node.words.length * (GAP + BOX[0]); // where its edges begin
    node.at = [x, y];
    if (node.parent) {
      const [left, top, middle] = [x - BOX[0], y - BOX[1] / 2, { x: x - BOX[0] / 2, class: "middle" }];
      const [x1, y1] = node.parent.at;
      node.probability = shape("text", { ...middle, y: y + 13 });
      node.mark = shape("g", {},
        shape("rect", { x: left, y: top, width: BOX[0], height: BOX[1], rx: 5 }),
        shape("text", { x: middle.x, y: y - 3, class: "middle word" }, node.words.at(-1)),
        node.probability);
      node.edge = shape("g", {},
        shape("line", { x1, y1, x2: left, y2: y }),
        shape("text", { x: left - 3, y: y1 < y ? y + 14 : y - 6, class: "end" }, String(node.share)));
      nodes.push(node);
    }
    node.next.forEach(place);
  }

  function draw() {
    const found = search(root, width);
    const [past, last] = [found.steps.slice(0, step), found.steps[step - 1]];
    back.disabled = step === 0;
    next.disabled = step === found.steps.length;
    for (const node of nodes) {
      const when = past.find(({ candidates }) => candidates.includes(node));
      const state = !when ? "unseen" : when.kept.includes(node) ? "kept" : "dropped";
      node.mark.setAttribute("class", `node ${state}`);
      node.edge.setAttribute("class", `edge ${state}`);
      const known = when || step === found.steps.length; // what the search has not seen is shown at its end
      node.probability.textContent = known ? fixed(node.chance, 3) : "";
    }
    numbers.replaceChildren(last ? table("The candidates of this step, the most probable first",
      ["candidate", "probability", "its logarithm"], last.candidates.map((one) => row(one, last))) : "");
    said.textContent = !last
      ? `There are ${all.length} sentences. Which one will a beam of ${width} find?`
      : `Step ${step}: of ${last.candidates.length} candidates the best ${last.kept.length} ` +
        `${last.kept.length === 1 ? "is" : "are"} kept. ${step === found.steps.length ? result(found.best) : ""}`;
  }

  /** How a candidate came by its probability, on two lines, and the same with logarithms. */
  function row(one, { kept }) {
    const [before, log] = [one.parent.chance, (number) => fixed(Math.log(number), 3)];
    const lines = (...texts) => element("td", {}, texts[0], element("br"), texts[1]);
    const of = (sum, total) => (one.parent === root ? ["", total] : [sum, total]);
    return [
      element("span", {}, one.words.join(" "), element("br"), kept.includes(one) ? element("b", {}, "kept") : "dropped"),
      lines(...of(`${fixed(before, 3)} × ${one.share}`, `= ${fixed(one.chance, 3)}`)),
      lines(...of(`${log(before)} − ${fixed(-Math.log(one.share), 3)}`, `≈ ${log(one.chance)}`)),
    ];
  }

  function result(found) {
    const sentence = (one) => `“${one.words.join(" ")}”, ${fixed(one.chance, 3)}`;
    return found === best
      ? `It ends with ${sentence(found)}: the most probable sentence of all.`
      : `It ends with ${sentence(found)}, and has missed ${sentence(best)}.`;
  }

  draw();
}
