// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSWire
import Logging
import NIOConcurrencyHelpers
import NIOCore

/// What a client checks in a payload before it sends it.
///
/// Later versions may add cases.
@nonexhaustive
public enum PayloadChecks: Hashable, Sendable {
    /// Only its length.
    case none
    /// That it is valid, as by `Payload.check(rules:)`: an invalid one is not sent.
    case errors
    /// The same, and probable mistakes, as by `Payload.warnings(for:topic:)`.
    ///
    /// A payload with a probable mistake is sent. The client logs each kind of mistake once, at warning level, without
    /// names of unknown keys. The check takes several times as long as that for errors.
    case warnings
}

/// Logs probable mistakes in payloads.
final class PayloadWarningLog: Sendable {
    private let logger: Logger
    /// The texts of the logged kinds, a limited number, since they contain only known keys.
    private let logged = NIOLockedValueBox<Set<String>>([])

    init(_ logger: Logger) { self.logger = logger }

    /// Checks a valid payload.
    func check(_ payload: ByteBuffer, pushType: PushType?, topic: String?) {
        let payload = Payload(bytes: Array(payload.readableBytesView))
        for warning in (try? payload.warnings(for: pushType, topic: topic)) ?? [] {
            let text = warning.textOfKnownKeys
            guard self.logged.withLockedValue({ $0.insert(text).inserted }) else { continue }
            // The logger of the caller's task, whose metadata says where the payload comes from.
            let logger = Logger.current.label.isEmpty ? self.logger : Logger.current
            logger.warning("probable mistake in a payload: \(text)")
        }
    }
}
