// Heat maps as SVG: hit rate of each layer and head, needle accuracy of each length and depth. All
// maps of one figure share one scale, 0 to 1.
"use strict";

const HeatMaps = (() => {
  const SVG = "http://www.w3.org/2000/svg";

  function node(name, attributes, text) {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    return element;
  }

  // Every nth label, so that they do not run into each other.
  function label_step(count, room, need) {
    for (const step of [1, 2, 4, 5, 8, 10, 16, 20, 32, 64]) if (room / count * step >= need) return step;
    return count;
  }

  // map: {rows, columns: labels, row_title, column_title, values[row][column]: number or null,
  // tip(row, column), written: whether numbers stand in the cells}
  function draw(map) {
    const left = 54, top = 6, bottom = 34;
    const cell_w = map.written ? 44 : Math.max(8, Math.min(22, 300 / map.columns.length));
    const cell_h = map.written ? 24 : Math.max(6, Math.min(14, 300 / map.rows.length));
    const width = Math.max(left + cell_w * map.columns.length + 8, left + 130);
    const height = top + cell_h * map.rows.length + bottom;
    const svg = node("svg", {width, height, viewBox: `0 0 ${width} ${height}`, role: "img"});
    map.rows.forEach((_, row) => map.columns.forEach((__, column) => {
      const value = map.values[row] && map.values[row][column];
      const known = typeof value === "number";
      const box = {x: left + column * cell_w, y: top + row * cell_h, width: cell_w - 1, height: cell_h - 1};
      const rect = node("rect", {...box, rx: 1, fill: known ? Theme.heat(value) : "var(--empty)"});
      rect.append(node("title", {}, map.tip(row, column)));
      svg.append(rect);
      if (map.written && known) {
        const text = node("text", {x: box.x + box.width / 2, y: box.y + box.height / 2 + 4, "text-anchor": "middle"}, String(Math.round(100 * value)));
        text.style.fill = Theme.on_heat(value);
        svg.append(text);
      }
    }));
    const row_step = label_step(map.rows.length, cell_h * map.rows.length, 13);
    map.rows.forEach((label, row) => {
      if (row % row_step === 0) svg.append(node("text", {x: left - 5, y: top + (row + 0.5) * cell_h + 3.5, "text-anchor": "end"}, label));
    });
    const column_step = label_step(map.columns.length, cell_w * map.columns.length, map.written ? 40 : 20);
    map.columns.forEach((label, column) => {
      if (column % column_step === 0) svg.append(node("text", {x: left + (column + 0.5) * cell_w, y: height - bottom + 13, "text-anchor": "middle"}, label));
    });
    const middle = top + cell_h * map.rows.length / 2;
    svg.append(node("text", {x: left, y: height - 4}, map.column_title),
      node("text", {x: 0, y: 0, "text-anchor": "middle", transform: `translate(10 ${middle}) rotate(-90)`}, map.row_title));
    return svg;
  }

  function scale() {
    const steps = 40, width = 200;
    const svg = node("svg", {width: width + 70, height: 26, class: "scale", role: "img"});
    for (let step = 0; step < steps; ++step) {
      svg.append(node("rect", {x: 22 + step * width / steps, y: 6, width: width / steps + 0.5, height: 9, fill: Theme.heat(step / (steps - 1))}));
    }
    svg.append(node("text", {x: 0, y: 14}, "0 %"), node("text", {x: 28 + width, y: 14}, "100 %"));
    return svg;
  }

  const percent = (value) => (typeof value === "number" ? Parts.percent(value) : "no value");
  const is_matrix = (value) => Array.isArray(value) && value.length > 0 && value.every((row) => Array.isArray(row) && row.length === value[0].length);

  function layer_map(values) {
    return {
      rows: values.map((_, layer) => String(layer)), columns: values[0].map((_, head) => String(head)),
      row_title: "layer", column_title: "query head", values, written: false,
      tip: (layer, head) => `layer ${layer}, head ${head}: ${percent(values[layer][head])}`,
    };
  }

  // Cells of one template or of all; several in one place are averaged by their number of prompts.
  function needle_map(cells) {
    const lengths = [...new Set(cells.map((cell) => cell.length))].sort((a, b) => a - b);
    const depths = [...new Set(cells.map((cell) => cell.depth))].sort((a, b) => a - b);
    const at = (depth, length) => cells.filter((cell) => cell.depth === depths[depth] && cell.length === lengths[length]);
    const total = (list, field) => list.reduce((sum, cell) => sum + cell[field], 0);
    const values = depths.map((_, depth) => lengths.map((__, length) => {
      const n = total(at(depth, length), "n");
      return n > 0 ? total(at(depth, length), "right") / n : null;
    }));
    return {
      rows: depths.map((depth) => Parts.percent(depth)), columns: lengths.map((length) => length.toLocaleString("en")),
      row_title: "depth", column_title: "prompt length, tokens", values, written: lengths.length <= 12,
      tip: (depth, length) => {
        const list = at(depth, length);
        const interval = list.length === 1 ? `, 95 %: ${percent(list[0].low)} to ${percent(list[0].high)}` : "";
        return `${lengths[length]} tokens, depth ${Parts.percent(depths[depth])}: ${total(list, "right")} of ${total(list, "n")}${interval}`;
      },
    };
  }

  // [{title, note, maps: [{run, map()}]}] of a group.
  function of_group(group) {
    const figures = [];
    const add = (title, note, map_of) => {
      const maps = group.runs.filter((run) => run.ok).map((run) => ({run, map: map_of(run)})).filter((entry) => entry.map);
      if (maps.length > 0) figures.push({title, note, maps});
    };
    add("Hit rate of each layer and head", "share of the large attention weights that fall on kept entries; grey: none was large", (run) => {
      const heads = Array.isArray(run.details.heads) && run.details.heads[0];
      return heads && is_matrix(heads.hit_rate) ? layer_map(heads.hit_rate) : null;
    });
    add("Needle accuracy over length and depth", "per cent of the prompts answered rightly", (run) =>
      (Array.isArray(run.details.cells) && run.details.cells.length > 0 ? needle_map(run.details.cells) : null));
    return figures;
  }

  return {of_group, draw, scale};
})();
