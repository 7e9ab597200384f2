// The page: tables, charts, warnings, machines and configurations from the data block. All text goes
// in as text. When everything is drawn, <body data-charts> holds how many charts there are, and
// <body data-failed> how many could not be drawn.
"use strict";

(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const page = document.getElementById("page");
  const figures = [];  // {draw()}: to be drawn again when colours change

  function make(name, options = {}, ...children) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(options)) {
      if (key === "class") element.className = value;
      else element.setAttribute(key, value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  }

  function swatch(family) {
    const mark = make("span", {class: "swatch"});
    const paint = () => { mark.style.background = Theme.of_family(family); };
    figures.push({draw: paint});
    return mark;
  }

  // ------------------------------------------------------------------ tables

  // "12.3k" < "4 MiB": by the metric behind a cell where it is a number, else by its text.
  function sort_value(text) {
    const found = /^(-?[\d.,]+)\s*([kM%]|[KMGT]iB)?/.exec(text);
    if (!found) return null;
    const units = {k: 1e3, M: 1e6, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40};
    return Number(found[1].replaceAll(",", "")) * (units[found[2]] || 1);
  }

  function row_of(group, run) {
    if (!run.ok) {
      return make("tr", {class: "failed"}, make("td", {class: "left"}, swatch(run.family), run.label),
        make("td", {class: "left", colspan: group.columns.length - 1}, `failed: ${run.reason}`));
    }
    const cells = run.cells.map((text, column) => {
      const cell = make("td", group.columns[column].left ? {class: "left", title: text} : {});
      if (column === 0) cell.append(swatch(run.family));
      cell.append(text);
      return cell;
    });
    return make("tr", run.family === "full" ? {class: "full"} : {}, ...cells);
  }

  function table_of(group) {
    const body = make("tbody", {}, ...group.runs.map((run) => row_of(group, run)));
    let sorted = {column: -1, sign: 1};
    const sort_by = (column) => {
      sorted = {column, sign: sorted.column === column ? -sorted.sign : 1};
      const key = (row) => (row.cells.length > column ? row.cells[column].textContent : "");
      const rows = [...body.rows].sort((a, b) => {
        const x = sort_value(key(a)), y = sort_value(key(b));
        const order = group.columns[column].left || x === null || y === null ? key(a).localeCompare(key(b)) : x - y;
        return sorted.sign * order;
      });
      body.append(...rows);
    };
    const heads = group.columns.map(({title, left}, column) => {
      const button = make("button", {type: "button", title: "sort"}, title);
      button.addEventListener("click", () => sort_by(column));
      return make("th", {scope: "col", class: left ? "left" : ""}, button);
    });
    return make("div", {class: "card"}, make("table", {}, make("thead", {}, make("tr", {}, ...heads)), body));
  }

  // ------------------------------------------------------------------ charts

  function figure(title, note, wide) {
    return make("figure", {class: wide ? "wide" : ""},
      make("figcaption", {}, make("h3", {}, title), make("p", {}, note)));
  }

  function chart_figure(spec) {
    const box = figure(spec.title, spec.note, spec.wide);
    const canvas = make("canvas", {role: "img", "aria-label": spec.title});
    const frame = make("div", {class: "canvas"}, canvas);
    frame.style.height = `${spec.height}px`;
    box.append(frame);
    let chart = null;
    let key = null;
    const draw = () => {
      const hidden = chart ? chart.data.datasets.map((dataset) => dataset.hidden) : null;
      if (chart) chart.destroy();
      const config = spec.config();
      if (hidden) config.data.datasets.forEach((dataset, index) => { dataset.hidden = hidden[index]; });
      chart = new Chart(canvas, config);
      if (spec.keyed) {
        const fresh = Parts.key_of(chart);
        if (key) key.replaceWith(fresh);
        else box.append(fresh);
        key = fresh;
      }
    };
    figures.push({draw, counts: true, title: spec.title});
    return box;
  }

  function map_figure(spec) {
    const box = figure(spec.title, spec.note, true);
    const maps = make("div", {class: "maps"});
    const places = spec.maps.map(({run, map}) => {
      const place = make("div", {});
      maps.append(make("div", {class: "map"}, make("h4", {}, swatch(run.family), run.label), place));
      return {place, map};
    });
    const key = make("div", {});
    box.append(maps, key);
    figures.push({counts: true, title: spec.title, draw: () => {
      for (const {place, map} of places) place.replaceChildren(HeatMaps.draw(map));
      key.replaceChildren(HeatMaps.scale());
    }});
    return box;
  }

  // ------------------------------------------------------------------ sections

  function notes_of(group) {
    const by_text = new Map();
    for (const run of group.runs) {
      for (const text of run.warnings) by_text.set(text, [...(by_text.get(text) || []), run.label]);
    }
    if (by_text.size === 0) return null;
    return make("ul", {class: "notes"}, ...[...by_text].map(([text, labels]) =>
      make("li", {}, make("b", {}, labels.length === group.runs.length ? "all runs" : labels.join("; ")), `: ${text}`)));
  }

  // Settings by which a group differs from others of the same task, model and text.
  function difference_of(group) {
    const same = data.groups.filter((other) => other !== group && other.task === group.task && other.model === group.model && other.data === group.data);
    const differs = ([name, value]) => same.some((other) => !other.settings.some((setting) => setting[0] === name && setting[1] === value));
    return group.settings.filter(differs).slice(0, 4).map(([name, value]) => `${name} ${value}`).join(", ");
  }

  function group_section(group, index) {
    const where = [group.model, group.data].filter((text) => text).join(" on ");
    const settings = group.settings.map(([name, value]) => make("li", {}, `${name} `, make("b", {}, value)));
    const specs = Charts.of_group(group).map(chart_figure).concat(HeatMaps.of_group(group).map(map_figure));
    // A lone chart would leave a gap beside it.
    const narrow = specs.filter((box) => !box.classList.contains("wide"));
    if (narrow.length % 2 === 1) narrow[0].classList.add("wide");
    return make("section", {id: `group-${index}`},
      make("h2", {}, `${Charts.task_name(group.task)} `, make("small", {}, [where, difference_of(group)].filter((text) => text).join(", "))),
      make("ul", {class: "settings"}, ...settings), table_of(group),
      specs.length > 0 ? make("div", {class: "charts"}, ...specs) : null, notes_of(group));
  }

  function head() {
    const runs = data.groups.flatMap((group) => group.runs);
    const failed = runs.filter((run) => !run.ok).length;
    const count = (list) => new Set(list).size;
    const tile = (value, name, bad) => make("div", {class: bad ? "tile bad" : "tile"}, make("b", {}, String(value)), make("span", {}, name));
    const dates = runs.map((run) => run.started_at.slice(0, 10)).filter((text) => text).sort();
    const span = dates.length === 0 ? "" : dates[0] === dates[dates.length - 1] ? `, run on ${dates[0]}` : `, run from ${dates[0]} to ${dates[dates.length - 1]}`;
    page.append(make("header", {}, make("h1", {}, data.title),
      make("p", {class: "soft"}, `Made by kvbench ${data.version} at ${data.made_at}${span}.`),
      make("div", {class: "tiles"}, tile(runs.length, runs.length === 1 ? "run" : "runs"), tile(count(runs.map((run) => run.policy)), "policies"),
        tile(count(data.groups.map((group) => group.model)), "models"), tile(count(data.groups.map((group) => group.data)), "texts"),
        failed > 0 ? tile(failed, "failed", true) : null),
      make("nav", {}, ...data.groups.map((group, index) => make("a", {href: `#group-${index}`},
        `${Charts.task_name(group.task)}: ${[group.model, group.data, difference_of(group)].filter((text) => text).join(", ")}`)), make("a", {href: "#machines"}, "Machines"), make("a", {href: "#runs"}, "Configurations"))));
    if (data.warnings.length > 0) {
      page.append(make("ul", {class: "notes"}, ...data.warnings.map((text) => make("li", {}, text))));
    }
  }

  function machines() {
    const rows = [...new Set(data.environments.flatMap((environment) => Object.keys(environment)))];
    const heads = data.environments.map((_, index) => make("th", {scope: "col", class: "left"}, data.environments.length > 1 ? `machine ${index + 1}` : "value"));
    const text = (value, name) => (name.startsWith("memory") && typeof value === "number" ? Parts.bytes(value) : String(value ?? "–"));
    const body = rows.map((name) => make("tr", {}, make("td", {class: "left"}, name.replaceAll("_", " ")),
      ...data.environments.map((environment) => make("td", {class: "left"}, text(environment[name], name)))));
    page.append(make("section", {id: "machines"}, make("h2", {}, "Machines and builds"), make("p", {}),
      make("div", {class: "card"}, make("table", {}, make("thead", {}, make("tr", {}, make("th", {class: "left"}, ""), ...heads)), make("tbody", {}, ...body)))));
  }

  function configurations() {
    const entries = data.groups.flatMap((group) => group.runs.map((run) => make("details", {},
      make("summary", {}, `${group.task}: ${run.label}`, make("code", {}, run.config_hash.slice(0, 12))),
      make("pre", {}, JSON.stringify({config_hash: run.config_hash, started_at: run.started_at, machine: run.environment + 1,
        threads: run.threads, backend: run.backend, timings_s: run.timings_s, config: run.config}, null, 2)))));
    page.append(make("section", {id: "runs"}, make("h2", {}, "Configurations"),
      make("p", {class: "soft"}, "Every setting that can change a run's numbers, as it was resolved."), make("div", {class: "card"}, ...entries)));
  }

  function draw_all() {
    let failed = 0;
    for (const {draw, title} of figures) {
      try {
        draw();
      } catch (error) {
        ++failed;
        console.error(`chart "${title}" could not be drawn:`, error);
      }
    }
    document.body.dataset.charts = String(figures.filter((entry) => entry.counts).length);
    document.body.dataset.failed = String(failed);
  }

  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  head();
  data.groups.forEach((group, index) => page.append(group_section(group, index)));
  machines();
  configurations();
  draw_all();
  Theme.on_change(draw_all);
})();
