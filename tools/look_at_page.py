#!/usr/bin/env python3
"""look_at_page.py PAGE.html FOLDER - a page of `eval --report` in a headless browser.

Writes light.png, dark.png, phone.png, print.png into FOLDER and prints what the browser
complains about: console messages, failed or attempted requests, a page wider than the window,
the phone or the paper. Exit 1 if there is anything. Needs `pip install playwright` and a Chromium:
`playwright install chromium`, or Debian's package chromium.
"""
import os
import shutil
import sys

from playwright.sync_api import sync_playwright


def main():
    page_path, folder = os.path.abspath(sys.argv[1]), sys.argv[2]
    os.makedirs(folder, exist_ok=True)
    problems = []
    with sync_playwright() as p:
        own = shutil.which("chromium")
        browser = p.chromium.launch(**({"executable_path": own} if own else {}),
                                    args=["--no-sandbox"])
        for name, size, scheme, media in (
                ("light", (1100, 900), "light", "screen"), ("dark", (1100, 900), "dark", "screen"),
                ("phone", (375, 740), "light", "screen"), ("print", (794, 1123), "light", "print")):
            context = browser.new_context(viewport={"width": size[0], "height": size[1]},
                                          color_scheme=scheme)
            page = context.new_page()
            page.emulate_media(media=media, color_scheme=scheme)
            page.on("console", lambda m: problems.append("console: " + m.text))
            page.on("pageerror", lambda e: problems.append("script: %s" % e))
            page.on("request", lambda r: r.url.startswith(("file:", "data:")) or
                    problems.append("request: " + r.url))
            page.goto("file://" + page_path)
            wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
            if wide > 0:
                problems.append("%s: %d pixels wider than the window" % (name, wide))
            page.screenshot(path=os.path.join(folder, name + ".png"), full_page=True)
            context.close()
        browser.close()
    print("\n".join(problems) if problems else "nothing to complain about")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
