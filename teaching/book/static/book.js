// What is wider than the screen can be scrolled, formulas also by keyboard; book.css draws a shadow
// at each edge behind which there is more. A few pixels are rounding.
const WIDE = "mjx-container, .bd-article pre, .pst-scrollable-table-container";

function showMore(box) {
  const before = box.scrollLeft;
  const after = box.scrollWidth - box.clientWidth - before;
  const more = `${before > 8 ? "left" : ""}${after > 8 ? "right" : ""}`;
  if ((box.dataset.more ?? "") === more) return;
  more ? (box.dataset.more = more) : delete box.dataset.more;
  if (box.matches("mjx-container")) more ? (box.tabIndex = 0) : box.removeAttribute("tabindex");
}

window.addEventListener("load", async () => {
  await window.MathJax?.startup?.promise;
  const showAll = () => document.querySelectorAll(WIDE).forEach(showMore);
  showAll();
  window.addEventListener("resize", showAll);
  document.addEventListener("toggle", showAll, true); // code that was collapsed has a width now
  document.addEventListener("scroll", (e) => e.target.matches?.(WIDE) && showMore(e.target), true);
});

// "On this page" stands after the whole lesson: the first keys lead there as well.
document.addEventListener("DOMContentLoaded", () => {
  if (!document.getElementById("pst-page-toc-nav")) return;
  const link = '<a class="to-contents" href="#pst-page-toc-nav">Skip to “On this page”</a>';
  document.getElementById("pst-skip-link").insertAdjacentHTML("beforeend", link);
});

document.addEventListener("click", (event) => {
  // Copying takes the focus away, and the next Tab would begin at the top of the page.
  const button = event.target.closest(".copybtn");
  if (button) setTimeout(() => button.focus());

  // A figure that the screen makes small gets its own size, to be scrolled, and is made small again.
  // Otherwise its link opens the file.
  const figure = event.target.closest("a.figure");
  const image = figure?.querySelector("img");
  if (image && (image.naturalWidth > image.width + 8 || figure.matches(".large"))) {
    event.preventDefault();
    figure.classList.toggle("large");
  }
});

// The glossary in three orders: English, pinyin for simplified, strokes for traditional characters.
const ORDERS = [
  ["English", "en", "dt"],
  ["简体 (拼音)", "zh-Hans-u-co-pinyin", '[lang="zh-Hans"]'],
  ["繁體 (筆畫)", "zh-Hant-u-co-stroke", '[lang="zh-Hant"]'],
];

document.addEventListener("DOMContentLoaded", () => {
  const list = document.querySelector("dl.glossary");
  if (!list) return;
  const entries = [];
  for (const part of list.children) {
    if (part.matches("dt")) entries.push([part]);
    else entries.at(-1).push(part);
  }
  const word = (parts, where) => {
    const found = (query) => parts.map((it) => (it.matches(query) ? it : it.querySelector(query)));
    const there = [...found(where), ...found("[lang]")].find(Boolean); // or one word for both
    return there.firstChild.textContent; // without the link to the term
  };
  const group = document.createElement("div");
  group.className = "orders";
  group.setAttribute("role", "group");
  group.setAttribute("aria-label", "Order of the terms");
  for (const [name, locale, where] of ORDERS) {
    const button = group.appendChild(document.createElement("button"));
    button.type = "button";
    button.textContent = name;
    button.lang = locale.slice(0, 7).replace(/-$/, "");
    button.setAttribute("aria-pressed", where === "dt");
    button.addEventListener("click", () => {
      const { compare } = new Intl.Collator(locale);
      entries.sort((a, b) => compare(word(a, where), word(b, where)));
      list.append(...entries.flat());
      for (const each of group.children) each.setAttribute("aria-pressed", each === button);
    });
  }
  list.before(group);
});
