// The date reader, whole (lesson 11): where each of its heads looks while it writes, and what it
// writes when some of them are switched off. The model itself is model.js.

const LONGEST_ANSWER = 16; // without some heads it may find no end
const PAUSE = matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : 220; // ms for a character
const LEVELS = 10; // shades of a small map

/** Read ids and write -> `written`: a token and its logits for each step; `maps`: for each attention
 * and head the rows of its weights. `instead(name, head, step)` may return an output (d_k), which
 * the head then has at all the places of this step. */
function readAndWrite(model, source, instead) {
  const maps = {}, written = [];
  model.hook = (name, heads) => {
    maps[name] ??= heads.map(() => []);
    for (const [h, head] of heads.entries()) {
      maps[name][h].push(...head.weights);
      const other = instead(name, h, written.length);
      if (other) head.output = head.output.map(() => other);
    }
  };
  const cache = newCache(model, encode(model, source));
  for (let token = BOS; token !== EOS && written.length < LONGEST_ANSWER; ) {
    const { logits } = decodeStep(model, token, cache);
    token = choose(logits, 0);
    written.push({ token, logits });
  }
  return { written, maps };
}

/** What a head gives when it is off: zeros, or its mean, which the decoder has for each step. */
function outputOfNone(means, d_k, how, name, head, step) {
  if (how === "zero") return new Array(d_k).fill(0);
  const row = means[name][Math.min(step, means[name].length - 1)];
  return Array.from(row.slice(head * d_k, (head + 1) * d_k));
}

/** A map in small: a row for each query, a column for each key. */
function smallMap(rows) {
  const paths = Array.from({ length: LEVELS + 1 }, () => "");
  rows.forEach((row, y) => row.forEach((weight, x) => { paths[Math.round(LEVELS * weight)] += `M${x} ${y}h1v1h-1z`; }));
  const width = Math.max(...rows.map((row) => row.length));
  const drawing = { viewBox: `0 0 ${width} ${rows.length}`, preserveAspectRatio: "none", "aria-hidden": "true" };
  return shape("svg", drawing, ...paths.map((d, level) => (level && d ? shape("path", { d, "fill-opacity": level / LEVELS }) : "")));
}

