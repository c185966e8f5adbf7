"use strict";
// The live page: one stream of events, a card for each limit, charts as SVG paths. No library, no build.

const HISTORY = 180; // seconds of a chart at most,
const LEAST = 60; // and at least: it grows with what is known
const MOST = 200; // cards at once
const by = (id) => document.getElementById(id);
const limits = new Map(); // name → { node, history, last, data, … }
let stream = null;
let paused = false;
let before = null; // the tick before, for rates: by the time of the server, since ticks may arrive late
let open = new Set();

// ---- small helpers

function make(tag, attributes = {}, ...children) {
  const svg = ["svg", "path", "line"].includes(tag);
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const set = (node, text) => { if (node.textContent !== text) node.textContent = text; };

function number(value) {
  if (value === null || value === undefined) return "–";
  if (value >= 1e15) return "unlimited";
  const [unit, by] = value >= 1e9 ? ["G", 1e9] : value >= 1e6 ? ["M", 1e6] : value >= 1e4 ? ["k", 1e3] : ["", 1];
  const shown = value / by;
  return shown.toLocaleString("en", { maximumFractionDigits: shown < 10 && (by > 1 || shown % 1) ? 1 : 0 }) + unit;
}

function span(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return `${number(ms)} ms`;
  if (ms < 120e3) return `${number(ms / 1000)} s`;
  if (ms < 7200e3) return `${number(ms / 60e3)} min`;
  return `${number(ms / 3600e3)} h`;
}

const words = (name) => name.replaceAll("_", " ");
const total = (reasons) => Object.values(reasons).reduce((sum, count) => sum + count, 0);

function announce(text) { set(by("news"), text); }

function connection(state, text) {
  by("connection").dataset.state = state;
  set(by("connection"), text);
}

function table(caption, heads, rows) {
  const node = make("table", {}, make("caption", {}, caption));
  const cell = (tag, value, index) => make(tag, index ? { class: "n" } : tag === "th" ? { scope: "col" } : {}, String(value));
  node.append(make("thead", {}, make("tr", {}, ...heads.map((it, i) => cell("th", it, i)))));
  node.append(make("tbody", {}, ...rows.map((row) => {
    const line = make("tr", row.mark ? { class: row.mark } : {});
    line.append(...row.cells.map((it, i) => cell("td", it, i)));
    return line;
  })));
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, node);
}

// ---- charts

// Lines over the last minutes. `lines`: [class, field of a point, word]; grants are filled.
class Chart {
  constructor(title, unit, lines) {
    Object.assign(this, { title, unit, lines });
    this.paths = lines.map(([name]) => make("path", { class: name }));
    this.area = make("path", { class: "area" });
    this.svg = make("svg", { viewBox: "0 0 300 100", preserveAspectRatio: "none", role: "img" });
    for (const y of [0, 50, 100]) this.svg.append(make("line", { class: "grid", x1: 0, x2: 300, y1: y, y2: y }));
    this.svg.append(this.area, ...this.paths);
    this.top = make("span", { class: "top", "aria-hidden": "true" });
    this.values = lines.map(([name, , word]) => make("li", { class: name }, `${word} `, make("b")));
    const start = this.start = make("span", { class: "start", "aria-hidden": "true" });
    this.node = make("div", {}, make("div", { class: "chart" }, this.svg, this.top, start), make("ul", { class: "key" }, ...this.values));
  }

  draw(points) {
    const of = (field) => points.map((point) => point[field]);
    const all = this.lines.flatMap(([, field]) => of(field)).filter((it) => it !== null && it < 1e15);
    const most = Math.max(...all, 0);
    const top = nice(most);
    set(this.top, `${number(top)}${this.unit}`);
    set(this.start, span(Math.max(LEAST, points.length) * 1000));
    this.lines.forEach(([name, field], index) => {
      const path = line(of(field), top);
      this.paths[index].setAttribute("d", path);
      if (name === "granted") this.area.setAttribute("d", fill(path));
      const last = points.length ? points.at(-1)[field] : null;
      set(this.values[index].lastChild, last === null ? "–" : `${number(last)}${this.unit}`);
    });
    const now = this.lines.map(([, , word], i) => `${word} ${this.values[i].lastChild.textContent}`).join(", ");
    this.svg.setAttribute("aria-label", `${this.title}, last ${points.length} seconds, up to ${number(most)}${this.unit}. Now: ${now}`);
  }
}

