// SPDX-License-Identifier: Apache-2.0

import APNSWire
import DequeModule
import NIOConcurrencyHelpers

/// Finds the faults that are due, and counts their occurrences.
final class FaultSchedule: Sendable {
    private struct Key: Hashable {
        var listener: SimulatorListener
        var stage: FaultStage
    }

    /// What triggers can require of a notification.
    private struct Notification {
        var number: UInt64
        /// The number over all connections.
        var overall: UInt64
        var token: DeviceToken
        var content: FaultContent
    }

    /// The position of a notification.
    private struct Place: Hashable {
        var listener: SimulatorListener
        var connection: UInt64
        var notification: UInt64

        /// Returns `nil` for a fault of a connection.
        init?(_ application: FaultApplication) {
            guard let number = application.notificationNumber else { return nil }
            self.listener = application.listener
            self.connection = application.connectionNumber
            self.notification = number
        }

        init(_ notification: ReceivedNotification) {
            self.listener = notification.listener
            self.connection = notification.connectionNumber
            self.notification = notification.notificationNumber
        }
    }

    private struct State {
        var faults: [ScheduledFault] = []
        /// The enabled faults of each stage at each listener: their indices in `faults`, in order.
        var enabled: [Key: [Int]] = [:]
        var lastIdentifier = 0
        /// The newest connection at each listener.
        var lastConnections: [SimulatorListener: UInt64] = [:]
        var applications: Deque<FaultApplication> = []
        var lastApplication: UInt64 = 0
        /// Occurrences whose notification has no number in the record yet.
        var unrecorded: [Place: UInt64] = [:]

        mutating func append(_ planned: PlannedFault, messageCount: UInt64) {
            self.lastIdentifier += 1
            var fault = ScheduledFault(
                id: self.lastIdentifier,
                fault: planned.fault,
                isEnabled: planned.isEnabled
            )
            fault.firstNotification = messageCount
            fault.firstConnections = self.lastConnections
            self.faults.append(fault)
        }

        /// Records an occurrence.
        mutating func append(_ application: FaultApplication) {
            if let place = Place(application) { self.unrecorded[place] = application.number }
            self.applications.append(application)
            guard self.applications.count > FaultSchedule.applicationCountMax else { return }
            let oldest = self.applications.removeFirst()
            if let place = Place(oldest), self.unrecorded[place] == oldest.number { self.unrecorded[place] = nil }
        }

        /// Sets the record number of an occurrence's notification.
        mutating func record(_ notification: ReceivedNotification) -> FaultApplication? {
            guard !self.unrecorded.isEmpty, let number = self.unrecorded.removeValue(forKey: Place(notification)),
                let oldest = self.applications.first?.number, number >= oldest
            else { return nil }
            self.applications[Int(number - oldest)].recordNumber = notification.number
            return self.applications[Int(number - oldest)]
        }

        /// Groups the faults by stage and listener, and finds those that never occur.
        mutating func arrange() {
            self.enabled = [:]
            /// The enabled faults that may preclude later ones.
            var unlimited: [(fault: ScheduledFault, listeners: Set<SimulatorListener>)] = []
            for (index, each) in self.faults.enumerated() {
                let listeners = each.fault.listeners
                self.faults[index].warning = each.fault.impossibility(at: listeners)
                guard each.isEnabled else { continue }
                for listener in listeners {
                    self.enabled[Key(listener: listener, stage: each.fault.effect.stage), default: []].append(index)
                }
                let earlier = unlimited.first {
                    $0.listeners.isSuperset(of: listeners) && $0.fault.fault.precludes(each.fault)
                }
                if let earlier, self.faults[index].warning == nil {
                    self.faults[index].warning = "it never occurs: fault \(earlier.fault.id) always comes first"
                }
                if each.fault.occurrenceCountMax == nil { unlimited.append((each, Set(listeners))) }
            }
        }

