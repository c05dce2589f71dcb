// SPDX-License-Identifier: Apache-2.0

import { byId, element } from "./dom.js";

const MESSAGE_MILLISECONDS = 8000;

/** Opens a dialog and returns its return value; the focus returns to where it was. */
function open(dialog) {
    document.body.append(dialog);
    return new Promise((resolve) => {
        dialog.addEventListener("close", () => {
            dialog.remove();
            resolve(dialog.returnValue);
        });
        dialog.showModal();
    });
}

let titleCount = 0;

function makeDialog(title, ...content) {
    titleCount += 1;
    const id = `dialog-title-${titleCount}`;
    return element(
        "dialog",
        { "aria-labelledby": id },
        element("form", { method: "dialog" }, element("h2", { id }, title), ...content),
    );
}

/** Asks for confirmation before data is lost. */
export async function confirmed(title, text, action) {
    const dialog = makeDialog(
        title,
        element("p", null, text),
        element(
            "div",
            { class: "dialog-actions" },
            element("button", { value: "", autofocus: true }, "Cancel"),
            element("button", { value: "yes", class: "danger" }, action),
        ),
    );
    return (await open(dialog)) === "yes";
}

const shortcuts = [
    ["/", "search"],
    ["j k", "next, previous notification"],
    ["↓ ↑ PgDn PgUp Home End", "move in the list"],
    ["Enter", "go to the details"],
    ["Esc", "back to the list; then close the details"],
    ["1 2 3 4 5", "notifications, devices, faults, feedback, connections"],
    ["t", "go to the newest notification"],
    ["?", "this help"],
];

/** The shortcuts, and a setting that disables single keys. */
export function showHelp(settings) {
    const input = element("input", {
        type: "checkbox",
        id: "single-keys",
        checked: settings.hasSingleKeys,
        onchange: () => {
            settings.hasSingleKeys = input.checked;
        },
    });
    const dialog = makeDialog(
        "Keyboard shortcuts",
        element(
            "dl",
            { class: "shortcuts" },
            shortcuts.map(([keys, text]) =>
                element(
                    "div",
                    null,
                    element("dt", null, keys.split(" ").map((key) => [element("kbd", null, key), " "])),
                    element("dd", null, text),
                ),
            ),
        ),
        element("label", { class: "field-inline" }, input, "Enable single-key shortcuts"),
        element(
            "p",
            { class: "quiet" },
            "The same functions over HTTP: ",
            element("a", { href: "/openapi.yaml" }, "openapi.yaml"),
        ),
        element("div", { class: "dialog-actions" }, element("button", { value: "", autofocus: true }, "Close")),
    );
    return open(dialog);
}

/** Shows an error message for a while. */
export function showMessage(text) {
    const message = element(
        "p",
        { class: "message" },
        text,
        " ",
        element("button", { type: "button", class: "small", onclick: () => message.remove() }, "Dismiss"),
    );
    byId("messages").append(message);
    setTimeout(() => message.remove(), MESSAGE_MILLISECONDS);
}

/** Performs an action, and shows its error message if it fails. */
export async function perform(action) {
    try {
        await action();
        return true;
    } catch (error) {
        showMessage(error.message);
        return false;
    }
}
