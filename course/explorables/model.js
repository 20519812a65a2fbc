"use strict";
// The encoder–decoder of "Attention Is All You Need" in plain JavaScript, named as in the package
// `transformer_lab`. A matrix (L, d) is an array of L rows, each with d numbers. One sentence at a
// time: so there is no padding, and with a cache no mask at all (lessons 04 and 09).

const [PAD, BOS, EOS, UNK] = [0, 1, 2, 3];

// ---- The trained numbers

/** A number of 16 bits: 1 for the sign, 5 for the exponent, 10 for the fraction. */
function fromFloat16(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = (bits & 0x3ff) / 1024;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction) : 2 ** -14 * fraction);
}

/** The shapes of named tensors and all their numbers in 16 bits -> a matrix or a row for each name. */
function unpack({ shapes, float16 }) {
  const letters = atob(float16);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = letters.charCodeAt(i);
  const numbers = Float32Array.from(new Uint16Array(bytes.buffer), fromFloat16);
  const weights = {};
  let start = 0;
  for (const [name, [rows, columns]] of Object.entries(shapes)) {
    const take = (size) => numbers.subarray(start, (start += size));
    weights[name] = columns ? Array.from({ length: rows }, () => take(columns)) : take(rows);
  }
  return weights;
}

/** A trained model, as `packed_model` writes it -> config, pieces, their ids, and `weights`. */
function loadModel({ config, pieces, ...tensors }) {
  const ids = new Map(pieces.map((piece, id) => [piece, id]));
  return { config, pieces, ids, weights: unpack(tensors) };
}

/** "3 Mar" -> token ids, one for each character, and EOS. In the vocabulary a space is "▁". */
function tokenize(model, text) {
  const letters = [...text].map((letter) => (letter === "▁" ? UNK : letter === " " ? "▁" : letter));
  return [...letters.map((letter) => model.ids.get(letter) ?? UNK), EOS];
}

// ---- Small tools

const add = (a, b) => a.map((number, i) => number + b[i]);

function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

/** x Wᵀ + b, with W (d_out, d_in) as `nn.Linear` keeps it: (L, d_in) -> (L, d_out). */
function linear(x, W, b) {
  return x.map((row) => W.map((weights, i) => dot(row, weights) + (b ? b[i] : 0)));
}

/** Numbers -> positive numbers that add up to 1 (lesson 02); the largest is taken off first. */
function softmax(scores) {
  const largest = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - largest));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((power) => power / sum);
}

// ---- From ids to vectors

/** √d_model × the rows of the table (paper, 3.4; lesson 07): L ids -> (L, d_model). */
function embed(model, tokens) {
  const scale = Math.sqrt(model.config.d_model);
  const table = model.weights["source_embedding.table"]; // one for both languages
  return tokens.map((id) => Array.from(table[id], (number) => number * scale));
}

/** x + PE, where the first row stands at position `offset` (paper, 3.5; lesson 05). */
function positions(x, offset = 0) {
  return x.map((row, l) =>
    row.map((number, i) => {
      const angle = (offset + l) / 10000 ** ((i - (i % 2)) / row.length);
      return number + (i % 2 ? Math.cos(angle) : Math.sin(angle));
    }),
  );
}

// ---- Attention

/** softmax(Q Kᵀ / √d_k) V (paper, 3.2.1; lesson 02): (Lq, d_k), (Lk, d_k), (Lk, d_v)
    -> output (Lq, d_v), and weights (Lq, Lk) whose rows add up to 1. */
function scaledDotProductAttention(query, key, value) {
  const scale = Math.sqrt(query[0].length);
  const scores = query.map((q) => key.map((k) => dot(q, k) / scale)); // (Lq, Lk)
  const weights = scores.map(softmax);
  const output = weights.map((w) => value[0].map((_, i) => dot(w, value.map((v) => v[i]))));
  return { output, weights };
}

/** (L, d_model) -> H matrices (L, d_k): each head has its own d_k numbers (lesson 03). */
function splitHeads(x, numHeads) {
  const d_k = x[0].length / numHeads;
  const ofHead = (h) => x.map((row) => row.slice(h * d_k, (h + 1) * d_k));
  return Array.from({ length: numHeads }, (_, h) => ofHead(h));
}

/** H matrices (L, d_k) -> (L, d_model): side by side again. */
function mergeHeads(heads) {
  return heads[0].map((_, l) => heads.flatMap((head) => head[l]));
}

/** The keys and values that `x` (L, d_model) offers in the attention `name`: each H × (L, d_k). */
function keysAndValues(model, name, x) {
  const project = (w) => linear(x, model.weights[`${name}.${w}.weight`]);
  return [project("w_k"), project("w_v")].map((y) => splitHeads(y, model.config.num_heads));
}

/** Concat(head₁ … head_h) W_O (paper, 3.2.2; lesson 03)
    -> output (Lq, d_model), and the weights of each head (H, Lq, Lk).
    A `model.hook` is shown every head, and may put another output in its place (lesson 11). */
