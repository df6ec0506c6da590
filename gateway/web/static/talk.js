// The conversation. What is shown is the rows, as the server writes them; only the turn that runs is put together here, from its events, and its
// rows take its place when it has ended. Events come again from the beginning of the turn whenever the stream is opened, so each opening begins
// with the rows and puts the turn together anew: nothing is lost between the two, and nothing is there twice.
"use strict";
(() => {
  const $ = id => document.getElementById(id), chat = document.querySelector(".chat"), log = $("rows"), form = $("say"), text = $("text");
  const part = async (name, url) => { const r = await fetch(url, {headers: {"Gatewayd-Fragment": name}}).catch(() => null); return r?.ok ? r.text() : null; };
  const every = document.querySelector("[data-every]"); // what has no stream of events is looked at again, but never under a person's hands
  if (every) setInterval(() => document.hidden || document.querySelector("dialog[open]") || page.refresh(), 1000 * every.dataset.every);
  log?.addEventListener("click", async e => { // older rows come before the others, and nothing moves under the reader
    const link = e.target.closest(".older a[href*='before=']");
    if (!link || e.ctrlKey || e.metaKey) return;
    e.preventDefault();
    const html = await part("log", link.href), t = document.createElement("template"), high = document.documentElement.scrollHeight;
    if (html === null) return location.assign(link.href);
    t.innerHTML = html;
    t.content.querySelectorAll("a[href$='" + CSS.escape(chat.dataset.session) + "']").forEach(a => a.closest(".older")?.remove());
    link.closest(".older").replaceWith(t.content);
    window.scrollBy(0, document.documentElement.scrollHeight - high);
  });
  if (!form) return;
  let live = "", queue = null, draft = "", loads = 0;
  const session = chat.dataset.session;
  const random = () => [...crypto.getRandomValues(new Uint8Array(12))].map(b => b.toString(16).padStart(2, "0")).join("");
  let follow = !location.hash; // a reader who is at the end stays there
  addEventListener("scroll", () => { follow = innerHeight + scrollY > document.documentElement.scrollHeight - 80; }, {passive: true});
  const down = () => follow && window.scrollTo(0, document.documentElement.scrollHeight);
  const running = on => { document.body.classList.toggle("running", on); if (!on) $("now").textContent = ""; };

  // The turn that runs.
  const piece = (kind, words = "") => { const n = $("p-" + kind).content.firstElementChild.cloneNode(true), said = n.querySelector(".said") || n; said.append(words); return n; };
  const section = turn => {
    let s = $("t-" + turn);
    if (!s) { s = document.createElement("section"); s.className = "turn"; s.id = "t-" + turn; s.dataset.turn = turn; log.append(s); }
    return s;
  };
  const now = kind => { // where the next words of this kind go
    const s = section(live), last = s.lastElementChild;
    if (last?.dataset.live === kind) return last.querySelector(".said");
    const n = piece(kind);
    n.dataset.live = kind;
    s.append(n);
    return n.querySelector(".said");
  };
  const tool = d => [...section(live).querySelectorAll(".tool")].find(n => n.dataset.call === d.call_id);
  const state = (n, word, mark) => {
    if (!n) return;
    n.querySelector(".state").textContent = word;
    n.querySelector(".state").className = "state " + mark;
    n.querySelector(".mark").setAttribute("class", "mark " + mark);
    n.querySelector("use").setAttribute("href", "#s-" + mark);
  };
  const begin = (kind, d) => { // also in the middle of a turn so long that its beginning is not told again
    const s = section(live = d.turn), kept = [...s.querySelectorAll(":scope > .begins")].pop();
    while (s.lastChild && s.lastChild !== kept) s.lastChild.remove(); // what comes now has come before
    if (!kept && kind === "turn") s.append(piece("person", d.text));
    if (kind !== "turn") s.append(piece("note", "The beginning of this turn is shown when it ends."));
    s.setAttribute("aria-busy", "true");
    running(true);
    page.say("Answering");
    page.refresh("wait", "aside", "head");
  };
  const events = {
    turn() {},
    model(d) { $("now").textContent = d.text; },
    queued(d) { $("now").textContent = d.text; },
    delta(d) { now("answer").append(d.text); },
    reasoning(d) { now("thought").append(d.text); },
    notice(d) { section(live).append(piece("note", d.text)); },
    steered(d) { section(live).append(piece("person", d.text)); page.refresh("wait"); },
    tool_started(d) {
      const n = piece("tool", d.text);
      n.dataset.call = d.call_id;
      n.querySelector("b").textContent = d.tool;
      n.querySelector(".label").textContent = d.label;
      state(n, "running", "running");
      section(live).append(n);
    },
    tool_finished(d) {
      const n = tool(d);
      if (!n) return;
      n.querySelector(".out").textContent = d.text;
      state(n, d.failed ? "failed" : "done", d.failed ? "blocked" : "done");
    },
    approval(d) { state(tool(d), "waits for you", "review"); page.refresh("ask"); page.say(d.tool + " asks for your approval: " + d.text); },
    decided(d) { state(tool(d), d.approval.decision, "running"); page.refresh("ask"); },
    async ended(d) {
      live = "";
      running(false);
      await load();
      page.refresh("head", "aside", "ask", "wait");
      page.say((d.result?.completed ? "Answer: " : "Ended: ") + (d.text || "").slice(0, 400));
      if (d.result?.failed && !d.result.last_row) page.trouble(d.text);
    },
  };
  const apply = e => {
    const d = JSON.parse(e.data);
    if (d.turn && (e.type === "turn" || d.turn !== live && e.type !== "ended")) begin(e.type, d);
    events[e.type](d);
    down();
  };

  // load puts the rows in place. Events that come meanwhile wait; a turn that they end is in the rows already, or will be by its end.
  async function load() {
    const mine = ++loads;
    queue ??= [];
    const html = await part("log", location.pathname + location.search);
    if (mine !== loads) return;
    const late = queue;
    if (html !== null) merge(html);
    queue = null;
    const last = late.findLastIndex(e => e.type === "ended");
    if (last >= 0) { live = ""; running(false); load(); }
    late.slice(last + 1).forEach(apply);
    down();
  }
  function merge(html) {
    const t = document.createElement("template"), had = new Map([...log.querySelectorAll(".turn")].map(s => [s.id, s]));
    t.innerHTML = html;
    const fresh = [...t.content.querySelectorAll(".turn")], from = fresh.length && had.get(fresh[0].id), focus = document.activeElement?.id;
    for (const d of log.querySelectorAll("details[open][id]")) { const n = t.content.getElementById(d.id); if (n) n.open = true; }
    if (!from) log.replaceChildren(...t.content.childNodes);
    else { while (from.nextSibling) from.nextSibling.remove(); from.replaceWith(...fresh); }
    for (const n of fresh) { const old = had.get(n.id); if (old && (live && old.dataset.turn === live || old.isEqualNode(n))) n.replaceWith(old); }
    if (focus && document.activeElement?.id !== focus) $(focus)?.focus({preventScroll: true});
  }
  if (session) {
    const hear = {watching() { live = ""; running(false); load(); }}; // from now on nothing is missed
    for (const kind in events) hear[kind] = e => queue ? queue.push(e) : apply(e);
    page.listen("/api/sessions/" + session + "/events", hear);
  }

  // Saying something. A message keeps its name until it is accepted, so one that is sent again is stored once.
  async function send() {
    const said = text.value, where = session || (chat.dataset.made ??= "web-" + random());
    if (!said.trim() || form.busy) return;
    draft ||= random();
    form.busy = true;
    try {
      const body = {text: said, uid: "web-" + draft, source: "web"};
      if (document.body.classList.contains("running")) body.mode = $("mode").value;
      const a = await page.call("POST", "/api/sessions/" + where + "/messages", body);
      page.trouble("");
      draft = text.value = "";
      suggest();
      if (a.session && a.session !== session && (a.accepted || a.object === "command.reply" && session)) return location.assign("/chat/" + encodeURIComponent(a.session));
      follow = true;
      $("notes").replaceChildren(...a.text ? [piece("note", a.text)] : []);
      if (a.text) page.say(a.text);
      if (a.object === "command.reply" && session) { load(); page.refresh(); } else page.refresh("wait");
      down();
    } catch (err) { page.trouble(err.message + ". Your message is still in its field."); } finally { form.busy = false; text.focus(); }
  }
  chat.addEventListener("refreshed", down);
  form.addEventListener("submit", e => { e.preventDefault(); send(); });
  $("stop").addEventListener("click", async () => {
    try { page.say((await page.call("POST", "/api/sessions/" + session + "/stop", {source: "web"})).text || "Stopped"); } catch (err) { page.trouble(err.message); }
    text.focus();
  });

  // The list of commands under what is typed.
  const list = $("commands"), options = [...list.children];
  let chosen = null;
  const choose = o => {
    chosen?.setAttribute("aria-selected", "false");
    chosen = o;
    o?.setAttribute("aria-selected", "true");
    o?.scrollIntoView({block: "nearest"});
    if (o) text.setAttribute("aria-activedescendant", o.id); else text.removeAttribute("aria-activedescendant");
  };
  const shown = () => options.filter(o => !o.hidden);
  function suggest(close) {
    const word = /^\/([a-z]*)$/i.exec(text.value);
    for (const o of options) o.hidden = !word || !o.dataset.name.startsWith(word[1].toLowerCase());
    list.hidden = close === true || !word || !shown().length;
    text.setAttribute("aria-expanded", String(!list.hidden));
    choose(list.hidden ? null : shown()[0]);
  }
  const take = o => { text.value = "/" + o.dataset.name + " "; suggest(); text.focus(); };
  list.addEventListener("mousedown", e => { e.preventDefault(); const o = e.target.closest("[role=option]"); if (o) take(o); });
  text.addEventListener("input", suggest);
  text.addEventListener("blur", () => suggest(true));
  text.addEventListener("keydown", e => {
    if (e.isComposing || e.keyCode === 229) return; // Enter ends a word that is being composed, and sends nothing
    const all = shown(), open = !list.hidden, whole = open && text.value.toLowerCase() === "/" + chosen?.dataset.name;
    if (open && (e.key === "ArrowDown" || e.key === "ArrowUp")) { e.preventDefault(); choose(all[(all.indexOf(chosen) + (e.key === "ArrowDown" ? 1 : all.length - 1)) % all.length]); }
    else if (open && e.key === "Escape") { e.preventDefault(); suggest(true); }
    else if (open && chosen && (e.key === "Tab" || e.key === "Enter" && !whole)) { e.preventDefault(); take(chosen); }
    else if (e.key === "Enter" && !e.shiftKey) { e.preventDefault(); send(); }
  });
})();
