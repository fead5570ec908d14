"use strict";
// Walks through the steps. Every text comes from the data and is set as text, never as markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const picture = byId("picture");
  const svg = picture.querySelector("svg");
  const boxes = [...svg.querySelectorAll("[data-box]")];
  const wires = [...svg.querySelectorAll("[data-wire]")];
  const strips = boxes.map((box) => box.querySelector(".strip"));
  const gradients = boxes.map((box) => box.querySelector(".gradient"));
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const SECONDS_A_STEP = 1.5;
  const SMALLEST_AT_FIRST = 0.8;
  const UNKNOWN = "·"; // a gradient that no step has reached yet

  let output = data.outputs.length - 1;
  let stops = [];
  let at = 0;
  let timer = null;

  const element = (tag, className, ...children) => {
    const made = document.createElement(tag);
    if (className) made.className = className;
    made.append(...children);
    return made;
  };
  const many = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
  const called = (back) => (back.name === "output" ? "the output" : back.name);

  // The stops of the walk: the whole, what is given, each node, the seed, each edge. A gap says what is left out.
  function stopsOf(back) {
    const made = [{ kind: "whole" }, { kind: "given" }];
    data.forward.forEach((step, i) => {
      if (data.forward_left_out && i === data.forward.length / 2) made.push({ kind: "gap", way: "forward", n: data.forward_left_out });
      made.push({ kind: "forward", step, number: i + 1 + (data.forward_left_out && i >= data.forward.length / 2 ? data.forward_left_out : 0) });
    });
    made.push({ kind: "seed", back });
    const leftOut = back.n_steps - back.steps.length;
    back.steps.forEach((step, i) => {
      if (leftOut && i === back.steps.length / 2) made.push({ kind: "gap", way: "backward", n: leftOut });
      made.push({ kind: "backward", step });
    });
    return made;
  }

  function phase(stop) {
    const forward = data.forward.length + data.forward_left_out;
    if (stop.kind === "forward") return `Forward, ${stop.number.toLocaleString("en")} of ${forward.toLocaleString("en")}`;
    if (stop.kind === "seed") return "Backward begins";
    if (stop.kind === "backward") return `Backward, ${stop.step.number.toLocaleString("en")} of ${stops.back.n_steps.toLocaleString("en")}`;
    if (stop.kind === "gap") return stop.way === "forward" ? "Forward" : "Backward";
    return stop.kind === "given" ? "Forward begins" : "The whole graph";
  }

  function equation(...parts) {
    const line = element("p", "equation");
    parts.filter((part) => part !== "").forEach((part, i, all) => {
      if (i) line.append(element("span", "is", " = "));
      line.append(element("span", i === all.length - 1 ? "result" : "", part));
    });
    return line;
  }

  function figure(number, caption, className) {
    return element("figure", className, element("span", "figure", number), element("figcaption", "", caption));
  }

  // What a stop says: a heading, what stands below it, and one sentence for those who listen.
  function content(stop) {
    const back = stops.back;
    if (stop.kind === "whole") {
      const hint = back.n_steps
        ? "Walk forward to see each number made from those before it, then backward to see each gradient handed on."
        : "The output does not depend on any input, so there is no way back.";
      return ["Every value and every gradient", [element("p", "hint", hint)], hint];
    }
    if (stop.kind === "given") {
      const listed = data.given.map(([name, value]) => `${name} = ${value}`).join(", ");
      const more = data.given_more ? ` and ${many(data.given_more, "more input")}` : "";
      const words = listed ? `Given: ${listed}${more}` : "Nothing is given: every number stands in the expression";
      return ["What is given", [element("p", "equation", words)], words];
    }
    if (stop.kind === "forward") {
      const { name, names, numbers, value } = stop.step;
      return [`${name} is made`, [equation(name, names, numbers, value)], `${name} = ${names} = ${numbers} = ${value}`];
    }
    if (stop.kind === "seed") {
      const words = `${called(back)} moves exactly as much as itself, so its own gradient is ${back.seed}. From here each number hands its gradient back to what it was made from.`;
      return [`Start at ${back.node}`, [equation(`gradient of ${back.node}`, back.seed), element("p", "because", words)], words];
    }
    if (stop.kind === "gap") {
      const words = `${many(stop.n, "step")} in the middle are not listed here. In a terminal, --steps shows all.`;
      return ["…", [element("p", "hint", words)], words];
    }
    const s = stop.step;
    const product = element(
      "div", "product",
      figure(s.upstream, `upstream: gradient of ${s.node}`), element("span", "sign", "×"),
      figure(s.slope, `local slope of ${s.node} toward ${s.parent}`), element("span", "sign", "="),
      figure(s.contribution, `contribution to ${s.parent}`, "result"),
    );
    const parts = [product];
    let sum = "";
    if (s.uses) {
      const adding = s.before === undefined ? s.sum : `${s.before} + ${s.added} = ${s.sum}`;
      sum = `${s.parent} is used ${s.uses.toLocaleString("en")} times and the contributions add up. Use ${s.use.toLocaleString("en")} of ${s.uses.toLocaleString("en")}, sum so far: `;
      parts.push(element("p", "sum", sum, element("code", "", adding)));
      sum += adding;
    } else {
      parts.push(element("p", "sum", `gradient of ${s.parent} = `, element("code", "", s.sum)));
    }
    const why = data.sentences[s.why];
    parts.push(element("p", "because", `${why.slice(0, 1).toUpperCase()}${why.slice(1)}.`));
    const spoken = `${s.node} to ${s.parent}: ${s.upstream} × ${s.slope} = ${s.contribution}. ${sum} ${why}`;
    return [`From ${s.node} back to ${s.parent}`, parts, spoken];
  }

  function label(stop) {
    if (stop.kind === "forward") return [stop.step.name + " = " + stop.step.names, stop.step.value];
    if (stop.kind === "backward") return [`${stop.step.node} → ${stop.step.parent}`, stop.step.contribution];
    if (stop.kind === "seed") return [`gradient of ${stop.back.node}`, stop.back.seed];
    if (stop.kind === "gap") return [`… ${many(stop.n, "step")}`, ""];
    return [stop.kind === "given" ? "what is given" : "the whole graph", ""];
  }

  function fillList() {
    const list = byId("list");
    const part = (words) => element("li", "part", words);
    const items = [];
    stops.forEach((stop, i) => {
      if (stop.kind === "given") items.push(part("Forward"));
      if (stop.kind === "seed") items.push(part(`Backward from ${called(stop.back)}`));
      const [words, number] = label(stop);
      const button = element("button", "", element("span", "", words), element("span", "", number));
      button.type = "button";
      button.addEventListener("click", () => { stop_playing(); go(i); });
      stop.button = button;
      items.push(element("li", "", button));
    });
    list.replaceChildren(...items);
  }

  // The picture at this stop: what is made so far, what each gradient has come to, and where we are.
  function paint(stop) {
    const back = stops.back;
    const made = new Set();
    const sums = new Map(); // what each gradient has come to, and its tint
    const onTheWay = new Set();
    const reached = new Set();
    stops.forEach((other, i) => {
      if (other.kind === "forward") { onTheWay.add(other.step.box); if (i <= at) made.add(other.step.box); }
      if (other.kind === "seed" && i <= at) sums.set(back.box, [back.seed, back.tints[back.box]]);
      if (other.kind === "backward") { reached.add(other.step.to); if (i <= at) sums.set(other.step.to, [other.step.sum, other.step.tint]); }
    });
    const isWhole = stop.kind === "whole" || at === stops.length - 1;
    const isForward = stop.kind === "given" || stop.kind === "forward" || (stop.kind === "gap" && stop.way === "forward");
    const isPastGap = stops.some((other, i) => other.kind === "gap" && other.way === "backward" && i <= at);
    boxes.forEach((box, i) => {
      const isFold = box.classList.contains("fold");
      const isAhead = isForward && onTheWay.has(i) && !made.has(i) && !isFold;
      box.classList.toggle("ahead", isAhead);
      box.classList.remove("now", "from");
      if (!gradients[i] || back.gradients[i] === null) return;
      let [text, tint] = sums.get(i) ?? [UNKNOWN, "none"];
      if (isWhole || (isPastGap && !reached.has(i))) [text, tint] = [back.gradients[i], back.tints[i]];
      gradients[i].textContent = text;
      strips[i].setAttribute("class", `strip ${tint}`);
    });
    const handed = new Set(stops.filter((other, i) => other.kind === "backward" && i <= at).map((other) => other.step.wire));
    wires.forEach((wire, i) => {
      const kept = wire.classList.contains("still") ? " still" : "";
      const tint = isWhole || handed.has(i) ? back.wires[i] : "none";
      const end = isForward && onTheWay.has(ends[i]) && !made.has(ends[i]) && !boxes[ends[i]].classList.contains("fold");
      wire.setAttribute("class", `wire ${tint}${kept}${end ? " ahead" : ""}`);
    });
    let focus = null;
    if (stop.kind === "forward") focus = boxes[stop.step.box];
    if (stop.kind === "seed") focus = boxes[back.box];
    if (stop.kind === "backward") {
      const wire = wires[stop.step.wire];
      if (wire) { wire.classList.add("now"); wire.parentNode.append(wire); boxes.forEach((box) => box.parentNode.append(box)); }
      boxes[stop.step.from]?.classList.add("from");
      focus = boxes[stop.step.to];
    }
    if (stop.kind === "forward") ends.forEach((end, i) => { if (end === stop.step.box && !boxes[end].classList.contains("fold")) wires[i].classList.add("now"); });
    if (focus) { focus.classList.add("now"); follow(focus); }
  }

  function follow(box) {
    const view = picture.getBoundingClientRect();
    const seen = box.getBoundingClientRect();
    const margin = 40;
    if (seen.left >= view.left + margin && seen.right <= view.right - margin && seen.top >= view.top + 10 && seen.bottom <= view.bottom - 10) return;
    picture.scrollTo({
      left: picture.scrollLeft + seen.left - view.left - (view.width - seen.width) / 2,
      top: picture.scrollTop + seen.top - view.top - (view.height - seen.height) / 2,
      behavior: calm.matches ? "auto" : "smooth",
    });
  }

  function go(target) {
    at = Math.max(0, Math.min(stops.length - 1, target));
    const stop = stops[at];
    const [heading, parts, spoken] = content(stop);
    byId("step").replaceChildren(element("p", "phase", phase(stop)), element("h2", "", heading), ...parts);
    byId("count").textContent = `${at.toLocaleString("en")} of ${(stops.length - 1).toLocaleString("en")}`;
    byId("bar").style.width = `${(100 * at) / Math.max(1, stops.length - 1)}%`;
    byId("announce").textContent = `${phase(stop)}. ${spoken}`;
    byId("list").querySelector("[aria-current]")?.removeAttribute("aria-current");
    stop.button.setAttribute("aria-current", "step");
    const list = byId("list").parentNode;
    const top = stop.button.offsetTop;
    if (top < list.scrollTop + 30 || top > list.scrollTop + list.clientHeight - 60) list.scrollTop = top - list.clientHeight / 2;
    byId("first").disabled = byId("back").disabled = at === 0;
    byId("last").disabled = byId("forward").disabled = at === stops.length - 1;
    paint(stop);
    if (at === stops.length - 1) stop_playing();
  }

  function stop_playing() {
    clearInterval(timer);
    timer = null;
    byId("play").textContent = "play";
  }

  function toggle_playing() {
    if (timer) return stop_playing();
    if (at === stops.length - 1) go(0);
    byId("play").textContent = "pause";
    timer = setInterval(() => go(at + 1), 1000 * SECONDS_A_STEP);
    go(at + 1);
  }

  function choose(chosen) {
    output = chosen;
    stops = stopsOf(data.outputs[output]);
    stops.back = data.outputs[output];
    document.querySelectorAll(".gradients").forEach((table) => { table.hidden = Number(table.dataset.output) !== output; });
    document.querySelectorAll(".output-name").forEach((name) => { name.textContent = called(stops.back); });
    fillList();
  }

  // Where each wire ends, as the picture has it.
  const ends = wires.map((wire) => Number(wire.dataset.end));

  const natural = { width: svg.viewBox.baseVal.width, height: svg.viewBox.baseVal.height };
  let scale = 1;
  function resize(wanted) {
    scale = Math.max(0.15, Math.min(3, wanted));
    svg.style.width = `${natural.width * scale}px`;
    svg.style.height = `${natural.height * scale}px`;
  }
  const fitting = () => Math.min(1.6, (picture.clientWidth - 2) / natural.width, (parseFloat(getComputedStyle(picture).maxHeight) - 2) / natural.height);
  byId("smaller").addEventListener("click", () => resize(scale / 1.25));
  byId("larger").addEventListener("click", () => resize(scale * 1.25));
  byId("fit").addEventListener("click", () => resize(fitting()));

  const stepping = (target) => () => { stop_playing(); go(target()); };
  byId("first").addEventListener("click", stepping(() => 0));
  byId("back").addEventListener("click", stepping(() => at - 1));
  byId("forward").addEventListener("click", stepping(() => at + 1));
  byId("last").addEventListener("click", stepping(() => stops.length - 1));
  byId("play").addEventListener("click", toggle_playing);
  byId("output")?.addEventListener("change", (event) => { stop_playing(); choose(Number(event.target.value)); go(0); });
  const keys = { ArrowRight: () => at + 1, ArrowLeft: () => at - 1, Home: () => 0, End: () => stops.length - 1 };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
    if (event.key in keys) {
      event.preventDefault();
      stepping(keys[event.key])();
    } else if (event.key === " " && event.target.tagName !== "BUTTON") {
      event.preventDefault();
      toggle_playing();
    }
  });
  boxes.forEach((box, i) => box.addEventListener("click", () => {
    const found = stops.findIndex((stop) => stop.kind === "forward" && stop.step.box === i);
    if (found > 0) { stop_playing(); go(found); }
  }));

  // Small text is worse than a picture that scrolls: it follows the walk by itself.
  resize(Math.max(fitting(), SMALLEST_AT_FIRST));
  choose(output);
  go(0);
})();
