#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes the screenshots for the documentation, light and dark."""

import argparse
import json
import os
import urllib.request

from browser import Browser

WIDTH, HEIGHT = 1280, 800


def removed(control):
    """The number of the newest notification for a removed app."""
    with urllib.request.urlopen(f"{control}notifications?limit=1000") as answer:
        notifications = json.load(answer)["notifications"]
    return next(each["number"] for each in reversed(notifications) if each["delivery"] == "appRemoved")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("control", help="the address of the page")
    parser.add_argument("folder", help="where the pictures go")
    arguments = parser.parse_args()
    pictures = {
        "page": (f"?notification={removed(arguments.control)}", "document.querySelector('.hex')"),
        "page-devices": ("?view=devices", "document.querySelector('#devices table')"),
    }
    with Browser(WIDTH, HEIGHT) as browser:
        for name, (query, condition) in pictures.items():
            for theme in ("light", "dark"):
                browser.prefer(prefers_color_scheme=theme)
                browser.open(arguments.control + query)
                browser.wait_for(condition)
                browser.wait_for("document.getElementById('connection-state').textContent === 'Live'")
                browser.screenshot(os.path.join(arguments.folder, f"{name}-{theme}.png"))


if __name__ == "__main__":
    main()
