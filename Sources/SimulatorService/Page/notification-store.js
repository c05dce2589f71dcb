// SPDX-License-Identifier: Apache-2.0

import { Filter } from "./filter.js";

/** The maximum number of newest notifications in the page; the simulator stores more. */
export const HELD_COUNT_MAX = 10_000;
/** The maximum number of older notifications in the page, which are loaded on demand. */
export const OLDER_COUNT_MAX = 10_000;

/**
 * The notifications in the page, and those that match the filter.
 *
 * `newest` has the last notifications without gaps, in order of arrival. `older` has earlier ones that were loaded for
 * the current filter.
 */
export class NotificationStore {
    #newest = [];
    #older = [];
    #byNumber = new Map();
    #matching = [];
    #matchingOlder = [];
    #isStale = false;
    #filter = new Filter();
    /** Whether the simulator may have older notifications that match. */
    hasOlder = false;

    get filter() {
        return this.#filter;
    }

    set filter(filter) {
        this.#filter = filter;
        for (const notification of this.#older) this.#byNumber.delete(notification.number);
        if (this.#older.length > 0) this.hasOlder = true;
        this.#older = [];
        this.#isStale = true;
    }

    get heldCount() {
        return this.#newest.length + this.#older.length;
    }

    /** The number of notifications that match the filter. */
    get matchingCount() {
        this.#refresh();
        return this.#matching.length + this.#matchingOlder.length;
    }

    /** The lowest loaded number. */
    get lowestNumber() {
        return this.#older[0]?.number ?? this.#newest[0]?.number;
    }

    get canTakeOlder() {
        return this.hasOlder && this.#older.length < OLDER_COUNT_MAX;
    }

    /** Returns a matching notification, counted from the newest. */
    at(index) {
        this.#refresh();
        const newer = this.#matching;
        if (index < newer.length) return newer[newer.length - 1 - index];
        return this.#matchingOlder[this.#matchingOlder.length - 1 - (index - newer.length)];
    }

    /** The position of a notification among the matching ones, counted from the newest; -1 for none. */
    indexOf(number) {
        this.#refresh();
        const place = search(this.#matching, number);
        if (place >= 0) return this.#matching.length - 1 - place;
        const olderPlace = search(this.#matchingOlder, number);
        return olderPlace < 0 ? -1 : this.#matching.length + this.#matchingOlder.length - 1 - olderPlace;
    }

    get(number) {
        return this.#byNumber.get(number);
    }

    clear() {
        this.#newest = [];
        this.#older = [];
        this.#byNumber.clear();
        this.#matching = [];
        this.#matchingOlder = [];
        this.hasOlder = false;
    }

    /**
     * Adds new notifications, oldest first.
     *
     * @returns {{added: number, matched: number}} how many were new, and how many of those match
     */
    add(notifications) {
        this.#refresh();
        let added = 0;
        let matched = 0;
        for (const notification of notifications) {
            if (this.#byNumber.has(notification.number)) {
                this.update(notification.number, notification);
                continue;
            }
            const row = slim(notification);
            this.#byNumber.set(row.number, row);
            added += 1;
            const last = this.#newest[this.#newest.length - 1];
            if (last && row.number < last.number) {
                this.#newest.splice(insertionIndex(this.#newest, row.number), 0, row);
                this.#isStale = true;
            } else {
                this.#newest.push(row);
                if (this.#filter.matches(row)) {
                    this.#matching.push(row);
                    matched += 1;
                }
            }
        }
        this.#trim();
        return { added, matched };
    }

    /** Adds older notifications that were loaded for the current filter, oldest first. */
    addOlder(notifications) {
        const rows = notifications.filter(({ number }) => !this.#byNumber.has(number)).map(slim);
        for (const row of rows) this.#byNumber.set(row.number, row);
        this.#older = [...rows, ...this.#older];
        this.#isStale = true;
    }

    /** Updates fields of a notification. */
    update(number, fields) {
        const row = this.#byNumber.get(number);
        if (!row) return;
        Object.assign(row, slim(fields));
        row.version = (row.version ?? 0) + 1;
        this.#isStale = true;
    }

    #trim() {
        const surplus = this.#newest.length - HELD_COUNT_MAX;
        if (surplus <= 0) return;
        const dropped = this.#newest.splice(0, surplus);
        this.hasOlder = true;
        const kept = this.#older.length === 0 ? [] : dropped.filter((row) => this.#filter.matches(row));
        for (const row of dropped) this.#byNumber.delete(row.number);
        // The matching ones close the gap between the newest and the older ones.
        for (const row of kept) this.#byNumber.set(row.number, row);
        const all = [...this.#older, ...kept];
        this.#older = all.slice(Math.max(0, all.length - OLDER_COUNT_MAX));
        for (const row of all.slice(0, all.length - this.#older.length)) this.#byNumber.delete(row.number);
        if (kept.length > 0) {
            this.#isStale = true;
            return;
        }
        const lowest = this.#newest[0].number;
        const gone = this.#matching.findIndex(({ number }) => number >= lowest);
        this.#matching.splice(0, gone < 0 ? this.#matching.length : gone);
    }

    #refresh() {
        if (!this.#isStale) return;
        this.#isStale = false;
        this.#matching = this.#newest.filter((row) => this.#filter.matches(row));
        this.#matchingOlder = this.#older.filter((row) => this.#filter.matches(row));
    }
}

/** The fields of a row: the payload only as text, and without the frame, which the details load. */
function slim(notification) {
    const { payload: _payload, frame: _frame, ...row } = notification;
    return row;
}

/** The first index whose number is at least `number`. */
function insertionIndex(rows, number) {
    let low = 0;
    let high = rows.length;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (rows[middle].number < number) low = middle + 1;
        else high = middle;
    }
    return low;
}

function search(rows, number) {
    const place = insertionIndex(rows, number);
    return rows[place]?.number === number ? place : -1;
}
