// SPDX-License-Identifier: Apache-2.0

import { api } from "./api.js";
import { ConnectionsView } from "./connections-view.js";
import { DevicesView } from "./devices-view.js";
import { confirmed, perform, showHelp, showMessage } from "./dialogs.js";
import { byId, element } from "./dom.js";
import { FaultsView } from "./faults-view.js";
import { FeedbackView } from "./feedback-view.js";
import { Filter } from "./filter.js";
import { count } from "./format.js";
import { NotificationDetail } from "./notification-detail.js";
import { NotificationList } from "./notification-list.js";
import { addressOf, currentParameters, notificationOf, views, viewOf } from "./routes.js";
import { HELD_COUNT_MAX } from "./notification-store.js";
import { SimulatorState } from "./state.js";
import { settings } from "./settings.js";

/** The minimum interval of announcements to screen readers. */
const ANNOUNCEMENT_MILLISECONDS = 5000;
const FILTER_MILLISECONDS = 120;

const state = new SimulatorState();
const list = new NotificationList(byId("list"), state.notifications, {
    onSelect: (number) => {
        if (!isNarrow.matches || !byId("detail").hidden) show(number, "replace");
    },
    onOpen: (number, isByKey) => {
        show(number, "push");
        if (isNarrow.matches || isByKey) detail.focus();
    },
    onEnd: () => perform(() => state.loadOlder()),
});
const detail = new NotificationDetail(byId("detail"), state, () => closeDetail());
const isNarrow = matchMedia("(max-width: 55rem)");
const otherViews = {
    devices: new DevicesView(byId("devices"), state),
    faults: new FaultsView(byId("faults"), state),
    feedback: new FeedbackView(byId("feedback"), state),
    connections: new ConnectionsView(byId("connections"), state),
};
let newerCount = 0;

// The address

function go(change, history_ = "push") {
    const parameters = currentParameters();
    change(parameters);
    const address = addressOf(parameters);
    if (address !== location.pathname + location.search) {
        if (history_ === "push") history.pushState(null, "", address);
        else history.replaceState(null, "", address);
    }
    followAddress();
}

function show(number, history_) {
    go((parameters) => parameters.set("notification", number), history_);
}

function closeDetail() {
    go((parameters) => parameters.delete("notification"));
    list.focus();
}

function showView(view) {
    go((parameters) => {
        if (view === "notifications") parameters.delete("view");
        else parameters.set("view", view);
    });
    if (view === "notifications") list.focus();
    else byId("main").focus();
}

let shownFilter = "";

function followAddress() {
    const parameters = currentParameters();
    const view = viewOf(parameters);
    for (const name of views) {
        byId(`view-${name}`).hidden = name !== view;
        const link = document.querySelector(`[data-view="${name}"]`);
        if (name === view) link.setAttribute("aria-current", "page");
        else link.removeAttribute("aria-current");
    }
    const filter = Filter.of(parameters);
    const written = new URLSearchParams();
    filter.write(written);
    if (written.toString() !== shownFilter) {
        shownFilter = written.toString();
        state.filter = filter;
        fillFilters(filter);
        list.scrollToTop();
    }
    byId("filter-clear").hidden = filter.isEmpty;
    const number = notificationOf(parameters);
    byId("view-notifications").classList.toggle("has-detail", number !== null);
    list.select(number);
    detail.show(number);
    if (view === "notifications") list.update();
    else otherViews[view].update();
    document.title = view === "notifications" ? "apns-legacy simulator" : `${view} – apns-legacy simulator`;
}

addEventListener("popstate", followAddress);
document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
    const address = new URL(link.href);
    if (address.origin !== location.origin || address.pathname !== "/" || address.hash !== "") return;
    event.preventDefault();
    const isView = link.dataset.view !== undefined;
    if (isView) {
        showView(link.dataset.view);
    } else {
        go((parameters) => {
            parameters.delete("view");
            parameters.set("notification", address.searchParams.get("notification"));
        });
        detail.focus();
    }
});

// Filters

const filterInputs = ["text", "token", "topic", "outcome", "listener"].map((name) => byId(`filter-${name}`));
let filterTimer;

function fillFilters(filter) {
    drawTopics(filter.topic);
    for (const input of filterInputs) {
        if (document.activeElement !== input || input.tagName === "SELECT") input.value = filter[input.name];
    }
}

