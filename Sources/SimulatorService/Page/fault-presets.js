// SPDX-License-Identifier: Apache-2.0

const binary = "Binary gateway";
const http2 = "HTTP/2";
const any = "Any listener";

function reject(status) {
    return { listener: "binary", effect: { name: "reject", status } };
}

function answer(httpStatus, reason) {
    return { listener: "http2", effect: { name: "reject", reason, httpStatus } };
}

/** Common faults. */
export const presets = [
    { group: binary, name: "Invalid token (status 8)", fault: reject(8) },
    { group: binary, name: "Processing error (status 1)", fault: reject(1) },
    { group: binary, name: "Shutdown (status 10)", fault: { listener: "binary", effect: { name: "shutDown" } } },
    {
        group: binary,
        name: "Invalid token, with identifier 0",
        fault: { ...reject(8), report: { identifier: 0 } },
    },
    {
        group: binary,
        name: "Invalid token, error response lost",
        fault: { ...reject(8), report: { isLost: true, ending: "reset" } },
    },
    {
        group: binary,
        name: "Invalid token, error response after 2 s byte by byte",
        fault: { ...reject(8), report: { delayMilliseconds: 2000, isSplit: true } },
    },
    { group: binary, name: "Close before accepting", fault: { listener: "binary", effect: { name: "closeBefore" } } },
    { group: binary, name: "Close after accepting", fault: { listener: "binary", effect: { name: "closeAfter" } } },
    { group: http2, name: "Unregistered (410)", fault: answer(410, "Unregistered") },
    { group: http2, name: "Bad device token (400)", fault: answer(400, "BadDeviceToken") },
    { group: http2, name: "Too many requests (429)", fault: answer(429, "TooManyRequests") },
    { group: http2, name: "Internal server error (500)", fault: answer(500, "InternalServerError") },
    { group: http2, name: "Service unavailable (503)", fault: answer(503, "ServiceUnavailable") },
    { group: http2, name: "Shutdown (503)", fault: answer(503, "Shutdown") },
    { group: http2, name: "GOAWAY", fault: { listener: "http2", effect: { name: "goAway", reason: "Shutdown" } } },
    { group: http2, name: "Stream refused", fault: { listener: "http2", effect: { name: "refuseStream" } } },
    { group: http2, name: "Stream reset", fault: { listener: "http2", effect: { name: "resetStream", code: 2 } } },
    {
        group: http2,
        name: "One stream at a time",
        fault: { listener: "http2", effect: { name: "limitStreams", count: 1 } },
    },
    { group: any, name: "Response after 2 s", fault: { effect: { name: "delay", milliseconds: 2000 } } },
    { group: any, name: "No response", fault: { effect: { name: "ignore" } } },
    { group: any, name: "TLS handshake refused", fault: { effect: { name: "refuseHandshake" } } },
    { group: any, name: "Connection refused", fault: { effect: { name: "refuseConnection" } } },
    {
        group: any,
        name: "Slow reading (1 KiB every 100 ms)",
        fault: { effect: { name: "slowReading", byteCount: 1024, milliseconds: 100 } },
    },
    {
        group: "Feedback",
        name: "List cut after 20 bytes",
        fault: { listener: "feedback", effect: { name: "cutList", byteCount: 20 } },
    },
];

/** The triggers; without `make`, always. */
export const triggers = [
    { name: "always" },
    {
        name: "at a notification of each connection",
        label: "Number of the notification",
        example: "1",
        make: (value) => ({ notification: Number(value) }),
    },
    {
        name: "at a notification of the simulator",
        label: "Number of the notification",
        example: "1",
        make: (value) => ({ notificationOverall: Number(value) }),
    },
    {
        name: "on a connection",
        label: "Number of the connection",
        example: "1",
        make: (value) => ({ connection: Number(value) }),
    },
    {
        name: "for tokens that start with",
        label: "First digits of the token",
        example: "00",
        make: (value) => ({ token: value.toLowerCase() }),
    },
    {
        name: "at random",
        label: "Probability, from 0 to 1",
        example: "0.1",
        make: (value) => ({ probability: Number(value), seed: 1 }),
    },
];

export function triggerText(at) {
    if (!at) return "always";
    if (at.notification !== undefined) return `notification ${at.notification} of each connection`;
    if (at.notificationOverall !== undefined) return `notification ${at.notificationOverall}`;
    if (at.connection !== undefined) return `connection ${at.connection}`;
    const { token, topic, text, header, count } = at;
    if (topic !== undefined || text !== undefined || header !== undefined || count !== undefined) {
        const parts = [
            token && `token ${token}…`,
            topic && `topic ${topic}`,
            text && `text “${text}”`,
            header && `header ${header.name}${header.value === undefined ? "" : `: ${header.value}`}`,
        ].filter(Boolean);
        return [count && `match ${count}`, ...parts].filter(Boolean).join(", ");
    }
    if (at.token !== undefined) return `tokens that start with ${at.token}`;
    if (at.probability !== undefined) return `at random, probability ${at.probability}`;
    return Object.keys(at).length === 0 ? "always" : JSON.stringify(at);
}

const texts = {
    delay: ({ milliseconds }) => `response after ${milliseconds} ms`,
    ignore: () => "no response",
    shutDown: () => "shutdown (status 10)",
    closeBefore: () => "close before accepting",
    closeAfter: () => "close after accepting",
    goAway: ({ reason }) => `GOAWAY ${reason}`,
    refuseStream: () => "stream refused",
    resetStream: ({ code }) => `stream reset with code ${code}`,
    limitStreams: ({ count }) => `at most ${count} streams`,
    refuseHandshake: () => "TLS handshake refused",
    refuseConnection: () => "connection refused",
    slowReading: ({ byteCount, milliseconds }) => `slow reading, ${byteCount} bytes every ${milliseconds} ms`,
    slowWriting: ({ byteCount, milliseconds }) => `slow writing, ${byteCount} bytes every ${milliseconds} ms`,
    errorResponse: () => "error responses of the gateway",
    cutList: ({ byteCount }) => `list cut after ${byteCount} bytes`,
    reject: ({ status, httpStatus, reason }) => {
        if (status !== undefined) return `reject with status ${status}`;
        return ["answer", httpStatus, reason].filter(Boolean).join(" ");
    },
};

/** Describes a fault. */
export function effectText({ effect, report }) {
    const text = texts[effect.name]?.(effect) ?? JSON.stringify(effect);
    const details = [];
    if (report?.identifier !== undefined) details.push(`identifier ${report.identifier}`);
    if (report?.isLost) details.push("error response lost");
    if (report?.isSplit) details.push("byte by byte");
    if (report?.delayMilliseconds) details.push(`after ${report.delayMilliseconds} ms`);
    if (report?.ending) details.push(`ending ${report.ending}`);
    return [text, ...details].join(", ");
}
