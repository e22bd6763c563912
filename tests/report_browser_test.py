#!/usr/bin/env python3
"""report_browser_test.py PROGRAM [unittest options]: looks at `cohort report` with a browser (Chromium, headless).

Pages are drawn for real: pixels of each curve's colour must be where the curve should be. A probe, a script added to a copy
of the page, tells where the charts are, which colours they have, and what the page's own script does.
"""

import json
import math
import random
import re
import shutil
import struct
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree
import zlib
from pathlib import Path

from program import LIMIT, ProgramTest

BROWSER = shutil.which("chromium") or ""
FLAGS = ("--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
         "--disable-component-update --disable-sync --hide-scrollbars --enable-logging=stderr "
         "--allow-file-access-from-files").split()
DARK = ["--blink-settings=preferredColorScheme=0"]
NO_CURVES = "<style>.curve{visibility:hidden}</style>"

CATCH = "<script>window.faults = []; addEventListener('error', event => faults.push(event.message));</script>"
# What the charts are, as the browser has laid them out; then what the pointer and the legend do.
PROBE = r"""<script>
addEventListener("load", () => {
  const charts = [...document.querySelectorAll("svg.chart[data-plot]")].filter(svg => svg.getBoundingClientRect().width);
  const answer = {width: innerWidth, scrollWidth: document.documentElement.scrollWidth, charts: charts.map(svg => {
    const box = svg.getBoundingClientRect(), scale = box.width / svg.viewBox.baseVal.width;
    const [left, top, width, height] = svg.dataset.plot.split(" ").map(Number);
    return {title: svg.getAttribute("aria-label"),
            plot: [box.left + left * scale, box.top + scrollY + top * scale, width * scale, height * scale],
            curves: [...svg.querySelectorAll("path.curve")].map(path => {
              const length = path.getTotalLength(), group = path.closest("g.series");
              return {name: group.dataset.name, kind: group.dataset.kind, colour: getComputedStyle(path).stroke,
                      from: path.getPointAtLength(0).x * scale, to: path.getPointAtLength(length).x * scale};
            })};
  })};
  const first = charts[0], box = first.getBoundingClientRect();
  const point = {clientX: box.left + box.width / 2, clientY: box.top + box.height * 0.6, bubbles: true};
  first.dispatchEvent(new PointerEvent("pointermove", point));
  const tip = document.querySelector(".tip");
  answer.tip = tip.hidden ? null : [...tip.children].map(child => child.textContent);
  first.dispatchEvent(new PointerEvent("pointerleave", point));
  answer.tipAfter = tip.hidden;
  const entry = first.querySelector("[data-legend]");
  if (entry) {
    const gone = () => charts.map(svg => [...svg.querySelectorAll("g.series")]
      .filter(group => getComputedStyle(group).display === "none").map(group => group.dataset.name));
    entry.dispatchEvent(new MouseEvent("click", {bubbles: true}));
    answer.hidden = [...new Set(gone().flat())];
    answer.chartsWithHidden = gone().filter(names => names.length).length;
    entry.dispatchEvent(new MouseEvent("click", {bubbles: true}));
    answer.hiddenAfter = gone().flat();
  }
  answer.faults = window.faults;
  const text = document.createElement("pre");
  text.id = "probe";
  text.hidden = true;
  text.textContent = JSON.stringify(answer);
  document.body.append(text);
});
</script>"""
# How wide a page becomes on a phone; windows of the browser cannot be as narrow.
PHONE = """<!DOCTYPE html><iframe src="{page}" style="width:390px;height:800px;border:0"></iframe><script>
addEventListener("load", () => {{
  document.body.dataset.scroll = document.querySelector("iframe").contentDocument.documentElement.scrollWidth;
}});</script>"""


