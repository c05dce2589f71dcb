// SPDX-License-Identifier: Apache-2.0

/** The reader's settings, stored in the browser. */

function read(name, otherwise) {
    try {
        return localStorage.getItem(name) ?? otherwise;
    } catch {
        return otherwise;
    }
}

function write(name, value) {
    try {
        localStorage.setItem(name, value);
    } catch {
        // Without storage, the setting lasts until the page is left.
    }
}

let theme = read("theme", "system");
let hasSingleKeys = read("single-keys", "yes") === "yes";

export const settings = {
    /** system, light or dark */
    get theme() {
        return theme;
    },
    set theme(value) {
        theme = value;
        write("theme", value);
        if (value === "system") delete document.documentElement.dataset.theme;
        else document.documentElement.dataset.theme = value;
    },
    /** Whether single keys are shortcuts. */
    get hasSingleKeys() {
        return hasSingleKeys;
    },
    set hasSingleKeys(value) {
        hasSingleKeys = value;
        write("single-keys", value ? "yes" : "no");
    },
};
