// SPDX-License-Identifier: Apache-2.0

/// An error of a simulator.
///
/// Later versions may add cases.
@nonexhaustive
public enum SimulatorError: Error, Hashable, Sendable {
    /// A fault of the configuration is invalid: its index, and the reason.
    case fault(index: Int, reason: String)
    /// The TLS configuration has no certificate and key.
    case identityMissing
    /// The TLS configuration does not require certificates of providers.
    case clientCertificatesNotRequired
    /// The maximum number of device tokens is reached, including those of removed apps and devices.
    case tooManyDeviceTokens(countMax: Int)
    /// A device would have more apps than this maximum.
    case tooManyApps(countMax: Int)
    /// The maximum number of faults is reached.
    case tooManyFaults(countMax: Int)
    /// No further notification for a device token arrived in time; with the number of earlier ones for it, of those for
    /// all tokens, and of rejected ones.
    case notReceived(within: Duration, count: Int, overallCount: Int, rejectedCount: Int)
    /// Fewer notifications than expected arrived in time; with their number, the expected number, and the number of all
    /// rejected ones.
    case tooFewReceived(within: Duration, count: Int, expectedCount: Int, rejectedCount: Int)
    /// This many notifications left the simulator before a ``NotificationSequence`` requested them.
    case notificationsMissed(count: UInt64)
    /// The simulator has ended.
    case ended
}

extension SimulatorError: CustomStringConvertible {
    /// A message for people, without device tokens and payloads.
    public var description: String {
        switch self {
        case .fault(let index, let reason): "fault \(index): \(reason)"
        case .identityMissing: "the TLS configuration has no identity; a simulator requires a certificate and key"
        case .clientCertificatesNotRequired:
            "the TLS configuration does not require client certificates, as a simulator does; give it a trust"
        case .tooManyDeviceTokens(let countMax):
            "limit of \(countMax) device tokens reached, including those of removed apps and devices; "
                + "reset or restart the simulator"
        case .tooManyApps(let countMax): "limit of \(countMax) apps per device reached; use another device"
        case .tooManyFaults(let countMax): "limit of \(countMax) faults reached; remove some of them"
        case .notReceived(let duration, let count, let overallCount, let rejectedCount):
            "no further notification for the device token within \(duration); so far the simulator accepted "
                + "\(overallCount), \(count) of them for this token, and rejected \(rejectedCount)"
        case .tooFewReceived(let duration, let count, let expectedCount, let rejectedCount):
            "\(count) of \(expectedCount) notifications arrived within \(duration); so far the simulator rejected "
                + "\(rejectedCount)"
        case .notificationsMissed(let count): "\(count) notifications left the simulator before they were read"
        case .ended: "the simulator has ended"
        }
    }
}
