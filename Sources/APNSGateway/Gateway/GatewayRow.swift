// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire

/// A row of a ``GatewayStore``.
///
/// | row             | key                                      | value                                            |
/// |-----------------|------------------------------------------|--------------------------------------------------|
/// | dead token      | `dead/` environment `/` token `/` topic  | the seconds since 1970 at which it failed        |
/// | expected resend | `resend/` random number                  | end, response, index, lifetime, digest, digest of |
/// |                 |                                          | the content, and provider, with a space between   |
enum GatewayRow: Sendable {
    /// A token of a list.
    case dead(FeedbackTuple, TokenScope)
    /// A notification that was delivered although its provider is going to send it again.
    case resend(Resend)

    /// An expected resend of a provider.
    struct Resend: Sendable {
        var key: String
        var expected: ExpectedResend
        var provider: String
        /// Until when it is expected; `nil` before it is stored.
        var until: Timestamp?

        /// Creates a new row.
        init(_ expected: ExpectedResend, provider: String) {
            var random = SystemRandomNumberGenerator()
            self.key = "resend/\(Hexadecimal.text((0..<16).map { _ in UInt8.random(in: 0...255, using: &random) }))"
            self.expected = expected
            self.provider = provider
        }

        fileprivate init?(key: String, value: String) {
            let parts = value.split(separator: " ", maxSplits: 6, omittingEmptySubsequences: false)
            guard parts.count == 7, let until = Int64(parts[0]), let digest = ResendKey(hexadecimal: parts[4]) else {
                return nil
            }
            self.key = key
            self.until = Timestamp(millisecondsSince1970: until)
            self.expected = ExpectedResend(key: digest)
            if parts[1] != "-" {
                guard let response = Int64(parts[1]), let index = Int64(parts[2]) else { return nil }
                self.expected.place = ExpectedResend.Place(response: response, index: index)
            }
            if parts[3] != "-" {
                guard let lifetime = Int64(parts[3]), let content = ResendKey(hexadecimal: parts[5]) else { return nil }
                self.expected.lifetime = ExpectedResend.Lifetime(content: content, milliseconds: lifetime)
            }
            self.provider = String(parts[6])
        }
    }

    /// Why a row cannot be used.
    struct Invalid: Error, CustomStringConvertible {
        var name: Substring
        /// Without the key, which may contain a token.
        var description: String {
            "a row of the gateway's store whose key begins with \"\(self.name)\" is not one that a gateway wrote; "
                + "remove it, or restore the store"
        }
    }

    /// Parses a row.
    ///
    /// - Throws: ``Invalid``.
    init(key: String, value: String) throws(Invalid) {
        let parts = key.split(separator: "/", maxSplits: 3, omittingEmptySubsequences: false)
        if parts.first == "resend", let resend = Resend(key: key, value: value) {
            self = .resend(resend)
        } else if parts.first == "dead", parts.count == 4, let seconds = UInt32(value),
            let environment = PushEnvironment(rawValue: String(parts[1])), let token = try? DeviceToken(parts[2])
        {
            let list = TokenScope(topic: String(parts[3]), environment: environment)
            self = .dead(FeedbackTuple(token: token, failedAt: seconds), list)
        } else {
            throw Invalid(name: (parts.first ?? "").prefix(16))
        }
    }

    var key: String {
        switch self {
        case .dead(let tuple, let list): "dead/\(list.environment.rawValue)/\(tuple.token.hexadecimal)/\(list.topic)"
        case .resend(let resend): resend.key
        }
    }

    /// The value, for an expected resend with the time until which it is expected.
    func value(until: Timestamp) -> String {
        switch self {
        case .dead(let tuple, _): return "\(tuple.failedAtSeconds)"
        case .resend(let resend):
            let place = resend.expected.place.map { "\($0.response) \($0.index)" } ?? "- -"
            let lifetime = resend.expected.lifetime
            let (key, content) = (resend.expected.key, lifetime.map { Hexadecimal.text($0.content.bytes) } ?? "-")
            return "\(until.millisecondsSince1970) \(place) \(lifetime.map { "\($0.milliseconds)" } ?? "-") "
                + "\(Hexadecimal.text(key.bytes)) \(content) \(resend.provider)"
        }
    }
}

extension ResendKey {
    fileprivate init?(hexadecimal text: Substring) {
        guard text.utf8.count == 2 * Self.byteCount, let token = try? DeviceToken(text) else { return nil }
        self.init(bytes: token.bytes)
    }
}

extension Timestamp {
    /// The time after a duration.
    func advanced(by duration: Duration) -> Timestamp {
        let (seconds, attoseconds) = duration.components
        let milliseconds = seconds.multipliedReportingOverflow(by: 1000)
        guard !milliseconds.overflow else { return Timestamp(millisecondsSince1970: seconds < 0 ? .min : .max) }
        let sum = self.millisecondsSince1970.addingReportingOverflow(milliseconds.partialValue)
        guard !sum.overflow else { return Timestamp(millisecondsSince1970: seconds < 0 ? .min : .max) }
        return Timestamp(millisecondsSince1970: sum.partialValue &+ attoseconds / 1_000_000_000_000_000)
    }
}
