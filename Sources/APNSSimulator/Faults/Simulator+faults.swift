// SPDX-License-Identifier: Apache-2.0

extension Simulator {
    /// The current faults, in the order in which they are checked.
    public var faults: [ScheduledFault] { self.schedule.faults }

    /// The last 1000 occurrences of faults, the newest last.
    public var faultApplications: [FaultApplication] { self.schedule.applications }

    /// Adds a fault after the existing ones.
    ///
    /// Effects on connections, such as ``Fault/Effect/slowReading(_:)``, apply to new connections; effects on
    /// notifications also apply on open connections.
    ///
    /// - Parameters:
    ///   - fault: the fault.
    ///   - isEnabled: whether it is enabled; by default it is.
    /// - Returns: the fault with its identifier.
    /// - Throws: ``SimulatorError/fault(index:reason:)`` with the index 0 for an invalid fault, or
    ///   ``SimulatorError/tooManyFaults(countMax:)``.
    @discardableResult
    public func add(_ fault: Fault, isEnabled: Bool = true) throws(SimulatorError) -> ScheduledFault {
        let messageCount = UInt64(self.statistics.messageCount)
        return try self.schedule.add(PlannedFault(fault, isEnabled: isEnabled), messageCount: messageCount)
    }

    /// Replaces all faults.
    ///
    /// - Parameter faults: the new faults.
    /// - Returns: the faults with their identifiers.
    /// - Throws: ``SimulatorError/fault(index:reason:)`` for the first invalid fault; then nothing changes.
    @discardableResult
    public func replaceFaults(_ faults: [Fault]) throws(SimulatorError) -> [ScheduledFault] {
        try self.replaceFaults(faults.map { PlannedFault($0) })
    }

    /// Replaces all faults, some of which may be disabled.
    package func replaceFaults(_ faults: [PlannedFault]) throws(SimulatorError) -> [ScheduledFault] {
        try self.schedule.replace(faults, messageCount: UInt64(self.statistics.messageCount))
    }

    /// Enables or disables a fault.
    ///
    /// - Parameters:
    ///   - isEnabled: whether the fault is enabled.
    ///   - identifier: the fault's identifier.
    /// - Returns: the changed fault; `nil` if there is none.
    @discardableResult
    public func setEnabled(_ isEnabled: Bool, fault identifier: Int) -> ScheduledFault? {
        self.schedule.setEnabled(isEnabled, identifier)
    }

    /// Removes a fault.
    ///
    /// - Parameter identifier: the fault's identifier.
    /// - Returns: whether the fault existed.
    @discardableResult
    public func removeFault(_ identifier: Int) -> Bool { self.schedule.remove(identifier) }
}
