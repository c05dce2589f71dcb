// SPDX-License-Identifier: Apache-2.0

const deliveries = new Set(["delivered", "stored", "replaced", "expired", "discarded", "appRemoved"]);
const names = ["text", "token", "topic", "verdict", "listener"];

/** The filter for notifications, which is stored in the page's address. */
export class Filter {
    #text;

    constructor(values = {}) {
        for (const name of names) this[name] = values[name]?.trim() ?? "";
        this.token = this.token.toLowerCase().replace(/[\s<>]/g, "");
        const escaped = this.text.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");
        this.#text = escaped === "" ? null : new RegExp(escaped, "iu");
    }

    /** Reads the filter from an address. */
    static of(parameters) {
        return new Filter(Object.fromEntries(names.map((name) => [name, parameters.get(name) ?? ""])));
    }

    get isEmpty() {
        return names.every((name) => this[name] === "");
    }

    /** Writes the filter into an address. */
    write(parameters) {
        for (const name of names) {
            if (this[name] === "") parameters.delete(name);
            else parameters.set(name, this[name]);
        }
    }

    /** The part of the filter that the control API supports; `matches` applies the rest. */
    get parameters() {
        const outcome = this.verdict === "rejected" ? "rejected" : this.verdict === "" ? "any" : "accepted";
        // The API filters by whole tokens, the page by first digits.
        return { outcome, text: this.text || this.token, topic: this.topic, listener: this.listener };
    }

    matches(notification) {
        if (this.listener !== "" && notification.listener !== this.listener) return false;
        if (this.topic !== "" && notification.topic !== this.topic) return false;
        if (this.token !== "" && !notification.token?.startsWith(this.token)) return false;
        if (this.verdict !== "") {
            const value = deliveries.has(this.verdict) ? notification.delivery : notification.outcome;
            if (value !== this.verdict) return false;
        }
        return this.#text === null || this.#isIn(notification);
    }

    #isIn(notification) {
        const { preview } = notification;
        const places = [
            notification.payloadText,
            preview?.title,
            preview?.subtitle,
            preview?.body,
            preview?.action,
            notification.token,
            notification.topic,
            notification.reason,
            notification.reasonDetail,
            notification.device,
        ];
        return places.some((place) => place && this.#text.test(place));
    }
}
