"use strict";
(() => {
  const ROW = 36; // pixels, the height of a document in page.css
  const WIDTH = 100; // of the drawing of moves, stretched to its column

  function make(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  function drawn(tag, attributes) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  }

  const signed = (value, digits) => (value > 0 ? "+" : value < 0 ? "−" : "±") + Math.abs(value).toFixed(digits);
  const kind = (value) => (value > 0 ? "better" : value < 0 ? "worse" : "level");
  const moved = (query) => query.documents.reduce((sum, one) => sum + Math.abs(one[2] - one[3]), 0);

  const ORDERS = {
    "largest loss first": (a, b) => a.gain - b.gain,
    "largest gain first": (a, b) => b.gain - a.gain,
    "most moved first": (a, b) => moved(b) - moved(a),
    "as in the data": () => 0,
  };

  function start(root) {
    const data = JSON.parse(document.getElementById(root.dataset.rankings).textContent);
    const search = make("input", { type: "search", placeholder: "query or document", "aria-label": "Search" });
    const order = make("select", { "aria-label": "Order of the queries" }, ...Object.keys(ORDERS).map((name) => make("option", {}, name)));
    const count = make("p", { class: "note", role: "status" });
    const list = make("ul", { class: "queries", "aria-label": "Queries" });
    const chosen = make("div", { class: "chosen" });
    root.append(make("div", { class: "controls" }, search, order), count, make("div", { class: "both" }, list, chosen));

    function fill() {
      const sought = search.value.trim().toLowerCase();
      const holds = (text) => text.toLowerCase().includes(sought);
      const found = data.queries.filter((one) => !sought || holds(one.qid) || one.documents.some((each) => holds(each[0])));
      found.sort(ORDERS[order.value]);
      count.textContent = `${found.length} of ${data.queries.length} queries`;
      list.replaceChildren(
        ...found.map((query) => {
          const gain = make("span", { class: kind(query.gain) }, signed(query.gain, 3));
          const button = make("button", { type: "button" }, make("span", {}, query.qid), gain);
          button.addEventListener("click", () => show(query, button));
          return make("li", {}, button);
        }),
      );
      if (found.length) show(found[0], list.querySelector("button"));
      else chosen.replaceChildren();
    }

    function show(query, button) {
      list.querySelectorAll("[aria-current]").forEach((other) => other.removeAttribute("aria-current"));
      button.setAttribute("aria-current", "true");
      const [before, after] = query.values;
      const heading = make("h3", {}, `Query ${query.qid}`);
      const change = make("span", { class: kind(query.gain) }, signed(query.gain, 4));
      const said = make("p", {}, `${data.metric}: ${before.toFixed(4)} in ${data.names[0]}, ${after.toFixed(4)} in ${data.names[1]} (`, change, `). ${query.size} documents.`);
      const columns = [2, 3].map((place) => query.documents.filter((one) => one[place]).sort((x, y) => x[place] - y[place]));
      const known = columns.map((column, side) => column.filter((one, at) => one[2 + side] === at + 1));
      const rows = Math.min(...known.map((column) => column.length));
      const shown = known.map((column) => column.slice(0, rows));
      const why = make("div", { class: "why", role: "status" });
      const moves = drawn("svg", { class: "moves", viewBox: `0 0 ${WIDTH} ${rows * ROW}`, preserveAspectRatio: "none", "aria-hidden": "true" });
      moves.style.height = `${rows * ROW}px`;
      const lines = new Map();
      query.documents.forEach((one) => {
        const ends = [one[2], one[3]].map((rank, side) => (rank <= shown[side].length ? (rank - 0.5) * ROW : rows * ROW));
        const line = drawn("line", { x1: 0, y1: ends[0], x2: WIDTH, y2: ends[1], class: one[1] > 0 ? "relevant" : "other" });
        lines.set(one, line);
        moves.append(line);
      });

      function card(one, side) {
        const step = one[2] - one[3];
        const move = step === 0 ? "" : `${step > 0 ? "▲" : "▼"}${Math.abs(step)}`;
        const parts = [
          make("span", { class: "rank" }, String(one[2 + side])),
          make("span", { class: "name", title: one[0] }, one[0]),
          make("span", { class: one[1] > 0 ? "label relevant" : "label", title: `label ${one[1]}` }, String(one[1])),
          ...(side === 1 ? [make("span", { class: "step" }, move)] : []),
        ];
        const said = `document ${one[0]}, label ${one[1]}, rank ${one[2]} in ${data.names[0]} and ${one[3]} in ${data.names[1]}`;
        const card = make("button", { type: "button", "aria-label": said }, ...parts);
        card.addEventListener("click", () => explain(one));
        return make("li", {}, card);
      }

      function explain(one) {
        lines.forEach((line, each) => line.classList.toggle("picked", each === one));
        const reasons = one.slice(4);
        if (!reasons.length) {
          why.replaceChildren(make("p", {}, `Document ${one[0]}: rank ${one[2]} in ${data.names[0]}, ${one[3]} in ${data.names[1]}.`));
          return;
        }
        const largest = Math.max(...reasons.flatMap((list) => list.filter((_, at) => at % 2).map(Math.abs)), 1e-12);
        const tables = reasons.map((list, side) => {
          const items = [];
          for (let at = 0; at < list.length; at += 2) {
            const bar = make("span", { class: `bar ${kind(list[at + 1])}` });
            bar.style.width = `${(60 * Math.abs(list[at + 1])) / largest}%`;
            items.push(make("li", {}, make("span", {}, `${data.features[list[at]]} ${signed(list[at + 1], 3)}`), bar));
          }
          const name = reasons.length === 2 ? `${data.names[side]}, rank ${one[2 + side]}` : "the model";
          return make("div", {}, make("h4", {}, name), make("ul", {}, ...(items.length ? items : [make("li", {}, "no feature counts")])));
        });
        why.replaceChildren(make("p", {}, `Document ${one[0]}, label ${one[1]}: what weighs most in its score`), make("div", { class: "reasons" }, ...tables));
        why.scrollIntoView({ block: "nearest" });
      }

      const lists = [0, 1].map((side) => make("ol", { class: "documents", "aria-label": data.names[side] }, ...shown[side].map((one) => card(one, side))));
      const heads = data.names.map((name) => make("h4", { class: "name", title: name }, name));
      const hint = make("p", { class: "note" }, "A line is a document: thick and coloured with a label above 0. Lines that end below leave the part that is shown. Choose a document to see its reasons.");
      chosen.replaceChildren(heading, said, make("div", { class: "pair" }, heads[0], make("span"), heads[1], lists[0], moves, lists[1]), hint, why);
    }

    search.addEventListener("input", fill);
    order.addEventListener("change", fill);
    fill();
  }

  document.querySelectorAll("[data-rankings]").forEach(start);
})();
