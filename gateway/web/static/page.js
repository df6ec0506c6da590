// What every page has: calls with errors in words, parts that are fetched anew when something happens, and a line that says when it is not heard.
"use strict";
const page = {
  async call(method, url, body) {
    let r;
    try {
      r = await fetch(url, {method, headers: body === undefined || body instanceof FormData ? {} : {"Content-Type": "application/json"}, body: body instanceof FormData ? body : JSON.stringify(body)});
    } catch { throw new Error("gatewayd cannot be reached; nothing is known of what you asked for"); }
    if (r.status === 401) location.assign("/login?next=" + encodeURIComponent(location.pathname + location.search));
    const answer = await r.json().catch(() => ({}));
    if (!r.ok) throw Object.assign(new Error(answer.error?.message || "gatewayd answered " + r.status), {field: answer.error?.param});
    return answer;
  },
  say(text) { document.getElementById("said").textContent = text; },
  trouble(text) { const t = document.getElementById("trouble"); t.firstElementChild.textContent = text; t.hidden = !text; },
  // refresh fetches the parts named (all without a name) and keeps focus, scrolling and what is unfolded.
  async refresh(...names) {
    for (const part of document.querySelectorAll("[data-part]")) if (!names.length || names.includes(part.dataset.part)) {
      const r = await fetch(location.pathname + location.search, {headers: {"Gatewayd-Fragment": part.dataset.part}}).catch(() => null);
      if (r?.status === 401) return location.assign("/login?next=" + encodeURIComponent(location.pathname + location.search));
      const html = /html/.test(r?.headers.get("Content-Type")) ? await r.text().catch(() => null) : null; // what is wrong is a part, too; and one may be empty
      if (html === null || page.held || part.was === html) continue;
      const fresh = part.cloneNode();
      fresh.innerHTML = html;
      if (fresh.isEqualNode(part)) continue; // a button that is being pressed stays where it is
      const at = document.activeElement, kept = [...part.querySelectorAll("[id][data-scroll], details[id], input[id], textarea[id]")].map(e =>
        ({id: e.id, x: e.scrollLeft, y: e.dataset.scroll === "end" && e.scrollTop + e.clientHeight >= e.scrollHeight - 4 ? 1e9 : e.scrollTop, open: e.open, value: e.value === e.defaultValue || e.type === "file" ? undefined : e.value}));
      const focus = at?.id, caret = at?.selectionStart;
      part.innerHTML = part.was = html;
      for (const k of kept) { const e = document.getElementById(k.id); if (e) { if (k.open !== undefined) e.open = k.open; if (k.value !== undefined) e.value = k.value; e.scrollLeft = k.x; e.scrollTop = k.y; } }
      const back = focus && document.activeElement?.id !== focus && document.getElementById(focus);
      if (back) { back.focus({preventScroll: true}); if (Number.isInteger(caret)) back.setSelectionRange?.(caret, caret); }
      part.dispatchEvent(new Event("refreshed", {bubbles: true}));
    }
  },
  soon() { page.timer ??= setTimeout(async () => { page.timer = undefined; await page.refresh(); }, 150); },
  line(text) { const l = document.getElementById("line"); if (l) { l.textContent = text; l.hidden = !text; } },
  // listen follows a stream of events; kinds maps their names to functions. A browser that gave up is tried again here.
  listen(url, kinds, lost = false) {
    const source = new EventSource(url);
    const again = text => { lost = true; page.line(text); if (source.readyState === EventSource.CLOSED) setTimeout(() => page.listen(url, kinds, true), 3000); };
    source.onopen = () => { page.line(""); document.body.dataset.live = "yes"; if (lost) page.refresh(); lost = false; };
    source.onerror = e => again(e.data ? JSON.parse(e.data).error.message : "Not connected; trying again. What you see may be old.");
    source.addEventListener("end", e => again(JSON.parse(e.data).reason + "; waiting for it to come back"));
    for (const kind in kinds) source.addEventListener(kind, kinds[kind]);
    return source;
  },
};
document.querySelector("#trouble button")?.addEventListener("click", () => page.trouble(""));
for (const e of document.querySelectorAll("[data-scroll=end]")) e.scrollTop = e.scrollHeight;
setInterval(() => { for (const e of document.querySelectorAll("[data-part][data-every]")) page.refresh(e.dataset.part); }, 2000);
if (document.body.dataset.events) page.listen(document.body.dataset.events, {events: page.soon, gap: page.soon});
setInterval(async () => { // the number beside Status: how many of its lines are not ok
  const badge = document.getElementById("badge"), r = badge && !document.hidden && await fetch("/status", {headers: {"Gatewayd-Fragment": "badge"}}).catch(() => null);
  if (r?.ok) badge.innerHTML = await r.text();
}, 15000);
