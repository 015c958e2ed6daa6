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

// Cursors of lists lead forward only, so the previous page is the one before in the history; a shared link has none, and its first page is
// the next best.
function previousPage(link) {
  const cameFrom = document.referrer && new URL(document.referrer);
  if (cameFrom && cameFrom.origin === location.origin && cameFrom.pathname === location.pathname) history.back();
  else link.click();
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
  const target = [...document.querySelectorAll("[data-key]")].find((element) => element.dataset.key.split(" ").includes(event.key));
  if (!target) return;
  event.preventDefault();
  if (target.matches("input")) target.focus();
  else if (target.rel === "prev") previousPage(target);
  else target.click();
});

// The waterfall is one stop of the Tab key; the arrow keys move within it: up, down, to the parent, to the first child.
const spanLinks = [...document.querySelectorAll("[role=treegrid] tbody a")];
const levelOf = (link) => Number(link.closest("[role=row]").getAttribute("aria-level"));
spanLinks.forEach((link, position) => {
  link.tabIndex = position ? -1 : 0;
  link.addEventListener("keydown", (event) => {
    const level = levelOf(link);
    const parents = spanLinks.slice(0, position).filter((other) => levelOf(other) < level);
    const next = spanLinks[position + 1];
    const targets = {
      ArrowUp: spanLinks[position - 1],
      ArrowDown: next,
      ArrowLeft: parents.at(-1),
      ArrowRight: next && levelOf(next) > level ? next : undefined,
      Home: spanLinks[0],
      End: spanLinks.at(-1),
    };
    if (!(event.key in targets) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const target = targets[event.key] ?? link;
    link.tabIndex = -1;
    target.tabIndex = 0;
    target.focus();
  });
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
