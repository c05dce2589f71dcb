// SPDX-License-Identifier: Apache-2.0

import APNSPayload
package import APNSSimulator
import APNSWire

extension ReceivedNotification {
    /// The notification as the control API has it, in one line.
    package var json: String {
        var object = JSONObjectText()
        object.add("number", self.number)
        object.add("receivedAt", time: self.timestamp)
        object.add("listener", self.listener.rawValue)
        object.add("connection", self.connectionNumber)
        object.add("notification", self.notificationNumber)
        object.add("token", self.token?.hexadecimal)
        object.add("topic", self.topic)
        object.add("outcome", "accepted")
        object.add("delivery", self.isDead ? "appRemoved" : "delivered")
        self.addPayload(to: &object)
        object.add("identifier", self.identifier)
        object.add("expiry", self.expiry.wireValue.map { $0 == 0 ? "immediately" : Self.time($0) })
        object.add("priority", self.priority)
        object.add("pushType", self.pushType?.rawValue)
        object.add("collapseId", self.collapseIdentifier)
        object.add("apnsId", self.requestIdentifier?.description)
        return object.text
    }

    private static func time(_ seconds: UInt32) -> String { JSONObjectText.time(UInt64(seconds) * 1000) }

    private func addPayload(to object: inout JSONObjectText) {
        let syntax = PayloadRules(byteCountMax: .max, checksKnownKeys: false)
        let minified = try? Payload.minified(self.payload, rules: syntax)
        object.add("payload", json: minified.map { String(decoding: $0, as: UTF8.self) } ?? "null")
        object.add("payloadText", self.payloadText)
        object.add("payloadByteCount", self.payload.count)
        do throws(PayloadProblem) {
            try Payload.check(self.payload, rules: PayloadRules(byteCountMax: .max))
            object.add("payloadProblems", json: "[]")
        } catch {
            var problem = JSONObjectText()
            problem.add("line", error.line)
            problem.add("column", error.column)
            problem.add("text", error.description)
            object.add("payloadProblems", elements: [problem.text])
        }
        if let preview = NotificationPreview(self.payload) { object.add("preview", json: preview.json) }
    }
}

/// What the reader of a device sees and hears of a notification.
struct NotificationPreview {
    private var alert: AlertPreview?
    private var badge: String?
    private var sound: String?
    private var isSilent = false

    /// Looks into a payload; `nil` for one that is no JSON object.
    init?(_ bytes: [UInt8]) {
        let payload = Payload(bytes: bytes)
        guard let value = try? payload.value(), case .object = value else { return nil }
        let aps = value["aps"]
        self.alert = try? payload.alertPreview()
        if case .number(let number)? = aps?["badge"] { self.badge = number.text }
        self.sound = aps?["sound"]?.string ?? aps?["sound"]?["name"]?.string
        self.isSilent = self.alert == nil && self.badge == nil && self.sound == nil
    }

    var json: String {
        var object = JSONObjectText()
        object.add("title", self.alert?.title)
        object.add("subtitle", self.alert?.subtitle)
        object.add("body", self.alert?.body)
        object.add("badge", json: self.badge)
        object.add("sound", self.sound)
        object.add("isSilent", self.isSilent)
        if let keys = self.alert?.missingKeys, !keys.isEmpty {
            object.add("missingKeys", elements: keys.map(JSONWriter.quoted))
        }
        return object.text
    }
}
