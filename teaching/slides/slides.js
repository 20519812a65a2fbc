"use strict";
// One slide at a time: → or Space shows the answer, then the next slide; ← goes back; N: the notes.
// S: the notes in a window of their own, which follows, for a screen that the class does not see.
// A number and Enter: that slide.

const slides = [...document.querySelectorAll(".slide")];
const HEIGHT = { slide: 720, notes: 330 };
let now = 0;
let speaker = null;
let typed = ""; // the digits of a slide's number

const answerOf = (slide) => slide.querySelector(".fragment");
const fragmentIsSeen = () => answerOf(slides[now])?.classList.contains("seen") ?? true;

/** Show slide number `index` (from 0), with its answer or without. */
function go(index, answered = false) {
  now = Math.min(slides.length - 1, Math.max(0, index));
  for (const slide of slides) slide.classList.toggle("now", slide === slides[now]);
  answerOf(slides[now])?.classList.toggle("seen", answered);
  history.replaceState(null, "", `#${now + 1}`);
  slides[now].focus({ preventScroll: true });
  tell();
}

function next() {
  if (fragmentIsSeen()) { if (now < slides.length - 1) go(now + 1); }
  else go(now, true);
}

function back() {
  if (fragmentIsSeen() && answerOf(slides[now])) go(now);
  else if (now > 0) go(now - 1, true);
}

function toggleNotes() {
  const speaking = document.body.classList.toggle("speaking");
  document.getElementById("notes").setAttribute("aria-pressed", speaking);
  fit();
}

/** Open the speaker's window, and turn slides from there too. */
function openSpeaker() {
  speaker = open("", "speaker", "width=900,height=700");
  if (!speaker) { if (!document.body.classList.contains("speaking")) toggleNotes(); return; }
  const style = document.querySelector("link[rel=stylesheet]").href;
  speaker.document.head.innerHTML = `<title>Notes</title><link rel="stylesheet" href="${style}">`;
  speaker.document.onkeydown = onKey;
  tell();
}

/** Write this slide's question, answer and notes, and the next question, into that window. */
function tell() {
  if (!speaker || speaker.closed) return;
  const of = (slide, part) => slide?.querySelector(part)?.innerHTML ?? "";
  const html = `<h2>${now + 1}. ${of(slides[now], "h1, h2")}</h2>
    <div class="answer">${of(slides[now], ".answer")}</div>${of(slides[now], ".notes")}
    <p class="next">Next: ${of(slides[now + 1], "h2")}</p>`;
  speaker.document.body.className = "speaker";
  speaker.document.body.innerHTML = html;
  speaker.scrollTo(0, 0);
}

/** As large as the window allows, in its middle. */
function fit() {
  const height = HEIGHT.slide + (document.body.classList.contains("speaking") ? HEIGHT.notes : 0);
  const scale = Math.min(innerWidth / 1280, innerHeight / height);
  const style = document.body.style;
  style.setProperty("--scale", scale);
  style.setProperty("--left", `${(innerWidth - 1280 * scale) / 2}px`);
  style.setProperty("--top", `${(innerHeight - height * scale) / 2}px`);
}

const KEYS = {
  ArrowRight: next, ArrowDown: next, PageDown: next, " ": next, Enter: next,
  ArrowLeft: back, ArrowUp: back, PageUp: back, Backspace: back,
  Home: () => go(0), End: () => go(slides.length - 1, true),
  n: toggleNotes, s: openSpeaker, p: () => print(), f: () => document.documentElement.requestFullscreen(),
};

function onKey(event) {
  if (event.key === "Shift") return; // some keyboards have their digits there
  const plain = !(event.ctrlKey || event.metaKey || event.altKey);
  const digits = typed;
  typed = plain && /^\d$/.test(event.key) ? typed + event.key : "";
  if (plain && event.key === "Enter" && digits) {
    event.preventDefault();
    go(Number(digits) - 1);
    return;
  }
  const onButton = event.target.tagName === "BUTTON" && [" ", "Enter"].includes(event.key);
  const action = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!action || onButton || !plain) return;
  event.preventDefault();
  action();
}
document.addEventListener("keydown", onKey);
for (const [id, action] of [["next", next], ["back", back], ["notes", toggleNotes], ["speaker", openSpeaker], ["print", () => print()]]) {
  document.getElementById(id).addEventListener("click", action);
}
addEventListener("resize", fit);
addEventListener("hashchange", () => go(Number(location.hash.slice(1)) - 1));
document.body.classList.add("running");
fit();
go((Number(location.hash.slice(1)) || 1) - 1);
