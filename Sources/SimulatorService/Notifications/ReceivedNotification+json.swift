// SPDX-License-Identifier: Apache-2.0

package import APNSPayload
package import APNSSimulator
import APNSWire
import APNSJSON
import OpenSSLTLS

extension ReceivedNotification {
    /// The maximum number of reported problems of a payload.
    private static let problemCountMax = 20

    /// Returns the notification as JSON of the control API, on one line, without its bytes.
    package func json(_ strings: LocalizedStrings) -> String { self.object(strings).text }

    /// Returns the same with its bytes or headers.
    func jsonWithFrame(_ strings: LocalizedStrings) -> String {
        var object = self.object(strings)
        switch self.listener {
        case .http2:
            let headers = self.headers.map { header in
                JSONObject { object in
                    object.add("name", header.name)
                    object.add("value", header.value)
                }
            }
            if !headers.isEmpty { object.add("frame", JSONObject { $0.add("headers", elements: headers) }) }
        case .binary, .feedback:
            if !self.frame.isEmpty { object.add("frame", BinaryFrameText(self.frame).json) }
        }
        return object.text
    }

    private func object(_ strings: LocalizedStrings) -> JSONObject {
        var object = JSONObject()
        object.add("number", self.number)
        object.add("receivedAt", time: self.timestamp)
        object.add("listener", self.listener.rawValue)
        object.add("connection", self.connectionNumber)
        object.add("notification", self.notificationNumber)
        object.add("device", self.device)
        object.add("token", self.token?.hexadecimal)
        object.add("topic", self.topic)
        object.add("outcome", self.isAccepted ? "accepted" : "rejected")
        object.add("status", self.rejection?.statusCode)
        object.add("reason", self.isUnanswered ? "closed" : self.rejection.map(Self.reason))
        object.add("reasonDetail", self.reasonDetail)
        if let delivery = self.delivery { delivery.add(to: &object) }
        self.addPayload(to: &object, strings)
        object.add("command", self.listener == .binary ? self.frame.first : nil)
        object.add("identifier", self.identifier)
        object.add("expiry", self.expiry.wireValue.map { $0 == 0 ? "immediately" : Self.time($0) })
        object.add("priority", self.priority)
        object.add("pushType", self.pushType?.rawValue)
        object.add("collapseId", self.collapseID)
        object.add("apnsId", self.apnsID?.description)
        object.add("tokenSignature", self.tokenSignature?.rawValue)
        object.add("uniqueId", self.apnsUniqueID?.description)
        // Rounded to microseconds.
        object.add("durationMilliseconds", json: self.duration.map { "\(($0 / .microseconds(1)).rounded() / 1000)" })
        return object
    }

    private static func time(_ seconds: UInt32) -> String {
        JSONObject.time(Timestamp(secondsSince1970: Int64(seconds)))
    }

    private static func reason(_ rejection: Rejection) -> String {
        switch rejection {
        case .binary(let status): "\(status)"
        default: rejection.reason?.text ?? ""
        }
    }

    private func addPayload(to object: inout JSONObject, _ strings: LocalizedStrings) {
        let bytes = self.payload
        let syntax = PayloadRules(byteCountMax: .max, checksKnownKeys: false)
        let minified = try? Payload.minified(bytes, rules: syntax)
        object.add("payload", json: minified.map { String(decoding: $0, as: UTF8.self) } ?? "null")
        object.add("payloadText", String(decoding: bytes, as: UTF8.self))
        object.add("payloadByteCount", self.payloadByteCount)
        object.add("payloadProblems", elements: self.problems(bytes))
        object.add("preview", NotificationPreview(bytes, strings)?.json)
    }

    private func problems(_ bytes: [UInt8]) -> [JSONObject] {
        // Bytes that are not a message have no payload to check.
        if self.isUnanswered { return [] }
        // An incomplete payload would only be reported as truncated.
        guard bytes.count == self.payloadByteCount else {
            return [Self.incompleteness(bytes.count, of: self.payloadByteCount)]
        }
        return Payload(bytes: bytes)
            .problems(rules: PayloadRules(byteCountMax: .max), countMax: Self.problemCountMax)
            .map(\.json)
    }

    /// The problem of a too long payload, of which only the first bytes are stored.
    private static func incompleteness(_ byteCount: Int, of wholeByteCount: Int) -> JSONObject {
        JSONObject { object in
            object.add("line", 1)
            object.add("column", 1)
            object.add("text", "the payload has \(wholeByteCount) bytes; only the first \(byteCount) are stored")
        }
    }
}

extension PayloadProblem {
    fileprivate var json: JSONObject {
        JSONObject { object in
            object.add("path", self.kind.key?.description)
            object.add("line", self.line)
            object.add("column", self.column)
            object.add("text", self.kind.description)
        }
    }
}

extension ReceivedNotification.Delivery {
    /// Adds the delivery of the notification.
    func add(to object: inout JSONObject) {
        switch self {
        case .delivered(let time):
            object.add("delivery", "delivered")
            object.add("deliveredAt", time: time)
        case .stored: object.add("delivery", "stored")
        case .replaced: object.add("delivery", "replaced")
        case .expired: object.add("delivery", "expired")
        case .discarded: object.add("delivery", "discarded")
        case .appRemoved: object.add("delivery", "appRemoved")
        @unknown default: break
        }
    }
}

/// The preview of a notification on a device.
struct NotificationPreview {
    private var alert: AlertPreview?
    private var badge: String?
    private var sound: String?
    private var isSilent = false

    /// Parses a payload; `nil` if it is not a JSON object.
    init?(_ bytes: [UInt8], _ strings: LocalizedStrings) {
        let payload = Payload(bytes: bytes)
        guard let value = try? payload.value(), case .object = value else { return nil }
        let aps = value["aps"]
        self.alert = try? payload.alertPreview(strings)
        if case .number(let number)? = aps?["badge"] { self.badge = number.text }
        self.sound = aps?["sound"]?.string ?? aps?["sound"]?["name"]?.string
        self.isSilent = self.alert == nil && self.badge == nil && self.sound == nil
    }

    var json: JSONObject {
        var object = JSONObject()
        object.add("title", self.alert?.title)
        object.add("subtitle", self.alert?.subtitle)
        object.add("body", self.alert?.body)
        object.add("action", self.alert?.action)
        object.add("badge", json: self.badge)
        object.add("sound", self.sound)
        object.add("isSilent", self.isSilent)
        if let keys = self.alert?.missingKeys, !keys.isEmpty {
            object.add("missingKeys", texts: keys)
        }
        return object
    }
}
