// Tables that can be sorted, lists that can be searched, figures that can be saved; and what all scripts share.
const ordinalrbm = {};
(function () {
  "use strict";

  ordinalrbm.unpack = async function (text) {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  };

  ordinalrbm.read = (id) => JSON.parse(document.getElementById(id).textContent);

  // An element with a class and what it holds: text, or other elements.
  ordinalrbm.element = function (tag, name, ...content) {
    const made = document.createElement(tag);
    if (name) made.className = name;
    made.append(...content);
    return made;
  };

  // A question as labels stand on the page: its text, and its code small beside it.
  ordinalrbm.label = function ({ text, code }) {
    const found = [ordinalrbm.element("bdi", "", text)];
    if (code) found.push(" ", ordinalrbm.element("small", "code", code));
    return found;
  };

  function saveDrawing(button) {
    const svg = button.closest("figure").querySelector("svg");
    const copy = svg.cloneNode(true);
    const [, , width, height] = svg.getAttribute("viewBox").split(/[ ,]+/);
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    copy.setAttribute("width", width);
    copy.setAttribute("height", height);
    copy.removeAttribute("style");
    copy.style.fontFamily = "sans-serif";
    const text = new XMLSerializer().serializeToString(copy);
    const link = Object.assign(document.createElement("a"), { download: `${button.dataset.file}.svg` });
    link.href = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  function valueOf(row, column) {
    const cell = row.cells[column];
    if (cell.dataset.value === undefined) return cell.textContent;
    return cell.dataset.value === "" ? NaN : Number(cell.dataset.value);
  }

  // What is not known comes last, whichever way a table is sorted.
  function inOrder(a, b, down) {
    if (typeof a === "string") return down ? b.localeCompare(a) : a.localeCompare(b);
    if (isNaN(a) || isNaN(b)) return isNaN(a) - isNaN(b);
    return down ? b - a : a - b;
  }

  function sortBy(table, head, column) {
    const isNumber = head.classList.contains("number");
    const now = head.getAttribute("aria-sort");
    const down = now ? now === "ascending" : isNumber;
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => inOrder(valueOf(a, column), valueOf(b, column), down));
    table.tBodies[0].append(...rows);
  }

  function makeSortable(table) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      button.addEventListener("click", () => sortBy(table, head, column));
      head.replaceChildren(button);
    });
  }

  function find(input) {
    const wanted = input.value.trim().toLowerCase();
    for (const one of document.getElementById(input.dataset.list).children) {
      one.hidden = !one.dataset.name.toLowerCase().includes(wanted);
    }
  }

  // Questions wherever they are folded away; what was folded before one looked for something is so again.
  function findQuestions(input) {
    const wanted = input.value.trim().toLowerCase();
    const list = document.getElementById(input.dataset.questions);
    for (const one of list.querySelectorAll(".more")) one.open = wanted !== "";
    for (const one of list.querySelectorAll(".frequency")) {
      one.hidden = !one.dataset.name.toLowerCase().includes(wanted);
    }
    for (const one of list.querySelectorAll(".battery")) one.hidden = !one.querySelector(".frequency:not([hidden])");
  }

  function draw(svg, tag, attributes, text = "") {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.textContent = text;
    svg.append(made);
    return made;
  }

  // The colour at a place from 0 to 1 between those of a list.
  ordinalrbm.mixed = function (colours, place) {
    const at = place * (colours.length - 1), low = Math.min(Math.floor(at), colours.length - 2);
    const parts = [1, 3, 5].map((digits) => {
      const [a, b] = [low, low + 1].map((k) => parseInt(colours[k].slice(digits, digits + 2), 16));
      return Math.round(a + (b - a) * (at - low));
    });
    return `rgb(${parts.join(",")})`;
  };

  // From red over white to blue, as ColorBrewer has them: −1 to +1.
  const REDS_TO_BLUES = ["#8c0c25", "#bc2d35", "#da6955", "#f5aa89", "#fcdfcf", "#f7f6f6", "#d7e8f1", "#a2cde3", "#5ca3cb", "#2a71b2", "#0f437b"];
  const colourOf = (correlation) => ordinalrbm.mixed(REDS_TO_BLUES, (correlation + 1) / 2);

  // The heat map, which tells the pair of questions under the pointer, or under a mark that arrow keys move.
  function drawHeat(svg) {
    const { labels, values } = ordinalrbm.read("heat");
    const left = 200, cell = Math.min(Math.max(Math.floor(520 / labels.length), 13), 30), size = cell * labels.length;
    svg.setAttribute("viewBox", `0 0 ${left + size} ${size}`);
    svg.style.width = `${left + size}px`;
    labels.forEach((label, i) => {
      draw(svg, "text", { x: left - 6, y: i * cell + cell / 2, dy: ".35em", "text-anchor": "end", "font-size": Math.min(cell - 2, 12), fill: "currentColor" }, label);
      values[i].forEach((r, j) => draw(svg, "rect", { x: left + j * cell, y: i * cell, width: cell, height: cell, fill: i === j ? "#8a8a8a" : colourOf(r) }));
    });
    const mark = draw(svg, "rect", { width: cell, height: cell, fill: "none", stroke: "#000", "stroke-width": 2, visibility: "hidden" });
    const steps = Array.from({ length: 11 }, (_, k) => Object.assign(document.createElement("i"), { style: `background:${colourOf(k / 5 - 1)}` }));
    document.querySelector(".heat-legend").append(ordinalrbm.element("span", "", "−1"), ...steps, ordinalrbm.element("span", "", "+1"));
    const pair = document.querySelector(".heat-pair");
    let [row, column] = [0, 0];
    function tell(i, j) {
      [row, column] = [i, j].map((k) => Math.min(Math.max(k, 0), labels.length - 1));
      mark.setAttribute("x", left + column * cell);
      mark.setAttribute("y", row * cell);
      mark.setAttribute("visibility", "visible");
      const r = values[row][column].toFixed(2).replace("-", "−");
      pair.replaceChildren(ordinalrbm.element("bdi", "", labels[row]), " and ", ordinalrbm.element("bdi", "", labels[column]), `: r = ${r}`);
    }
    svg.addEventListener("pointermove", (event) => {
      const place = svg.getBoundingClientRect(), scale = (left + size) / place.width;
      const x = (event.clientX - place.left) * scale - left, y = (event.clientY - place.top) * scale;
      if (x >= 0) tell(Math.floor(y / cell), Math.floor(x / cell));
    });
    svg.addEventListener("keydown", (event) => {
      const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
      if (!moves[event.key]) return;
      event.preventDefault();
      tell(row + moves[event.key][0], column + moves[event.key][1]);
    });
  }

  async function copy(button) {
    const text = document.getElementById(button.dataset.copy).textContent.replace(/\s+/g, " ").trim();
    const told = button.parentElement.querySelector(".copied");
    try {
      await navigator.clipboard.writeText(text);
      told.textContent = "Copied.";
    } catch {
      getSelection().selectAllChildren(document.getElementById(button.dataset.copy));
      told.textContent = "Selected: press Ctrl+C to copy.";
    }
  }

  function choose(select) {
    const kind = select.dataset.choices;
    for (const one of document.querySelectorAll(`[data-${kind}]`)) {
      one.hidden = one.dataset[kind] !== select.value;
    }
  }

  ordinalrbm.makeSortable = makeSortable;
  for (const table of document.querySelectorAll("table.sortable")) makeSortable(table);
  for (const input of document.querySelectorAll(".finder")) {
    input.addEventListener("input", () => find(input));
  }
  for (const input of document.querySelectorAll("[data-questions]")) {
    input.addEventListener("input", () => findQuestions(input));
  }
  for (const svg of document.querySelectorAll("svg.heat")) drawHeat(svg);
  for (const button of document.querySelectorAll("button.copy")) {
    button.addEventListener("click", () => copy(button));
  }
  for (const select of document.querySelectorAll(".chooser")) {
    select.addEventListener("change", () => choose(select));
    choose(select); // a browser may remember another choice
  }
  for (const button of document.querySelectorAll("button.save")) {
    button.addEventListener("click", () => saveDrawing(button));
  }
})();
