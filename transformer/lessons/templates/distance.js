(() => {
  const { rows, letters } = page.data;
  const find = (id) => document.getElementById(id);
  const slider = find("distance");
  const most = letters.length - 1;

  function show() {
    const distance = Number(slider.value);
    find("distance-told").textContent = page.say("js_distance", { distance });
    [...find("letters").children].forEach((cell, place) => {
      const capital = most - place === distance;
      const letter = capital ? letters[0] : letters[place === 0 ? most - distance : place];
      cell.textContent = capital ? letter : letter.toLowerCase();
      cell.classList.toggle("capital", capital);
    });
    [...find("ways").rows].forEach((row, index) => {
      for (const name of ["share", "capital", "others", "operations"]) row.querySelector(`.${name}`).textContent = rows[index][name][distance];
      const chain = row.querySelector(".hops").dataset.way === "chain";
      for (const hop of row.querySelectorAll(".hop")) {
        const at = Number(hop.dataset.at);
        hop.classList.toggle("off", chain ? at > distance : at !== distance);
      }
    });
    for (const line of document.querySelectorAll(".here")) {
      const x = Number(line.dataset.right) - distance * Number(line.dataset.step);
      line.setAttribute("d", line.getAttribute("d").replace(/^M[\d.]+/, `M${x.toFixed(1)}`));
    }
    const [rnn, , gru, , transformer] = rows;
    find("told").textContent = page.say("js_told", {
      distance, rnn: rnn.shortest[distance], gru: gru.shortest[distance], transformer: transformer.shortest[distance],
    });
    find("back").disabled = distance === most;
    find("forth").disabled = distance === 1;
  }

  function move(by) {
    slider.value = String(Number(slider.value) + by);
    show();
  }

  // Left is farther back, as in the picture, also for the slider itself.
  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.target.closest("select, textarea, .wide")) return;
    const by = { ArrowLeft: 1, ArrowRight: -1 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    move(by);
  });
  find("back").addEventListener("click", () => move(1));
  find("forth").addEventListener("click", () => move(-1));
  slider.addEventListener("input", show);
  page.onLanguage(show);
  find("controls").hidden = false;
  show();
})();
