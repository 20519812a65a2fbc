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
