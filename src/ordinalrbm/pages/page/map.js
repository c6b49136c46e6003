// A map of many points on a 2D canvas: colours, a legend that filters, zoom, and who is where.
(function () {
  "use strict";

  const UNKNOWN = 255;
  const KINDS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000"];
  const OTHERS = "#BBBBBB";
  const BEHIND = "#E2E2E2"; // of all others where one group is highlighted
  const MANY = 10; // with more groups, one can be picked from a list
  const MANY_VARIABLES = 30; // with more of them, one can be searched for
  const MOST_COLOURS = 40;
  const SHADES = ["#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#8bd646"];
  const CLASSES = 8; // of a number: more shades cannot be told apart
  const CELLS = 128; // of the index that finds the point under the pointer, in each direction
  const WAVES = 12; // points are drawn in so many waves, so that no colour covers all others
  const CLICK = 4; // pixels that a click may move; more is a drag
  const REACH = 12; // pixels between the pointer and a point that it still means
  const PLACES = 65535;
  const MOST_ZOOM = 400;
  const MOST_TOLD = 7; // lines of a tip

  const { unpack } = ordinalrbm;

  function coordinates(bytes) {
    const numbers = new Float32Array(bytes.length / 2);
    for (let i = 0; i < numbers.length; i++) numbers[i] = (bytes[2 * i] + 256 * bytes[2 * i + 1]) / PLACES;
    return numbers;
  }

  function shade(share) {
    const place = Math.min(Math.max(share, 0), 1) * (SHADES.length - 1);
    const low = Math.min(Math.floor(place), SHADES.length - 2);
    const parts = [1, 3, 5].map((at) => {
      const a = parseInt(SHADES[low].slice(at, at + 2), 16);
      const b = parseInt(SHADES[low + 1].slice(at, at + 2), 16);
      return Math.round(a + (b - a) * (place - low));
    });
    return `rgb(${parts.join(",")})`;
  }

  function numberText(variable, code) {
    const value = variable.low + (code / 254) * (variable.high - variable.low);
    const text = value.toFixed(variable.digits).replace("-", "−");
    if (code === 0 && variable.cut[0]) return `${text} or less`;
    return code === 254 && variable.cut[1] ? `${text} or more` : text;
  }

  function textOf(variable, code) {
    if (code === UNKNOWN) return "not known";
    if (variable.kind !== "number") return variable.labels[code];
    // Values are kept in 255 steps: where these are wide, they are not the numbers themselves.
    const wide = (variable.high - variable.low) / 254 > 10 ** -variable.digits;
    return (wide ? "about " : "") + numberText(variable, code);
  }

  // Classes of a number: equally wide between the values that leave out 1 % at either end.
  function classesOfNumber(variable, codes) {
    const known = codes.filter((code) => code !== UNKNOWN).sort();
    const low = known[Math.floor(known.length * 0.01)];
    const high = Math.max(known[Math.ceil(known.length * 0.99) - 1], low + 1);
    const count = Math.min(CLASSES, high - low + 1), areTwo = new Set(known).size === 2;
    const of = new Uint8Array(256).fill(UNKNOWN);
    const first = [], last = [];
    for (let code = 0; code < UNKNOWN; code++) {
      const k = Math.floor(((code - low) / (high - low + 1)) * count);
      of[code] = Math.min(Math.max(k, 0), count - 1);
    }
    for (const code of known) {
      const k = of[code];
      first[k] = Math.min(first[k] ?? code, code);
      last[k] = Math.max(last[k] ?? code, code);
    }
    const classes = [];
    for (let k = 0; k < count; k++) {
      const from = first[k] === undefined ? "" : numberText(variable, first[k]);
      const to = first[k] === undefined ? "" : numberText(variable, last[k]);
      classes.push({ label: from === to ? from || "nobody" : `${from} to ${to}`, colour: areTwo ? KINDS[Number(k > 0)] : shade(count > 1 ? k / (count - 1) : 0.5) });
    }
    return { of, classes };
  }

  // Beyond the colours that everybody can tell apart: hues far from the last one, in three depths.
  function kindColour(k) {
    if (k < KINDS.length) return KINDS[k];
    const hue = Math.round(((k - KINDS.length) * 137.508) % 360);
    return `hsl(${hue}, ${[70, 45, 85][k % 3]}%, ${[38, 62, 25][k % 3]}%)`;
  }

  function classesOfKinds(variable) {
    const count = variable.labels.length;
    const of = new Uint8Array(256).fill(UNKNOWN);
    const classes = variable.labels.map((label, k) => {
      of[k] = k;
      if (variable.kind === "ordered") return { label, colour: shade(count > 1 ? k / (count - 1) : 0.5) };
      // The smaller of very many kinds share a grey; alone, one of them is black.
      return { label, colour: k < MOST_COLOURS ? kindColour(k) : OTHERS };
    });
    return { of, classes };
  }

  class PointMap {
    constructor(root, data) {
      this.root = root;
      this.data = data;
      this.canvas = root.querySelector("canvas");
      this.tip = root.querySelector(".map-tip");
      this.view = { x: 0.5, y: 0.5, zoom: 1 };
      this.pointers = new Map();
      this.codes = new Map();
      this.names = null;
      this.under = -1;
      this.picked = -1;
    }

    async start() {
      const { data } = this;
      [this.x, this.y] = (await Promise.all([unpack(data.x), unpack(data.y)])).map(coordinates);
      for (let i = 0; i < data.count; i++) this.y[i] = 1 - this.y[i]; // upwards, as in a figure
      this.frame();
      this.index();
      this.offer();
      this.listen();
      await this.colourBy(Number(this.select.value));
      this.root.querySelector(".map-wait").remove();
      this.root.dataset.ready = "yes";
      // What is told of a point is needed with the first move of the pointer.
      const told = data.told.map((k) => this.codesOf(k));
      this.names = new TextDecoder().decode(await unpack(data.names)).split("\n");
      await Promise.all(told);
      this.root.dataset.told = "yes";
    }

    // ---- data

    // Points fill about the unit square; what they do not reach is left out of the first view.
    frame() {
      let [left, right, top, bottom] = [1, 0, 1, 0];
      for (let i = 0; i < this.data.count; i++) {
        left = Math.min(left, this.x[i]); right = Math.max(right, this.x[i]);
        top = Math.min(top, this.y[i]); bottom = Math.max(bottom, this.y[i]);
      }
      this.box = { left, top, width: Math.max(right - left, 1e-6), height: Math.max(bottom - top, 1e-6) };
      this.view = { x: (left + right) / 2, y: (top + bottom) / 2, zoom: 1 };
    }

    cell(x, y) {
      const column = Math.min(Math.max(Math.floor(x * CELLS), 0), CELLS - 1);
      const row = Math.min(Math.max(Math.floor(y * CELLS), 0), CELLS - 1);
      return row * CELLS + column;
    }

    index() {
      const start = new Uint32Array(CELLS * CELLS + 1);
      for (let i = 0; i < this.data.count; i++) start[this.cell(this.x[i], this.y[i]) + 1]++;
      for (let c = 0; c < CELLS * CELLS; c++) start[c + 1] += start[c];
      const next = start.slice();
      this.inCell = new Uint32Array(this.data.count);
      for (let i = 0; i < this.data.count; i++) this.inCell[next[this.cell(this.x[i], this.y[i])]++] = i;
      this.cellStart = start;
    }

    async codesOf(k) {
      if (!this.codes.has(k)) this.codes.set(k, await unpack(this.data.variables[k].codes));
      return this.codes.get(k);
    }

    async colourBy(k) {
      this.wanted = k;
      const codes = await this.codesOf(k);
      if (this.wanted !== k) return; // another choice was quicker
      const variable = this.data.variables[k];
      const { of, classes } = variable.kind === "number" ? classesOfNumber(variable, codes) : classesOfKinds(variable);
      this.chosen = k;
      this.classes = [...classes, { label: "not known", colour: OTHERS, unknown: true }];
      this.classOf = new Uint8Array(this.data.count);
      const members = this.classes.map(() => 0);
      for (let i = 0; i < this.data.count; i++) {
        const c = codes[i] === UNKNOWN ? classes.length : of[codes[i]];
        this.classOf[i] = c;
        members[c]++;
      }
      this.members = members;
      this.batches = members.map((size) => new Uint32Array(size));
      const filled = members.map(() => 0);
      for (let i = 0; i < this.data.count; i++) this.batches[this.classOf[i]][filled[this.classOf[i]]++] = i;
      this.shown = members.map(() => true);
      this.highlighted = -1;
      this.legend();
      this.offerGroups();
      this.draw();
    }

    // ---- controls

    offer() {
      this.select = this.root.querySelector(".map-by");
      const groups = new Map();
      this.data.variables.forEach((variable, k) => {
        if (!groups.has(variable.section)) {
          const group = document.createElement("optgroup");
          group.label = variable.section;
          groups.set(variable.section, group);
          this.select.append(group);
        }
        const option = document.createElement("option");
        option.value = k;
        option.textContent = variable.name;
        groups.get(variable.section).append(option);
      });
      this.select.value = String(this.data.first);
      const finder = this.root.querySelector(".map-find");
      finder.hidden = this.data.variables.length <= MANY_VARIABLES;
      finder.querySelector("input").addEventListener("input", (event) => this.find(event.target.value));
    }

    // Only the variables whose names hold the words; the first of them is taken.
    find(text) {
      const words = text.toLowerCase().split(/\s+/).filter(Boolean);
      const options = [...this.select.options];
      for (const option of options) {
        option.hidden = !words.every((word) => option.textContent.toLowerCase().includes(word));
      }
      const found = options.find((option) => !option.hidden);
      if (!words.length || !found) return;
      this.select.value = found.value;
      this.colourBy(Number(found.value));
    }

    // Whoever listens is told that a card is wanted.
    pick(i) {
      if (i < 0) return;
      this.picked = i;
      this.draw();
      const detail = { index: i, name: this.names ? this.names[i] : "", map: this };
      this.root.dispatchEvent(new CustomEvent("pick", { detail }));
    }

    // The first whose name is this, or begins like this; or the one in that row.
    named(text) {
      const wanted = text.trim().toLowerCase(), names = this.names ?? [];
      const exact = names.findIndex((name) => [wanted, `row ${wanted}`].includes(name.toLowerCase()));
      return exact >= 0 || !wanted ? exact : names.findIndex((name) => name.toLowerCase().startsWith(wanted));
    }

    pickMiddle() {
      const { clientWidth: width, clientHeight: height } = this.canvas;
      this.pick(this.nearest({ x: width / 2, y: height / 2 }, Math.hypot(width, height)));
    }

    legend() {
      const list = this.root.querySelector(".map-legend");
      list.replaceChildren();
      this.entries = this.classes.map((one, c) => {
        if (!this.members[c]) return null;
        const button = document.createElement("button");
        button.type = "button";
        if (one.unknown) button.className = "unknown";
        const colour = document.createElement("i");
        colour.style.background = one.colour;
        const label = document.createElement("span");
        label.textContent = one.label;
        const size = document.createElement("small");
        size.textContent = this.members[c].toLocaleString("en");
        button.append(colour, label, size);
        button.addEventListener("click", () => this.toggle(c));
        button.addEventListener("dblclick", () => this.isolate(c));
        button.addEventListener("keydown", (event) => {
          if (event.key === "Enter" && event.shiftKey) { event.preventDefault(); this.isolate(c); }
        });
        const item = document.createElement("li");
        item.append(button);
        list.append(item);
        return button;
      });
      this.tellShown();
    }

    // Where there are many groups, colours alone do not tell them apart.
    offerGroups() {
      const select = this.root.querySelector(".map-alone");
      const used = this.classes.map((_, c) => c).filter((c) => this.members[c] && !this.classes[c].unknown);
      select.closest("p").hidden = used.length <= MANY;
      const entries = [["-1", "no group"], ...used.map((c) => [String(c), this.classes[c].label])];
      select.replaceChildren(...entries.map(([value, label]) => {
        const option = document.createElement("option");
        option.value = value;
        option.textContent = label;
        return option;
      }));
    }

    highlight(c) {
      this.highlighted = c;
      if (c >= 0) this.shown[c] = true;
      this.tellShown();
      this.draw();
    }

    toggle(c) {
      this.shown[c] = !this.shown[c];
      this.tellShown();
      this.draw();
    }

    isolate(c) {
      this.shown = this.shown.map((_, other) => other === c);
      this.tellShown();
      this.draw();
    }

    tellShown() {
      let count = 0;
      this.entries.forEach((button, c) => {
        if (!button) return;
        button.setAttribute("aria-pressed", String(this.shown[c]));
        if (this.shown[c]) count += this.members[c];
      });
      const all = this.data.count.toLocaleString("en");
      const text = count === this.data.count ? all : `${count.toLocaleString("en")} of ${all}`;
      this.root.querySelector(".map-count").textContent = `${text} ${this.data.noun}`;
    }

    listen() {
      const { canvas } = this;
      const on = (name, act) => this.root.querySelector(name).addEventListener("click", act);
      on(".map-in", () => this.zoom(1.5));
      on(".map-out", () => this.zoom(1 / 1.5));
      on(".map-reset", () => { this.frame(); this.draw(); });
      on(".map-all", () => { this.shown.fill(true); this.tellShown(); this.draw(); });
      on(".map-save", () => this.save());
      const alone = this.root.querySelector(".map-alone");
      alone.addEventListener("change", () => this.highlight(Number(alone.value)));
      this.select.addEventListener("change", () => this.colourBy(Number(this.select.value)));
      canvas.addEventListener("wheel", (event) => {
        event.preventDefault();
        const pixels = event.deltaY * (event.deltaMode === 1 ? 16 : 1);
        this.zoom(Math.exp(-Math.max(-200, Math.min(200, pixels)) * 0.003), this.at(event));
      }, { passive: false });
      canvas.addEventListener("pointerdown", (event) => {
        canvas.setPointerCapture(event.pointerId);
        this.pointers.set(event.pointerId, this.at(event));
        this.pressed = this.at(event);
        if (event.pointerType !== "mouse") this.point(this.at(event));
      });
      canvas.addEventListener("pointermove", (event) => this.move(event));
      canvas.addEventListener("click", (event) => {
        const here = this.at(event);
        if (Math.hypot(here.x - this.pressed.x, here.y - this.pressed.y) < CLICK) this.pick(this.nearest(here));
      });
      for (const name of ["pointerup", "pointercancel"]) {
        canvas.addEventListener(name, (event) => this.pointers.delete(event.pointerId));
      }
      canvas.addEventListener("pointerleave", () => this.point(null));
      canvas.addEventListener("keydown", (event) => this.key(event));
      const box = this.root.parentElement;
      box.querySelector(".card-next")?.addEventListener("click", () => this.pick((this.picked + 1) % this.data.count));
      box.querySelector(".card-name")?.addEventListener("change", (event) => this.pick(this.named(event.target.value)));
      new ResizeObserver(() => this.draw()).observe(canvas);
      window.addEventListener("beforeprint", () => this.paint());
    }

    key(event) {
      const step = 40;
      const moves = { ArrowLeft: [step, 0], ArrowRight: [-step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
      if (moves[event.key]) this.pan(...moves[event.key]);
      else if (event.key === "+" || event.key === "=") this.zoom(1.5);
      else if (event.key === "-") this.zoom(1 / 1.5);
      else if (event.key === "0") { this.frame(); this.draw(); }
      else if (event.key === "Enter") this.pickMiddle();
      else return;
      event.preventDefault();
    }

    move(event) {
      const here = this.at(event);
      if (!this.pointers.has(event.pointerId)) { this.point(here); return; }
      const before = [...this.pointers.values()];
      this.pointers.set(event.pointerId, here);
      const after = [...this.pointers.values()];
      const middle = (points) => ({
        x: points.reduce((sum, p) => sum + p.x, 0) / points.length,
        y: points.reduce((sum, p) => sum + p.y, 0) / points.length,
      });
      const [from, to] = [middle(before), middle(after)];
      if (before.length === 2) {
        const apart = ([a, b]) => Math.max(Math.hypot(a.x - b.x, a.y - b.y), 1);
        this.zoom(apart(after) / apart(before), to);
      }
      this.pan(to.x - from.x, to.y - from.y);
      this.point(null);
    }

    // ---- view

    at(event) {
      const place = this.canvas.getBoundingClientRect();
      return { x: event.clientX - place.left, y: event.clientY - place.top };
    }

    // Pixels per unit, and where on the canvas the unit square begins.
    scale() {
      const { clientWidth: width, clientHeight: height } = this.canvas;
      const fit = Math.min((width - 32) / this.box.width, (height - 32) / this.box.height);
      const size = Math.max(fit, 1) * this.view.zoom;
      return { size, left: width / 2 - this.view.x * size, top: height / 2 - this.view.y * size };
    }

    zoom(by, where) {
      const middle = where ?? { x: this.canvas.clientWidth / 2, y: this.canvas.clientHeight / 2 };
      const before = this.scale();
      const x = (middle.x - before.left) / before.size, y = (middle.y - before.top) / before.size;
      this.view.zoom = Math.min(Math.max(this.view.zoom * by, 0.5), MOST_ZOOM);
      const after = this.scale();
      this.view.x += x - (middle.x - after.left) / after.size;
      this.view.y += y - (middle.y - after.top) / after.size;
      this.draw();
    }

    pan(dx, dy) {
      const { size } = this.scale();
      this.view.x = Math.min(Math.max(this.view.x - dx / size, 0), 1);
      this.view.y = Math.min(Math.max(this.view.y - dy / size, 0), 1);
      this.draw();
    }

    radius() {
      const dense = Math.sqrt((this.canvas.clientWidth * this.canvas.clientHeight) / this.data.count);
      const still = Math.min(Math.max(dense * 0.12, 0.9), 4.5);
      return Math.min(still * Math.pow(this.view.zoom, 0.4), 7);
    }

    // ---- drawing

    draw() {
      if (this.pending) return;
      this.pending = requestAnimationFrame(() => { this.pending = 0; this.paint(); });
    }

    paint() {
      if (!this.classes) return;
      const { canvas } = this;
      const ratio = window.devicePixelRatio || 1;
      const width = Math.round(canvas.clientWidth * ratio), height = Math.round(canvas.clientHeight * ratio);
      if (!width || !height) return;
      if (canvas.width !== width || canvas.height !== height) { canvas.width = width; canvas.height = height; }
      const context = canvas.getContext("2d");
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.fillStyle = "#fff";
      context.fillRect(0, 0, canvas.clientWidth, canvas.clientHeight);
      const visible = this.visible();
      const unknown = this.classes.length - 1;
      const { size, left, top } = this.scale();
      const radius = this.radius();
      const brushes = this.classes.map((one, c) => this.brush(this.colourOf(c, visible), radius, c === unknown, ratio));
      for (const c of visible.filter((c) => c === unknown)) this.stamp(context, brushes[c], c, 0, 1, size, left, top);
      for (let wave = 0; wave < WAVES; wave++) {
        for (const c of visible) {
          if (c !== unknown) this.stamp(context, brushes[c], c, wave, WAVES, size, left, top);
        }
      }
      const { highlighted } = this;
      if (visible.includes(highlighted)) this.stamp(context, brushes[highlighted], highlighted, 0, 1, size, left, top);
      for (const i of [this.picked, this.under]) this.ring(context, i, size, left, top, radius);
    }

    visible() {
      return this.classes.map((_, c) => c).filter((c) => this.shown[c] && this.members[c]);
    }

    colourOf(c, visible) {
      const { colour, unknown } = this.classes[c];
      if (this.highlighted >= 0) return c === this.highlighted ? (colour === OTHERS ? "#000000" : colour) : BEHIND;
      return colour === OTHERS && !unknown && visible.length === 1 ? "#000000" : colour;
    }

    // One point, drawn once and then copied: quicker than a path per point.
    brush(colour, radius, hollow, ratio) {
      const side = Math.ceil(2 * (radius + 1) * ratio);
      const canvas = document.createElement("canvas");
      canvas.width = canvas.height = side;
      const context = canvas.getContext("2d");
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.beginPath();
      context.arc(side / ratio / 2, side / ratio / 2, hollow ? Math.max(radius - 0.4, 0.4) : radius, 0, 2 * Math.PI);
      if (hollow) { context.strokeStyle = colour; context.lineWidth = 0.8; context.stroke(); }
      else { context.fillStyle = colour; context.fill(); }
      return { canvas, side: side / ratio };
    }

    stamp(context, brush, c, first, step, size, left, top) {
      const batch = this.batches[c], half = brush.side / 2;
      const right = this.canvas.clientWidth + half, bottom = this.canvas.clientHeight + half;
      for (let k = first; k < batch.length; k += step) {
        const x = this.x[batch[k]] * size + left, y = this.y[batch[k]] * size + top;
        if (x > -half && x < right && y > -half && y < bottom) {
          context.drawImage(brush.canvas, x - half, y - half, brush.side, brush.side);
        }
      }
    }

    ring(context, i, size, left, top, radius) {
      if (i < 0 || !this.shown[this.classOf[i]]) return;
      context.beginPath();
      context.arc(this.x[i] * size + left, this.y[i] * size + top, radius + 3, 0, 2 * Math.PI);
      context.strokeStyle = "#000";
      context.lineWidth = 2;
      context.stroke();
    }

    // ---- who is where

    nearest(place, within = REACH) {
      const { size, left, top } = this.scale();
      const x = (place.x - left) / size, y = (place.y - top) / size, reach = within / size;
      const clamp = (value) => Math.min(Math.max(Math.floor(value * CELLS), 0), CELLS - 1);
      let best = -1, least = reach * reach;
      for (let row = clamp(y - reach); row <= clamp(y + reach); row++) {
        for (let column = clamp(x - reach); column <= clamp(x + reach); column++) {
          const cell = row * CELLS + column;
          for (let k = this.cellStart[cell]; k < this.cellStart[cell + 1]; k++) {
            const i = this.inCell[k];
            const far = (this.x[i] - x) ** 2 + (this.y[i] - y) ** 2;
            if (far < least && this.shown[this.classOf[i]]) { least = far; best = i; }
          }
        }
      }
      return best;
    }

    point(place) {
      const found = place && this.classOf ? this.nearest(place) : -1;
      if (found !== this.under) {
        this.under = found;
        this.draw();
        if (found >= 0) this.tell(found);
      }
      this.tip.hidden = found < 0;
      if (found >= 0) this.putTip(place);
    }

    tell(i) {
      const title = document.createElement("strong");
      title.textContent = this.names ? this.names[i] : "";
      const lines = [this.chosen, ...this.data.told.filter((k) => k !== this.chosen)].slice(0, MOST_TOLD)
        .filter((k) => this.codes.has(k))
        .map((k, place) => this.line(k, i, place === 0 ? "chosen" : ""));
      this.tip.replaceChildren(title, ...lines);
    }

    // What is known of a point by one variable.
    line(k, i, name = "") {
      const variable = this.data.variables[k];
      return ordinalrbm.element("div", name, ordinalrbm.element("span", "", `${variable.name}: `), textOf(variable, this.codes.get(k)[i]));
    }

    putTip(place) {
      const { clientWidth: width, clientHeight: height } = this.canvas;
      const { offsetWidth, offsetHeight } = this.tip;
      const right = place.x + 16 + offsetWidth < width;
      const x = right ? place.x + 16 : Math.max(place.x - 16 - offsetWidth, 4);
      const y = Math.min(Math.max(place.y - offsetHeight / 2, 4), Math.max(height - offsetHeight - 4, 4));
      this.tip.style.left = `${x}px`;
      this.tip.style.top = `${y}px`;
    }

    // ---- saving

    // The picture, with the legend at its side: without it colours mean nothing.
    save() {
      const { under, picked } = this;
      this.under = this.picked = -1;
      this.paint();
      [this.under, this.picked] = [under, picked];
      const visible = this.visible();
      const ratio = window.devicePixelRatio || 1, side = 240 * ratio;
      const picture = document.createElement("canvas");
      picture.width = this.canvas.width + side;
      picture.height = this.canvas.height;
      const context = picture.getContext("2d");
      context.fillStyle = "#fff";
      context.fillRect(0, 0, picture.width, picture.height);
      context.drawImage(this.canvas, 0, 0);
      context.setTransform(ratio, 0, 0, ratio, this.canvas.width, 0);
      context.font = "13px sans-serif";
      context.fillStyle = "#000";
      context.fillText(this.data.variables[this.chosen].name, 8, 22, 224);
      let y = 46;
      this.classes.forEach((one, c) => {
        if (!this.members[c] || !this.shown[c] || y > this.canvas.clientHeight - 8) return;
        context.fillStyle = this.colourOf(c, visible);
        context.fillRect(8, y - 10, 11, 11);
        context.fillStyle = "#000";
        context.fillText(`${one.label} (${this.members[c].toLocaleString("en")})`, 26, y, 206);
        y += 19;
      });
      picture.toBlob((blob) => {
        const link = document.createElement("a");
        link.href = URL.createObjectURL(blob);
        link.download = "map.png";
        link.click();
        setTimeout(() => URL.revokeObjectURL(link.href), 10000);
      });
      this.draw();
    }
  }

  for (const root of document.querySelectorAll("[data-map]")) {
    new PointMap(root, ordinalrbm.read(root.dataset.map)).start().catch((error) => {
      const wait = root.querySelector(".map-wait");
      if (wait) wait.textContent = "This browser cannot show the map; please try a newer one.";
      console.error(error);
    });
  }
})();
