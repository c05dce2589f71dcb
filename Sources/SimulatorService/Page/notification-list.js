// SPDX-License-Identifier: Apache-2.0

import { element } from "./dom.js";
import { notificationRow } from "./notification-row.js";

/** The number of rows drawn above and below the visible ones. */
const OVERSCAN_COUNT = 8;
/** The distance from the end, in rows, at which older notifications are loaded. */
const OLDER_DISTANCE = 50;

/**
 * The list of notifications, the newest first. Only the visible rows and the selected one, on which screen readers
 * focus, are in the document. Each row has its position and the total as attributes.
 */
export class NotificationList {
    #container;
    #spacer = element("div", { class: "list-spacer", role: "presentation" });
    #store;
    #onSelect;
    #onOpen;
    #onEnd;
    #rows = new Map();
    #rowHeight = 0;
    #selected = null;
    #isScheduled = false;
    /** Whether to scroll to the selected notification once it is loaded. */
    #mustReveal = false;

    /** @param {{onSelect: function(number), onOpen: function(number, boolean), onEnd: function()}} handlers */
    constructor(container, store, { onSelect, onOpen, onEnd }) {
        this.#container = container;
        this.#store = store;
        this.#onSelect = onSelect;
        this.#onOpen = onOpen;
        this.#onEnd = onEnd;
        container.append(this.#spacer);
        container.addEventListener("scroll", () => this.#schedule(), { passive: true });
        container.addEventListener("keydown", (event) => this.#keyDown(event));
        container.addEventListener("click", (event) => {
            const number = Number(event.target.closest("[data-number]")?.dataset.number);
            if (number) this.#onOpen(number, false);
        });
        new ResizeObserver(() => {
            this.#rowHeight = 0;
            this.#schedule();
        }).observe(container);
    }

    get selected() {
        return this.#selected;
    }

    get isAtTop() {
        return this.#container.scrollTop < this.#height;
    }

    focus() {
        this.#container.focus({ preventScroll: true });
    }

    scrollToTop() {
        this.#container.scrollTop = 0;
    }

    /** Selects a notification; null for none. */
    select(number, isRevealed = true) {
        if (this.#selected === number) return;
        this.#selected = number;
        this.#mustReveal = isRevealed && number !== null;
        this.#render(true);
    }

    /** Moves the selection down by a number of places, within the list. */
    move(places) {
        const count = this.#store.matchingCount;
        if (count === 0) return;
        const index = this.#selected === null ? -1 : this.#store.indexOf(this.#selected);
        const target = index < 0 ? 0 : Math.min(count - 1, Math.max(0, index + places));
        const number = this.#store.at(target).number;
        this.select(number);
        this.#onSelect(number);
    }

    /** Draws changes. New rows above the visible ones do not move them. */
    update(insertedCount = 0) {
        if (insertedCount > 0 && !this.isAtTop) {
            this.#spacer.style.height = `${this.#store.matchingCount * this.#height}px`;
            this.#container.scrollTop += insertedCount * this.#height;
        }
        this.#render(false);
    }

    get #height() {
        if (this.#rowHeight === 0) {
            const probe = element("div", { class: "row", "aria-hidden": "true" });
            this.#spacer.append(probe);
            this.#rowHeight = probe.offsetHeight || 1;
            probe.remove();
        }
        return this.#rowHeight;
    }

    get #pageCount() {
        return Math.max(1, Math.floor(this.#container.clientHeight / this.#height) - 1);
    }

    #schedule() {
        if (this.#isScheduled) return;
        this.#isScheduled = true;
        requestAnimationFrame(() => {
            this.#isScheduled = false;
            this.#render(false);
        });
    }

    #reveal(index) {
        const top = index * this.#height;
        const { scrollTop, clientHeight } = this.#container;
        if (top < scrollTop) this.#container.scrollTop = top;
        else if (top + this.#height > scrollTop + clientHeight) {
            this.#container.scrollTop = top + this.#height - clientHeight;
        }
    }

    #render(isSelectionChanged) {
        const container = this.#container;
        // A hidden view has no height.
        if (container.clientHeight === 0) return;
        const count = this.#store.matchingCount;
        const height = this.#height;
        const total = `${count * height}px`;
        if (this.#spacer.style.height !== total) this.#spacer.style.height = total;
        const selected = this.#selected === null ? -1 : this.#store.indexOf(this.#selected);
        if (this.#mustReveal && selected >= 0) {
            this.#mustReveal = false;
            this.#reveal(selected);
        }
        const top = container.scrollTop;
        const first = Math.max(0, Math.floor(top / height) - OVERSCAN_COUNT);
        const end = Math.min(count, Math.ceil((top + container.clientHeight) / height) + OVERSCAN_COUNT);
        const indices = [];
        if (selected >= 0 && selected < first) indices.push(selected);
        for (let index = first; index < end; index += 1) indices.push(index);
        if (selected >= end) indices.push(selected);
        this.#draw(indices, count, height);
        if (selected >= 0) container.setAttribute("aria-activedescendant", `notification-${this.#selected}`);
        else container.removeAttribute("aria-activedescendant");
        if (count - end < OLDER_DISTANCE && !isSelectionChanged) this.#onEnd();
    }

    #draw(indices, count, height) {
        const notifications = indices.map((index) => this.#store.at(index));
        const numbers = new Set(notifications.map(({ number }) => number));
        // First, so that remaining rows need not be moved, which would lay them out again.
        for (const [number, { node }] of this.#rows) {
            if (numbers.has(number)) continue;
            node.remove();
            this.#rows.delete(number);
        }
        let next = this.#spacer.firstElementChild;
        for (const [place, notification] of notifications.entries()) {
            const index = indices[place];
            const { number } = notification;
            const version = notification.version ?? 0;
            const isSelected = number === this.#selected;
            let row = this.#rows.get(number);
            if (!row || row.version !== version || row.isSelected !== isSelected) {
                const made = notificationRow(notification, index, count, isSelected);
                if (row) {
                    if (next === row.node) next = made;
                    row.node.replaceWith(made);
                }
                row = { node: made, version, isSelected, index, count };
                row.node.style.transform = `translateY(${index * height}px)`;
            } else if (row.index !== index || row.count !== count) {
                row.node.setAttribute("aria-posinset", index + 1);
                row.node.setAttribute("aria-setsize", count);
                row.node.style.transform = `translateY(${index * height}px)`;
                row.index = index;
                row.count = count;
            }
            this.#rows.set(number, row);
            // Screen readers follow the order in the document, which matches the order on the screen.
            if (next === row.node) next = next.nextElementSibling;
            else this.#spacer.insertBefore(row.node, next);
        }
    }

    #keyDown(event) {
        if (event.altKey || event.ctrlKey || event.metaKey) return;
        const moves = {
            ArrowDown: 1,
            ArrowUp: -1,
            PageDown: this.#pageCount,
            PageUp: -this.#pageCount,
            Home: -Infinity,
            End: Infinity,
        };
        if (event.key in moves) {
            event.preventDefault();
            this.move(moves[event.key]);
        } else if ((event.key === "Enter" || event.key === " ") && this.#selected !== null) {
            event.preventDefault();
            this.#onOpen(this.#selected, true);
        }
    }
}
