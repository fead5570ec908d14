// Derive: an expression, its inputs to drag, and the graph to walk through.
// @ts-check
import { ErrorNotice, Field, fixed, html, post, sentence, useAnswer, useEffect, useState } from "../kit.js";
import { Walk } from "../graph.js";

const FIRST = { expression: "1/(1+exp(-(w0*x0+w1*x1+w2)))", values: { w0: 2, x0: -1, w1: -2, x1: -2, w2: -3 } };
const EXAMPLES = ["1/(1+exp(-(w0*x0+w1*x1+w2)))", "x^2 + 3*x", "logsumexp(z)", "a = x*y; a + sin(a)", "relu(w*x + b)^2"];
const VECTORS = /** @type {Record<string, number[]>} */ ({ z: [2, 1, 0.1] });

/** @param {{ words: string[] }} props */
export function Derive({ words }) {
  const sent = words[0] === "unit" ? JSON.parse(sessionStorage.getItem("derive") ?? "null") : null;
  const [expression, setExpression] = useState(sent?.expression ?? FIRST.expression);
  const [values, setValues] = useState(/** @type {Record<string, any>} */ (sent?.values ?? FIRST.values));
  const [at, setAt] = useState(0);
  const [chosen, setChosen] = useState("");
  const found = useAnswer((abort) => post("/api/derive", { expression, values }, abort), [expression, JSON.stringify(values)], 60);
  const seen = found.answer;
  useEffect(() => { setAt(0); }, [expression]);
  useEffect(() => { setCopied(""); }, [seen?.latex]);
  const names = seen?.names ?? [];
  const set = (/** @type {string} */ name, /** @type {any} */ value) => setValues((before) => ({ ...before, [name]: value }));
  const nudged = seen?.curves?.[chosen] ? chosen : Object.keys(seen?.curves ?? {})[0];
  const [copied, setCopied] = useState("");
  const copy = () => navigator.clipboard.writeText(seen.latex).then(() => setCopied("Copied."), () => setCopied("The browser does not let us; mark it and press Ctrl-C."));
  return html`<div class="head"><h1>Derive</h1><p class="quiet">Every derivative, step by step, each beside one that was measured.</p></div>
    ${sent ? html`<p class="notice">One unit of a network: ${sent.from}. The network itself put out ${fixed(sent.measured, 6)}; the graph below makes it again.</p>` : null}
    <div class="stack"><${Field} label="Expression"><input class="code-field" spellcheck="false" autocomplete="off" value=${expression} onInput=${(/** @type {any} */ event) => setExpression(event.target.value)} /><//>
      <div class="chips">${EXAMPLES.map((text) => html`<button type="button" class="chip" aria-pressed=${text === expression} onClick=${() => { setValues((before) => ({ ...VECTORS, ...(text === FIRST.expression ? FIRST.values : before) })); setExpression(text); }}>${text}</button>`)}</div></div>
    <${ErrorNotice} error=${found.error} />
    ${found.error?.details?.column ? html`<pre aria-hidden="true">${expression}\n${" ".repeat(found.error.details.column - 1)}^</pre>` : null}
    ${seen ? html`<div class="two narrow-left"><section class="section">
        <div class="sheet stack"><h2>Value</h2><div class="figures">${seen.outputs.map((/** @type {any} */ one) => html`<span class="figure"><b data-testid="value">${one.shown}</b><span>${one.name}</span></span>`)}</div>
          ${names.map((/** @type {string} */ name) => html`<${Input} key=${name} name=${name} value=${values[name] ?? 1} gradient=${seen.checks.filter((/** @type {any} */ check) => check.variable === name || check.variable.startsWith(`${name}[`))} onChange=${(/** @type {any} */ value) => set(name, value)} onChoose=${() => setChosen(name)} />`)}
          ${seen.guessed.length ? html`<small>${seen.guessed.join(", ")} had no value and ${seen.guessed.length > 1 ? "have" : "has"} 1.</small>` : null}</div>
        ${nudged ? html`<div class="sheet stack"><h2>Nudge ${nudged}</h2>${Object.keys(seen.curves).length > 1 ? html`<div class="chips">${Object.keys(seen.curves).map((name) => html`<button type="button" class="chip" aria-pressed=${name === nudged} onClick=${() => setChosen(name)}>${name}</button>`)}</div>` : null}
          <${Nudge} name=${nudged} curve=${seen.curves[nudged]} /><p class="quiet">${sentence(seen.checks.find((/** @type {any} */ check) => check.variable === nudged)?.effect ?? "")}</p></div>` : null}
      </section>
      <section class="section"><${Walk} derivation=${seen} at=${at} onAt=${setAt} />
        <div class="sheet stack"><h2>Gradients, beside central differences</h2><div class="scroll" tabindex="0" role="region" aria-label="Gradients"><table><thead><tr><th scope="col">input</th><th scope="col" class="right">value</th><th scope="col" class="right">gradient</th><th scope="col" class="right">measured</th><th scope="col" class="right">disagreement</th></tr></thead>
          <tbody>${seen.checks.slice(0, 60).map((/** @type {any} */ check) => html`<tr><th scope="row">${check.variable}</th><td class="right">${check.value}</td><td class="right">${check.shown}</td><td class="right">${check.measured_shown}</td><td class="right">${check.disagreement === null ? "not known" : Number(check.disagreement).toExponential(1)}</td></tr>`)}</tbody></table></div>
          ${seen.notes.map((/** @type {string} */ note) => html`<p class="notice">${note}</p>`)}
          <details><summary>LaTeX</summary><div class="stack"><div class="row"><button type="button" class="small" onClick=${copy}>Copy</button><small role="status">${copied}</small></div><pre class="said" tabindex="0">${seen.latex}</pre></div></details></div></section></div>` : null}`;
}

/** @param {{ name: string, value: any, gradient: any[], onChange: (value: any) => void, onChoose: () => void }} props */
function Input({ name, value, gradient, onChange, onChoose }) {
  if (Array.isArray(value)) {
    return html`<${Field} label=${`${name}, ${value.length} numbers`}><input class="code-field" value=${value.map((one) => +one.toPrecision(6)).join(", ")} onChange=${(/** @type {any} */ event) => { const made = event.target.value.split(/[ ,]+/).filter(Boolean).map(Number); if (made.length && made.every(Number.isFinite)) onChange(made); }} /><//>`;
  }
  const span = Math.max(3, Math.abs(value) * 1.5);
  return html`<div class="field"><span class="head-row"><b class="mono">${name}</b><small>gradient ${gradient[0]?.shown ?? "not known"}</small></span>
    <div class="row" style=${{ flexWrap: "nowrap" }}><input type="range" aria-label=${`${name}, dragged`} min=${-span} max=${span} step="any" value=${value} onFocus=${onChoose} onInput=${(/** @type {any} */ event) => onChange(+Number(event.target.value).toPrecision(4))} />
      <input type="number" step="any" aria-label=${name} value=${value} style=${{ width: "6.5rem" }} onFocus=${onChoose} onInput=${(/** @type {any} */ event) => { if (event.target.value !== "") onChange(Number(event.target.value)); }} /></div></div>`;
}

/** The value over one input, the tangent that the gradient is, and where we stand. @param {{ name: string, curve: any }} props */
function Nudge({ name, curve }) {
  const points = curve.x.map((/** @type {number} */ x, /** @type {number} */ i) => [x, curve.y[i]]).filter((/** @type {any} */ [, y]) => typeof y === "number");
  if (points.length < 2) return html`<p class="quiet">Nothing to draw there.</p>`;
  const xs = points.map((/** @type {number[]} */ point) => point[0]), ys = points.map((/** @type {number[]} */ point) => point[1]);
  const [left, right] = [Math.min(...xs), Math.max(...xs)];
  let [low, high] = [Math.min(...ys), Math.max(...ys)];
  if (high - low < 1e-12) { low -= 1; high += 1; }
  const X = (/** @type {number} */ x) => 30 + (290 * (x - left)) / (right - left);
  const Y = (/** @type {number} */ y) => 150 - (130 * (y - low)) / (high - low);
  const path = points.map((/** @type {number[]} */ [x, y], /** @type {number} */ i) => `${i ? "L" : "M"}${X(x).toFixed(1)} ${Y(y).toFixed(1)}`).join("");
  const at = (/** @type {number} */ x) => Y(curve.value + curve.slope * (x - curve.at));
  return html`<svg class="nudge" viewBox="0 0 340 178" role="img" aria-label=${`value over ${name}: ${fixed(curve.value)} at ${fixed(curve.at)}, slope ${fixed(curve.slope)}`}>
    <clipPath id="nudge-clip"><rect x="30" y="4" width="290" height="148" /></clipPath><line class="axis" x1="30" x2="320" y1="150" y2="150" /><path d=${path} />
    ${Number.isFinite(curve.slope) ? html`<path class="tangent" d=${`M${X(left)} ${at(left).toFixed(1)}L${X(right)} ${at(right).toFixed(1)}`} clip-path="url(#nudge-clip)" />` : null}
    <circle cx=${X(curve.at)} cy=${Y(curve.value)} r="5" />
    <text x="30" y="168">${left.toPrecision(3)}</text><text x="320" y="168" text-anchor="end">${right.toPrecision(3)}</text><text x="175" y="168" text-anchor="middle">${name} = ${curve.at}, slope ${Number(curve.slope).toPrecision(4)}</text></svg>`;
}
