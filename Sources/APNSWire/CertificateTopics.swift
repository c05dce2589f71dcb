// SPDX-License-Identifier: Apache-2.0

/// The topics in a push certificate's extension 1.2.840.113635.100.6.3.6, each with its kind.
///
/// The content is `SEQUENCE { (UTF8String topic, SEQUENCE { UTF8String kind })+ }` in DER. Some certificate tools add
/// another `OCTET STRING` around it; the parser skips one.
public struct CertificateTopics: Hashable, Sendable {
    /// One topic.
    public struct Topic: Hashable, Sendable {
        /// The topic, such as `com.example.app.voip`.
        public var name: String
        /// What it is for: `app`, `voip`, `complication`.
        public var kind: String

        /// Creates a topic.
        ///
        /// - Parameters:
        ///   - name: the topic.
        ///   - kind: what it is for.
        public init(name: String, kind: String) {
            self.name = name
            self.kind = kind
        }

        /// Creates a topic whose kind follows from its suffix, as in Apple's certificates: `.voip`, `.complication`,
        /// otherwise `app`.
        package init(name: String) {
            let pushType = TopicFamily(of: name)?.pushType
            self.init(name: name, kind: pushType == .voip || pushType == .complication ? "\(pushType ?? "app")" : "app")
        }
    }

    /// The dotted number of the extension.
    public static let extensionIdentifier = "1.2.840.113635.100.6.3.6"

    /// The topics in the certificate's order.
    public var topics: [Topic]

    /// Creates a list of topics.
    package init(_ topics: [Topic]) { self.topics = topics }

    /// The content of the extension, without a wrapper.
    package var bytes: [UInt8] {
        let pairs = self.topics.flatMap { topic in
            Self.element(0x0C, Array(topic.name.utf8))
                + Self.element(0x30, Self.element(0x0C, Array(topic.kind.utf8)))
        }
        return Self.element(0x30, pairs)
    }

    private static func element(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        let count = content.count
        precondition(count <= 0xFFFF, "The topics of a certificate have at most 65,535 bytes.")
        let length: [UInt8] =
            count < 0x80
            ? [UInt8(count)]
            : count <= 0xFF ? [0x81, UInt8(count)] : [0x82, UInt8(count >> 8), UInt8(count & 0xFF)]
        return [tag] + length + content
    }

    /// Reads the content of the extension.
    ///
    /// - Parameter bytes: the content of the extension's `extnValue`.
    /// - Throws: ``WireError/certificateTopics`` if the bytes are not a valid list of topics.
    public init(parsing bytes: some Collection<UInt8>) throws(WireError) {
        var rest = Array(bytes)[...]
        if rest.first == 0x04 { rest = try CertificateTopics.removeElement(0x04, from: &rest) }
        var pairs = try CertificateTopics.removeElement(0x30, from: &rest)
        guard rest.isEmpty else { throw .certificateTopics }
        self.topics = []
        while !pairs.isEmpty {
            let name = try CertificateTopics.removeElement(0x0C, from: &pairs)
            var kinds = try CertificateTopics.removeElement(0x30, from: &pairs)
            let kind = try CertificateTopics.removeElement(0x0C, from: &kinds)
            guard kinds.isEmpty, let name = String(validating: name, as: UTF8.self),
                let kind = String(validating: kind, as: UTF8.self)
            else { throw .certificateTopics }
            self.topics.append(Topic(name: name, kind: kind))
        }
        guard !self.topics.isEmpty else { throw .certificateTopics }
    }

    /// Removes one element with this tag from the front, and returns its content.
    private static func removeElement(_ tag: UInt8, from bytes: inout ArraySlice<UInt8>) throws(WireError)
        -> ArraySlice<UInt8>
    {
        guard bytes.popFirst() == tag, let first = bytes.popFirst() else { throw .certificateTopics }
        var count = Int(first)
        if first >= 0x80 {
            let width = Int(first & 0x7F)
            guard (1...2).contains(width), bytes.count >= width else { throw .certificateTopics }
            count = bytes.prefix(width).reduce(0) { $0 << 8 | Int($1) }
            bytes = bytes.dropFirst(width)
        }
        guard count <= bytes.count else { throw .certificateTopics }
        defer { bytes = bytes.dropFirst(count) }
        return bytes.prefix(count)
    }
}
