// SPDX-License-Identifier: Apache-2.0

import { api } from "./api.js";
import { confirmed, perform } from "./dialogs.js";
import { copyButton, element, isolated, replaceChildrenKeepingFocus, table } from "./dom.js";
import { field } from "./devices-view.js";
import { timeElement } from "./format.js";

/** The maximum number of shown entries. */
const SHOWN_COUNT_MAX = 500;

/** The tokens that the feedback service sends on the next connection. */
export class FeedbackView {
    #state;
    #list = element("div", null);
    #token = element("input", { type: "text", id: "feedback-token", required: true, spellcheck: "false" });
    #clear = element(
        "button",
        { type: "button", "aria-haspopup": "dialog", onclick: () => this.#clearAll() },
        "Clear…",
    );

    constructor(container, state) {
        this.#state = state;
        const form = element(
            "form",
            { class: "panel form-grid", onsubmit: (event) => this.#add(event) },
            element("h3", null, "List a token"),
            field("Token", this.#token, "removes the app from its device and lists the token immediately"),
            element("button", { class: "primary" }, "List"),
        );
        container.append(
            element(
                "p",
                { class: "quiet" },
                "A token is listed after a notification was sent to a deleted app. ",
                "Reading the list empties it.",
            ),
            element("div", { class: "view-tools" }, this.#clear),
            element("div", { class: "columns" }, this.#list, form),
        );
    }

    update() {
        const { feedback } = this.#state;
        this.#clear.hidden = feedback.length === 0;
        if (feedback.length === 0) {
            this.#list.replaceChildren(element("p", { class: "empty" }, "No pending tokens."));
            return;
        }
        const rows = feedback.slice(-SHOWN_COUNT_MAX).map(({ token, topic, failedAt }) => [
            element(
                "span",
                { class: "code wrap" },
                token,
                " ",
                copyButton("Copy", () => token, `feedback ${token}`),
            ),
            isolated(topic ?? ""),
            timeElement(failedAt),
        ]);
        replaceChildrenKeepingFocus(this.#list, table("Pending tokens", ["Token", "Topic", "Failed at"], rows));
    }

    async #add(event) {
        event.preventDefault();
        if (await perform(() => api.addFeedback(this.#token.value.trim()))) this.#token.value = "";
    }

    async #clearAll() {
        const text = "The pending tokens are never sent to a provider.";
        if (await confirmed("Clear the feedback?", text, "Clear")) {
            await perform(async () => {
                await api.clearFeedback();
                await this.#state.reload();
            });
        }
    }
}
