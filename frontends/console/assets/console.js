// The console: asks the server every two seconds and draws what it answers. Texts of the server,
// such as names and keys, only ever become text.
"use strict";

const PERIOD_MS = 2000;
const KEPT_SAMPLES = 90;
const SVG = "http://www.w3.org/2000/svg";
const APIS = { mongo: "MongoDB", cql: "Cassandra", table: "Azure Tables" };

const state = {
  chosen: null, // path of the container that is shown in detail
  before: new Map(), // API → { requests, at }: to make rates of counters
  history: [],
  key: sessionStorage.getItem("admin-key"),
  wasEdited: false, // whether the throughput form holds something not sent yet
};

const $ = (id) => document.getElementById(id);

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function drawn(name, attributes = {}) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// A row of a table. On a phone, where there are no columns, each cell has its heading beside it.
function tableRow(table, cells) {
  const headings = [...table.tHead.rows[0].cells].map((heading) => heading.textContent);
  return element("tr", {}, ...cells.map((cell, column) =>
    element("td", { "data-label": headings[column] }, cell)));
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const precise = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${precise.format(value)} ${units[unit]}`;
}

const percent = (part) => (part === null ? "–" : `${whole.format(part * 100)} %`);

function heat(consumption) {
  if (consumption === null || consumption < 0.3) return "cool";
  return consumption < 0.7 ? "warm" : "hot";
}

async function ask(path, body, method = body === undefined ? "GET" : "POST") {
  const headers = {};
  if (state.key) headers.authorization = `Bearer ${state.key}`;
  const request = { headers, method };
  if (body !== undefined) {
    headers["content-type"] = "application/json";
    request.body = JSON.stringify(body);
  }
  const answer = await fetch(path, request);
  const value = await answer.json();
  if (answer.status === 401) $("login").hidden = false;
  if (!answer.ok) throw new Error(value.error ?? `status ${answer.status}`);
  return value;
}

const pathOf = (container) =>
  "api/containers/" +
  [container.api, container.database, container.container].map(encodeURIComponent).join("/");

const nameOf = (container) => `${container.api} · ${container.database} · ${container.container}`;

function showProtocols(containers) {
  const sums = new Map();
  for (const container of containers) {
    const sum = sums.get(container.api) ?? { rate: 0, charged: 0, requests: 0, throttled: 0 };
    sum.rate += container.request_units_per_second;
    sum.charged += container.request_units;
    sum.requests += container.requests;
    sum.throttled += container.throttled;
    sums.set(container.api, sum);
  }
  const now = performance.now();
  const cards = [...sums].map(([api, sum]) => {
    const before = state.before.get(api);
    const passed = before ? (now - before.at) / 1000 : 0;
    const rate = passed > 0 ? Math.max(0, sum.requests - before.requests) / passed : 0;
    state.before.set(api, { requests: sum.requests, at: now });
    return element("div", { class: "card" },
      APIS[api] ?? api,
      element("b", {}, `${precise.format(sum.rate)} RU/s`),
      element("small", {}, `${precise.format(rate)} requests/s`),
      element("small", {}, `${whole.format(sum.charged)} RU charged`),
      element("small", {}, `${whole.format(sum.throttled)} throttled`));
  });
  $("protocols").replaceChildren(...cards);
}

// For how long one request kept a thread of the server from all others.
function showPolls(polls) {
  const [longest] = polls.longest;
  $("polls").textContent = longest
    ? `Longest turn of a task: ${precise.format(longest.ms)} ms (${longest.tasks}, ` +
      `${longest.operation}); ${whole.format(polls.long)} over ${polls.long_ms} ms`
    : "";
}

// Who has how much of the server's memory.
function showMemory(memory) {
  const engine = memory.engine_used === null ? "" :
    `, engine ${size(memory.engine_used)} of ${size(memory.engine_limit)}`;
  const resident = memory.resident === null ? "" : `, process ${size(memory.resident)}`;
  $("memory-sum").textContent =
    `requests ${size(memory.used)} of ${size(memory.limit)}, peak ${size(memory.peak)}${engine}${resident}`;
  const rows = memory.owners.map((it) => tableRow($("memory"),
    [it.owner, size(it.used), size(it.peak), whole.format(it.refused)]));
  $("memory").tBodies[0].replaceChildren(...rows);
}

const amount = (throughput) =>
  `${whole.format(throughput.request_units_per_second)} ${throughput.mode}`;

function showContainers(containers) {
  const wanted = $("search").value.toLowerCase();
  const rows = containers
    .filter((container) => nameOf(container).toLowerCase().includes(wanted))
    .map((container) => {
      const path = pathOf(container);
      const link = element("button", { class: "link", type: "button" }, nameOf(container));
      link.addEventListener("click", () => choose(path));
      const provisioned = container.throughput;
      const cells = [
        link,
        whole.format(container.partitions.length),
        whole.format(container.items),
        size(container.bytes),
        precise.format(container.request_units_per_second),
        provisioned ? amount(provisioned)
          : container.shared ? `${amount(container.shared)}, shared` : "unlimited",
        percent(container.normalised_consumption),
        whole.format(container.throttled),
      ];
      const row = tableRow($("containers"), cells);
      if (path === state.chosen) row.className = "chosen";
      return row;
    });
  $("containers").tBodies[0].replaceChildren(...rows);
  $("nothing").hidden = containers.length > 0;
  $("containers").hidden = containers.length === 0;
}

function duration(seconds) {
  const units = [["d", 86400], ["h", 3600], ["min", 60]];
  const [name, length] = units.find(([, length]) => seconds >= length) ?? ["s", 1];
  return `${precise.format(seconds / length)} ${name}`;
}

const since = (time) => (time === null ? "–" : duration((Date.now() - Date.parse(time)) / 1000));

// Who follows changes, and what keeps them from being told.
function showFeeds({ feeds, settled }) {
  $("feeds-section").hidden = feeds.length === 0;
  $("settled").className = settled.is_behind && settled.lag_seconds > 5 ? "bad" : "hint";
  $("settled").textContent = settled.is_behind
    ? `Changes of the last ${duration(settled.lag_seconds)} cannot be told yet: ${settled.reason} holds them back.`
    : "All changes that were committed can be told.";
  const rows = feeds.map((feed) => {
    const lags = feed.consumers.map((consumer) => consumer.lag_seconds);
    const consumers = element("span", {
      title: feed.consumers.map((it) => `${it.manner}, for ${since(it.since)}`).join("\n"),
    }, whole.format(feed.consumers.length));
    return tableRow($("feeds"), [
      nameOf(feed),
      feed.is_on ? (feed.is_kept ? "on" : "on while followed") : "ended",
      duration(feed.retention_seconds),
      since(feed.since),
      size(feed.bytes),
      feed.followed === null ? "–" : `${since(feed.followed)} ago`,
      consumers,
      lags.length === 0 ? "–" : duration(Math.max(...lags)),
    ]);
  });
  $("feeds").tBodies[0].replaceChildren(...rows);
}

function showFeed({ feed }) {
  $("feed-off").disabled = !feed;
  $("feed-on").textContent = feed ? "Change" : "Turn on";
  const address = `${state.chosen}/changes`;
  $("feed-state").textContent = feed
    ? `On${feed.is_kept ? "" : " while somebody follows"}, kept for ` +
      `${duration(feed.retention_seconds)}${feed.before ? ", with the item before" : ""}. ` +
      `Read it at ${address}.`
    : `Off: no changes are recorded. It turns on when somebody reads ${address}, or here.`;
}

async function changeFeed(body, method) {
  const tell = (message, isBad = false) => {
    $("feed-outcome").textContent = message;
    $("feed-outcome").className = isBad ? "bad" : "";
  };
  tell("working…");
  try {
    showFeed(await ask(`${state.chosen}/feed`, body, method));
    tell("done");
    await refresh();
  } catch (error) {
    tell(error.message, true);
  }
}

// The address names what is shown, so that it can be kept and sent to others.
function choose(path) {
  location.hash = path;
}

function follow() {
  state.chosen = location.hash.slice(1) || null;
  if (!state.chosen) $("detail").hidden = true;
  state.history = [];
  state.wasEdited = false;
  say("");
  $("comparing").textContent = "";
  $("comparison").hidden = true;
  $("feed-outcome").textContent = "";
  refresh().then(() => {
    if (state.chosen) $("detail").scrollIntoView({ behavior: "smooth" });
  });
}

// The part of the ring from one angle to another, between two radii.
function arc(from, to, inner, outer) {
  // A whole circle would begin where it ends, and not be drawn.
  const end = Math.min(to, from + 2 * Math.PI - 0.0001);
  const at = (angle, radius) =>
    `${(radius * Math.sin(angle)).toFixed(3)} ${(-radius * Math.cos(angle)).toFixed(3)}`;
  const large = end - from > Math.PI ? 1 : 0;
  return `M ${at(from, outer)} A ${outer} ${outer} 0 ${large} 1 ${at(end, outer)} ` +
    `L ${at(end, inner)} A ${inner} ${inner} 0 ${large} 0 ${at(from, inner)} Z`;
}

function showRing(partitions) {
  const lowest = -(2n ** 63n);
  const angle = (token) => Number((token - lowest) >> 11n) / 2 ** 53 * 2 * Math.PI;
  const most = Math.max(1, ...partitions.map((partition) => partition.bytes));
  const gap = partitions.length > 1 ? 0.012 : 0;
  const shapes = partitions.flatMap((partition) => {
    const from = angle(BigInt(partition.first_token));
    const to = angle(BigInt(partition.last_token) + 1n);
    const outer = 72 + 30 * (partition.bytes / most);
    const shape = drawn("path", {
      d: arc(from, Math.max(from + 0.004, to - gap), 60, outer),
      class: heat(partition.normalised_consumption),
    });
    const title = drawn("title");
    title.textContent = `partition ${partition.id}: ${size(partition.bytes)}, ` +
      `${precise.format(partition.request_units_per_second)} RU/s`;
    shape.append(title);
    if (to - from < 0.25) return [shape];
    const middle = (from + to) / 2;
    const label = drawn("text", { x: 46 * Math.sin(middle), y: -46 * Math.cos(middle) });
    label.textContent = partition.id;
    return [shape, label];
  });
  $("ring").replaceChildren(...shapes);
}

function showPartitions(partitions) {
  const rows = partitions.map((partition, place) => {
    const button = (text, action, possible) => {
      const made = element("button", { type: "button" }, text);
      made.disabled = !possible;
      made.title = action === "split" ? "Divide it in two" : "Join it with the next partition";
      made.addEventListener("click", () => change(action, { partition: partition.id }));
      return made;
    };
    const actions = element("span", {},
      button("Split", "split", true), " ",
      button("Merge →", "merge", place < partitions.length - 1));
    const width = BigInt(partition.last_token) - BigInt(partition.first_token) + 1n;
    const range = element("span", {
      title: `tokens ${partition.first_token} to ${partition.last_token}`,
    }, `${precise.format(Number(width >> 11n) / 2 ** 53 * 100)} %`);
    const cells = [
      String(partition.id),
      range,
      whole.format(partition.items),
      size(partition.bytes),
      precise.format(partition.request_units_per_second),
      partition.budget === null ? "–" : whole.format(partition.budget),
      percent(partition.normalised_consumption),
      whole.format(partition.throttled),
      actions,
    ];
    return tableRow($("partitions"), cells);
  });
  // Whoever is about to press a button keeps it while nothing has changed.
  const list = $("partitions").tBodies[0];
  const shape = partitions.map((partition) => partition.id).join();
  if (list.dataset.shape === shape && list.contains(document.activeElement)) {
    rows.forEach((row, place) => {
      [...row.cells].slice(0, -1).forEach((cell, column) => {
        list.rows[place].cells[column].textContent = cell.textContent;
      });
    });
    return;
  }
  list.dataset.shape = shape;
  list.replaceChildren(...rows);
}

function bars(list, keys, share, figure) {
  const rows = keys.map((key) => {
    const bar = drawn("svg", { class: "bar", viewBox: "0 0 100 3", preserveAspectRatio: "none" });
    const length = Math.max(0.5, 100 * share(key));
    bar.append(drawn("rect", { width: length, height: 3, class: heat(share(key)) }));
    return element("li", {},
      element("span", { class: "key" }, key.key === "" ? "(empty)" : key.key),
      element("span", {}, figure(key)), bar);
  });
  if (rows.length === 0) rows.push(element("li", { class: "none" }, "none"));
  list.replaceChildren(...rows);
}

function showHistory(rate) {
  state.history.push(rate);
  if (state.history.length > KEPT_SAMPLES) state.history.shift();
  const most = Math.max(1, ...state.history);
  const points = state.history.map((value, place) => {
    const x = 300 * (place + KEPT_SAMPLES - state.history.length) / (KEPT_SAMPLES - 1);
    return `${x.toFixed(1)},${(76 - 72 * value / most).toFixed(1)}`;
  });
  $("history").replaceChildren(drawn("polyline", { points: points.join(" ") }));
  const highest = precise.format(Math.max(...state.history));
  $("rate").textContent = `${precise.format(rate)} now, peak ${highest} since this page was opened`;
}

function showThroughput(container) {
  if (state.wasEdited || $("throughput").contains(document.activeElement)) return;
  const throughput = container.throughput ?? container.shared;
  $("level").value = container.shared ? "database" : "container";
  $("mode").value = throughput ? throughput.mode : "unlimited";
  if (throughput) $("units").value = throughput.request_units_per_second;
  $("units").disabled = !throughput;
}

function showAdvice(advice) {
  const figures = [];
  if (advice.first_throttled_at !== null) {
    figures.push(`Such load is first throttled at ${whole.format(advice.first_throttled_at)} RU/s`);
  }
  if (advice.never_beyond !== null) {
    figures.push(`more partitions raise that to ${whole.format(advice.never_beyond)} RU/s, the limit of its hottest key`);
  }
  $("advice").textContent = [advice.words, figures.join("; ")].filter(Boolean).join(" ");
  $("advice").className = ["hot_key", "uneven"].includes(advice.verdict) ? "bad" : "";
}

function showDetail(container) {
  $("detail").hidden = false;
  $("detail-title").textContent = nameOf(container);
  const messages = container.warnings.map((warning) => warning.message);
  if (container.damage) messages.unshift(container.damage);
  const warnings = messages.map((message) => element("li", {}, message));
  $("warnings").replaceChildren(...warnings);
  showRing(container.partitions);
  showPartitions(container.partitions);
  showHistory(container.request_units_per_second);
  showThroughput(container);
  showAdvice(container.advice);
  bars($("hot-keys"), container.hot_keys ?? [], (key) => key.share, (key) =>
    `${precise.format(key.request_units_per_second)} RU/s · ${percent(key.share)} · ` +
    `partition ${key.partition}`);
  const all = Math.max(1, container.bytes);
  bars($("large-keys"), container.large_keys ?? [], (key) => key.bytes / all, (key) =>
    `${size(key.bytes)} · ${whole.format(key.items)} ${key.items === 1 ? "item" : "items"} · ` +
    `partition ${key.partition}`);
}

function say(message, isBad = false) {
  $("outcome").textContent = message;
  $("outcome").className = isBad ? "bad" : "";
}

async function change(action, body) {
  say("working…");
  try {
    showDetail(await ask(`${state.chosen}/${action}`, body));
    say("done");
  } catch (error) {
    say(error.message, true);
  }
}

// What the containers of a database share is the database's own.
async function share(body) {
  say("working…");
  const [, , api, name] = state.chosen.split("/");
  try {
    await ask(`api/databases/${api}/${name}/throughput`, body);
    await refresh();
    say("done");
  } catch (error) {
    say(error.message, true);
  }
}

// Compares partition keys by the items that are there.
async function compare(question) {
  const asked = state.chosen;
  const status = (message, isBad = false) => {
    $("comparing").textContent = message;
    $("comparing").className = isBad ? "bad" : "";
  };
  status("reading all items…");
  $("comparison").hidden = true;
  $("advise").querySelector("button").disabled = true;
  try {
    const answer = await ask(`${asked}/advice`, question);
    if (asked !== state.chosen) return;
    status(answer.absent ?? "", answer.absent !== null);
    $("recommendation").replaceChildren(
      ...answer.report.recommendation.words.map((words) => element("li", {}, words)));
    $("spread").src = `data:image/svg+xml,${encodeURIComponent(answer.svg)}`;
    $("figures").textContent = answer.text;
    $("comparison").hidden = false;
  } catch (error) {
    if (asked === state.chosen) status(error.message, true);
  } finally {
    $("advise").querySelector("button").disabled = false;
  }
}

async function showServer() {
  const health = await (await fetch("health")).json();
  const server = $("server");
  server.className = health.status === "ok" ? "" : "bad";
  const minutes = Math.floor(health.uptime_seconds / 60);
  server.textContent = `${health.version}, engine ${health.engine}, ${health.status}, ` +
    `up ${minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h`}`;
}

async function refresh() {
  try {
    await showServer();
    const containers = await ask("api/containers");
    showMemory(await ask("api/memory"));
    $("login").hidden = true;
    showProtocols(containers);
    showPolls(await ask("api/polls"));
    showContainers(containers);
    showFeeds(await ask("api/feeds"));
    if (state.chosen && !containers.some((container) => pathOf(container) === state.chosen)) {
      location.hash = "";
    } else if (state.chosen) {
      showDetail(await ask(state.chosen));
      showFeed(await ask(`${state.chosen}/feed`));
    }
  } catch (error) {
    $("server").className = "bad";
    $("server").textContent = error.message;
  }
}

$("search").addEventListener("input", refresh);
$("mode").addEventListener("change", () => {
  state.wasEdited = true;
  const isAutoscale = $("mode").value === "autoscale";
  $("units").disabled = $("mode").value === "unlimited";
  $("units").min = isAutoscale ? 1000 : 400;
  $("units").step = isAutoscale ? 1000 : 100;
});
for (const field of ["level", "units"]) {
  $(field).addEventListener("input", () => { state.wasEdited = true; });
}
$("throughput").addEventListener("submit", async (event) => {
  event.preventDefault();
  const mode = $("mode").value;
  const wanted = mode === "unlimited" ? { unlimited: true } : { [mode]: Number($("units").value) };
  state.wasEdited = false;
  await ($("level").value === "database" ? share(wanted) : change("throughput", wanted));
});
$("feed").addEventListener("submit", (event) => {
  event.preventDefault();
  const body = { before: $("feed-before").checked };
  if ($("retention").value) body.retention = $("retention").value;
  changeFeed(body, "PUT");
});
$("feed-off").addEventListener("click", () => changeFeed(undefined, "DELETE"));
$("advise").addEventListener("submit", (event) => {
  event.preventDefault();
  const keys = $("keys").value.split(";").map((key) => key.trim()).filter(Boolean);
  const throughput = $("advise-throughput").valueAsNumber;
  compare(Number.isNaN(throughput) ? { keys } : { keys, throughput });
});
$("login").addEventListener("submit", (event) => {
  event.preventDefault();
  state.key = $("key").value;
  sessionStorage.setItem("admin-key", state.key);
  refresh();
});

addEventListener("hashchange", follow);
follow();
setInterval(() => { if (!document.hidden) refresh(); }, PERIOD_MS);
