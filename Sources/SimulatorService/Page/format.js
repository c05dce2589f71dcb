// SPDX-License-Identifier: Apache-2.0

const clock = new Intl.DateTimeFormat("en-GB", {
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    fractionalSecondDigits: 3,
});
const day = new Intl.DateTimeFormat("en-CA", { year: "numeric", month: "2-digit", day: "2-digit" });

/** The local time of day, with the date unless it is today. */
export function shortTime(text) {
    if (!text) return "";
    const date = new Date(text);
    if (Number.isNaN(date.getTime())) return text;
    const time = clock.format(date);
    return day.format(date) === day.format(new Date()) ? time : `${day.format(date)} ${time}`;
}

/** A time of the control API, or a word such as "immediately". */
export function timeElement(text) {
    const date = new Date(text);
    if (Number.isNaN(date.getTime())) return document.createTextNode(text);
    const made = document.createElement("time");
    made.dateTime = text;
    made.title = text;
    made.textContent = shortTime(text);
    return made;
}

export function shortToken(token) {
    if (!token) return "no token";
    return token.length > 12 ? `${token.slice(0, 8)}…` : token;
}

export function count(number, singular, plural = `${singular}s`) {
    return `${number.toLocaleString("en-US")} ${number === 1 ? singular : plural}`;
}

const deliveries = {
    delivered: "delivered",
    stored: "stored",
    replaced: "replaced",
    expired: "expired",
    discarded: "discarded",
    appRemoved: "app removed",
};

const deliveryExplanations = {
    delivered: "Delivered to the device.",
    stored: "The device is offline; stored until it is online or the notification expires.",
    replaced: "The device was offline, and a later notification for the same app replaced this one.",
    expired: "It expired before the device was online again.",
    discarded: "The device is offline, and the notification's expiry does not allow storing it.",
    appRemoved: "The app was deleted from the device; feedback lists the token.",
};

/** The outcome of a notification: `tone` is good, wait, lost or bad. */
export function describeOutcome(notification) {
    if (notification.reason === "closed") {
        const explanation = "The bytes are not a command; the gateway closed the connection without an error response.";
        return { tone: "bad", text: "closed", explanation };
    }
    if (notification.outcome === "rejected") {
        const words = ["rejected", notification.status, reasonText(notification)].filter(Boolean);
        return { tone: "bad", text: words.join(" "), explanation: rejection(notification) };
    }
    const delivery = notification.delivery;
    const text = deliveries[delivery] ?? delivery ?? "accepted";
    const tone = delivery === "stored" ? "wait" : delivery === "delivered" || !delivery ? "good" : "lost";
    return { tone, text, explanation: `Accepted. ${deliveryExplanations[delivery] ?? ""}`.trim() };
}

/** The reason without the status before it: `2 (missing device token)` is `missing device token`. */
function reasonText({ reason }) {
    return reason?.replace(/^\d+ \((.*)\)$/, "$1") ?? "";
}

function rejection(notification) {
    const detail = notification.reasonDetail ? ` Because: ${notification.reasonDetail}.` : "";
    return rejectionSentence(notification) + detail;
}

function rejectionSentence(notification) {
    const reason = notification.reason ? ` (${reasonText(notification)})` : "";
    if (notification.listener === "http2") return `Rejected with HTTP status ${notification.status}${reason}.`;
    // Command 0 has no error response.
    return notification.command === 0
        ? `Rejected: status ${notification.status}${reason}, without an error response in command 0; the connection is closed.`
        : `Rejected with status ${notification.status}${reason}; the gateway closes the connection after it.`;
}

export function listenerName(listener) {
    return { binary: "binary", http2: "HTTP/2", feedback: "feedback" }[listener] ?? listener;
}

const controlNames = new Map([
    [0x00ad, "soft hyphen"],
    [0x061c, "Arabic letter mark"],
    [0x200b, "zero width space"],
    [0x200c, "zero width non-joiner"],
    [0x200d, "zero width joiner"],
    [0x200e, "left-to-right mark"],
    [0x200f, "right-to-left mark"],
    [0x2028, "line separator"],
    [0x2029, "paragraph separator"],
    [0x202a, "left-to-right embedding"],
    [0x202b, "right-to-left embedding"],
    [0x202c, "pop directional formatting"],
    [0x202d, "left-to-right override"],
    [0x202e, "right-to-left override"],
    [0x2060, "word joiner"],
    [0x2066, "left-to-right isolate"],
    [0x2067, "right-to-left isolate"],
    [0x2068, "first strong isolate"],
    [0x2069, "pop directional isolate"],
    [0xfeff, "zero width no-break space"],
    [0xfffd, "replacement character: not UTF-8"],
]);

/** Invisible characters, and those that change the order of others, except for the joiner in emoji. */
export const invisible = new RegExp(
    "[\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u200b\\u200c\\u200e\\u200f" +
        "\\u2028-\\u202e\\u2060-\\u2069\\ufeff\\ufffd]",
    "gu",
);

/** A code point such as `U+202E`, and its name. */
export function characterName(character) {
    const code = character.codePointAt(0);
    const digits = code.toString(16).toUpperCase().padStart(4, "0");
    return { code: `U+${digits}`, name: controlNames.get(code) ?? "control character" };
}
