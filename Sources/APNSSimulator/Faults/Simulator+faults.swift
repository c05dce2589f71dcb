// SPDX-License-Identifier: Apache-2.0

extension Simulator {
    /// The faults that are planned now, in the order in which they are looked at.
    public var faults: [ScheduledFault] { self.schedule.faults }

    /// The last times that a fault happened, the newest last; 1000 of them are kept.
    public var faultApplications: [FaultApplication] { self.schedule.applications }

    /// Plans one more fault, behind those that are there.
    ///
    /// What happens to connections, such as ``Fault/Effect/slowReading(_:)``, happens to those that open from now on;
    /// what happens at notifications happens on open connections as well.
    ///
    /// - Parameters:
    ///   - fault: what goes wrong, and when.
    ///   - isEnabled: whether it happens at once; by default it does.
    /// - Returns: the fault with its identifier.
    /// - Throws: ``SimulatorError/fault(index:reason:)`` for one that can happen nowhere; its index is 0. Or
    ///   ``SimulatorError/tooManyFaults(countMax:)``.
    @discardableResult
    public func add(_ fault: Fault, isEnabled: Bool = true) throws(SimulatorError) -> ScheduledFault {
        try self.schedule.add(PlannedFault(fault, isEnabled: isEnabled))
    }

    /// Plans these faults in place of all that are there.
    ///
    /// - Parameter faults: what goes wrong, and when.
    /// - Returns: the faults with their identifiers.
    /// - Throws: ``SimulatorError/fault(index:reason:)`` for the first one that can happen nowhere; then nothing is
    ///   changed.
    @discardableResult
    public func replaceFaults(_ faults: [Fault]) throws(SimulatorError) -> [ScheduledFault] {
        try self.replaceFaults(faults.map { PlannedFault($0) })
    }

    /// Plans these faults in place of all that are there, some of them switched off.
    package func replaceFaults(_ faults: [PlannedFault]) throws(SimulatorError) -> [ScheduledFault] {
        try self.schedule.replace(faults)
    }

    /// Switches a fault on or off.
    ///
    /// - Parameters:
    ///   - isEnabled: whether it happens.
    ///   - identifier: the fault.
    /// - Returns: the fault as it is now; `nil` where there is none.
    @discardableResult
    public func setEnabled(_ isEnabled: Bool, fault identifier: Int) -> ScheduledFault? {
        self.schedule.setEnabled(isEnabled, identifier)
    }

    /// Takes a fault out of the plan.
    ///
    /// - Parameter identifier: the fault.
    /// - Returns: whether it was there.
    @discardableResult
    public func removeFault(_ identifier: Int) -> Bool { self.schedule.remove(identifier) }
}
