(() => {
  const { opening, swaps, adjectives, most: longest, engine, pronoun: it } = page.data;
  const find = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  const adjectiveWords = adjectives.flatMap((group) => group.words);
  const state = { model: "2", layer: 1, head: "mean", query: null, preview: null, words: opening.split(" ") };
  let now;

  function element(tag, className = "", text) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function drawing(tag, attributes) {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
    return made;
  }

  function share(value) {
    if (value <= 0) return "0";
    if (value >= 1) return "1";
    if (value < 0.005) return "<.01";
    return value >= 0.995 ? ">.99" : value.toFixed(2).slice(1);
  }

  const fixed = (value) => value.toFixed(2).replace("-", "−");

  // Significant digits, so that only an exact zero reads "0".
  function short(value, digits = 3) {
    if (value === 0) return "0";
    const size = Math.abs(value);
    const text = size >= 1e4 || size < 1e-3 ? value.toExponential(digits - 1) : String(Number(value.toPrecision(digits)));
    return text.replace("+", "").replaceAll("-", "−");
  }

  const mean = (rows) => rows[0].map((_, index) => rows.reduce((sum, row) => sum + row[index], 0) / rows.length);
  const total = (rows) => rows[0].map((_, index) => rows.reduce((sum, row) => sum + row[index], 0));
  const heads = () => now.layers[state.layer];
  const chosen = () => (state.head === "mean" ? heads() : [heads()[state.head]]);
  const asker = () => state.preview ?? state.query;
  const row = () => mean(chosen().map((head) => head.weights[asker()]));
  const largest = (values) => values.indexOf(Math.max(...values));
  const whose = () => page.say(state.head === "mean" ? "js_layer_mean" : "js_layer_head",
    { layer: state.layer + 1, head: state.head + 1, heads: heads().length });

  // --- the sentence and its lines

  function cell(tag, word, shaded) {
    const made = element(tag, "token");
    if (shaded) made.append(element("span", "shade"));
    made.append(element("b", "", word));
    if (shaded) made.append(element("small"));
    return made;
  }

  function layOut() {
    find("looked-at").replaceChildren(...now.words.map((word) => cell("span", word, true)));
    find("lookers").replaceChildren(...now.words.map((word, index) => {
      const button = cell("button", word, false);
      button.type = "button";
      button.addEventListener("click", () => look(index));
      button.addEventListener("focus", () => look(index));
      button.addEventListener("mouseenter", () => { state.preview = index; showLook(); });
      button.addEventListener("mouseleave", () => { state.preview = null; showLook(); });
      return button;
    }));
    find("lines").replaceChildren(...now.words.map(() => drawing("path", {})));
  }

  function drawLines() {
    if (!now) return;
    const frame = find("flow").getBoundingClientRect(), weights = row();
    const from = find("lookers").children[asker()].getBoundingClientRect();
    const upright = find("looked-at").getBoundingClientRect().bottom <= find("lookers").getBoundingClientRect().top;
    [...find("lines").children].forEach((path, index) => {
      const to = find("looked-at").children[index].getBoundingClientRect();
      const [x, y, u, v] = upright
        ? [from.left + from.width / 2, from.top, to.left + to.width / 2, to.bottom]
        : [from.right, from.top + from.height / 2, to.left, to.top + to.height / 2];
      const [a, b, c, d] = [x - frame.left, y - frame.top, u - frame.left, v - frame.top];
      const bend = upright ? `${a} ${(b + d) / 2} ${c} ${(b + d) / 2}` : `${(a + c) / 2} ${b} ${(a + c) / 2} ${d}`;
      path.setAttribute("d", `M${a} ${b}C${bend} ${c} ${d}`);
      path.style.strokeWidth = `${Math.max(0.6, 22 * weights[index])}px`;
      path.style.strokeOpacity = weights[index] < 0.005 ? 0.12 : 0.3 + 0.5 * weights[index];
    });
  }

  function showLook() {
    const weights = row(), top = largest(weights), answer = reader.noun(now.answer);
    [...find("looked-at").children].forEach((token, index) => {
      token.querySelector(".shade").style.opacity = weights[index].toFixed(3);
      token.querySelector("small").textContent = share(weights[index]);
      token.classList.toggle("strong", weights[index] >= 0.55);
      token.classList.toggle("answer", now.words[index].toLowerCase() === answer);
    });
    [...find("lookers").children].forEach((token, index) => token.setAttribute("aria-pressed", String(index === asker())));
    drawLines();
    showReckoning();
    find("spoken").textContent = page.say("js_spoken", {
      word: now.words[asker()], most: now.words[top], share: share(weights[top]), answer,
      probability: share(now.probabilities[now.answer]),
    });
  }

  function showChoices() {
    const order = now.probabilities.map((_, index) => index).sort((a, b) => now.probabilities[b] - now.probabilities[a]);
    find("choices").replaceChildren(...order.slice(0, 4).flatMap((noun, index) => {
      const track = element("span", index === 0 ? "track best" : "track"), bar = element("span");
      bar.style.width = `${100 * now.probabilities[noun]}%`;
      track.append(bar);
      return [element("span", "name", reader.noun(noun)), track, element("span", "value", share(now.probabilities[noun]))];
    }));
  }

  // --- the numbers

  function strip(values, size) {
    const picture = drawing("svg", { class: "heat", viewBox: `0 0 ${values.length} 1`, preserveAspectRatio: "none", "aria-hidden": true });
    values.forEach((value, index) => picture.append(drawing("rect", {
      x: index, y: 0, width: 1, height: 1, class: value < 0 ? "minus" : "plus", "fill-opacity": Math.min(1, Math.abs(value) / size).toFixed(3),
    })));
    const box = element("span", "strip");
    box.append(picture);
    return box;
  }

  const greatest = (rows) => Math.max(1e-9, ...rows.flat().map(Math.abs));

  function showReckoning() {
    const number = state.head === "mean" ? 0 : state.head, head = heads()[number], query = asker();
    find("numbers-which").textContent = page.say(state.head === "mean" ? "js_numbers_mean" : "js_numbers_for",
      { word: now.words[query], layer: state.layer + 1, head: number + 1 });
    const keys = greatest([...head.key, head.query[query]]), values = greatest(head.value), top = largest(head.weights[query]);
    const lines = now.words.map((word, index) => {
      const score = head.scores[query][index], weight = head.weights[query][index];
      const line = element("tr", index === top ? "most" : "");
      const name = element("th", "", word);
      name.scope = "row";
      line.append(name);
      for (const content of [strip(head.key[index], keys), fixed(score), short(Math.exp(score), 2), share(weight),
        strip(head.value[index], values), strip(head.value[index].map((value) => weight * value), values)]) {
        const data = element("td", typeof content === "string" ? "number" : "");
        data.append(content);
        line.append(data);
      }
      return line;
    });
    const table = find("reckoning");
    table.tBodies[0].replaceChildren(...lines);
    const sums = find("reckoning-sum").rows[0].cells;
    find("reckoning-sum").hidden = false;
    sums[1].replaceChildren(strip(head.query[query], keys));
    sums[3].textContent = short(head.scores[query].reduce((sum, score) => sum + Math.exp(score), 0));
    sums[4].textContent = share(head.weights[query].reduce((sum, weight) => sum + weight, 0) + 1e-12);
    sums[6].replaceChildren(strip(head.output[query], values));
  }

  function gauge(value, size, text, signed) {
    const made = element("span", "gauge"), track = element("span", signed ? "track signed" : "track");
    const bar = element("i", value < 0 ? "minus" : ""), width = (signed ? 50 : 100) * Math.min(1, Math.abs(value) / size);
    bar.style.width = `${width}%`;
    bar.style.left = signed ? `${value < 0 ? 50 - width : 50}%` : "0";
    track.append(bar);
    made.append(track, element("span", "value", text));
    return made;
  }

  function showMatters() {
    const picked = state.head === "mean" ? heads().map((_, index) => index) : [state.head];
    const weights = picked.map((head) => heads()[head].weights[now.pronoun]);
    const slopes = picked.map((head) => now.gradient[state.layer][head]);
    const weight = mean(weights), slope = total(slopes);
    const product = total(slopes.map((line, head) => line.map((value, index) => value * weights[head][index])));
    const sizes = [greatest([slope]), greatest([product])], p = now.probabilities[now.answer];
    find("matters-rows").replaceChildren(...now.words.map((word, index) => {
      const line = element("tr");
      const name = element("th", "", word);
      name.scope = "row";
      line.append(name, ...[
        gauge(weight[index], 1, share(weight[index]), false),
        gauge(slope[index], sizes[0], short(slope[index], 2), true),
        gauge(product[index], sizes[1], short(product[index], 2), true),
        gauge(now.without[index], 1, share(now.without[index]), false),
      ].map((content) => { const data = element("td"); data.append(content); return data; }));
      return line;
    }));
    const top = largest(weight), decisive = largest(now.without.map((value) => Math.abs(p - value)));
    const told = { most: now.words[top], share: share(weight[top]), decisive: now.words[decisive], from: share(p), to: share(now.without[decisive]) };
    find("matters-told").textContent = page.say(Math.abs(p - now.without[decisive]) < 0.01 ? "js_nothing_matters" : "js_matters", told);
    find("matters-whose").textContent = page.say("js_whose", { whose: whose() });
  }

  // --- all heads

  function showHeads() {
    for (const button of document.querySelectorAll(".multiple")) {
      const layer = Number(button.dataset.layer), head = Number(button.dataset.head), n = now.words.length;
      button.hidden = layer >= now.layers.length;
      if (button.hidden) continue;
      const picture = drawing("svg", { class: "heat", viewBox: `0 0 ${n} ${n}`, preserveAspectRatio: "none", "aria-hidden": true });
      now.layers[layer][head].weights.forEach((line, y) => line.forEach((weight, x) => {
        if (weight >= 0.005) picture.append(drawing("rect", { x, y, width: 1, height: 1, class: "plus", "fill-opacity": weight.toFixed(3) }));
      }));
      button.querySelector(".map").replaceChildren(picture);
      button.querySelector(".ys").replaceChildren(...now.words.map((word) => element("span", "", word)));
      const marker = button.querySelector(".row");
      marker.style.display = "block";
      marker.style.top = `${(100 * now.pronoun) / n}%`;
      marker.style.height = `${100 / n}%`;
      button.setAttribute("aria-pressed", String(layer === state.layer && head === state.head));
    }
  }

  // --- choosing

  function look(index) {
    state.query = index;
    state.preview = null;
    showLook();
  }

  function radios(container, name, options, current, choose) {
    const box = find(container), focused = box.contains(document.activeElement);
    box.replaceChildren(...options.map(([value, text]) => {
      const label = element("label"), input = element("input");
      Object.assign(input, { type: "radio", name, value: String(value), checked: value === current });
      input.addEventListener("change", () => choose(value));
      label.append(input, element("span", "", text));
      return label;
    }));
    if (focused) box.querySelector(":checked").focus();
  }

  function showPicks() {
    radios("pick-model", "model", [["2", page.say("js_two")], ["1", page.say("js_one")]], state.model, (name) => {
      state.model = name;
      state.layer = reader.models[name].layers - 1;
      readAgain();
    });
    radios("pick-layer", "layer", now.layers.map((_, index) => [index, String(index + 1)]), state.layer, (layer) => {
      state.layer = layer;
      show();
    });
    const names = [["mean", page.say("js_mean")], ...heads().map((_, index) => [index, String(index + 1)])];
    radios("pick-head", "head", names, state.head, (head) => { state.head = head; show(); });
  }

  const lastWord = () => now.words[now.words.length - 1].toLowerCase();

  function showSwap() {
    const last = lastWord(), other = swaps[last];
    find("swap").disabled = other === undefined;
    find("swap").textContent = other === undefined ? page.say("js_no_swap") : `⇄ ${page.say("js_swap", { word: last, other })}`;
    const groups = adjectives.map(({ name, words, fresh }) => {
      const group = element("optgroup");
      group.label = page.say(`js_${name}`);
      group.append(...words.map((word) => new Option(fresh.includes(word) ? `${word} ${page.say("js_fresh")}` : word, word)));
      return group;
    });
    find("adjective").replaceChildren(...groups);
    find("adjective").disabled = !adjectiveWords.includes(last);
    find("adjective").value = adjectiveWords.includes(last) ? last : "";
  }

  function replaceLast(word) {
    if (word !== undefined) readWords([...now.words.slice(0, -1), word]);
  }

  function show() {
    showPicks();
    showSwap();
    showLook();
    showChoices();
    showMatters();
    showHeads();
  }

  function readWords(words) {
    const unknown = reader.unknown(words);
    const problem = unknown.length
      ? page.say("js_unknown", { words: unknown.map((word) => page.say("js_nearest", { word, known: reader.nearest(word).join(", ") })).join(", ") })
      : words.filter((word) => word.toLowerCase() === it).length !== 1 || words.length > longest
        ? page.say("js_needs_it", { most: longest }) : "";
    find("problem").textContent = problem;
    if (problem) return;
    const same = now && words.length === now.words.length && state.query !== now.pronoun;
    state.words = words;
    now = reader.read(state.model, words);
    if (!same) state.query = now.pronoun;
    state.preview = null;
    find("sentence").value = words.join(" ");
    if (find("lookers").children.length !== words.length || !words.every((word, i) => find("lookers").children[i].textContent === word)) layOut();
    show();
  }

  const readAgain = () => readWords(state.words);

  function compareWithEngine() {
    const differences = engine.map((known) => {
      const mine = reader.read("2", known.text.split(" "));
      const pairs = [[mine.probabilities, known.probabilities], [mine.without, known.without],
        [mine.layers.map((layer) => layer.map((head) => head.weights[mine.pronoun])).flat(2), known.weights.flat(2)]];
      return Math.max(...pairs.flatMap(([a, b]) => a.map((value, index) => Math.abs(value - b[index]))));
    });
    const difference = Math.max(...differences).toExponential(0).replace("-", "−");
    for (const note of document.querySelectorAll(".agrees")) {
      note.hidden = false;
      for (const text of note.querySelectorAll(".t")) text.textContent = text.textContent.replace("@", difference);
    }
  }

  find("write").addEventListener("submit", (event) => { event.preventDefault(); readWords(reader.split(find("sentence").value)); });
  find("swap").addEventListener("click", () => replaceLast(swaps[lastWord()]));
  find("adjective").addEventListener("change", () => replaceLast(find("adjective").value));
  for (const button of document.querySelectorAll(".multiple")) {
    button.addEventListener("click", () => {
      const layer = Number(button.dataset.layer), head = Number(button.dataset.head);
      const again = state.layer === layer && state.head === head;
      Object.assign(state, { layer, head: again ? "mean" : head });
      show();
    });
  }
  for (const button of document.querySelectorAll(".try")) {
    button.addEventListener("click", () => {
      readWords(reader.split(button.textContent));
      find("look").scrollIntoView();
    });
  }
  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (event.target.closest("input, select, textarea, .wide")) return;
    if (event.key === "s" || event.key === "S") replaceLast(swaps[lastWord()]);
    else if (event.key === "ArrowRight") look(Math.min(now.words.length - 1, state.query + 1));
    else if (event.key === "ArrowLeft") look(Math.max(0, state.query - 1));
    else return;
    if (find("lookers").contains(document.activeElement)) find("lookers").children[state.query].focus();
    event.preventDefault();
  });
  new ResizeObserver(drawLines).observe(find("flow"));

  if (reader.unknown(state.words).length) return; // a sentence that the models cannot read stays a picture
  find("stage").hidden = false;
  for (const still of document.querySelectorAll(".still")) still.style.display = "none";
  page.onLanguage(() => show());
  readWords(state.words);
  compareWithEngine();
})();
