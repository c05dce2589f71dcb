// SPDX-License-Identifier: Apache-2.0

import APNSWire

extension PushType {
    /// Returns the error of a notification of this type.
    func problem(topic: String, priority: UInt8?, expiration: UInt32?) -> PushRefusal? {
        let name = "push type \(self.rawValue)"
        if let priority = priority.flatMap({ PushPriority(rawValue: $0) }), !self.permits(priority) {
            let permitted = PushPriority.allCases.filter(self.permits).map { "\($0.rawValue)" }
            return PushRefusal(.badPriority, "\(name) requires priority \(permitted.joined(separator: " or "))")
        }
        if self.expiresImmediately, (expiration ?? 0) != 0 {
            return PushRefusal(.badExpirationDate, "\(name) requires expiration 0")
        }
        guard let required = TopicFamily(requiredBy: self), !required.contains(topic) else { return nil }
        return PushRefusal(.badTopic, "\(name) requires a topic that \(required.condition)")
    }
}
