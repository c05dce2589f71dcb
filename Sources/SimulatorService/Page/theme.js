// SPDX-License-Identifier: Apache-2.0
// Runs before the page is drawn, so that it does not flash in another theme.
"use strict";
try {
    const theme = localStorage.getItem("theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
    // Without storage, the system's theme is used.
}
