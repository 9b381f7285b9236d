"use strict";
/* The page's own hand: another method's matrix, the memory browser. Nothing is fetched unless `samc view` serves it. */

const FIRST = 8; // pictures of a task that are shown before somebody asks for all
const element = (id) => document.getElementById(id);

function initialise() {
  const data = JSON.parse(element("data").textContent);
  for (const choice of document.querySelectorAll(".matrix-choice")) {
    const matrices = data.matrices[choice.dataset.matrix];
    choice.addEventListener("change", () => fillMatrix(choice.dataset.matrix, matrices[choice.value].rows));
  }
  if (element("memory")) browse(data.memories);
}

function fillMatrix(number, rows) {
  const table = element("matrix-" + number);
  rows.forEach((row, after) => row.forEach((value, place) => {
    const cell = table.tBodies[0].rows[after].cells[place + 1], tested = value !== null;
    cell.textContent = tested ? String(Math.round(value)) : "–";
    cell.title = tested ? "task " + (place + 1) + (after ? " after task " + after : " before any task") + ": " + value + " %" : "";
    cell.className = (tested ? "h" + Math.round(value / 5) : "ahead") + (tested && place + 1 > after ? " ahead" : "")
      + (tested && place + 1 === after ? " learnt" : "");
  }));
}

/* The memory browser */

