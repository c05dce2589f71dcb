// SPDX-License-Identifier: Apache-2.0

import { api } from "./api.js";
import { perform, showMessage } from "./dialogs.js";
import { actionColumn, element, isolated, replaceChildrenKeepingFocus, table, toggle } from "./dom.js";
import { field } from "./devices-view.js";
import { count, listenerName, timeElement } from "./format.js";
import { effectText, presets, triggers, triggerText } from "./fault-presets.js";
import { notificationLink } from "./routes.js";

/** The maximum number of shown log entries. */
const LOG_SHOWN_COUNT_MAX = 200;

/** The faults and their controls, a form to add one, and the log of occurrences. */
export class FaultsView {
    #state;
    #list = element("div", null);
    #log = element("div", null);
    #preset = element(
        "select",
        { id: "fault-preset" },
        [...new Set(presets.map(({ group }) => group))].map((group) =>
            element(
                "optgroup",
                { label: group },
                presets.map(
                    (preset, index) => preset.group === group && element("option", { value: index }, preset.name),
                ),
            ),
        ),
    );
    #trigger = element(
        "select",
        { id: "fault-trigger" },
        triggers.map(({ name }, index) => element("option", { value: index }, name)),
    );
    #value = element("input", { type: "text", id: "fault-value", spellcheck: "false" });
    #valueField = field("Value", this.#value);
    #countMax = element("input", { type: "number", id: "fault-count", min: "1", step: "1" });
    #json = element("textarea", { id: "fault-json", rows: "9", spellcheck: "false", class: "code" });

    constructor(container, state) {
        this.#state = state;
        for (const input of [this.#preset, this.#trigger, this.#value, this.#countMax]) {
            input.addEventListener("input", () => this.#compose());
        }
        const form = element(
            "form",
            { class: "panel form-grid", onsubmit: (event) => this.#add(event) },
            element("h3", null, "Add a fault"),
            field("Effect", this.#preset),
            field("When", this.#trigger),
            this.#valueField,
            field("Maximum number of occurrences", this.#countMax, "empty for no limit"),
            field("Fault as JSON", this.#json, "editable"),
            element("button", { class: "primary" }, "Add"),
        );
        const done = element("div", null, this.#list, element("h3", null, "Log"), this.#log);
        container.append(element("div", { class: "columns" }, done, form));
        this.#compose();
    }

    update() {
        const { faults, faultLog } = this.#state;
        const columns = ["Fault", "When", "Listener", "Enabled", ["Applied", "number"], actionColumn];
        const rows = [...faults.values()].map((fault) => this.#row(fault));
        const list =
            rows.length === 0
                ? element("p", { class: "empty" }, "No faults: the simulator behaves like the service.")
                : table("Faults", columns, rows);
        replaceChildrenKeepingFocus(this.#list, list);
        this.#drawLog(faultLog);
    }

    #row(fault) {
        const { id, isEnabled, occurrenceCount, occurrenceCountMax } = fault;
        const name = effectText(fault);
        const most = occurrenceCountMax === undefined ? "" : ` of ${occurrenceCountMax}`;
        return [
            isolated(name),
            isolated([triggerText(fault.at), fault.warning].filter(Boolean).join(" — ")),
            fault.listener ? listenerName(fault.listener) : "any",
            toggle(`Fault ${id}, ${name}, is enabled`, isEnabled, `fault ${id}`, (value) =>
                perform(() => api.setFaultEnabled(id, value)),
            ),
            `${occurrenceCount ?? 0}${most}`,
            element(
                "button",
                {
                    type: "button",
                    class: "small",
                    "aria-label": `Remove fault ${id}, ${name}`,
                    "data-key": `remove ${id}`,
                    onclick: () => perform(() => api.deleteFault(id)),
                },
                "Remove",
            ),
        ];
    }

    #drawLog(log) {
        if (log.length === 0) {
            this.#log.replaceChildren(element("p", { class: "empty" }, "No fault has occurred."));
            return;
        }
        const columns = ["Time", "Fault", "Effect", "Listener", ["Connection", "number"], "Notification"];
        const rows = log
            .slice(-LOG_SHOWN_COUNT_MAX)
            .reverse()
            .map((application) => [
                timeElement(application.at),
                String(application.fault),
                isolated(effectText(application)),
                listenerName(application.listener),
                String(application.connection ?? ""),
                notificationCell(application),
            ]);
        const caption = `The last ${count(rows.length, "application")} of faults, the newest first`;
        replaceChildrenKeepingFocus(this.#log, table(caption, columns, rows));
    }

    #compose() {
        const preset = presets[Number(this.#preset.value)];
        const trigger = triggers[Number(this.#trigger.value)];
        this.#valueField.hidden = trigger.label === undefined;
        if (trigger.label) this.#valueField.querySelector("label").textContent = trigger.label;
        const fault = { ...structuredClone(preset.fault) };
        if (trigger.make) fault.at = trigger.make(this.#value.value.trim() || trigger.example);
        this.#value.placeholder = trigger.example ?? "";
        if (this.#countMax.value !== "") fault.occurrenceCountMax = Number(this.#countMax.value);
        this.#json.value = JSON.stringify(fault, null, 2);
    }

    async #add(event) {
        event.preventDefault();
        let fault;
        try {
            fault = JSON.parse(this.#json.value);
        } catch (error) {
            showMessage(`The fault is not valid JSON: ${error.message}`);
            this.#json.focus();
            return;
        }
        await perform(() => api.addFault(fault));
    }
}

/** The notification of an occurrence: a link if it is recorded. */
function notificationCell({ number, notification, notificationNumber }) {
    if (notificationNumber !== undefined) return notificationLink(notificationNumber, `log ${number}`);
    return notification === undefined ? "" : `${notification} of the connection`;
}