function build(app, { date, kind, layer, head, place, longest, examples, kinds, shown, ...files }) {
  const model = loadModel(files.model), means = unpack(files.means);
  const { num_heads: H, d_model, num_encoder_layers, num_decoder_layers } = model.config;
  const boxes = Object.entries(kinds).flatMap(([kind, [module, called]]) =>
    Array.from({ length: kind === "encoder" ? num_encoder_layers : num_decoder_layers }, (_, layer) => {
      const name = module.replace("{}", layer);
      const heads = Array.from({ length: H }, (_, head) =>
        ({ kind, name, head, key: `${name} ${head}`, number: `${layer + 1}.${head + 1}` }));
      return { called: `${kind} ${layer + 1}: ${called}, layer ${layer + 1}`, heads };
    }));
  const heads = boxes.flatMap((box) => box.heads);
  const off = new Set(); // keys of heads
  const places = { read: 0, write: 0 }; // which row of the map is looked at, in either line
  places[kind === "encoder" ? "read" : "write"] = place - 1;
  let chosen = heads.find((one) => one.key === `${kinds[kind][0].replace("{}", layer - 1)} ${head - 1}`);
  let how = "mean", timer, source, usual, now; // what is read; what all heads write, and those that are on

  const nameOf = (head) => `${head.kind} ${head.number}`; // as in lesson 11: "cross 2.3"
  const textOf = (id) => shown[model.pieces[id]] ?? model.pieces[id];
  const tokensOf = (run) => run.written.map(({ token }) => token);
  const answerOf = (run) => tokensOf(run).filter((id) => id !== EOS).map((id) => model.pieces[id].replace("▁", " ")).join("");
  const lineOfQueries = () => (chosen.kind === "encoder" ? "read" : "write");

  // ---- What is there from the beginning
  const typed = element("input", { type: "text", maxlength: longest, autocomplete: "off", autocapitalize: "off", spellcheck: "false" });
  // No form: in JupyterLab the Enter key does not submit one.
  typed.addEventListener("keydown", (event) => { if (event.key === "Enter") read(typed.value, true); });
  const asked = element("div", { class: "side-by-side" },
    element("label", { class: "typed" }, "A date, as people write it", typed), button("Write", () => read(typed.value, true)));
  const tries = examples.map((text) => button(text, () => read(text, true)));
  const lines = { read: element("div", { class: "line" }), write: element("div", { class: "line" }) };
  const legends = { read: element("legend"), write: element("legend") };
  const [looks, verdict] = ["looks", "verdict"].map((name) => element("p", { "aria-live": "polite", class: `said ${name}` }));
  const turn = button("", () => { if (!off.delete(chosen.key)) off.add(chosen.key); rewrite(); });
  const allOn = button("All heads on", () => { off.clear(); rewrite(); turn.focus(); });
  const replaced = choices("A head that is off gives", [["mean", `its mean over ${files.means.dates} dates`], ["zero", "zero"]], how, (value) => {
    how = value;
    rewrite();
  });
  const group = `explorable-${Math.random()}`; // one for each, also if a page has two
  const cards = new Map(heads.map((one) => {
    const input = element("input", { type: "radio", name: `${group}-head`, ...(one === chosen && { checked: "" }) });
    input.addEventListener("change", () => { chosen = one; draw(); });
    const picture = element("span", { class: "small-map" });
    return [one.key, { input, picture, made: element("label", { class: "head" }, input, picture, one.number) }];
  }));
  const box = ({ called, heads }) => element("div", { role: "group", "aria-label": called },
    element("p", { class: "remark" }, called), element("div", { class: "heads" }, ...heads.map(({ key }) => cards.get(key).made)));
  app.append(
    asked, element("div", { class: "pills" }, ...tries),
    ...["read", "write"].map((line) => element("fieldset", {}, legends[line], lines[line])),
    looks,
    element("fieldset", {}, element("legend", {}, "Which head colours the characters?"),
      element("div", { class: "boxes" }, ...boxes.map(box)),
      element("p", { class: "remark" }, "Each small map has a row for a query and a column for a key; purple is weight.")),
    element("div", { class: "side-by-side" }, turn, allOn, replaced),
    verdict,
  );

  // ---- What happens
  function read(text, slowly) {
    if (!text) return typed.focus();
    typed.value = text;
    source = tokenize(model, text);
    usual = readAndWrite(model, source, () => null);
    rewrite(slowly);
  }

  /** Write with the heads that are on: at once, or one character after the other. */
  function rewrite(slowly) {
    const instead = (name, head, step) => off.has(`${name} ${head}`)
      && outputOfNone(means, d_model / H, how, name, head, step);
    now = off.size ? readAndWrite(model, source, instead) : usual;
    for (const one of heads) cards.get(one.key).picture.replaceChildren(smallMap(now.maps[one.name][one.head]));
    places.read = Math.min(places.read, source.length - 1);
    places.write = Math.min(places.write, now.written.length - 1);
    if (!slowly || !PAUSE) return draw();
    clearInterval(timer);
    for (const text of [looks, verdict]) text.textContent = ""; // they say it when it is written
    let written = 0;
    const next = () => {
      written++;
      if (written === now.written.length) draw();
      else drawLines(written, written - 1);
    };
    timer = setInterval(next, PAUSE);
    next();
  }

  function draw() {
    clearInterval(timer);
    drawLines(now.written.length, places.write);
    const at = places[lineOfQueries()], weights = now.maps[chosen.name][chosen.head][at];
    const [queries, keys] = chosen.kind === "encoder" ? [source, source]
      : [tokensOf(now), chosen.kind === "cross" ? source : [BOS, ...tokensOf(now)]];
    const order = [...weights.keys()].sort((a, b) => weights[b] - weights[a]);
    const most = order.slice(0, 3).filter((j) => weights[j] >= 0.05)
      .map((j) => `“${textOf(keys[j])}” (place ${chosen.kind === "decoder" ? j : j + 1}: ${fixed(weights[j])})`);
    const used = off.has(chosen.key) ? " It is off, so nothing of this is used." : "";
    looks.textContent = `${kinds[chosen.kind][2]} “${textOf(queries[at])}”, ${nameOf(chosen)} ` +
      `looks at ${most.join(", ") || "everything a little"}.${used}`;
    for (const one of heads) {
      const { input, made } = cards.get(one.key);
      made.classList.toggle("off", off.has(one.key));
      input.setAttribute("aria-label", nameOf(one) + (off.has(one.key) ? ", off" : ""));
    }
    turn.textContent = `Switch ${nameOf(chosen)} ${off.has(chosen.key) ? "on" : "off"}`;
    allOn.disabled = !off.size;
    const [before, after] = [answerOf(usual), answerOf(now)];
    const count = `${off.size} ${off.size === 1 ? "head is" : "heads are"} off`;
    const unbroken = (text) => element("span", { class: "unbroken" }, text);
    verdict.replaceChildren(...(!off.size ? [`All ${heads.length} heads are on: `, unbroken(after)]
      : [`${count}, and it writes `, unbroken(after), ...(after === before ? [", as before"] : [", no longer ", unbroken(before)])]), ".");
  }

  /** The two lines of characters, `written` of them, coloured as the row at `at` says. */
  function drawLines(written, at) {
    const line = lineOfQueries(), tokens = tokensOf(now).slice(0, written), all = tokensOf(usual);
    const row = now.maps[chosen.name][chosen.head][line === "read" ? places.read : at];
    const ofRead = source.map((id, j) => ({ text: textOf(id), weight: chosen.kind === "decoder" ? null : row[j] }));
    const ofWritten = tokens.map((id, j) => ({ text: textOf(id), other: id !== all[j], weight: chosen.kind === "decoder" ? row[j + 1] : null }));
    const begin = { text: textOf(BOS), weight: row[0], key: true };
    legends.read.textContent = line === "read" ? "It reads (choose a character)" : "It reads";
    legends.write.textContent = line === "write" ? "It writes (choose a character)" : "It writes";
    fill("read", ofRead, places.read);
    fill("write", chosen.kind === "decoder" ? [begin, ...ofWritten] : ofWritten, chosen.kind === "decoder" ? at + 1 : at);
  }

  function fill(line, pieces, at) {
    const choose = line === lineOfQueries(), root = app.getRootNode();
    const focused = root.activeElement && lines[line].contains(root.activeElement);
    const first = pieces.findIndex((piece) => !piece.key);
    lines[line].replaceChildren(...pieces.map(({ text, weight, other, key }, j) => {
      const name = ["piece", weight > 0.7 && "strong", weight > 0.59 && "strong-in-dark", other && "other", choose && j === at && "now"];
      const piece = element("span", { class: name.filter(Boolean).join(" "), style: `--w: ${(weight ?? 0).toFixed(3)}` }, text);
      if (!choose || key) return piece;
      const input = element("input", { type: "radio", name: `${group}-${line}`, "aria-label": `${j - first + 1}: ${text}` });
      input.checked = j === at;
      input.addEventListener("change", () => { places[line] = j - first; draw(); });
      return element("label", { class: "piece-choice" }, input, piece);
    }));
    if (focused) lines[line].querySelector("input:checked")?.focus();
  }

  read(date, false);
}