function nice(value) {
  if (value <= 1) return 1;
  const step = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((it) => it * step).find((it) => it >= value);
}

function line(values, top) {
  const width = Math.max(LEAST, values.length);
  const start = width - values.length;
  let path = "";
  values.forEach((value, index) => {
    if (value === null) return;
    const x = ((start + index) / (width - 1)) * 300;
    const y = 100 - (Math.min(value, top) / top) * 100;
    path += `${path ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
  });
  return path;
}

function fill(path) {
  if (!path) return "";
  const [first] = path.slice(1).split(" ");
  const last = path.slice(path.lastIndexOf(path.includes("L") ? "L" : "M") + 1).split(" ")[0];
  return `${path}L${last} 100L${first} 100Z`;
}

// ---- a limit

class Limit {
  constructor(data) {
    this.name = data.name;
    this.history = [];
    this.adaptive = Boolean(data.learned);
    this.flow = new Chart(`${data.name}: decisions a second`, "/s", [
      ["granted", "granted", "granted"], ["refused", "refused", "refused"], ["shadow", "shadow", "shadow"],
    ]);
    this.use = make("b");
    this.of = make("span");
    this.kind = make("span", { class: "chip" });
    this.mode = make("span", { class: "chip shadow" }, "shadow");
    this.alarm = make("span", { class: "chip refusing" }, "refusing");
    this.bar = make("i");
    this.meter = make("div", { class: "meter", role: "meter", "aria-label": `${data.name}: share in use`, "aria-valuemin": 0, "aria-valuemax": 100 }, this.bar);
    this.queue = make("li", { class: "none" }, "waiting ", make("b"));
    this.flow.node.lastChild.append(this.queue);
    this.toggle = make("button", { class: "more", type: "button", "aria-expanded": "false" }, "Details");
    this.toggle.setAttribute("aria-label", `Details of ${data.name}`);
    this.details = make("div", { class: "details", hidden: "" });
    this.node = make("article", { class: "card", "aria-label": data.name },
      make("div", { class: "head" }, make("h3", {}, data.name), this.alarm, this.mode, this.kind),
      make("p", { class: "use" }, this.use, this.of), this.meter, this.flow.node, this.toggle, this.details);
    this.toggle.addEventListener("click", () => this.expand(!open.has(this.name)));
    if (this.adaptive) this.learned = [
      new Chart(`${data.name}: limit and use`, "", [["granted", "use", "in use"], ["limit", "limit", "limit"]]),
      new Chart(`${data.name}: latency`, " ms", [["latency", "latency", "latency"], ["baseline", "baseline", "baseline"]]),
    ];
    if (open.has(this.name)) this.expand(true);
  }

  expand(yes) {
    yes ? open.add(this.name) : open.delete(this.name);
    this.node.classList.toggle("open", yes);
    this.toggle.setAttribute("aria-expanded", String(yes));
    this.details.hidden = !yes;
    if (yes) this.looked = 0;
    if (this.data) this.draw();
    remember();
  }

  tick(data, seconds) {
    const old = this.data;
    this.data = data;
    const rate = (now, then) => (old && seconds > 0 ? Math.max(0, (now - then) / seconds) : 0);
    const refused = total(data.refused);
    const point = {
      granted: rate(data.granted_total, old?.granted_total),
      refused: rate(refused, old && total(old.refused)),
      shadow: rate(data.would_refuse, old?.would_refuse),
      use: data.in_use, limit: data.limit,
      latency: data.learned?.latency_ms ?? null, baseline: data.learned?.baseline_ms ?? null,
    };
    this.history.push(point);
    if (this.history.length > HISTORY) this.history.shift();
    const refusing = point.refused > 0;
    if (refusing !== this.refusing && old) announce(refusing ? `${this.name} refuses` : `${this.name} no longer refuses`);
    this.refusing = refusing;
    return point;
  }

  draw() {
    const { data } = this;
    set(this.use, number(data.in_use));
    const keys = data.keys === null || data.keys === undefined ? "key" : `of ${number(data.keys)} ${data.keys === 1 ? "key" : "keys"}`;
    const bound = data.keyed ? `in use, ${number(data.limit)} for each ${keys}` : `of ${number(data.limit)} in use`;
    set(this.of, data.limit >= 1e15 ? "in use" : bound);
    set(this.kind, this.adaptive ? "adaptive" : data.kind ?? "unlimited");
    this.mode.hidden = data.mode !== "shadow";
    this.alarm.hidden = !this.refusing;
    this.node.dataset.refusing = String(this.refusing);
    const share = Math.round(Math.min(1, data.saturation) * 100);
    this.bar.style.width = `${share}%`;
    this.meter.hidden = data.keyed; // each key is full or not for itself
    this.meter.dataset.full = String(share >= 100);
    this.meter.setAttribute("aria-valuenow", share);
    this.queue.hidden = !data.queue_bound && !data.waiting;
    set(this.queue.lastChild, `${number(data.waiting)}${data.queue_bound < 1e15 ? ` of ${number(data.queue_bound)}` : ""}`);
    this.flow.values[2].hidden = data.mode !== "shadow" && !data.would_refuse;
    this.flow.draw(this.history);
    if (open.has(this.name)) this.more();
  }

  more() {
    const { data } = this;
    const reasons = Object.entries(data.refused).map(([reason, count]) => ({ cells: [words(reason), number(count)] }));
    if (data.would_refuse) reasons.push({ cells: ["in shadow, not enforced", number(data.would_refuse)] });
    const tiers = Object.entries(data.tiers).map(([tier, it]) => (
      { cells: [tier, number(it.limit), number(it.in_use), number(it.granted_total), number(it.denied_total)] }));
    const parts = [table("Since the start", ["what", "decisions"], [
      { cells: ["granted", number(data.granted_total)] }, ...reasons,
    ])];
    if (this.learned) {
      this.learned.forEach((chart) => chart.draw(this.history));
      const why = make("p", { class: "why" }, "Last decision: ", make("b", {}, data.learned?.decision ?? "–"));
      parts.unshift(make("div", {}, make("h4", {}, "Limit against use"), this.learned[0].node, why),
        make("div", {}, make("h4", {}, "Latency against its baseline"), this.learned[1].node));
    }
    if (tiers.length) parts.push(table("Tiers", ["tier", "limit", "in use", "granted", "refused"], tiers));
    for (const [word, keys] of Object.entries(this.top ?? {})) {
      if (!keys.length) continue;
      const rows = keys.map((it) => ({ cells: [it.key, it.error ? `≤ ${number(it.count)}` : number(it.count)] }));
      parts.push(table(word === "used" ? "Keys that use most (masked)" : "Keys refused most (masked)", ["key", "about"], rows));
    }
    this.details.replaceChildren(...parts);
    if (Date.now() - (this.looked ?? 0) > 5000) this.lookAtKeys();
  }

  async lookAtKeys() {
    this.looked = Date.now();
    const answer = await fetch(`/top?limit=${encodeURIComponent(this.name)}`).catch(() => null);
    if (answer?.ok) this.top = await answer.json();
  }
}

// ---- the stream

function connect() {
  stream?.close();
  stream = new EventSource(`/events?most=${MOST}&search=${encodeURIComponent(by("search").value.trim())}`);
  stream.onmessage = (event) => { connection("live", "live"); tick(JSON.parse(event.data)); };
  stream.addEventListener("stopping", () => connection("lost", "the server is stopping"));
  stream.onerror = () => { connection("lost", "connection lost, trying again"); before = null; announce("Connection lost"); };
}

function watch() {
  const hidden = document.hidden;
  if (paused || hidden) {
    stream?.close();
    stream = null;
    before = null;
    if (paused) connection("paused", "paused");
  } else if (!stream) {
    connection("connecting", "connecting");
    connect();
  }
}

function tick(data) {
  const seconds = before === null ? 0 : (data.uptime_ms - before) / 1000;
  before = data.uptime_ms;
  const sums = { granted: 0, refused: 0, shadow: 0, waiting: 0 };
  const seen = new Set();
  for (const one of data.limits) {
    seen.add(one.name);
    let limit = limits.get(one.name);
    if (!limit) limits.set(one.name, limit = new Limit(one));
    const point = limit.tick(one, seconds);
    for (const field of ["granted", "refused", "shadow"]) sums[field] += point[field];
    sums.waiting += one.waiting;
  }
  for (const [name, limit] of limits) if (!seen.has(name)) { limit.node.remove(); limits.delete(name); }
  arrange([...seen]);
  for (const name of seen) limits.get(name).draw();
  for (const [field, value] of Object.entries(sums)) {
    by(`sum-${field}`).replaceChildren(number(value), ...(field === "waiting" ? [] : [make("span", { class: "unit" }, "/s")]));
  }
  // What only some programs have.
  for (const field of ["leases", "in_flight", "connections"]) {
    by(`sum-${field}`).parentNode.hidden = data[field] === undefined;
    set(by(`sum-${field}`), number(data[field]));
  }
  set(by("shown"), seen.size < data.limits_total ? `${seen.size} of ${data.limits_total} are shown` : `${seen.size}`);
  set(by("about"), `plimsoll ${data.version}, up for ${span(data.uptime_ms)}`);
  by("empty").hidden = seen.size > 0;
  const names = by("names");
  if (names.children.length !== seen.size) names.replaceChildren(...[...seen].map((name) => make("option", { value: name })));
  more(data);
}

// Cards in the chosen order; moved only where it changed, so that the focus stays.
function arrange(names) {
  const order = by("order").value;
  const last = (name) => limits.get(name).history.at(-1);
  if (order === "name") names.sort((a, b) => a.localeCompare(b));
  if (order === "refused") names.sort((a, b) => total(limits.get(b).data.refused) - total(limits.get(a).data.refused));
  if (order === "full") names.sort((a, b) => limits.get(b).data.saturation - limits.get(a).data.saturation || last(b).use - last(a).use);
  const cards = by("cards");
  names.forEach((name, index) => {
    const node = limits.get(name).node;
    if (cards.children[index] !== node) cards.insertBefore(node, cards.children[index] ?? null);
  });
}

// What a server has beside limits: its last reload, quotas that it assigned, upstreams.
function more(data) {
  const parts = [];
  if (data.reload) {
    const { errors, text } = data.reload;
    const lines = (errors ?? (text || "nothing changed").split("\n")).map((it) => make("li", {}, it));
    const title = errors ? "The last file is wrong: the limits before it stay" : "Last reload";
    parts.push(make("div", { class: errors ? "verdict no" : "verdict" }, title, make("ul", {}, ...lines)));
  }
  if (data.upstreams?.length) parts.push(table("Upstreams", ["server", "pool", "in flight", "answered", "failed", "state"],
    data.upstreams.map((it) => ({ cells: [it.address, it.pool, number(it.in_flight), number(it.answered), number(it.failed), it.state] }))));
  if (data.quotas?.buckets) parts.push(quotas(data.quotas));
  const node = by("more");
  node.hidden = !parts.length;
  const shown = JSON.stringify([data.reload, data.upstreams, data.quotas]);
  if (shown !== node.dataset.shown) node.replaceChildren(...parts);
  node.dataset.shown = shown;
}

// Quotas that proxies were assigned: who has what, wants what, and until when.
function quotas({ streams, shown }) {
  const rows = shown.flatMap((bucket) => (bucket.shares ?? []).map((it) => ({ cells: [
    bucket.key ? `${bucket.limit} ${bucket.key}` : bucket.limit, it.gone ? "gone" : `proxy ${it.stream}`,
    it.has ? `${number(it.has.tokens)} in ${it.has.seconds} s` : "nothing", it.wants_per_second === null ? "–" : `${number(it.wants_per_second)}/s`,
    it.expires_in === null ? "–" : span(it.expires_in * 1000), number(it.allowed), number(it.denied),
  ] })));
  return table(`Quotas assigned to ${streams} proxies`, ["limit", "who", "has", "wants", "runs out in", "let through", "refused"], rows.slice(0, 200));
}

// ---- a state that can be linked to

function remember() {
  const state = new URLSearchParams();
  if (by("search").value) state.set("search", by("search").value);
  if (by("order").value !== "file") state.set("order", by("order").value);
  if (paused) state.set("paused", "1");
  for (const name of open) state.append("open", name);
  history.replaceState(null, "", state.size ? `#${state}` : location.pathname);
}

function recall() {
  const state = new URLSearchParams(location.hash.slice(1));
  by("search").value = state.get("search") ?? "";
  by("order").value = state.get("order") ?? "file";
  open = new Set(state.getAll("open"));
  // A page that is opened paused shows one moment.
  if (state.get("paused")) fetch(`/limits?most=${MOST}`).then((it) => it.json()).then((it) => { tick(it); pause(true); });
}

function pause(yes) {
  paused = yes;
  by("pause").setAttribute("aria-pressed", String(yes));
  set(by("pause"), yes ? "Resume" : "Pause");
  watch();
  remember();
}

// ---- what would happen?

function question(form) {
  const value = (name) => form.elements[name].value.trim();
  const given = (fields) => Object.fromEntries(Object.entries(fields).filter(([, it]) => it !== ""));
  if (value("by") === "limit") {
    return given({ limit: value("limit"), key: value("key"), tier: value("tier"), cost: value("cost") && Number(value("cost")) });
  }
  const headers = {};
  for (const row of value("headers").split("\n").filter((it) => it.trim())) {
    const [name, ...rest] = row.split(":");
    headers[name.trim()] = rest.join(":").trim();
  }
  return { request: { ...given({ method: value("method"), path: value("path"), peer: value("peer"), host: value("host") }), headers } };
}

async function ask(event) {
  event.preventDefault();
  const body = JSON.stringify(question(event.target));
  const answer = await fetch("/peek", { method: "POST", headers: { "content-type": "application/json" }, body }).catch(() => null);
  const data = answer ? await answer.json().catch(() => null) : null;
  by("answer").replaceChildren(...verdict(answer, data));
}

function verdict(answer, data) {
  const say = (no, title, detail) => make("div", { class: no ? "verdict no" : "verdict" }, title, make("p", {}, detail));
  if (!data) return [say(true, "No answer", "The server could not be reached, or did not understand.")];
  if (!answer.ok) return [say(true, data.title ?? "Not a question that can be asked", data.detail ?? "")];
  if (!data.answers.length) return [say(!data.allowed, data.allowed ? "It would be admitted" : `It would be refused: ${words(data.reason)}`,
    data.allowed ? "No route of the file is for this request, so nothing limits it." : "")];
  const retry = data.retry_after_ms === null || data.retry_after_ms === undefined ? "" : ` A retry makes sense after ${span(data.retry_after_ms)}.`;
  const binds = data.answers.filter((it) => !it.shadow && it.remaining !== undefined).sort((a, b) => a.remaining - b.remaining)[0];
  const banner = data.allowed
    ? say(false, "It would be admitted", binds ? `Next to bind: ${binds.limit}, ${number(binds.remaining)} left.` : "")
    : say(true, `It would be refused by ${data.limit}: ${words(data.reason)}`, `Nothing was charged.${retry}`);
  const rows = data.answers.map((it) => ({
    mark: !data.allowed && it.limit === data.limit && !it.granted ? "binds" : "",
    cells: [it.limit, it.granted ? "grants" : it.shadow ? "would refuse (shadow)" : `refuses: ${words(it.reason)}`,
      number(it.cost), number(it.remaining), number(it.quota), span(it.window_ms), span(it.reset_ms)],
  }));
  return [banner, table("Each limit", ["limit", "says", "cost", "left", "of", "window", "full again in"], rows)];
}

// ---- begin

by("pause").addEventListener("click", () => pause(!paused));
by("order").addEventListener("change", () => { arrange([...limits.keys()]); remember(); });
let typing = 0;
by("search").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => { before = null; remember(); if (!paused) connect(); }, 200);
});
by("peek").addEventListener("submit", ask);
for (const choice of by("peek").elements.by) choice.addEventListener("change", () => {
  for (const part of document.querySelectorAll(".fields")) part.hidden = part.dataset.by !== choice.value;
});
document.addEventListener("visibilitychange", watch);
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
  if (event.key === "/") { event.preventDefault(); by("search").focus(); }
  if (event.key === "p") pause(!paused);
});
recall();
if (!location.hash.includes("paused=1")) watch();
