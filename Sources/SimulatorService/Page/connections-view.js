// SPDX-License-Identifier: Apache-2.0

import { api } from "./api.js";
import { perform } from "./dialogs.js";
import { element, isolated, replaceChildrenKeepingFocus, table } from "./dom.js";
import { listenerName, timeElement } from "./format.js";

/** The maximum number of shown connections. */
const SHOWN_COUNT_MAX = 200;

const endings = [
    ["orderly", "orderly: close_notify, then FIN"],
    ["fin", "FIN without close_notify"],
    ["abrupt", "abrupt: close_notify, then immediate close"],
    ["reset", "reset: RST"],
];

/** The open connections, and the last closed ones. */
export class ConnectionsView {
    #state;
    #list = element("div", null);
    #ending = element(
        "select",
        { id: "connection-ending" },
        endings.map(([value, text]) => element("option", { value }, text)),
    );

    constructor(container, state) {
        this.#state = state;
        container.append(
            element(
                "div",
                { class: "view-tools" },
                element("label", { class: "field-inline" }, "End connections with ", this.#ending),
            ),
            this.#list,
        );
    }

    update() {
        const all = [...this.#state.connections.values()];
        const newest = all.toSorted((one, other) => (one.openedAt < other.openedAt ? 1 : -1)).slice(0, SHOWN_COUNT_MAX);
        if (newest.length === 0) {
            this.#list.replaceChildren(element("p", { class: "empty" }, "No connections yet."));
            return;
        }
        const columns = [
            "Connection",
            "From",
            "Opened",
            "Closed",
            "Certificate",
            "Protocol",
            ["Sent", "number"],
            ["Rejected", "number"],
        ];
        const rows = newest.map((connection) => this.#row(connection));
        replaceChildrenKeepingFocus(this.#list, table("Connections, the newest first", columns, rows));
    }

    #row(connection) {
        const { listener, number, remoteAddress, openedAt, closedAt, certificate } = connection;
        const name = `${listenerName(listener)} ${number}`;
        const protocol = [connection.tlsVersion, connection.cipher, connection.applicationProtocol];
        return [
            name,
            remoteAddress ?? "",
            timeElement(openedAt),
            closedAt ? timeElement(closedAt) : this.#endButton(connection, name),
            certificate ? this.#certificate(certificate, name) : "none",
            protocol.filter(Boolean).join(", "),
            String(connection.notificationCount ?? ""),
            String(connection.rejectedCount ?? ""),
        ];
    }

    /** A certificate with a button that revokes or restores it. */
    #certificate({ fingerprint, subject, topics }, name) {
        const shown = topics?.length > 0 ? topics.join(", ") : (subject ?? fingerprint);
        const isRevoked = this.#state.revocations.has(fingerprint);
        const verb = isRevoked ? "Restore" : "Revoke";
        return element(
            "div",
            { class: "certificate" },
            element("span", { title: `${subject}, SHA-256 ${fingerprint}` }, isolated(shown)),
            isRevoked && element("span", { class: "label label-warning" }, "revoked"),
            element(
                "button",
                {
                    type: "button",
                    class: "small",
                    "aria-label": `${verb} the certificate of connection ${name}`,
                    "data-key": `revoke ${name}`,
                    onclick: () => perform(() => (isRevoked ? api.restore(fingerprint) : api.revoke(fingerprint))),
                },
                verb,
            ),
        );
    }

    #endButton({ listener, number }, name) {
        return element(
            "button",
            {
                type: "button",
                class: "small",
                "aria-label": `End connection ${name}`,
                "data-key": `end ${name}`,
                onclick: () => perform(() => api.endConnection(listener, number, this.#ending.value)),
            },
            "End",
        );
    }
}
