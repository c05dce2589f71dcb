// SPDX-License-Identifier: Apache-2.0

/// The known keys and the kinds of their values, as the protocol reference lists them.
enum PayloadKeyTable {
    static let kinds: [String: [String]] = {
        var kinds = ["aps": ["object"]]
        let aps = [
            "alert": "string object", "badge": "number", "sound": "string object", "content-available": "number",
            "category": "string", "thread-id": "string", "mutable-content": "number", "url-args": "array",
            "account-id": "string", "target-content-id": "string", "interruption-level": "string",
            "relevance-score": "number", "filter-criteria": "string", "timestamp": "number", "event": "string",
            "content-state": "object", "stale-date": "number", "dismissal-date": "number",
            "attributes-type": "string", "attributes": "object", "input-push-token": "number",
            "input-push-channel": "string", "content-changed": "boolean number", "summary-arg": "string",
            "summary-arg-count": "number",
        ]
        let alert = [
            "body": "string", "title": "string", "subtitle": "string", "launch-image": "string",
            "loc-key": "string", "loc-args": "array", "title-loc-key": "string", "title-loc-args": "array",
            "subtitle-loc-key": "string", "subtitle-loc-args": "array", "action-loc-key": "string null",
            "action": "string", "summary-arg": "string", "summary-arg-count": "number",
        ]
        let sound = ["critical": "number", "name": "string", "volume": "number"]
        for (prefix, keys) in [("aps.", aps), ("aps.alert.", alert), ("aps.sound.", sound)] {
            for (key, value) in keys { kinds[prefix + key] = value.split(separator: " ").map(String.init) }
        }
        return kinds
    }()

    /// One value of each kind; the array contains only strings.
    static let samples = [
        "object": "{}", "array": #"["x","y"]"#, "string": #""x""#, "number": "1", "boolean": "true", "null": "null",
    ]

    /// A payload with one value at a path.
    static func payload(_ path: String, _ value: String) -> String {
        path.split(separator: ".").reversed().reduce(value) { "{\"\($1)\":\($0)}" }
    }
}
