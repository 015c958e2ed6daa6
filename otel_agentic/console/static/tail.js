// The live tail: rows appear as the collector sends them. The server renders them and escapes their text.
"use strict";

const list = document.querySelector("[data-tail]");
const part = (name) => list.querySelector(`[data-${name}]`);
const body = list.querySelector("tbody");
const linkOf = (row) => row.querySelector("a").getAttribute("href");
let position = list.dataset.position;
let missed = 0;
let isPaused = false;
let source = null;

function say(text) {
  part("state").textContent = text;
}

function show(event) {
  const update = JSON.parse(event.data);
  const page = new DOMParser().parseFromString(`<table>${update.rows}</table>`, "text/html");
  const rows = [...page.querySelectorAll("tr")];
  const links = new Set(rows.map(linkOf)); // a conversation has one row, the newest
  [...body.rows].filter((row) => links.has(linkOf(row))).forEach((row) => row.remove());
  body.prepend(...rows);
  [...body.rows].slice(Number(list.dataset.limit)).forEach((row) => row.remove());
  if (rows.length) part("empty")?.remove();
  position = event.lastEventId;
  missed += update.missed;
  part("count").textContent = missed.toLocaleString("en");
  part("missed").hidden = missed === 0;
}

// The browser reconnects by itself after a lost connection, but not after an error response, whose text it does not show.
async function failed(own, url) {
  if (own.readyState !== EventSource.CLOSED) return say("Connection lost, reconnecting");
  const answer = await fetch(url).catch(() => null);
  const text = answer?.ok ? "Connection lost" : await answer?.text();
  answer?.body?.cancel().catch(() => null);
  if (own === source) pause(true, text ?? "The collector does not respond");
}

function follow(reason) {
  source?.close();
  source = null;
  if (isPaused || document.hidden) return say(reason);
  const url = new URL(list.dataset.tail, location);
  url.searchParams.set("after", position);
  const own = new EventSource(url);
  own.onopen = () => say("● Live");
  own.onmessage = show;
  own.onerror = () => failed(own, url);
  source = own;
}

function pause(value, reason) {
  isPaused = value;
  part("action").textContent = isPaused ? "Resume" : "Pause";
  follow(reason);
}

part("pause").hidden = false;
part("pause").addEventListener("click", () => pause(!isPaused, "Paused"));
document.addEventListener("visibilitychange", () => follow("Paused"));
follow("Paused");
