// SPDX-License-Identifier: Apache-2.0

import APNSTransport
import APNSWire
import NIOCore
import OpenSSLTLS

/// Why reading the list of dead tokens did not complete, or did not begin.
///
/// Entries read before the error were delivered or are in the spool, except after ``lost(byteCount:underlying:)``.
///
/// Later versions may add cases.
@nonexhaustive
public enum FeedbackError: Error {
    /// The service cannot be reached, or the connection failed.
    case unavailable(Endpoint, underlying: any Error)
    /// TLS or the certificate does not permit it, and another attempt would not help.
    case notPermitted(Endpoint, underlying: any Error)
    /// The service closed the connection soon after the handshake; it probably rejects the certificate.
    case refused(Endpoint)
    /// The spool cannot be used.
    case spool(SpoolError)
    /// The closure threw this error for a page; the page stays in the spool and is delivered again.
    case notDelivered(underlying: any Error)
    /// A newer release wrote a segment in the spool.
    case newerSpool(path: String, version: Int)
    /// Another drain on this machine uses the same service and certificate; its process ID if known.
    case held(Endpoint, holder: Int32?)
    /// Another host of the fleet has the lease of the list; its name if known.
    case heldElsewhere(Endpoint, host: String?)
    /// This number of bytes was read and could neither be spooled nor delivered.
    case lost(byteCount: Int, underlying: any Error)
    /// The certificate contains no topic, and none was given.
    case topicMissing
    /// The certificate is for other topics than the given one: its list belongs to another app.
    case topicForeign(String, certificate: [String])
    /// The topic is too long, or contains invalid characters.
    case topicUnusable(String)
    /// The drain was stopped before it connected.
    case stopped

    /// Converts an error of a lower layer.
    init(_ error: any Error, _ endpoint: Endpoint) {
        switch error {
        case let error as FeedbackError: self = error
        case let error as SpoolError: self = .spool(error)
        case let error as TLSError where error.isPermanent: self = .notPermitted(endpoint, underlying: error)
        case let error as ConnectionFailure where error.isPermanent: self = .notPermitted(endpoint, underlying: error)
        default: self = .unavailable(endpoint, underlying: error)
        }
    }

    /// The server speaks another protocol.
    init(_ found: ForeignProtocol, _ endpoint: Endpoint) {
        let failure = ConnectionFailure(
            .wrongProtocol,
            "\(RemoteRole.feedbackService.name(endpoint)) \(found.predicate)",
            advice: "check the port, for the feedback service usually 2196"
        )
        self = .notPermitted(endpoint, underlying: failure)
    }
}

extension FeedbackError: CustomStringConvertible {
    /// What happened, and what to do.
    public var description: String {
        switch self {
        case .unavailable(let endpoint, let error): Self.text(error, endpoint)
        case .notPermitted(let endpoint, let error): Self.text(error, endpoint)
        case .refused(let endpoint):
            "feedback service \(endpoint) closed the connection right after the handshake without close_notify; it "
                + "probably refuses this certificate: check that it is the right one and has not expired"
        case .spool(let error): "\(error)"
        case .notDelivered(let error): "\(error)"
        case .newerSpool(let path, let version):
            "\(path) has version \(version), made by a newer release; run that release, which empties the spool"
        case .held(let endpoint, let holder):
            "\(holder.map { "process \($0)" } ?? "another process") is reading \(endpoint) with this certificate; run "
                + "again when it has ended, because two readers would share the list between them"
        case .heldElsewhere(let endpoint, let host):
            "\(host ?? "another host") is reading \(endpoint) with this certificate, or was stopped while it did; run "
                + "again later, because two readers would share the list between them"
        case .lost(let byteCount, let error):
            "\(byteCount) bytes that were read are lost, because they could not be written to the spool: \(error)"
        case .topicMissing: "the certificate names no topic; give the app's topic"
        case .topicForeign(let topic, let topics):
            "the certificate is for \(topics.joined(separator: ", ")), not for \(topic)"
        case .topicUnusable(let detail): detail
        case .stopped: "stopped before the service was asked"
        }
    }

    /// Describes why a connection ended, or could not be opened.
    private static func text(_ error: any Error, _ endpoint: Endpoint) -> String {
        let remote = RemoteRole.feedbackService.name(endpoint)
        switch error {
        case let error as TLSError: return error.text(TLSErrorNames(remote: remote))
        case let failure as ConnectionFailure: return "\(failure)"
        case let error as IOError: return "the connection to \(remote) failed: \(IOError.reason(error))"
        case ChannelError.eof: return "\(remote) closed the connection"
        default: return "the connection to \(remote) failed: \(error)"
        }
    }
}

extension FeedbackError: Hashable {
    /// Whether both are equal; underlying errors are compared by type and description.
    public static func == (left: FeedbackError, right: FeedbackError) -> Bool {
        switch (left, right) {
        case (.unavailable(let left, let one), .unavailable(let right, let other)),
            (.notPermitted(let left, let one), .notPermitted(let right, let other)):
            left == right && Self.isSame(one, other)
        case (.notDelivered(let one), .notDelivered(let other)): Self.isSame(one, other)
        case (.lost(let left, let one), .lost(let right, let other)): left == right && Self.isSame(one, other)
        case (.refused(let left), .refused(let right)): left == right
        case (.spool(let left), .spool(let right)): left == right
        case (.newerSpool(let left, let one), .newerSpool(let right, let other)): left == right && one == other
        case (.held(let left, let one), .held(let right, let other)): left == right && one == other
        case (.heldElsewhere(let left, let one), .heldElsewhere(let right, let other)): left == right && one == other
        case (.topicForeign(let left, let one), .topicForeign(let right, let other)): left == right && one == other
        case (.topicUnusable(let left), .topicUnusable(let right)): left == right
        case (.topicMissing, .topicMissing), (.stopped, .stopped): true
        default: false
        }
    }

    /// Hashes the description.
    public func hash(into hasher: inout Hasher) { hasher.combine(self.description) }

    private static func isSame(_ one: any Error, _ other: any Error) -> Bool {
        type(of: one) == type(of: other) && "\(one)" == "\(other)"
    }
}
