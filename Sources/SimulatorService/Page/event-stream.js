// SPDX-License-Identifier: Apache-2.0

import { address } from "./api.js";

const RETRY_MILLISECONDS_MIN = 500;
const RETRY_MILLISECONDS_MAX = 15_000;
/** The server sends something more often than this; a connection that is silent for longer is considered dead. */
const SILENCE_MILLISECONDS_MAX = 60_000;

/**
 * Server-sent events over `fetch`, since `EventSource` neither reports its retries nor detects dead connections.
 *
 * Resumes after the last delivered event.
 */
export class EventStream {
    #path;
    #handlers;
    #lastEventID = "";
    #failureCount = 0;
    #wake = null;

    /**
     * @param {string} path
     * @param {{onOpen: function(boolean): void, onEvent: function(string, string): void,
     *     onState: function({isConnected: boolean, retryAt: ?number}): void}} handlers `onOpen` receives whether the
     *     stream resumes
     */
    constructor(path, handlers) {
        this.#path = path;
        this.#handlers = handlers;
    }

    /** Reads events until the page is left. */
    async run() {
        for (;;) {
            try {
                await this.#read();
            } catch {
                // The stream is opened again after any error.
            }
            this.#failureCount += 1;
            const most = Math.min(RETRY_MILLISECONDS_MAX, RETRY_MILLISECONDS_MIN * 2 ** (this.#failureCount - 1));
            const pause = most * (0.5 + Math.random() / 2);
            this.#handlers.onState({ isConnected: false, retryAt: Date.now() + pause });
            await new Promise((resolve) => {
                const timer = setTimeout(resolve, pause);
                this.#wake = () => {
                    clearTimeout(timer);
                    resolve();
                };
            });
            this.#wake = null;
            this.#handlers.onState({ isConnected: false, retryAt: null });
        }
    }

    /** Ends the pause before the next attempt. */
    retryNow() {
        this.#wake?.();
    }

    async #read() {
        const abort = new AbortController();
        let silence = setTimeout(() => abort.abort(), SILENCE_MILLISECONDS_MAX);
        try {
            const headers = { Accept: "text/event-stream" };
            const isResumed = this.#lastEventID !== "";
            if (isResumed) headers["Last-Event-ID"] = this.#lastEventID;
            const response = await fetch(address(this.#path), { headers, signal: abort.signal, cache: "no-store" });
            if (!response.ok) throw new Error(`HTTP status ${response.status}`);
            this.#failureCount = 0;
            this.#handlers.onState({ isConnected: true, retryAt: null });
            this.#handlers.onOpen(isResumed);
            const parser = new EventParser((type, data, id) => {
                this.#handlers.onEvent(type, data);
                if (id !== null) this.#lastEventID = id;
            });
            const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
            for (;;) {
                const { done, value } = await reader.read();
                if (done) return;
                clearTimeout(silence);
                silence = setTimeout(() => abort.abort(), SILENCE_MILLISECONDS_MAX);
                parser.feed(value);
            }
        } finally {
            clearTimeout(silence);
            abort.abort();
        }
    }
}

/** Parses the text of an event stream incrementally. */
export class EventParser {
    #onEvent;
    #rest = "";
    #type = "";
    #data = [];
    #id = null;

    constructor(onEvent) {
        this.#onEvent = onEvent;
    }

    feed(text) {
        // A CR at the end may be half of a CR LF.
        const all = this.#rest + text;
        const end = all.endsWith("\r") ? all.length - 1 : all.length;
        const lines = all.slice(0, end).split(/\r\n|\n|\r/);
        this.#rest = lines.pop() + all.slice(end);
        for (const line of lines) this.#line(line);
    }

    #line(line) {
        if (line === "") {
            if (this.#data.length > 0) this.#onEvent(this.#type || "message", this.#data.join("\n"), this.#id);
            this.#type = "";
            this.#data = [];
            return;
        }
        const colon = line.indexOf(":");
        if (colon === 0) return;
        const name = colon < 0 ? line : line.slice(0, colon);
        let value = colon < 0 ? "" : line.slice(colon + 1);
        if (value.startsWith(" ")) value = value.slice(1);
        if (name === "event") this.#type = value;
        if (name === "data") this.#data.push(value);
        if (name === "id" && !value.includes("\0")) this.#id = value;
    }
}
