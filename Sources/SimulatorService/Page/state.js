// SPDX-License-Identifier: Apache-2.0

import { api } from "./api.js";
import { EventStream } from "./event-stream.js";
import { NotificationStore } from "./notification-store.js";

/** The number of notifications per request. */
const PAGE_COUNT = 1000;
/** The maximum number of fault occurrences and connections in the page. */
const LOG_COUNT_MAX = 500;
/** While the page is in the background there are no animation frames. */
const BACKGROUND_MILLISECONDS = 250;

/**
 * The state of the simulator: loaded once, then updated by events.
 *
 * Events are applied in batches, one per frame, and subscribers are called once per batch.
 */
export class SimulatorState {
    notifications = new NotificationStore();
    devices = new Map();
    faults = new Map();
    faultLog = [];
    feedback = [];
    connections = new Map();
    revocations = new Set();
    status = null;
    /** The number of notifications in the simulator's record; this page has loaded only some of them. */
    recordCount = 0;
    /** The number of the last notification that is in `recordCount`. */
    #countedNumber = 0;
    connection = { isConnected: false, retryAt: null };
    isLoaded = false;

    #subscribers = [];
    #changed = new Set();
    #matchedCount = 0;
    #events = [];
    #isScheduled = false;
    #isLoading = false;
    #mustReload = false;
    #olderRequest = null;
    #stream = new EventStream("/events", {
        onOpen: () => this.reload(),
        onEvent: (type, data) => this.#receive(type, data),
        onState: (connection) => {
            this.connection = connection;
            this.#change("connection");
        },
    });

    /** @param {function(Set<string>, number): void} subscriber receives the changed parts, and the number of new matching notifications */
    subscribe(subscriber) {
        this.#subscribers.push(subscriber);
    }

    run() {
        return this.#stream.run();
    }

    retryNow() {
        this.#stream.retryNow();
    }

    set filter(filter) {
        this.notifications.filter = filter;
        this.#olderRequest = null;
        this.#change("notifications");
    }

    /** Reloads everything: at the start, after an interruption, and after lost events. Events wait meanwhile. */
    async reload() {
        if (this.#isLoading) {
            this.#mustReload = true;
            return;
        }
        this.#isLoading = true;
        try {
            do {
                this.#mustReload = false;
                await this.#load();
            } while (this.#mustReload);
        } catch {
            // The stream reports the failure, and reloads everything once it is open.
        }
        this.#isLoading = false;
        this.#schedule();
    }

    async #load() {
        const [status, page] = await Promise.all([
            api.status(),
            api.notifications({ outcome: "any", order: "newest", limit: PAGE_COUNT }),
            this.#loadParts(),
        ]);
        this.status = status;
        this.#countedNumber = page.lastNumber;
        this.recordCount = status.heldCount;
        this.#merge(page);
        this.isLoaded = true;
        for (const name of ["status", "notifications", "devices", "faults", "feedback", "connections"]) {
            this.#change(name);
        }
    }

    /** Loads the small parts. One that cannot be loaded is left unchanged. */
    async #loadParts() {
        const load = async (request, take) => {
            try {
                take(await request);
            } catch (error) {
                if (error.status === 0) throw error;
            }
        };
        await Promise.all([
            load(api.devices(), ({ devices }) => {
                this.devices = new Map(devices.map((device) => [device.identifier, device]));
            }),
            load(api.faults(), ({ faults }) => {
                this.faults = new Map(faults.map((fault) => [fault.id, fault]));
            }),
            load(api.faultLog(), ({ applications }) => {
                this.faultLog = applications.slice(-LOG_COUNT_MAX);
            }),
            load(api.feedback(), ({ entries }) => {
                this.feedback = entries;
            }),
            load(api.connections(), ({ connections }) => {
                this.connections = new Map(connections.map((entry) => [connectionKey(entry), entry]));
            }),
            load(api.revocations(), ({ fingerprints }) => {
                this.revocations = new Set(fingerprints);
            }),
        ]);
    }

    /**
     * Adds the newest notifications. Earlier ones are kept if they are from the same run of the simulator and there is
     * no gap.
     */
    #merge({ notifications }) {
        const newest = notifications.toReversed();
        const store = this.notifications;
        const isAll = newest.length < PAGE_COUNT;
        const isJoined = !isAll && store.get(newest[0].number)?.receivedAt === newest[0].receivedAt;
        if (!isJoined) store.clear();
        store.add(newest);
        if (!isAll && !isJoined) store.hasOlder = true;
    }

    /** Loads older notifications that match the filter. */
    async loadOlder() {
        const store = this.notifications;
        if (this.#olderRequest || !store.canTakeOlder) return;
        const request = {};
        this.#olderRequest = request;
        try {
            const { parameters } = store.filter;
            const before = store.lowestNumber;
            const page = await api.notifications({ ...parameters, before, order: "newest", limit: PAGE_COUNT });
            if (this.#olderRequest !== request) return;
            store.addOlder(page.notifications.toReversed());
            store.hasOlder = page.notifications.length === PAGE_COUNT;
            this.#change("notifications");
        } finally {
            if (this.#olderRequest === request) this.#olderRequest = null;
        }
    }

    get isLoadingOlder() {
        return this.#olderRequest !== null;
    }

    // Events

    #receive(type, data) {
        this.#events.push([type, data]);
        this.#schedule();
    }

    #change(name) {
        this.#changed.add(name);
        this.#schedule();
    }

    #schedule() {
        if (this.#isScheduled) return;
        this.#isScheduled = true;
        const flush = () => {
            if (!this.#isScheduled) return;
            this.#isScheduled = false;
            this.#flush();
        };
        if (document.hidden) setTimeout(flush, BACKGROUND_MILLISECONDS);
        else requestAnimationFrame(flush);
        // A page that moves to the background meanwhile gets no frame either.
        if (!document.hidden) setTimeout(flush, BACKGROUND_MILLISECONDS);
    }

    #flush() {
        if (!this.#isLoading) {
            const events = this.#events;
            this.#events = [];
            this.#apply(events);
        }
        if (this.#changed.size === 0) return;
        const changed = this.#changed;
        const matchedCount = this.#matchedCount;
        this.#changed = new Set();
        this.#matchedCount = 0;
        for (const subscriber of this.#subscribers) subscriber(changed, matchedCount);
    }

    #apply(events) {
        let arrived = [];
        const add = () => {
            if (arrived.length === 0) return;
            this.#matchedCount += this.notifications.add(arrived).matched;
            this.#changed.add("notifications");
            for (const notification of arrived) if (notification.delivery === "stored") this.#noteStored(notification);
            arrived = [];
        };
        for (const [type, data] of events) {
            let value;
            try {
                value = JSON.parse(data);
            } catch {
                continue;
            }
            if (type === "notification") {
                arrived.push(value);
                if (value.number > this.#countedNumber) {
                    this.#countedNumber = value.number;
                    this.recordCount = Math.min(this.recordCount + 1, this.status?.heldCountMax ?? Infinity);
                }
            } else {
                // After earlier notifications, to keep the order of events.
                add();
                this.#applyOne(type, value);
            }
        }
        add();
    }

    #applyOne(type, value) {
        switch (type) {
            case "delivery":
                this.notifications.update(value.number, value);
                this.#changed.add("notifications");
                this.#noteStored(this.notifications.get(value.number));
                break;
            case "device":
                this.devices.set(value.identifier, value);
                this.#changed.add("devices");
                break;
            case "deviceRemoved":
                this.devices.delete(value.identifier);
                this.#changed.add("devices");
                break;
            case "fault":
                this.#applyFault(value);
                break;
            case "faultApplied":
                this.#applyFaultLog(value);
                break;
            case "connection":
                this.#applyConnection(value);
                break;
            case "revocations":
                this.revocations = new Set(value.fingerprints);
                this.#changed.add("connections");
                break;
            case "feedback":
                this.#applyFeedback(value);
                break;
            case "cleared":
                this.notifications.clear();
                this.recordCount = 0;
                this.#changed.add("notifications");
                break;
            case "reset":
                this.notifications.clear();
                this.recordCount = 0;
                this.#changed.add("notifications");
                this.reload();
                break;
            case "missed":
                this.reload();
                break;
        }
    }

    /** Updates the device of a stored notification, for which no device event is sent. */
    #noteStored(notification) {
        const app = this.devices.get(notification?.device)?.apps.find(({ token }) => token === notification.token);
        if (!app) return;
        if (notification.delivery === "stored") app.storedNotification = notification.number;
        else if (app.storedNotification === notification.number) delete app.storedNotification;
        this.#changed.add("devices");
    }

    #applyFault(fault) {
        if (fault.isRemoved) this.faults.delete(fault.id);
        else this.faults.set(fault.id, fault);
        this.#changed.add("faults");
    }

    #applyFaultLog(application) {
        // An occurrence whose notification is recorded later is sent again, with its number.
        const place = this.faultLog.findIndex(({ number }) => number === application.number);
        if (place >= 0) {
            this.faultLog = this.faultLog.with(place, application);
            this.#changed.add("faults");
            return;
        }
        this.faultLog = [...this.faultLog.slice(1 - LOG_COUNT_MAX), application];
        const fault = this.faults.get(application.fault);
        if (fault) this.faults.set(fault.id, { ...fault, occurrenceCount: fault.occurrenceCount + 1 });
        this.#changed.add("faults");
    }

    #applyConnection(connection) {
        this.connections.set(connectionKey(connection), connection);
        if (this.connections.size > LOG_COUNT_MAX) {
            for (const [key, { closedAt }] of this.connections) {
                if (this.connections.size <= LOG_COUNT_MAX) break;
                if (closedAt) this.connections.delete(key);
            }
        }
        this.#changed.add("connections");
    }

    #applyFeedback(value) {
        if (value.entries) {
            this.feedback = value.entries;
        } else {
            const others = this.feedback.filter(({ token, topic }) => token !== value.token || topic !== value.topic);
            this.feedback = value.isRemoved ? others : [...others, value];
        }
        this.#changed.add("feedback");
    }
}

export function connectionKey({ listener, number }) {
    return `${listener} ${number}`;
}
