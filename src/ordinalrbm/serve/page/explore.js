"use strict";
// Everything comes from the server of the page; text from it never becomes markup.
const $ = (id) => document.getElementById(id);
let base = "", about = null, person = null, asked = 0;
const MOST_IN_A_LIST = 1000; // of a request
const rated = new Map(); // by id as JSON: item, title, rating
const answers = {};

function make(tag, properties, ...parts) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...parts);
  return node;
}

async function call(path, body) {
  const options = body ? { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) } : {};
  const answer = await fetch(base + path, options);
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error || answer.statusText);
  return found;
}

// Runs what an event asks for; says what is wrong on the page.
async function attempt(work) {
  $("error").hidden = true;
  try { await work(); } catch (error) { $("error").textContent = error.message; $("error").hidden = false; }
}

const named = (one) => one.title || String(one.item);
const shown = (one, more = "") => make("span", {}, `${named(one)} `, make("small", { textContent: `${one.title ? one.item : ""} ${more}` }));
const round = (number, digits = 2) => number.toFixed(digits).replace("-", "−");
const signed = (number) => (number < 0 ? "" : "+") + round(number);

// A choice of labels; what is chosen is handed over, null for none.
function choice(labels, label, chosen, none, take) {
  const select = make("select", { ariaLabel: label }, make("option", { value: "", textContent: none }));
  labels.forEach((one, k) => select.append(make("option", { value: k, textContent: String(one), selected: one === chosen })));
  select.addEventListener("change", () => attempt(() => take(select.value === "" ? null : labels[Number(select.value)])));
  return select;
}

// ---- ratings --------------------------------------------------------------------------------

function rate(one, rating) {
  const key = JSON.stringify(one.item);
  if (rating === null) rated.delete(key); else rated.set(key, { item: one.item, title: one.title, rating });
  showRated();
  return recommend();
}

function ratingOf(one) { return (rated.get(JSON.stringify(one.item)) || {}).rating; }

function rater(one, then) {
  const labels = one.labels || about.scales[0];
  return choice(labels, `Rating of ${named(one)}`, ratingOf(one), "not rated", async (rating) => { await rate(one, rating); then && then(); });
}

function showRated() {
  const lines = [...rated.values()].map((one) => {
    const remove = make("button", { type: "button", textContent: "Remove", ariaLabel: `Remove the rating of ${named(one)}` });
    remove.addEventListener("click", () => attempt(async () => { await rate(one, null); await searchItems(); $("item").focus(); }));
    return make("li", { className: "row" }, make("span", { textContent: `${named(one)}: ${one.rating}` }), remove);
  });
  $("rated").replaceChildren(...(lines.length ? lines : [make("li", { className: "quiet", textContent: "Nothing yet." })]));
}

function given() {
  return [...rated.values()].map((one) => ({ item: one.item, rating: one.rating, ...(person === null ? {} : { user: person }) }));
}

async function recommend() {
  const number = ++asked, ratings = given(), body = { n: 10 };
  if (ratings.length) body.ratings = ratings;
  else body.users = [person === null ? about.nobody : person]; // an id that nobody has gets what is popular
  const found = (await call("/recommend", body)).recommendations;
  if (number !== asked) return; // a later answer is on its way
  $("list").replaceChildren(...found.map(recommendation));
  $("status").textContent = `${found.length} items are recommended to ${$("who").textContent}` + (ratings.length ? `, by ${ratings.length} rated here.` : ".");
}

function recommendation(one) {
  const why = make("button", { type: "button", textContent: "Why?", ariaLabel: `Why ${named(one)}?`, ariaExpanded: "false" });
  const item = make("li", {}), tools = make("span", { className: "tools" }, why);
  if (about.scales.length === 1) tools.prepend(rater(one, () => $("h-list").focus()));
  why.addEventListener("click", () => attempt(async () => {
    const open = item.querySelector(".reasons");
    if (open) open.remove(); else item.append(await reasons(one));
    why.ariaExpanded = String(!open);
  }));
  item.append(make("div", { className: "row" }, shown(one, round(one.score)), tools));
  return item;
}

async function reasons(one) {
  const body = person === null ? { item: one.item, ratings: given() } : { item: one.item, user: person };
  const box = make("div", { className: "reasons" });
  if (person === null && !rated.size) {
    box.append("It is popular, and liked by those who choose it. Rate items for other reasons.");
    return box;
  }
  const found = await call("/explain", body);
  box.append(`A rating of ${round(found.expected)} is expected` + (found.baseline === null ? ":" : `, and ${round(found.baseline)} of a user without ratings:`));
  box.append(make("ul", {}, ...found.ratings.map((own) => make("li", { textContent: `${signed(own.effect)} for ${named(own)}, rated ${own.rating}` }))));
  return box;
}

async function searchItems() {
  const { found } = await call("/search", { what: "item", text: $("item").value, n: 10 });
  const lines = found.map((one) => make("li", { className: "row" }, shown(one), rater(one)));
  $("items").replaceChildren(...(lines.length ? lines : [make("li", { className: "quiet", textContent: "Nothing is found." })]));
}

async function searchUsers() {
  const { found } = await call("/search", { what: "user", text: $("user").value, n: 10 });
  $("users").replaceChildren(...(found.length ? found.map((one) => {
    const button = make("button", { type: "button", textContent: String(one.user) });
    button.addEventListener("click", () => attempt(() => choosePerson(one.user)));
    return make("li", {}, button);
  }) : [make("li", { className: "quiet", textContent: "Nobody is found." })]));
}

