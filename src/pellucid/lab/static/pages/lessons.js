// Lessons: one thing that is taught by a picture, with its knobs live.
// @ts-check
import { ErrorNotice, Field, Picture, Slider, get, go, html, post, useAnswer, useState } from "../kit.js";

/** @param {{ words: string[] }} props */
export function Lessons({ words }) {
  const found = useAnswer((abort) => get("/api/lessons", {}, abort), []);
  const [search, setSearch] = useState("");
  const lessons = found.answer?.lessons ?? [];
  const now = lessons.find((/** @type {any} */ one) => one.name === words[0]);
  const shown = lessons.filter((/** @type {any} */ one) => `${one.name} ${one.summary}`.toLowerCase().includes(search.toLowerCase()));
  return html`<div class="head"><h1>Lessons</h1><p class="quiet">Each picture is measured anew when a knob is turned.</p></div>
    <${ErrorNotice} error=${found.error} />
    ${now ? html`<p><a href="#/lessons">All lessons</a></p><${Lesson} lesson=${now} key=${now.name} />` : html`
      <${Field} label="Search"><input type="search" value=${search} onInput=${(/** @type {any} */ event) => setSearch(event.target.value)} /><//>
      <div class="cards">${shown.map((/** @type {any} */ one) => html`<a class="card" href=${`#/lessons/${one.name}`} key=${one.name}><span class="title">${one.name.replaceAll("-", " ")}</span><small>${one.summary}</small></a>`)}</div>`}`;
}

/** @param {{ lesson: any }} props */
function Lesson({ lesson }) {
  const [knobs, setKnobs] = useState(/** @type {Record<string, any>} */ ({}));
  const seen = useAnswer((abort) => post("/api/lessons/draw", { name: lesson.name, knobs }, abort), [lesson.name, JSON.stringify(knobs)], 250);
  const set = (/** @type {string} */ name, /** @type {any} */ value) => setKnobs((before) => {
    const after = { ...before };
    if (value === "" || value === undefined) delete after[name];
    else after[name] = value;
    return after;
  });
  return html`<section class="two narrow-left"><div class="sheet stack"><h2>${lesson.name.replaceAll("-", " ")}</h2><p>${lesson.summary}</p>
      ${lesson.knobs.map((/** @type {any} */ knob) => html`<${Knob} key=${knob.name} knob=${knob} value=${knobs[knob.name]} onChange=${(/** @type {any} */ value) => set(knob.name, value)} />`)}
      <div class="row"><button type="button" class="small" onClick=${() => setKnobs({})}>As it was</button><small role="status">${seen.busy ? "Measuring …" : seen.answer ? `Measured in ${seen.answer.seconds < 0.1 ? "less than 0.1" : seen.answer.seconds.toFixed(1)} s.` : ""}</small></div></div>
    <div class="section"><${ErrorNotice} error=${seen.error} />
      ${seen.answer ? html`<${Picture} svg=${seen.answer.svg} alt=${seen.answer.title} />${seen.answer.notes.map((/** @type {string} */ note) => html`<p class="quiet">${note}</p>`)}` : html`<p class="quiet">${seen.busy ? "Measuring; the first one loads torch." : ""}</p>`}
      <p><button type="button" class="plain" onClick=${() => go("#/lessons")}>Another lesson</button></p></div></section>`;
}

/** @param {{ knob: any, value: any, onChange: (value: any) => void }} props */
function Knob({ knob, value, onChange }) {
  const label = knob.name.replaceAll("_", " "), now = value ?? knob.usual;
  if (knob.choices.length) return html`<${Field} label=${label} hint=${knob.help}><select value=${now} onChange=${(/** @type {any} */ event) => onChange(event.target.value)}>${knob.choices.map((/** @type {string} */ word) => html`<option value=${word} selected=${word === now}>${word}</option>`)}</select><//>`;
  const isNumber = knob.type === "int" || knob.type === "float";
  const low = knob.minimum ?? (knob.type === "int" ? 1 : null);
  const isSmall = isNumber && low !== null && knob.maximum !== null && knob.usual !== null && knob.maximum - low <= 1_100 && knob.name !== "seed";
  if (isSmall) {
    const high = Math.min(knob.maximum, Math.max(4 * Math.abs(knob.usual || 1), low + 4));
    return html`<div><${Slider} label=${label} value=${now} min=${low} max=${high} step=${knob.type === "int" ? 1 : (high - low) / 100} shown=${knob.type === "int" ? String(now) : String(+Number(now).toPrecision(3))} onInput=${(/** @type {number} */ number) => onChange(knob.type === "int" ? number : +number.toPrecision(4))} /><small>${knob.help}</small></div>`;
  }
  if (isNumber) return html`<${Field} label=${label} hint=${knob.help}><input type="number" step=${knob.type === "int" ? 1 : "any"} value=${now ?? ""} onChange=${(/** @type {any} */ event) => onChange(event.target.value === "" ? "" : Number(event.target.value))} /><//>`;
  if (Array.isArray(knob.usual)) return html`<${Field} label=${label} hint=${knob.help}><input class="code-field" value=${now.join(", ")} onChange=${(/** @type {any} */ event) => { const made = event.target.value.split(/[ ,]+/).filter(Boolean).map(Number); onChange(made.length ? made : ""); }} /><//>`;
  return html`<${Field} label=${label} hint=${knob.help}><input class="code-field" value=${now ?? ""} onChange=${(/** @type {any} */ event) => onChange(event.target.value)} /><//>`;
}
