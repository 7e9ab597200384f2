// Which charts a group of runs has, and what each shows. A chart is {title, note, wide, height,
// config(): what Chart.js takes}; it is made anew whenever the colours change.
"use strict";

const Charts = (() => {
  // What a task is about: its metric, what is better, and how it is written.
  const TASKS = {
    ppl: {metric: "ppl", name: "Perplexity", better: "lower", format: Parts.plain},
    hitrate: {metric: "hit_rate", name: "Hit rate", better: "higher", format: Parts.percent},
    needle: {metric: "accuracy", name: "Needle accuracy", better: "higher", format: Parts.percent},
    qa: {metric: "score", name: "Question answering", unit: "score of 100", better: "higher", format: Parts.plain},
  };
  const COSTS = [
    {metric: "tokens_per_s", name: "Speed", unit: "tokens/s", better: "higher", format: Parts.rate},
    {metric: "prefill_tokens_per_s", name: "Speed of prompts", unit: "tokens/s", better: "higher", format: Parts.rate},
    {metric: "decode_tokens_per_s", name: "Speed of decoding", unit: "tokens/s", better: "higher", format: Parts.rate},
    {metric: "kv_bytes_peak", name: "Peak size of the KV cache", unit: "bytes", better: "lower", format: Parts.bytes},
    {metric: "mass_recall", name: "Attention mass on kept entries", better: "higher", format: Parts.percent},
    {metric: "needle_kept", name: "Share of the needle that is kept", better: "higher", format: Parts.percent},
  ];

  const value_of = (run, metric) => (run.ok && Object.hasOwn(run.metrics, metric) ? run.metrics[metric] : null);
  const usable = (group, metric) => group.runs.filter((run) => value_of(run, metric));
  const full_of = (group) => group.runs.find((run) => run.family === "full" && run.ok);

  function budgets_of(runs) {
    return [...new Set(runs.map((run) => run.budget).filter((budget) => budget > 0))].sort((a, b) => a - b);
  }

  function base(more) {
    return {
      plugins: Parts.plugins,
      ...more,
      options: {
        animation: false, responsive: true, maintainAspectRatio: false,
        interaction: {mode: "nearest", intersect: false},
        ...more.options,
        plugins: {legend: {display: false}, ...more.options.plugins},
      },
    };
  }

  function values_with_bars(runs, metric) {
    const values = [];
    for (const run of runs) {
      const [value, error] = value_of(run, metric);
      values.push(value);
      if (error && value - error > 0) values.push(value - error, value + error);
    }
    return values;
  }

  function described(value, error, format) {
    return format(value) + (error ? ` ± ${format(error)}` : "");
  }

  // One line per series of policies, over the budget.
  function over_budget(group, what) {
    const runs = usable(group, what.metric).filter((run) => run.budget > 0);
    const full = full_of(group) && value_of(full_of(group), what.metric);
    const names = [...new Set(runs.map((run) => run.series))];
    const range = Math.max(...runs.map((run) => run.budget)) / Math.min(...runs.map((run) => run.budget));
    const seen = new Map();
    const datasets = names.map((name, index) => {
      // Side by side, so that error bars at one budget can be told apart.
      const shift = range ** (0.011 * (index - (names.length - 1) / 2));
      const members = runs.filter((run) => run.series === name).sort((a, b) => a.budget - b.budget);
      const colour = Theme.of_family(members[0].family);
      const nth = seen.get(members[0].family) || 0;
      seen.set(members[0].family, nth + 1);
      return {
        label: name, borderColor: colour, backgroundColor: colour, borderWidth: 2, tension: 0,
        borderDash: [[], [6, 3], [2, 2], [8, 3, 2, 3]][nth % 4], pointStyle: Theme.mark(nth), pointRadius: 3.5, pointHoverRadius: 5,
        data: members.map((run) => ({x: run.budget * shift, y: value_of(run, what.metric)[0], e: value_of(run, what.metric)[1], run})),
      };
    });
    const values = values_with_bars(runs, what.metric).concat(full ? [full[0]] : []);
    return base({
      type: "line", data: {datasets},
      options: {
        scales: {x: Parts.budget_axis(budgets_of(runs)), y: Parts.value_axis(axis_title(what), values, what.format)},
        plugins: {
          reference: full ? {value: full[0], text: `full: ${what.format(full[0])}`} : {},
          tooltip: {callbacks: {title: () => "", label: ({raw}) => `${raw.run.label}: ${described(raw.y, raw.e, what.format)}`}},
        },
      },
    });
  }

  const axis_title = (what) => what.name + (what.unit && what.unit !== "bytes" ? `, ${what.unit}` : "");

  // One line per policy, best first.
  function ranking(group, what) {
    const full = full_of(group) && value_of(full_of(group), what.metric);
    const sign = what.better === "lower" ? 1 : -1;
    const runs = usable(group, what.metric).sort((a, b) => sign * (value_of(a, what.metric)[0] - value_of(b, what.metric)[0]));
    const colours = runs.map((run) => Theme.of_family(run.family));
    const dataset = {
      label: what.name, showLine: false, pointRadius: 5, pointHoverRadius: 6, borderColor: Theme.colour("soft"),
      errorColor: Theme.colour("faint"), pointBackgroundColor: colours, pointBorderColor: Theme.colour("card"), pointBorderWidth: 1.5,
      data: runs.map((run) => ({x: value_of(run, what.metric)[0], y: run.label, e: value_of(run, what.metric)[1]})),
    };
    const short = (text) => (text.length > 44 ? text.slice(0, 42) + "…" : text);
    return base({
      type: "line", data: {labels: runs.map((run) => run.label), datasets: [dataset]},
      options: {
        indexAxis: "y",
        scales: {
          x: Parts.value_axis(axis_title(what), values_with_bars(runs, what.metric), what.format),
          y: {type: "category", offset: true, grid: {color: Theme.colour("grid"), borderColor: Theme.colour("line"), tickLength: 0},
            ticks: {autoSkip: false, color: Theme.colour("ink"), font: {size: 12}, callback(value) { return short(this.getLabelForValue(value)); }}},
        },
        plugins: {
          reference: full ? {value: full[0]} : {},
          tooltip: {callbacks: {label: ({raw}) => described(raw.x, raw.e, what.format)}},
        },
      },
    });
  }

  function of_metric(group, what) {
    const runs = usable(group, what.metric);
    const better = `${what.better} is better; bars are one standard error`;
    const bars = runs.some((run) => value_of(run, what.metric)[1]) ? better : `${what.better} is better`;
    if (runs.length < 2) return [];
    if (budgets_of(runs).length > 1) {
      return [{title: `${what.name} by budget`, note: bars, height: 330, keyed: true, config: () => over_budget(group, what)}];
    }
    return [{title: `${what.name} by policy`, note: bars, height: 60 + 25 * runs.length, config: () => ranking(group, what)}];
  }

  // ------------------------------------------------------------------ NLL over the position

  const curve_of = (run) => (run.ok && Array.isArray(run.details.curve) ? run.details.curve : []);

  // Lines that are there from the start: the full cache, and of each series the widest and the
  // narrowest budget; the others at a click.
  function shown_first(runs) {
    const shown = new Set(runs.filter((run) => run.family === "full"));
    for (const name of new Set(runs.map((run) => run.series))) {
      const members = runs.filter((run) => run.series === name).sort((a, b) => a.budget - b.budget);
      for (const run of [members[0], members[members.length - 1]]) if (shown.size < 9) shown.add(run);
    }
    return shown;
  }

  function position_datasets(runs, y_of_bin) {
    const shown = shown_first(runs);
    return runs.map((run) => {
      const members = runs.filter((other) => other.series === run.series).sort((a, b) => a.budget - b.budget);
      const place = members.length > 1 ? members.indexOf(run) / (members.length - 1) : 1;
      const colour = Theme.with_alpha(Theme.of_family(run.family), 0.45 + 0.55 * place);
      return {
        label: run.label, borderColor: colour, backgroundColor: colour, pointRadius: 0, pointHoverRadius: 4, tension: 0,
        borderWidth: run.family === "full" ? 2.25 : 1.75, borderDash: place < 0.5 ? [5, 3] : [], hidden: !shown.has(run), order: run.family === "full" ? 0 : 1,
        data: curve_of(run).map((bin) => ({x: (bin.first_position + bin.end_position) / 2, y: y_of_bin(bin) ?? NaN, bin})),
      };
    });
  }

  function over_position(runs, title, y_of_bin) {
    const scored = runs.flatMap(curve_of).filter((bin) => bin.nll_mean !== null);
    return base({
      type: "line", data: {datasets: position_datasets(runs, y_of_bin)},
      options: {
        interaction: {mode: "nearest", axis: "x", intersect: false},
        scales: {
          x: Parts.axis("position in the text, tokens", {
            type: "linear", min: Math.min(...scored.map((bin) => bin.first_position)), max: Math.max(...scored.map((bin) => bin.end_position)),
            ticks: {maxTicksLimit: 9, callback: (value) => value.toLocaleString("en")}}),
          y: Parts.axis(title, {type: "linear", ticks: {maxTicksLimit: 7}}),
        },
        plugins: {tooltip: {callbacks: {
          title: (items) => (items.length ? `positions ${items[0].raw.bin.first_position} to ${items[0].raw.bin.end_position - 1}` : ""),
          label: ({dataset, raw}) => `${dataset.label}: ${Parts.plain(raw.y)} nat`}}},
      },
    });
  }

  function position_charts(group) {
    const runs = group.runs.filter((run) => curve_of(run).filter((bin) => bin.nll_mean !== null).length > 1);
    if (runs.length === 0) return [];
    const charts = [{
      title: "NLL over the position", wide: true, height: 300, keyed: true,
      note: "mean negative log-likelihood of the tokens at each position; where a policy stops keeping what the model leans on, its line leaves that of full",
      config: () => over_position(runs, "NLL, nat per token", (bin) => bin.nll_mean),
    }];
    const full = runs.find((run) => run.family === "full");
    if (!full || runs.length < 2) return charts;
    const at_full = new Map(curve_of(full).map((bin) => [`${bin.first_position}-${bin.end_position}`, bin.nll_mean]));
    const over_full = (bin) => {
      const value = at_full.get(`${bin.first_position}-${bin.end_position}`);
      return value === undefined || value === null || bin.nll_mean === null ? null : bin.nll_mean - value;
    };
    charts.push({
      title: "What eviction adds to the NLL", wide: true, height: 300, keyed: true,
      note: "the same less the NLL under the full cache: how hard the text is cancels",
      config: () => over_position(runs.filter((run) => run !== full), "NLL over full, nat per token", over_full),
    });
    return charts;
  }

  function of_group(group) {
    const task = Object.hasOwn(TASKS, group.task) ? TASKS[group.task] : null;
    const charts = task ? of_metric(group, task) : [];
    for (const cost of COSTS) charts.push(...of_metric(group, cost));
    if (group.task === "ppl") charts.push(...position_charts(group));
    return charts;
  }

  return {of_group, task_name: (task) => (Object.hasOwn(TASKS, task) ? TASKS[task].name : task)};
})();
