// SPDX-License-Identifier: Apache-2.0

package import APNSWire

/// What a line has for its request over HTTP/2, which the binary protocol does not have.
package struct RequestFields: Hashable, Sendable {
    package var topic: String?
    package var pushType: PushType?
    package var collapseID: String?
    package var apnsID: PushIdentifier?

    package init() {}

    /// Reads one of a record from its text; the first one of a record replaces those of the last record.
    ///
    /// - Throws: why it is invalid, or cannot be sent.
    @inline(never)
    mutating func set(
        _ column: BatchColumn,
        _ text: String,
        _ rules: RequestFieldRules,
        of record: inout BatchRecord
    ) throws(BatchProblem.Kind) {
        if !record.hasFields { self = RequestFields() }
        try self.set(column, text, rules)
        // The topic that all notifications have is nothing to send.
        record.hasFields = self != RequestFields()
    }

    private mutating func set(
        _ column: BatchColumn,
        _ text: String,
        _ rules: RequestFieldRules
    ) throws(BatchProblem.Kind) {
        switch column {
        case .topic:
            guard TopicFamily.isTopic(text) else { throw .invalidField(column) }
            self.topic = try rules.topic(text)
        case .pushType:
            let type = PushType(rawValue: text)
            guard PushType.documented.contains(type) else { throw .invalidField(column) }
            self.pushType = type
        case .collapseID:
            let isText = text.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7F }
            guard (1...WireLimits.collapseIDByteCountMax).contains(text.utf8.count), isText else {
                throw .invalidField(column)
            }
            self.collapseID = text
        default:
            guard let identifier = PushIdentifier(text) else { throw .invalidField(column) }
            self.apnsID = identifier
        }
        guard column != .topic, let transport = rules.transportWithout else { return }
        throw .fieldNotSent(column, transport)
    }
}

/// Which fields of requests the lines of an input may have.
package enum RequestFieldRules: Hashable, Sendable {
    /// What does not carry them.
    package enum Transport: Hashable, Sendable {
        case binary
        case queue
    }

    /// All; the topic is one of these, or any if the list is empty.
    case http2(topics: [String])
    /// Only the topic that all notifications have; any if it is not known.
    case without(Transport, topic: String?)

    /// What does not carry them; `nil` if they are sent.
    fileprivate var transportWithout: Transport? {
        guard case .without(let transport, _) = self else { return nil }
        return transport
    }

    /// The topic to send; `nil` for that of all notifications.
    fileprivate func topic(_ topic: String) throws(BatchProblem.Kind) -> String? {
        switch self {
        case .http2(let topics):
            guard topics.isEmpty || topics.contains(topic) else { throw .topicNotAllowed(topics) }
            return topic
        case .without(let transport, let fixed):
            guard fixed ?? topic == topic else { throw .fieldNotSent(.topic, transport) }
            return nil
        }
    }
}
