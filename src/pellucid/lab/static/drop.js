// Somewhere to drop a file or a folder of images, or to choose one; and how both are sent.
// @ts-check
import { ask, count, html, signal, useRef, useState } from "./kit.js";

/** @typedef {{ label: string, file: File }} Image */
/** @typedef {{ name: string, images: Image[], n_left_out: number }} ImageFolder */

/** Of the folder that was sent last: how many of its files are no images of a class. */
export const leftOut = signal({ name: "", n: 0 });

/** @param {File} file */
export function upload(file) {
  const options = { method: "POST", headers: { "content-type": "application/octet-stream" }, body: file };
  return ask(`/api/upload?name=${encodeURIComponent(file.name)}`, options);
}

/** One body for all of it, which the browser reads from the disk as it sends. @param {ImageFolder} folder */
async function uploadFolder(folder) {
  const body = new Blob(folder.images.flatMap(({ label, file }) => [`${JSON.stringify({ label, name: file.name, n_bytes: file.size })}\n`, file]));
  const options = { method: "POST", headers: { "content-type": "application/octet-stream" }, body };
  const kept = await ask(`/api/upload/folder?name=${encodeURIComponent(folder.name)}`, options);
  leftOut.value = { name: kept.name, n: folder.n_left_out };
  return kept;
}

/** Files by their places below the folder that was dropped; a class is the folder right below it.
 * @param {string} name @param {[string, File][]} files */
export function sortImages(name, files) {
  const images = files.map(([path, file]) => ({ words: path.split("/"), file }))
    .filter(({ words, file }) => words.length === 2 && !words.some((word) => word.startsWith(".")) && file.type.startsWith("image/") && file.size)
    .map(({ words, file }) => ({ label: words[0], file }))
    .sort((a, b) => (a.label === b.label ? (a.file.name < b.file.name ? -1 : 1) : a.label < b.label ? -1 : 1));
  return { name, images, n_left_out: files.length - images.length };
}

/** Every file below an entry, by its place. @param {any} entry @param {string} before @returns {Promise<[string, File][]>} */
async function walk(entry, before = "") {
  const path = before + entry.name;
  if (entry.isFile) return [[path, await new Promise((done, failed) => entry.file(done, failed))]];
  const reader = entry.createReader();
  /** @type {[string, File][]} */
  const found = [];
  for (;;) { // a browser tells a hundred at a time
    const some = /** @type {any[]} */ (await new Promise((done, failed) => reader.readEntries(done, failed)));
    if (!some.length) return found;
    for (const one of some) found.push(...await walk(one, `${path}/`));
  }
}

/** @param {string} path */
const belowTheFirst = (path) => path.slice(path.indexOf("/") + 1);

/** What was dropped: one file, a folder of class folders, or several class folders at once. @param {DataTransfer} transfer @returns {Promise<File | ImageFolder | null>} */
async function readDrop(transfer) {
  // Asked for at once: what was dropped is gone when the event is over.
  const file = transfer.files[0] ?? null;
  const folders = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter((entry) => entry?.isDirectory);
  if (!folders.length) return file;
  /** @type {[string, File][]} */
  const found = [];
  for (const folder of folders) found.push(...await walk(folder));
  if (folders.length > 1) return sortImages("images", found);
  return sortImages(String(folders[0]?.name), found.map(([path, one]) => [belowTheFirst(path), one]));
}

/** @param {{ onKept: (kept: any) => void, onError: (error: any) => void, children?: any, accept?: string, hasFolders?: boolean }} props */
export function Drop({ onKept, onError, children, accept, hasFolders = false }) {
  const [over, setOver] = useState(false);
  const [said, setSaid] = useState("");
  const file = useRef(/** @type {HTMLInputElement | null} */ (null));
  const folder = useRef(/** @type {HTMLInputElement | null} */ (null));
  /** @param {Promise<File | ImageFolder | null>} coming */
  const take = async (coming) => {
    setSaid("Reading …");
    try {
      const found = await coming;
      if (!found) return;
      if (found instanceof File) { setSaid(`Sending ${found.name} …`); onKept(await upload(found)); return; }
      if (!hasFolders) throw new Error("A folder was dropped, and one file is wanted here.");
      setSaid(`Sending ${count(found.images.length)} images …`);
      onKept(await uploadFolder(found));
    } catch (error) {
      onError(error);
    } finally {
      setSaid("");
    }
  };
  /** @param {DragEvent} event */
  const drop = (event) => {
    event.preventDefault();
    setOver(false);
    if (event.dataTransfer) take(readDrop(event.dataTransfer));
  };
  /** @param {any} event */
  const picked = (event) => {
    const files = /** @type {File[]} */ ([...event.target.files]);
    event.target.value = "";
    if (!files.length) return;
    const [name] = files[0].webkitRelativePath.split("/");
    take(Promise.resolve(name ? sortImages(name, files.map((one) => [belowTheFirst(one.webkitRelativePath), one])) : files[0]));
  };
  return html`<div class=${`drop ${over ? "over" : ""}`} onDragOver=${(/** @type {DragEvent} */ event) => { event.preventDefault(); setOver(true); }}
    onDragLeave=${() => setOver(false)} onDrop=${drop}>${children}
    <div class="row"><button type="button" disabled=${Boolean(said)} onClick=${() => file.current?.click()}>Choose a file</button>
      ${hasFolders ? html`<button type="button" disabled=${Boolean(said)} onClick=${() => folder.current?.click()}>Choose a folder of images</button>` : null}</div>
    <p role="status" class=${said ? "quiet" : "unseen"}>${said}</p>
    <input ref=${file} type="file" class="unseen" tabindex="-1" aria-label="File" accept=${accept} onChange=${picked} />
    ${hasFolders ? html`<input ref=${folder} type="file" webkitdirectory class="unseen" tabindex="-1" aria-label="Folder" onChange=${picked} />` : null}</div>`;
}
