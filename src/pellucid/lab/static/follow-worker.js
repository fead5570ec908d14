// One connection for each run that is watched, whoever watches it and in however many tabs: a browser opens only six
// to one server. Whoever comes later is told everything from the beginning.
// @ts-check
/** @type {Map<string, { source: EventSource, told: string[], ports: Map<any, number> }>} */
const followed = new Map();
const PATIENCE = 20_000; // milliseconds without a word, after which a tab is taken for closed

/** @param {any} port @param {string} run */
function follow(port, run) {
  let one = followed.get(run);
  if (!one) {
    const source = new EventSource(`/api/runs/${encodeURIComponent(run)}/events`);
    one = { source, told: [], ports: new Map() };
    followed.set(run, one);
    source.onmessage = (event) => {
      const found = followed.get(run);
      if (!found) return;
      if (event.data.includes('"is_anew": true')) found.told = [];
      found.told.push(event.data);
      found.ports.forEach((_, each) => each.postMessage({ run, data: event.data }));
    };
    // The server closes when the run has ended: then there is nothing more to come.
    source.onerror = () => {
      const state = JSON.parse(one?.told.at(-1) ?? "{}").state;
      if (["finished", "failed", "nowhere", "damaged"].includes(state)) source.close();
      one?.ports.forEach((_, each) => each.postMessage({ run, lost: true }));
    };
  }
  one.ports.set(port, Date.now());
  one.told.forEach((data) => port.postMessage({ run, data }));
}

/** @param {any} port @param {string} run */
function leave(port, run) {
  const one = followed.get(run);
  one?.ports.delete(port);
  if (one && !one.ports.size) {
    one.source.close();
    followed.delete(run);
  }
}

setInterval(() => {
  followed.forEach((one, run) => one.ports.forEach((heard, port) => { if (Date.now() - heard > PATIENCE) leave(port, run); }));
}, 5_000);

// @ts-ignore: the global of a shared worker
self.onconnect = (/** @type {any} */ event) => {
  const port = event.ports[0];
  port.onmessage = (/** @type {any} */ message) => {
    const { run, what } = message.data;
    if (what === "follow") follow(port, run);
    else if (what === "leave") leave(port, run);
    else followed.forEach((one) => { if (one.ports.has(port)) one.ports.set(port, Date.now()); });
  };
};
