// SPDX-License-Identifier: Apache-2.0

import APNSTransport
package import APNSWire
package import OpenSSLTLS

extension TokenScope {
    /// The name of this scope in file names: letters, digits, dots and hyphens are kept, other bytes become `%XX`.
    var fileStem: String {
        let topic = self.topic.utf8.map { byte -> String in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "-"):
                return String(UnicodeScalar(byte))
            default:
                let digits = String(byte, radix: 16, uppercase: true)
                return "%" + (digits.count == 1 ? "0" : "") + digits
            }
        }
        return topic.joined() + "_" + self.environment.rawValue
    }

    /// Determines the app of a certificate's list.
    ///
    /// The service selects the list by the certificate: with another topic, the list would be emptied and its tokens
    /// assigned to the wrong app.
    ///
    /// - Throws: ``FeedbackError/topicMissing``, ``FeedbackError/topicForeign(_:certificate:)``,
    ///   ``FeedbackError/topicUnusable(_:)``.
    package init(
        of certificate: TLSCertificate,
        topic: String?,
        environment: PushEnvironment?
    ) throws(FeedbackError) {
        let facts = ProviderIdentity(certificate)
        guard let topic = topic ?? facts.topic else { throw .topicMissing }
        guard facts.topics.isEmpty || facts.topics.contains(topic) else {
            throw .topicForeign(topic, certificate: facts.topics)
        }
        let isSandboxOnly = facts.isForSandbox && !facts.isForProduction
        self.init(topic: topic, environment: environment ?? (isSandboxOnly ? .sandbox : .production))
        try self.check()
    }

    /// Checks whether the spool and a typical store can store tokens of this scope.
    ///
    /// - Throws: ``FeedbackError/topicUnusable(_:)``.
    func check() throws(FeedbackError) {
        let byteCount = self.topic.utf8.count
        guard (1...WireLimits.topicByteCountMax).contains(byteCount) else {
            throw .topicUnusable("invalid topic of \(byteCount) bytes, expected 1 to \(WireLimits.topicByteCountMax)")
        }
        guard !self.topic.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F }) else {
            throw .topicUnusable("invalid topic: it contains a control character, such as a line feed")
        }
    }
}
