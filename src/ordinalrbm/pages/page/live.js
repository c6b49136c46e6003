// The model in the page: mean-field over response styles, widened by linear response; for answers that
// somebody tries out, and for the cards of people on the map. The same as predict_proba in Python.
(function () {
  "use strict";

  if (!document.getElementById("live")) return;
  const { element, label, unpack } = ordinalrbm;
  const [ORDINAL, NOMINAL, NUMERIC] = [0, 1, 2];
  const LOG_ROOT_2PI = 0.9189385332046727;
  const TOLERANCE = 1e-5, MOST_ROUNDS = 400, EXTRAPOLATE_EVERY = 4, LARGEST_RATIO = 0.95;
  const IMPROBABLE = 1e-3, WORTH_WIDENING = 0.05, LARGEST_GAIN = 0.995, SMALLEST_VARIANCE = 1e-6;
  const NARROW = 1e-4;
  const LOGISTIC_OF_NORMAL = 0.368;
  const FIRST_ASKED = 3, FIRST_SHOWN = 8, MOST_ON_CARD = 40;

  // ---- the normal distribution

  // (1 − Φ(x)) / φ(x) for x ≥ 0, by the complementary error function of Numerical Recipes.
  function mills(x) {
    const t = 1 / (1 + 0.5 * x * Math.SQRT1_2);
    const terms = [0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196, 1.00002368, -1.26551223];
    return Math.sqrt(Math.PI / 2) * t * Math.exp(terms.reduce((sum, term) => sum * t + term, 0));
  }

  const density = (x) => Math.exp(-0.5 * x * x - LOG_ROOT_2PI);
  const above = (x) => (x === Infinity ? 0 : density(x) * mills(x));
  const below = (x) => (x < 0 ? above(-x) : 1 - above(x));
  const product = (x, y) => (y === 0 ? 0 : x * y);
  const logSum = (values) => {
    const most = Math.max(...values);
    return most === -Infinity ? most : most + Math.log(values.reduce((sum, x) => sum + Math.exp(x - most), 0));
  };
  const softmax = (values) => {
    const whole = logSum(values);
    return values.map((x) => Math.exp(x - whole));
  };

  // A standard normal between two bounds: log mass, mean and variance.
  function between(low, high) {
    if (low === -Infinity && high === Infinity) return { log: 0, mean: 0, variance: 1 };
    if (low + high < 0) {
      const turned = between(-high, -low);
      return { ...turned, mean: -turned.mean };
    }
    if (high - low < NARROW) {
      const middle = (low + high) / 2;
      return { log: -0.5 * middle * middle - LOG_ROOT_2PI + Math.log(high - low), mean: middle, variance: (high - low) ** 2 / 12 };
    }
    let log, mean, edge;
    if (low > 0) { // far out everything is relative to the density at the lower bound
      const falls = high === Infinity ? 0 : Math.exp(-0.5 * (high - low) * (high + low));
      const mass = mills(low) - product(mills(high), falls);
      log = -0.5 * low * low - LOG_ROOT_2PI + Math.log(mass);
      mean = (1 - falls) / mass;
      edge = (low - product(high, falls)) / mass;
    } else {
      const mass = 1 - above(-low) - above(high);
      log = Math.log(mass);
      mean = (density(low) - density(high)) / mass;
      edge = (product(low, density(low)) - product(high, density(high))) / mass;
    }
    return { log, mean, variance: Math.max(1 + edge - mean * mean, 0) };
  }

  // ---- linear algebra

  function dot(a, b) {
    let sum = 0;
    for (let k = 0; k < a.length; k++) sum += a[k] * b[k];
    return sum;
  }

  // Eigenvalues and eigenvectors (rows) of a symmetric matrix, by Jacobi's rotations; in place.
  function eigen(a) {
    const n = a.length;
    const vectors = a.map((_, i) => Float64Array.from({ length: n }, (_, j) => Number(i === j)));
    for (let sweep = 0; sweep < 50; sweep++) {
      let off = 0;
      for (let p = 0; p < n; p++) for (let q = p + 1; q < n; q++) off += a[p][q] ** 2;
      if (off < 1e-20) break;
      for (let p = 0; p < n; p++) {
        for (let q = p + 1; q < n; q++) {
          if (Math.abs(a[p][q]) < 1e-18) continue;
          const slope = (a[q][q] - a[p][p]) / (2 * a[p][q]);
          const t = (slope < 0 ? -1 : 1) / (Math.abs(slope) + Math.hypot(slope, 1));
          const c = 1 / Math.hypot(t, 1), s = t * c;
          for (let k = 0; k < n; k++) {
            const [x, y] = [a[k][p], a[k][q]];
            a[k][p] = c * x - s * y; a[k][q] = s * x + c * y;
          }
          for (let k = 0; k < n; k++) {
            const [x, y] = [a[p][k], a[q][k]];
            a[p][k] = c * x - s * y; a[q][k] = s * x + c * y;
            const [v, w] = [vectors[p][k], vectors[q][k]];
            vectors[p][k] = c * v - s * w; vectors[q][k] = s * v + c * w;
          }
        }
      }
    }
    return { values: a.map((row, i) => row[i]), vectors };
  }

  // ---- the model

  class Model {
    constructor(data, numbers) {
      Object.assign(this, data);
      const [columns, factors, covariates] = data.shape;
      let at = 0;
      const rows = (n, width) => Array.from({ length: n }, () => numbers.subarray(at, (at += width)));
      this.weights = rows(columns, factors);
      [this.bias] = rows(1, columns);
      [this.factorBias] = rows(1, factors);
      this.slopes = rows(columns, covariates);
      this.factorSlopes = rows(factors, covariates);
      this.columns = columns;
      this.factors = factors;
      for (const one of this.questions) one.n = one.kind === NOMINAL ? data.scales[one.scale].levels.length : 1;
    }

    // What is known of somebody: answers (levels, or numbers in standard deviations; null if unknown),
    // and what the background adds to columns and factors.
    person(given, covariates) {
      const added = Float64Array.from({ length: this.columns }, (_, i) => (covariates ? dot(this.slopes[i], covariates) : 0));
      const bias = Float64Array.from(this.factorBias, (b, k) => b + (covariates ? dot(this.factorSlopes[k], covariates) : 0));
      const there = this.questions.map((one, q) => ({ ...one, answer: given[q] ?? null })).filter((one) => this.latent || one.answer !== null);
      return { added, bias, there };
    }

    // Mean utilities; what the background adds to a scale or a number is taken from its bounds instead.
    mean(person, active, i, isCategory) {
      return this.bias[i] + dot(this.weights[i], active) + (isCategory ? person.added[i] : 0);
    }

    categories(person, active, one) {
      return Array.from({ length: one.n }, (_, c) => this.mean(person, active, one.first + c, true));
    }

    interval(person, one, mean, stretch) {
      if (one.answer === null) return between(-Infinity, Infinity);
      const bound = (m) => (m < 0 ? -Infinity : m >= one.bounds.length ? Infinity : stretch * one.bounds[m] - mean - person.added[one.first]);
      return between(bound(one.answer - 1), bound(one.answer));
    }

    // A number as a utility, beyond what the background adds.
    utility(person, one) {
      return one.answer * one.bounds[0] - person.added[one.first];
    }

    update(person, active, stretch) {
      const activation = person.bias.slice();
      const add = (i, utility) => { for (let k = 0; k < activation.length; k++) activation[k] += utility * this.weights[i][k]; };
      for (const one of person.there) {
        if (one.kind === NOMINAL) {
          const share = one.answer === null ? softmax(this.categories(person, active, one)) : null;
          for (let c = 0; c < one.n; c++) add(one.first + c, share ? share[c] : Number(c === one.answer));
        } else {
          const mean = this.mean(person, active, one.first);
          if (one.kind === ORDINAL) add(one.first, mean + this.interval(person, one, mean, stretch).mean);
          else add(one.first, one.answer === null ? mean : this.utility(person, one));
        }
      }
      return activation.map((x) => this.units / (1 + Math.exp(-x)));
    }

    // Log probability of what was answered, for each stretch of the thresholds.
    logAnswers(person, active, stretches) {
      const total = stretches.map(() => 0);
      for (const one of person.there) {
        if (one.answer === null) continue;
        if (one.kind === NOMINAL) {
          const means = this.categories(person, active, one);
          const log = means[one.answer] - logSum(means);
          stretches.forEach((_, g) => { total[g] += log; });
          continue;
        }
        const mean = this.mean(person, active, one.first);
        stretches.forEach((stretch, g) => {
          total[g] += one.kind === ORDINAL
            ? this.interval(person, one, mean, stretch).log
            : Math.log(one.bounds[0]) - 0.5 * (this.utility(person, one) - mean) ** 2 - LOG_ROOT_2PI;
        });
      }
      return total;
    }

    // The bound that every round raises: log P*(h) P(v | h) and the entropy of the factors.
    bound(person, active, stretch) {
      let total = this.logAnswers(person, active, [stretch])[0] + dot(person.bias, active);
      for (const one of person.there) {
        if (one.kind === NOMINAL) total += logSum(this.categories(person, active, one));
        else total += 0.5 * this.mean(person, active, one.first) ** 2;
      }
      const power = (share) => (share > 0 ? share * Math.log(share) : 0);
      for (const on of active) total -= this.units * (power(on / this.units) + power(1 - on / this.units));
      return total;
    }

    fixedPoint(person, start, stretch) {
      let active = start, previous = null;
      for (let round = 1; round <= MOST_ROUNDS; round++) {
        const next = this.update(person, active, stretch);
        const step = next.map((x, k) => x - active[k]);
        active = next;
        if (Math.max(...step.map(Math.abs)) <= TOLERANCE * this.units) break;
        if (round % EXTRAPOLATE_EVERY === 0 && previous) {
          const ratio = Math.min(dot(step, previous) / dot(previous, previous), LARGEST_RATIO);
          const jumped = active.map((x, k) => Math.min(Math.max(x + (ratio / (1 - ratio)) * step[k], 0), this.units));
          if (this.bound(person, jumped, stretch) >= this.bound(person, active, stretch)) active = jumped;
        }
        previous = step;
      }
      return active;
    }

    // Expected factors in each response style that somebody may have, and how probable it is.
    posterior(person) {
      const { stretches, shares } = this;
      let start = new Float64Array(this.factors).fill(0.5 * this.units);
      start = this.fixedPoint(person, start, stretches[shares.indexOf(Math.max(...shares))]);
      if (stretches.length === 1) return [{ active: start, stretch: stretches[0], weight: 1 }];
      const chances = softmax(this.logAnswers(person, start, stretches).map((x, g) => x + Math.log(shares[g])));
      const likely = (g) => chances[g] > IMPROBABLE;
      const found = stretches.map((stretch, g) => {
        if (!likely(g) && !likely(g - 1) && !likely(g + 1)) return { weight: 0, log: -Infinity };
        const active = this.fixedPoint(person, start, stretch);
        return { active, stretch, log: this.bound(person, active, stretch) + Math.log(shares[g]) };
      });
      const weights = softmax(found.map((one) => one.log));
      return found.map((one, g) => ({ ...one, weight: weights[g] })).filter((one) => one.weight > 0);
    }

    // Weights as vectors whose products are the covariances that the uncertainty of the factors gives to sums of them.
    spread(person, { active, stretch }) {
      const n = this.factors;
      const coupling = Array.from({ length: n }, () => new Float64Array(n));
      const couple = (w, times) => {
        for (let k = 0; k < n; k++) for (let l = 0; l < n; l++) coupling[k][l] += times * w[k] * w[l];
      };
      for (const one of person.there) {
        if (one.kind === ORDINAL) couple(this.weights[one.first], this.interval(person, one, this.mean(person, active, one.first), stretch).variance);
        else if (one.kind === NUMERIC && one.answer === null) couple(this.weights[one.first], 1);
        else if (one.kind === NOMINAL && one.answer === null) {
          const share = softmax(this.categories(person, active, one));
          const centre = Float64Array.from({ length: n }, (_, k) => share.reduce((sum, p, c) => sum + p * this.weights[one.first + c][k], 0));
          share.forEach((p, c) => couple(this.weights[one.first + c].map((w, k) => w - centre[k]), p));
        }
      }
      const root = Float64Array.from(active, (on) => Math.sqrt(Math.max(on * (1 - on / this.units), SMALLEST_VARIANCE)));
      const { values, vectors } = eigen(coupling.map((row, k) => row.map((x, l) => x * root[k] * root[l])));
      const gains = values.map((value) => (value < LARGEST_GAIN ? 1 / Math.sqrt(1 - value) : 1));
      return (w) => {
        const scaled = Float64Array.from(w, (x, k) => x * root[k]);
        return vectors.map((vector, m) => gains[m] * dot(vector, scaled));
      };
    }

    // The question whose answer is expected to explain most of the utilities of all others, in the likeliest style.
    tellsMost(given, wanted) {
      const person = this.person(given), styles = this.posterior(person);
      const style = styles.reduce((best, one) => (one.weight > best.weight ? one : best));
      const spread = this.spread(person, style);
      const known = wanted.map((q) => {
        const one = this.questions[q], vectors = Array.from({ length: one.n }, (_, c) => spread(this.weights[one.first + c]));
        return { vectors, moves: one.kind === ORDINAL ? [this.move(person, style, one, vectors[0])] : this.moves(person, style, one, vectors) };
      });
      const worth = known.map((own) => known.reduce((sum, other) => (own === other ? sum : sum + other.vectors.reduce((part, vector) =>
        part + own.moves.reduce((all, move) => all + dot(vector, move) ** 2, 0) / (1 + dot(vector, vector)), 0)), 0));
      return wanted[worth.indexOf(Math.max(...worth))];
    }

    // How far the answer to a scale is expected to move what goes along with it.
    move(person, { active, stretch }, one, vector) {
      const mean = this.mean(person, active, one.first, true), deviation = Math.sqrt(1 + dot(vector, vector));
      const bounds = [-Infinity, ...one.bounds.map((bound) => (stretch * bound - mean) / deviation), Infinity];
      const told = bounds.slice(1).reduce((sum, bound, m) => sum + (density(bound) - density(bounds[m])) ** 2 / Math.max(below(bound) - below(bounds[m]), 1e-12), 0);
      return vector.map((x) => x * Math.sqrt(told) / deviation);
    }

    // The same of the choice of a category, one move for each; no more is told than is unknown.
    moves(person, { active }, one, vectors) {
      const share = softmax(this.categories(person, active, one));
      const centre = vectors[0].map((_, k) => share.reduce((sum, p, c) => sum + p * vectors[c][k], 0));
      const found = vectors.map((vector, c) => vector.map((x, k) => Math.sqrt(share[c]) * (x - centre[k])));
      const damped = Math.sqrt(1 + found.reduce((sum, move) => sum + dot(move, move), 0));
      return found.map((move) => move.map((x) => x / damped));
    }

    // Distributions of answers to some questions; of numbers, which have none here, nothing.
    predict(given, covariates = null, wanted = this.questions.map((_, q) => q)) {
      const person = this.person(given, covariates);
      const styles = this.posterior(person);
      const total = wanted.map(() => null);
      for (const style of styles) {
        const spread = this.widened && style.weight > WORTH_WIDENING ? this.spread(person, style) : null;
        const variance = spread && ((w) => { const vector = spread(w); return dot(vector, vector); });
        wanted.forEach((q, place) => {
          const one = this.questions[q];
          if (one.kind === NUMERIC) return;
          const own = one.kind === ORDINAL ? this.levels(person, style, one, variance) : this.choices(person, style, one, variance);
          total[place] = own.map((p, m) => style.weight * p + (total[place]?.[m] ?? 0));
        });
      }
      return total.map((own) => {
        const whole = own && own.reduce((sum, p) => sum + p, 0);
        return own && own.map((p) => p / whole);
      });
    }

    levels(person, { active, stretch }, one, variance) {
      const mean = this.mean(person, active, one.first, true);
      const deviation = variance ? Math.sqrt(1 + variance(this.weights[one.first])) : 1;
      const under = [0, ...one.bounds.map((bound) => below((stretch * bound - mean) / deviation)), 1];
      return under.slice(1).map((x, m) => Math.max(x - under[m], 0));
    }

    // The mean of a softmax by those of its logistic functions of two (Daunizeau 2017).
    choices(person, { active }, one, variance) {
      const means = this.categories(person, active, one);
      if (!variance) return softmax(means);
      const chances = means.map((mean, c) => {
        let behind = 0;
        means.forEach((other, d) => {
          if (c === d) return;
          const apart = variance(this.weights[one.first + c].map((w, k) => w - this.weights[one.first + d][k]));
          behind += 1 + Math.exp(-(mean - other) / Math.sqrt(1 + LOGISTIC_OF_NORMAL * apart));
        });
        return 1 / (2 - means.length + behind);
      });
      const whole = chances.reduce((sum, p) => sum + p, 0);
      return chances.map((p) => p / whole);
    }
  }

  // ---- bars

  const percent = (share) => `${(100 * share).toFixed(0)}%`;

  function bar(scale, shares, given = -1) {
    const likely = shares.indexOf(Math.max(...shares));
    const made = element("span", "stack");
    made.setAttribute("role", "img");
    made.setAttribute("aria-label", `most likely ${scale.levels[likely]}, ${percent(shares[likely])}`);
    shares.forEach((share, m) => {
      const piece = element("i", m === given ? "given" : "", share >= 0.09 ? percent(share) : "");
      piece.style.width = `${(100 * share).toFixed(2)}%`;
      piece.style.background = scale.colours[m];
      piece.style.color = scale.inks[m];
      piece.title = `${scale.levels[m]}: ${percent(share)}`;
      made.append(piece);
    });
    return made;
  }

  function ends({ levels, colours }) {
    const end = (m, ...content) => {
      const colour = element("i");
      colour.style.background = colours[m];
      return element("span", "", ...(m ? [element("bdi", "", levels[m]), colour] : [colour, element("bdi", "", levels[m])]));
    };
    return element("p", "ends", end(0), end(levels.length - 1));
  }

  // ---- answers that somebody tries out

  class Trial {
    constructor(model) {
      this.model = model;
      this.given = model.questions.map(() => null);
      this.root = document.querySelector(".live");
      this.usual = model.predict(this.given);
      this.offered = model.ask.filter((q) => model.questions[q].kind !== NUMERIC);
      this.asked = this.offered.slice(0, FIRST_ASKED);
      this.all = false;
      const more = this.root.querySelector(".live-more");
      const ask = (q) => {
        this.asked.push(q);
        this.show();
        this.select(q).focus();
      };
      more.addEventListener("change", () => { if (more.value !== "") ask(Number(more.value)); });
      this.next = this.root.querySelector(".live-next");
      this.next.addEventListener("click", () => ask(model.tellsMost(this.given, this.rest())));
      this.root.querySelector(".live-clear").addEventListener("click", () => { this.given.fill(null); this.show(); });
      this.root.querySelector(".live-all").addEventListener("click", () => { this.all = true; this.tell(); });
      this.show();
    }

    select(q) {
      return this.root.querySelector(`select[data-question="${q}"]`);
    }

    rest() {
      return this.offered.filter((q) => !this.asked.includes(q));
    }

    show() {
      const { questions, scales } = this.model;
      this.root.querySelector(".live-asked").replaceChildren(...this.asked.map((q) => {
        const select = element("select", "", ...["no answer", ...scales[questions[q].scale].levels].map((name, m) => new Option(name, m - 1)));
        select.dataset.question = q;
        select.value = this.given[q] ?? -1;
        select.addEventListener("change", () => { this.given[q] = select.value < 0 ? null : Number(select.value); this.tell(); });
        return element("label", "live-question", element("span", "", ...label(questions[q])), select);
      }));
      const more = this.root.querySelector(".live-more");
      const rest = this.rest().sort((a, b) => a - b);
      more.replaceChildren(new Option("choose …", ""), ...rest.map((q) => new Option(questions[q].text, q)));
      more.closest("label").hidden = this.next.hidden = !rest.length;
      this.tell();
    }

    tell() {
      const { questions, scales } = this.model;
      const wanted = this.rest();
      const found = this.model.predict(this.given, null, wanted);
      const moved = wanted.map((q, place) => ({ q, shares: found[place], change: 0.5 * found[place].reduce((sum, p, m) => sum + Math.abs(p - this.usual[q][m]), 0) }));
      moved.sort((a, b) => b.change - a.change);
      const shown = this.all ? moved : moved.slice(0, FIRST_SHOWN);
      this.root.querySelector(".live-found").replaceChildren(...shown.map(({ q, shares }) => {
        const scale = scales[questions[q].scale];
        const before = bar(scale, this.usual[q]);
        before.classList.add("thin");
        return element("div", "expected", element("p", "name", ...label(questions[q])), element("div", "", bar(scale, shares), before, ends(scale)));
      }));
      const answered = this.given.filter((one) => one !== null).length;
      this.root.querySelector(".live-note").textContent = answered
        ? `Expected answers to the other ${moved.length} questions, those that your ${answered} answer${answered === 1 ? "" : "s"} changed most first. The thin bar is what is expected without any answer.`
        : "Before any answer, these are the expected answers of somebody about whom nothing is known.";
      const more = this.root.querySelector(".live-all");
      more.hidden = shown.length === moved.length;
      more.textContent = `Show all ${moved.length} questions`;
      this.root.dataset.answered = answered;
    }
  }

  // ---- a person's card

  class Card {
    constructor(model, map) {
      this.model = model;
      this.box = document.getElementById("card");
      map.addEventListener("pick", (event) => this.show(event.detail).catch(console.error));
      this.data = ordinalrbm.read(map.dataset.map);
    }

    // A person's answers, and background as numbers.
    async known(map, index) {
      const given = await Promise.all(this.model.questions.map(async (one) => {
        if (one.map >= 0) {
          const code = (await map.codesOf(one.map))[index];
          return code === 255 ? null : code;
        }
        if (!one.given) return null;
        one.answers ??= unpack(one.given);
        const bytes = await one.answers;
        const answer = one.kind === NUMERIC ? new Float32Array(bytes.buffer)[index] : bytes[index];
        return Number.isNaN(answer) || (one.kind !== NUMERIC && answer === 255) ? null : answer;
      }));
      const width = this.model.shape[2];
      if (!width) return { given, covariates: null };
      this.background ??= new Float32Array((await unpack(this.model.covariates)).buffer);
      return { given, covariates: this.background.subarray(index * width, (index + 1) * width) };
    }

    async show({ index, name, map }) {
      const { given, covariates } = await this.known(map, index);
      const { model } = this, { questions, scales } = model;
      const order = model.ask.filter((q) => questions[q].kind !== NUMERIC);
      const missing = order.filter((q) => given[q] === null).slice(0, MOST_ON_CARD);
      const answered = order.filter((q) => given[q] !== null).slice(0, MOST_ON_CARD);
      const n = given.filter((one) => one !== null).length;
      const row = (q, shares, answer) => {
        const one = questions[q], scale = scales[one.scale];
        const told = answer === null ? [] : [" ", element("strong", "", scale.levels[answer]), ` (expected ${percent(shares[answer])})`];
        return element("div", "expected", element("p", "name", ...label(one), ...told), element("div", "", bar(scale, shares, answer ?? -1), ends(scale)));
      };
      const expected = model.predict(given, covariates, missing);
      const without = (q) => given.map((one, other) => (other === q ? null : one));
      const list = (title, rows) => (rows.length ? [element("h4", "", title), Object.assign(element("div", "card-list", ...rows), { tabIndex: 0 })] : []);
      const lines = this.data.told.filter((k) => this.data.variables[k].section === "Background").map((k) => map.line(k, index));
      this.box.replaceChildren(
        element("h3", "", element("bdi", "", name)),
        element("p", "quiet", `${n} of ${questions.length} questions answered.`),
        ...lines,
        ...list("Not answered: what the model expects", missing.map((q, place) => row(q, expected[place], null))),
        ...list("Answered: what was expected from the other answers", answered.map((q) => row(q, model.predict(without(q), covariates, [q])[0], given[q]))));
      this.box.hidden = false;
      this.box.dataset.index = index;
    }
  }

  // ---- response curves

  // Shares of the people up to a level of a question, whose latent response is at a point.
  function under(model, one, m, point) {
    if (m < 0 || m >= one.bounds.length) return m < 0 ? 0 : 1;
    return model.stretches.reduce((sum, c, g) => sum + model.shares[g] * below(c * one.bounds[m] - point), 0);
  }

  // Where thresholds are for somebody with a usual style, and points from one end to the other.
  function along(model, one) {
    const usual = Math.exp(model.stretches.reduce((sum, c, g) => sum + model.shares[g] * Math.log(c), 0));
    const inner = one.bounds.map((bound) => usual * bound);
    const marks = inner.concat(one.middle ?? []), [low, high] = marks.length ? [Math.min(...marks) - 1.5, Math.max(...marks) + 1.5] : [-1.5, 1.5];
    return { inner, low, high, points: Array.from({ length: 33 }, (_, i) => low + ((high - low) * i) / 32) };
  }

  // Uneven thresholds, and levels that are nowhere the likeliest.
  function oddity(model, one) {
    const { inner, points } = along(model, one), n = one.bounds.length + 1;
    const gaps = inner.slice(1).map((bound, m) => Math.log(Math.max(bound - inner[m], 1e-6)));
    const mean = gaps.reduce((sum, x) => sum + x, 0) / (gaps.length || 1);
    const spread = Math.sqrt(gaps.reduce((sum, x) => sum + (x - mean) ** 2, 0) / (gaps.length || 1));
    const likeliest = points.map((point) => {
      const shares = Array.from({ length: n }, (_, m) => under(model, one, m, point) - under(model, one, m - 1, point));
      return shares.indexOf(Math.max(...shares));
    });
    return spread + 1 - new Set(likeliest).size / n;
  }

  function curve(model, one) {
    const scale = model.scales[one.scale], { inner, low, high, points } = along(model, one);
    const across = (point) => (((point - low) / (high - low)) * 200).toFixed(1);
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    for (const [name, value] of Object.entries({ viewBox: "-1 -1 202 110", role: "img", "aria-label": one.text })) svg.setAttribute(name, value);
    scale.levels.forEach((level, m) => {
      const corner = (point, edge) => `${across(point)},${(100 - 100 * under(model, one, edge, point)).toFixed(1)}`;
      const corners = [...points.map((point) => corner(point, m)), ...points.toReversed().map((point) => corner(point, m - 1))];
      ordinalrbm.draw(ordinalrbm.draw(svg, "polygon", { fill: scale.colours[m], points: corners.join(" ") }), "title", {}, level);
    });
    for (const bound of inner) {
      ordinalrbm.draw(svg, "path", { d: `M${across(bound)} 0V100`, stroke: "#fff", "stroke-dasharray": "3 2" });
      ordinalrbm.draw(svg, "path", { d: `M${across(bound)} 100v4`, stroke: "currentColor" });
    }
    if (one.middle) ordinalrbm.draw(svg, "path", { d: `M${across(one.middle[0])} 106.5H${across(one.middle[1])}`, stroke: "currentColor", "stroke-width": 3 });
    const save = Object.assign(element("button", "save", "Save SVG"), { type: "button", ariaLabel: `Save the curves of ${one.text} as SVG` });
    save.dataset.file = "response-curves";
    save.addEventListener("click", () => ordinalrbm.saveDrawing(save));
    const figure = element("figure", "small", element("p", "name", ...label(one)), svg, ends(scale), save);
    figure.dataset.name = `${one.text} ${one.code}`;
    return figure;
  }

  // The most unusual ones at once, all of them on demand; or all, where nothing is folded away.
  function showCurves(model) {
    const asked = model.questions.filter((one) => one.kind === ORDINAL && one.bounds.length);
    const [some, all] = ["curves", "all-curves"].map((id) => document.getElementById(id));
    if (some) {
      const odd = new Map(asked.map((one) => [one, oddity(model, one)]));
      const first = asked.toSorted((a, b) => odd.get(b) - odd.get(a)).slice(0, Number(some.dataset.most));
      some.append(...first.map((one) => curve(model, one)));
    }
    const fill = () => { if (!all.firstChild) all.append(...asked.map((one) => curve(model, one))); };
    const folded = all?.closest("details");
    if (folded) folded.addEventListener("toggle", fill);
    else if (all) fill();
  }

  async function start() {
    const data = ordinalrbm.read("live");
    const model = new Model(data, new Float32Array((await unpack(data.parameters)).buffer));
    ordinalrbm.live = model;
    showCurves(model);
    const map = document.querySelector('[data-map="people"]');
    if (map) ordinalrbm.card = new Card(model, map);
    if (!document.querySelector(".live")) return;
    new Trial(model);
    document.getElementById("try").dataset.ready = "yes";
  }

  start().catch((error) => {
    const note = document.querySelector(".live-note");
    if (note) note.textContent = "This browser cannot run the model; please try a newer one.";
    console.error(error);
  });
})();