async function choosePerson(id) {
  person = id;
  rated.clear();
  showRated();
  $("who").textContent = id === null ? "a new person" : `user ${id}`;
  $("nobody").hidden = id === null;
  $("users").replaceChildren();
  await Promise.all([searchItems(), recommend()]);
  $("h-list").focus();
}

async function startRatings() {
  rated.clear();
  person = null;
  $("who").textContent = "a new person";
  $("about").textContent = `${about.items.toLocaleString("en")} items, ${about.users.toLocaleString("en")} users`;
  showRated();
  await Promise.all([searchItems(), recommend()]);
}

// ---- surveys --------------------------------------------------------------------------------

const textOf = (question) => question.text || question.question;

async function answer(name, label) {
  if (label === null) delete answers[name]; else answers[name] = label;
  await showSurvey();
}

async function showSurvey() {
  const number = ++asked;
  const left = open().slice(0, MOST_IN_A_LIST);
  const [filled, next] = await Promise.all([
    call("/impute", { rows: [answers], proba: true }),
    left.length ? call("/ask", { answers, k: 1, among: left }) : { questions: [] },
  ]);
  if (number !== asked) return;
  const chances = filled.probabilities[0], row = filled.rows[0];
  const focused = document.activeElement && document.activeElement.dataset.question;
  $("questions").replaceChildren(...about.questions.map((one) => questionLine(one, row[one.question], chances[one.question])));
  if (focused) $("questions").querySelectorAll("select").forEach((select) => { if (select.dataset.question === focused) select.focus(); });
  showNext(next.questions[0] || { question: left[0] }); // the last one tells nothing of others
  const n = Object.keys(answers).length;
  $("status").textContent = `${n} of ${about.questions.length} questions are answered.`;
}

const open = () => about.questions.filter((one) => one.labels.length && !(one.question in answers)).map((one) => one.question);

function questionLine(one, value, chance) {
  const isGiven = one.question in answers, said = isGiven ? "answered" : `expected: ${typeof value === "number" && !one.labels.length ? round(value) : value}`;
  const line = make("div", { className: "row" }, make("span", {}, textOf(one), " ", make("small", { textContent: said })));
  if (one.labels.length && !isGiven) line.append(bar(one.labels, chance));
  if (one.labels.length) {
    const select = choice(one.labels, `Answer to ${textOf(one)}`, answers[one.question], "not answered", (label) => answer(one.question, label));
    select.dataset.question = one.question;
    line.append(select);
  }
  return make("li", {}, line);
}

function bar(labels, chance) {
  const text = labels.map((label, k) => `${label}: ${Math.round(100 * chance[k])} %`).join(", ");
  const parts = chance.map((share, k) => {
    const part = make("i", { title: `${labels[k]}: ${Math.round(100 * share)} %` });
    part.style.width = `${100 * share}%`;
    part.style.opacity = labels.length < 2 ? 1 : 0.25 + 0.75 * k / (labels.length - 1);
    return part;
  });
  const whole = make("span", { className: "bar", ariaLabel: text }, ...parts);
  whole.setAttribute("role", "img");
  return whole;
}

function showNext(next) {
  const one = about.questions.find((question) => question.question === next.question);
  if (!one) { $("next").replaceChildren(make("p", { textContent: "All questions are answered." })); return; }
  const field = make("fieldset", {}, make("legend", { textContent: textOf(one) }));
  one.labels.forEach((label, k) => {
    const radio = make("input", { type: "radio", name: "answer", value: k, id: `answer-${k}`, required: true });
    field.append(make("label", { htmlFor: radio.id }, radio, " ", String(label)));
  });
  field.append(make("button", { textContent: "Answer" }));
  $("next").replaceChildren(field);
  $("next").onsubmit = (event) => {
    event.preventDefault();
    const label = one.labels[Number(new FormData($("next")).get("answer"))];
    attempt(async () => { await answer(one.question, label); $("h-next").focus(); });
  };
}

async function startSurvey() {
  Object.keys(answers).forEach((name) => delete answers[name]);
  $("about").textContent = `${about.questions.length} questions`;
  await showSurvey();
}

// ---- start ----------------------------------------------------------------------------------

async function start(name, isOnly) {
  base = isOnly ? "." : `./models/${encodeURIComponent(name)}`;
  about = await call("/about");
  $("ratings").hidden = about.kind !== "ratings";
  $("survey").hidden = about.kind !== "survey";
  document.title = `Explore ${name}`;
  document.querySelector("h1").textContent = `Explore ${name}`;
  await (about.kind === "ratings" ? startRatings() : startSurvey());
}

for (const [form, search] of [["f-item", searchItems], ["f-user", searchUsers]]) {
  $(form).addEventListener("submit", (event) => { event.preventDefault(); attempt(search); });
}
$("nobody").addEventListener("click", () => attempt(() => choosePerson(null)));
$("models").addEventListener("change", () => attempt(() => start($("models").value, false)));

attempt(async () => {
  const names = Object.keys((await (await fetch("health")).json()).models);
  $("models").append(...names.map((name) => make("option", { value: name, textContent: name })));
  $("choice").hidden = names.length < 2;
  await start(names[0], names.length === 1);
});
