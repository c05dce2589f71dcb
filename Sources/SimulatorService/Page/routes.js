// SPDX-License-Identifier: Apache-2.0

import { element } from "./dom.js";

/** The page's address, which contains the view, the selected notification and the filter. */

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

/** A link to a notification, which the page follows without reloading. */
export function notificationLink(number, key) {
    return element("a", { href: `/?notification=${number}`, "data-key": key }, `#${number}`);
}
