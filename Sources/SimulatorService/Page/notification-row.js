// SPDX-License-Identifier: Apache-2.0

import { element, isolated } from "./dom.js";
import { listenerName, shortTime, shortToken, describeOutcome } from "./format.js";

/** The letter and color that represent an app's icon. */
export function appIcon(topic, badge) {
    const name = topic?.split(".").pop() ?? "?";
    const shade = [...(topic ?? "")].reduce((sum, letter) => (sum * 31 + letter.codePointAt(0)) % 6, 0);
    return element(
        "span",
        { class: `app-icon shade-${shade}`, "aria-hidden": "true" },
        (name[0] ?? "?").toUpperCase(),
        badge ? element("span", { class: "badge" }, String(badge)) : null,
    );
}

/** The text on a device: the first line and the rest. */
export function shownLines(notification) {
    const preview = notification.preview ?? {};
    const lines = [preview.title, preview.subtitle, preview.body].filter(Boolean);
    if (lines.length === 0) return { only: withoutAlert(notification), isShown: false };
    if (lines.length === 1) return { only: lines[0], isShown: true };
    return { title: lines[0], rest: lines.slice(1).join(" — "), isShown: true };
}

/** The effect of a notification without text. */
export function withoutAlert(notification) {
    const { preview, payloadByteCount } = notification;
    if (notification.reason === "closed") return "Not a message: unknown command";
    if (payloadByteCount === 0) return "No payload";
    if (preview === undefined) {
        const problem = notification.payloadProblems?.[0]?.text;
        return problem ? `Invalid payload: ${problem}` : "Invalid payload";
    }
    if (preview?.badge === 0) return "Removes the badge";
    if (preview?.badge !== undefined) return `Sets the badge to ${preview.badge}`;
    if (preview?.sound !== undefined) return "Plays a sound";
    return "Shows nothing";
}

export function outcomeElement(notification) {
    const { tone, text, explanation } = describeOutcome(notification);
    return element("span", { class: `outcome tone-${tone}`, title: explanation }, text);
}

/** Labels such as silent or missing texts. */
export function labels(notification) {
    const { preview } = notification;
    const made = [];
    if (preview?.isSilent) made.push(element("span", { class: "label" }, "silent"));
    if (preview?.missingKeys?.length > 0) {
        made.push(element("span", { class: "label label-warning" }, "text missing"));
    }
    if (notification.payloadProblems?.length > 0) {
        made.push(element("span", { class: "label label-warning" }, "payload problem"));
    }
    return made;
}

function rowLines(notification) {
    const { title, rest, only, isShown } = shownLines(notification);
    if (only !== undefined) {
        const style = isShown ? "row-only" : "row-only is-nothing";
        return element("div", { class: style }, isolated(only), labels(notification));
    }
    return [
        element("div", { class: "row-title" }, isolated(title), labels(notification)),
        element("div", { class: "row-body" }, isolated(rest)),
    ];
}

/** A row of the list. */
export function notificationRow(notification, index, count, isSelected) {
    const { preview } = notification;
    return element(
        "div",
        {
            class: isSelected ? "row is-selected" : "row",
            role: "option",
            id: `notification-${notification.number}`,
            "aria-label": spokenText(notification),
            "aria-selected": isSelected ? "true" : "false",
            "aria-posinset": index + 1,
            "aria-setsize": count,
            "data-number": notification.number,
        },
        appIcon(notification.topic, preview?.badge),
        element(
            "div",
            { class: "row-text" },
            rowLines(notification),
            element(
                "div",
                { class: "row-facts" },
                facts(notification).map((fact) => element("span", null, isolated(fact))),
            ),
        ),
        element(
            "div",
            { class: "row-side" },
            outcomeElement(notification),
            element("time", { datetime: notification.receivedAt }, shortTime(notification.receivedAt)),
            element("span", { class: "row-number" }, `#${notification.number}`),
        ),
    );
}

/** The text of a row for screen readers. */
function spokenText(notification) {
    const { title, rest, only } = shownLines(notification);
    const { preview, number, receivedAt } = notification;
    const parts = [
        only ?? title,
        rest,
        ...labels(notification).map((label) => label.textContent),
        describeOutcome(notification).text,
        preview?.badge ? `badge ${preview.badge}` : null,
        ...facts(notification),
        shortTime(receivedAt),
        `number ${number}`,
    ];
    return parts.filter(Boolean).join(", ");
}

function facts(notification) {
    const { topic, device, listener, token, preview } = notification;
    const sound = preview?.sound ? `sound ${preview.sound}` : null;
    return [topic ?? "no topic", device, listenerName(listener), shortToken(token), sound].filter(Boolean);
}
