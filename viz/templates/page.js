"use strict";
const page = (() => {
  const root = document.documentElement;
  const data = JSON.parse(document.getElementById("page-data").textContent);
  const listeners = [];
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  function press(attribute, value) {
    for (const button of document.querySelectorAll(`[${attribute}]`)) {
      button.setAttribute("aria-pressed", String(button.getAttribute(attribute) === value));
    }
  }

  function setLanguage(code) {
    root.dataset.language = root.lang = code;
    document.title = data.titles[code];
    press("data-set-language", code);
    for (const listener of listeners) listener(code);
  }

  function showTheme() {
    press("data-set-theme", root.dataset.theme || (dark.matches ? "dark" : "light"));
  }

  function setTheme(name) {
    root.dataset.theme = name;
    showTheme();
  }

  function say(key, values = {}) {
    return data.words[root.dataset.language][key].replace(/\{(\w+)\}/g, (_, name) => String(values[name]));
  }

  document.querySelector(".switches").hidden = false;
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-set-language], [data-set-theme]");
    if (button === null) return;
    if (button.dataset.setLanguage) setLanguage(button.dataset.setLanguage);
    else setTheme(button.dataset.setTheme);
  });
  dark.addEventListener("change", showTheme);
  let onScreen;
  window.addEventListener("beforeprint", () => { onScreen = root.dataset.theme; root.dataset.theme = "light"; });
  window.addEventListener("afterprint", () => {
    if (onScreen === undefined) delete root.dataset.theme;
    else root.dataset.theme = onScreen;
  });
  showTheme();

  const known = Object.keys(data.titles);
  const wanted = (navigator.languages || [navigator.language || ""]).map((tag) => tag.split("-")[0].toLowerCase());
  const chosen = root.hasAttribute("data-choose-language") && wanted.find((code) => known.includes(code));
  setLanguage(chosen || root.dataset.language);

  return { data, say, onLanguage: (listener) => listeners.push(listener) };
})();
