"use strict";
// What both pages draw with.

const byId = (id) => document.getElementById(id);

/** element("td", { className: "weight" }, "text", child, …) */
function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

/** Give `where` the purple of an attention weight from 0 to 1. */
function paint(where, weight) {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  where.classList.add("weight");
  where.classList.toggle("strong", weight > (dark ? 0.59 : 0.7)); // white on dark, black on light
  where.style.setProperty("--w", weight.toFixed(3));
  return where;
}

/** Fill `where` with radio buttons; `choose(value)` is called with what the reader picks. */
function radios(where, name, options, chosen, choose) {
  where.replaceChildren(...options.map(({ value, text, label }) => {
    const input = element("input", { type: "radio", name, value, checked: value === chosen });
    if (label) input.setAttribute("aria-label", label);
    input.addEventListener("change", () => choose(value));
    return element("label", {}, input, element("span", {}, text));
  }));
}
