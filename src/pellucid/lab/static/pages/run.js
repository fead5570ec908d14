// One run: how it learns, what is inside, its mistakes, single numbers, the doctor, its report and its files.
// @ts-check
import { Code, ErrorNotice, Field, Picture, Table, Tabs, bytes, count, digits, duration, fixed, get, go, html, percent, post, sentence, useAnswer, useEffect, useRef, useState } from "../kit.js";
import { Drop } from "../drop.js";
import { useRun } from "../follow.js";
import { Curves, blocks, together } from "../curves.js";

/** @typedef {import("../follow.js").Followed} Followed */

const TABS = /** @type {[string, string][]} */ ([["learning", "Learning"], ["inside", "Inside"], ["mistakes", "Mistakes"], ["numbers", "Numbers"], ["doctor", "Doctor"], ["report", "Report"], ["export", "Export"]]);

const MOST_NUMBERS = 16; // of a row of weights or of an input that are told beside its symbol

/** @param {{ words: string[] }} props */
export function RunPage({ words }) {
  const [name, tab = "learning", ...rest] = words;
  const live = useRun(name);
  const now = live.value;
  const whole = useAnswer((abort) => (now.run ? get(`/api/runs/${encodeURIComponent(name)}`, {}, abort) : Promise.resolve(null)), [name, now.state, Boolean(now.run)]);
  const [error, setError] = useState(/** @type {any} */ (null));
  const ending = whole.answer?.ending;
  const act = (/** @type {string} */ what) => post(`/api/runs/${encodeURIComponent(name)}/${what}`).then(() => setError(null), setError);
  const address = (/** @type {string} */ id) => `#/run/${encodeURIComponent(name)}/${id}`;
  const props = { name, now, ending, whole: whole.answer, rest, address };
  const isBegun = Boolean(now.run);
  return html`<div class="head"><div class="head-row"><h1>${name}</h1>
      <div class="row">${now.state ? html`<span class=${`badge ${now.state}`}>${now.state}</span>` : null}
        ${now.state === "running" && isBegun ? html`<button type="button" onClick=${() => act("stop")}>Stop</button>` : null}
        ${now.state === "stopped" ? html`<button type="button" class="primary" onClick=${() => act("resume")}>Resume</button>` : null}
        ${isBegun && ["list", "text"].includes(now.run.kind) ? html`<a class="button" href=${`#/speak/${encodeURIComponent(name)}`}>Speak</a>` : null}</div></div>
      ${isBegun ? html`<p class="quiet">${now.run.model} of ${count(now.run.parameters)} parameters. ${now.run.data[0]}</p>` : null}
</div>
    <${ErrorNotice} error=${error ?? whole.error} />
    ${!isBegun ? html`<${BeforeTheFolder} now=${now} />` : html`
      <${Tabs} label="Parts of the run" tabs=${TABS} now=${tab} onChoose=${(/** @type {string} */ id) => go(address(id))} />
      <div id="panel" role="tabpanel" aria-labelledby=${`tab-${tab}`} class="section">
        ${tab === "learning" ? html`<${Learning} ...${props} />` : tab === "inside" ? html`<${Inside} ...${props} />` : tab === "mistakes" ? html`<${Mistakes} ...${props} />`
          : tab === "numbers" ? html`<${Numbers} ...${props} />` : tab === "doctor" ? html`<${Doctor} ...${props} />` : tab === "report" ? html`<${Report} ...${props} />` : html`<${Export} ...${props} />`}
      </div>`}`;
}

/** @param {{ now: Followed }} props */
function BeforeTheFolder({ now }) {
  if (now.state === "nowhere") return html`<p class="notice">There is no run of this name. <a href="#/">All runs</a></p>`;
  if (now.state === "failed" || now.state === "damaged") return html`<div class="notice error" role="alert"><pre>${now.said.trim().split("\n").slice(-4).join("\n")}</pre></div>`;
  return html`<p class="quiet" role="status">Reading, dividing and counting the data; the network comes next.</p>${now.said ? html`<pre class="said" tabindex="0">${now.said}</pre>` : null}`;
}

