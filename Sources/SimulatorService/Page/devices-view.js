// SPDX-License-Identifier: Apache-2.0

import { api } from "./api.js";
import { confirmed, perform } from "./dialogs.js";
import { actionColumn, copyButton, element, isolated, replaceChildrenKeepingFocus, table, toggle } from "./dom.js";
import { count, shortToken, timeElement } from "./format.js";
import { notificationLink } from "./routes.js";

/** The maximum number of shown devices; others are found by searching. */
const SHOWN_COUNT_MAX = 200;

/** The devices and their controls. */
export class DevicesView {
    #state;
    #list = element("div", null);
    #summary = element("p", { class: "quiet", role: "status" });
    #search = element("input", { type: "search", id: "device-search", spellcheck: "false" });
    #topics = element("input", { type: "text", id: "device-topics", required: true, spellcheck: "false" });
    #token = element("input", { type: "text", id: "device-token", spellcheck: "false" });
    #identifier = element("input", { type: "text", id: "device-identifier", spellcheck: "false" });
    #isOnline = element("input", { type: "checkbox", id: "device-online", checked: true });

    constructor(container, state) {
        this.#state = state;
        this.#search.addEventListener("input", () => this.update());
        const form = element(
            "form",
            { class: "panel form-grid", onsubmit: (event) => this.#add(event) },
            element("h3", null, "Add a device"),
            field("Topics of its apps", this.#topics, "separated by commas"),
            field("Token", this.#token, "optional, for a single topic; by default generated"),
            field("Identifier", this.#identifier, "optional"),
            element("label", { class: "field-inline" }, this.#isOnline, "online"),
            element("button", { class: "primary" }, "Add"),
        );
        container.append(
            element(
                "div",
                { class: "view-tools" },
                element("label", { class: "field-inline" }, "Search ", this.#search),
                this.#summary,
            ),
            element("div", { class: "columns" }, this.#list, form),
        );
    }

    update() {
        const { devices, status } = this.#state;
        if (this.#topics.value === "" && document.activeElement !== this.#topics) {
            this.#topics.value = status?.topics?.[0] ?? [...devices.values()][0]?.apps[0]?.topic ?? "";
        }
        const text = this.#search.value.trim().toLowerCase();
        const matching = [...devices.values()].filter((device) => text === "" || isMatch(device, text));
        const shown = matching.slice(0, SHOWN_COUNT_MAX);
        const hidden = matching.length - shown.length;
        const rest = hidden > 0 ? `, showing the first ${SHOWN_COUNT_MAX}` : "";
        this.#summary.textContent = `${count(matching.length, "device")}${rest}`;
        if (matching.length === 0) {
            const sentence = devices.size === 0 ? "There are no devices." : "No device matches.";
            this.#list.replaceChildren(element("p", { class: "empty" }, sentence));
            return;
        }
        const columns = ["Device", "Online", "App", "Token", "Installed", "Stored notification", actionColumn];
        const rows = shown.flatMap((device) => this.#rows(device));
        replaceChildrenKeepingFocus(this.#list, table("Devices and their apps", columns, rows));
    }

    #rows(device) {
        const { identifier, isOnline } = device;
        const apps = device.apps.length > 0 ? device.apps : [null];
        return apps.map((app, index) => {
            const isFirst = index === 0;
            return [
                isFirst ? isolated(identifier) : element("span", { class: "visually-hidden" }, identifier),
                isFirst &&
                    toggle(`${identifier} is online`, isOnline, `online ${identifier}`, (value) =>
                        perform(() => api.setOnline(identifier, value)),
                    ),
                app ? isolated(app.topic) : "no app",
                app && this.#tokenText(app),
                app && this.#installed(identifier, app),
                app && stored(app),
                isFirst && this.#delete(identifier),
            ];
        });
    }

    #tokenText(app) {
        const key = `token ${app.token}`;
        return element(
            "span",
            { class: "code", title: app.token },
            shortToken(app.token),
            " ",
            copyButton("Copy", () => app.token, key),
        );
    }

    #installed(identifier, app) {
        const name = `${app.topic} is installed on ${identifier}`;
        const button = toggle(name, app.isInstalled, `app ${identifier} ${app.topic}`, (value) =>
            perform(() => (value ? api.installApp(identifier, app.topic) : api.removeApp(identifier, app.topic))),
        );
        if (app.isInstalled || !app.removedAt) return button;
        return element("span", null, button, element("span", { class: "quiet" }, "since ", timeElement(app.removedAt)));
    }

    #delete(identifier) {
        return element(
            "button",
            {
                type: "button",
                class: "small",
                "aria-label": `Delete ${identifier}`,
                "data-key": `delete ${identifier}`,
                onclick: async () => {
                    const text = "Its tokens become dead: HTTP/2 requests are rejected with 410, and feedback lists the tokens.";
                    if (await confirmed(`Delete ${identifier}?`, text, "Delete")) {
                        await perform(() => api.deleteDevice(identifier));
                    }
                },
            },
            "Delete",
        );
    }

    async #add(event) {
        event.preventDefault();
        const device = { topics: this.#topics.value.split(",").map((topic) => topic.trim()).filter(Boolean) };
        if (this.#token.value.trim() !== "") device.token = this.#token.value.trim();
        if (this.#identifier.value.trim() !== "") device.identifier = this.#identifier.value.trim();
        if (device.topics.length === 1) device.topic = device.topics.pop();
        if (device.topic) delete device.topics;
        device.isOnline = this.#isOnline.checked;
        if (await perform(() => api.addDevice(device))) {
            this.#token.value = "";
            this.#identifier.value = "";
        }
    }
}

export function field(name, input, hint) {
    const hintID = hint ? `${input.id}-hint` : null;
    if (hintID) input.setAttribute("aria-describedby", hintID);
    return element(
        "div",
        { class: "field" },
        element("label", { for: input.id }, name),
        input,
        hint && element("span", { class: "quiet", id: hintID }, hint),
    );
}

function stored(app) {
    if (!app.storedNotification) return "";
    return notificationLink(app.storedNotification, `stored ${app.token}`);
}

function isMatch(device, text) {
    if (device.identifier.toLowerCase().includes(text)) return true;
    return device.apps.some(({ topic, token }) => topic.toLowerCase().includes(text) || token?.startsWith(text));
}
