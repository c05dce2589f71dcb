// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOConcurrencyHelpers

/// Finds the faults that are due, and counts how often each happened.
final class FaultSchedule: Sendable {
    private struct Key: Hashable {
        var listener: SimulatorListener
        var stage: FaultStage
    }

    /// The faults of one stage at one listener, by their triggers.
    private struct Table {
        var always: [Int] = []
        var notification: [UInt64: [Int]] = [:]
        var notificationOverall: [UInt64: [Int]] = [:]
        var connection: [UInt64: [Int]] = [:]
        /// By lower-case digits.
        var token: [String: [Int]] = [:]
        var tokenDigitCounts: Set<Int> = []
        var random: [(index: Int, probability: Double, seed: UInt64)] = []

        mutating func add(_ index: Int, _ trigger: Fault.Trigger) {
            switch trigger {
            case .always: self.always.append(index)
            case .notification(let number): self.notification[number, default: []].append(index)
            case .notificationOverall(let number): self.notificationOverall[number, default: []].append(index)
            case .connection(let number): self.connection[number, default: []].append(index)
            case .token(let prefix):
                self.token[prefix.lowercased(), default: []].append(index)
                self.tokenDigitCounts.insert(prefix.utf8.count)
            case .random(let probability, let seed): self.random.append((index, probability, seed))
            }
        }
    }

    private let faults: [Fault]
    private let tables: [Key: Table]
    private let occurrences: NIOLockedValueBox<[Int]>

    /// - Throws: ``SimulatorError/fault(index:reason:)`` for the first fault that can happen nowhere.
    init(_ faults: [Fault]) throws(SimulatorError) {
        var tables: [Key: Table] = [:]
        for (index, fault) in faults.enumerated() {
            for listener in try fault.listeners(index: index) {
                tables[Key(listener: listener, stage: fault.effect.stage), default: Table()].add(index, fault.trigger)
            }
        }
        self.faults = faults
        self.tables = tables
        self.occurrences = NIOLockedValueBox(Array(repeating: 0, count: faults.count))
    }

    /// Whether there are faults that can be due at a listener.
    func hasFaults(at listener: SimulatorListener) -> Bool { self.tables.keys.contains { $0.listener == listener } }

    /// Whether there are faults that can be due in a stage of a listener.
    func hasFaults(_ stage: FaultStage, at listener: SimulatorListener) -> Bool {
        self.tables[Key(listener: listener, stage: stage)] != nil
    }

    /// The fault that happens to a connection.
    func fault(_ stage: FaultStage, at listener: SimulatorListener, connection: UInt64) -> Fault? {
        guard let table = self.tables[Key(listener: listener, stage: stage)] else { return nil }
        return self.first(of: Self.due(table, connection: connection, notification: 0))
    }

    /// The fault that happens at a notification.
    ///
    /// - Parameters:
    ///   - listener: where it came.
    ///   - token: whom it is for.
    ///   - connection: the number of its connection at the listener.
    ///   - number: its number on its connection.
    ///   - overall: its number among those of all connections.
    /// - Returns: the fault, counted as one occurrence.
    func fault(
        at listener: SimulatorListener,
        token: borrowing DeviceToken,
        connection: UInt64,
        number: UInt64,
        overall: UInt64
    ) -> Fault? {
        guard let table = self.tables[Key(listener: listener, stage: .notification)] else { return nil }
        var due = Self.due(table, connection: connection, notification: number)
        due += table.notification[number] ?? []
        due += table.notificationOverall[overall] ?? []
        if !table.tokenDigitCounts.isEmpty {
            let digits = token.hexadecimal
            for count in table.tokenDigitCounts where count <= digits.utf8.count {
                due += table.token[String(digits.prefix(count))] ?? []
            }
        }
        return self.first(of: due)
    }

    /// The faults that are due whatever the notification is.
    private static func due(_ table: Table, connection: UInt64, notification: UInt64) -> [Int] {
        var due = table.always
        due += table.connection[connection] ?? []
        for fault in table.random where Self.draw(fault.seed, connection, notification) < fault.probability {
            due.append(fault.index)
        }
        return due
    }

    /// A number from 0 to less than 1 that follows from others: the same whatever happened before, on whichever thread.
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

    private func first(of due: [Int]) -> Fault? {
        guard !due.isEmpty else { return nil }
        return self.occurrences.withLockedValue { occurrences in
            for index in due.sorted() where occurrences[index] < self.faults[index].occurrenceCountMax ?? .max {
                occurrences[index] += 1
                return self.faults[index]
            }
            return nil
        }
    }
}
