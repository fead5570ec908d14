// A run as its folder tells it, while it is trained: told once for all tabs by the worker beside this file.
// @ts-check
import { ask, signal, useEffect, useMemo } from "./kit.js";

/** @typedef {{ state: string, said: string, run: any, plan: any, baselines: any, metrics: any[], evaluations: any[], health: any[], samples: any[], timings: any[], findings: any[], health_findings: any[], exit_code?: number | null }} Followed */

const LOGS = /** @type {const} */ (["metrics", "evaluations", "health", "samples", "timings", "findings"]);
/** @returns {Followed} */
const nothing = () => ({ state: "", said: "", run: null, plan: null, baselines: null, metrics: [], evaluations: [], health: [], samples: [], timings: [], findings: [], health_findings: [] });

/** @type {any} */
let port = null;
/** @type {Map<string, Set<(data: string) => void>>} */
const listeners = new Map();

function connect() {
  if (port || typeof SharedWorker === "undefined") return;
  port = new SharedWorker("/static/follow-worker.js", { name: "pellucid-follow" }).port;
  port.onmessage = (/** @type {any} */ { data }) => { if (data.lost) knock(); if (data.data) listeners.get(data.run)?.forEach((listener) => listener(data.data)); };
  port.start();
  setInterval(() => port.postMessage({ what: "here" }), 5_000);
  addEventListener("pagehide", () => listeners.forEach((_, run) => port.postMessage({ what: "leave", run })));
}

/** A stream has ended: whether the lab is still there is for the page to tell, which else would wait for news for ever. */
const knock = () => { ask("/").catch(() => {}); };

/** @param {string} run @param {(data: string) => void} listener */
function listen(run, listener) {
  connect();
  if (!port) {
    const source = new EventSource(`/api/runs/${encodeURIComponent(run)}/events`);
    source.onmessage = (event) => listener(event.data);
    source.onerror = knock;
    return () => source.close();
  }
  const heard = listeners.get(run) ?? new Set();
  listeners.set(run, heard.add(listener));
  port.postMessage({ what: "follow", run });
  return () => {
    heard.delete(listener);
    if (!heard.size) { listeners.delete(run); port.postMessage({ what: "leave", run }); }
  };
}

/** What came, put to what was there. @param {Followed} before @param {any} news @returns {Followed} */
export function merge(before, news) {
  const now = news.is_anew ? { ...nothing(), said: before.said } : { ...before };
  for (const name of ["state", "said", "run", "plan", "baselines", "exit_code", "health_findings"]) if (name in news) /** @type {any} */ (now)[name] = news[name];
  for (const log of LOGS) if (news[log]) now[log] = now[log].concat(news[log]);
  return now;
}

/** @param {string} run @returns {{ value: Followed }} */
export function useRun(run) {
  const now = useMemo(() => signal(nothing()), [run]);
  useEffect(() => listen(run, (data) => { now.value = merge(now.value, JSON.parse(data)); }), [run]);
  return now;
}