        /// Whether a fault is due at a notification or, without one, at its connection; a notification that meets its
        /// conditions is counted.
        mutating func isDue(
            _ index: Int,
            at listener: SimulatorListener,
            connection: UInt64,
            _ notification: Notification?
        ) -> Bool {
            let each = self.faults[index]
            switch each.fault.trigger {
            case .always: return true
            case .notification(let number): return number == notification?.number
            case .notificationOverall(let number): return number &+ each.firstNotification == notification?.overall
            case .connection(let number): return number &+ (each.firstConnections[listener] ?? 0) == connection
            case .token(let prefix): return notification?.token.hexadecimal.hasPrefix(prefix.lowercased()) ?? false
            case .random(let probability, let seed):
                return FaultSchedule.draw(seed, connection, notification?.number ?? 0) < probability
            case .matching(let conditions):
                guard let notification, conditions.match(notification.token, notification.content) else { return false }
                self.faults[index].matchCount += 1
                return conditions.count ?? self.faults[index].matchCount == self.faults[index].matchCount
            }
        }
    }

    /// The maximum number of recorded occurrences.
    static let applicationCountMax = 1000

    private let state: NIOLockedValueBox<State>
    private let initialFaults: [PlannedFault]
    private let now: @Sendable () -> Timestamp
    private let revision: Revision
    private let onChange: (@Sendable (SimulatorChange) -> Void)?

    /// - Throws: ``SimulatorError/fault(index:reason:)`` for the first invalid fault.
    init(
        _ faults: [PlannedFault],
        now: @escaping @Sendable () -> Timestamp = { .unset },
        revision: Revision = Revision(),
        onChange: (@Sendable (SimulatorChange) -> Void)? = nil
    ) throws(SimulatorError) {
        self.initialFaults = faults
        self.now = now
        self.revision = revision
        self.onChange = onChange
        self.state = NIOLockedValueBox(State())
        try Self.check(faults)
        self.state.withLockedValue { state in
            for fault in faults { state.append(fault, messageCount: 0) }
            state.arrange()
        }
    }

    private static func check(_ faults: [PlannedFault]) throws(SimulatorError) {
        guard faults.count <= Fault.countMax else { throw .tooManyFaults(countMax: Fault.countMax) }
        for (index, planned) in faults.enumerated() {
            if let reason = planned.fault.problem { throw .fault(index: index, reason: reason) }
        }
    }

    // MARK: Planning

    /// All faults, in the order in which they are checked.
    var faults: [ScheduledFault] { self.state.withLockedValue(\.faults) }

    /// The last occurrences, the oldest first.
    var applications: [FaultApplication] { Array(self.state.withLockedValue(\.applications)) }

    /// Adds a fault after the others.
    ///
    /// Returns the fault with its identifier.
    ///
    /// - Throws: ``SimulatorError`` if the fault is invalid, or if there are too many.
    func add(_ planned: PlannedFault, messageCount: UInt64 = 0) throws(SimulatorError) -> ScheduledFault {
        try Self.check([planned])
        let (isAdded, faults) = self.change { state in
            guard state.faults.count < Fault.countMax else { return false }
            state.append(planned, messageCount: messageCount)
            return true
        }
        guard isAdded, let added = faults.last else { throw .tooManyFaults(countMax: Fault.countMax) }
        return added
    }

    /// Replaces all faults; the parameters are those of ``add(_:messageCount:)``.
    func replace(_ faults: [PlannedFault], messageCount: UInt64 = 0) throws(SimulatorError) -> [ScheduledFault] {
        try Self.check(faults)
        return self.change { state in
            state.faults = []
            for each in faults { state.append(each, messageCount: messageCount) }
        }.faults
    }

    func setEnabled(_ isEnabled: Bool, _ identifier: Int) -> ScheduledFault? {
        let (index, faults) = self.change { state in
            let index = state.faults.firstIndex { $0.id == identifier }
            if let index { state.faults[index].isEnabled = isEnabled }
            return index
        }
        return index.map { faults[$0] }
    }

    func remove(_ identifier: Int) -> Bool {
        self.change { state in
            let index = state.faults.firstIndex { $0.id == identifier }
            if let index { state.faults.remove(at: index) }
            return index != nil
        }.value
    }