function attention(model, name, x, [keys, values]) {
  const query = linear(x, model.weights[`${name}.w_q.weight`]);
  const queries = splitHeads(query, model.config.num_heads);
  const heads = queries.map((q, h) => scaledDotProductAttention(q, keys[h], values[h]));
  model.hook?.(name, heads);
  const merged = mergeHeads(heads.map((head) => head.output));
  return {
    output: linear(merged, model.weights[`${name}.w_o.weight`]),
    weights: heads.map((head) => head.weights),
  };
}

// ---- The other parts of a layer

/** Each row to mean 0 and variance 1, then times gamma plus beta (lesson 06). */
function layerNorm(x, gamma, beta, eps = 1e-5) {
  return x.map((row) => {
    const mean = row.reduce((a, b) => a + b, 0) / row.length;
    const variance = row.reduce((sum, n) => sum + (n - mean) ** 2, 0) / row.length;
    return row.map((n, i) => ((n - mean) / Math.sqrt(variance + eps)) * gamma[i] + beta[i]);
  });
}

/** LayerNorm(x + Sublayer(x)) (paper, 3.1). */
function addNorm(model, name, x, sublayer) {
  const { [`${name}.norm.weight`]: gamma, [`${name}.norm.bias`]: beta } = model.weights;
  return layerNorm(x.map((row, l) => add(row, sublayer[l])), gamma, beta);
}

/** max(0, x W₁ + b₁) W₂ + b₂, at each position the same (paper, 3.3; lesson 06). */
function feedForward(model, name, x) {
  const [W1, b1, W2, b2] = ["linear_1.weight", "linear_1.bias", "linear_2.weight", "linear_2.bias"]
    .map((parameter) => model.weights[`${name}.${parameter}`]);
  const hidden = linear(x, W1, b1).map((row) => row.map((n) => Math.max(0, n))); // (L, d_ff)
  return linear(hidden, W2, b2);
}

function encoderLayer(model, name, x) {
  const own = keysAndValues(model, `${name}.self_attention`, x);
  const read = attention(model, `${name}.self_attention`, x, own);
  x = addNorm(model, `${name}.add_norm_1`, x, read.output);
  return addNorm(model, `${name}.add_norm_2`, x, feedForward(model, `${name}.feed_forward`, x));
}

/** One new row `x` (1, d_model); `cache` has the keys and values of what was written before. */
function decoderLayer(model, name, x, cache) {
  const own = keysAndValues(model, `${name}.self_attention`, x);
  cache.self = cache.self.map((heads, i) => heads.map((rows, h) => [...rows, ...own[i][h]]));
  const written = attention(model, `${name}.self_attention`, x, cache.self);
  x = addNorm(model, `${name}.add_norm_1`, x, written.output);
  const read = attention(model, `${name}.cross_attention`, x, cache.cross);
  x = addNorm(model, `${name}.add_norm_2`, x, read.output);
  x = addNorm(model, `${name}.add_norm_3`, x, feedForward(model, `${name}.feed_forward`, x));
  return { x, weights: read.weights.map((head) => head[0]) }; // (H, Ls)
}

// ---- The whole model

/** Read the source once: Ls ids -> memory (Ls, d_model). */
function encode(model, source) {
  let x = positions(embed(model, source));
  for (let n = 0; n < model.config.num_encoder_layers; n++) {
    x = encoderLayer(model, `encoder.layers.${n}`, x);
  }
  return x;
}

/** What the decoder keeps (lesson 09): the memory's keys and values, and its own so far. */
function newCache(model, memory) {
  const layers = Array.from({ length: model.config.num_decoder_layers }, (_, n) => ({
    cross: keysAndValues(model, `decoder.layers.${n}.cross_attention`, memory),
    self: [0, 1].map(() => Array.from({ length: model.config.num_heads }, () => [])),
  }));
  return { length: 0, layers };
}

/** Read one written token; -> the logits (V) of the next, and who looked where: (N, H, Ls). */
function decodeStep(model, token, cache) {
  let x = positions(embed(model, [token]), cache.length++); // (1, d_model)
  const weights = cache.layers.map((layerCache, n) => {
    const layer = decoderLayer(model, `decoder.layers.${n}`, x, layerCache);
    x = layer.x;
    return layer.weights;
  });
  const logits = linear(x, model.weights["source_embedding.table"])[0]; // the embedding again (3.4)
  return { logits, weights };
}

/** The most probable token at temperature 0; else drawn from softmax(logits / temperature). */
function choose(logits, temperature, random = Math.random) {
  if (temperature === 0) return logits.indexOf(Math.max(...logits));
  let rest = random();
  const probabilities = softmax(logits.map((logit) => logit / temperature));
  const chosen = probabilities.findIndex((probability) => (rest -= probability) < 0);
  return chosen < 0 ? probabilities.length - 1 : chosen; // rounding may leave a crumb of `rest`
}

/** Write until EOS or `maxLength` tokens: a list of steps {token, logits, weights}. */
function translate(model, source, { temperature = 0, maxLength = 24, random = Math.random } = {}) {
  const cache = newCache(model, encode(model, source));
  const steps = [];
  for (let token = BOS; token !== EOS && steps.length < maxLength; ) {
    const step = decodeStep(model, token, cache);
    token = choose(step.logits, temperature, random);
    steps.push({ token, ...step });
  }
  return steps;
}
