// The trained models in this page's own arithmetic: the formulas of the engine, in doubles, on the same weights.
const reader = (() => {
  const { vocabulary, nouns, models } = page.data;
  const idOf = new Map(vocabulary.map((word, id) => [word, id]));
  const nounIds = nouns.map((noun) => idOf.get(noun));

  function unpack({ weights, shapes }) {
    const bytes = Uint8Array.from(atob(weights), (character) => character.charCodeAt(0));
    const numbers = new Float32Array(bytes.buffer);
    const parts = {};
    let at = 0;
    for (const [name, size] of shapes) {
      parts[name] = numbers.subarray(at, at + size);
      at += size;
    }
    return parts;
  }

  const dot = (a, b) => a.reduce((sum, value, index) => sum + value * b[index], 0);
  const add = (a, b) => a.map((value, index) => value + b[index]);

  // y = x Wᵀ + b; W is (out, in).
  function linear(parts, name, rows) {
    const bias = parts[`${name}.bias`], weight = parts[`${name}.weight`];
    return rows.map((row) => Array.from(bias, (b, out) => {
      let sum = b;
      for (let i = 0; i < row.length; i += 1) sum += weight[out * row.length + i] * row[i];
      return sum;
    }));
  }

  function layerNorm(parts, name, rows) {
    const bias = parts[`${name}.bias`], weight = parts[`${name}.weight`];
    return rows.map((row) => {
      const mean = row.reduce((sum, value) => sum + value, 0) / row.length;
      const variance = row.reduce((sum, value) => sum + (value - mean) ** 2, 0) / row.length;
      return row.map((value, i) => ((value - mean) / Math.sqrt(variance + 1e-5)) * weight[i] + bias[i]);
    });
  }

  function softmax(row) {
    const most = Math.max(...row);
    const grown = row.map((value) => Math.exp(value - most));
    const sum = grown.reduce((total, value) => total + value, 0);
    return grown.map((value) => value / sum);
  }

  // One sentence. `hidden`: a word that nobody may look at. `nudge`: a weight of the pronoun's row, moved a little.
  function run(model, ids, { hidden = -1, nudge = null } = {}) {
    const { parts, heads, size } = model;
    const pronoun = ids.indexOf(idOf.get("it")), width = size / heads;
    const slice = (head) => (row) => row.slice(head * width, (head + 1) * width);
    let x = ids.map((id, place) => Array.from({ length: size }, (_, i) =>
      parts["embedding.tokens.weight"][id * size + i] * Math.sqrt(size)
      + parts["embedding.positions.weight"][place * size + i]));
    const layers = [];
    for (let number = 0; number < model.layers; number += 1) {
      const name = `encoder.layers.${number}`;
      const inside = layerNorm(parts, `${name}.self_attention_norm`, x);
      const [q, k, v] = ["query", "key", "value"].map((kind) => linear(parts, `${name}.self_attention.to_${kind}`, inside));
      const opened = Array.from({ length: heads }, (_, head) => {
        const [query, key, value] = [q, k, v].map((rows) => rows.map(slice(head)));
        const scores = query.map((asks) => key.map((asked) => dot(asks, asked) / Math.sqrt(width)));
        const weights = scores.map((row) => softmax(row.map((score, j) => (j === hidden ? -Infinity : score))));
        if (nudge && nudge.layer === number && nudge.head === head) weights[pronoun][nudge.key] += nudge.by;
        const output = weights.map((row) => value[0].map((_, i) => row.reduce((sum, w, j) => sum + w * value[j][i], 0)));
        return { query, key, value, scores, weights, output };
      });
      const joined = x.map((_, place) => opened.flatMap((head) => head.output[place]));
      x = linear(parts, `${name}.self_attention.to_output`, joined).map((row, place) => add(x[place], row));
      const grown = linear(parts, `${name}.feed_forward.expand`, layerNorm(parts, `${name}.feed_forward_norm`, x));
      const changed = linear(parts, `${name}.feed_forward.contract`, grown.map((row) => row.map((value) => Math.max(0, value))));
      x = x.map((row, place) => add(row, changed[place]));
      layers.push(opened);
    }
    const [last] = layerNorm(parts, "encoder.norm", [x[pronoun]]);
    const logits = nounIds.map((id) => dot(last, parts["embedding.tokens.weight"].subarray(id * size, (id + 1) * size)));
    return { layers, logits, probabilities: softmax(logits), pronoun };
  }

  function logOdds(logits, answer) {
    const others = logits.filter((_, index) => index !== answer), most = Math.max(...others);
    return logits[answer] - most - Math.log(others.reduce((sum, value) => sum + Math.exp(value - most), 0));
  }

  const loaded = Object.fromEntries(Object.entries(models).map(([name, model]) => [name, { ...model, parts: unpack(model) }]));

  // Everything about one sentence. The engine finds slopes by backpropagation; here they are differences.
  function read(name, words) {
    const model = loaded[name], ids = words.map((word) => idOf.get(word.toLowerCase()));
    const found = run(model, ids);
    const answer = found.probabilities.indexOf(Math.max(...found.probabilities));
    const slope = (layer, head, key) => {
      const [up, down] = [1e-5, -1e-5].map((by) => logOdds(run(model, ids, { nudge: { layer, head, key, by } }).logits, answer));
      return (up - down) / 2e-5;
    };
    return {
      ...found, words, answer,
      without: words.map((_, hidden) => run(model, ids, { hidden }).probabilities[answer]),
      gradient: found.layers.map((heads, layer) => heads.map((_, head) => words.map((_, key) => slope(layer, head, key)))),
    };
  }

  // Levenshtein's distance, to name the words that a mistyped one may have been.
  function distance(a, b) {
    let row = Array.from({ length: b.length + 1 }, (_, i) => i);
    for (let i = 1; i <= a.length; i += 1) {
      const next = [i];
      for (let j = 1; j <= b.length; j += 1) {
        next.push(Math.min(next[j - 1] + 1, row[j] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1)));
      }
      row = next;
    }
    return row[b.length];
  }

  const words = vocabulary.slice(3);
  const split = (text) => text.replaceAll("’", "'").match(/[\p{L}\p{N}]+(?:['-][\p{L}\p{N}]+)*/gu) || [];
  const unknown = (given) => [...new Set(given.filter((word) => !words.includes(word.toLowerCase())))];
  const nearest = (word) => words.slice().sort((a, b) => distance(word.toLowerCase(), a) - distance(word.toLowerCase(), b)).slice(0, 2);
  return { read, split, unknown, nearest, noun: (index) => nouns[index], models: loaded };
})();
