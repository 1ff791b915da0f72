(() => {
  const { opened, largest } = page.data;
  const find = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  const state = { sentence: opened.length - 1, place: null };

  function element(tag, className = "", text) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function strip(values) {
    const picture = document.createElementNS(SVG, "svg"), attributes = { class: "heat", viewBox: `0 0 ${values.length} 1`, preserveAspectRatio: "none", "aria-hidden": "true" };
    for (const [name, value] of Object.entries(attributes)) picture.setAttribute(name, value);
    values.forEach((value, index) => {
      const cell = document.createElementNS(SVG, "rect");
      for (const [name, given] of [["x", index], ["y", 0], ["width", 1], ["height", 1], ["class", value < 0 ? "minus" : "plus"],
        ["fill-opacity", Math.min(1, Math.abs(value) / largest).toFixed(3)]]) cell.setAttribute(name, String(given));
      picture.append(cell);
    });
    return picture;
  }

  function map(values) {
    const box = element("span", "row-map");
    box.append(strip(values));
    return box;
  }

  const share = (value) => `${Math.round(100 * value)} %`;
  const now = () => opened[state.sentence];
  const changeable = () => now().others.flatMap((other, place) => (other ? [place] : []));

  function row(word, place) {
    const { z, others, changed, moved } = now(), line = element("tr"), name = element("th"), button = element("button", "word");
    Object.assign(button, { type: "button", disabled: !others[place] });
    button.setAttribute("aria-pressed", String(place === state.place));
    if (place === state.place) button.append(element("s", "", word), document.createTextNode(others[place]));
    else button.textContent = word;
    button.addEventListener("click", () => choose(place === state.place ? null : place));
    name.scope = "row";
    name.append(button);
    const before = element("td"), after = element("td"), distance = element("td");
    before.append(map(z[place]));
    if (state.place !== null) {
      after.append(map(changed[state.place][place]));
      const value = moved[state.place][place], box = element("span", "change"), bar = element("span", "bar"), inner = element("i");
      inner.style.width = `${Math.min(100, 100 * value)}%`;
      bar.append(inner);
      box.append(bar, element("span", "value", share(value)));
      distance.append(box);
    }
    line.append(name, before, after, distance);
    return line;
  }

  function draw() {
    const { words, others, moved, squeezed } = now(), focused = document.activeElement?.closest?.("#rows tr");
    const at = focused ? [...find("rows").children].indexOf(focused) : -1;
    find("rows").replaceChildren(...words.map(row));
    if (at >= 0) find("rows").children[at]?.querySelector("button").focus();
    find("squeezed").replaceChildren(strip(squeezed));
    if (state.place === null) find("told").textContent = page.say("js_choose");
    else {
      const rest = moved[state.place].filter((_, place) => place !== state.place);
      find("told").textContent = page.say("js_moved", {
        word: words[state.place], other: others[state.place], own: share(moved[state.place][state.place]), most: share(Math.max(...rest)),
      });
    }
  }

  function choose(place) {
    state.place = place;
    draw();
  }

  find("sentences").append(...opened.map(({ words }, index) => {
    const label = element("label"), input = element("input");
    Object.assign(input, { type: "radio", name: "sentence", value: String(index), checked: index === state.sentence });
    input.addEventListener("change", () => {
      Object.assign(state, { sentence: index, place: null });
      draw();
    });
    label.append(input, element("span", "", words.join(" ")));
    return label;
  }));

  document.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey || event.target.matches?.("input")) return;
    const places = changeable(), at = places.indexOf(state.place);
    choose(places[at < 0 ? (step > 0 ? 0 : places.length - 1) : (at + step + places.length) % places.length]);
    event.preventDefault();
  });

  find("stage").hidden = false;
  for (const still of document.querySelectorAll(".still")) still.style.display = "none";
  page.onLanguage(draw);
  draw();
})();
