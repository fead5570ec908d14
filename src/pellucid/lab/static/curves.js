// Curves that grow while one looks: uPlot, in the colours of the page.
// @ts-check
import uPlot from "./vendor/uplot.js";
import { html, useEffect, useRef } from "./kit.js";

const colour = (/** @type {string} */ name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** @param {{ x: number[], series: { name: string, values: (number | null)[], colour: string, dash?: number[], width?: number }[], height?: number, label: string, log?: boolean, range?: [number, number] }} props */
export function Curves({ x, series, height = 300, label, log = false, range }) {
  const place = useRef(/** @type {HTMLDivElement | null} */ (null));
  const plot = useRef(/** @type {any} */ (null));
  const isZoomed = useRef(false); // by dragging, until a double click
  const shape = series.map((one) => one.name).join("|") + log + (range ? "r" : "");
  const limits = useRef(range);
  limits.current = range;
  useEffect(() => {
    const element = place.current;
    if (!element) return undefined;
    const make = () => {
      plot.current?.destroy();
      isZoomed.current = false;
      // A power of ten where zeros would say nothing.
      const words = (/** @type {any} */ _, /** @type {number[]} */ ticks) => { const most = Math.max(...ticks.map(Math.abs)); return ticks.map((tick) => (tick && (most < 0.01 || most >= 1e6) ? (+tick.toPrecision(3)).toExponential().replace("e-", "e−").replace("e+", "e") : (+tick.toPrecision(6)).toLocaleString("en", { maximumFractionDigits: 9 }))); };
      const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } };
      plot.current = new uPlot({
        width: Math.max(200, element.clientWidth), height,
        scales: { x: { time: false }, y: log ? { distr: 3 } : range ? { range: () => limits.current } : {} },
        axes: [axis, { ...axis, size: 62, values: words }],
        cursor: { drag: { x: true, y: false } },
        hooks: { setSelect: [(/** @type {any} */ drawn) => { if (drawn.select.width > 0) isZoomed.current = true; }] },
        series: [{ label: "step", value: (/** @type {any} */ _, /** @type {number | null} */ value) => (value === null || value === undefined ? "" : value.toLocaleString("en")) }, ...series.map((one) => ({
          label: one.name, stroke: colour(one.colour), width: one.width ?? 1.8, dash: one.dash, spanGaps: true, points: { show: false },
          value: (/** @type {any} */ _, /** @type {number | null} */ value) => (value === null || value === undefined ? "" : Math.abs(value) < 0.001 || Math.abs(value) >= 1e4 ? value.toExponential(2) : value.toFixed(4)),
        }))],
      }, [x, ...series.map((one) => one.values)], element);
    };
    make();
    const showWhole = () => { isZoomed.current = false; };
    element.addEventListener("dblclick", showWhole);
    const sized = new ResizeObserver(() => plot.current?.setSize({ width: Math.max(200, element.clientWidth), height }));
    sized.observe(element);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", make);
    return () => { sized.disconnect(); dark.removeEventListener("change", make); element.removeEventListener("dblclick", showWhole); plot.current?.destroy(); plot.current = null; };
  }, [shape, height]);
  useEffect(() => {
    const drawn = plot.current;
    if (!drawn) return;
    // A part that somebody looks at closely stays the one that is shown while more steps come.
    const { min, max } = drawn.scales.x;
    drawn.setData([x, ...series.map((one) => one.values)], !isZoomed.current);
    if (isZoomed.current) drawn.setScale("x", { min, max });
  }, [x, series]);
  return html`<div class="curve" role="img" aria-label=${label} ref=${place}></div>`;
}

/** Means of as many equal blocks, so that thousands of steps stay a curve. @param {{ step: number }[]} rows @param {(row: any) => number} of @param {number} [most] */
export function blocks(rows, of, most = 400) {
  const size = Math.max(1, Math.ceil(rows.length / most));
  const x = [], y = [];
  for (let at = 0; at < rows.length; at += size) {
    const part = rows.slice(at, at + size).map(of).filter(Number.isFinite);
    if (!part.length) continue;
    x.push(rows[Math.min(rows.length, at + size) - 1].step);
    y.push(part.reduce((sum, value) => sum + value, 0) / part.length);
  }
  return { x, y };
}

/** Several curves over steps of their own, on one axis. @param {{ name: string, x: number[], y: number[], colour: string, dash?: number[], width?: number }[]} curves */
export function together(curves) {
  const x = [...new Set(curves.flatMap((curve) => curve.x))].sort((a, b) => a - b);
  const place = new Map(x.map((step, i) => [step, i]));
  const series = curves.map(({ x: own, y, ...rest }) => {
    /** @type {(number | null)[]} */
    const values = new Array(x.length).fill(null);
    own.forEach((step, i) => { values[/** @type {number} */ (place.get(step))] = y[i]; });
    return { ...rest, values };
  });
  return { x, series };
}
