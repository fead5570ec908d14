// Train: pick or drop data, see what was inferred and why, how they divide, what the plan is; then start.
// @ts-check
import { ErrorNotice, Field, count, get, go, html, post, sentence, useAnswer, useState } from "../kit.js";
import { leftOut } from "../drop.js";
import { DataDrop, DataTile } from "./home.js";

/** @param {{ words: string[] }} props */
export function Train({ words }) {
  const [where, name] = words;
  return where && name ? html`<${Prepare} where=${where} name=${name} key=${`${where}/${name}`} />` : html`<${Pick} />`;
}

function Pick() {
  const [error, setError] = useState(/** @type {any} */ (null));
  const found = useAnswer((abort) => get("/api/data", {}, abort), []);
  return html`<div class="head"><h1>Train a network</h1><p class="quiet">Of your own data, or of a set that comes along.</p></div>
    <${ErrorNotice} error=${error ?? found.error} />
    <${DataDrop} onError=${setError} />
    <section class="section"><h2>Or pick</h2><div class="cards">${(found.answer?.data ?? []).map((/** @type {any} */ one) => html`<${DataTile} one=${one} key=${one.where + one.name} />`)}</div></section>`;
}

/** Values that were left empty are not asked for. @param {Record<string, any>} options */
const given = (options) => Object.fromEntries(Object.entries(options).filter(([, value]) => value !== "" && value !== null && value !== undefined));

