// SPDX-License-Identifier: Apache-2.0

import { element } from "./dom.js";
import { characterName, invisible } from "./format.js";
import { offsetOf, prettyPieces } from "./json-text.js";

/** The payload as JSON, with problems marked. */
export function payloadView(notification) {
    const source = notification.payloadText ?? "";
    const problems = (notification.payloadProblems ?? []).map((problem) => ({
        ...problem,
        offset: offsetOf(source, problem.line ?? 1, problem.column ?? 1),
    }));
    const lines = element("code", null);
    let isOpen = [...problems];
    for (const { kind, text, offset } of prettyPieces(source)) {
        if (kind === "space") {
            lines.append(text);
            continue;
        }
        const end = offset + text.length;
        const here = isOpen.filter((problem) => problem.offset < end);
        isOpen = isOpen.filter((problem) => problem.offset >= end);
        const made = element("span", { class: `json-${kind}` }, visibleText(text));
        lines.append(here.length === 0 ? made : marked(made, here));
    }
    // A problem at the end is marked after the last character.
    if (isOpen.length > 0) lines.append(marked(element("span", null, " "), isOpen));
    const view = element("pre", { class: "payload", tabindex: "0", "aria-label": "Payload", dir: "ltr" }, lines);
    if (problems.length === 0) return view;
    const list = element(
        "ul",
        { class: "problems" },
        problems.map(({ line, column, text }) =>
            element("li", null, line === undefined ? text : `line ${line}, column ${column}: ${text}`),
        ),
    );
    return element("div", null, list, view);
}

function marked(node, problems) {
    const text = problems.map((problem) => problem.text).join("; ");
    return element(
        "mark",
        { class: "problem", title: text },
        node,
        element("span", { class: "problem-note" }, ` ← ${text}`),
    );
}

/** A text with invisible characters replaced by their code points. */
export function visibleText(text) {
    const nodes = [];
    let end = 0;
    for (const match of text.matchAll(invisible)) {
        if (match.index > end) nodes.push(text.slice(end, match.index));
        const { code, name } = characterName(match[0]);
        nodes.push(element("span", { class: "invisible", title: name }, code));
        end = match.index + match[0].length;
    }
    if (end < text.length) nodes.push(text.slice(end));
    return nodes;
}
