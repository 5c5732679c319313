#!/usr/bin/env python3
"""The page of `dslaunch report` in a real browser: what of it is seen, that it asks for nothing beside itself, that it
stays readable after a million steps, and that those who do not see it are told what is there.

usage: page.py FOLDER_OF_PROGRAMS

Needs Chromium; exits with 77 (skipped) where there is none.
"""
import html
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
BROWSERS = ("chromium", "chromium-browser", "google-chrome")

# Looks at the page that it is in, and leaves what it found there for --dump-dom.
LOOK = """
<script>
addEventListener('load', () => {
  const channel = c => { c /= 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
  const light = text => {
    const [r, g, b] = text.match(/[\\d.]+/g).map(Number);
    return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  };
  const onWhite = text => 1.05 / (light(text) + 0.05);
  const all = query => [...document.querySelectorAll(query)];
  const box = element => { const b = element.getBoundingClientRect(); return [b.width, b.height]; };
  const texts = all('h1,h2,p,td,th,caption,figcaption').filter(one => one.textContent.trim());
  const found = {
    lang: document.documentElement.lang, title: document.title,
    headings: all('h1,h2,h3,h4').map(one => Number(one.tagName[1])),
    plots: all('svg').map(box), lines: all('svg path').map(box),
    unnamed: all('svg').filter(one => !one.closest('[role=img][aria-label]:not([aria-label=""])')).length,
    images: all('[role=img]').map(one => one.getAttribute('aria-label')),
    tables: all('table').length, captions: all('table > caption').filter(one => one.textContent).length,
    heads: all('th').length, scoped: all('th[scope]').length,
    contrasts: texts.map(one => onWhite(getComputedStyle(one).color))
        .concat(all('svg text').map(one => onWhite(getComputedStyle(one).fill))),
    background: getComputedStyle(document.body).backgroundColor,
    width: document.documentElement.scrollWidth, window: innerWidth,
    asked: performance.getEntriesByType('resource').map(one => one.name),
  };
  const out = document.createElement('pre');
  out.id = 'found';
  out.textContent = JSON.stringify(found);
  document.body.append(out);
});
</script>
"""


def check(holds, what):
    if not holds:
        sys.exit(f"page: {what}")


def write_run(folder, steps):
    folder.mkdir()
    with open(folder / "metrics.jsonl", "w") as out:
        for step in range(1, steps + 1):
            row = {"step": step, "loss": 4 / math.sqrt(step) + 0.01 * math.sin(step), "grad_norm": 1 + 1 / step,
                   "lr": 1e-3 * (1 - step / (steps + 1)), "tokens_per_s": 1000 + step % 7}
            if step % (steps // 4) == 0:
                row["validation_loss"] = 4.2 / math.sqrt(step)
            out.write(json.dumps(row) + "\n")
    ranks = [{"rank": rank, "device_bytes_peak": 3 << 20, "host_bytes_peak": 1 << 20,
              "results": {"seconds_per_step": 0.01 + 0.001 * rank}} for rank in range(4)]
    report = {"exit_code": 0, "reason": "", "steps": steps, "seconds": 100.0, "restarts": 1,
              "goodput": {"share": 0.9, "productive_s": 90, "lost_s": 2, "evaluation_s": 3, "checkpoint_s": 1,
                          "waiting_s": 0, "starting_s": 2, "other_s": 2},
              "ranks": ranks,
              "generations": [{"generation": 1, "world_size": 4, "steps": steps // 2, "reason": "rank 3 <was> killed & gone"},
                         {"generation": 2, "world_size": 4, "steps": steps, "reason": "done"}]}
    (folder / "report.json").write_text(json.dumps(report))
    (folder / "plan.json").write_text(json.dumps({"seconds_per_step": 0.009, "ranks": ranks}))


def look(browser, page, home, width):
    looked_at = home / "looked_at.html"
    looked_at.write_text(page.read_text().replace("</body>", LOOK + "</body>"))
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
               "--proxy-server=127.0.0.1:9", f"--user-data-dir={home}/profile", f"--window-size={width},900",
               "--virtual-time-budget=10000", "--dump-dom", looked_at.as_uri()]
    for _ in range(3):  # a browser that has not come up beside other tests says nothing of the page
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, "HOME": str(home)})
        found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.S)
        if found:
            break
    check(found, f"{browser} shows no page: exit {done.returncode}\n{done.stderr[-2000:]}")
    return json.loads(html.unescape(found.group(1)))


def check_page(found, run):
    check(found["lang"] == "en" and str(run) in found["title"], f"language and title: {found}")
    check(found["headings"][0] == 1 and all(b - a <= 1 for a, b in zip(found["headings"], found["headings"][1:])),
          f"a level of headings is left out: {found['headings']}")
    check(len(found["plots"]) == 4, f"{len(found['plots'])} plots")
    check(all(wide > 200 and high > 100 for wide, high in found["plots"]), f"plots of {found['plots']} pixels")
    check(sum(wide > 150 for wide, high in found["lines"]) >= 4, f"lines of {found['lines']} pixels")
    check(found["width"] <= found["window"], f"{found['width']} pixels wide in a window of {found['window']}")
    check(found["asked"] == [], f"the page asks for {found['asked']}")
    check(found["unnamed"] == 0 and all(" at step " in label for label in found["images"]),
          f"plots without words: {found['unnamed']}, {found['images']}")
    check(found["tables"] == found["captions"] == 4 and found["heads"] == found["scoped"] > 20,
          f"tables {found['tables']}, captions {found['captions']}, heads {found['heads']}, scoped {found['scoped']}")
    check(found["background"] == "rgb(255, 255, 255)", f"the background is {found['background']}")
    check(min(found["contrasts"]) >= 4.5, f"text with a contrast of {min(found['contrasts']):.2f}")


def main():
    binaries = os.path.abspath(sys.argv[1])
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print(f"skipped: none of {', '.join(BROWSERS)} is here")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as name:
        home = pathlib.Path(name)
        sizes = []
        for steps in (1000, 1_000_000):
            run = home / f"run{steps}_{'w' * 80}"  # wider than the window, and no place to break at
            write_run(run, steps)
            subprocess.run([f"{binaries}/dslaunch", "report", str(run)], check=True, stdout=subprocess.DEVNULL,
                           timeout=120)
            page = run / "report.html"
            sizes.append(page.stat().st_size)
            for width in (1200, 600):
                check_page(look(browser, page, home, width), run)
        check(sizes[1] < 2 * sizes[0], f"pages of {sizes} bytes")
    print(f"{browser} shows both pages, of {sizes} bytes")


main()
