// SPDX-License-Identifier: Apache-2.0

/**
 * Creates an element. Children are nodes or text; text is never parsed as markup.
 *
 * @param {string} tag
 * @param {Object} attributes `on...` functions are listeners; null, undefined and false omit an attribute
 */
export function element(tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes ?? {})) {
        if (value === null || value === undefined || value === false) continue;
        if (typeof value === "function") {
            made.addEventListener(name.slice(2), value);
        } else {
            made.setAttribute(name, value === true ? "" : String(value));
        }
    }
    append(made, children);
    return made;
}

function append(parent, children) {
    for (const child of children) {
        if (Array.isArray(child)) {
            append(parent, child);
        } else if (child !== null && child !== undefined && child !== false) {
            parent.append(child);
        }
    }
}

export function byId(id) {
    return document.getElementById(id);
}

/** Foreign text, whose direction does not affect the surrounding text. */
export function isolated(text, attributes) {
    return element("bdi", { dir: "auto", ...attributes }, text);
}

/** The pressed element. Replacing it before it is released would lose the click. */
let pressed = null;
/** The new children of elements, which are set when nothing is pressed. */
const postponed = new Map();

function release() {
    pressed = null;
    // After the click, which follows the release.
    setTimeout(() => {
        const all = [...postponed];
        postponed.clear();
        for (const [parent, children] of all) replaceChildrenKeepingFocus(parent, ...children);
    });
}

addEventListener("pointerdown", (event) => (pressed = event.target), true);
for (const type of ["pointerup", "pointercancel"]) addEventListener(type, release, true);
// When the window loses the focus, the release may never arrive.
addEventListener("blur", release);

/**
 * Replaces the children of an element, and keeps the focus on the element with the same `data-key`.
 *
 * Waits while one of them is pressed.
 */
export function replaceChildrenKeepingFocus(parent, ...children) {
    postponed.delete(parent);
    if (pressed !== null && parent.contains(pressed)) {
        postponed.set(parent, children);
        return;
    }
    const focused = parent.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
    parent.replaceChildren();
    append(parent, children);
    if (focused === undefined) return;
    parent.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
}

/** A switch with a name. */
export function toggle(name, isOn, key, onChange) {
    return element(
        "button",
        {
            type: "button",
            role: "switch",
            class: "switch",
            "aria-checked": isOn ? "true" : "false",
            "aria-label": name,
            "data-key": key,
            onclick: () => onChange(!isOn),
        },
        element("span", { class: "switch-track", "aria-hidden": "true" }),
        element("span", { class: "switch-state", "aria-hidden": "true" }, isOn ? "on" : "off"),
    );
}

/** The heading of a column of buttons. */
export const actionColumn = [element("span", { class: "visually-hidden" }, "Action"), "right"];

/** A table with a caption for screen readers; a column is `[title, class]` or a title. */
export function table(caption, columns, rows) {
    const heads = columns.map((column) => {
        const [title, style] = Array.isArray(column) ? column : [column];
        const shown = title instanceof Node ? title.cloneNode(true) : title;
        return element("th", { scope: "col", class: style }, shown);
    });
    const body = rows.map((cells) =>
        element(
            "tr",
            null,
            cells.map((cell, index) => {
                const style = Array.isArray(columns[index]) ? columns[index][1] : null;
                return element(index === 0 ? "th" : "td", { class: style, scope: index === 0 ? "row" : null }, cell);
            }),
        ),
    );
    return element(
        "div",
        { class: "table-scroll" },
        element(
            "table",
            null,
            element("caption", { class: "visually-hidden" }, caption),
            element("thead", null, element("tr", null, heads)),
            element("tbody", null, body),
        ),
    );
}

/** A button that copies a text, and confirms it. */
export function copyButton(name, text, key) {
    const button = element(
        "button",
        {
            type: "button",
            class: "small",
            "data-key": key,
            onclick: async () => {
                button.textContent = (await copy(text())) ? "Copied" : "Not copied";
                setTimeout(() => {
                    button.textContent = name;
                }, COPIED_MILLISECONDS);
            },
        },
        name,
    );
    return button;
}

const COPIED_MILLISECONDS = 1500;

async function copy(text) {
    try {
        await navigator.clipboard.writeText(text);
        return true;
    } catch {
        // Without HTTPS, and not on loopback, the clipboard API is unavailable.
        const area = element("textarea", { class: "visually-hidden", "aria-hidden": "true" });
        area.value = text;
        const focused = document.activeElement;
        document.body.append(area);
        area.select();
        const isCopied = document.execCommand("copy");
        area.remove();
        focused?.focus();
        return isCopied;
    }
}
