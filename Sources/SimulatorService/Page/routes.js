// SPDX-License-Identifier: Apache-2.0

import { element } from "./dom.js";

/** What the page's address says: the view, the notification that is looked at, and the filter. */

export const views = ["notifications", "devices", "faults", "feedback", "connections"];

export function currentParameters() {
    return new URLSearchParams(location.search);
}

export function viewOf(parameters) {
    const view = parameters.get("view");
    return views.includes(view) ? view : "notifications";
}

export function notificationOf(parameters) {
    const number = Number(parameters.get("notification"));
    return Number.isSafeInteger(number) && number > 0 ? number : null;
}

export function addressOf(parameters) {
    const text = parameters.toString();
    return text === "" ? "/" : `/?${text}`;
}

/** A link to a notification; the page follows it without being loaded again. */
export function notificationLink(number, key) {
    return element("a", { href: `/?notification=${number}`, "data-key": key }, `#${number}`);
}