/** @param {{ now: Followed, ending: any, name: string, address: (id: string) => string, whole: any }} props */
function Learning({ now, ending, name, address, whole }) {
  const { metrics, evaluations, timings, plan, samples } = now;
  const last = metrics.at(-1), timing = timings.at(-1), step = last?.step ?? 0;
  const measure = now.baselines?.measure ?? whole?.baselines?.measure ?? { side: "dev", loss: "nats", metric: "" };
  const simple = (now.baselines?.rungs ?? []).filter((/** @type {any} */ rung) => typeof rung.dev === "number").sort((/** @type {any} */ a, /** @type {any} */ b) => a.dev - b.dev).slice(0, 3);
  const train = blocks(metrics, (row) => row.loss, 40);
  const finite = evaluations.filter((one) => typeof one.dev === "number" || typeof one.train === "number");
  const judged = finite.map((one) => (typeof one.dev === "number" ? one.dev : one.train));
  const ends = [0, Math.max(step, plan?.steps ?? 0)];
  const span = nearTheEnd(judged, simple.map((/** @type {any} */ rung) => rung.dev), train.y);
  // What lies above the picture is in the ladder; the key names what can be seen.
  const rules = simple.filter((/** @type {any} */ rung) => !span || rung.dev <= span[1]).map((/** @type {any} */ rung, /** @type {number} */ i) => ({ name: rung.name, x: ends, y: [rung.dev, rung.dev], colour: ["--orange", "--violet", "--quiet"][i], dash: [6, 4], width: 1.4 }));
  const loss = together([{ name: "train", x: train.x, y: train.y, colour: "--strong-line", width: 1.2 }, { name: `loss on ${measure.side}`, x: finite.map((one) => one.step), y: judged, colour: "--blue", width: 2.6 }, ...rules]);
  const rate = blocks(metrics, (row) => row.learning_rate);
  const norm = blocks(metrics, (row) => row.gradient_norm);
  // By the run's own clock; before it has told a time, by how fast the steps arrive here.
  const firstSeen = useRef(/** @type {{ step: number, at: number } | null} */ (null));
  if (!firstSeen.current && step) firstSeen.current = { step, at: Date.now() };
  const arrived = step - (firstSeen.current?.step ?? step);
  const pace = timing?.step ? timing.seconds / timing.step : arrived ? (Date.now() - (firstSeen.current?.at ?? 0)) / 1000 / arrived : NaN;
  const left = plan && step ? pace * (plan.steps - step) : NaN;
  const isRunning = now.state === "running";
  return html`${plan && now.state !== "finished" ? html`<div class="stack" role="status">
      <div class="bar" aria-hidden="true"><div style=${{ width: `${(100 * step) / Math.max(1, plan.steps)}%` }}></div></div>
      <p>Step ${count(step)} of ${count(plan.steps)}${!isRunning ? ", stopped" : Number.isFinite(left) ? `, about ${duration(left)} left` : ""}${timing ? `; ${count(Math.round(timing.tokens_per_second))} ${measure.one ?? "token"}s a second` : ""}</p></div>` : null}
    ${ending ? html`<div class="two wide-right"><div class="stack sheet"><h2>What it came to</h2><p>${ending.headline}</p><p>${sentence(ending.verdict)}</p><p>${sentence(ending.ending)}</p>${ending.accuracy ? html`<p>${ending.accuracy}</p>` : null}</div>
      <div class="stack sheet"><h2>The ladder</h2><${Table} table=${ending.ladder} label="The ladder" /></div></div>` : null}
    <div class="sheet stack"><div class="head-row"><h2>Loss</h2><small>Drag across to zoom, double-click to see all.</small></div>
      <${Curves} label=${`Loss over ${count(step)} steps`} x=${loss.x} series=${loss.series} height=${340} range=${span} /></div>
    <${Lights} now=${now} address=${address} />
    <div class="two">
      <div class="sheet stack"><h2>Samples on the way</h2><ol class="stack">${samples.slice(-6).reverse().map((at) => html`<li key=${at.step}><small>step ${count(at.step)}</small><div class="chips">${at.texts.map((/** @type {string} */ text) => html`<span class="chip">${text || "(empty)"}</span>`)}</div></li>`)}</ol>
        ${samples.length ? null : html`<p class="quiet">None yet.</p>`}</div>
      <div class="sheet stack"><h2>Learning rate</h2><${Curves} label="Learning rate over steps" x=${rate.x} series=${[{ name: "learning rate", values: rate.y, colour: "--blue" }]} height=${150} />
        <h2>Size of all gradients</h2><${Curves} label="Norm of the gradients over steps" x=${norm.x} series=${[{ name: "gradient norm", values: norm.y, colour: "--orange" }]} height=${150} /></div></div>
    ${ending?.samples ? html`<div class="sheet stack"><h2>Samples at the end</h2><${Table} table=${ending.samples} label="Samples" /><p class="quiet">${ending.tally}.</p></div>` : null}
    ${ending?.texts?.length ? html`<div class="sheet stack"><h2>It writes</h2>${ending.texts.map((/** @type {string} */ text) => html`<pre class="said" tabindex="0">${text}</pre>`)}</div>` : null}
    <details class="sheet"><summary>What it is made with</summary><div class="stack"><ul class="stack">${[...now.run.data, ...now.run.plan].map((line) => html`<li>${line}</li>`)}</ul>
      ${now.run.command.length ? html`<p><code>${now.run.command.join(" ")}</code></p>` : null}</div></details>
    <span class="unseen">${name}</span>`;
}

