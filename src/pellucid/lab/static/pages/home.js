// The first page: runs as cards, and data to begin with.
// @ts-check
import { ErrorNotice, Sparkline, bytes, count, fixed, get, go, html, percent, useEffect, useState } from "../kit.js";
import { Drop } from "../drop.js";

const LOOK_AGAIN = 3_000; // milliseconds

/** @param {any} card */
function reached(card) {
  if (card.metric !== null && card.metric_name) {
    const words = (/** @type {number | null} */ value) => (value === null ? "not known" : card.metric_name === "R²" ? fixed(value, 3) : percent(value));
    return { own: words(card.metric), simple: words(card.simple_metric), what: `${card.metric_name} on ${card.side}` };
  }
  return { own: fixed(card.loss), simple: fixed(card.simple_loss), what: `${card.unit} on ${card.side}` };
}

/** @param {{ card: any }} props */
function RunTile({ card }) {
  const { own, simple, what } = reached(card);
  const source = card.source.split(":")[0];
  return html`<a class="card" href=${`#/run/${encodeURIComponent(card.name)}`}>
    <span class="title"><span>${card.name}</span><span class=${`badge ${card.state}`}>${card.state}</span></span>
    ${card.problem ? html`<small>${card.problem}</small>` : html`
      <small>${card.model} of ${count(card.parameters)} parameters on ${source}${card.state === "finished" ? "" : `, step ${count(card.step)} of ${count(card.steps)}`}</small>
      <${Sparkline} values=${card.curve} rule=${card.metric_name ? null : card.simple_loss} label=${`loss on ${card.side}, from ${fixed(card.curve[0])} to ${fixed(card.curve.at(-1))}`} />
      <span class="figures">
        <span class=${`figure ${card.is_ahead && own !== simple ? "good" : ""}`}><b>${own}</b><span>${what}</span></span>
        ${card.simple ? html`<span class="figure"><b>${simple}</b><span>${card.simple}</span></span>` : null}
      </span>`}
  </a>`;
}

/** @param {{ one: any }} props */
export function DataTile({ one }) {
  return html`<a class="card" href=${`#/train/${one.where}/${encodeURIComponent(one.name)}`}>
    <span class="title"><span>${one.name.split("/").at(-1)}</span>${one.kind ? html`<span class="badge">${one.kind}</span>` : null}</span>
    <small>${one.summary || `${bytes(one.n_bytes)}, ${one.where === "dropped" ? "dropped here" : "in this folder"}`}</small></a>`;
}

/** @param {{ onError: (error: any) => void }} props */
export function DataDrop({ onError }) {
  return html`<${Drop} hasFolders onError=${onError} onKept=${(/** @type {any} */ kept) => go(`#/train/dropped/${encodeURIComponent(kept.name)}`)}>
    <p><b>Drop a file or a folder of images here.</b> Pellucid works out what it is and says why.</p>
    <p class="quiet">One item a line, running text, a table with a header, or pairs with a tab between; of images, a folder for each class.</p><//>`;
}

export function Home() {
  const [found, setFound] = useState(/** @type {any} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  useEffect(() => {
    let timer = 0;
    let isLeft = false; // an answer that is on its way then must not begin the next look
    const look = () => get("/api/home").then((answer) => { setFound(answer); setError(null); }, setError).finally(() => { if (!isLeft) timer = setTimeout(look, LOOK_AGAIN); });
    look();
    return () => { isLeft = true; clearTimeout(timer); };
  }, []);
  const runs = found?.runs ?? [];
  const own = (found?.data ?? []).filter((/** @type {any} */ one) => one.where !== "comes");
  const comes = (found?.data ?? []).filter((/** @type {any} */ one) => one.where === "comes");
  return html`<div class="head"><h1>Neural networks you can see through</h1>
      <p class="quiet">Your data, your network, on this machine alone. Whatever is said here was measured.</p></div>
    <${ErrorNotice} error=${error} />
    <section class="section" aria-labelledby="runs"><div class="head-row"><h2 id="runs">Runs</h2><a class="button" href="#/train">Train a network</a></div>
      ${found && !runs.length ? html`<p>No run yet. Drop something below, or <a href="#/train/comes/names">train on 30,000 names</a>; it takes two minutes.</p>` : null}
      <div class="cards">${runs.map((/** @type {any} */ card) => html`<${RunTile} card=${card} key=${card.name} />`)}</div></section>
    <section class="section" aria-labelledby="data"><h2 id="data">Data</h2>
      <${DataDrop} onError=${setError} />
      ${own.length ? html`<div class="cards">${own.map((/** @type {any} */ one) => html`<${DataTile} one=${one} key=${one.name} />`)}</div>` : null}
      ${comes.length ? html`<h3>Sets that come with pellucid</h3><div class="cards">${comes.map((/** @type {any} */ one) => html`<${DataTile} one=${one} key=${one.name} />`)}</div>` : null}
    </section>`;
}
