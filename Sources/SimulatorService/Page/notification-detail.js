// SPDX-License-Identifier: Apache-2.0

import { api } from "./api.js";
import { copyButton, element, isolated, replaceChildrenKeepingFocus } from "./dom.js";
import { listenerName, timeElement, describeOutcome } from "./format.js";
import { frameView, headersText } from "./frame-view.js";
import { appIcon, outcomeElement, withoutAlert } from "./notification-row.js";
import { payloadView, visibleText } from "./payload-view.js";
import { connectionKey } from "./state.js";

/** The maximum length of a fact that fits next to another one. */
const NARROW_LENGTH_MAX = 40;

/** The details of a notification. */
export class NotificationDetail {
    #container;
    #state;
    #onClose;
    #number = null;
    #version = -1;
    #connection = undefined;
    #notification = null;
    #failure = null;

    constructor(container, state, onClose) {
        this.#container = container;
        this.#state = state;
        this.#onClose = onClose;
    }

    /** Shows a notification, or nothing for null: first from the list, then complete from the API. */
    async show(number) {
        if (number === this.#number) return;
        this.#number = number;
        this.#notification = null;
        this.#failure = null;
        this.#container.hidden = number === null;
        this.#container.scrollTop = 0;
        this.#draw();
        if (number === null) return;
        try {
            const notification = await api.notification(number);
            if (this.#number === number) this.#notification = notification;
        } catch (error) {
            if (this.#number !== number) return;
            this.#failure = error.status === 404 ? "This notification has left the record of the simulator." : error.message;
        }
        if (this.#number === number) this.#draw();
    }

    /** Redraws if the notification, such as its delivery, or its connection has changed. */
    update() {
        if (this.#number === null) return;
        const row = this.#state.notifications.get(this.#number);
        const isChanged = row !== undefined && (row.version ?? 0) !== this.#version;
        if (isChanged || this.#connectionOf(row ?? this.#notification) !== this.#connection) this.#draw();
    }

    #connectionOf(notification) {
        if (!notification) return undefined;
        const { listener, connection } = notification;
        return this.#state.connections.get(connectionKey({ listener, number: connection }));
    }

    focus() {
        this.#container.querySelector("h3")?.focus();
    }

    #draw() {
        const row = this.#state.notifications.get(this.#number);
        this.#version = row?.version ?? 0;
        const notification = { ...this.#notification, ...row };
        this.#connection = this.#connectionOf(notification);
        if (this.#number === null) {
            this.#container.replaceChildren();
            return;
        }
        this.#container.setAttribute("aria-label", `Notification ${this.#number}`);
        const isKnown = notification.number !== undefined;
        replaceChildrenKeepingFocus(
            this.#container,
            this.#head(isKnown ? notification : null),
            isKnown && this.#sections(notification),
            this.#failure && element("p", { class: "notice" }, this.#failure),
        );
    }

    #head(notification) {
        return element(
            "header",
            { class: "detail-head" },
            element(
                "h3",
                { tabindex: "-1", "data-key": "heading" },
                `Notification ${this.#number} `,
                notification && outcomeElement(notification),
            ),
            element("button", { type: "button", onclick: this.#onClose }, "Close"),
        );
    }

    #sections(notification) {
        const { frame } = notification;
        return [
            banner(notification),
            element("p", { class: "explanation" }, isolated(describeOutcome(notification).explanation)),
            section("Facts", null, this.#facts(notification)),
            section(
                "Payload",
                copyButton("Copy", () => notification.payloadText ?? "", "copy-payload"),
                notification.payloadText ? payloadView(notification) : element("p", { class: "quiet" }, "None."),
            ),
            frame &&
                section(
                    frame.hex === undefined ? "Request" : "Frame",
                    copyButton("Copy", () => frame.hex ?? headersText(frame), "copy-frame"),
                    frameView(frame),
                ),
        ].filter(Boolean);
    }

    #facts(notification) {
        const { connection, listener, token } = notification;
        const known = this.#connection;
        const certificate = known?.certificate;
        const list = element("dl", { class: "facts" });
        const add = (name, value, isCode = false) => {
            if (value === undefined || value === null || value === "") return;
            const shown = value instanceof Node ? value : isolated(visibleText(String(value)));
            const description = element("dd", { class: isCode && "code" }, shown);
            const isWide = description.textContent.length > NARROW_LENGTH_MAX;
            list.append(element("div", { class: isWide && "wide" }, element("dt", null, name), description));
        };
        if (token) {
            add("Token", element("span", null, token, " ", copyButton("Copy", () => token, "copy-token")), true);
        } else {
            add("Token", "none");
        }
        add("Topic", notification.topic);
        add("Device", notification.device);
        add("Received", timeElement(notification.receivedAt));
        add("Timing", timing(notification));
        add("Delivered", notification.deliveredAt && timeElement(notification.deliveredAt));
        add("Expires", expiry(notification.expiry));
        add("Priority", notification.priority);
        add("Push type", notification.pushType);
        add("Collapse ID", notification.collapseId);
        add("Identifier", notification.identifier);
        add("Token signature", { raw: "64 bytes (raw)", der: "DER" }[notification.tokenSignature]);
        add("apns-id", notification.apnsId, true);
        add("apns-unique-id", notification.uniqueId, true);
        add("Listener", listenerName(listener));
        if (notification.reason !== "closed") add("Command", notification.command);
        add("Connection", `${connection}, notification ${notification.notification} on it`);
        add("From", known?.remoteAddress);
        add("Protocol", [known?.tlsVersion, known?.cipher, known?.applicationProtocol].filter(Boolean).join(", "));
        add("Certificate", certificate?.subject);
        add("Certificate topics", certificate?.topics?.join(", "));
        add("Certificate expires", certificate?.notAfter && timeElement(certificate.notAfter));
        add("Fingerprint", certificate?.fingerprint, true);
        add("Payload", notification.payloadByteCount === undefined ? null : bytes(notification.payloadByteCount));
        return list;
    }
}

function bytes(number) {
    return `${number.toLocaleString("en-US")} ${number === 1 ? "byte" : "bytes"}`;
}

/** The time until the outcome. */
function timing({ durationMilliseconds: number, outcome, reason }) {
    if (number === undefined || number === null) return null;
    const time = `${number < 10 ? number.toFixed(2) : Math.round(number).toLocaleString("en-US")} ms`;
    return `${reason === "closed" ? reason : outcome} after ${time}`;
}

function expiry(value) {
    if (value === undefined || value === null) return null;
    return value === "immediately" ? "immediately (never stored)" : timeElement(value);
}

function section(title, action, ...content) {
    return element(
        "section",
        { class: "detail-section" },
        element("div", { class: "section-head" }, element("h4", null, title), action),
        ...content,
    );
}

/** The notification as shown on a device. */
function banner(notification) {
    const { preview, topic } = notification;
    const missing = preview?.missingKeys ?? [];
    const line = (text, style) =>
        text &&
        element(
            "p",
            { class: style },
            isolated(text, { class: missing.includes(text) ? "missing-key" : null }),
            missing.includes(text) && element("span", { class: "missing-note" }, " (the app has no text for this key)"),
        );
    const isShown = preview?.title || preview?.subtitle || preview?.body;
    const marks = [
        preview?.isSilent && "silent: wakes the app, shows nothing",
        preview?.badge !== undefined && preview.badge !== null && `badge ${preview.badge}`,
        preview?.sound && `sound ${preview.sound}`,
        preview?.action && `button ${preview.action}${missing.includes(preview.action) ? " (no text for this key)" : ""}`,
    ].filter(Boolean);
    return element(
        "div",
        { class: isShown ? "banner" : "banner is-silent", role: "group", "aria-label": "Preview" },
        appIcon(topic, preview?.badge),
        element(
            "div",
            { class: "banner-text" },
            line(preview?.title, "banner-title"),
            line(preview?.subtitle, "banner-subtitle"),
            line(preview?.body, "banner-body"),
            !isShown && element("p", { class: "banner-body is-nothing" }, withoutAlert(notification)),
            marks.length > 0 && element("p", { class: "banner-marks" }, isolated(marks.join(" · "))),
        ),
    );
}