/** From where to where the losses are drawn: what is decided near the end is seen, the first steps may leave the picture.
 * @param {number[]} judged @param {number[]} rules @param {number[]} train @returns {[number, number] | undefined} */
function nearTheEnd(judged, rules, train) {
  const all = [...judged, ...rules, ...train].filter(Number.isFinite);
  if (judged.length < 2 || !all.length) return undefined;
  const low = Math.min(...judged, ...rules.slice(0, 1)), last = judged[judged.length - 1];
  const reach = Math.max(last, rules[0] ?? last, ...judged.slice(-Math.ceil(judged.length * 0.8))) - low;
  const pad = Math.max(0.02, 0.25 * reach);
  return [low - pad, Math.max(low + pad, Math.min(Math.max(...all), low + 2 * reach + pad))];
}

/** The layer that a finding speaks of, if it speaks of one. @param {string} where @param {string[]} paths */
const layerOf = (where, paths) => paths.filter((path) => where === path || where.includes(path)).sort((a, b) => b.length - a.length)[0];

/** @param {{ now: Followed, address: (id: string) => string, chosen?: string }} props */
function Lights({ now, address, chosen }) {
  const look = now.health.at(-1);
  if (!look) return null;
  const paths = look.layers.map((/** @type {any} */ layer) => layer.path);
  const findings = [...now.health_findings, ...now.findings];
  const grave = (/** @type {string} */ path) => {
    const about = findings.filter((one) => layerOf(one.where, paths) === path).map((one) => one.severity);
    return about.includes("broken") ? "broken" : about.includes("suspicious") ? "suspicious" : "sound";
  };
  const spoken = findings.filter((one) => one.severity !== "sound");
  return html`<div class="sheet stack"><div class="head-row"><h2>Health</h2><small>At step ${count(look.step)}; each light opens its layer.</small></div>
    <div class="lights">${paths.map((/** @type {string} */ path) => html`<button type="button" key=${path} class=${`light small ${grave(path)}`} aria-pressed=${chosen === path} aria-label=${`${path}: ${grave(path)}`}
      onClick=${() => go(address(`inside/${encodeURIComponent(path)}`))}>${path}</button>`)}</div>
    ${spoken.map((one) => html`<div class="notice"><p><span class=${`badge ${one.severity}`}>${one.severity}</span> <b>${one.where}</b>: ${one.seen}</p><p class="quiet">${one.means}${one.try_next ? `; ${one.try_next}` : ""}</p></div>`)}</div>`;
}

/** @param {{ of: { low: number, high: number, counts: number[] }, kind?: string, label: string }} props */
function Histogram({ of, kind = "", label }) {
  const most = Math.max(1, ...of.counts), width = 300 / of.counts.length;
  const zero = of.low < 0 && of.high > 0 ? (300 * -of.low) / (of.high - of.low) : null;
  return html`<svg class=${`histogram ${kind}`} viewBox="0 0 300 132" preserveAspectRatio="none" role="img" aria-label=${label}>
    ${of.counts.map((n, i) => html`<rect x=${i * width} width=${Math.max(0.5, width - 0.6)} y=${112 - 108 * (n / most)} height=${108 * (n / most)} />`)}
    ${zero === null ? null : html`<line x1=${zero} x2=${zero} y1="0" y2="112" />`}</svg>
    <div class="ends"><small>${digits(of.low)}</small><small>${digits(of.high)}</small><small>${label}</small></div>`;
}

