(() => {
  const { pool, runs } = page.data;
  const { NAMES, OF_QUERIES, SUBSCRIPTS, MINI, KEYS, find, element, paint, transposed, negative, product, column } = strip;
  const steps = [...document.querySelectorAll(".step")].map((article) => article.dataset.step);
  const state = { step: 0, query: 3, one: true, source: "self", mask: "both", scale: "scaled", heads: "1", gradient: "off" };
  const revealed = new Set();
  const seen = new Set();
  let run;

  const step = () => steps[state.step];
  const article = () => document.querySelector(`.step[data-step="${step()}"]`);
  const asks = () => article().querySelector(".predict") !== null;
  const covered = () => asks() && !revealed.has(step());
  const heads = () => [...Array(Number(state.heads)).keys()];
  const asking = () => (state.source === "reversed" ? "z" : "x");
  const asked = () => (state.source === "cross" ? "z" : "x");
  const show = (part) => (state.one && part.queries ? (row) => row === state.query : () => true);

  // --- a matrix: { name, head, flip, rows, columns, queries, out }

  function content(part, slope = false) {
    const stored = pool[(slope ? run.slopes : run.values)[part.name][part.head ?? 0]];
    return part.flip ? { t: transposed(stored.t), v: transposed(stored.v) } : stored;
  }

  function title(part) {
    const name = (NAMES[part.name] ?? part.name) + (part.flip ? "ᵀ" : "");
    return part.head !== undefined && state.heads === "2" ? name + SUBSCRIPTS[part.head] : name;
  }

  function grid(part, { t, v }, { slope = false } = {}) {
    const table = element("table", slope ? "slopes" : ""), most = Math.max(...v.flat().map(Math.abs)), shown = show(part);
    if (part.columns) {
      const line = element("tr");
      line.append(...(part.rows ? [element("th")] : []), ...part.columns.map((token) => element("th", "", token)));
      table.createTHead().append(line);
    }
    const body = table.createTBody();
    t.forEach((texts, row) => {
      const line = body.insertRow();
      if (state.one && part.queries && row === state.query) line.className = "asks";
      if (part.rows) line.append(element("th", "", part.rows[row]));
      texts.forEach((text, column) => {
        const cell = line.insertCell();
        Object.assign(cell.dataset, { row, column });
        if (!shown(row)) cell.className = "blank";
        else if (part.out && !slope && covered()) { cell.className = "covered"; cell.textContent = "?"; }
        else {
          cell.textContent = text;
          const hidden = part.columns && run.allowed && !run.allowed[row][column] && ["masked", "exp", "weights"].includes(part.name);
          if (hidden) cell.className = "hidden-key";
          else paint(cell, v[row][column], most);
        }
        if (part.cut && column === 1) cell.classList.add("last-of-head");
        if (part.out && !slope && shown(row) && !covered()) cell.tabIndex = 0;
      });
    });
    return table;
  }

  function figure(part, number) {
    const made = element("figure", "matrix"), caption = element("figcaption"), values = content(part);
    Object.assign(made.dataset, { live: "", part: number, name: part.name });
    caption.append(element("b", "", title(part)), element("span", "shape", `${values.t.length} × ${values.t[0].length}`));
    made.append(caption, grid(part, values));
    if (state.gradient === "on" && run.slopes[part.name] && !(part.name === "z" && state.source === "self")) {
      made.append(element("span", "back-of", `∂L/∂${title(part)}`), grid(part, content(part, true), { slope: true }));
    }
    return made;
  }

  function allowedFigure() {
    const made = element("figure", "matrix"), caption = element("figcaption"), table = element("table"), body = table.createTBody();
    caption.append(element("b", "", page.say("js_mask")), element("span", "shape", `${run.queries.length} × ${run.keys.length}`));
    const line = element("tr");
    line.append(element("th"), ...run.keys.map((token) => element("th", "", token)));
    table.createTHead().append(line);
    run.queries.forEach((token, row) => {
      const tr = body.insertRow();
      if (state.one && row === state.query) tr.className = "asks";
      tr.append(element("th", "", token));
      run.keys.forEach((_, column) => {
        const cell = tr.insertCell(), may = !run.allowed || run.allowed[row][column];
        if (state.one && row !== state.query) cell.className = "blank";
        else { cell.textContent = may ? "✓" : "✗"; if (!may) cell.className = "hidden-key"; }
      });
    });
    made.append(caption, table);
    return made;
  }

  // --- the equation of a step

  function parts(name, head) {
    const rows = run.queries, keys = run.keys;
    const q = { name: "q", head, rows, queries: true }, k = { name: "k", head, rows: keys }, v = { name: "v", head, rows: keys };
    const turned = { name: "k", head, flip: true, columns: keys };
    const square = (matrix, out = false) => ({ name: matrix, head, rows, columns: keys, queries: true, out });
    const read = { name: "read", head, rows, queries: true, out: true };
    const cut = state.heads === "2";
    switch (name) {
      case "q": return [{ name: asking(), rows, queries: true }, "·", { name: "W_Q" }, "=", { name: "Q", rows, queries: true, out: true, cut }];
      case "k": return [{ name: asked(), rows: keys }, "·", { name: "W_K" }, "=", { name: "K", rows: keys, out: true, cut }];
      case "v": return [{ name: asked(), rows: keys }, "·", { name: "W_V" }, "=", { name: "V", rows: keys, out: true, cut }];
      case "scores": return [q, "·", turned, "=", square("scores", true)];
      case "scale": return [square("scores"), state.scale === "raw" ? "· 1 =" : `/ √${run.d} =`, square("scaled", true)];
      case "mask": return [square("scaled"), "+", "allowed", "=", square("masked", true)];
      case "softmax": return [square("masked"), "→", square("exp"), "÷ Σ →", square("weights", true)];
      case "sum": return [square("weights"), "·", v, "=", read];
      case "all": return [square("scores"), "→", square("weights"), "·", v, "=", read];
      case "heads": return [q, "·", turned, "→", square("weights"), "·", v, "=", read];
      default: return [];
    }
  }

  function rowsOfParts() {
    const name = step();
    if (name === "x") {
      const known = [{ name: "x", rows: runs["self none scaled 1"].queries }];
      if (state.source !== "self") known.push({ name: "z", rows: runs["cross none scaled 1"].keys });
      return [known];
    }
    if (name === "join") {
      const joined = { name: "O", rows: run.queries, queries: true, out: true, cut: state.heads === "2" };
      return [[...heads().flatMap((head) => [{ name: "read", head, rows: run.queries, queries: true }, "|"]).slice(0, -1), "=", joined]];
    }
    if (["q", "k", "v"].includes(name)) return [parts(name)];
    return heads().map((head) => parts(name, head));
  }

  let laidOut = [];

  function showEquation() {
    const box = article().querySelector(".live-equation");
    laidOut = rowsOfParts();
    box.hidden = false;
    box.replaceChildren(...laidOut.map((line, head) => {
      const made = element("div", "equation");
      if (laidOut.length > 1) made.append(element("p", "head-name", page.say("js_head", { head: head + 1 })));
      line.forEach((part, number) => {
        if (part === "allowed") made.append(allowedFigure());
        else made.append(typeof part === "string" ? element("span", "sign", part) : figure(part, number));
      });
      made.dataset.line = head;
      return made;
    }));
    reckon();
  }

  // --- how one number comes about

  function forwards(line, head, row, col) {
    const named = Object.fromEntries(line.filter((part) => part.name).map((part) => [part.name + (part.flip ? "T" : ""), content(part).t]));
    const out = line[line.length - 1], result = content(out).t[row][col];
    switch (step()) {
      case "q": case "k": case "v": return `${product(named[line[0].name][row], column(named[line[2].name], col))} = ${result}`;
      case "scores": return `q·k = ${product(named.q[row], column(named.kT, col))} = ${result}`;
      case "scale": return state.scale === "raw" ? `${named.scores[row][col]} = ${result}` : `${named.scores[row][col]} / √${run.d} = ${result}`;
      case "mask": return page.say(!run.allowed || run.allowed[row][col] ? "js_may" : "js_may_not", { score: named.scaled[row][col] });
      case "softmax": {
        const total = pool[run.total[head]].t[row][0];
        return total === "0" ? page.say("js_nothing") : `${named.exp[row][col]} / (${named.exp[row].join(" + ")}) = ${named.exp[row][col]} / ${total} = ${result}`;
      }
      case "sum": case "all": case "heads": return `${product(named.weights[row], column(named.v, col))} = ${result}`;
      default: return result;
    }
  }

  function backwards(head, row, col) {
    const slope = (name) => pool[run.slopes[name][head]].t, value = (name) => pool[run.values[name][head]].t;
    switch (step()) {
      case "scale": return `∂L/∂QKᵀ = ${state.scale === "raw" ? "" : `1/√${run.d} · `}${slope("scaled")[row][col]} = ${slope("scores")[row][col]}`;
      case "mask": return `∂L/∂S = ${slope("scaled")[row][col]}`;
      case "softmax": return `∂L/∂S′ = ${value("weights")[row][col]} · (${slope("weights")[row][col]} − ${negative(pool[run.gain[head]].t[row][0])}) = ${slope("masked")[row][col]}`;
      default: return "";
    }
  }

  function reckon(line = 0, row, col) {
    const box = article().querySelector(".reckoning"), equation = laidOut[line], out = equation[equation.length - 1];
    for (const cell of article().querySelectorAll(".lit, .target")) cell.classList.remove("lit", "target");
    box.hidden = step() === "x";
    box.textContent = "";
    if (step() === "x" || covered()) return;
    const values = content(out).v;
    if (row === undefined) {
      row = Math.min(out.queries ? state.query : Infinity, values.length - 1);
      col = values[row].indexOf(Math.max(...values[row]));
    }
    const text = `${title(out)} (${out.rows[row]}, ${out.columns ? out.columns[col] : col + 1}): ${forwards(equation, line, row, col)}`;
    box.replaceChildren(element("span", "", text));
    const back = state.gradient === "on" && out.columns ? backwards(line, row, col) : "";
    if (back) box.append(element("br"), element("span", "back", back));
    const figures = [...article().querySelectorAll(`.equation[data-line="${line}"] .matrix[data-live]`)];
    const light = (number, test, name) => {
      for (const cell of figures[number].querySelectorAll("table:not(.slopes) td")) {
        if (test(Number(cell.dataset.row), Number(cell.dataset.column))) cell.classList.add(name);
      }
    };
    const last = figures.length - 1, one = (r, c) => r === row && c === col;
    light(last, one, "target");
    if (["q", "k", "v", "scores", "sum", "all", "heads"].includes(step())) {
      light(last - 2, (r) => r === row, "lit");
      light(last - 1, (_, c) => c === col, "lit");
      if (step() === "scores") return;
    } else if (step() === "softmax") light(last - 1, (r) => r === row, "lit");
    else if (step() !== "join") light(0, one, "lit");
  }

  function pointed(event) {
    const cell = event.target.closest?.("td[data-row]"), box = cell?.closest(".matrix[data-live]"), line = cell?.closest("[data-line]");
    if (!line || cell.classList.contains("blank")) return;
    const equation = laidOut[Number(line.dataset.line)], part = equation[Number(box.dataset.part)];
    const same = part.out || (part.columns && equation[equation.length - 1].columns && !part.flip);
    if (same) reckon(Number(line.dataset.line), Number(cell.dataset.row), Number(cell.dataset.column));
  }

  // A token in the text lights its rows and columns.
  function named(event) {
    for (const cell of document.querySelectorAll(".named")) cell.classList.remove("named");
    const word = event.target.closest?.(".step p b");
    if (!word || event.type === "mouseout") return;
    for (const name of article().querySelectorAll(".matrix[data-live] th")) {
      if (name.textContent === word.textContent) name.classList.add("named");
    }
  }

  // --- mistakes beside what is right

  function compared(name, made, head, verdict) {
    const box = element("div"), caption = element("p", "verdict");
    const part = { name: "weights", head, rows: run.queries, columns: run.keys, queries: false };
    const stored = pool[made.weights[head]], sums = pool[made.rows[head]].t;
    caption.append(element("span", name === "right" ? "yes" : "no", verdict));
    const table = grid(part, stored);
    [...table.tBodies[0].rows].forEach((line, row) => {
      const cell = line.insertCell();
      cell.className = "sum";
      cell.textContent = `Σ ${sums[row][0]}`;
      if (name !== "right" && sums[row][0] !== "1" && sums[row][0] !== "0") cell.classList.add("wrong-cell");
    });
    if (name === "wrong_axis") {
      const line = table.tBodies[0].insertRow();
      line.className = "sum";
      line.append(element("th"), ...pool[made.columns[head]].t[0].map((text) => element("td", "", `Σ ${text}`)));
    }
    const matrix = element("div", "matrix");
    matrix.append(table);
    box.append(caption, matrix);
    return box;
  }

  function leak(name, head) {
    const made = run.mistakes[name], row = run.queries.length - 2;
    if (!made.leaked) return null;
    const before = pool[made.weights[head]].t[row], after = pool[made.leaked[head]].t[row];
    const key = before.join() === after.join() ? "js_keeps" : "js_leaks";
    return element("p", "told", page.say(key, { row: run.queries[row], last: run.queries[row + 1], before: before.join("  "), after: after.join("  ") }));
  }

  function showMistakes() {
    for (const box of article().querySelectorAll(".mistake")) {
      const name = box.dataset.mistake, pair = box.querySelector(".pair");
      if (name === "target_mask") { box.hidden = covered() || state.source !== "cross"; continue; }
      if (name === "reversed") { box.hidden = covered() || state.source !== "reversed"; continue; }
      if (name === "forgotten") {
        box.hidden = covered() || state.gradient === "off" || state.scale === "raw";
        pair.replaceChildren(...[["right", run.slopes.scores[0]], ["no", run.forgotten[0]]].map(([kind, index]) => {
          const side = element("div"), matrix = element("div", "matrix");
          side.append(element("p", `verdict ${kind === "right" ? "yes" : "no"}`, page.say(kind === "right" ? "js_right" : "js_wrong")));
          matrix.append(grid({ name: "scores", rows: run.queries, columns: run.keys }, pool[index], { slope: true }));
          side.append(matrix);
          return side;
        }));
        continue;
      }
      const made = run.mistakes[name];
      box.hidden = covered() || !made;
      if (!made) continue;
      const told = ["wrong_axis", "after"].includes(name) ? leak(name, 0) : null;
      pair.replaceChildren(compared("right", run.mistakes.right, 0, page.say("js_right")), compared(name, made, 0, page.say("js_wrong")), ...(told ? [told] : []));
    }
    for (const told of article().querySelectorAll(".answer")) told.hidden = covered();
    for (const rule of document.querySelectorAll(".rule")) rule.hidden = state.gradient === "off";
  }

  // --- the strip itself: every matrix in small, as far as the reader has come

  function mini(name) {
    const made = element("span", "minis");
    const known = seen.has(name) && (revealed.has(name) || !document.querySelector(`.step[data-step="${name}"] .predict`));
    if (!known) return made;
    const queries = state.one && OF_QUERIES.has(MINI[name]);
    for (const index of run.values[MINI[name]]) {
      const { v } = pool[index], most = Math.max(1e-9, ...v.flat().map(Math.abs)), map = element("span", "mini");
      map.style.gridTemplateColumns = `repeat(${v[0].length}, 1fr)`;
      v.forEach((values, row) => values.forEach((value) => {
        const cell = element("i");
        if (!queries || row === state.query) paint(cell, value, most);
        map.append(cell);
      }));
      made.append(map);
    }
    return made;
  }

  // --- choosing

  function settle() {
    const causal = state.source === "self";
    for (const value of ["causal", "both"]) document.querySelector(`input[name=mask][value=${value}]`).disabled = !causal;
    if (!causal && state.mask !== "none") state.mask = "padding";
    run = runs[`${state.source} ${state.mask} ${state.scale} ${state.heads}`];
    if (state.query >= run.queries.length) state.query = 1; // 좋아, the last word of z
    for (const name of ["source", "mask", "scale", "heads", "gradient"]) {
      document.querySelector(`input[name=${name}][value="${state[name]}"]`).checked = true;
    }
  }

  function showQueries() {
    const box = find("pick-query"), focused = box.contains(document.activeElement), chosen = state.one ? state.query : "all";
    box.replaceChildren(...[...run.queries.keys(), "all"].map((value) => {
      const label = element("label"), input = element("input");
      Object.assign(input, { type: "radio", name: "query", value: String(value), checked: value === chosen });
      label.append(input, element("span", "", value === "all" ? page.say("js_all") : run.queries[value]));
      return label;
    }));
    if (focused) box.querySelector(":checked").focus();
  }

  function draw() {
    settle();
    seen.add(step());
    showQueries();
    for (const name of steps) document.querySelector(`.step[data-step="${name}"]`).hidden = name !== step();
    for (const button of document.querySelectorAll("[data-go]")) {
      if (button.dataset.go === step()) button.setAttribute("aria-current", "step");
      else button.removeAttribute("aria-current");
      button.querySelector(".minis")?.remove();
      button.prepend(mini(button.dataset.go));
    }
    find("step-number").textContent = page.say("js_step", { step: state.step + 1, count: steps.length });
    find("back-button").disabled = state.step === 0;
    find("on-button").disabled = state.step === steps.length - 1 && !covered();
    find("on-button").classList.toggle("covers", covered());
    showEquation();
    showMistakes();
  }

  const all = steps.indexOf("all"), many = steps.indexOf("heads");

  function go(to) {
    const from = state.step;
    state.step = Math.max(0, Math.min(steps.length - 1, to));
    if ((from < all) !== (state.step < all)) state.one = state.step < all;
    if ((from < many) !== (state.step < many)) state.heads = state.step < many ? "1" : "2";
    draw();
  }

  function onwards() {
    if (covered()) { revealed.add(step()); draw(); } else go(state.step + 1);
  }

  function chose(name, value) {
    if (name === "query") {
      state.one = value !== "all";
      if (state.one) state.query = Number(value);
    } else state[name] = value;
    draw();
  }

  function next(name) {
    const inputs = [...document.querySelectorAll(`input[name=${name}]:not(:disabled)`)];
    chose(name, inputs[(inputs.findIndex((input) => input.checked) + 1) % inputs.length].value);
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.matches?.("input");
    if (!typing && event.key === "ArrowRight") onwards();
    else if (!typing && event.key === "ArrowLeft") go(state.step - 1);
    else if (KEYS[event.key.toLowerCase()]) next(KEYS[event.key.toLowerCase()]);
    else return;
    event.preventDefault();
  });
  find("picks").addEventListener("change", (event) => chose(event.target.name, event.target.value));
  find("overview").addEventListener("click", (event) => {
    const button = event.target.closest("[data-go]");
    if (button) go(steps.indexOf(button.dataset.go));
  });
  find("back-button").addEventListener("click", () => go(state.step - 1));
  find("on-button").addEventListener("click", onwards);
  for (const kind of ["mouseover", "focusin", "click"]) find("strip").addEventListener(kind, pointed);
  for (const kind of ["mouseover", "mouseout"]) find("strip").addEventListener(kind, named);

  find("stage").hidden = find("pager").hidden = false;
  for (const still of document.querySelectorAll(".still")) still.style.display = "none";
  page.onLanguage(draw);
  draw();
})();
