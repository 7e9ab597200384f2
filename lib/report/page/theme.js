// Colours: those of the page from its style, those of policies by family, the same in every chart
// and table. Charts are drawn anew when the page turns dark or goes to a printer.
"use strict";

const Theme = (() => {
  // Families that are often shown together are far apart; each colour holds on its background.
  const FAMILIES = {
    //                    on light   on dark
    full:                ["#1c1e21", "#f1f2f3"],
    window:              ["#c8452f", "#ff8a70"],
    sink:                ["#2b67b1", "#76aef0"],
    recompute:           ["#6d7781", "#a9b2bb"],
    random:              ["#9aa0a8", "#858c95"],
    h2o:                 ["#d98200", "#ffb84d"],
    tova:                ["#8a5a2b", "#cfa06f"],
    snapkv:              ["#1d8a57", "#5fd09a"],
    observed_attention:  ["#b8860b", "#e6c34a"],
    expected_attention:  ["#7a4fb5", "#b798ee"],
    rkv:                 ["#b03a7c", "#f087bd"],
    knorm:               ["#00828a", "#4fd0d6"],
    keydiff:             ["#4b5fc4", "#97a6ff"],
    lagkv:               ["#587f88", "#9cc7d0"],
    qfilter:             ["#a0522d", "#e3956b"],
    pyramidkv:           ["#0f6f9c", "#59bfe8"],
    adakv:               ["#8a9a10", "#cfe05a"],
    criticalkv:          ["#93397f", "#e08ccb"],
    criticaladakv:       ["#5b4a9b", "#a99be0"],
    kvzip:               ["#c2185b", "#ff7eac"],
    oracle:              ["#8c6d00", "#ffd95a"],
  };
  const OTHERS = [["#2b67b1", "#76aef0"], ["#c8452f", "#ff8a70"], ["#1d8a57", "#5fd09a"],
                  ["#d98200", "#ffb84d"], ["#7a4fb5", "#b798ee"], ["#00828a", "#4fd0d6"]];
  const MARKS = ["circle", "rect", "triangle", "rectRot", "star", "crossRot"];
  // Heat maps: one hue, from the background's end to the strong end, light to dark.
  const HEAT = [["#f3f7fb", "#c9dcef", "#8cb6de", "#4c89c3", "#235f9f", "#0c3566"],
                ["#1f2a36", "#23476b", "#2d6aa3", "#4f93d1", "#92c4f1", "#e3f2ff"]];

  const dark_query = window.matchMedia("(prefers-color-scheme: dark)");
  let printing = false;
  const is_dark = () => dark_query.matches && !printing;

  function hash(text) {
    let value = 7;
    for (const character of text) value = (value * 31 + character.codePointAt(0)) % 9973;
    return value;
  }

  function of_family(family) {
    const pair = Object.hasOwn(FAMILIES, family) ? FAMILIES[family] : OTHERS[hash(family) % OTHERS.length];
    return pair[is_dark() ? 1 : 0];
  }

  function with_alpha(colour, alpha) {
    return colour + Math.round(alpha * 255).toString(16).padStart(2, "0");
  }

  // share in [0, 1].
  function heat(share) {
    const stops = HEAT[is_dark() ? 1 : 0];
    const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
    const low = Math.min(Math.floor(place), stops.length - 2);
    const part = (index, at) => parseInt(stops[index].slice(1 + 2 * at, 3 + 2 * at), 16);
    const mix = [0, 1, 2].map((at) => Math.round(part(low, at) + (place - low) * (part(low + 1, at) - part(low, at))));
    return `rgb(${mix.join(",")})`;
  }

  // Text on heat(share).
  function on_heat(share) {
    return (share > 0.5) !== is_dark() ? "#ffffff" : "#10151b";
  }

  function page(name) {
    return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  }

  // Paper is white in print, whatever the screen is: its properties do not apply yet in beforeprint.
  const PAPER = {card: "#ffffff", ink: "#000000", soft: "#444444", faint: "#777777", grid: "#e4e4e4", line: "#cccccc"};
  const colour = (name) => (printing && PAPER[name]) || page(name);

  function on_change(draw) {
    dark_query.addEventListener("change", draw);
    window.addEventListener("beforeprint", () => { printing = true; draw(); });
    window.addEventListener("afterprint", () => { printing = false; draw(); });
  }

  return {of_family, with_alpha, heat, on_heat, colour, on_change, mark: (index) => MARKS[index % MARKS.length]};
})();