/** @param {{ now: Followed, ending: any, name: string, rest: string[], address: (id: string) => string }} props */
function Inside({ now, ending, name, rest, address }) {
  const looks = now.health;
  const [at, setAt] = useState(-1);
  const look = looks.at(at) ?? looks.at(-1);
  const chosen = rest[0] ?? look?.layers[0]?.path;
  const layer = look?.layers.find((/** @type {any} */ one) => one.path === chosen) ?? look?.layers[0];
  const over = (/** @type {string} */ field) => looks.map((one) => one.layers.find((/** @type {any} */ each) => each.path === layer?.path)?.[field] ?? null).map((value) => (typeof value === "number" ? value : null));
  const steps = looks.map((one) => one.step);
  const hasAttention = now.run.heads > 0;
  return html`<${Lights} now=${now} address=${address} chosen=${layer?.path} />
    ${layer ? html`<div class="two"><div class="sheet stack"><h2><${Code} text=${layer.path || "the whole"} /> ${layer.kind}</h2>
        ${looks.length > 1 ? html`<${Field} label=${`Look at step ${count(look.step)}`}><input type="range" min="0" max=${looks.length - 1} value=${at < 0 ? looks.length - 1 : at} aria-valuetext=${`step ${look.step}`} onInput=${(/** @type {any} */ event) => setAt(Number(event.target.value))} /><//>` : null}
        <${Histogram} of=${layer.values} label=${`activations: mean ${fixed(layer.mean, 3)}, deviation ${fixed(layer.deviation, 3)}`} />
        <${Histogram} of=${layer.gradients} kind="gradients" label=${`gradients: deviation ${Number(layer.gradient_deviation).toExponential(2)}`} />
        <p class="quiet">${count(layer.width)} units, ${count(layer.examples)} values of each${layer.saturated === null ? "" : `; ${(100 * layer.saturated).toFixed(1)} % saturated`}${layer.always_zero === null ? "" : `; ${layer.always_zero} always zero`}.</p>
        ${ending ? html`<p><a href=${address(`numbers/${encodeURIComponent(layer.path)}`)}>Its formula and its numbers, one by one</a></p>` : null}</div>
      <div class="sheet stack"><h2>Over time</h2><${Curves} label="Deviation of the activations over time" x=${steps} series=${[{ name: "deviation of activations", values: over("deviation"), colour: "--blue" }]} height=${170} />
        <${Curves} label="Deviation of the gradients over time" x=${steps} series=${[{ name: "deviation of gradients", values: over("gradient_deviation"), colour: "--orange" }]} height=${170} /></div></div>
      <details class="sheet"><summary>All layers as a table</summary><${Table} label="All layers" table=${layersTable(look)} /></details>` : html`<p class="quiet">No look inside yet.</p>`}
    ${ending && hasAttention ? html`<${Attention} name=${name} now=${now} />` : null}
    ${ending ? html`<section class="section"><h2>Pictures</h2><div class="pictures">${ending.figures.inside.map((/** @type {string} */ figure) => html`<${Picture} key=${figure} src=${`/api/runs/${encodeURIComponent(name)}/figures/${figure}`} alt=${figure.replaceAll("-", " ")} />`)}</div></section>` : null}`;
}

/** @param {any} look */
const layersTable = (look) => ({
  columns: [{ heading: "layer", side: "left" }, { heading: "kind", side: "left" }, { heading: "deviation", side: "right" }, { heading: "gradient", side: "right" }],
  rows: look.layers.map((/** @type {any} */ one) => ({ style: "", cells: [one.path || "the whole", one.kind, fixed(one.deviation, 3), Number(one.gradient_deviation).toExponential(1)].map((text, i) => ({ text, style: "", is_code: i === 0 })) })),
});

/** @param {{ name: string, now: Followed }} props */
function Attention({ name, now }) {
  const isImage = now.run.kind === "images";
  const [text, setText] = useState(beginning(now.run.first?.[0], 24));
  const [settled, setSettled] = useState(text);
  const [layer, setLayer] = useState(1);
  const [head, setHead] = useState(1);
  const [error, setError] = useState(/** @type {any} */ (null));
  useEffect(() => { const timer = setTimeout(() => setSettled(text), 350); return () => clearTimeout(timer); }, [text]);
  const base = `/api/runs/${encodeURIComponent(name)}/figures`;
  const query = new URLSearchParams(Object.entries({ input: settled }).filter(([, value]) => value));
  const take = (/** @type {any} */ kept) => { setText(`dropped:${kept.name}`); setError(null); };
  if (isImage && now.run.model !== "vit") return null;
  return html`<section class="section"><h2>Attention</h2><${ErrorNotice} error=${error} />
    ${isImage ? html`<${Drop} onKept=${take} onError=${setError} accept="image/*"><p>Drop an image to see what each patch looks at; until then it reads the first of its data.</p><//>
      <div class="pictures"><${Picture} src=${`${base}/patch-attention?${text ? query : ""}`} alt="attention of the patches" /><${Picture} src=${`${base}/vit-positions`} alt="likeness of the learned positions" /></div>`
      : html`<div class="fields"><${Field} label="What it reads"><input value=${text} onInput=${(/** @type {any} */ event) => setText(event.target.value)} /><//>
        <${Field} label="Layer"><select value=${layer} onChange=${(/** @type {any} */ event) => setLayer(Number(event.target.value))}>${range(now.run.depth).map((n) => html`<option value=${n}>${n}</option>`)}</select><//>
        <${Field} label="Head"><select value=${head} onChange=${(/** @type {any} */ event) => setHead(Number(event.target.value))}>${range(now.run.heads).map((n) => html`<option value=${n}>${n}</option>`)}</select><//></div>
      <div class="section"><${Picture} src=${`${base}/attention-graph?${new URLSearchParams({ ...Object.fromEntries(query), layer: String(layer), head: String(head) })}`} alt=${`attention of layer ${layer}, head ${head}, on ${settled}`} />
        <${Picture} src=${`${base}/attention-maps?${query}`} alt=${`attention of every head on ${settled}`} /></div>`}</section>`;
}
/** Something to read at first: of the first example its first line, without what is blank before it, as of a title in the middle of its line.
 * @param {string | undefined} example @param {number} length */
