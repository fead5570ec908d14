// X-ray: an nn.Sequential as it is typed, with its shapes, what disagrees, and what it costs.
// @ts-check
import { ErrorNotice, Field, count, html, post, useAnswer, useState } from "../kit.js";

const FIRST = "nn.Sequential(\n  nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2),\n  nn.Flatten(),\n  nn.Linear(120, 10),\n)";
const EXAMPLES = /** @type {[string, string][]} */ ([["a mismatch", FIRST], ["MLP", "nn.Sequential(nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 10))"], ["transformer layer", "nn.TransformerEncoderLayer(64, 4, batch_first=True)"], ["LSTM", "nn.LSTM(16, 32, batch_first=True)"]]);

export function Xray() {
  const [model, setModel] = useState(FIRST);
  const [input, setInput] = useState("");
  const found = useAnswer((abort) => post("/api/xray", { model, input }, abort), [model, input], 220);
  const seen = found.answer;
  const most = (/** @type {string} */ field) => Math.max(1, ...(seen?.rows ?? []).map((/** @type {any} */ row) => row[field]));
  return html`<div class="head"><h1>X-ray</h1><p class="quiet">Shapes, parameters and FLOPs of a module while you type it; nothing of it is run as Python.</p></div>
    <div class="two"><section class="section">
        <${Field} label="Module"><textarea class="code-field" rows="9" spellcheck="false" value=${model} onInput=${(/** @type {any} */ event) => setModel(event.target.value)}></textarea><//>
        <div class="row"><div class="chips">${EXAMPLES.map(([name, text]) => html`<button type="button" class="chip" aria-pressed=${text === model} onClick=${() => setModel(text)}>${name}</button>`)}</div></div>
        <${Field} label="Shape of the input" hint="As 2,1,28,28 or 2,16:int; empty: guessed from the first layers."><input class="code-field" value=${input} placeholder="guessed" onInput=${(/** @type {any} */ event) => setInput(event.target.value)} /><//>
        <${ErrorNotice} error=${found.error} />
        ${found.error?.details?.column ? html`<pre aria-hidden="true">${model.split("\n").join(" ")}\n${" ".repeat(found.error.details.column - 1)}^</pre>` : null}
        ${seen ? html`<${Wrong} seen=${seen} onMend=${setModel} />` : null}
        ${seen && !seen.failure && !found.error ? html`<ul class="stack">${seen.totals.map((/** @type {string} */ line) => html`<li>${line}</li>`)}${seen.notes.map((/** @type {string} */ line) => html`<li class="quiet">${line}</li>`)}</ul>` : null}
      </section>
      <section class="sheet" aria-busy=${found.busy}><div class="head-row"><h2>How shapes flow</h2><small>${seen ? `${count(seen.parameters)} parameters` : ""}</small></div>
        ${seen ? html`<ol class="flow">${seen.rows.map((/** @type {any} */ row) => html`<li class=${`layer ${seen.failure && row.path === seen.failure.path ? "wrong" : ""}`}>
          <div><div class="name">${row.path || "whole"} <small>${row.kind}</small></div><div class="shape">${row.inputs.join(", ") || "not called"}${row.outputs.length ? ` → ${row.outputs.join(", ")}` : ""}</div></div>
          <div><div class="meter"><div class="bar"><div style=${{ width: `${(100 * row.parameters) / most("parameters")}%` }}></div></div><span class="right">${count(row.parameters)}</span></div>
          <div class="meter flops"><div class="bar"><div style=${{ width: `${(100 * row.flops) / most("flops")}%` }}></div></div><span class="right">${count(row.flops)}</span></div></div></li>`)}</ol>
          <p class="after"><small>Blue: its own parameters. Orange: its own FLOPs, counted as torch dispatched them. Shapes: b batch, c channels, h height, w width, t time, f features.</small></p>` : html`<p class="quiet">${found.busy ? "Loading torch, once …" : ""}</p>`}
      </section></div>`;
}

/** @param {{ seen: any, onMend: (text: string) => void }} props */
function Wrong({ seen, onMend }) {
  const { failure } = seen;
  return html`<div aria-live="polite" class="stack">${seen.mistakes.map((/** @type {any} */ one) => html`<div class="notice error"><p>${one.description}.</p><pre>${one.excerpt}</pre><p>${one.fix}.</p></div>`)}
    ${failure ? html`<div class="notice error stack" role="alert"><p><b>${failure.sentence}.</b></p>
      <dl class="stack">${[["fed", `${failure.fed}${failure.origin ? `, ${failure.origin}` : ""}`], ["wanted", failure.wanted], ["torch says", failure.torch]].filter(([, says]) => says).map(([name, says]) => html`<div><dt class="quiet">${name}</dt><dd style=${{ margin: 0 }}><code>${says}</code></dd></div>`)}</dl>
      ${failure.chain.length ? html`<details open><summary>The way of the shapes</summary><ol class="stack">${failure.chain.map((/** @type {any} */ one) => html`<li><code>${one.text}</code></li>`)}</ol></details>` : null}</div>
      ${failure.repairs.length ? html`<div class="notice good stack"><p><b>Tried, and it works</b></p><ul class="stack">${failure.repairs.map((/** @type {string} */ text) => html`<li><code>${text}</code></li>`)}</ul>
        ${seen.mended ? html`<p><button type="button" class="small" onClick=${() => onMend(seen.mended)}>Mend it</button></p>` : null}</div>` : null}` : null}</div>`;
}
