# SPDX-License-Identifier: Apache-2.0
"""Accessibility checks of the page."""

# The contrast ratios of visible texts that are below the limits of WCAG 2.2.
LOW_CONTRAST = """(() => {
    const parse = (text) => {
        const numbers = text.match(/[\\d.]+/g).map(Number);
        return { rgb: numbers.slice(0, 3), alpha: numbers[3] ?? 1 };
    };
    const luminance = (rgb) => {
        const [r, g, b] = rgb.map((part) => {
            const value = part / 255;
            return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const blend = (over, under) => over.rgb.map((part, index) => part * over.alpha + under[index] * (1 - over.alpha));
    const ground = (node) => {
        const layers = [];
        for (let each = node; each; each = each.parentElement) {
            const color = parse(getComputedStyle(each).backgroundColor);
            if (color.alpha > 0) layers.push(color);
            if (color.alpha === 1) break;
        }
        return layers.reverse().reduce((under, over) => blend(over, under), [255, 255, 255]);
    };
    const low = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let text = walker.nextNode(); text; text = walker.nextNode()) {
        const node = text.parentElement;
        const style = getComputedStyle(node);
        const box = node.getBoundingClientRect();
        if (text.data.trim() === "" || box.width < 2 || style.visibility !== "visible") continue;
        if (!node.checkVisibility() || node.closest("option, .visually-hidden, .skip-link")) continue;
        const under = ground(node);
        const over = blend(parse(style.color), under);
        const [light, dark] = [luminance(over), luminance(under)].sort((one, other) => other - one);
        const ratio = (light + 0.05) / (dark + 0.05);
        const size = parseFloat(style.fontSize);
        const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
        if (ratio < (isLarge ? 3 : 4.5)) {
            low.push(`${ratio.toFixed(2)} ${node.tagName}.${node.className}: ${text.data.trim().slice(0, 30)}`);
        }
    }
    return { low: [...new Set(low)], count: document.querySelectorAll("body *").length };
})()"""

# The horizontal scroll range of the page in pixels, which must be 0.
SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"

NAMED_ROLES = {
    "button", "link", "switch", "checkbox", "combobox", "textbox", "searchbox", "spinbutton", "listbox", "option",
    "table", "dialog", "navigation", "region", "article", "columnheader", "group", "Iframe", "image",
}


def nameless(browser):
    """The nodes of the accessibility tree without a required name."""
    found = []
    for node in browser.accessibility_nodes():
        role = node.get("role", {}).get("value")
        name = node.get("name", {}).get("value", "").strip()
        if role in NAMED_ROLES and name == "":
            found.append(role)
    return found


def roles(browser):
    """How often each role is in the accessibility tree."""
    counts = {}
    for node in browser.accessibility_nodes():
        role = node.get("role", {}).get("value")
        counts[role] = counts.get(role, 0) + 1
    return counts
