// Claims: the ledger with filters, and each claim with a button that runs it here.
// @ts-check
import { ErrorNotice, Field, Picture, Table, count, duration, get, html, post, sentence, useAnswer, useEffect, useState } from "../kit.js";

const VERDICTS = ["holds", "fails", "only when", "not decided", "not testable"];
const MOST = 80; // rows that are shown at once

/** @param {{ words: string[] }} props */
export function Claims({ words }) {
  const ledger = useAnswer((abort) => get("/api/claims", {}, abort), []);
  const [search, setSearch] = useState("");
  const [family, setFamily] = useState("");
  const [verdict, setVerdict] = useState("");
  if (words[0]) return html`<${Claim} id=${words[0]} key=${words[0]} />`;
  const all = ledger.answer?.claims ?? [];
  const wanted = search.toLowerCase().split(" ").filter(Boolean);
  const shown = all.filter((/** @type {any} */ one) => (!family || one.family === family) && (!verdict || one.verdict === verdict)
    && wanted.every((word) => `${one.id} ${one.covers.join(" ")} ${one.statement} ${one.where} ${one.family}`.toLowerCase().includes(word)));
  return html`<div class="head"><h1>Claims that run</h1><p class="quiet">${ledger.answer?.tally ?? "What courses and papers say about networks, each tested."}</p></div>
    <${ErrorNotice} error=${ledger.error} />
    <div class="fields"><${Field} label="Search"><input type="search" value=${search} onInput=${(/** @type {any} */ event) => setSearch(event.target.value)} /><//>
      <${Field} label="Family"><select value=${family} onChange=${(/** @type {any} */ event) => setFamily(event.target.value)}><option value="">all</option>${Object.entries(ledger.answer?.families ?? {}).map(([name, title]) => html`<option value=${name}>${title}</option>`)}</select><//></div>
    <div class="chips" role="group" aria-label="Verdict">${["", ...VERDICTS].map((word) => html`<button type="button" class="chip" aria-pressed=${word === verdict} onClick=${() => setVerdict(word)}>${word || "every verdict"}</button>`)}</div>
    <p class="quiet" role="status">${count(shown.length)} of ${count(all.length)}</p>
    <ul class="stack">${shown.slice(0, MOST).map((/** @type {any} */ one) => html`<li key=${one.id}><a class="card" href=${`#/claims/${encodeURIComponent(one.id)}`}><span class="title"><span>${sentence(one.statement)}</span><span class=${`badge ${one.verdict.replace(" ", "-")}`}>${one.words}</span></span><small>${one.id}, ${one.where}${one.because ? `: ${one.because}` : ""}</small></a></li>`)}</ul>
    ${shown.length > MOST ? html`<p class="quiet">The first ${MOST}; narrow the search to see others.</p>` : null}`;
}

/** @param {{ id: string }} props */
function Claim({ id }) {
  const stored = useAnswer((abort) => get(`/api/claims/${encodeURIComponent(id)}`, {}, abort), [id]);
  const [job, setJob] = useState(/** @type {any} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const isRunning = job && !job.result && !job.problem;
  useEffect(() => {
    if (!isRunning) return undefined;
    const timer = setTimeout(() => get(`/api/claims/${encodeURIComponent(job.id)}/progress`).then(setJob, setError), 700);
    return () => clearTimeout(timer);
  }, [job]);
  const one = job?.result ?? stored.answer;
  if (!one) return html`${stored.error ? html`<h1>No such claim</h1>` : null}<${ErrorNotice} error=${stored.error} /><p><a href="#/claims">All claims</a></p>`;
  return html`<div class="head"><p><a href="#/claims">All claims</a></p><div class="head-row"><h1>${sentence(one.statement)}</h1><span class=${`badge ${one.verdict.replace(" ", "-")}`}>${one.words}</span></div><p class="quiet">${one.id}, ${one.where}</p></div>
    <${ErrorNotice} error=${error ?? stored.error} />
    <div class="two wide-right"><section class="sheet stack"><h2>How it was judged</h2>
        ${one.method?.done ? html`<p>${one.method.done}</p>` : null}<p><b>Rule:</b> ${one.rule || one.reason}</p>${one.lines.map((/** @type {string} */ line) => html`<p>${line}</p>`)}
        ${one.other_reading ? html`<p class="quiet">Or read: ${one.other_reading}</p>` : null}
        ${job?.result ? html`<p class=${`notice ${job.result.is_same ? "good" : "error"}`}>Run here in ${duration(job.seconds)}: ${job.result.is_same ? "the same verdict as the stored one" : `the stored verdict is ${job.result.stored_verdict}`}.</p>` : null}
        ${job?.problem ? html`<p class="notice error">${job.problem}</p>` : null}
        ${one.verdict === "not testable" ? null : html`<div class="row"><button type="button" class="primary" disabled=${isRunning} onClick=${() => post(`/api/claims/${encodeURIComponent(id)}/run`).then(setJob, setError)}>${isRunning ? "Running …" : "Run it here"}</button><small>It took ${duration(one.seconds)} when it was stored.</small></div>`}
        ${isRunning ? html`<div role="status"><div class="bar"><div style=${{ width: `${Math.min(96, (100 * job.seconds) / Math.max(1, job.expected))}%` }}></div></div><small>${duration(job.seconds)} of about ${duration(job.expected)}</small></div>` : null}</section>
      <section class="section">${one.table ? html`<div class="sheet stack"><h2>Numbers</h2><${Table} table=${one.table} label="Numbers" /></div>` : null}${one.svg ? html`<${Picture} svg=${one.svg} alt=${one.statement} />` : null}</section></div>`;
}
