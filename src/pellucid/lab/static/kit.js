// The few parts that every page is made of, and how the lab is asked. Text of the user's is only ever set as text.
// @ts-check
import { cloneElement, h, render } from "./vendor/preact.js";
import { useEffect, useLayoutEffect, useRef, useState, useMemo } from "./vendor/hooks.js";
import { signal, computed, effect, batch } from "./vendor/signals.js";
import htm from "./vendor/htm.js";

/** @type {(strings: TemplateStringsArray, ...values: any[]) => any} */
export const html = htm.bind(h);
export { batch, computed, effect, h, render, signal, useEffect, useLayoutEffect, useMemo, useRef, useState };

/** What the server refused, in its own words. */
export class LabError extends Error {
  /** @param {string} message @param {number} status @param {any} [details] */
  constructor(message, status, details) {
    super(message);
    this.status = status;
    this.details = details;
  }
}

/** Whether the lab still answers, and lets us in. @type {{ value: "open" | "closed" | "gone" }} */
export const door = signal("open");

/** @param {string} path @param {RequestInit} [options] @returns {Promise<any>} */
export async function ask(path, options) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    door.value = "gone";
    throw new LabError("The lab does not answer any more. Start it again: pellucid lab.", 0);
  }
  if (answer.status === 401) door.value = "closed";
  else if (door.value === "gone") door.value = "open";
  const said = answer.headers.get("content-type")?.startsWith("application/json") ? await answer.json() : await answer.text();
  if (!answer.ok) throw new LabError(said?.error?.message ?? "The lab could not answer.", answer.status, said?.error);
  return said;
}

/** @param {string} path @param {Record<string, any>} [query] @param {AbortSignal} [abort] */
export function get(path, query = {}, abort = undefined) {
  const words = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== undefined && value !== ""));
  return ask(words.size ? `${path}?${words}` : path, { signal: abort });
}

/** @param {string} path @param {any} [body] @param {AbortSignal} [abort] */
export function post(path, body = {}, abort = undefined) {
  const options = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal: abort };
  return ask(path, options);
}

/** Ask again whenever what it depends on changes; of several answers only the last counts.
 * @param {(abort: AbortSignal) => Promise<any>} question @param {any[]} depends @param {number} [wait] milliseconds of rest before it is asked
 * @returns {{ answer: any, error: LabError | null, busy: boolean }} */
export function useAnswer(question, depends, wait = 0) {
  const [state, setState] = useState({ answer: null, error: null, busy: true });
  useEffect(() => {
    const abort = new AbortController();
    setState((before) => ({ ...before, busy: true }));
    const timer = setTimeout(() => {
      question(abort.signal).then(
        (answer) => abort.signal.aborted || setState({ answer, error: null, busy: false }),
        (error) => {
          if (abort.signal.aborted || error.status === 409) return;
          setState((before) => ({ answer: before.answer, error, busy: false }));
        },
      );
    }, wait);
    return () => { clearTimeout(timer); abort.abort(); };
  }, depends);
  return state;
}