function make(tag, properties, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

function browse(memories) {
  let memory = null, sheets = {}, shown = [], current = 0;
  const choices = ["task", "class", "kept", "wrong"].map((name) => element("filter-" + name));

  function options(select, pairs) {
    select.replaceChildren(...pairs.map(([value, text]) => make("option", { value, textContent: text })));
  }

  function open(number) {
    memory = memories[number];
    element("memory-tasks").replaceChildren();
    if (memory.problem) {
      element("memory-count").textContent = memory.problem;
      return;
    }
    const labels = [...new Set(memory.images.label)].sort((a, b) => a - b);
    options(element("filter-task"), [["", "all"], ...memory.tasks.map((t) => [t.task, String(t.task + 1)])]);
    options(element("filter-class"), [["", "all"], ...labels.map((label) => [label, memory.classes[label]])]);
    element("filter-kept").parentElement.hidden = !memory.layers.kept;
    element("filter-wrong").parentElement.hidden = !memory.noted;
    element("filter-kept").value = "0,1";
    element("filter-wrong").value = "any";
    const loading = Object.entries(memory.layers).map(([name, source]) => {
      const sheet = new Image();
      sheet.src = source;
      return sheet.decode().then(() => [name, sheet]);
    });
    const mine = memory;
    Promise.all(loading).then((loaded) => {
      if (mine !== memory) return;
      sheets = Object.fromEntries(loaded);
      show();
    });
  }

  function matches(place) {
    const [task, label, kept, wrong] = choices.map((choice) => choice.value);
    const images = memory.images, truth = images.label[place];
    const [least, most] = kept.split(",").map(Number);
    const now = images.now[place] === truth, then = images.then[place] === truth;
    const known = { now: images.now[place] !== null, then: images.then[place] !== null };
    return (task === "" || images.task[place] === Number(task))
      && (label === "" || truth === Number(label))
      && images.kept[place] >= least && images.kept[place] <= most
      && (wrong === "any" || (wrong === "now" && known.now && !now) || (wrong === "then" && known.then && !then)
        || (wrong === "forgotten" && then && known.now && !now) || (wrong === "learnt" && known.then && !then && now));
  }

  function show() {
    const count = memory.images.task.length;
    shown = [...Array(count).keys()].filter(matches);
    const of = count < memory.total ? "some of each task, " + count.toLocaleString("en") + " of " : "";
    element("memory-count").textContent = shown.length.toLocaleString("en") + " shown; on this page are " + of
      + memory.total.toLocaleString("en") + " remembered images, " + memory.bytes.toLocaleString("en")
      + " bytes in all, stored as " + memory.codec + (memory.layers.kept ? "" : ": whole pictures, nothing is left out");
    const tasks = memory.tasks.map((task) => [task, shown.filter((place) => memory.images.task[place] === task.task)]);
    element("memory-tasks").replaceChildren(...tasks.filter(([, places]) => places.length).map(taskRow));
  }

  function taskRow([task, places]) {
    const list = make("ul", { className: "cards of-" + Object.keys(sheets).length }), cards = make("div", {}, list);
    const names = [...new Set(places.map((place) => memory.classes[memory.images.label[place]]))];
    const add = (part) => list.append(...part.map((place) => make("li", {}, card(place))));
    add(places.slice(0, FIRST));
    if (places.length > FIRST) {
      const more = make("button", { type: "button", className: "more", textContent: "show all " + places.length });
      more.setAttribute("aria-label", "show all " + places.length + " of task " + (task.task + 1));
      more.addEventListener("click", () => {
        more.remove();
        add(places.slice(FIRST));
        list.children[FIRST].firstChild.focus(); // the keyboard goes on with the first that is new
      });
      cards.append(more);
    }
    const about = task.images.toLocaleString("en") + " images, " + task.bytes.toLocaleString("en") + " bytes";
    return make("div", { className: "memory-task" },
      make("div", {}, make("h3", { textContent: "Task " + (task.task + 1) }),
        make("p", { className: "note", textContent: about }), make("p", { className: "note", textContent: names.join(", ") })),
      cards);
  }

  function paint(canvas, layer, place) {
    const [height, width] = memory.side, across = place % memory.abreast, down = Math.floor(place / memory.abreast);
    canvas.width = width;
    canvas.height = height;
    canvas.getContext("2d").drawImage(sheets[layer], across * width, down * height, width, height, 0, 0, width, height);
    return canvas;
  }

  function said(label, truth, right) {
    const is = label === truth;
    return make("span", { className: is ? "said-right" : "said-wrong", textContent: is ? "✓ " + right : "✗ " + memory.classes[label] });
  }

  function predictions(place) {
    const { now, then, label } = memory.images, pairs = [["then", then[place]], ["now", now[place]]];
    return pairs.filter(([, predicted]) => predicted !== null)
      .map(([when, predicted]) => make("span", { className: "facts-line" }, when + " ", said(predicted, label[place], "right")));
  }

  function numbers(place) {
    const { bytes, kept, psnr } = memory.images;
    const parts = [bytes[place].toLocaleString("en") + " B"];
    if (memory.layers.kept) parts.push(Math.round(100 * kept[place]) + " %");
    if (psnr[place] !== null) parts.push(psnr[place] === "exact" ? "exact" : psnr[place].toFixed(1) + " dB");
    return parts.join(" · ");
  }

  function layersOf(place) {
    return ["kept", "completed", "saliency"].filter((layer) => sheets[layer] && (layer !== "saliency" || memory.images.map[place]));
  }

  function card(place) {
    const name = memory.classes[memory.images.label[place]], layers = layersOf(place);
    const pictures = layers.map((layer) => {
      const canvas = paint(make("canvas", { className: layer === "kept" ? "kept-picture" : "" }), layer, place);
      canvas.setAttribute("aria-hidden", "true");
      return canvas;
    });
    const made = make("button", { type: "button", className: "card" },
      make("span", { className: "pictures" }, ...pictures),
      make("span", { className: "text" }, make("span", { className: "name", textContent: name }), ...predictions(place),
        make("span", { className: "facts-line", textContent: numbers(place) })));
    made.addEventListener("click", () => enlarge(shown.indexOf(place)));
    return made;
  }

  function enlarge(number) {
    current = (number + shown.length) % shown.length;
    const place = shown[current], layers = layersOf(place), { images } = memory, truth = images.label[place];
    element("enlarged-title").textContent = memory.classes[truth] + ", task " + (images.task[place] + 1);
    paint(element("enlarged-completed"), "completed", place);
    paint(element("enlarged-kept"), layers.includes("kept") ? "kept" : "completed", place);
    element("fade-label").hidden = !layers.includes("kept");
    element("fade").value = 100;
    fade();
    element("enlarged-map").hidden = !layers.includes("saliency");
    if (layers.includes("saliency")) paint(element("enlarged-saliency"), "saliency", place);
    const facts = [["label", memory.classes[truth]]];
    for (const [name, predicted] of [["predicted when its task had been learnt", images.then[place]], ["predicted now", images.now[place]]]) {
      if (predicted !== null) facts.push([name, said(predicted, truth, memory.classes[truth])]);
    }
    facts.push(["takes", images.bytes[place].toLocaleString("en") + " bytes"]);
    facts.push(["kept", (100 * images.kept[place]).toFixed(1) + " % of its pixels"]);
    if (images.psnr[place] !== null) facts.push(["against the truth", images.psnr[place] === "exact" ? "exact" : images.psnr[place].toFixed(1) + " dB"]);
    element("enlarged-facts").replaceChildren(...facts.map(([name, value]) => make("div", {}, make("dt", { textContent: name }), make("dd", {}, value))));
    if (!element("enlarged").open) element("enlarged").showModal();
  }

  function fade() {
    element("enlarged-completed").style.opacity = element("fade").value / 100;
  }

  options(element("filter-memory"), memories.map((one, number) => [number, one.name]));
  element("filter-memory").addEventListener("change", (event) => open(Number(event.target.value)));
  for (const choice of choices) choice.addEventListener("change", show);
  element("fade").addEventListener("input", fade);
  element("enlarged-close").addEventListener("click", () => element("enlarged").close());
  element("enlarged-previous").addEventListener("click", () => enlarge(current - 1));
  element("enlarged-next").addEventListener("click", () => enlarge(current + 1));
  element("enlarged").addEventListener("keydown", (event) => {
    if (event.target === element("fade")) return;
    if (event.key === "ArrowLeft") enlarge(current - 1);
    if (event.key === "ArrowRight") enlarge(current + 1);
  });
  element("enlarged").addEventListener("click", (event) => { if (event.target === element("enlarged")) element("enlarged").close(); });
  element("filters").addEventListener("submit", (event) => event.preventDefault());
  element("filters").hidden = false;
  open(0);
}

/* A page that is served while a run goes on: asked every now and then for a later state, and replaced in place */

const ASK_AFTER = 2000; // milliseconds

async function follow() {
  let state = document.body.dataset.live;
  const text = async (path) => {
    const answer = await fetch(path, { cache: "no-store" });
    return answer.ok ? answer.text() : null; // not now: a file is just being written
  };
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, ASK_AFTER));
    try {
      const now = await text("/state");
      document.body.classList.remove("alone");
      if (now === null || now === state || document.querySelector("dialog[open]")) continue;
      const page = await text("/");
      if (page === null) continue;
      replace(new DOMParser().parseFromString(page, "text/html"));
      state = document.body.dataset.live;
    } catch (error) {
      document.body.classList.add("alone"); // the server has ended; what is shown stays
    }
  }
}

function replace(page) {
  const opened = [...document.querySelectorAll("details")].map((details) => details.open);
  const chosen = [...document.querySelectorAll("select")].map((select) => select.value), reached = reachable().indexOf(document.activeElement);
  for (const part of ["header", "main"]) document.querySelector(part).replaceWith(page.querySelector(part));
  element("data").textContent = page.getElementById("data").textContent;
  document.title = page.title;
  document.body.dataset.live = page.body.dataset.live;
  const details = [...document.querySelectorAll("details")];
  if (details.length === opened.length) details.forEach((one, number) => { one.open = opened[number]; });
  initialise();
  const selects = [...document.querySelectorAll("select")];
  if (selects.length === chosen.length) selects.forEach((one, number) => choose(one, chosen[number]));
  if (reached >= 0) reachable()[reached]?.focus({ preventScroll: true }); // whoever was reading goes on from there
}

function reachable() {
  return [...document.querySelectorAll("header a, main :is(a, button, select, summary, [tabindex])")];
}

function choose(select, value) {
  if (select.value === value || ![...select.options].some((option) => option.value === value)) return;
  select.value = value;
  select.dispatchEvent(new Event("change"));
}

initialise();
if (document.body.dataset.live) follow();