def read_png(path):
    """Rows of RGB or RGBA bytes, and the bytes of a pixel; written from the format's description."""
    data = Path(path).read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed, header = 8, b"", b""
    while at < len(data):
        (length,), kind = struct.unpack(">I", data[at:at + 4]), data[at + 4:at + 8]
        body = data[at + 8:at + 8 + length]
        header, packed = (body if kind == b"IHDR" else header), packed + (body if kind == b"IDAT" else b"")
        at += 12 + length
    width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", header)
    assert depth == 8 and colour in (2, 6) and not interlaced
    size = 3 if colour == 2 else 4
    raw, stride = zlib.decompress(packed), width * size
    rows, above = [], bytes(stride)
    for y in range(height):
        filter_kind, row = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for x in range(stride if filter_kind else 0):
            left, up, corner = (row[x - size] if x >= size else 0), above[x], (above[x - size] if x >= size else 0)
            if filter_kind == 1:
                guess = left
            elif filter_kind == 2:
                guess = up
            elif filter_kind == 3:
                guess = (left + up) // 2
            else:
                a, b, c = abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)
                guess = left if a <= b and a <= c else up if b <= c else corner
            row[x] = (row[x] + guess) & 255
        above = bytes(row)
        rows.append(above)
    return rows, size


def columns_with(picture, plot, colour, span):
    """In how many of 24 equal parts of `span` (of the plot's x) there are at least 2 pixels of the colour."""
    rows, size = picture
    left, top, _, height = plot
    found = 0
    for part in range(24):
        begin = left + span[0] + (span[1] - span[0]) * part / 24
        end = left + span[0] + (span[1] - span[0]) * (part + 1) / 24
        pixels = 0
        for y in range(max(0, round(top)), min(len(rows), round(top + height))):
            for x in range(round(begin), round(end)):
                pixel = rows[y][x * size:x * size + 3]
                pixels += len(pixel) == 3 and sum(abs(a - b) for a, b in zip(pixel, colour)) <= 24
        found += pixels >= 2
    return found


