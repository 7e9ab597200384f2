// What every chart is made of: numbers as text, axes, error bars, reference lines, a key.
"use strict";

const Parts = (() => {
  // Four significant digits, and no exponent where a person would write none.
  function plain(value) {
    if (value === null || value === undefined) return "–";
    const size = Math.abs(value);
    if (size !== 0 && (size >= 1e6 || size < 1e-3)) return value.toExponential(2);
    return String(Number(value.toPrecision(4)));
  }
  function bytes(value) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = 0;
    while (Math.abs(value) >= 1024 && unit < units.length - 1) { value /= 1024; ++unit; }
    return `${Number(value.toPrecision(3))} ${units[unit]}`;
  }
  function rate(value) {
    if (value >= 1e6) return `${Number((value / 1e6).toPrecision(3))}M`;
    return value >= 1e3 ? `${Number((value / 1e3).toPrecision(3))}k` : String(Number(value.toPrecision(3)));
  }
  const percent = (value) => `${Number((100 * value).toPrecision(3))} %`;

  function axis(title, more = {}) {
    const {ticks = {}, ...rest} = more;
    return {
      title: {display: true, text: title, color: Theme.colour("soft"), font: {size: 12}},
      grid: {color: Theme.colour("grid"), borderColor: Theme.colour("line"), tickLength: 4},
      ticks: {color: Theme.colour("soft"), font: {size: 11}, maxRotation: 0, ...ticks},
      ...rest,
    };
  }

  // 1, 2, 5, 10, ... or, of bytes, powers of two; fewer over a wide range.
  function log_marks(low, high, base) {
    const decades = Math.log10(high / low);
    const steps = base === 2 || decades > 2.5 ? [1] : decades > 0.9 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 7];
    const every = base === 2 && decades > 1.8 ? 2 : 1;
    const power_of = (value) => Math.log(value) / Math.log(base);
    const marks = [];
    for (let power = Math.floor(power_of(low)); power <= Math.ceil(power_of(high)); ++power) {
      if (power % every === 0) for (const step of steps) marks.push(step * base ** power);
    }
    return marks;
  }

  // Shares from 0 to 1; else linear, or logarithmic where the values span more than a factor of three. `format`: of ticks.
  function value_axis(title, values, format = plain) {
    if (format === percent) return axis(title, {type: "linear", min: 0, max: 1, ticks: {callback: (value) => format(value), maxTicksLimit: 6}});
    const positive = values.filter((value) => value > 0);
    const logarithmic = positive.length === values.length && Math.max(...values) > 3 * Math.min(...values);
    if (!logarithmic) {
      const room = 0.06 * (Math.max(...values) - Math.min(...values));
      return axis(title, {type: "linear", suggestedMin: Math.min(...values) - room, suggestedMax: Math.max(...values) + room,
        ticks: {callback: (value) => format(value), maxTicksLimit: 7}});
    }
    const low = Math.min(...values) / 1.25;
    const high = Math.max(...values) * 1.25;
    const marks = log_marks(low, high, format === bytes ? 2 : 10);
    return axis(title + " (log)", {
      type: "logarithmic", min: low, max: high,
      afterBuildTicks: (scale) => { scale.ticks = marks.filter((mark) => mark >= low && mark <= high).map((value) => ({value})); },
      ticks: {callback: (value) => format(value)},
    });
  }

  // Budgets, on a logarithmic axis with a mark at each.
  function budget_axis(budgets) {
    return axis("KV entries kept per head (log)", {
      type: "logarithmic", min: budgets[0] / 1.15, max: budgets[budgets.length - 1] * 1.15,
      afterBuildTicks: (scale) => { scale.ticks = budgets.map((value) => ({value})); },
      ticks: {callback: (value) => String(value), autoSkip: true},
    });
  }

  // Points with `e`: a bar of one standard error on each side, along the axis of the value.
  const error_bars = {
    id: "error_bars",
    beforeDatasetsDraw(chart) {
      const {ctx} = chart;
      const lying = chart.options.indexAxis === "y";
      const scale = lying ? chart.scales.x : chart.scales.y;
      const area = chart.chartArea;
      ctx.save();
      ctx.beginPath();
      ctx.rect(area.left, area.top, area.width, area.height);
      ctx.clip();
      chart.data.datasets.forEach((dataset, index) => {
        if (!chart.isDatasetVisible(index)) return;
        ctx.strokeStyle = dataset.errorColor || dataset.borderColor;
        ctx.lineWidth = 1.25;
        chart.getDatasetMeta(index).data.forEach((element, at) => {
          const point = dataset.data[at];
          if (!point || !point.e) return;
          const value = lying ? point.x : point.y;
          const ends = [value - point.e, value + point.e].map((end) =>
            scale.getPixelForValue(scale.type === "logarithmic" ? Math.max(end, scale.min) : end));
          const cap = 3.5;
          ctx.beginPath();
          for (const end of ends) {
            if (lying) { ctx.moveTo(end, element.y - cap); ctx.lineTo(end, element.y + cap); }
            else { ctx.moveTo(element.x - cap, end); ctx.lineTo(element.x + cap, end); }
          }
          if (lying) { ctx.moveTo(ends[0], element.y); ctx.lineTo(ends[1], element.y); }
          else { ctx.moveTo(element.x, ends[0]); ctx.lineTo(element.x, ends[1]); }
          ctx.stroke();
        });
      });
      ctx.restore();
    },
  };

  // options.plugins.reference: {value, text}: a dashed line across the chart: the full cache.
  const reference = {
    id: "reference",
    afterDatasetsDraw(chart, _args, options) {
      if (options.value === undefined || options.value === null) return;
      const {ctx, chartArea: area} = chart;
      const lying = chart.options.indexAxis === "y";
      const at = (lying ? chart.scales.x : chart.scales.y).getPixelForValue(options.value);
      ctx.save();
      ctx.strokeStyle = Theme.of_family("full");
      ctx.lineWidth = 1.25;
      ctx.setLineDash([5, 4]);
      ctx.beginPath();
      if (lying) { ctx.moveTo(at, area.top); ctx.lineTo(at, area.bottom); }
      else { ctx.moveTo(area.left, at); ctx.lineTo(area.right, at); }
      ctx.stroke();
      ctx.restore();
    },
  };

  function sample_of(dataset) {
    const name = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(name, "svg");
    svg.setAttribute("width", "22");
    svg.setAttribute("height", "10");
    const line = document.createElementNS(name, "line");
    for (const [key, value] of Object.entries({x1: 0, x2: 22, y1: 5, y2: 5, stroke: dataset.borderColor,
      "stroke-width": 2, "stroke-dasharray": (dataset.borderDash || []).join(" ")})) line.setAttribute(key, value);
    svg.append(line);
    return svg;
  }

  // Buttons below a chart that show and hide its lines.
  function key_of(chart) {
    const list = document.createElement("ul");
    list.className = "key";
    chart.data.datasets.forEach((dataset, index) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(sample_of(dataset), document.createTextNode(dataset.label));
      const show = () => button.setAttribute("aria-pressed", String(chart.isDatasetVisible(index)));
      button.addEventListener("click", () => {
        chart.setDatasetVisibility(index, !chart.isDatasetVisible(index));
        dataset.hidden = !chart.isDatasetVisible(index);
        chart.update();
        show();
      });
      show();
      const item = document.createElement("li");
      item.append(button);
      list.append(item);
    });
    const {value, text} = chart.options.plugins.reference || {};
    if (typeof value === "number") {
      const item = document.createElement("li");
      const sample = document.createElement("button");
      sample.disabled = true;
      sample.append(sample_of({borderColor: Theme.of_family("full"), borderDash: [5, 4]}), document.createTextNode(text));
      item.append(sample);
      list.append(item);
    }
    return list;
  }

  return {plain, bytes, rate, percent, axis, value_axis, budget_axis, key_of, plugins: [error_bars, reference]};
})();
