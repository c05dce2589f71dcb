// SPDX-License-Identifier: Apache-2.0

/** Requests to the control API, at the address of the page. */

const REQUEST_MILLISECONDS_MAX = 15_000;

/** An error response of the API, with its message. */
export class APIError extends Error {
    constructor(status, message) {
        super(message);
        this.status = status;
    }
}

/** The URL without a user name and password, with which browsers refuse to fetch. */
export function address(path) {
    return `${location.origin}${path}`;
}

async function request(method, path, body) {
    const options = { method, cache: "no-store", signal: AbortSignal.timeout(REQUEST_MILLISECONDS_MAX) };
    if (body !== undefined) {
        options.body = JSON.stringify(body);
        options.headers = { "Content-Type": "application/json" };
    }
    let response;
    try {
        response = await fetch(address(path), options);
    } catch (error) {
        const isLate = error.name === "TimeoutError";
        throw new APIError(0, isLate ? "The request timed out." : "Cannot reach the simulator.");
    }
    const text = await response.text();
    let answer = null;
    try {
        answer = text === "" ? null : JSON.parse(text);
    } catch {
        // A failed request may have a plain text body, which is shown unchanged.
    }
    if (!response.ok) throw new APIError(response.status, answer?.error ?? (text || `HTTP status ${response.status}`));
    return answer;
}

const segment = encodeURIComponent;

function query(parameters) {
    const pairs = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== "");
    return new URLSearchParams(pairs).toString();
}

export const api = {
    status: () => request("GET", "/status"),
    notifications: (parameters) => request("GET", `/notifications?${query(parameters)}`),
    notification: (number) => request("GET", `/notifications/${segment(number)}`),
    clearNotifications: () => request("DELETE", "/notifications"),
    devices: () => request("GET", "/devices"),
    addDevice: (device) => request("POST", "/devices", device),
    setOnline: (identifier, isOnline) => request("PATCH", `/devices/${segment(identifier)}`, { isOnline }),
    deleteDevice: (identifier) => request("DELETE", `/devices/${segment(identifier)}`),
    installApp: (identifier, topic) => request("PUT", `/devices/${segment(identifier)}/apps/${segment(topic)}`, {}),
    removeApp: (identifier, topic) => request("DELETE", `/devices/${segment(identifier)}/apps/${segment(topic)}`),
    faults: () => request("GET", "/faults"),
    addFault: (fault) => request("POST", "/faults", fault),
    setFaultEnabled: (id, isEnabled) => request("PATCH", `/faults/${segment(id)}`, { isEnabled }),
    deleteFault: (id) => request("DELETE", `/faults/${segment(id)}`),
    faultLog: () => request("GET", "/faults/log"),
    feedback: () => request("GET", "/feedback"),
    addFeedback: (token) => request("POST", "/feedback", { token }),
    clearFeedback: () => request("DELETE", "/feedback"),
    connections: () => request("GET", "/connections"),
    endConnection: (listener, number, ending) =>
        request("DELETE", `/connections/${segment(listener)}/${segment(number)}?${query({ ending })}`),
    revocations: () => request("GET", "/revocations"),
    revoke: (fingerprint) => request("POST", "/revocations", { fingerprint }),
    restore: (fingerprint) => request("DELETE", `/revocations/${segment(fingerprint)}`),
    reset: () => request("POST", "/reset"),
};
