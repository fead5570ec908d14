// The graph of a derivation, walked through forward and backward with keys; the page of `pellucid derive --html` in the lab.
// @ts-check
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./kit.js";

// Only graphs need it, so the first page does not wait for it; before the lab's own sheet, which has the last word.
const style = Object.assign(document.createElement("link"), { rel: "stylesheet", href: "/static/graph.css" });
document.head.prepend(style);

const UNKNOWN = "·"; // a gradient that no step has reached yet

/** The stops of the walk: the whole, what is given, each node, the seed, each edge. @param {any} steps */
function stopsOf(steps) {
  const back = steps.outputs.at(-1);
  /** @type {any[]} */
  const made = [{ kind: "whole" }, { kind: "given" }];
  steps.forward.forEach((/** @type {any} */ step, /** @type {number} */ i) => made.push({ kind: "forward", step, number: i + 1 }));
  if (back.n_steps) made.push({ kind: "seed" });
  back.steps.forEach((/** @type {any} */ step) => made.push({ kind: "backward", step }));
  return { stops: made, back };
}

/** @param {{ derivation: any, at: number, onAt: (at: (before: number) => number) => void }} props */
export function Walk({ derivation, at, onAt }) {
  const { stops, back } = useMemo(() => stopsOf(derivation.steps), [derivation]);
  const place = Math.min(at, stops.length - 1);
  const holder = useRef(/** @type {HTMLDivElement | null} */ (null));
  const [playing, setPlaying] = useState(false);
  const clamp = (/** @type {number} */ to) => Math.max(0, Math.min(stops.length - 1, to));
  const step = (/** @type {number} */ to) => onAt(() => clamp(to));
  // From where it is by then: keys may come faster than pictures.
  const move = (/** @type {number} */ by) => onAt((before) => clamp(Math.min(before, stops.length - 1) + by));
  useEffect(() => { paint(/** @type {HTMLDivElement} */ (holder.current), derivation, stops, back, place); }, [derivation, place]);
  // With the picture itself, not after it: a key pressed at first sight counts.
  useLayoutEffect(() => {
    /** @param {KeyboardEvent} event */
    const press = (event) => {
      const target = /** @type {HTMLElement} */ (event.target);
      if (event.ctrlKey || event.metaKey || event.altKey || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName)) return;
      const by = { ArrowRight: 1, ArrowLeft: -1, Home: -stops.length, End: stops.length }[event.key];
      if (by === undefined) return;
      event.preventDefault();
      setPlaying(false);
      move(by);
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  });
  useEffect(() => {
    if (!playing) return undefined;
    const timer = setTimeout(() => (place === stops.length - 1 ? setPlaying(false) : step(place + 1)), 1_300);
    return () => clearTimeout(timer);
  });
  const choose = (/** @type {any} */ event) => {
    const box = event.target.closest("[data-box]");
    const found = box && stops.findIndex((stop) => stop.kind === "forward" && stop.step.box === Number(box.dataset.box));
    if (found > 0) step(found);
  };
  // The markup is made by the server of escaped text alone, as every picture is.
  return html`<div class="stack"><div class="graph" tabindex="0" role="region" aria-label="The graph" ref=${holder} onClick=${choose} dangerouslySetInnerHTML=${{ __html: derivation.svg }}></div>
    <div class="row"><div class="row" role="group" aria-label="Walk">
      <button type="button" aria-label="To the start" disabled=${place === 0} onClick=${() => step(0)}>|◀</button>
      <button type="button" aria-label="One step back" disabled=${place === 0} onClick=${() => step(place - 1)}>◀</button>
      <button type="button" onClick=${() => setPlaying(!playing)}>${playing ? "pause" : "play"}</button>
      <button type="button" aria-label="One step on" disabled=${place === stops.length - 1} onClick=${() => step(place + 1)}>▶</button>
      <button type="button" aria-label="To the end" disabled=${place === stops.length - 1} onClick=${() => step(stops.length - 1)}>▶|</button></div>
      <small>${place} of ${stops.length - 1}; keys <kbd>←</kbd> <kbd>→</kbd> <kbd>Home</kbd> <kbd>End</kbd></small></div>
    <div class="sheet step-card" role="status" aria-live="polite"><${Stop} stop=${stops[place]} back=${back} steps=${derivation.steps} /></div></div>`;
}

