// SPDX-License-Identifier: Apache-2.0

/// Another protocol than the expected one, recognized by the first bytes that a server sends.
///
/// The usual cause is a wrong port.
package enum ForeignProtocol: Sendable {
    case http
    case http2
    case httpRequest
    case ssh
    case mail
    case feedback

    /// The number of first bytes that are needed.
    package static let byteCountMax = 16

    /// Recognizes a protocol; `nil` if it is unknown.
    package init?(_ bytes: some Collection<UInt8>) {
        let head = Array(bytes.prefix(Self.byteCountMax))
        func begins(_ texts: String...) -> Bool { texts.contains { head.starts(with: $0.utf8) } }
        if begins("HTTP/") {
            self = .http
        } else if begins("GET ", "POST ", "PUT ", "HEAD ", "OPTIONS ", "CONNECT ", "DELETE ", "PRI * HTTP/2") {
            self = .httpRequest
        } else if begins("SSH-") {
            self = .ssh
        } else if begins("220 ", "220-", "+OK", "* OK") {
            self = .mail
        } else if head.count >= 9, head[0] == 0, head[3] == 4, head[5...8].allSatisfy({ $0 == 0 }) {
            // An HTTP/2 server starts with a SETTINGS frame on stream 0 (RFC 9113, 3.4 and 6.5).
            self = .http2
        } else if head.count == Self.byteCountMax, (0x30...0x90).contains(head[0]), head[4] == 0,
            (1...100).contains(head[5])
        {
            // A feedback tuple: a time between 1995 and 2046, and the length of a device token. It is longer than an
            // error response, so a damaged one of those is not mistaken for it.
            self = .feedback
        } else {
            return nil
        }
    }

    /// The predicate of a sentence about the remote side, as in "gateway localhost:22 is an SSH server".
    package var predicate: String {
        switch self {
        case .http: "speaks plain HTTP"
        case .http2: "speaks HTTP/2"
        case .httpRequest: "sent a plain HTTP request"
        case .ssh: "is an SSH server"
        case .mail: "is a mail or FTP server"
        case .feedback: "sends feedback tuples"
        }
    }
}
