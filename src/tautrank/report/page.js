"use strict";
(() => {
  // ---- Tables: a heading becomes a button that sorts by its column; missing values stay last.

  function sortRows(table, column, descending) {
    const rows = [...table.tBodies[0].rows];
    const keyOf = (row) => row.cells[column].dataset.key;
    const known = rows.filter((row) => keyOf(row) !== undefined);
    const missing = rows.filter((row) => keyOf(row) === undefined);
    const numeric = known.every((row) => keyOf(row).trim() !== "" && Number.isFinite(Number(keyOf(row))));
    const order = (a, b) => (numeric ? Number(keyOf(a)) - Number(keyOf(b)) : keyOf(a).localeCompare(keyOf(b)));
    known.sort((a, b) => (descending ? order(b, a) : order(a, b)));
    table.tBodies[0].append(...known, ...missing);
  }

  function makeSortable(table) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const before = head.getAttribute("aria-sort");
        const descending = before ? before === "ascending" : "highFirst" in head.dataset;
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", descending ? "descending" : "ascending");
        sortRows(table, column, descending);
      });
    });
  }

  document.querySelectorAll("table.sortable").forEach(makeSortable);

  // ---- Figures: drawn in the colours of the screen, and drawn again in light colours for printing.

  const PRINT_WIDTH = 680; // pixels that fit an A4 or letter page between its margins
  const LAYOUT = { height: 420, margin: { l: 10, r: 20, t: 40, b: 10 }, hovermode: "closest" }; // unless the figure says
  const MARGINS = 90; // pixels beside an axis
  const LETTER = 8; // approximate width of a letter of an axis title, in pixels
  const CLEAR = "rgba(0,0,0,0)";
  const DASHES = { dash: "9 4", dot: "2 3", dashdot: "9 3 2 3", longdash: "14 4", longdashdot: "14 3 2 3" };
  const GLYPHS = {
    circle: "●", square: "■", diamond: "◆", "triangle-up": "▲", x: "✖", "triangle-down": "▼", star: "★",
  };
  const darkColours = JSON.parse(document.getElementById("dark-colours").textContent);
  const darkScreen = window.matchMedia("(prefers-color-scheme: dark)");
  const touch = window.matchMedia("(pointer: coarse)").matches;
  let printing = false;

  const isDark = () => darkScreen.matches && !printing;
  const systemOf = (trace) => trace.legendgroup || trace.name || "";

  function inTheDark(value, name) {
    if (Array.isArray(value)) return value.map((item) => inTheDark(item, name));
    if (value !== null && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, inTheDark(item, key)]));
    }
    return typeof value === "string" && /color$/.test(name) ? darkColours[value] ?? value : value;
  }

  function template() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    const axis = {
      gridcolor: colour("line"),
      zerolinecolor: colour("quiet"),
      linecolor: colour("line"),
      tickcolor: colour("line"),
      title: { font: { size: 14 }, standoff: 10 },
      automargin: true,
    };
    return {
      layout: {
        font: { color: colour("ink"), size: 12, family: getComputedStyle(document.body).fontFamily },
        paper_bgcolor: CLEAR,
        plot_bgcolor: CLEAR,
        xaxis: axis,
        yaxis: axis,
        hoverlabel: { bgcolor: colour("shade"), bordercolor: colour("quiet"), font: { color: colour("ink") }, namelength: 40 },
        modebar: { bgcolor: CLEAR, color: colour("quiet"), activecolor: colour("accent") },
      },
    };
  }

  const figures = [...document.querySelectorAll(".drawing")].map((box) => ({
    box,
    legend: document.getElementById(box.id.replace(/plot$/, "legend")),
    spec: JSON.parse(document.getElementById(box.dataset.figure).textContent),
    hidden: new Set(),
    swatches: new Map(),
  }));

  function draw(figure) {
    const spec = isDark() ? inTheDark(figure.spec, "") : structuredClone(figure.spec);
    for (const trace of spec.data) {
      if (figure.hidden.has(systemOf(trace))) trace.visible = false;
    }
    const width = printing ? PRINT_WIDTH : figure.box.clientWidth;
    const layout = {
      ...LAYOUT,
      ...spec.layout,
      template: template(),
      showlegend: false,
      width,
      dragmode: touch ? false : "zoom", // a finger on a figure scrolls the page
    };
    for (const [name, axis] of Object.entries(layout)) {
      if (/^xaxis/.test(name)) wrapTitle(axis, width - MARGINS);
      if (/^yaxis/.test(name)) wrapTitle(axis, layout.height - MARGINS);
    }
    window.Plotly.react(figure.box, spec.data, layout, {
      staticPlot: printing,
      displaylogo: false,
      displayModeBar: touch ? false : "hover",
      modeBarButtons: [["toImage"], ["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"]],
    });
    paintLegend(figure, spec.data);
  }

  function wrapTitle(axis, room) {
    if (!axis.title?.text) return;
    const most = Math.max(12, Math.floor(room / LETTER));
    const lines = [""];
    for (const word of axis.title.text.split(" ")) {
      if (lines.at(-1) && lines.at(-1).length + word.length >= most) lines.push(word);
      else lines[lines.length - 1] += (lines.at(-1) && " ") + word;
    }
    axis.title.text = lines.join("<br>");
  }

  function makeLegend(figure) {
    const named = figure.spec.data.filter((trace) => trace.showlegend !== false && systemOf(trace));
    const systems = new Set(named.map(systemOf));
    if (figure.spec.layout.showlegend === false || systems.size < 2) return;
    for (const system of systems) {
      const button = document.createElement("button");
      const swatch = document.createElement("span");
      swatch.setAttribute("aria-hidden", "true");
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      button.append(swatch, system);
      button.addEventListener("click", () => {
        const shown = figure.hidden.delete(system);
        if (!shown) figure.hidden.add(system);
        button.setAttribute("aria-pressed", String(shown));
        draw(figure);
      });
      figure.legend.append(button);
      figure.swatches.set(system, swatch);
    }
  }

  function paintLegend(figure, data) {
    for (const trace of data) {
      const swatch = trace.showlegend === false ? undefined : figure.swatches.get(systemOf(trace));
      if (!swatch) continue;
      const isLine = trace.line !== undefined && (trace.mode ?? "lines").includes("lines");
      swatch.replaceChildren(isLine ? lineSwatch(trace.line) : GLYPHS[trace.marker?.symbol] ?? GLYPHS.square);
      swatch.style.color = isLine ? "" : trace.marker?.color ?? "";
    }
  }

  function lineSwatch(line) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const stroke = document.createElementNS("http://www.w3.org/2000/svg", "line");
    const put = (element, values) => Object.entries(values).forEach(([name, value]) => element.setAttribute(name, value));
    put(svg, { width: 30, height: 10 });
    put(stroke, { x1: 0, x2: 30, y1: 5, y2: 5, stroke: line.color, "stroke-width": 2.5 });
    if (DASHES[line.dash]) put(stroke, { "stroke-dasharray": DASHES[line.dash] });
    svg.append(stroke);
    return svg;
  }

  function drawAll() {
    figures.forEach(draw);
  }

  function setPrinting(now) {
    if (now === printing) return;
    printing = now;
    document.documentElement.classList.toggle("printing", now);
    drawAll();
  }

  figures.forEach(makeLegend);
  drawAll();
  let resizing;
  window.addEventListener("resize", () => {
    clearTimeout(resizing);
    resizing = setTimeout(drawAll, 150);
  });
  darkScreen.addEventListener("change", drawAll);
  window.addEventListener("beforeprint", () => setPrinting(true));
  window.addEventListener("afterprint", () => setPrinting(false));
  window.matchMedia("print").addEventListener("change", (event) => setPrinting(event.matches));
})();