/** @param {{ where: string, name: string }} props */
function Prepare({ where, name }) {
  const [options, setOptions] = useState(/** @type {Record<string, any>} */ ({}));
  const [run, setRun] = useState("");
  const [error, setError] = useState(/** @type {any} */ (null));
  const [starting, setStarting] = useState(false);
  const [plan, setPlan] = useState(/** @type {any} */ (null));
  const [split, setSplit] = useState(/** @type {any} */ (null));
  const set = (/** @type {string} */ option, /** @type {any} */ value) => {
    // What was chosen for one kind of data says nothing of another.
    setOptions((before) => (option === "kind" ? given({ ...before, kind: value, model: "", target: "", tokens: "", task: "", image_size: "", colour: "" }) : { ...before, [option]: value }));
    setPlan(null);
    setSplit(null);
    setError(null);
  };
  const read = given({ target: options.target, kind: options.kind, model: options.model, tokens: options.tokens, task: options.task, image_size: options.image_size, colour: options.colour, from_run: options.from_run });
  const reading = JSON.stringify(read);
  const asked = { where, name, options: read };
  const seen = useAnswer((abort) => post("/api/train/preview", asked, abort), [where, name, reading], 100);
  const choices = useAnswer((abort) => get("/api/train/choices", {}, abort), []);
  const home = useAnswer((abort) => get("/api/home", {}, abort), []);
  const data = seen.answer; // of the last that could be read: what is chosen can be chosen otherwise
  const isRead = data && !seen.error;
  const offered = (choices.answer ?? []).filter((/** @type {any} */ one) => one.name !== "minutes" && one.name !== "kind" && (!one.kinds.length || one.kinds.includes(data?.kind)) && (one.name !== "tokens" || ["list", "text"].includes(data?.kind)));
  const kinds = (choices.answer ?? []).find((/** @type {any} */ one) => one.name === "kind")?.choices ?? [];
  const origins = (home.answer?.runs ?? []).filter((/** @type {any} */ card) => card.state === "finished" && card.kind === data?.kind);
  const target = options.target ?? (data?.is_proposed ? data.target : undefined);
  const body = { where, name, run, options: given({ ...options, target }) };
  const start = () => {
    setStarting(true);
    post("/api/train/start", body).then(({ run: made }) => go(`#/run/${encodeURIComponent(made)}`), (problem) => { setError(problem); setStarting(false); });
  };
  const measure = () => { setPlan({ busy: true }); post("/api/train/plan", body).then(setPlan, (problem) => { setPlan(null); setError(problem); }); };
  const divide = () => { if (!split) { setSplit({ text: "Looking at how it divides …" }); post("/api/train/split", body).then(setSplit, (problem) => setSplit({ text: problem.message })); } };
  const model = (data?.models ?? []).find((/** @type {any} */ one) => one.name === (options.model || data.model));
  return html`<div class="head"><p><a href="#/train">Other data</a></p><h1>${name.split("/").at(-1)}</h1></div>
    <${ErrorNotice} error=${error ?? seen.error} />
    <div class="two">
      <section class="section sheet"><h2>What it is</h2>
        ${where === "comes" ? null : html`<${Field} label="Kind of data" hint=${options.kind ? "As you say." : data ? `Inferred: ${data.kind}. Choose another if that is wrong.` : ""}><select value=${options.kind ?? ""} onChange=${(/** @type {any} */ event) => set("kind", event.target.value)}>
          <option value="">as inferred</option>${kinds.map((/** @type {string} */ kind) => html`<option value=${kind}>${kind}</option>`)}</select><//>`}
        ${data && !seen.error ? html`<ul class="stack" aria-live="polite">${data.lines.map((/** @type {string} */ line, /** @type {number} */ i) => html`<li>${i ? sentence(line) : line}</li>`)}</ul>
    ${leftOut.value.n && leftOut.value.name === name ? html`<p class="notice">${count(leftOut.value.n)} ${leftOut.value.n === 1 ? "file of the folder was" : "files of the folder were"} left out: no image, hidden, or in no class folder.</p>` : null}
          ${data.first.length ? html`<div class="stack"><h3>It begins</h3><div class="chips">${data.first.map((/** @type {string} */ text) => html`<span class="chip">${text}</span>`)}</div></div>` : null}
          ${data.columns.length ? html`<div class="stack"><h3>Columns</h3><div class="chips">${data.columns.map((/** @type {any} */ column) => html`<span class="chip">${column.name}: ${column.kind}</span>`)}</div></div>` : null}
          <details onToggle=${(/** @type {any} */ event) => { if (event.target.open) divide(); }}><summary>How it divides into train, dev and test</summary>
            <pre class="said" tabindex="0">${split?.text || (split ? "Lists, tables and pairs have a report; this divides by place." : "")}</pre></details>`
          : seen.busy ? html`<p class="quiet">Reading …</p>` : null}
      </section>
      <section class="section sheet"><h2>What learns it</h2>
        ${data ? html`<div class="fields">
          <${Field} label="Network"><select value=${options.model ?? data.model} onChange=${(/** @type {any} */ event) => set("model", event.target.value)}>
            ${data.models.map((/** @type {any} */ one) => html`<option value=${one.name} selected=${one.name === (options.model || data.model)}>${one.name}</option>`)}</select><//>
          ${data.columns.length ? html`<${Field} label="Column to predict" hint=${data.is_proposed ? "By its name, its values and its place the likeliest; choose another if it is not the one." : ""}><select value=${options.target ?? data.target} onChange=${(/** @type {any} */ event) => set("target", event.target.value)}>
            ${data.columns.map((/** @type {any} */ column) => html`<option value=${column.name} selected=${column.name === (options.target ?? data.target)}>${column.name}</option>`)}</select><//>` : null}
          <${Field} label="Minutes" hint=${options.steps ? "Steps decide." : ""}><input type="number" min="0.1" step="any" placeholder="2" value=${options.minutes ?? ""} disabled=${Boolean(options.steps)} onInput=${(/** @type {any} */ event) => set("minutes", event.target.value === "" ? "" : Number(event.target.value))} /><//>
        </div>${model ? html`<p class="quiet">${sentence(model.summary)}.</p>` : null}
        <details><summary>More choices</summary><div class="fields">
          ${offered.map((/** @type {any} */ one) => html`<${Choice} one=${one} value=${options[one.name]} onChange=${(/** @type {any} */ value) => set(one.name, value)} key=${one.name} />`)}
          ${origins.length ? html`<${Field} label="begin from" hint="A run whose network and weights to begin from (fine-tuning)."><select value=${options.from_run ?? ""} onChange=${(/** @type {any} */ event) => set("from_run", event.target.value)}>
            <option value="">nothing</option>${origins.map((/** @type {any} */ card) => html`<option value=${card.name}>${card.name}</option>`)}</select><//>` : null}
          <${Field} label="Name of the run"><input value=${run} placeholder="after data and network" onInput=${(/** @type {any} */ event) => setRun(event.target.value)} /><//></div></details>
        <div class="row"><button type="button" class="primary" disabled=${starting || !isRead} onClick=${start}>${starting ? "Starting …" : "Start training"}</button>
          <button type="button" disabled=${plan?.busy || !isRead} onClick=${measure}>${plan?.busy ? "Measuring a few steps …" : "Show the plan"}</button></div>
        ${plan?.lines ? html`<ul class="stack" aria-live="polite">${plan.lines.map((/** @type {string} */ line) => html`<li>${sentence(line)}</li>`)}</ul>` : null}`
        : null}
      </section>
    </div>`;
}

/** @param {{ one: any, value: any, onChange: (value: any) => void }} props */
function Choice({ one, value, onChange }) {
  const label = one.name.replaceAll("_", " ");
  if (one.choices.length) return html`<${Field} label=${label} hint=${one.help}><select value=${value ?? ""} onChange=${(/** @type {any} */ event) => onChange(event.target.value)}>
    <option value="">${one.is_reading ? "as usual" : "as the plan chooses"}</option>${one.choices.map((/** @type {string} */ word) => html`<option value=${word}>${word}</option>`)}</select><//>`;
  const isNumber = one.type === "int" || one.type === "float";
  return html`<${Field} label=${label} hint=${one.help}><input type=${isNumber ? "number" : "text"} step=${one.type === "int" ? 1 : "any"} min=${one.minimum ?? undefined} value=${value ?? ""}
    placeholder="as the plan chooses" onInput=${(/** @type {any} */ event) => onChange(event.target.value === "" ? "" : isNumber ? Number(event.target.value) : event.target.value)} /><//>`;
}
