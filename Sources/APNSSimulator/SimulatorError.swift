// SPDX-License-Identifier: Apache-2.0

/// Why a simulator does not start, or does not give what it was asked for.
///
/// There may be more in later versions.
@nonexhaustive
public enum SimulatorError: Error, Hashable, Sendable {
    /// A fault of the configuration can happen nowhere: its index there, and why.
    case fault(index: Int, reason: String)
    /// The TLS configuration has no certificate and key, which a server needs.
    case identityMissing
    /// There are as many device tokens as there may be, those of removed apps and devices included.
    case tooManyDeviceTokens(countMax: Int)
    /// A device would have more apps than this, which is the limit.
    case tooManyApps(countMax: Int)
    /// There are as many faults as there may be.
    case tooManyFaults(countMax: Int)
    /// No further notification for a device token came in time; so many came for it before, so many for all tokens, and
    /// so many were refused.
    case notReceived(within: Duration, count: Int, overallCount: Int, rejectedCount: Int)
    /// So many notifications left the simulator before a ``NotificationSequence`` asked for them.
    case notificationsMissed(count: UInt64)
    /// The simulator has ended.
    case ended
}

extension SimulatorError: CustomStringConvertible {
    /// A sentence for people, without device tokens and payloads.
    public var description: String {
        switch self {
        case .fault(let index, let reason): "fault \(index): \(reason)"
        case .identityMissing: "the TLS configuration of a simulator needs an identity"
        case .tooManyDeviceTokens(let countMax):
            "there are \(countMax) device tokens, which is the limit, those of removed apps and devices included; "
                + "reset the simulator, or start it anew"
        case .tooManyApps(let countMax): "a device has at most \(countMax) apps; use another device"
        case .tooManyFaults(let countMax): "there are \(countMax) faults, which is the limit; remove some of them"
        case .notReceived(let duration, let count, let overallCount, let rejectedCount):
            "no further notification for the device token within \(duration); so far the simulator took "
                + "\(overallCount), \(count) of them for this token, and refused \(rejectedCount)"
        case .notificationsMissed(let count): "\(count) notifications left the simulator before they were asked for"
        case .ended: "the simulator has ended"
        }
    }
}