/** @param {number | string | null | undefined} value @param {number} [digits] */
export function fixed(value, digits = 4) {
  const number = Number(value);
  return value === null || value === undefined || !Number.isFinite(number) ? "not known" : number.toFixed(digits).replace("-", "−");
}
/** A few digits that count. @param {number} value @param {number} [digits] */
export const digits = (value, digits = 3) => Number(value).toPrecision(digits).replace("-", "−").replace("e-", "e−").replace("e+", "e");
/** A sentence of the terminal's begins small where it goes on a line; here it stands alone. @param {string} text */
export const sentence = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);
/** @param {number} share */
export const percent = (share) => (share >= 0.9995 ? "100 %" : share < 0.0005 && share > 0 ? "<0.1 %" : `${(100 * share).toFixed(1)} %`);
/** @param {number} n */
export const count = (n) => n.toLocaleString("en");
/** @param {number} seconds */
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "not known";
  if (seconds > 0 && seconds < 0.5) return "less than 1 s";
  if (seconds < 90) return `${Math.max(0, Math.round(seconds))} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 90 ? `${minutes} min` : `${(minutes / 60).toFixed(1)} h`;
}
/** @param {number} n */
export const bytes = (n) => (n < 1e3 ? `${n} B` : n < 1e6 ? `${(n / 1e3).toFixed(1)} kB` : `${(n / 1e6).toFixed(1)} MB`);

/** @param {{ error: LabError | null | undefined }} props */
export function ErrorNotice({ error }) {
  return error ? html`<p class="notice error" role="alert">${error.message}</p>` : null;
}

let nFields = 0;

/** One control with its label, and what is to be known of it. @param {{ label: string, children?: any, hint?: string }} props */
export function Field({ label, children, hint }) {
  const id = useMemo(() => `field-${(nFields += 1)}`, []);
  const about = hint ? { id, "aria-describedby": `${id}-hint` } : { id };
  return html`<div class="field"><label for=${id}><span>${label}</span></label>${cloneElement(children, about)}${hint ? html`<small id=${`${id}-hint`}>${hint}</small>` : null}</div>`;
}

/** @param {{ label: string, value: number, min: number, max: number, step: number, shown?: string, onInput: (value: number) => void, disabled?: boolean }} props */
export function Slider({ label, value, min, max, step, shown, onInput, disabled }) {
  return html`<label class="slider"><span>${label}</span><span class="reading">${shown ?? value}</span>
    <input type="range" min=${min} max=${max} step=${step} value=${value} disabled=${disabled} aria-label=${label} aria-valuetext=${shown ?? String(value)}
      onInput=${(/** @type {any} */ event) => onInput(Number(event.target.value))} /></label>`;
}

/** Tabs that arrow keys move between. @param {{ tabs: [string, string][], now: string, href?: (id: string) => string, onChoose: (id: string) => void, label: string }} props */
export function Tabs({ tabs, now, onChoose, label }) {
  /** @param {KeyboardEvent} event */
  const move = (event) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!step) return;
    event.preventDefault();
    const at = tabs.findIndex(([id]) => id === now);
    const [next] = tabs[(at + step + tabs.length) % tabs.length];
    onChoose(next);
    requestAnimationFrame(() => document.getElementById(`tab-${next}`)?.focus());
  };
  return html`<div class="tabs" role="tablist" aria-label=${label} onKeyDown=${move}>${tabs.map(([id, name]) => html`
    <button type="button" class="tab" role="tab" id=${`tab-${id}`} key=${id} aria-selected=${id === now} tabIndex=${id === now ? 0 : -1}
      aria-controls="panel" onClick=${() => onChoose(id)}>${name}</button>`)}</div>`;
}

/** A path that may be broken after its dots and lines, and nowhere else. @param {{ text: string }} props */
export const Code = ({ text }) => html`<code>${String(text).split(/(?<=[._/])/).map((part, i) => html`${i ? html`<wbr />` : null}${part}`)}</code>`;

/** A table of the terminal's. @param {{ table: any, label?: string }} props */
export function Table({ table, label }) {
  if (!table?.rows?.length) return null;
  const side = (/** @type {number} */ i) => (table.columns[i].side === "right" ? "right" : "");
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${label ?? "table"}><table>
    <thead><tr>${table.columns.map((/** @type {any} */ column, /** @type {number} */ i) => html`<th scope="col" class=${side(i)}>${column.heading || html`<span class="unseen">name</span>`}</th>`)}</tr></thead>
    <tbody>${table.rows.map((/** @type {any} */ row) => html`<tr class=${row.style}>${row.cells.map((/** @type {any} */ cell, /** @type {number} */ i) => i === 0
      ? html`<th scope="row" class=${side(i)}>${cell.is_code ? html`<${Code} text=${cell.text} />` : cell.text}</th>`
      : html`<td class=${`${side(i)} ${cell.style}`}>${cell.is_code ? html`<code>${cell.text}</code>` : cell.text}</td>`)}</tr>`)}</tbody></table></div>`;
}

/** A loss that falls, and what counting reaches as a dashed line. @param {{ values: number[], rule?: number | null, label: string }} props */
export function Sparkline({ values, rule, label }) {
  if (values.length < 2) return html`<div class="spark" aria-hidden="true"></div>`;
  const all = rule === null || rule === undefined ? values : [...values, rule];
  // The first losses of a network from nothing are far above all others; what matters is near the end.
  const low = Math.min(...all);
  const near = [...values].sort((a, b) => a - b)[Math.floor(values.length * 0.8)];
  const high = Math.max(low + 1e-9, Math.min(Math.max(...all), Math.max(near, rule ?? low) + 2 * (near - low)));
  const y = (/** @type {number} */ value) => 38 - 36 * ((Math.min(value, high) - low) / (high - low));
  const path = values.map((value, i) => `${i ? "L" : "M"}${((100 * i) / (values.length - 1)).toFixed(2)} ${y(value).toFixed(2)}`).join("");
  return html`<div class="spark"><svg viewBox="0 0 100 40" preserveAspectRatio="none" role="img" aria-label=${label}>
    ${rule === null || rule === undefined ? null : html`<line x1="0" x2="100" y1=${y(rule)} y2=${y(rule)} />`}<path d=${path} /></svg></div>`;
}

const LEAST_SCALE = 0.68; // of a picture beside other things: its smallest letters, of 12 pixels, stay above 8

/** A picture of figures/, as an image: it can hold no script, and its styles stay its own.
 * @param {{ src?: string, svg?: string, alt: string }} props */
export function Picture({ src, svg, alt }) {
  const url = useMemo(() => (svg ? URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" })) : src), [svg, src]);
  const [failed, setFailed] = useState("");
  const [least, setLeast] = useState(0);
  useEffect(() => () => { if (svg && url) URL.revokeObjectURL(url); }, [url]);
  useEffect(() => setFailed(""), [url]);
  const explain = () => { if (src) ask(src).catch((error) => setFailed(error.message)); };
  return failed ? html`<p class="notice">${failed}</p>`
    : html`<div class="picture" tabindex="0" role="group" aria-label=${alt}><img src=${url} alt=${alt} onError=${explain}
      style=${{ minWidth: `${least}px` }} onLoad=${(/** @type {any} */ event) => setLeast(Math.round(LEAST_SCALE * event.target.naturalWidth))} /></div>`;
}

/** @param {string} hash */
export function go(hash) {
  location.hash = hash;
}