/** @param {{ stop: any, back: any, steps: any }} props */
function Stop({ stop, back, steps }) {
  const output = back.name === "output" ? "the output" : back.name;
  if (stop.kind === "whole") return html`<h2>Every value and every gradient</h2><p class="quiet">${back.n_steps ? "Walk forward to see each number made, then backward to see each gradient handed on." : "The output depends on no input, so there is no way back."}</p>
    <p class="quiet">Orange: raise it and ${output} rises. Blue: it falls. On each arrow: the local slope.</p>`;
  if (stop.kind === "given") return html`<h2>What is given</h2><p class="equation">${steps.given.map((/** @type {[string, string]} */ [name, value]) => `${name} = ${value}`).join(", ") || "Every number stands in the expression."}${steps.given_more ? ` and ${steps.given_more} more` : ""}</p>`;
  if (stop.kind === "forward") return html`<p class="quiet">Forward, ${stop.number} of ${steps.forward.length + steps.forward_left_out}</p><h2>${stop.step.name} is made</h2><p class="equation">${stop.step.name} = ${stop.step.names} = ${stop.step.numbers} = <b>${stop.step.value}</b></p>`;
  if (stop.kind === "seed") return html`<p class="quiet">Backward begins</p><h2>Start at ${back.node}</h2><p class="equation">gradient of ${back.node} = <b>${back.seed}</b></p><p class="quiet">${output} moves exactly as much as itself. From here each number hands its gradient back to what it was made from.</p>`;
  const s = stop.step, why = steps.sentences[s.why];
  return html`<p class="quiet">Backward, ${s.number} of ${back.n_steps}</p><h2>From ${s.node} back to ${s.parent}</h2>
    <div class="product"><div><b>${s.upstream}</b><span>gradient of ${s.node}</span></div> × <div><b>${s.slope}</b><span>local slope toward ${s.parent}</span></div> = <div><b>${s.contribution}</b><span>for ${s.parent}</span></div></div>
    <p>${s.uses ? `${s.parent} is used ${s.uses} times, and the contributions add up; use ${s.use}, sum so far ${s.sum}.` : `gradient of ${s.parent} = ${s.sum}`}</p><p class="quiet">${why.slice(0, 1).toUpperCase()}${why.slice(1)}.</p>`;
}

/** The picture at a stop: what is made so far, what each gradient has come to, and where we are.
 * @param {HTMLDivElement} holder @param {any} derivation @param {any[]} stops @param {any} back @param {number} at */
function paint(holder, derivation, stops, back, at) {
  const stop = stops[at];
  const boxes = /** @type {SVGGElement[]} */ ([...holder.querySelectorAll("[data-box]")]);
  const wires = /** @type {SVGGElement[]} */ ([...holder.querySelectorAll("[data-wire]")]);
  boxes.sort((a, b) => Number(a.dataset.box) - Number(b.dataset.box));
  wires.sort((a, b) => Number(a.dataset.wire) - Number(b.dataset.wire));
  const made = new Set(), onTheWay = new Set(), sums = new Map(), handed = new Set(), reached = new Set();
  stops.forEach((other, i) => {
    if (other.kind === "forward") { onTheWay.add(other.step.box); if (i <= at) made.add(other.step.box); }
    if (other.kind === "seed" && i <= at) sums.set(back.box, [back.seed, back.tints[back.box]]);
    if (other.kind === "backward") { reached.add(other.step.to); if (i <= at) { sums.set(other.step.to, [other.step.sum, other.step.tint]); handed.add(other.step.wire); } }
  });
  const isWhole = stop.kind === "whole" || at === stops.length - 1;
  const isForward = stop.kind === "given" || stop.kind === "forward";
  boxes.forEach((box, i) => {
    box.classList.toggle("ahead", isForward && onTheWay.has(i) && !made.has(i) && !box.classList.contains("fold"));
    box.classList.remove("now", "from");
    const gradient = box.querySelector(".gradient"), strip = box.querySelector(".strip");
    if (!gradient || !strip || back.gradients[i] === null) return;
    const [text, tint] = isWhole ? [back.gradients[i], back.tints[i]] : sums.get(i) ?? [UNKNOWN, "none"];
    gradient.textContent = text;
    strip.setAttribute("class", `strip ${tint}`);
  });
  wires.forEach((wire, i) => {
    const kept = wire.classList.contains("still") ? " still" : "";
    wire.setAttribute("class", `wire ${isWhole || handed.has(i) ? back.wires[i] : "none"}${kept}`);
  });
  /** @type {Element | undefined} */
  let focus;
  if (stop.kind === "forward") focus = boxes[stop.step.box];
  if (stop.kind === "seed") focus = boxes[back.box];
  if (stop.kind === "backward") {
    wires[stop.step.wire]?.classList.add("now");
    boxes[stop.step.from]?.classList.add("from");
    focus = boxes[stop.step.to];
  }
  if (!focus) return;
  focus.classList.add("now");
  const view = holder.getBoundingClientRect(), seen = focus.getBoundingClientRect();
  if (seen.left >= view.left + 30 && seen.right <= view.right - 30 && seen.top >= view.top + 8 && seen.bottom <= view.bottom - 8) return;
  holder.scrollTo({ left: holder.scrollLeft + seen.left - view.left - (view.width - seen.width) / 2, top: holder.scrollTop + seen.top - view.top - (view.height - seen.height) / 2, behavior: "instant" });
}