const beginning = (example, length) => (example ?? "").trim().replace(/^(\\n|\s)+/, "").split("\\n")[0].slice(0, length);
/** @param {number} n */
const range = (n) => Array.from({ length: Math.max(1, n) }, (_, i) => i + 1);

/** @param {{ ending: any, name: string }} props */
function Mistakes({ ending, name }) {
  if (!ending) return html`<p class="quiet">It is known when the run has ended.</p>`;
  const { answers, figures } = ending;
  if (!answers) return html`<p>${ending.accuracy}</p>${ending.has_tokens ? html`<${TokenMistakes} name=${name} />` : html`<p class="quiet">A model that only counts learned nothing that could be looked at here; the surprise of any text is under <a href=${`#/speak/${encodeURIComponent(name)}`}>Speak</a>.</p>`}`;
  return html`<ul class="stack">${answers.lines.map((/** @type {string} */ line) => html`<li>${line}</li>`)}</ul>
    ${answers.tables.map((/** @type {any} */ table) => html`<div class="sheet"><${Table} table=${table} label="Metrics" /></div>`)}
    <div class="pictures">${figures.mistakes.map((/** @type {string} */ figure) => html`<${Picture} key=${figure} src=${`/api/runs/${encodeURIComponent(name)}/figures/${figure}`} alt=${figure.replaceAll("-", " ")} />`)}</div>
    ${answers.examples ? html`<div class="sheet stack"><h2>Answers, one by one</h2><${Table} table=${answers.examples} label="Answers" /></div>` : null}`;
}

/** What surprised a network of a list or a text most, token by token. @param {{ name: string }} props */
function TokenMistakes({ name }) {
  const { answer, error, busy } = useAnswer((abort) => get(`/api/runs/${encodeURIComponent(name)}/mistakes`, {}, abort), [name]);
  if (!answer) return html`<${ErrorNotice} error=${error} />${busy ? html`<p class="quiet" role="status">The network reads dev again.</p>` : null}`;
  const noun = answer.kind === "list" ? "items" : "stretches";
  return html`${answer.lines.map((/** @type {string} */ line) => html`<p>${line}</p>`)}
    <section class="sheet stack"><h2>What surprised it most</h2>
      <p class="quiet">The ${count(answer.parts.length)} ${noun} with the most nats a token. Under each token its surprise in nats, then the token that was likeliest in its place, where that is another.</p>
      <ol class="stack">${answer.parts.map((/** @type {any} */ part) => html`<li class="stack"><p><b>${fixed(part.nats)}</b> nats a token, ${count(part.n_tokens)} tokens${part.n_before ? html`; after <code>${part.before}</code>, ${count(part.n_before)} ${part.n_before === 1 ? "token" : "tokens"} read before it` : null}${part.n_tokens > part.tokens.length ? `; the first ${count(part.tokens.length)}` : ""}</p>
        <div class="surprise">${part.tokens.map((/** @type {any} */ one, /** @type {number} */ i) => html`<span class="letter over" key=${i} style=${{ "--heat": Math.min(1, one.nats / 6) }} title=${`${one.label}: ${fixed(one.nats, 3)} nats; likeliest ${one.likeliest_label} with ${percent(one.confidence)}`}><b>${one.label}</b><small>${fixed(one.nats, 2)}</small><small>${one.likeliest === one.token ? "✓" : one.likeliest_label}</small></span>`)}</div></li>`)}</ol></section>
    <div class="two wide-right"><section class="sheet stack"><h2>Most often confused</h2><${Table} table=${answer.confusion_table} label="Most often confused" /></section>
      <section class="section"><${Picture} svg=${answer.svg} alt="calibration of the likeliest token" /></section></div>
    <p class="quiet">The same numbers in a terminal: <code>pellucid draw calibration ${name} --json</code>. The surprise of any text is under <a href=${`#/speak/${encodeURIComponent(name)}`}>Speak</a>.</p>`;
}

