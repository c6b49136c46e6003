// Two groups of a variable: questions by how much these differ, and the means of all groups as a table.
(function () {
  "use strict";

  const { element, label } = ordinalrbm;
  const FIRST = 8; // questions shown before one asks for all
  const NORMAL = 1.959964; // two standard errors, nearly
  const signed = (x) => (x > 0 ? "+" : "") + x.toFixed(2).replace("-", "−");
  const percent = (x) => (x === null ? "–" : `${(100 * x).toFixed(1)}%`);

  // In standard deviations of the question, with an interval.
  function difference(row, a, b) {
    if (row.mean[a] === null || row.mean[b] === null || !row.spread) return null;
    const error = (g) => (row.low[g] === null ? NaN : (row.high[g] - row.low[g]) / 2 / NORMAL);
    const reach = (NORMAL * Math.hypot(error(a), error(b))) / row.spread;
    const size = (row.mean[a] - row.mean[b]) / row.spread;
    return { size, low: size - reach, high: size + reach };
  }

  function line({ row, size, low, high }, reach, a, b) {
    const place = (x) => `${(50 * (1 + x / reach)).toFixed(2)}%`;
    const track = element("span", "track");
    if (!isNaN(low)) {
      const whisker = element("i", "line");
      whisker.style.left = place(low);
      whisker.style.width = `${((50 * (high - low)) / reach).toFixed(2)}%`;
      track.append(whisker);
    }
    const dot = element("i", "dot");
    dot.style.left = place(size);
    track.append(dot);
    const figures = element("span", "figures", signed(size), " ", element("small", "", `${row.mean[a].toFixed(2)} and ${row.mean[b].toFixed(2)}`));
    const made = element("div", "interval", element("span", "group", ...label(row)), track, figures);
    made.dataset.size = size;
    return made;
  }

  class Pair {
    constructor(root) {
      this.root = root;
      this.all = false;
      this.a = root.querySelector(".pair-a");
      this.b = root.querySelector(".pair-b");
      this.more = root.querySelector(".pair-all");
    }

    async start() {
      const bytes = await ordinalrbm.unpack(ordinalrbm.read(this.root.dataset.means));
      this.data = JSON.parse(new TextDecoder().decode(bytes));
      [this.a, this.b].forEach((select, place) => {
        select.append(...this.data.groups.map(([name, count], g) => new Option(`${name} (${count.toLocaleString("en")})`, g)));
        select.selectedIndex = place;
        select.addEventListener("change", () => this.show());
      });
      this.more.addEventListener("click", () => { this.all = true; this.show(); });
      const table = this.root.querySelector(".pair-table");
      table.addEventListener("toggle", () => { if (table.open) this.fill(table); });
      this.show();
      this.root.dataset.ready = "yes";
    }

    show() {
      const [a, b] = [Number(this.a.value), Number(this.b.value)];
      const found = this.data.rows.map((row) => ({ row, ...difference(row, a, b) })).filter((one) => one.size !== undefined);
      found.sort((one, other) => Math.abs(other.size) - Math.abs(one.size));
      const shown = this.all ? found : found.slice(0, FIRST);
      const reach = Math.max(0.1, ...shown.map((one) => Math.max(Math.abs(one.low) || 0, Math.abs(one.high) || 0, Math.abs(one.size))));
      this.root.querySelector(".pair-rows").replaceChildren(...shown.map((one) => line(one, reach, a, b)));
      const names = [a, b].map((g) => element("bdi", "", this.data.groups[g][0]));
      this.root.querySelector(".pair-note").replaceChildren(
        ...(a === b ? ["Choose two different groups."] : ["Largest differences first, to the right where ", names[0], " is higher, to the left where ", names[1], " is; in standard deviations of the question, with 95% intervals. The small numbers are the two means."]));
      this.more.hidden = shown.length === found.length;
      this.more.textContent = `Show all ${found.length} questions`;
    }

    fill(details) {
      const box = details.querySelector(".banner");
      if (box.firstChild) return;
      const heads = [["question", ""], ...this.data.groups.map(([name]) => [name, "number"]), ...["ω²", "from", "to", "p (Holm)"].map((name) => [name, "number"])];
      const head = element("tr", "", ...heads.map(([name, kind]) => Object.assign(element("th", kind, element("bdi", "", name)), { scope: "col" })));
      const body = element("tbody", "", ...this.data.rows.map((row) => this.tableRow(row)));
      body.id = `${this.root.dataset.means}-body`;
      const table = element("table", "sortable", element("thead", "", head), body);
      box.append(table);
      ordinalrbm.makeSortable(table);
    }

    tableRow(row) {
      const cell = (value, ...content) => {
        const made = element("td", "number", ...content);
        made.dataset.value = value ?? "";
        return made;
      };
      const means = row.mean.map((mean, g) => {
        if (mean === null) return cell(null, element("small", "", row.never.includes(g) ? "never asked" : "no answer"));
        const made = cell(mean, mean.toFixed(2));
        if (row.low[g] !== null) made.append(element("small", "", `${row.low[g].toFixed(2)} to ${row.high[g].toFixed(2)}`));
        if (row.effect?.[g] != null) made.append(element("small", "", `deff ${row.effect[g].toFixed(1)}`));
        made.title = `${row.count[g].toLocaleString("en")} answers`;
        return made;
      });
      const p = row.p === null ? "–" : row.p < 0.001 ? "< 0.001" : row.p.toFixed(3);
      const first = Object.assign(element("th", "", ...label(row)), { scope: "row" });
      const made = element("tr", "", first, ...means, ...row.size.map((x) => cell(x, percent(x))), cell(row.p, p));
      made.dataset.name = `${row.text} ${row.code}`;
      return made;
    }
  }

  for (const root of document.querySelectorAll("[data-means]")) new Pair(root).start().catch(console.error);
})();
