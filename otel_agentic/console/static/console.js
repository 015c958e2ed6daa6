// Keyboard, the log-in by a ticket, and pages that refresh themselves. Every page also works without this script.
"use strict";

const ticket = document.querySelector("form[data-submit]");
if (ticket) {
  history.replaceState(null, "", "/login"); // the ticket does not stay in the address bar
  ticket.submit();
}

const turns = () => [...document.querySelectorAll("main .turn")];

function move(step) {
  const all = turns();
  if (!all.length) return;
  const index = all.findIndex((turn) => turn.classList.contains("current"));
  const next = Math.max(0, Math.min(all.length - 1, index < 0 ? 0 : index + step));
  all.forEach((turn, position) => turn.classList.toggle("current", position === next));
  all[next].scrollIntoView({ block: "nearest", behavior: "smooth" });
}

document.addEventListener("keydown", (event) => {
  const field = event.target.closest("input, textarea, select");
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (field) {
    if (event.key === "Escape") field.blur();
    // Enter in the note must not send the first button's verdict.
    if (event.key === "Enter" && field.name === "note") {
      event.preventDefault();
      field.blur();
    }
    return;
  }
  if (event.key === "j" || event.key === "k") return move(event.key === "j" ? 1 : -1);
  const target = [...document.querySelectorAll("[data-key]")].find((element) => element.dataset.key === event.key);
  if (!target) return;
  event.preventDefault();
  if (target.matches("input")) target.focus();
  else target.click();
});

const live = document.querySelector("[data-refresh]");
if (live) {
  setInterval(async () => {
    if (document.hidden) return;
    const response = await fetch(location.href, { headers: { accept: "text/html" } }).catch(() => null);
    if (!response || !response.ok) return;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const fresh = page.querySelector("[data-refresh]");
    if (fresh) document.querySelector("[data-refresh]").replaceChildren(...fresh.childNodes);
  }, Number(live.dataset.refresh) * 1000);
}
