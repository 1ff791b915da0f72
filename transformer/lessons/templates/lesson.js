(() => {
  const { source, steps, layers, heads } = page.data;
  const find = (id) => document.getElementById(id);
  const stage = find("stage"), slider = find("slider"), chooser = find("heads");
  const multiples = [...document.querySelectorAll(".multiple")];
  let current = 0;
  let chosen = "mean";

  function element(tag, className, text) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  // Weights of one kind at one step: the mean over the last layer's heads, or one head.
  function weights(step, kind) {
    const all = steps[step][kind];
    if (chosen !== "mean") {
      const [layer, head] = chosen.split(",").map(Number);
      return all[layer][head];
    }
    const last = all[layers - 1];
    return last[0].map((_, index) => last.reduce((sum, head) => sum + head[index], 0) / heads);
  }

  function percent(weight) {
    if (weight === 0) return "0 %";
    return weight < 0.005 ? "<1 %" : `${Math.round(100 * weight)} %`;
  }

  function token(text, weight, most) {
    const made = element("span", "token");
    const shade = element("span", "shade");
    shade.style.opacity = weight.toFixed(3);
    made.append(shade, element("b", "", text), element("small", "", percent(weight)));
    if (weight >= 0.55) made.classList.add("strong");
    if (most) made.classList.add("most");
    return made;
  }

  function row(container, texts, shares) {
    const largest = Math.max(...shares);
    container.replaceChildren(...texts.map((text, index) => token(text, shares[index], shares[index] === largest)));
  }

  // A line from each character to the token that is being said, as wide as the weight.
  function drawLines() {
    const frame = find("flow").getBoundingClientRect();
    const next = find("so-far").lastElementChild.getBoundingClientRect();
    const x = next.left + next.width / 2 - frame.left, y = next.top - frame.top;
    const shares = weights(current, "cross");
    const floor = find("looks").getBoundingClientRect().bottom - frame.top;
    const paths = [...find("looks").children].map((cell, index) => {
      const box = cell.getBoundingClientRect();
      const from = box.left + box.width / 2 - frame.left, top = box.bottom - frame.top;
      const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
      const middle = (Math.max(top, floor) + y) / 2;
      path.setAttribute("d", `M${from} ${top}C${from} ${middle} ${x} ${middle} ${x} ${y}`);
      path.setAttribute("stroke-width", String(Math.max(0.75, 14 * shares[index])));
      path.setAttribute("stroke-opacity", String(0.25 + 0.55 * shares[index]));
      return shares[index] < 0.01 ? null : path;
    });
    find("lines").replaceChildren(...paths.filter((path) => path !== null));
  }

  function showChoices(choices) {
    const parts = [];
    choices.forEach(([text, probability, share], index) => {
      const track = element("span", index === 0 ? "track best" : "track");
      const bar = element("span");
      bar.style.width = `${100 * probability}%`;
      track.append(bar);
      parts.push(element("span", "name mono", text), track, element("span", "value", share));
    });
    find("choices").replaceChildren(...parts);
  }

  function showMultiples() {
    for (const button of multiples) {
      const marker = button.querySelector(".row");
      marker.style.display = "block";
      marker.style.top = `${(100 * current) / steps.length}%`;
      marker.style.height = `${100 / steps.length}%`;
      button.setAttribute("aria-pressed", String(chosen === `${button.dataset.layer},${button.dataset.head}`));
    }
  }

  function show() {
    const step = steps[current];
    const [says, , share] = step.choices[0];
    const numbers = { step: current + 1, steps: steps.length };
    slider.value = String(current + 1);
    slider.setAttribute("aria-valuetext", page.say("js_step", numbers));
    find("step-number").textContent = page.say("js_step", numbers);
    find("step-words").textContent = page.say("js_says", {
      ...numbers, sofar: step.sofar.slice(1).join("") || step.sofar[0], token: says, share,
    });
    find("back-button").disabled = current === 0;
    find("on-button").disabled = current === steps.length - 1;
    row(find("so-far"), step.sofar, weights(current, "self"));
    const next = element("span", "token next");
    next.append(element("b", "", says), element("small", "", share));
    find("so-far").append(next);
    showChoices(step.choices);
    row(find("looks"), source, weights(current, "cross"));
    drawLines();
    showMultiples();
  }

  function go(step) {
    current = Math.min(steps.length - 1, Math.max(0, step));
    show();
  }

  function choose(name) {
    chosen = name;
    chooser.value = name;
    show();
  }

  function nameHeads() {
    const options = [new Option(page.say("js_mean", { heads }), "mean")];
    for (let layer = 0; layer < layers; layer += 1) {
      for (let head = 0; head < heads; head += 1) {
        options.push(new Option(page.say("js_head", { layer: layer + 1, head: head + 1 }), `${layer},${head}`));
      }
    }
    chooser.replaceChildren(...options);
    chooser.value = chosen;
  }

  slider.addEventListener("input", () => go(Number(slider.value) - 1));
  find("back-button").addEventListener("click", () => go(current - 1));
  find("on-button").addEventListener("click", () => go(current + 1));
  chooser.addEventListener("change", () => choose(chooser.value));
  for (const button of multiples) {
    button.addEventListener("click", () => {
      const name = `${button.dataset.layer},${button.dataset.head}`;
      choose(chosen === name ? "mean" : name);
    });
  }
  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (event.target.closest("input, select, textarea, .wide")) return;
    if (event.key === "ArrowRight") go(current + 1);
    else if (event.key === "ArrowLeft") go(current - 1);
    else return;
    event.preventDefault();
  });
  window.addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details")) details.open = true;
  });

  new ResizeObserver(drawLines).observe(find("flow"));

  stage.hidden = false;
  page.onLanguage(() => { nameHeads(); show(); });
  nameHeads();
  show();
})();
