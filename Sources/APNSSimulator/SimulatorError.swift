// SPDX-License-Identifier: Apache-2.0

/// Why a simulator does not start, or does not give what it was asked for.
@nonexhaustive
public enum SimulatorError: Error, Hashable, Sendable {
    /// A fault of the configuration can happen nowhere: its index there, and why.
    case fault(index: Int, reason: String)
}

extension SimulatorError: CustomStringConvertible {
    /// A sentence for people, without device tokens and payloads.
    public var description: String {
        switch self {
        case .fault(let index, let reason): "fault \(index): \(reason)"
        }
    }
}
