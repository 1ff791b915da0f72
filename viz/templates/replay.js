(() => {
  const { steps, wholes, prefix } = page.data;
  const replay = document.getElementById("replay");
  const pane = replay.querySelector(".pane");
  const svg = document.getElementById(prefix);
  const articles = [...replay.querySelectorAll(".step")];
  const slider = replay.querySelector("input[type=range]");
  const predict = replay.querySelector(".predict");
  const live = document.getElementById("live");
  const every = (attribute, within = document) => {
    const found = new Map();
    for (const element of within.querySelectorAll(`[${attribute}]`)) {
      const key = element.getAttribute(attribute);
      if (!found.has(key)) found.set(key, []);
      found.get(key).push(element);
    }
    return found;
  };
  const byNode = every("data-node");
  const signs = every("data-sign");
  const edges = every("data-maker", svg);
  // One list for the picture, one for the table: both hold the same numbers in the same order.
  const numbers = [every("data-gradient", svg), every("data-gradient", document.getElementById("all"))];
  const drawn = (node) => svg.querySelector(`g[data-node="${node}"]`);
  const rows = new Map([...document.querySelectorAll(".ledger tr[data-node]")].map((row) => [row.dataset.node, row]));
  const stepOf = new Map(steps.map((step, index) => [step.tensor, index]));
  const statuses = ["waiting", "arriving", "complete", "current", "done"];
  let current = 0;
  let shown = true;
  let revealed = false;

  function apply([node, status, sign, texts]) {
    for (const element of [drawn(node), rows.get(node)]) {
      element.classList.remove(...statuses.map((name) => `s-${name}`));
      element.classList.add(`s-${status}`);
    }
    for (const element of signs.get(node)) element.textContent = sign;
    for (const list of numbers) (list.get(node) || []).forEach((element, place) => { element.textContent = texts[place]; });
  }

  function show(index, { scroll = true } = {}) {
    current = Math.max(0, Math.min(steps.length - 1, index));
    const step = steps[current];
    shown = predict.getAttribute("aria-pressed") !== "true" || revealed || step.inputs.length === 0;
    const changes = [...wholes];
    steps.slice(0, current + 1).forEach((past, place) => {
      changes.push(...past.begins);
      if (place < current || shown) changes.push(...past.arrives);
    });
    // The last word on each tensor counts.
    for (const change of new Map(changes.map((each) => [each[0], each])).values()) apply(change);
    const passed = new Map(steps.slice(0, current + 1).map((past) => [past.maker, "done"]));
    passed.set(step.maker, "current");
    for (const [maker, list] of edges) {
      const status = passed.get(maker) || "waiting";
      const operation = drawn(maker);
      operation.classList.remove("o-waiting", "o-current", "o-done");
      operation.classList.add(`o-${status}`);
      for (const edge of list) {
        const carries = edge.classList.contains("carries");
        edge.classList.toggle("back", carries && status !== "waiting");
        edge.classList.toggle("now", carries && status === "current");
      }
    }
    for (const element of svg.querySelectorAll(".fresh")) element.classList.remove("fresh");
    if (shown) for (const node of step.inputs) drawn(node).classList.add("fresh");
    articles.forEach((article, place) => {
      article.hidden = place !== current;
      const hiding = place === current && !shown;
      if (hiding) ask(article);
      article.classList.toggle("hiding", hiding);
    });
    slider.value = String(current + 1);
    replay.querySelector(".count").textContent = `${current + 1} / ${steps.length}`;
    for (const [name, off] of [["first", current === 0], ["previous", current === 0], ["next", current === steps.length - 1], ["last", current === steps.length - 1]]) {
      replay.querySelector(`[data-go="${name}"]`).disabled = off;
    }
    announce();
    if (scroll) follow();
  }

  function announce() {
    const step = steps[current];
    const text = step.inputs.length === 0 ? page.say("js_leaf") : shown ? page.say("js_sends", { names: step.names }) : page.say("js_hidden");
    live.textContent = page.say("js_live", { n: current + 1, all: steps.length, name: step.name, text });
    slider.setAttribute("aria-valuetext", live.textContent);
  }

  // Keeps the tensor of this step and what it sends to in sight.
  function follow() {
    const step = steps[current];
    const boxes = [step.tensor, ...step.inputs].map((node) => drawn(node).getBoundingClientRect());
    const frame = pane.getBoundingClientRect();
    const middle = (low, high, start, length) => (Math.min(...boxes.map((box) => box[low])) + Math.max(...boxes.map((box) => box[high]))) / 2 - start - length / 2;
    pane.scrollTo({
      left: pane.scrollLeft + middle("left", "right", frame.left, frame.width),
      top: pane.scrollTop + middle("top", "bottom", frame.top, frame.height),
    });
  }

  // Answers are read as on paper: 3/4, −0.75, ln 3, 2√2.
  function read(text) {
    const written = text.trim().replace(/[−–]/g, "-").replace(/,/g, ".").replace(/\s+/g, "");
    const one = (part) => {
      const found = /^(-?)(\d*\.?\d*(?:e-?\d+)?)(?:(ln|√|sqrt)\(?(\d+\.?\d*)\)?)?$/i.exec(part);
      if (found === null || (found[2] === "" && found[3] === undefined)) return NaN;
      const times = found[2] === "" ? 1 : Number(found[2]);
      const base = found[3] === undefined ? 1 : /ln/i.test(found[3]) ? Math.log(Number(found[4])) : Math.sqrt(Number(found[4]));
      return (found[1] ? -1 : 1) * times * base;
    };
    const parts = written.split("/").map(one);
    return parts.length === 2 ? parts[0] / parts[1] : parts.length === 1 ? parts[0] : NaN;
  }

  function ask(article) {
    for (const cell of article.querySelectorAll(".guess td")) {
      cell.classList.remove("right", "missed");
      cell.removeAttribute("title");
      if (cell.querySelector("input") === null) cell.append(document.createElement("input"));
      const input = cell.querySelector("input");
      input.autocomplete = "off";
      input.setAttribute("aria-label", page.say("js_guess", { row: cell.parentElement.rowIndex + 1, column: cell.cellIndex + 1 }));
    }
  }

  function mark(article) {
    let right = 0;
    let all = 0;
    for (const input of article.querySelectorAll(".guess input")) {
      const cell = input.closest("td");
      if (input.value.trim() !== "") {
        const exact = Number(cell.dataset.exact);
        const good = Math.abs(read(input.value) - exact) <= 0.01 * Math.max(Math.abs(exact), 0.01);
        cell.classList.add(good ? "right" : "missed");
        cell.title = input.value;
        right += good;
        all += 1;
      }
      input.remove();
    }
    return all === 0 ? "" : ` ${page.say("js_score", { right, all })}`;
  }

  function go(index) {
    mark(articles[current]);
    revealed = false;
    show(index);
  }

  function reveal() {
    if (shown) return;
    revealed = true;
    const score = mark(articles[current]);
    show(current);
    live.textContent += score;
  }

  const moves = { first: () => go(0), previous: () => go(current - 1), next: () => go(current + 1), last: () => go(steps.length - 1) };
  const keys = { ArrowLeft: "previous", ArrowRight: "next", Home: "first", End: "last" };

  replay.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button === null) return;
    if (button.dataset.go) moves[button.dataset.go]();
    else if (button.dataset.zoom) resize(zoom * (button.dataset.zoom === "in" ? 1.2 : 1 / 1.2));
    else if (button.classList.contains("reveal")) reveal();
    else if (button === predict) {
      const on = predict.getAttribute("aria-pressed") !== "true";
      predict.setAttribute("aria-pressed", String(on));
      document.documentElement.classList.toggle("predicting", on);
      go(current);
    }
  });
  slider.addEventListener("input", () => go(Number(slider.value) - 1));
  replay.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.matches(".guess input")) reveal();
  });
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (event.target.closest("input, textarea, select, .wide")) return;
    if (event.key in keys) {
      event.preventDefault();
      moves[keys[event.key]]();
    } else if (event.key.toLowerCase() === "r") reveal();
  });

  // What a pointer or the focus rests on is lit up wherever it appears.
  let lit = [];
  function light(node) {
    for (const element of lit) element.classList.remove("lit");
    lit = node ? byNode.get(node) || [] : [];
    for (const element of lit) element.classList.add("lit");
  }
  const nodeAt = (element) => element?.closest?.("[data-node]")?.getAttribute("data-node");
  // Scrolling moves the pointer onto something else, too; then the focus counts.
  document.addEventListener("pointerover", (event) => light(nodeAt(event.target) || nodeAt(document.activeElement)));
  document.addEventListener("focusin", (event) => light(nodeAt(event.target)));
  document.addEventListener("focusout", () => light(null));
  svg.addEventListener("click", (event) => {
    const node = nodeAt(event.target);
    if (stepOf.has(node)) go(stepOf.get(node));
  });
  document.querySelector(".ledger").addEventListener("click", (event) => {
    const link = event.target.closest("[data-step]");
    if (link === null) return;
    event.preventDefault();
    go(Number(link.dataset.step) - 1);
  });

  const { width, height } = svg.viewBox.baseVal;
  const natural = width * 4 / 3;
  let zoom = 1;
  function resize(to) {
    zoom = Math.max(0.25, Math.min(3, to));
    svg.style.width = `${natural * zoom}px`;
    svg.style.height = `${natural * zoom * height / width}px`;
    follow();
  }

  for (const element of replay.querySelectorAll(".controls, .keys, .zoom")) element.hidden = false;
  function nameFacts() {
    for (const element of svg.querySelectorAll("[data-fact]")) element.textContent = page.say(`js_${element.dataset.fact}`);
  }

  page.onLanguage(() => {
    announce();
    nameFacts();
    if (!shown) ask(articles[current]);
  });
  nameFacts();
  const asked = articles.findIndex((article) => `#${article.id}` === location.hash);
  show(Math.max(0, asked), { scroll: false });
  resize(Math.max(0.6, Math.min(1, (pane.clientWidth - 12) / natural)));
})();
