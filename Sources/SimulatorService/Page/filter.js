// SPDX-License-Identifier: Apache-2.0

const deliveries = new Set(["delivered", "stored", "replaced", "expired", "discarded", "appRemoved"]);
const names = ["text", "token", "topic", "outcome", "listener"];

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
        const values = Object.fromEntries(names.map((name) => [name, parameters.get(name) ?? ""]));
        // The earlier name, for one version.
        values.outcome ||= parameters.get("verdict") ?? "";
        return new Filter(values);
    }

    get isEmpty() {
        return names.every((name) => this[name] === "");
    }

    /** Writes the filter into an address. */
    write(parameters) {
        parameters.delete("verdict");
        for (const name of names) {
            if (this[name] === "") parameters.delete(name);
            else parameters.set(name, this[name]);
        }
    }

    /** The part of the filter that the control API supports; `matches` applies the rest. */
    get parameters() {
        const outcome = this.outcome === "rejected" ? "rejected" : this.outcome === "" ? "any" : "accepted";
        // The API filters by whole tokens, the page by first digits.
        return { outcome, text: this.text || this.token, topic: this.topic, listener: this.listener };
    }

    matches(notification) {
        if (this.listener !== "" && notification.listener !== this.listener) return false;
        if (this.topic !== "" && notification.topic !== this.topic) return false;
        if (this.token !== "" && !notification.token?.startsWith(this.token)) return false;
        if (this.outcome !== "") {
            const value = deliveries.has(this.outcome) ? notification.delivery : notification.outcome;
            if (value !== this.outcome) return false;
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
