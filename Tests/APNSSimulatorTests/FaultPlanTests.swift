// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOConcurrencyHelpers
import Testing

@testable import APNSSimulator

/// Goal: faults can be changed while a simulator runs, and each occurrence is recorded.
@Suite struct FaultPlanTests {
    typealias Fixture = SimulatorFixture

    private let changes = NIOLockedValueBox<[SimulatorChange]>([])
    private let schedule: FaultSchedule

    init() throws {
        let changes = self.changes
        self.schedule = try FaultSchedule(
            [PlannedFault(Fault(at: .always, .ignore, occurrenceCountMax: 1))],
            now: { 1234 },
            onChange: { change in changes.withLockedValue { $0.append(change) } }
        )
    }

    private func effect(_ number: UInt64 = 1) throws -> Fault.Effect? {
        let token = try Fixture.token(1)
        return self.schedule.fault(at: .binary, token: token, connection: 3, number: number, overall: 9)?.effect
    }

    @Test func `a fault is added after the others, disabled, enabled and removed`() throws {
        let added = try self.schedule.add(PlannedFault(Fault(at: .always, .closeAfter), isEnabled: true))
        #expect(added.id == 2)
        #expect(try [self.effect(), self.effect(), self.effect()] == [.ignore, .closeAfter, .closeAfter])
        #expect(self.schedule.faults.map(\.occurrenceCount) == [1, 2])
        #expect(self.schedule.setEnabled(false, 2)?.isEnabled == false)
        #expect(try self.effect() == nil)
        #expect(self.schedule.setEnabled(true, 2)?.occurrenceCount == 2)
        #expect(try self.effect() == .closeAfter)
        #expect(self.schedule.remove(2))
        #expect(!self.schedule.remove(2))
        #expect(self.schedule.setEnabled(true, 2) == nil)
        #expect(try self.effect() == nil)
        #expect(try self.schedule.add(PlannedFault(Fault(at: .always, .ignore), isEnabled: false)).id == 3)
        #expect(try self.effect() == nil)
    }

    @Test func `all are replaced, or none if one is invalid`() throws {
        #expect(throws: SimulatorError.fault(index: 1, reason: "the number must be at least 1")) {
            try self.schedule.replace([
                PlannedFault(Fault(at: .always, .closeAfter)), PlannedFault(Fault(at: .connection(0), .closeAfter)),
            ])
        }
        #expect(self.schedule.faults.map(\.id) == [1])
        let faults = try self.schedule.replace([
            PlannedFault(Fault(at: .always, .closeAfter), isEnabled: false),
            PlannedFault(Fault(at: .always, .closeBefore)),
        ])
        #expect(faults.map(\.id) == [2, 3])
        #expect(try self.effect() == .closeBefore)
    }

    @Test func `an initially disabled fault waits until it is enabled, also after a reset`() throws {
        let schedule = try FaultSchedule([PlannedFault(Fault(at: .always, .closeAfter), isEnabled: false)])
        func effect() throws -> Fault.Effect? {
            let token = try Fixture.token(1)
            return schedule.fault(at: .binary, token: token, connection: 1, number: 1, overall: 1)?.effect
        }
        #expect(schedule.faults.map(\.isEnabled) == [false])
        #expect(try effect() == nil)
        #expect(schedule.setEnabled(true, 1)?.isEnabled == true)
        #expect(try effect() == .closeAfter)
        schedule.reset()
        #expect(schedule.faults.map(\.isEnabled) == [false])
        #expect(try effect() == nil)
    }

    @Test func `an occurrence whose notification is recorded later is reported immediately, and again with its number`()
        throws
    {
        _ = try self.schedule.replace([PlannedFault(Fault(at: .always, .delay(.seconds(1))))])
        #expect(try self.effect(1) == .delay(.seconds(1)))
        let first = try #require(self.schedule.applications.first)
        #expect(self.changes.withLockedValue(\.last) == .faultApplied(first))
        var notification = ReceivedNotification(
            listener: .binary,
            token: nil,
            payload: [],
            connectionNumber: 3,
            notificationNumber: 1
        )
        notification.number = 5
        self.schedule.recorded(notification)
        let again = try #require(self.schedule.applications.first)
        #expect(again.number == first.number && first.recordNumber == nil && again.recordNumber == 5)
        #expect(self.changes.withLockedValue(\.last) == .faultApplied(again))
    }

    @Test func `a reset restores the initial faults`() throws {
        #expect(try self.effect() == .ignore)
        _ = try self.schedule.add(PlannedFault(Fault(at: .always, .closeAfter), isEnabled: true))
        self.schedule.reset()
        #expect(self.schedule.faults.map(\.fault.effect) == [.ignore])
        #expect(self.schedule.applications.isEmpty)
        #expect(try self.effect() == .ignore)
    }

    @Test func `each occurrence is recorded and reported, and the oldest are removed`() throws {
        _ = try self.schedule.add(PlannedFault(Fault(at: .notification(7), .shutDown), isEnabled: true))
        #expect(try self.effect() == .ignore)
        #expect(try self.effect(7) == .shutDown)
        let applications = self.schedule.applications
        #expect(applications.map(\.number) == [1, 2])
        #expect(applications.map(\.fault) == [1, 2])
        let last = try #require(applications.last)
        #expect(last.effect == .shutDown && last.listener == .binary && last.timestamp == 1234)
        #expect(last.connectionNumber == 3 && last.notificationNumber == 7)
        let told = self.changes.withLockedValue { $0 }
        // The second one is reported with the number of its notification, which is recorded immediately.
        #expect(told.last == .faultApplied(applications[0]))
        var notification = ReceivedNotification(
            listener: .binary,
            token: try Fixture.token(1),
            payload: [],
            connectionNumber: 3,
            notificationNumber: 7
        )
        notification.number = 42
        self.schedule.recorded(notification)
        self.schedule.recorded(notification)
        let recorded = try #require(self.schedule.applications.last)
        #expect(recorded.recordNumber == 42 && recorded.number == last.number)
        #expect(self.changes.withLockedValue { $0.suffix(2) } == [told[told.count - 1], .faultApplied(recorded)])
        for _ in 0..<FaultSchedule.applicationCountMax { #expect(try self.effect(7) == .shutDown) }
        #expect(self.schedule.applications.count == FaultSchedule.applicationCountMax)
        #expect(self.schedule.applications.first?.number == 3)
    }
}
