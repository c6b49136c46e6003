// Tables that can be sorted, lists that can be searched, figures that can be saved.
(function () {
  "use strict";

  function save(blob, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

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
    save(new Blob([text], { type: "image/svg+xml" }), button.dataset.file + ".svg");
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

  function unfold(button) {
    const all = [...document.getElementById(button.dataset.list).querySelectorAll("details")];
    const open = !all.some((one) => one.open && !one.hidden);
    for (const one of all) if (!one.hidden) one.open = open;
  }

  function choose(select) {
    const kind = select.dataset.choices;
    for (const one of document.querySelectorAll(`[data-${kind}]`)) {
      one.hidden = one.dataset[kind] !== select.value;
    }
  }

  for (const table of document.querySelectorAll("table.sortable")) makeSortable(table);
  for (const input of document.querySelectorAll(".finder")) {
    input.addEventListener("input", () => find(input));
  }
  for (const button of document.querySelectorAll("button.unfold")) {
    button.addEventListener("click", () => unfold(button));
  }
  for (const select of document.querySelectorAll(".chooser")) {
    select.addEventListener("change", () => choose(select));
    choose(select); // a browser may remember another choice
  }
  for (const button of document.querySelectorAll("button.save")) {
    button.addEventListener("click", () => saveDrawing(button));
  }
})();
