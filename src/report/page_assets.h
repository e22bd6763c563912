// The style and the script of the report's page. Private to report.
#pragma once

#include <string_view>

namespace cohort {

// Colours are the charts' (chartStyle), and three more for the page around them.
inline constexpr std::string_view kPageStyle = R"css(
:root{color-scheme:light dark;--page:#f4f5f7;--card:#fff;--edge:#e1e4e8;--ink:#1b1f24;--muted:#59616b;--row:#f7f8fa}
@media screen and (prefers-color-scheme:dark){:root{--page:#0d0f12;--card:#15181c;--edge:#272c33;--ink:#e6e9ed;
--muted:#9aa3ad;--row:#1a1e23}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,
"DejaVu Sans",sans-serif}
main{max-width:1760px;margin:0 auto;padding:28px clamp(12px,2.5vw,40px) 48px}
main.one{max-width:1240px}
h1{font-size:26px;line-height:1.25;margin:0;letter-spacing:-.01em;overflow-wrap:anywhere}
h2{font-size:18px;margin:36px 0 12px}
p{margin:6px 0;max-width:75ch}
.muted,footer{color:var(--muted)}
footer{margin-top:40px;font-size:13px}
.grid{display:grid;gap:16px;grid-template-columns:repeat(auto-fit,minmax(min(100%,520px),1fr))}
.card{background:var(--card);border:1px solid var(--edge);border-radius:10px;padding:16px;margin:0;min-width:0}
figure svg.chart{display:block;width:100%;height:auto;overflow:visible}
.pies{display:flex;flex-wrap:wrap;gap:20px 28px;justify-content:space-around;align-items:flex-start}
.pies svg.chart{flex:1 1 220px;max-width:260px}
.narrow{display:none}
.facts{display:grid;gap:12px;grid-template-columns:repeat(auto-fit,minmax(140px,1fr));margin:20px 0 0}
.facts div{background:var(--card);border:1px solid var(--edge);border-radius:10px;padding:12px 14px}
.facts dt{color:var(--muted);font-size:13px}
.facts dd{margin:0;font-size:22px;font-weight:600;font-variant-numeric:tabular-nums;line-height:1.3}
.facts small{display:block;font-size:12px;font-weight:400;color:var(--muted)}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:14px;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:7px 12px;border-bottom:1px solid var(--edge);vertical-align:baseline}
th{font-weight:600;color:var(--muted);font-size:13px;white-space:nowrap}
tbody th{color:var(--ink);font-size:14px}
tbody tr:last-child>*{border-bottom:0}
.number{text-align:right;white-space:nowrap}
td small{color:var(--muted)}
code{font:13px ui-monospace,SFMono-Regular,Menlo,"DejaVu Sans Mono",monospace}
.settings td{overflow-wrap:anywhere;min-width:9em}
.swatch{display:inline-block;width:12px;height:12px;border-radius:3px;background:var(--colour);margin-right:8px}
.meter{white-space:nowrap;min-width:230px}
.meter span{display:inline-block;width:4em;text-align:right;margin-right:10px}
.meter i{display:inline-block;height:10px;border-radius:2px;background:var(--colour)}
details{margin-top:12px}
details>summary{cursor:pointer;padding:8px 0;font-weight:600;overflow-wrap:anywhere}
details>.card{padding:4px 4px}
.tip{position:fixed;z-index:2;pointer-events:none;background:var(--card);color:var(--ink);border:1px solid var(--edge);
border-radius:8px;padding:8px 10px;font-size:13px;line-height:1.45;box-shadow:0 6px 20px #0003;max-width:min(340px,90vw);
font-variant-numeric:tabular-nums}
.tip b{display:block}
.tip div{display:flex;gap:7px;align-items:baseline}
.tip span{flex:1;overflow-wrap:anywhere}
.tip em{font-style:normal;color:var(--muted)}
.tip i{flex:none;width:10px;height:10px;border-radius:3px;background:var(--colour)}
.chart .guide{stroke:var(--chart-muted);stroke-dasharray:3 3;pointer-events:none}
.chart [data-legend][role=button]{cursor:pointer}
.chart .hidden{display:none}
.chart .legend.faded{opacity:.35}
@media screen and (max-width:640px){
.wide{display:none}.narrow{display:block}
main{padding-top:18px}.card{padding:12px}h1{font-size:22px}
.runs thead{display:none}
.runs tr{display:block;padding:8px 0;border-bottom:1px solid var(--edge)}
.runs tbody tr:last-child{border-bottom:0}
.runs th,.runs td{display:flex;justify-content:space-between;gap:16px;border:0;padding:3px 0;text-align:right;
white-space:normal;overflow-wrap:anywhere}
.runs th{justify-content:flex-start;align-items:baseline;text-align:left;font-size:15px;gap:0}
.runs td::before{content:attr(data-label);color:var(--muted);text-align:left;white-space:nowrap}
.runs td:empty{display:none}
.facts{grid-template-columns:1fr 1fr}
}
@media print{
@page{margin:14mm}
body{background:#fff;font-size:12px}main{padding:0;max-width:none}
.card,.facts div{break-inside:avoid;border-color:#ccc}.grid{grid-template-columns:1fr 1fr}
.wide{display:none}.narrow{display:block}
h2{break-after:avoid}.scroll{overflow:visible}th,td{padding:4px 6px}table{font-size:11px}
}
)css";

// Points are read back from the drawn curves, so the page carries them once.
inline constexpr std::string_view kPageScript = R"js(
(() => {
  "use strict";
  const charts = [...document.querySelectorAll("svg.chart[data-plot]")];
  const numbers = text => text.trim().split(/\s+/).map(Number);
  const hidden = new Set();

  // Series of a chart: {name, kind, colour, points: [[x, y], ...]} in the plot's pixels.
  const seriesOf = svg => [...svg.querySelectorAll("g.series")].map(group => {
    const path = group.querySelector("path.curve");
    const points = path
      ? path.getAttribute("d").replace(/h0/g, "").split("M").flatMap(part => {
          const values = part.trim() ? numbers(part) : [];
          return values.flatMap((value, i) => i % 2 ? [] : [[value, values[i + 1]]]);
        })
      : [...group.querySelectorAll("circle")].map(dot => [+dot.getAttribute("cx"), +dot.getAttribute("cy")]);
    return {name: group.dataset.name, kind: group.dataset.kind, colour: group.classList[1], points};
  }).filter((series, i, all) => series.points.length &&
    all.findIndex(other => other.points.length && other.name === series.name && other.kind === series.kind) === i);

  const value = (svg, axis, part) => {
    const [low, high] = numbers(svg.dataset[axis]);
    return svg.dataset.log.includes(axis) ? low * Math.pow(high / low, part) : low + (high - low) * part;
  };
  const shown = (svg, axis, number) => svg.dataset.percent.includes(axis)
    ? (100 * number).toFixed(2) + "%"
    : Math.abs(number) >= 1000 || Number.isInteger(number) ? Math.round(number).toLocaleString("en")
    : String(Number(number.toPrecision(4)));
  const nearest = (points, x) => points.reduce((best, point) =>
    Math.abs(point[0] - x) < Math.abs(best[0] - x) ? point : best);

  const tip = document.createElement("div");
  tip.className = "tip chart";
  tip.hidden = true;
  document.body.append(tip);
  const element = (name, text, className) => {
    const made = document.createElement(name);
    if (text) made.textContent = text;
    if (className) made.className = className;
    return made;
  };

  const attach = svg => {
    const [left, top, width, height] = numbers(svg.dataset.plot);
    const [xLabel] = svg.dataset.labels.split("|");
    let series = null;
    const guide = document.createElementNS(svg.namespaceURI, "path");
    guide.setAttribute("class", "guide");
    const leave = () => { tip.hidden = true; guide.remove(); };
    const move = event => {
      series ??= seriesOf(svg);
      const box = svg.getBoundingClientRect();
      const scale = svg.viewBox.baseVal.width / box.width;
      const x = (event.clientX - box.left) * scale - left;
      const y = (event.clientY - box.top) * scale - top;
      const rows = series.filter(one => !hidden.has(one.name))
        .map(one => ({one, point: nearest(one.points, x)}))
        .filter(({point}) => Math.abs(point[0] - x) < 16 && point[1] >= -1 && point[1] <= height + 1)
        .sort((a, b) => a.point[1] - b.point[1]);
      if (x < -4 || x > width + 4 || y < 0 || y > height || !rows.length) return leave();
      const at = rows.reduce((best, row) => Math.abs(row.point[0] - x) < Math.abs(best - x) ? row.point[0] : best, 1e9);
      guide.setAttribute("d", `M${left + at} ${top}v${height}`);
      svg.append(guide);
      const xValue = value(svg, "x", at / width);
      tip.replaceChildren(element("b", `${xLabel} ${shown(svg, "x", xLabel === "step" ? Math.round(xValue) : xValue)}`));
      for (const {one, point} of rows) {
        const row = element("div", "", one.colour);
        const text = element("span", one.name + " ");
        text.append(element("em", one.kind));
        row.append(element("i"), text, element("strong", shown(svg, "y", value(svg, "y", 1 - point[1] / height))));
        tip.append(row);
      }
      tip.hidden = false;
      const right = event.clientX + 18 + tip.offsetWidth > innerWidth;
      tip.style.left = Math.max(4, right ? event.clientX - 18 - tip.offsetWidth : event.clientX + 18) + "px";
      tip.style.top = Math.max(4, Math.min(event.clientY + 12, innerHeight - tip.offsetHeight - 8)) + "px";
    };
    svg.addEventListener("pointermove", move);
    svg.addEventListener("pointerdown", move);
    svg.addEventListener("pointerleave", leave);
  };

  // A click on a run's entry in any legend hides or shows it in all charts.
  const toggle = name => {
    hidden.has(name) ? hidden.delete(name) : hidden.add(name);
    for (const svg of charts) {
      for (const group of svg.querySelectorAll("g.series")) group.classList.toggle("hidden", hidden.has(group.dataset.name));
      for (const entry of svg.querySelectorAll("[data-legend]")) {
        entry.classList.toggle("faded", hidden.has(entry.dataset.legend));
        entry.setAttribute("aria-pressed", String(!hidden.has(entry.dataset.legend)));
      }
    }
  };
  for (const svg of charts) {
    attach(svg);
    for (const entry of svg.querySelectorAll("[data-legend]")) {
      svg.setAttribute("role", "group");
      entry.setAttribute("role", "button");
      entry.setAttribute("tabindex", "0");
      entry.setAttribute("aria-pressed", "true");
      entry.addEventListener("click", () => toggle(entry.dataset.legend));
      entry.addEventListener("keydown", event => {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); toggle(entry.dataset.legend); }
      });
    }
  }
})();
)js";

}  // namespace cohort
