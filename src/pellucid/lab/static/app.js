// The lab's pages by their addresses, and the frame around them.
// @ts-check
import { door, get, html, post, render, signal, useEffect, useRef } from "./kit.js";
import { Home } from "./pages/home.js";

/** Pages other than the first are loaded when they are asked for. @type {Record<string, [string, () => Promise<any>]>} */
const PAGES = {
  home: ["Runs", async () => Home],
  train: ["Train", async () => (await import("./pages/train.js")).Train],
  speak: ["Speak", async () => (await import("./pages/speak.js")).Speak],
  derive: ["Derive", async () => (await import("./pages/derive.js")).Derive],
  xray: ["X-ray", async () => (await import("./pages/xray.js")).Xray],
  lessons: ["Lessons", async () => (await import("./pages/lessons.js")).Lessons],
  claims: ["Claims", async () => (await import("./pages/claims.js")).Claims],
  run: ["Run", async () => (await import("./pages/run.js")).RunPage],
};

const parse = () => location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decodeURIComponent);
const place = signal(parse());
const shown = signal(/** @type {any} */ (Home));
const problem = signal("");

async function arrive() {
  const words = parse();
  const name = words[0] ?? "home";
  const page = PAGES[name] ?? PAGES.home;
  document.title = `${name === "run" ? words[1] : page[0]} · pellucid lab`;
  try {
    const loaded = await page[1]();
    problem.value = "";
    shown.value = loaded;
    place.value = words;
  } catch {
    problem.value = "This page could not be loaded. Is the lab still running?";
  }
}

function Frame() {
  const Page = shown.value;
  const [name = "home", ...rest] = place.value;
  const current = name === "run" ? "home" : name;
  // On the way to another page the reader goes along; at first the keys begin at the top, where the way past is.
  const isOpened = useRef(false);
  useEffect(() => { if (isOpened.current) document.getElementById("main")?.focus({ preventScroll: true }); isOpened.current = true; }, [place.value.slice(0, 2).join("/")]);
  return html`<a class="skip" href="#main" onClick=${(/** @type {Event} */ event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>To the content</a>
    <header class="top"><div class="top-inner">
      <a class="brand" href="#/"><${Mark} />pellucid</a>
      <nav class="nav" aria-label="Pages">${Object.entries(PAGES).filter(([id]) => id !== "run").map(([id, [title]]) => html`
        <a class="nav-link" key=${id} href=${`#/${id === "home" ? "" : id}`} aria-current=${id === current ? "page" : undefined}>${title}</a>`)}</nav>
    </div></header>
    <main id="main" tabindex="-1">
      ${door.value === "closed" ? html`<p class="notice error" role="alert">This browser has no key to the lab. Open the link that the terminal printed; it works once.</p>` : null}
      ${door.value === "gone" ? html`<p class="notice error" role="alert">The lab does not answer. If it was ended, start it again with <code>pellucid lab</code>; trainings go on without it.</p>` : null}
      ${problem.value ? html`<p class="notice error" role="alert">${problem.value}</p>` : null}
      <${Page} words=${rest} key=${name === "run" ? rest[0] : name} />
    </main>`;
}

const Mark = () => html`<svg viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="7" fill="#2a6db0" /><path d="M8 22 16 9l8 13" fill="none" stroke="#fff" stroke-width="2.4" /><circle cx="8" cy="22" r="3.2" fill="#fff" /><circle cx="24" cy="22" r="3.2" fill="#fff" /><circle cx="16" cy="9" r="3.2" fill="#f2a65a" /></svg>`;

addEventListener("hashchange", arrive);
const root = /** @type {HTMLElement} */ (document.getElementById("app"));
root.textContent = "";
render(html`<${Frame} />`, root);
arrive();
// What takes long to load is loaded once the first page is there.
setTimeout(() => { if (door.value === "open") post("/api/warm").catch(() => {}); }, 2_500);
void get;