    /// Changes the faults, and reports those that were removed, added or changed.
    private func change<Value>(_ body: (inout State) -> Value) -> (value: Value, faults: [ScheduledFault]) {
        let (value, before, after) = self.state.withLockedValue { state in
            let before = state.faults
            let value = body(&state)
            state.arrange()
            self.revision.advance()
            return (value, before, state.faults)
        }
        let known = Dictionary(uniqueKeysWithValues: before.map { ($0.id, $0) })
        let left = Set(after.map(\.id))
        for identifier in before.map(\.id) where !left.contains(identifier) {
            self.onChange?(.faultRemoved(identifier: identifier))
        }
        for fault in after where fault != known[fault.id] { self.onChange?(.fault(fault)) }
        return (value, after)
    }

    /// Restores the initial faults, and removes the recorded occurrences.
    func reset() {
        // They were validated at the start.
        _ = try? self.replace(self.initialFaults)
        self.state.withLockedValue { state in
            state.applications = []
            state.unrecorded = [:]
        }
    }

    // MARK: Occurrences

    /// Whether a stage of a listener has faults.
    func hasFaults(_ stage: FaultStage, at listener: SimulatorListener) -> Bool {
        self.state.withLockedValue { $0.enabled[Key(listener: listener, stage: stage)] != nil }
    }

    /// Returns the fault of a connection, and counts its occurrence.
    func fault(_ stage: FaultStage, at listener: SimulatorListener, connection: UInt64) -> Fault? {
        self.first(stage, at: listener, connection: connection, nil)
    }

    /// Returns the fault of a notification, and counts its occurrence.
    func fault(
        at listener: SimulatorListener,
        token: borrowing DeviceToken,
        connection: UInt64,
        number: UInt64,
        overall: UInt64,
        content: FaultContent = FaultContent()
    ) -> Fault? {
        let notification = Notification(number: number, overall: overall, token: copy token, content: content)
        return self.first(.notification, at: listener, connection: connection, notification)
    }

    /// Returns the first due fault that is not used up, and counts and records its occurrence.
    private func first(
        _ stage: FaultStage,
        at listener: SimulatorListener,
        connection: UInt64,
        _ notification: Notification?
    ) -> Fault? {
        let found = self.state.withLockedValue { state -> (Fault, FaultApplication)? in
            if stage == .accept {
                state.lastConnections[listener] = max(connection, state.lastConnections[listener] ?? 0)
            }
            guard !state.enabled.isEmpty, let enabled = state.enabled[Key(listener: listener, stage: stage)] else {
                return nil
            }
            // All are asked, since those with conditions count.
            let due = enabled.filter { state.isDue($0, at: listener, connection: connection, notification) }
            for index in due {
                let fault = state.faults[index].fault
                guard state.faults[index].occurrenceCount < fault.occurrenceCountMax ?? .max else { continue }
                state.faults[index].occurrenceCount += 1
                state.lastApplication += 1
                let application = FaultApplication(
                    number: state.lastApplication,
                    fault: state.faults[index].id,
                    effect: fault.effect,
                    timestamp: self.now(),
                    listener: listener,
                    connectionNumber: connection,
                    notificationNumber: notification?.number
                )
                state.append(application)
                return (fault, application)
            }
            return nil
        }
        guard let (fault, application) = found else { return nil }
        // If the notification is recorded immediately, the occurrence is reported then, with its number.
        if notification == nil || !fault.isRecordedAtOnce(at: listener) { self.onChange?(.faultApplied(application)) }
        return fault
    }

    /// Records the number of a notification, and reports the occurrence of its fault, possibly for the second time.
    func recorded(_ notification: ReceivedNotification) {
        let application = self.state.withLockedValue { $0.record(notification) }
        if let application { self.onChange?(.faultApplied(application)) }
    }

    /// A deterministic pseudo-random number from 0 to less than 1, independent of timing and threads.
    private static func draw(_ seed: UInt64, _ connection: UInt64, _ notification: UInt64) -> Double {
        let mixed = Self.mix(Self.mix(Self.mix(seed) ^ connection) ^ notification)
        return Double(mixed >> 11) * 0x1p-53
    }

    /// The finalizer of SplitMix64.
    private static func mix(_ value: UInt64) -> UInt64 {
        var mixed = value &+ 0x9E37_79B9_7F4A_7C15
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
