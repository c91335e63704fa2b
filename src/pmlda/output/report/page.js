// Packed maps → what is drawn and said. Reads the JSON of the page, needs nothing else.
(() => {
  "use strict";
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const K = data.names.length;
  const size = data.rows * data.columns;
  const canvas = byId("canvas");
  const picture = byId("picture");
  const form = byId("controls");
  const TRANSITION = [255, 0, 160];
  let memberships = []; // K arrays of 0 … 255, one value for each sampled pixel
  let deviations = []; // K arrays of 0 … stdLevels
  let valid = null;
  let doubt = null; // the largest standard deviation of each pixel
  let mostDoubt = data.largestStd;
  let at = null; // the pixel that the crosshair is on
  let asked = false;
  let transitions = null; // layers that are kept until something changes them
  let holes = null;

  // ── maps ─────────────────────────────────────────────────────────────────────────────────────────────────────
  function newCanvas(width, height) {
    const made = document.createElement("canvas");
    made.width = width;
    made.height = height;
    return made;
  }

  function fail(sentence) {
    byId("failure").textContent = sentence;
    byId("failure").hidden = false;
  }

  async function load(uri) {
    const image = new Image();
    image.src = uri;
    await image.decode();
    return image;
  }

  function planesOf(image) {
    const context = newCanvas(data.columns, data.rows).getContext("2d", { willReadFrequently: true });
    context.drawImage(image, 0, 0);
    const bytes = context.getImageData(0, 0, data.columns, data.rows).data;
    return [0, 1, 2].map((channel) => Uint8Array.from({ length: size }, (_, i) => bytes[4 * i + channel]));
  }

  function stdOf(level) {
    const root = level / data.stdLevels;
    return data.largestStd * root * root;
  }

  function unpack(images) {
    const planes = images.flatMap(planesOf);
    memberships = planes.slice(0, K);
    deviations = planes.slice(K, 2 * K);
    valid = new Uint8Array(size);
    doubt = new Float32Array(size);
    let most = 0, wrong = 0;
    for (let i = 0; i < size; i++) {
      let level = 0, sum = 0;
      for (let k = 0; k < K; k++) {
        sum += memberships[k][i];
        if (memberships[k][i] > 0) valid[i] = 1;
        if (deviations[k][i] > level) level = deviations[k][i];
      }
      if (valid[i] && Math.abs(sum - 255) > K + 1) wrong += 1;
      doubt[i] = stdOf(level);
      if (doubt[i] > most) most = doubt[i];
    }
    // Memberships add up to one, apart from rounding, unless someone changed them on the way.
    if (wrong > 0.01 * size) fail("This browser alters pixels (protection against fingerprinting), so maps and numbers are wrong.");
    mostDoubt = most > 0 ? most : data.largestStd;
  }

  // ── drawing ──────────────────────────────────────────────────────────────────────────────────────────────────
  const view = () => form.elements.view.value;
  const isOn = () => {
    const boxes = form.querySelectorAll("input[name=topic]");
    return Array.from(boxes, (box) => box.checked);
  };

  function setColour(out, colour) {
    out[0] = colour[0];
    out[1] = colour[1];
    out[2] = colour[2];
  }

  // Each of these sets red, green, blue and how much (0 … 1) of one pixel in `out`.
  function mixer() {
    const on = isOn();
    return (i, out) => {
      let r = 0, g = 0, b = 0, sum = 0;
      for (let k = 0; k < K; k++) {
        if (!on[k]) continue;
        const z = memberships[k][i];
        sum += z;
        r += z * data.colours[k][0];
        g += z * data.colours[k][1];
        b += z * data.colours[k][2];
      }
      const scale = sum > 0 ? 1 / sum : 0;
      out[0] = r * scale; out[1] = g * scale; out[2] = b * scale;
      out[3] = Math.min(1, sum / 255);
    };
  }

  function crisper() {
    const on = isOn();
    return (i, out) => {
      let best = 0;
      for (let k = 1; k < K; k++) if (memberships[k][i] > memberships[best][i]) best = k;
      setColour(out, data.colours[best]);
      out[3] = on[best] ? 1 : 0;
    };
  }

  function heater(k) {
    return (i, out) => {
      setColour(out, data.heat[memberships[k][i]]);
      out[3] = 1;
    };
  }

  function doubter() {
    return (i, out) => {
      setColour(out, data.doubt[Math.round(255 * doubt[i] / mostDoubt)]);
      out[3] = 1;
    };
  }

  function painter() {
    const makers = { mixed: mixer, largest: crisper, doubt: doubter, one: () => heater(Number(byId("one").value)) };
    return makers[view()]?.() ?? null;
  }

  // A canvas with one pixel for each sampled pixel that has data.
  function layer(paint) {
    const made = newCanvas(data.columns, data.rows);
    const context = made.getContext("2d");
    const image = context.createImageData(data.columns, data.rows);
    const bytes = image.data;
    const out = [0, 0, 0, 0];
    for (let i = 0; i < size; i++) {
      if (!valid[i]) continue;
      paint(i, out);
      bytes[4 * i] = out[0];
      bytes[4 * i + 1] = out[1];
      bytes[4 * i + 2] = out[2];
      bytes[4 * i + 3] = 255 * out[3];
    }
    context.putImageData(image, 0, 0);
    return made;
  }

  function transitionLayer() {
    // Half a level to either side, because memberships are rounded to levels.
    const low = 255 * Number(byId("low").value) - 0.5;
    const high = 255 * Number(byId("high").value) + 0.5;
    let count = 0, total = 0;
    const made = layer((i, out) => {
      let inside = 0;
      for (let k = 0; k < K; k++) if (memberships[k][i] >= low && memberships[k][i] <= high) inside = 1;
      count += inside;
      total += 1;
      setColour(out, TRANSITION);
      out[3] = inside;
    });
    const share = (100 * count / Math.max(1, total)).toFixed(1);
    byId("transition-share").textContent = `${share} % of the pixels`;
    return made;
  }

  function draw() {
    asked = false;
    const context = canvas.getContext("2d");
    const whole = [0, 0, canvas.width, canvas.height];
    context.globalCompositeOperation = "source-over";
    context.globalAlpha = 1;
    context.imageSmoothingEnabled = false;
    context.clearRect(...whole);
    context.drawImage(picture, ...whole);
    const paint = painter();
    if (paint) {
      context.globalCompositeOperation = "saturation"; // grey below colours, so that all colours are the topics'
      context.fillStyle = "#808080";
      context.fillRect(...whole);
      context.globalCompositeOperation = "source-over";
      context.globalAlpha = Number(byId("opacity").value) / 100;
      context.drawImage(layer(paint), ...whole);
      context.globalAlpha = 1;
    }
    transitions ??= transitionLayer();
    if (byId("transitions").checked) context.drawImage(transitions, ...whole);
    context.globalCompositeOperation = "destination-in"; // pixels without data are holes
    holes ??= layer((i, out) => { out[3] = 1; });
    context.drawImage(holes, ...whole);
    drawLegend();
  }

  function ask() {
    if (!asked) requestAnimationFrame(draw);
    asked = true;
  }

  function drawLegend() {
    const tables = { one: data.heat, doubt: data.doubt };
    const table = tables[view()];
    byId("legend").hidden = !table;
    byId("one-line").hidden = view() !== "one";
    byId("topics-group").disabled = !["mixed", "largest"].includes(view());
    byId("opacity").disabled = view() === "picture";
    if (!table) return;
    const isDoubt = view() === "doubt";
    const topic = data.names[Number(byId("one").value)];
    byId("legend-title").textContent = isDoubt ? "standard deviation of a membership" : `membership of ${topic}`;
    byId("legend-most").textContent = isDoubt ? mostDoubt.toFixed(2) : "1";
    const context = byId("legend-bar").getContext("2d");
    table.forEach(([r, g, b], x) => {
      context.fillStyle = `rgb(${r} ${g} ${b})`;
      context.fillRect(x, 0, 1, 1);
    });
  }

  function drawThumbnails() {
    document.querySelectorAll(".thumbnail").forEach((button) => {
      const k = Number(button.dataset.topic);
      const small = button.querySelector("canvas");
      const share = Math.min(1, 320 / Math.max(data.rows, data.columns));
      small.width = Math.max(1, Math.round(data.columns * share));
      small.height = Math.max(1, Math.round(data.rows * share));
      if (data.columns < 160) small.style.imageRendering = "pixelated";
      small.getContext("2d").drawImage(layer(heater(k)), 0, 0, small.width, small.height);
      button.hidden = false;
      button.addEventListener("click", () => {
        byId("one").value = String(k);
        form.elements.view.value = "one";
        ask();
        canvas.scrollIntoView({ block: "nearest" });
      });
    });
  }

  // ── intervals: each membership has a beta distribution with this mean and standard deviation ─────────────────
  function logGamma(x) {
    // Stirling's series, after raising x to where it is exact to ten digits.
    let shift = 0;
    while (x < 10) { shift -= Math.log(x); x += 1; }
    const y = 1 / (x * x);
    const series = (1 / 12 - y * (1 / 360 - y * (1 / 1260 - y / 1680))) / x;
    return shift + (x - 0.5) * Math.log(x) - x + 0.5 * Math.log(2 * Math.PI) + series;
  }

  function betaShare(x, a, b) {
    // Regularised incomplete beta function by its continued fraction (DLMF 8.17.22), evaluated by Lentz's rule.
    if (x <= 0) return 0;
    if (x >= 1) return 1;
    if (x > (a + 1) / (a + b + 2)) return 1 - betaShare(1 - x, b, a);
    const tiny = 1e-300;
    let c = 1, d = 0, fraction = 1;
    for (let j = 1; j < 400; j++) {
      const m = j >> 1;
      const term = j % 2 ? -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        : m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
      d = 1 / (1 + term * d || tiny);
      c = 1 + term / c || tiny;
      fraction *= c * d;
      if (Math.abs(c * d - 1) < 1e-10) break;
    }
    const front = a * Math.log(x) + b * Math.log1p(-x) - Math.log(a) + logGamma(a + b) - logGamma(a) - logGamma(b);
    return Math.exp(front) / fraction;
  }

  function betaQuantile(share, a, b) {
    let low = 0, high = 1;
    for (let step = 0; step < 40; step++) {
      const middle = (low + high) / 2;
      if (betaShare(middle, a, b) < share) low = middle; else high = middle;
    }
    return (low + high) / 2;
  }

  function tailBelow(a, b) {
    // The probability below the shortest interval of 90 %, as in engines/posterior.py: ends of equal density, or an edge.
    if (a <= 1 || b <= 1) return b > 1 ? 0 : a > 1 ? 0.1 : 0.1 * (1 - b + 1e-9) / (2 - a - b + 2e-9);
    let least = 0, most = 0.1;
    for (let step = 0; step < 12; step++) {
      const tail = (least + most) / 2, low = betaQuantile(tail, a, b), high = betaQuantile(tail + 0.9, a, b);
      const rises = (a - 1) * Math.log(low / high) + (b - 1) * Math.log((1 - low) / (1 - high)) < 0;
      if (rises) least = tail; else most = tail;
    }
    return (least + most) / 2;
  }

  function interval(level, deviation) {
    if (deviation === 0) return [level / 255, level / 255];
    // 0 and 1 are rounded; a beta distribution with that mean would be a point.
    const mean = Math.min(1 - 0.25 / 255, Math.max(0.25 / 255, level / 255));
    const std = stdOf(deviation);
    const total = Math.max(mean * (1 - mean) / (std * std) - 1, 1e-3);
    const a = mean * total, b = (1 - mean) * total;
    const tail = tailBelow(a, b);
    return [tail > 0 ? betaQuantile(tail, a, b) : 0, tail < 0.1 ? betaQuantile(tail + 0.9, a, b) : 1];
  }

  // ── one pixel ────────────────────────────────────────────────────────────────────────────────────────────────
  const fullIndex = (i, count, whole) => Math.floor((2 * i + 1) * whole / (2 * count)); // as choose_grid has it
  const lines = Array.from(document.querySelectorAll("#readout tbody tr"));
  let speaking = 0;

  function say(sentence) {
    clearTimeout(speaking); // a moving pointer must not talk without end
    speaking = setTimeout(() => { byId("spoken").textContent = sentence; }, 250);
  }

  function show(row, column) {
    at = { row, column };
    const cross = byId("crosshair");
    cross.hidden = false;
    cross.style.left = `${100 * (column + 0.5) / data.columns}%`;
    cross.style.top = `${100 * (row + 0.5) / data.rows}%`;
    const i = row * data.columns + column;
    const place = `row ${fullIndex(row, data.rows, data.height)}, column ${fullIndex(column, data.columns, data.width)}`;
    byId("place").textContent = valid[i] ? place : `${place}: no data`;
    const values = memberships.map((plane) => plane[i]);
    const largest = values.indexOf(Math.max(...values));
    lines.forEach((line, k) => showTopic(line, k, i, valid[i] === 1 && k === largest));
    const spoken = data.names.map((name, k) => `${name} ${(values[k] / 255).toFixed(2)}`).join(", ");
    say(`${place}: ${valid[i] ? spoken : "no data"}`);
  }

  function showTopic(line, k, i, isLargest) {
    const [low, high] = valid[i] ? interval(memberships[k][i], deviations[k][i]) : [0, 0];
    const value = memberships[k][i] / 255;
    line.classList.toggle("largest", isLargest);
    line.querySelector(".fill").style.width = `${100 * value}%`;
    const whisker = line.querySelector(".whisker");
    whisker.hidden = !valid[i] || !data.hasDoubt;
    whisker.style.left = `${100 * low}%`;
    whisker.style.width = `${100 * (high - low)}%`;
    line.querySelector(".value").textContent = valid[i] ? value.toFixed(2) : "–";
    line.querySelector(".interval").textContent = valid[i] && data.hasDoubt ? `${low.toFixed(2)}–${high.toFixed(2)}` : "–";
  }

  function pointed(event) {
    const box = canvas.getBoundingClientRect();
    const clamp = (value, count) => Math.max(0, Math.min(count - 1, Math.floor(value * count)));
    show(clamp((event.clientY - box.top) / box.height, data.rows), clamp((event.clientX - box.left) / box.width, data.columns));
  }

  function pressed(event) {
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -Infinity], End: [0, Infinity] };
    const step = steps[event.key];
    if (!step || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    const far = event.shiftKey ? 10 : 1;
    const from = at ?? middle();
    const clamp = (value, count) => Math.max(0, Math.min(count - 1, value));
    show(clamp(from.row + far * step[0], data.rows), clamp(from.column + far * step[1], data.columns));
  }

  const middle = () => ({ row: data.rows >> 1, column: data.columns >> 1 });

  // ── controls ─────────────────────────────────────────────────────────────────────────────────────────────────
  function showNumbers() {
    byId("opacity-value").textContent = `${byId("opacity").value} %`;
    byId("low-value").textContent = Number(byId("low").value).toFixed(2);
    byId("high-value").textContent = Number(byId("high").value).toFixed(2);
  }

  function changed(event) {
    const { id } = event.target;
    const low = byId("low"), high = byId("high");
    if (id === "low" || id === "high") {
      byId("transitions").checked = true;
      transitions = null;
    }
    // One slider pushes the other along, so that low never exceeds high.
    if (id === "low" && Number(low.value) > Number(high.value)) high.value = low.value;
    if (id === "high" && Number(high.value) < Number(low.value)) low.value = high.value;
    showNumbers();
    ask();
  }

  function switchAll(on) {
    form.querySelectorAll("input[name=topic]").forEach((box) => { box.checked = on; });
    ask();
  }

  function start(images) {
    unpack(images);
    canvas.width = picture.naturalWidth;
    canvas.height = picture.naturalHeight;
    picture.hidden = true;
    byId("waiting").hidden = true;
    canvas.hidden = false;
    canvas.classList.toggle("enlarged", canvas.width < 600);
    byId("readout").classList.toggle("many", K > 10);
    byId("low").value = String(data.low);
    byId("high").value = String(data.high);
    showNumbers();
    draw();
    drawThumbnails();
    canvas.addEventListener("pointermove", pointed);
    canvas.addEventListener("pointerdown", pointed);
    canvas.addEventListener("keydown", pressed);
    canvas.addEventListener("focus", () => { if (!at) show(middle().row, middle().column); });
    form.addEventListener("input", changed);
    form.addEventListener("submit", (event) => event.preventDefault());
    byId("all")?.addEventListener("click", () => switchAll(true));
    byId("none")?.addEventListener("click", () => switchAll(false));
    document.documentElement.dataset.ready = "yes";
  }

  Promise.all([...data.maps.map(load), picture.decode()]).then((images) => start(images.slice(0, -1))).catch((error) => {
    fail(`The maps could not be drawn: ${error.message}`);
  });
})();