function applyFilters() {
    clearTimeout(filterTimer);
    const values = Object.fromEntries(filterInputs.map((input) => [input.name, input.value]));
    go((parameters) => new Filter(values).write(parameters), "replace");
}

byId("filters").addEventListener("submit", (event) => event.preventDefault());
byId("filters").addEventListener("input", (event) => {
    clearTimeout(filterTimer);
    filterTimer = setTimeout(applyFilters, event.target.tagName === "SELECT" ? 0 : FILTER_MILLISECONDS);
});
byId("filter-clear").addEventListener("click", () => {
    for (const input of filterInputs) input.value = "";
    applyFilters();
    byId("filter-text").focus();
});

/** Lists the topics, and selects the chosen one. */
function drawTopics(chosen) {
    const select = byId("filter-topic");
    const topics = new Set(state.status?.topics ?? []);
    for (const { apps } of state.devices.values()) for (const { topic } of apps) topics.add(topic);
    if (chosen) topics.add(chosen);
    const names = [...topics].sort();
    const present = [...select.options].slice(1).map((option) => option.value);
    if (select.options.length > 0 && names.join() === present.join()) return;
    select.replaceChildren(
        element("option", { value: "" }, "all"),
        ...names.map((name) => element("option", { value: name }, name)),
    );
    select.value = chosen;
}

// Changes

state.subscribe((changed, matchedCount) => {
    const view = viewOf(currentParameters());
    if (changed.has("connection")) drawConnectionState();
    if (changed.has("status")) drawStatus();
    if (changed.has("devices") || changed.has("status")) drawTopics(state.notifications.filter.topic);
    if (changed.has("notifications") || changed.has("status")) {
        newerCount = list.isAtTop ? 0 : newerCount + matchedCount;
        if (view === "notifications") list.update(matchedCount);
        drawSummary();
        announce(matchedCount);
    }
    if (changed.has("notifications") || changed.has("connections")) detail.update();
    if (view !== "notifications" && changed.has(view)) otherViews[view].update();
    drawCounts();
});

function drawConnectionState() {
    const { isConnected, retryAt } = state.connection;
    const node = byId("connection-state");
    node.classList.toggle("is-connected", isConnected);
    byId("retry").hidden = isConnected || retryAt === null;
    const text = isConnected ? "Live" : state.isLoaded || retryAt !== null ? "Not connected" : "Connecting";
    // The seconds are in another element, so that a screen reader does not announce each of them.
    if (node.textContent !== text) node.textContent = text;
    const seconds = retryAt === null ? 0 : Math.max(1, Math.ceil((retryAt - Date.now()) / 1000));
    byId("countdown").textContent = seconds === 0 ? "" : `retrying in ${seconds} s`;
}

function drawStatus() {
    const { environment, ports, version } = state.status;
    const addresses = [
        ports?.binary && `binary ${ports.binary}`,
        ports?.feedback && `feedback ${ports.feedback}`,
        ports?.http2 && `HTTP/2 ${ports.http2}`,
    ];
    byId("service").textContent = [environment, ...addresses, version].filter(Boolean).join(" · ");
}

function drawCounts() {
    const counts = {
        notifications: state.recordCount,
        devices: state.devices.size,
        faults: [...state.faults.values()].filter(({ isEnabled }) => isEnabled).length,
        feedback: state.feedback.length,
        connections: [...state.connections.values()].filter(({ closedAt }) => !closedAt).length,
    };
    for (const [name, number] of Object.entries(counts)) {
        const text = number === 0 ? "" : number.toLocaleString("en-US");
        if (byId(`count-${name}`).textContent !== text) byId(`count-${name}`).textContent = text;
    }
}

function drawSummary() {
    const store = state.notifications;
    const { matchingCount, heldCount } = store;
    const held = count(heldCount, "notification");
    let text = store.filter.isEmpty ? held : `${matchingCount.toLocaleString("en-US")} of ${held}`;
    if (store.hasOlder && !store.filter.isEmpty) text += "; scroll to the end of the list to search older ones";
    else if (heldCount >= HELD_COUNT_MAX) text += " loaded; scroll to the end of the list to load older ones";
    byId("list-summary").textContent = text;
    byId("newer").hidden = newerCount === 0;
    byId("newer").textContent = `${count(newerCount, "newer one")} ↑`;
    const empty = byId("list-empty");
    empty.hidden = matchingCount > 0 || !state.isLoaded;
    byId("list").classList.toggle("is-empty", matchingCount === 0);
    if (!empty.hidden) empty.replaceChildren(...emptyText(heldCount));
}