def write_job(folder, name, seed, floor, *, steps=10000, every=20, evaluate=1000, finished=True, layers=True):
    """A job directory with a noisy, falling loss."""
    noise, job = random.Random(seed), Path(folder) / name
    job.mkdir()
    (job / "config.yaml").write_text(f"network: alexnet\ndataset: flowers\nbatch-size: 128\nlr: 0.01\nseed: {seed}\n")
    lines = []
    for step in range(every, steps + 1, every):
        loss, seconds = floor + 2 * math.exp(-step / 1500), every * 128 / 400
        lines.append({"kind": "train", "step": step, "epoch": step / 26, "loss": loss * math.exp(noise.gauss(0, 0.1)),
                      "accuracy": max(0, 1 - loss / 3 + noise.gauss(0, 0.02)), "lr": 0.01,
                      "images_per_s": (300 + 100 * floor) * (1 + noise.gauss(0, 0.01)), "elapsed_s": seconds * step / every,
                      "data_s": 0.02 * seconds, "forward_s": 0.33 * seconds, "backward_s": 0.58 * seconds,
                      "update_s": 0.07 * seconds, "wait_s": 0, "checkpoint_s": 0, "evaluation_s": 0, "time": "2026-01-01T00:00:00Z"})
        if evaluate and step % evaluate == 0:
            lines.append({"kind": "test", "step": step, "loss": loss + 0.1, "accuracy": 0.95 - loss / 3, "top5": None,
                          "samples": 350, "time": "2026-01-01T00:00:00Z"})
    (job / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if finished:
        (job / "summary.json").write_text(json.dumps(
            {"network": "alexnet", "dataset": "flowers", "step": steps, "loss": floor, "accuracy": 0.9,
             "elapsed_s": 3000.0, "images_per_s": 400.0, "weights_hash": f"{seed:016x}", "interrupted": False}))
    if layers:
        names = ("name", "operator", "kind", "output", "parameters", "multiply_adds", "forward_s", "backward_s")
        (job / "layers.json").write_text(json.dumps([dict(zip(names, row)) for row in (
            ("conv1", "conv 11x11/4 64", "conv", "64x62x62", 23296, 89300000, 0.011, 0.019),
            ("pool1", "max-pool 3/2", "pool", "64x30x30", 0, 0, 0.002, 0.002),
            ("fc6", "dense 4096", "dense", "4096", 37752832, 37748736, 0.012, 0.022))]))
    return job


class Report(ProgramTest):
    def setUp(self):
        self.assertTrue(BROWSER, "chromium is missing; scripts/packages-check.txt names it")
        super().setUp()
        self.three = [write_job(self.folder, "first", 1, 0.2), write_job(self.folder, "second", 2, 0.7),
                      write_job(self.folder, "going-on", 3, 1.2, steps=6000, finished=False, layers=False)]

    def report(self, *arguments):
        return self.run_program("report", *arguments).stdout

    def browse(self, page, *flags, width=1200, height=1000):
        """What the browser prints; it must not complain about the page's script."""
        with tempfile.TemporaryDirectory(dir=self.folder) as profile:
            done = subprocess.run([BROWSER, *FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}", *flags,
                                   Path(page).as_uri()], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=LIMIT, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIsNone(re.search(r"CONSOLE.*|Uncaught.*", done.stderr), done.stderr)
        return done.stdout

    def look(self, page, *flags, extra="", width=1200, height=1000):
        """The probe's answer, and the picture."""
        copy = self.folder / "probed.html"
        text = Path(page).read_text(encoding="utf-8")
        copy.write_text(text.replace("<head>", "<head>" + CATCH).replace("</body>", extra + PROBE + "</body>"))
        dom = self.browse(copy, "--dump-dom", *flags, width=width, height=height)
        found = re.search(r'<pre id="probe"[^>]*>(.*?)</pre>', dom, re.DOTALL)
        self.assertIsNotNone(found, "the probe did not come to its end")
        answer = json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
        self.assertEqual(answer["faults"], [])
        picture = self.folder / "picture.png"
        copy.write_text(text.replace("</body>", extra + "</body>"))
        self.browse(copy, f"--screenshot={picture}", *flags, width=width, height=height)
        return answer, read_png(picture)

    def missing_curves(self, answer, picture, titles):
        """Title, name and parts found of every curve that is not drawn along its whole length."""
        wanting, seen = [], 0
        for chart in answer["charts"]:
            for curve in chart["curves"] if chart["title"] in titles else []:
                if "smoothed" not in curve["kind"]:
                    continue
                seen += 1
                colour = [int(part) for part in re.findall(r"\d+", curve["colour"])[:3]]
                found = columns_with(picture, chart["plot"], colour, (curve["from"], curve["to"]))
                if found < 22:
                    wanting.append((chart["title"], curve["name"], found))
        return wanting, seen

    def test_curves_are_drawn_in_light_and_dark(self):
        page = self.folder / "report.html"
        self.assertIn("report.html: 3 runs", self.report(*self.three, "-o", page))
        for flags, dark in (([], False), (DARK, True)):
            with self.subTest(dark=dark):
                answer, picture = self.look(page, *flags)
                wanting, seen = self.missing_curves(answer, picture, {"Loss", "Accuracy"})
                self.assertEqual((wanting, seen), ([], 6))
                self.assertEqual(sum(picture[0][2][:3]) < 120, dark)
                self.assertEqual([chart["title"] for chart in answer["charts"]],
                                 ["Loss", "Accuracy", "Accuracy over time", "Learning rate", "Throughput"])

    def test_the_check_sees_curves_that_are_missing(self):
        page = self.folder / "report.html"
        self.report(*self.three, "-o", page)
        answer, picture = self.look(page, extra=NO_CURVES)
        wanting, seen = self.missing_curves(answer, picture, {"Loss", "Accuracy"})
        self.assertEqual((len(wanting), seen), (6, 6))

    def test_fits_phones_and_wide_screens(self):
        page = self.folder / "report.html"
        self.report(*self.three, "-o", page)
        answer, picture = self.look(page, width=500, height=1900)
        self.assertEqual(self.missing_curves(answer, picture, {"Loss"}), ([], 3))
        for width in (500, 1000, 2000):
            with self.subTest(width=width):
                answer = answer if width == 500 else self.look(page, width=width, height=300)[0]
                self.assertEqual(answer["width"], width)
                self.assertLessEqual(answer["scrollWidth"], width)
        phone = self.folder / "phone.html"
        phone.write_text(PHONE.format(page=page.as_uri()))
        self.assertIn('data-scroll="390"', self.browse(phone, "--dump-dom"))

    def test_pointer_and_legend(self):
        page = self.folder / "report.html"
        self.report(*self.three, "-o", page)
        answer, _ = self.look(page, height=300)
        self.assertRegex(answer["tip"][0], r"^step [45],\d\d\d$")
        rows = {re.sub(r"[\d.]+$", "", row): float(re.search(r"[\d.]+$", row)[0]) for row in answer["tip"][1:]}
        for name, floor in (("first", 0.2), ("second", 0.7), ("going-on", 1.2)):
            value = rows[f"{name} training, smoothed"]
            self.assertLess(abs(value - (floor + 2 * math.exp(-5000 / 1500))), 0.12, rows)
        self.assertTrue(answer["tipAfter"])
        self.assertEqual(answer["hidden"], ["first"])
        self.assertEqual(answer["chartsWithHidden"], 5)
        self.assertEqual(answer["hiddenAfter"], [])

    def test_runs_with_little_to_show(self):
        plain = write_job(self.folder, "plain", 4, 0.3, evaluate=0, layers=False)
        short = write_job(self.folder, "short", 5, 0.3, steps=60, evaluate=0, finished=False, layers=False)
        for job in (plain, short):
            with self.subTest(job=job.name):
                page = self.folder / f"{job.name}.html"
                self.assertIn("1 run\n", self.report(job, "-o", page))
                answer, picture = self.look(page)
                titles = [chart["title"] for chart in answer["charts"]]
                self.assertEqual(titles, ["Loss", "Accuracy", "Throughput"])
                if job is plain:
                    self.assertEqual(self.missing_curves(answer, picture, {"Loss", "Accuracy"}), ([], 2))

    def test_svg_files_are_pictures_of_their_own(self):
        svgs = self.folder / "svg"
        self.report(*self.three, "-o", self.folder / "report.html", "--svg", svgs)
        names = {path.name for path in svgs.iterdir()}
        self.assertEqual(names, {"loss.svg", "accuracy.svg", "accuracy-time.svg", "learning-rate.svg", "throughput.svg",
                                 "time-shares.svg", "weight-shares-first.svg", "layer-time-shares-first.svg",
                                 "weight-shares-second.svg", "layer-time-shares-second.svg"})
        for path in svgs.iterdir():
            xml.etree.ElementTree.parse(path)
            self.assertNotRegex(path.read_text(encoding="utf-8"), r"=\"[^\"]*\b(nan|inf)\b")
        root = xml.etree.ElementTree.parse(svgs / "loss.svg").getroot()
        width, height = int(root.get("width")), int(root.get("height"))
        picture = self.folder / "loss.png"
        self.browse(svgs / "loss.svg", f"--screenshot={picture}", width=width, height=height)
        left, top, wide, high = (float(part) for part in root.get("data-plot").split())
        margin = -float(root.get("viewBox").split()[0])
        for colour, end in (("0a55c4", wide), ("c8560a", wide), ("2d988b", 0.6 * wide)):
            found = columns_with(read_png(picture), (left + margin, top + margin, wide, high), bytes.fromhex(colour), (0, end))
            self.assertGreaterEqual(found, 22, colour)


if __name__ == "__main__":
    unittest.main(verbosity=2)
