// SPDX-License-Identifier: Apache-2.0

import { element, isolated, table } from "./dom.js";
import { visibleText } from "./payload-view.js";

const BYTES_A_LINE = 16;
const VALUE_LENGTH_MAX = 80;
/** The colors of fields by kind. */
const colors = new Map([
    ["command", 1],
    ["frameLength", 2],
    ["itemID", 1],
    ["itemLength", 2],
    ["identifier", 3],
    ["expiry", 4],
    ["tokenLength", 2],
    ["token", 5],
    ["payloadLength", 2],
    ["payload", 6],
    ["priority", 7],
]);
const titles = new Map([
    ["frameLength", "frame length"],
    ["itemID", "item ID"],
    ["itemLength", "item length"],
    ["tokenLength", "token length"],
    ["payloadLength", "payload length"],
]);

/** The received bytes: a binary frame, or the headers of a request. */
export function frameView(frame) {
    if (frame.hex !== undefined) return binaryView(frame);
    const rows = (frame.headers ?? []).map(({ name, value }) => [name, isolated(value, { class: "code wrap" })]);
    return table("Header fields of the request", [["Field", "code"], "Value"], rows);
}

export function headersText(frame) {
    return (frame.headers ?? []).map(({ name, value }) => `${name}: ${value}`).join("\n");
}

function binaryView({ hex, fields }) {
    const view = element("div", { class: "frame" });
    const dump = element("div", { class: "hex", tabindex: "0", role: "group", "aria-label": "Bytes of the frame" });
    const bytes = hex.match(/../g) ?? [];
    const owners = new Array(bytes.length).fill(-1);
    fields.forEach(({ offset, length }, index) => owners.fill(index, offset, offset + length));
    for (let start = 0; start < bytes.length; start += BYTES_A_LINE) {
        dump.append(hexLine(bytes, owners, fields, start));
    }
    const list = element(
        "ul",
        { class: "fields", "aria-label": "Fields of the frame" },
        fields.map((field, index) => fieldItem(field, index)),
    );
    view.append(list, dump);
    connect(view);
    return view;
}

function valueText({ name, length, value }) {
    if (length === 0 || value === undefined) return "";
    // An expiry is a time in seconds.
    if (name !== "expiry" || typeof value !== "number" || value === 0) return String(value);
    return `${value} (${new Date(value * 1000).toISOString().replace(".000", "")})`;
}

function placeText({ offset, length }) {
    if (length === 0) return "none";
    return length === 1 ? `${offset}` : `${offset}–${offset + length - 1}`;
}

function fieldItem(field, index) {
    const { name } = field;
    const text = valueText(field);
    const shown = text.length > VALUE_LENGTH_MAX ? `${text.slice(0, VALUE_LENGTH_MAX)}…` : text;
    const style = `field color-${colors.get(name) ?? 0}`;
    return element(
        "li",
        null,
        element(
            "button",
            { type: "button", class: style, "data-field": index, "data-key": `field ${index}` },
            element("span", { class: "field-name" }, titles.get(name) ?? name),
            element("span", { class: "field-place" }, placeText(field)),
            element("span", { class: "field-value code", dir: "ltr" }, visibleText(shown)),
        ),
    );
}

/** A line of the dump: the offset, the bytes grouped by field, and the same as characters. */
function hexLine(bytes, owners, fields, start) {
    const hexadecimal = element("span", { class: "hex-bytes" });
    const characters = element("span", { class: "hex-text", "aria-hidden": "true" });
    const end = Math.min(start + BYTES_A_LINE, bytes.length);
    for (let run = start; run < end; ) {
        let runEnd = run + 1;
        while (runEnd < end && owners[runEnd] === owners[run]) runEnd += 1;
        const field = owners[run];
        const attributes = {
            class: field < 0 ? null : `run color-${colors.get(fields[field].name) ?? 0}`,
            "data-field": field < 0 ? null : field,
            title: field < 0 ? null : (titles.get(fields[field].name) ?? fields[field].name),
        };
        const slice = bytes.slice(run, runEnd);
        hexadecimal.append(element("span", attributes, slice.join(" ")), runEnd < end ? " " : "");
        characters.append(element("span", attributes, slice.map(character).join("")));
        run = runEnd;
    }
    const offset = element("span", { class: "hex-offset" }, start.toString(16).padStart(4, "0"));
    return element("div", { class: "hex-line" }, offset, hexadecimal, characters);
}

function character(byte) {
    const code = Number.parseInt(byte, 16);
    return code >= 0x20 && code < 0x7f ? String.fromCharCode(code) : "·";
}

/** Highlights the bytes of a field that is focused or pointed at, and the reverse. */
function connect(view) {
    const show = (field) => {
        for (const node of view.querySelectorAll(".is-shown")) node.classList.remove("is-shown");
        if (field === undefined) return;
        for (const node of view.querySelectorAll(`[data-field="${field}"]`)) node.classList.add("is-shown");
    };
    const fieldOf = (target) => target.closest?.("[data-field]")?.dataset.field;
    view.addEventListener("pointerover", (event) => show(fieldOf(event.target)));
    view.addEventListener("pointerleave", () => show(fieldOf(document.activeElement)));
    view.addEventListener("focusin", (event) => show(fieldOf(event.target)));
    view.addEventListener("focusout", () => show(undefined));
    view.addEventListener("click", (event) => {
        const field = event.target.closest?.("button[data-field]")?.dataset.field;
        if (field === undefined) return;
        view.querySelector(`.hex-bytes [data-field="${field}"]`)?.scrollIntoView({ block: "nearest" });
    });
}
