// What the strip is drawn with and does not change: names, elements, colours, and sums of products in words.
const strip = (() => {
  const NAMES = { scores: "QKᵀ", scaled: "S", masked: "S′", exp: "exp S′", weights: "P", read: "O", q: "Q", k: "K", v: "V" };
  const OF_QUERIES = new Set(["Q", "q", "scores", "scaled", "masked", "exp", "total", "weights", "read", "O"]);
  const SUBSCRIPTS = ["₁", "₂"];
  const MINI = { x: "x", q: "Q", k: "K", v: "V", scores: "scores", scale: "scaled", mask: "masked", softmax: "weights", sum: "O", all: "O", heads: "weights", join: "O" };
  const KEYS = { q: "query", c: "source", m: "mask", s: "scale", h: "heads", g: "gradient" };

  const find = (id) => document.getElementById(id);

  function element(tag, className = "", text) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function paint(cell, value, most) {
    if (value === 0 || most === 0) return;
    const share = Math.round(12 + 48 * Math.min(1, Math.abs(value) / most));
    cell.style.backgroundColor = `color-mix(in srgb, var(${value < 0 ? "--output" : "--input"}) ${share}%, var(--page))`;
  }

  const transposed = (rows) => rows[0].map((_, column) => rows.map((row) => row[column]));
  const negative = (text) => (text.startsWith("−") ? `(${text})` : text);
  const product = (a, b) => a.map((text, index) => `${negative(text)}·${negative(b[index])}`).join(" + ");
  const column = (rows, index) => rows.map((row) => row[index]);

  return { NAMES, OF_QUERIES, SUBSCRIPTS, MINI, KEYS, find, element, paint, transposed, negative, product, column };
})();
