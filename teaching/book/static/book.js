// Formulas that are wider than the screen can be scrolled, also by keyboard.
window.addEventListener("load", async () => {
  await window.MathJax?.startup?.promise;
  const reach = () => {
    for (const box of document.querySelectorAll("mjx-container")) {
      box.toggleAttribute("tabindex", false);
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    }
  };
  reach();
  window.addEventListener("resize", reach);
});