const sendingCommand = 'apns-legacy send --tokens tokens.txt --alert "Hello"';
const files = "--certificate provider-combined.pem --trust authority.pem";

function emptyText(heldCount) {
    if (heldCount > 0) return [element("p", null, "No notification matches.")];
    const { binary, http2 } = state.status?.ports ?? {};
    return [
        element("p", null, "No notifications yet."),
        element("p", { class: "quiet" }, `The binary gateway listens on port ${binary}, HTTP/2 on ${http2}.`),
        element("pre", null, `${sendingCommand} \\\n    --host localhost --port ${binary} ${files}`),
    ];
}

let announcedAt = 0;
let unannouncedCount = 0;
let announcementTimer = null;

/** Announces the number of new notifications to screen readers. */
function announce(matchedCount) {
    unannouncedCount += matchedCount;
    if (unannouncedCount === 0 || announcementTimer !== null) return;
    const pause = Math.max(0, announcedAt + ANNOUNCEMENT_MILLISECONDS - Date.now());
    announcementTimer = setTimeout(() => {
        announcementTimer = null;
        announcedAt = Date.now();
        byId("announcements").textContent = `${count(unannouncedCount, "new notification")}`;
        unannouncedCount = 0;
    }, pause);
}

// Controls of the page

byId("list").addEventListener("scroll", () => {
    if (newerCount > 0 && list.isAtTop) {
        newerCount = 0;
        drawSummary();
    }
});

function toNewest() {
    newerCount = 0;
    list.scrollToTop();
    list.focus();
    drawSummary();
}

byId("newer").addEventListener("click", toNewest);
byId("retry").addEventListener("click", () => state.retryNow());
byId("help").addEventListener("click", () => showHelp(settings));
byId("clear").addEventListener("click", async () => {
    const text = "All recorded notifications are removed. Devices, feedback and faults are kept.";
    if (!(await confirmed("Clear the notifications?", text, "Clear"))) return;
    await perform(async () => {
        await api.clearNotifications();
        go((parameters) => parameters.delete("notification"));
        await state.reload();
    });
});
byId("reset").addEventListener("click", async () => {
    const text = "Devices, notifications, feedback, faults and counts return to their initial state.";
    if (!(await confirmed("Reset the simulator?", text, "Reset"))) return;
    await perform(async () => {
        await api.reset();
        go((parameters) => parameters.delete("notification"));
    });
});
byId("theme").value = settings.theme;
byId("theme").addEventListener("change", () => {
    settings.theme = byId("theme").value;
});

const keys = {
    "/": () => {
        if (viewOf(currentParameters()) !== "notifications") showView("notifications");
        byId("filter-text").focus();
        byId("filter-text").select();
    },
    "?": () => showHelp(settings),
    j: () => list.move(1),
    k: () => list.move(-1),
    t: toNewest,
};
views.forEach((view, index) => {
    keys[String(index + 1)] = () => showView(view);
});

document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || document.querySelector("dialog[open]")) return;
    const target = event.target;
    if (event.key === "Escape") {
        escape(target);
        return;
    }
    const isTyping = target.matches("input, select, textarea");
    if (isTyping || !settings.hasSingleKeys || !(event.key in keys)) return;
    if (["j", "k", "t"].includes(event.key) && viewOf(currentParameters()) !== "notifications") return;
    event.preventDefault();
    keys[event.key]();
});

function escape(target) {
    if (viewOf(currentParameters()) !== "notifications") return;
    if (byId("detail").contains(target) && !isNarrow.matches) list.focus();
    else if (byId("filters").contains(target)) list.focus();
    else if (!byId("detail").hidden) closeDetail();
}

addEventListener("unhandledrejection", (event) => showMessage(String(event.reason?.message ?? event.reason)));
setInterval(() => {
    if (!state.connection.isConnected) drawConnectionState();
}, 1000);

followAddress();
drawConnectionState();
state.run();
