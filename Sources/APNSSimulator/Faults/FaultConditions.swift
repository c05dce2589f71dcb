// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOCore

/// What a fault requires of a notification; a missing condition is always met.
///
/// ```swift
/// Fault(at: .matching(FaultConditions(topic: "com.example.app", text: "Hello", count: 3)), .closeAfter)
/// ```
public struct FaultConditions: Hashable, Sendable {
    /// The hexadecimal digits with which the device token starts, in either letter case.
    public var tokenPrefix: String?

    /// The topic of the certificate or of the request.
    public var topic: String?

    /// A text that the payload contains as it was sent, in the same letter case.
    public var text: String?

    /// A header of the request; never met at the binary gateway.
    public var header: Header?

    /// Which of the notifications that meet the other conditions, from 1; `nil` for each.
    ///
    /// They are counted at all listeners of the fault together, from its creation or from the last reset, while it is
    /// enabled.
    public var count: UInt64?

    /// A header.
    public struct Header: Hashable, Sendable {
        /// The name, in either letter case.
        public var name: String

        /// The value; `nil` for any.
        public var value: String?

        /// Creates a header.
        ///
        /// - Parameters:
        ///   - name: the name.
        ///   - value: the value; by default any.
        public init(_ name: String, _ value: String? = nil) {
            self.name = name
            self.value = value
        }
    }

    /// Creates conditions.
    ///
    /// - Parameters:
    ///   - tokenPrefix: the first digits of the device token.
    ///   - topic: the topic.
    ///   - text: a text in the payload.
    ///   - header: a header of the request.
    ///   - count: which of the notifications that meet the others; by default each.
    public init(
        tokenPrefix: String? = nil,
        topic: String? = nil,
        text: String? = nil,
        header: Header? = nil,
        count: UInt64? = nil
    ) {
        self.tokenPrefix = tokenPrefix
        self.topic = topic
        self.text = text
        self.header = header
        self.count = count
    }

    /// Whether a notification meets all conditions except the count.
    func match(_ token: DeviceToken, _ content: FaultContent) -> Bool {
        if let topic, topic != content.topic { return false }
        if let header {
            guard let value = content.header(header.name.lowercased()), header.value ?? value == value else {
                return false
            }
        }
        if let tokenPrefix, !token.hexadecimal.hasPrefix(tokenPrefix.lowercased()) { return false }
        return self.text.map { content.contains(Array($0.utf8)) } ?? true
    }
}

/// What conditions can require of a notification besides its token.
struct FaultContent {
    var topic: String?
    var payload = ByteBuffer()
    /// Returns the value of a header with a name in lower case; `nil` if there is none.
    var header: (String) -> String? = { _ in nil }

    func contains(_ text: [UInt8]) -> Bool {
        let bytes = self.payload.readableBytesView
        guard let first = text.first else { return true }
        var rest = bytes[...]
        while rest.count >= text.count, let start = rest.firstIndex(of: first) {
            if bytes[start...].starts(with: text) { return true }
            rest = bytes[(start + 1)...]
        }
        return false
    }
}
