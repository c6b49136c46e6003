// A map of at most 10,000 points on a 2D canvas: colours, a legend that highlights, zoom, and who is where.
(function () {
  "use strict";

  const UNKNOWN = 255;
  const KINDS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000"];
  const OTHERS = "#BBBBBB", BEHIND = "#E2E2E2"; // where others are highlighted
  const MOST_COLOURS = 40;
  const SHADES = ["#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#8bd646"];
  const CLASSES = 8; // of a number: more shades cannot be told apart
  const REACH = 12; // pixels between the pointer and a point that it still means
  const PLACES = 65535;
  const MOST_ZOOM = 400;
  const MOST_TOLD = 7; // lines of a tip

  const { element, mixed, unpack } = ordinalrbm;
  const at = ({ offsetX: x, offsetY: y }) => ({ x, y });
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
  const shade = (k, count) => mixed(SHADES, count > 1 ? k / (count - 1) : 0.5);

  function numberText(variable, code) {
    const value = variable.low + (code / 254) * (variable.high - variable.low);
    const beyond = code === 0 && variable.cut[0] ? " or less" : code === 254 && variable.cut[1] ? " or more" : "";
    return value.toFixed(variable.digits).replace("-", "−") + beyond;
  }

  function textOf(variable, code) {
    if (code === UNKNOWN) return "not known";
    if (variable.kind !== "number") return variable.labels[code];
    // Values are kept in 255 steps: where these are wide, they are not the numbers themselves.
    const isWide = (variable.high - variable.low) / 254 > 10 ** -variable.digits;
    return (isWide ? "about " : "") + numberText(variable, code);
  }

  // Classes of a number: equally wide between the values that leave out 1 % at either end.
  function classesOfNumber(variable, codes) {
    const known = codes.filter((code) => code !== UNKNOWN).sort();
    const low = known[Math.floor(known.length * 0.01)];
    const high = Math.max(known[Math.ceil(known.length * 0.99) - 1], low + 1);
    const count = Math.min(CLASSES, high - low + 1);
    const of = Uint8Array.from({ length: UNKNOWN }, (_, code) => clamp(Math.floor(((code - low) / (high - low + 1)) * count), 0, count - 1));
    const classes = Array.from({ length: count }, (_, k) => {
      const members = known.filter((code) => of[code] === k);
      const [from, to] = members.length ? [members[0], members.at(-1)].map((code) => numberText(variable, code)) : ["", ""];
      return { label: from === to ? from : `${from} to ${to}`, colour: shade(k, count) };
    });
    return { of, classes };
  }

  // Beyond the colours that everybody can tell apart: hues far from the last one, in three depths.
  function kindColour(k) {
    if (k < KINDS.length) return KINDS[k];
    const hue = Math.round(((k - KINDS.length) * 137.508) % 360);
    return k < MOST_COLOURS ? `hsl(${hue}, ${[70, 45, 85][k % 3]}%, ${[38, 62, 25][k % 3]}%)` : OTHERS;
  }

  function classesOf(variable, codes) {
    if (variable.kind === "number") return classesOfNumber(variable, codes);
    const { labels } = variable, colour = variable.kind === "ordered" ? (k) => shade(k, labels.length) : kindColour;
    return { of: labels.map((_, k) => k), classes: labels.map((label, k) => ({ label, colour: colour(k) })) };
  }

  class PointMap {
    constructor(root, data) {
      this.root = root;
      this.data = data;
      this.canvas = this.find("canvas");
      this.tip = this.find(".map-tip");
      this.select = this.find(".map-by");
      this.codes = new Map();
      this.names = null;
      this.under = -1;
    }

    find(name) {
      return this.root.querySelector(name);
    }

    async start() {
      const { data } = this;
      const coordinates = (bytes) => Float32Array.from({ length: data.count }, (_, i) => (bytes[2 * i] + 256 * bytes[2 * i + 1]) / PLACES);
      [this.x, this.y] = (await Promise.all([unpack(data.x), unpack(data.y)])).map(coordinates);
      this.y = this.y.map((y) => 1 - y); // upwards, as in a figure
      this.reset();
      this.listen();
      await this.colourBy(Number(this.select.value));
      this.find(".map-wait").remove();
      // What is told of a point is needed with the first move of the pointer.
      const told = data.told.map((k) => this.codesOf(k));
      this.names = new TextDecoder().decode(await unpack(data.names)).split("\n");
      await Promise.all(told);
      this.root.dataset.told = "yes";
    }

    async codesOf(k) {
      if (!this.codes.has(k)) this.codes.set(k, await unpack(this.data.variables[k].codes));
      return this.codes.get(k);
    }

    async colourBy(k) {
      this.wanted = k;
      const codes = await this.codesOf(k);
      if (this.wanted !== k) return; // another choice was quicker
      const { of, classes } = classesOf(this.data.variables[k], codes);
      this.chosen = k;
      this.classes = [...classes, { label: "not known", colour: OTHERS, unknown: true }];
      this.classOf = codes.map((code) => (code === UNKNOWN ? classes.length : of[code]));
      this.members = this.classes.map(() => 0);
      this.classOf.forEach((c) => { this.members[c]++; });
      this.highlighted = new Set();
      this.legend();
      this.draw();
    }

    // ---- controls

    // Only the variables whose names hold the words; the first of them is taken.
    search(text) {
      const words = text.toLowerCase().split(/\s+/).filter(Boolean), options = [...this.select.options];
      for (const option of options) option.hidden = !words.every((word) => option.textContent.toLowerCase().includes(word));
      const first = options.find((option) => !option.hidden);
      if (!words.length || !first) return;
      this.select.value = first.value;
      this.colourBy(Number(first.value));
    }

    legend() {
      const used = this.classes.map((_, c) => c).filter((c) => this.members[c]);
      this.find(".map-legend").replaceChildren(...used.map((c) => {
        const { label, colour, unknown } = this.classes[c], swatch = element("i");
        swatch.style.background = colour;
        const button = element("button", unknown ? "unknown" : "", swatch, element("span", "", label), element("small", "", this.members[c].toLocaleString("en")));
        button.type = "button";
        button.ariaPressed = "false";
        button.addEventListener("click", () => this.highlight(c, button));
        return element("li", "", button);
      }));
    }

    highlight(c, button) {
      if (!this.highlighted.delete(c)) this.highlighted.add(c);
      button.ariaPressed = String(this.highlighted.has(c));
      this.draw();
    }

    isShown(c) {
      return !this.highlighted.size || this.highlighted.has(c);
    }

    listen() {
      const { canvas, select } = this;
      const on = (name, act) => this.find(name).addEventListener("click", act);
      on(".map-in", () => this.zoom(1.5));
      on(".map-out", () => this.zoom(1 / 1.5));
      on(".map-reset", () => this.reset());
      select.addEventListener("change", () => this.colourBy(Number(select.value)));
      this.find(".map-search")?.addEventListener("input", (event) => this.search(event.target.value));
      canvas.addEventListener("wheel", (event) => {
        event.preventDefault();
        this.zoom(event.deltaY < 0 ? 1.25 : 0.8, at(event));
      }, { passive: false });
      canvas.addEventListener("pointerdown", (event) => {
        canvas.setPointerCapture(event.pointerId);
        if (event.pointerType === "mouse") this.from = at(event);
        else this.point(at(event));
      });
      canvas.addEventListener("pointermove", (event) => this.move(event));
      for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => { this.from = null; });
      canvas.addEventListener("pointerleave", () => this.point(null));
      canvas.addEventListener("keydown", (event) => this.key(event));
      new ResizeObserver(() => this.draw()).observe(canvas);
    }

    key(event) {
      const moves = { ArrowLeft: [40, 0], ArrowRight: [-40, 0], ArrowUp: [0, 40], ArrowDown: [0, -40] };
      const { clientWidth: width, clientHeight: height } = this.canvas;
      if (moves[event.key]) this.pan(...moves[event.key]);
      else if (event.key === "+" || event.key === "=") this.zoom(1.5);
      else if (event.key === "-") this.zoom(1 / 1.5);
      else if (event.key === "0") this.reset();
      else if (event.key === "Enter") this.point({ x: width / 2, y: height / 2 }, Math.hypot(width, height));
      else return;
      event.preventDefault();
    }

    move(event) {
      const { from } = this;
      if (from) {
        this.from = at(event);
        this.pan(this.from.x - from.x, this.from.y - from.y);
      }
      this.point(from ? null : at(event));
    }

    // ---- view

    reset() {
      this.view = { x: 0.5, y: 0.5, zoom: 1 };
      this.draw();
    }

    // Pixels per unit, and where on the canvas the unit square begins.
    scale() {
      const { clientWidth: width, clientHeight: height } = this.canvas;
      const size = Math.max(Math.min(width, height) - 32, 1) * this.view.zoom;
      return { size, left: width / 2 - this.view.x * size, top: height / 2 - this.view.y * size };
    }

    // What is at a place, by default the middle, stays there.
    zoom(by, place) {
      const before = this.scale(), { clientWidth: width, clientHeight: height } = this.canvas;
      this.view.zoom = clamp(this.view.zoom * by, 0.5, MOST_ZOOM);
      const closer = 1 / before.size - 1 / this.scale().size;
      this.view.x += ((place?.x ?? width / 2) - width / 2) * closer;
      this.view.y += ((place?.y ?? height / 2) - height / 2) * closer;
      this.draw();
    }

    pan(dx, dy) {
      const { size } = this.scale();
      this.view.x = clamp(this.view.x - dx / size, 0, 1);
      this.view.y = clamp(this.view.y - dy / size, 0, 1);
      this.draw();
    }

    // ---- drawing

    draw() {
      this.pending ??= requestAnimationFrame(() => { this.pending = null; this.paint(); });
    }

    paint() {
      const { canvas } = this, { clientWidth: width, clientHeight: height } = canvas, ratio = window.devicePixelRatio || 1;
      if (!this.classes || !width || !height) return;
      [canvas.width, canvas.height] = [width * ratio, height * ratio].map(Math.round);
      const context = canvas.getContext("2d");
      context.scale(ratio, ratio);
      context.fillStyle = "#fff";
      context.fillRect(0, 0, width, height);
      const { size, left, top } = this.scale();
      const dense = Math.sqrt((width * height) / this.data.count);
      const radius = Math.min(clamp(dense * 0.12, 0.9, 4.5) * Math.pow(this.view.zoom, 0.4), 7);
      const circle = (i, reach) => {
        context.beginPath();
        context.arc(this.x[i] * size + left, this.y[i] * size + top, reach, 0, 2 * Math.PI);
      };
      // In the order of the rows, so that no colour covers all others; what is not known lies behind.
      const rank = (c) => (this.isShown(c) ? 1 + !this.classes[c].unknown : 0);
      for (const wave of [0, 1, 2]) {
        this.classOf.forEach((c, i) => {
          if (rank(c) !== wave) return;
          circle(i, radius);
          context.fillStyle = context.strokeStyle = wave ? this.classes[c].colour : BEHIND;
          if (this.classes[c].unknown) context.stroke();
          else context.fill();
        });
      }
      if (this.under >= 0) {
        circle(this.under, radius + 3);
        context.strokeStyle = "#000";
        context.lineWidth = 2;
        context.stroke();
      }
    }

    // ---- who is where

    point(place, reach = REACH) {
      const { size, left, top } = this.scale();
      let nearest = -1, least = reach * reach;
      this.classOf?.forEach((c, i) => {
        if (!place || !this.isShown(c)) return;
        const far = (this.x[i] * size + left - place.x) ** 2 + (this.y[i] * size + top - place.y) ** 2;
        if (far < least) [nearest, least] = [i, far];
      });
      if (nearest !== this.under) {
        this.under = nearest;
        this.draw();
        if (nearest >= 0) this.tell(nearest);
      }
      this.tip.hidden = nearest < 0;
    }

    tell(i) {
      const told = [this.chosen, ...this.data.told.filter((k) => k !== this.chosen)].slice(0, MOST_TOLD).filter((k) => this.codes.has(k));
      this.tip.replaceChildren(element("strong", "", this.names?.[i] ?? ""), ...told.map((k) => {
        const variable = this.data.variables[k], name = element("span", "", `${variable.name}: `);
        return element("div", k === this.chosen ? "chosen" : "", name, textOf(variable, this.codes.get(k)[i]));
      }));
    }
  }

  for (const root of document.querySelectorAll("[data-map]")) {
    new PointMap(root, ordinalrbm.read(root.dataset.map)).start().catch((error) => {
      root.querySelector(".map-wait")?.replaceChildren("This browser cannot show the map; please try a newer one.");
      console.error(error);
    });
  }
})();
