// Forms that change something. data-api="METHOD /path" says what the fields are sent to, as JSON; a button's own data-api comes before its form's.
// Sent is what differs from what the page came with, and hidden fields always. data-then is where to go afterwards, with {path.of.answer} filled
// in; without it the parts of the page are fetched anew. data-confirm asks first. data-said is what a screen reader hears.
"use strict";
{
  const read = {int: f => f.value === "" ? null : Number(f.value), list: f => f.value.split(/[\s,]+/).filter(Boolean), flag: f => f.checked, text: f => f.value,
    json: f => JSON.parse(f.value), time: f => Math.floor(Date.parse(f.value) / 1000), titles: f => f.value.split("\n").map(t => t.trim()).filter(Boolean).map(title => ({title}))};
  const changed = f => f.type === "hidden" || (f.type === "checkbox" ? f.checked !== f.defaultChecked
    : f.options ? ![...f.options].some(o => o.defaultSelected && o.selected) && f.value !== f.options[0].value || [...f.options].some(o => o.defaultSelected) && !f.selectedOptions[0]?.defaultSelected
      : f.value !== f.defaultValue);
  const wrong = (form, text, field) => {
    for (const f of form.elements) f.removeAttribute("aria-invalid");
    const input = field && form.elements[field], place = form.querySelector(".wrong");
    if (input?.focus) { input.setAttribute("aria-invalid", "true"); input.focus(); }
    if (place) { place.textContent = text; place.hidden = !text; } else page.trouble(text);
  };
  document.addEventListener("submit", async e => {
    const form = e.target, by = e.submitter, [method, url] = (by?.dataset.api || form.dataset.api || "").split(" ");
    if (!url) return;
    e.preventDefault();
    const ask = by?.dataset.confirm || form.dataset.confirm;
    if (form.busy || ask && !confirm(ask)) return;
    const files = form.enctype === "multipart/form-data", body = files ? new FormData(form) : {};
    if (!files) for (const f of form.elements) if (f.name && f.type !== "submit" && !f.disabled && changed(f)) body[f.name] = read[f.dataset.type || "text"](f);
    if (by?.name) body[by.name] = read[by.dataset.type || "text"](by);
    form.busy = true;
    try {
      const answer = await page.call(method, url, method === "DELETE" ? undefined : body);
      wrong(form, "");
      page.say(by?.dataset.said || form.dataset.said || "Done");
      const then = by?.dataset.then || form.dataset.then;
      if (then) return location.assign(then.replace(/\{([\w.]+)\}/g, (_, path) => encodeURIComponent(path.split(".").reduce((o, k) => o?.[k], answer) ?? "")));
      form.reset();
      form.closest("dialog")?.close();
      await page.refresh();
    } catch (err) { wrong(form, err.message, err.field); } finally { form.busy = false; }
  });
  // data-open="ID" opens a dialog; where scripts run, its button is there.
  document.addEventListener("click", e => {
    const open = e.target.closest("[data-open]"), shut = e.target.closest("[data-shut]");
    if (open) { e.preventDefault(); document.getElementById(open.dataset.open)?.showModal(); }
    if (shut) shut.closest("dialog")?.close();
  });
}
