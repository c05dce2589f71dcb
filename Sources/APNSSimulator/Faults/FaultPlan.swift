// SPDX-License-Identifier: Apache-2.0

/// All that goes wrong at a simulator, decided beforehand.
public struct FaultPlan: Hashable, Sendable, Codable {
    /// What goes wrong when; where several are due at one message, the first of them happens.
    public var faults: [Fault]

    /// How providers are told of ends that are their own fault, such as unknown tokens and probes.
    public var report: FaultReport

    /// Makes a plan.
    ///
    /// - Parameters:
    ///   - faults: what goes wrong when; by default nothing.
    ///   - report: how providers are told of ends that are their own fault; by default as the protocol asks for.
    public init(_ faults: [Fault] = [], report: FaultReport = FaultReport()) {
        self.faults = faults
        self.report = report
    }
}
