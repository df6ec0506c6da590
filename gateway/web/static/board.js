// The board: cards are moved by mouse, by touch and by keyboard. The server's matrix says where to; the server decides. Nothing is shown as moved
// before it has said so.
"use strict";
{
  const slug = document.querySelector("[data-board]").dataset.board, api = "/api/boards/" + slug;
  const dialog = document.getElementById("move"), words = s => s[0].toUpperCase() + s.slice(1);
  const cards = () => [...document.querySelectorAll(".card > a")];
  const columnOf = e => e?.closest(".col"), statusOf = e => columnOf(e)?.dataset.status;
  const allowed = (from, to) => document.getElementById("col-" + from).dataset.moves.split(" ").includes(to);
  const verdict = (from, to) => "reads" in document.body.dataset ? "this key only reads" : to === "running" ? "only a worker starts a card" : "not from " + from;

  // move asks the server. On refusal the card is where it was, because it never left.
  async function move(link, to, reason) {
    const id = link.id, item = link.parentElement, title = link.textContent, at = document.activeElement?.id;
    item.classList.add("asking");
    page.trouble("");
    try {
      const answer = await page.call("POST", `${api}/tasks/${id}/move`, {status: to, actor: document.body.dataset.me, ...(reason ? {reason} : {})});
      const is = answer.task.status, note = answer.released?.note;
      page.say(`${title}: ${is === to ? "moved to " + to : "is in " + is}${note ? "; " + note : ""}`);
      if (note) page.trouble(note);
      await page.refresh();
      if ([at, "", undefined].includes(document.activeElement?.id)) (document.getElementById(id) || cards()[0])?.focus(); // who has gone on meanwhile is left there
    } catch (e) {
      page.trouble(e.message);
    } finally { item.classList.remove("asking"); }
  }

  // The list of columns.
  function choose(link) {
    const from = statusOf(link), list = dialog.querySelector(".targets");
    document.getElementById("move-card").textContent = link.textContent;
    document.getElementById("move-why").value = "";
    list.replaceChildren(...[...new Set([...columns().map(c => c.dataset.status), "archived"])].filter(to => to !== from).map(to => {
      const item = document.createElement("li"), button = document.createElement("button"), no = document.createElement("small");
      button.type = "button";
      button.textContent = words(to);
      if (!allowed(from, to)) { button.setAttribute("aria-disabled", "true"); no.textContent = verdict(from, to); button.append(" ", no); }
      button.onclick = () => {
        if (!allowed(from, to)) return page.say(verdict(from, to));
        dialog.close();
        move(link, to, document.getElementById("move-why").value.trim());
      };
      item.append(button);
      return item;
    }));
    dialog.showModal();
    list.querySelector("button:not([aria-disabled])")?.focus();
  }

  // Keys.
  const columns = () => [...document.querySelectorAll(".col")];
  function beside(link, dx, dy) {
    if (dy) { const list = [...columnOf(link).querySelectorAll(".card > a")]; return list[list.indexOf(link) + dy]; }
    const all = columns(), row = [...columnOf(link).querySelectorAll(".card > a")].indexOf(link);
    for (let i = all.indexOf(columnOf(link)) + dx; all[i]; i += dx) {
      const list = all[i].querySelectorAll(".card > a");
      if (list.length) return list[Math.min(row, list.length - 1)];
    }
  }
  function shift(link, dx) {
    const order = columns().map(c => c.dataset.status), from = statusOf(link);
    for (let i = order.indexOf(from) + dx; order[i]; i += dx) if (allowed(from, order[i])) return move(link, order[i]);
    page.say("there is no column on that side that it may go to");
  }
  const arrows = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]};
  document.addEventListener("keydown", e => {
    if (e.key === "Escape" && drag) return drop(null);
    if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog[open]") || e.target.closest("input, select, textarea")) return;
    const link = e.target.closest(".card > a"), way = arrows[e.key];
    if (way && (link || !e.shiftKey && e.target.closest(".col, body") && e.target === document.body)) {
      e.preventDefault();
      if (!link) return cards()[0]?.focus();
      return e.shiftKey ? way[0] && shift(link, way[0]) : beside(link, ...way)?.focus();
    }
    if (e.key === "m" && link) choose(link);
    else if (e.key === "n") document.getElementById("new")?.showModal();
    else if (e.key === "?") document.getElementById("help").showModal();
    else if (e.key === "/") document.getElementById("filter").focus();
    else return;
    e.preventDefault();
  });

  // Dragging. A mouse lifts a card by moving it, a finger by resting on it; a finger that moves at once scrolls.
  let press = null, drag = null, dragged = false;
  document.addEventListener("dragstart", e => { if (e.target.closest?.(".card")) e.preventDefault(); });
  document.addEventListener("click", e => { if (dragged) { e.preventDefault(); dragged = false; } }, true);
  document.addEventListener("contextmenu", e => { if (drag) e.preventDefault(); });
  document.addEventListener("touchmove", e => { if (drag) e.preventDefault(); }, {passive: false});
  document.addEventListener("pointerdown", e => {
    dragged = false;
    const card = e.target.closest(".card");
    if (!card || e.button || !e.isPrimary) return;
    press = {card, x: e.clientX, y: e.clientY, touch: e.pointerType === "touch"};
    if (press.touch) press.timer = setTimeout(() => lift(press.x, press.y), 400);
  });
  document.addEventListener("pointermove", e => {
    if (drag) return over(e.clientX, e.clientY);
    if (!press || Math.hypot(e.clientX - press.x, e.clientY - press.y) < 6) return;
    if (press.touch) { clearTimeout(press.timer); press = null; } else lift(e.clientX, e.clientY);
  });
  document.addEventListener("pointerup", e => drag ? drop(under(e.clientX, e.clientY)) : cancel());
  document.addEventListener("pointercancel", () => drag ? drop(null) : cancel());
  function cancel() { clearTimeout(press?.timer); press = null; }
  const under = (x, y) => columnOf(document.elementFromPoint(x, y));
  function lift(x, y) {
    const {card} = press, box = card.getBoundingClientRect(), ghost = card.cloneNode(true), from = statusOf(card);
    ghost.querySelectorAll("[id]").forEach(n => n.removeAttribute("id"));
    ghost.className = "card ghost";
    ghost.style.width = box.width + "px";
    document.body.append(ghost);
    drag = {card, ghost, from, dx: press.x - box.left, dy: press.y - box.top};
    page.held = dragged = true; // the board is not fetched anew under a lifted card
    cancel();
    card.classList.add("lifted");
    getSelection().removeAllRanges();
    for (const c of columns()) {
      const to = c.dataset.status, no = c.querySelector(".verdict"), yes = to === from || allowed(from, to);
      c.classList.add(to === from ? "home" : yes ? "takes" : "refuses");
      no.textContent = yes ? "" : verdict(from, to);
      no.hidden = yes;
    }
    document.body.classList.add("dragging");
    over(x, y);
  }
  function over(x, y) {
    drag.ghost.style.transform = `translate(${x - drag.dx}px, ${y - drag.dy}px)`;
    const at = under(x, y), strip = document.getElementById("columns"), box = strip.getBoundingClientRect();
    for (const c of columns()) c.classList.toggle("at", c === at);
    strip.scrollLeft += x > box.right - 48 ? 16 : x < box.left + 48 ? -16 : 0;
    if (innerWidth <= 640) scrollBy(0, y > innerHeight - 70 ? 14 : y < 110 ? -14 : 0);
  }
  function drop(column) {
    const {card, ghost, from} = drag, to = column?.dataset.status;
    ghost.remove();
    card.classList.remove("lifted");
    document.body.classList.remove("dragging");
    for (const c of columns()) { c.classList.remove("home", "takes", "refuses", "at"); c.querySelector(".verdict").hidden = true; }
    drag = null;
    page.held = false;
    if (to && to !== from) move(card.querySelector("a"), to); // also where it is not allowed: the server says why
    else page.refresh();
  }

  document.querySelector(".filter").addEventListener("change", e => { if (e.target.id !== "filter") e.currentTarget.requestSubmit(); });
  setInterval(() => { if (!document.hidden) page.refresh(); }, 60000); // ages
}
