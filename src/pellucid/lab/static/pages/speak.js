// Speak: the decoding tree, the beam, samples with where they may come from, and the surprise of any text.
// @ts-check
import { ErrorNotice, Field, Slider, fixed, get, go, html, percent, post, sentence, useAnswer, useState } from "../kit.js";

const COLUMN = 132, ROW = 34;

/** @param {{ words: string[] }} props */
export function Speak({ words }) {
  const home = useAnswer((abort) => get("/api/home", {}, abort), []);
  const runs = (home.answer?.runs ?? []).filter((/** @type {any} */ card) => ["list", "text"].includes(card.kind) && (card.state === "finished" || card.step > 0));
  const run = words[0] ?? runs[0]?.name;
  return html`<div class="head"><h1>Speak</h1><p class="quiet">What might come next, at every place; click to walk another way.</p></div>
    <${ErrorNotice} error=${home.error} />
    ${home.answer && !run ? html`<p>No run of a list or a text yet. <a href="#/train/comes/names">Train one on names</a>.</p>` : null}
    ${run ? html`<${Tree} run=${run} runs=${runs} key=${run} /><${Surprise} run=${run} runs=${runs} key=${`${run} surprise`} />` : null}`;
}

/** @param {{ run: string, runs: any[] }} props */
function Tree({ run, runs }) {
  const [prompt, setPrompt] = useState("");
  const [path, setPath] = useState(/** @type {number[]} */ ([]));
  const [temperature, setTemperature] = useState(1);
  const [topK, setTopK] = useState(0);
  const [topP, setTopP] = useState(1);
  const [beam, setBeam] = useState(0);
  const [seed, setSeed] = useState(/** @type {number | null} */ (null));
  const facts = useAnswer((abort) => get(`/api/runs/${encodeURIComponent(run)}/speaker`, {}, abort), [run]);
  const asked = { run, prompt, path, temperature, top_k: topK, top_p: topP, beam, seed };
  const tree = useAnswer((abort) => post("/api/speak/tree", asked, abort), [JSON.stringify(asked)]);
  const most = Math.min(50, facts.answer?.vocab_size ?? 27);
  const seen = tree.answer;
  return html`<section class="two narrow-left"><div class="sheet stack stay">
      <${Field} label="Run"><select value=${run} onChange=${(/** @type {any} */ event) => go(`#/speak/${encodeURIComponent(event.target.value)}`)}>${runs.map((one) => html`<option value=${one.name} selected=${one.name === run}>${one.name}</option>`)}</select><//>
      <${Field} label="Beginning"><input class="code-field" value=${prompt} autocomplete="off" spellcheck="false" onInput=${(/** @type {any} */ event) => { setPrompt(event.target.value); setPath([]); }} /><//>
      <${Slider} label="Temperature" value=${temperature} min=${0} max=${2} step=${0.05} shown=${temperature === 0 ? "0, the likeliest" : temperature.toFixed(2)} onInput=${setTemperature} />
      <${Slider} label="Top-k" value=${topK} min=${0} max=${most} step=${1} shown=${topK ? String(topK) : "all"} disabled=${temperature === 0} onInput=${setTopK} />
      <${Slider} label="Top-p" value=${topP} min=${0.05} max=${1} step=${0.01} shown=${topP === 1 ? "all" : topP.toFixed(2)} disabled=${temperature === 0} onInput=${setTopP} />
      <${Slider} label="Beam width" value=${beam} min=${0} max=${12} step=${1} shown=${beam ? String(beam) : "no beam"} onInput=${setBeam} />
      <div class="row"><button type="button" class=${seed === null ? "" : "primary"} onClick=${() => { setPath([]); setSeed((before) => (before === null ? 0 : before + 1)); }}>Draw another</button>
        <button type="button" disabled=${seed === null && !path.length} onClick=${() => { setSeed(null); setPath([]); }}>Take the likeliest</button></div>
      <small>${seed === null ? "It goes on by the likeliest token." : `Drawn with seed ${seed}.`}</small></div>
    <div class="section"><${ErrorNotice} error=${tree.error ?? facts.error} />
      ${seen ? html`<div class="sheet flush"><div class="tree" tabindex="0" role="region" aria-label="The decoding tree"><${Levels} levels=${seen.levels} path=${path} onWalk=${(/** @type {number[]} */ chosen) => { setPath(chosen); }} /></div></div>
        <p><b class="mono" data-testid="decoded">${seen.text}</b> <span class="quiet">costs ${fixed(seen.nats, 2)} nats after its beginning, a probability of ${Math.exp(-seen.nats).toPrecision(3)}.${seen.levels.some((/** @type {any} */ level) => level.branches.some((/** @type {any} */ one) => one.is_end)) ? " The sign · is the end." : ""}</span></p>
        ${seen.beam ? html`<${Beam} beam=${seen.beam} />` : null}` : html`<p class="quiet">${tree.busy ? "Loading the network, once …" : ""}</p>`}
      <${Samples} run=${run} prompt=${prompt} temperature=${temperature} topK=${topK} topP=${topP} /></div></section>`;
}

/** @param {{ levels: any[], path: number[], onWalk: (path: number[]) => void }} props */
function Levels({ levels, path, onWalk }) {
  const rows = Math.max(1, ...levels.map((level) => level.branches.length));
  const chosenRow = levels.map((level) => level.branches.findIndex((/** @type {any} */ one) => one.token === level.chosen));
  const tokens = levels.map((level) => level.chosen);
  const middle = (/** @type {number} */ row) => row * ROW + 14;
  return html`<div class="tree-inner" style=${{ width: `${levels.length * COLUMN}px`, height: `${rows * ROW + 40}px` }}>
    <svg width=${levels.length * COLUMN} height=${rows * ROW} aria-hidden="true">${levels.slice(1).flatMap((level, i) => level.branches.map((/** @type {any} */ _, /** @type {number} */ row) => {
      const x = i * COLUMN + 106, to = (i + 1) * COLUMN, from = middle(chosenRow[i]), end = middle(row);
      return html`<path class=${row === chosenRow[i + 1] ? "on" : ""} d=${`M${x} ${from}C${x + 16} ${from} ${to - 16} ${end} ${to} ${end}`} />`;
    }))}</svg>
    ${levels.map((level, i) => html`${level.branches.map((/** @type {any} */ one, /** @type {number} */ row) => html`<button type="button" key=${`${i}-${one.token}`} class=${`branch ${one.token === level.chosen ? "chosen" : ""} ${one.bent === 0 ? "masked" : ""}`}
        style=${{ left: `${i * COLUMN}px`, top: `${row * ROW}px` }} aria-pressed=${one.token === level.chosen}
        aria-label=${`place ${i + 1}: ${one.text} ${percent(one.bent)}${one.is_end ? ", the end" : ""}`} title=${`${one.is_end ? "the end" : one.text}: ${percent(one.share)} as the model has it, ${percent(one.bent)} as bent`}
        onClick=${() => onWalk([...tokens.slice(0, i), one.token])}><span class="fill" style=${{ width: `${100 * one.bent}%` }}></span><span>${one.text}</span> <span class="share">${percent(one.bent)}</span></button>`)}
      <div class="level-foot" style=${{ left: `${i * COLUMN}px`, top: `${level.branches.length * ROW}px` }}>${level.n_others ? `${level.n_others} others ${percent(level.others_bent)}` : ""} ${level.entropy_bits.toFixed(1)} bits</div>`)}
    ${path.length ? null : null}</div>`;
}

/** Everything that the beam looked at: what it found, what died on the way, what was cut at once. @param {{ beam: any }} props */
function Beam({ beam }) {
  const levels = Math.max(0, ...beam.nodes.map((/** @type {any} */ node) => node.level)) + 1;
  /** @type {number[]} */
  const filled = new Array(levels).fill(0);
  const places = beam.nodes.map((/** @type {any} */ node) => ({ x: 70 + node.level * 96, y: 22 + 30 * filled[node.level]++ }));
  const height = 30 * Math.max(...filled) + 14;
  return html`<div class="sheet stack"><h2>The beam</h2>
    <ol class="row">${beam.found.map((/** @type {[string, number]} */ [text, probability], /** @type {number} */ i) => html`<li><span class=${`badge ${i ? "running" : "finished"}`}>${text || "(empty)"} ${probability.toPrecision(2)}</span></li>`)}</ol>
    <div class="beam" tabindex="0" role="region" aria-label="The beam's tree"><svg width=${90 + levels * 96} height=${height} role="img" aria-label=${`${beam.nodes.length} candidates over ${levels} steps; the best is ${beam.found[0]?.[0]}`}>
      ${beam.nodes.map((/** @type {any} */ node, /** @type {number} */ i) => { const to = places[i], from = node.parent < 0 ? { x: 4, y: 22 } : places[node.parent]; return html`<path class=${node.fate} d=${`M${from.x + (node.parent < 0 ? 0 : 62)} ${from.y}C${to.x - 20} ${from.y} ${to.x - 24} ${to.y} ${to.x} ${to.y}`} />`; })}
      ${beam.nodes.map((/** @type {any} */ node, /** @type {number} */ i) => html`<g class=${node.fate}><title>${node.text}: ${node.probability.toPrecision(3)}, ${node.fate}</title><rect x=${places[i].x} y=${places[i].y - 12} width="64" height="24" rx="5" /><text x=${places[i].x + 7} y=${places[i].y + 5}>${node.text}</text><text x=${places[i].x + 58} y=${places[i].y + 5} text-anchor="end">${node.probability >= 0.01 ? node.probability.toFixed(2) : node.probability.toExponential(0)}</text></g>`)}</svg></div>
    <small>Green: the best. Blue: also finished. Dashed: kept for a while, and all that came of it died. Grey: cut at once.</small></div>`;
}

/** @param {{ run: string, prompt: string, temperature: number, topK: number, topP: number }} props */
function Samples({ run, prompt, temperature, topK, topP }) {
  const [seed, setSeed] = useState(0);
  const asked = { run, prompt, temperature, top_k: topK, top_p: topP, seed, count: 6 };
  const found = useAnswer((abort) => post("/api/speak/samples", asked, abort), [JSON.stringify(asked)], 300);
  const seen = found.answer;
  return html`<div class="sheet stack"><div class="head-row"><h2>Samples, and where they come from</h2><button type="button" class="small" onClick=${() => setSeed(seed + 1)}>Others</button></div>
    <${ErrorNotice} error=${found.error} />
    ${seen ? html`${seen.drawing ? html`<p class="quiet">${sentence(seen.drawing)}.</p>` : null}<ul>${seen.samples.map((/** @type {any} */ one) => html`<li class="sample"><span class="row"><span class="text"><${Copied} text=${one.text} span=${one.provenance.copied} /></span>${one.provenance.where ? html`<span class=${`badge ${one.provenance.where === "new" ? "sound" : "suspicious"}`}>${one.provenance.where === "new" ? "new" : `in ${one.provenance.where}`}</span>` : null}</span>
      <small>${sentence(one.words)}${one.provenance.where === "new" ? `; nearest in train ${one.provenance.nearest}, ${one.provenance.distance} edit${one.provenance.distance === 1 ? "" : "s"} away` : ""}; ${fixed(one.nats, 2)} nats in all.</small>
      ${one.provenance.n_sharing ? html`<details><summary><small>${sharing(one.provenance)} “${one.provenance.copied}”</small></summary><div class="chips">${one.provenance.sharing.map((/** @type {string} */ item) => html`<span class="chip"><${Copied} text=${item} span=${one.provenance.copied} /></span>`)}</div></details>` : null}</li>`)}</ul>` : null}</div>`;
}

/** How many of train have the part that was copied: items of a list, places of a text. @param {any} provenance */
function sharing({ n_sharing, where }) {
  const noun = where ? "item" : "place";
  return n_sharing === 1 ? `1 ${noun} of train has` : `${n_sharing} ${noun}s of train have`;
}

/** A text in which the part that was copied is marked. @param {{ text: string, span: string }} props */
function Copied({ text, span }) {
  const at = span ? text.indexOf(span) : -1;
  return at < 0 ? html`${text}` : html`${text.slice(0, at)}<mark>${span}</mark>${text.slice(at + span.length)}`;
}

/** @param {{ run: string, runs: any[] }} props */
function Surprise({ run, runs }) {
  const [text, setText] = useState("");
  const [other, setOther] = useState("");
  const [chosen, setChosen] = useState(/** @type {any} */ (null));
  const asked = { runs: [run, other].filter(Boolean), text };
  const found = useAnswer((abort) => (text ? post("/api/speak/surprise", asked, abort) : Promise.resolve(null)), [JSON.stringify(asked)], 250);
  return html`<section class="sheet stack"><h2>Surprise, letter by letter</h2>
    <div class="two"><${Field} label="Any text"><input class="code-field" value=${text} placeholder="emma" onInput=${(/** @type {any} */ event) => setText(event.target.value)} /><//>
      <${Field} label="Beside it"><select value=${other} onChange=${(/** @type {any} */ event) => setOther(event.target.value)}><option value="">nothing</option>${runs.filter((one) => one.name !== run).map((one) => html`<option value=${one.name}>${one.name}</option>`)}</select><//></div>
    <${ErrorNotice} error=${text ? found.error : null} />
    <div class="two">${(text ? found.answer?.runs ?? [] : []).map((/** @type {any} */ one) => html`<div class="stack"><p><b>${one.run}</b>: ${fixed(one.mean)} nats a token, ${fixed(one.nats, 2)} in all</p>
      <div class="surprise">${one.surprises.map((/** @type {any} */ letter, /** @type {number} */ i) => html`<button type="button" class="letter" key=${i} style=${{ "--heat": Math.min(1, (letter.nats === "inf" ? 9 : letter.nats) / 6) }} aria-label=${`${letter.token}: ${fixed(letter.nats, 2)} nats`} onFocus=${() => setChosen(letter)} onMouseEnter=${() => setChosen(letter)} onClick=${() => setChosen(letter)}>${letter.token === " " ? "␣" : letter.token === "\n" ? "↵" : letter.token}</button>`)}</div></div>`)}</div>
    ${chosen && text ? html`<p class="quiet" role="status">“${chosen.token}” after “${chosen.context}”: ${fixed(chosen.nats, 3)} nats, ${percent(chosen.probability)}, place ${chosen.rank}; expected “${chosen.expected}”${chosen.counted === undefined || chosen.counted === null ? "" : `; counting alone gives it ${percent(chosen.counted)}`}.</p>` : null}</section>`;
}