/** @param {{ ending: any, name: string, rest: string[], now: Followed, address: (id: string) => string }} props */
function Numbers({ name, now, rest, address }) {
  const isText = ["list", "text"].includes(now.run.kind);
  const [text, setText] = useState(isText ? beginning(now.run.first?.[0], 12) : "");
  const path = rest[0] ?? "";
  const [cell, setCell] = useState(/** @type {{ row: number, unit: number } | null} */ (null));
  const base = `/api/runs/${encodeURIComponent(name)}`;
  const seen = useAnswer((abort) => get(`${base}/modules`, { text }, abort), [name, text], 300);
  const modules = seen.answer?.modules ?? [];
  // At first a layer of which one number has a graph worth walking through.
  const chosen = path || (modules.find((/** @type {any} */ one) => one.has_formula && one.kind === "Linear") ?? modules.find((/** @type {any} */ one) => one.has_formula))?.path || "";
  const table = useAnswer((abort) => (modules.length ? get(`${base}/numbers`, { text, path: chosen }, abort) : Promise.resolve(null)), [name, seen.answer, chosen]);
  const unit = useAnswer((abort) => (cell && modules.length ? get(`${base}/unit`, { text, path: chosen, row: cell.row, unit: cell.unit }, abort) : Promise.resolve(null)), [seen.answer, chosen, cell?.row, cell?.unit]);
  const open = (/** @type {any} */ written) => { sessionStorage.setItem("derive", JSON.stringify({ expression: written.expression, values: written.values, from: `${name}, ${chosen}, row ${written.row}, unit ${written.unit}`, measured: written.measured, symbols: written.symbols })); go("#/derive/unit"); };
  return html`<p>From a layer to one number of it, and from that number to the graph that makes it.</p>
    ${isText ? html`<div class="fields"><${Field} label="What the network reads"><input value=${text} onInput=${(/** @type {any} */ event) => { setText(event.target.value); setCell(null); }} /><//></div>` : html`<p class="quiet">It reads the first example of dev.</p>`}
    <${ErrorNotice} error=${seen.error ?? table.error} />
    <div class="two narrow-left"><div class="sheet stack"><h2>Modules</h2><div class="scroll" tabindex="0" role="region" aria-label="Modules" style=${{ maxHeight: "32rem", overflow: "auto" }}><ul>
      ${modules.map((/** @type {any} */ one) => html`<li key=${one.path}><button type="button" class="plain" style=${{ paddingLeft: `${0.4 + 0.8 * listedAbove(one.path, modules).length}rem`, textAlign: "left", fontWeight: one.path === chosen ? 700 : 400 }} aria-pressed=${one.path === chosen} onClick=${() => { go(address(`numbers/${encodeURIComponent(one.path)}`)); setCell(null); }}><code>${belowItsParent(one.path, modules) || "the whole"}</code> <small>${one.kind} ${one.output.join("×")}${one.has_formula ? html` <i title="it has a formula">ƒ</i>` : null}</small></button></li>`)}</ul></div>
      <small><i>ƒ</i>: it has a formula of one line; of the others look at the parts.</small></div>
    <div class="section">${table.answer ? html`<div class="sheet stack"><div class="head-row"><h2><${Code} text=${chosen || "the whole"} /></h2><span class="badge">${table.answer.kind}</span></div>
        ${table.answer.formula ? html`<p class="equation">${table.answer.formula}</p>` : html`<p class="quiet">No formula is known for this kind of layer; its parts may have one.</p>`}
        <h3>What it put out; choose a number</h3><${NumberGrid} table=${table.answer.made} chosen=${cell} onChoose=${table.answer.formula ? setCell : null} />
        ${table.answer.given ? html`<details><summary>What it read</summary><${NumberGrid} table=${table.answer.given} chosen=${null} onChoose=${null} /></details>` : null}</div>` : null}
      <${ErrorNotice} error=${unit.error} />
      ${unit.answer ? html`<div class="sheet stack"><h2>One unit</h2><p class="equation">${unit.answer.expression} = ${fixed(unit.answer.measured, 6)}</p>
        <ul class="stack">${Object.entries(unit.answer.symbols).map(([symbol, says]) => html`<li><code>${symbol}</code>: ${says}${Array.isArray(unit.answer.values[symbol]) ? html`, ${unit.answer.values[symbol].length} numbers: <code>${unit.answer.values[symbol].slice(0, MOST_NUMBERS).map((/** @type {number} */ one) => fixed(one, 3)).join(", ")}${unit.answer.values[symbol].length > MOST_NUMBERS ? ", …" : ""}</code>` : html` = ${fixed(unit.answer.values[symbol], 5)}`}</li>`)}</ul>
        <p><button type="button" class="primary" onClick=${() => open(unit.answer)}>Walk through its graph, forward and backward</button></p></div>` : null}</div></div>`;
}

/** The modules that a module is a part of, the nearest first; lists of blocks are never called, and so are not listed.
 * @param {string} path @param {any[]} modules */
const listedAbove = (path, modules) => modules.filter((one) => one.path && path.startsWith(`${one.path}.`)).sort((a, b) => b.path.length - a.path.length);

/** A path without that of the module it is shown under. @param {string} path @param {any[]} modules */
function belowItsParent(path, modules) {
  const [above] = listedAbove(path, modules);
  return above ? path.slice(above.path.length + 1) : path;
}

const MOVES = /** @type {Record<string, [number, number]>} */ ({ ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] });

/** Numbers to choose from: one stop of the Tab key, and arrow keys within. @param {{ table: any, chosen: any, onChoose: any }} props */
function NumberGrid({ table, chosen, onChoose }) {
  const columns = table.values[0]?.length ?? 0;
  const [at, setAt] = useState({ row: 0, unit: 0 });
  const now = { row: Math.min(at.row, table.rows.length - 1), unit: Math.min(at.unit, columns - 1) };
  const move = (/** @type {KeyboardEvent} */ event) => {
    const by = MOVES[event.key];
    if (!by || !onChoose) return;
    event.preventDefault();
    const to = { row: Math.max(0, Math.min(table.rows.length - 1, now.row + by[0])), unit: Math.max(0, Math.min(columns - 1, now.unit + by[1])) };
    setAt(to);
    /** @type {HTMLElement} */ (event.currentTarget).querySelectorAll("tbody tr")[to.row]?.querySelectorAll("button")[to.unit]?.focus();
  };
  return html`<div class="scroll numbers" tabindex=${onChoose ? undefined : "0"} role="region" aria-label=${onChoose ? "Numbers, with arrow keys" : "Numbers"} onKeyDown=${move}><table><thead><tr><th scope="col">row</th>${Array.from({ length: columns }, (_, i) => html`<th scope="col" class="right">${i}</th>`)}</tr></thead>
    <tbody>${table.rows.map((/** @type {string} */ row, /** @type {number} */ r) => html`<tr><th scope="row">${row === " " ? "␣" : row}</th>${table.values[r].map((/** @type {number} */ value, /** @type {number} */ u) => html`<td>${onChoose
      ? html`<button type="button" tabindex=${r === now.row && u === now.unit ? 0 : -1} aria-label=${`row ${r}, unit ${u}: ${fixed(value, 3)}`} aria-pressed=${chosen?.row === r && chosen?.unit === u} onFocus=${() => setAt({ row: r, unit: u })} onClick=${() => onChoose({ row: r, unit: u })}>${fixed(value, 3)}</button>` : fixed(value, 3)}</td>`)}</tr>`)}</tbody></table></div>
    ${table.n_columns > columns ? html`<small>The first ${columns} of ${count(table.n_columns)} columns.</small>` : null}`;
}

/** @param {{ ending: any, name: string }} props */
function Doctor({ ending, name }) {
  const [state, setState] = useState(/** @type {any} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const examine = () => { setState({ busy: true }); post(`/api/runs/${encodeURIComponent(name)}/doctor`).then(setState, (problem) => { setError(problem); setState(null); }); };
  const findings = state?.findings ?? ending?.findings ?? [];
  return html`<div class="head-row"><p>${state?.findings ? `${state.n_rules} rules were asked, in ${duration(state.seconds)}.` : "What was seen while it trained. The doctor proves more on its network and its own data."}</p>
      <button type="button" class="primary" disabled=${state?.busy || !ending} onClick=${examine}>${state?.busy ? "Examining …" : "Examine it"}</button></div>
    <${ErrorNotice} error=${error} />
    <ul class="stack">${findings.map((/** @type {any} */ one) => html`<li class="notice"><p><span class=${`badge ${one.severity}`}>${one.severity}</span> <b>${one.heading}</b></p>${one.advice ? html`<p class="quiet">${one.advice}</p>` : null}</li>`)}</ul>
    ${findings.length ? null : html`<p class="quiet">Nothing was found so far.</p>`}`;
}

/** @param {{ ending: any, name: string }} props */
function Report({ ending, name }) {
  if (!ending) return html`<p class="quiet">The report is written when the run has ended.</p>`;
  const base = `/api/runs/${encodeURIComponent(name)}`;
  return html`<div class="row"><a class="button" href=${`${base}/files/report.html`} download>Download the report</a></div>
    <iframe class="frame" src=${`${base}/report`} title="The report of this run" sandbox=""></iframe>`;
}

const FORMATS = /** @type {[string, string, string][]} */ ([
  ["torch", "PyTorch", "the network's own source in one readable file, its weights and a script; pellucid is not needed"],
  ["onnx", "ONNX", "one graph for ONNX Runtime, with the preparation of its inputs inside"],
  ["hf", "Hugging Face", "a folder that transformers loads without code of ours"],
  ["gguf", "GGUF", "one file for llama.cpp and Ollama"],
]);

/** @param {{ ending: any, name: string }} props */
function Export({ ending, name }) {
  const base = `/api/runs/${encodeURIComponent(name)}`;
  const [known, setKnown] = useState(/** @type {any} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const [isAlone, setIsAlone] = useState(false);
  const busy = known?.exports.find((/** @type {any} */ one) => one.state === "running");
  useEffect(() => {
    const abort = new AbortController();
    const timer = setTimeout(() => get(`${base}/exports`, {}, abort.signal).then(setKnown, (problem) => abort.signal.aborted || setError(problem)), busy ? 700 : 0);
    return () => { clearTimeout(timer); abort.abort(); };
  }, [name, busy ? known : null]);
  if (!ending) return html`<p class="quiet">There is something to take along when the run has ended.</p>`;
  const begin = (/** @type {string} */ to) => post(`${base}/exports`, { to, network_only: isAlone })
    .then((job) => { setError(null); setKnown((/** @type {any} */ now) => ({ ...now, exports: [...now.exports.filter((/** @type {any} */ one) => one.to !== to), job] })); }, setError);
  return html`<p>For other tools: each is written in a process of its own, loaded with the other tool and compared with the network before it is called done.</p>
    <${ErrorNotice} error=${error} />
    ${known?.has_counts ? html`<label class="check"><input type="checkbox" checked=${isAlone} onChange=${(/** @type {any} */ event) => setIsAlone(event.target.checked)} /><span>Leave the counts out (<code>--network-only</code>); what that costs is told</span></label>` : null}
    <div class="cards">${FORMATS.map(([to, title, what]) => html`<${ExportCard} key=${to} to=${to} title=${title} what=${what} base=${base} busy=${busy} begin=${begin}
      job=${known?.exports.find((/** @type {any} */ one) => one.to === to)} />`)}</div>
    <h2>The files of the run itself</h2>
    <p>Everything of a run is a file of its folder; nothing is pickled.</p>
    <div class="sheet"><div class="scroll"><table><thead><tr><th scope="col">file</th><th scope="col">what it holds</th><th scope="col" class="right">size</th></tr></thead><tbody>
    ${ending.files.map((/** @type {any} */ one) => html`<tr><th scope="row"><a href=${`/api/runs/${encodeURIComponent(name)}/files/${one.name}`} download>${one.name}</a></th><td>${one.what}</td><td class="right">${bytes(one.n_bytes)}</td></tr>`)}</tbody></table></div></div>
    <p class="quiet">The same in a terminal: <code>pellucid export ${name} --to onnx</code>, <code>--to hf</code>, <code>--to gguf</code> or <code>--to torch</code>.</p>`;
}

/** @param {{ to: string, title: string, what: string, base: string, busy: any, begin: (to: string) => void, job: any }} props */
function ExportCard({ to, title, what, base, busy, begin, job }) {
  return html`<section class="sheet stack" aria-label=${title}><div class="head-row"><h2>${title}</h2>
      <button type="button" disabled=${Boolean(busy)} onClick=${() => begin(to)}>${job?.state === "running" ? "Exporting …" : `Export to ${to}`}</button></div>
    <p class="quiet">${sentence(what)}.</p>
    ${job?.state === "running" ? html`<p role="status">Writing and checking, ${duration(job.seconds)} so far.</p>` : null}
    ${job?.state === "refused" ? html`<p class="notice error" role="alert">${job.problem}</p>` : null}
    ${job?.state === "finished" ? html`<p class="notice good" role="status">${job.says}</p>${job.notes.map((/** @type {string} */ note) => html`<p class="notice">${sentence(note)}</p>`)}
      <p><a class="button" href=${`${base}/exports/${to}.zip`} download>Download the zip (${bytes(job.n_bytes)})</a></p>
      <details><summary>${count(job.files.length)} files, and how to use them</summary><ul class="stack">${job.files.map((/** @type {any} */ one) => html`<li><code>${one.name}</code> <small>${bytes(one.n_bytes)}</small></li>`)}</ul>
        <pre class="said" tabindex="0">${job.use.join("\n")}</pre></details>` : null}</section>`;
}
