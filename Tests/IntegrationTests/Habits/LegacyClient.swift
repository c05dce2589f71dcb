// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import APNSWire
import Foundation
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix

/// One connection at a time of an old client with certain habits, on its own thread.
final class LegacyClient: Sendable {
    /// The progress of a run, which determines when clients continue and end.
    enum Stage: Comparable, Sendable {
        case beforeFault
        case afterFault
        case over
    }

    /// What a run knows about a client while it runs.
    struct Progress: Sendable {
        /// Whether it waits for the run.
        var isIdle = false
        var isDone = false
        /// What it wrote on the open connection.
        var outstanding: [UInt32] = []
        /// Whether the service has settled everything on the open connection.
        var isSettled = false
    }

    let habits: ClientHabits
    let numbers: [UInt32]
    private let port: Int
    private let pem: String
    private let stage: NIOLockedValueBox<Stage>
    private let progress = ObservedValue(Progress())

    init(
        _ habits: ClientHabits,
        numbers: [UInt32],
        port: Int,
        pem: String,
        stage: NIOLockedValueBox<Stage>
    ) {
        self.habits = habits
        self.numbers = numbers
        self.port = port
        self.pem = pem
        self.stage = stage
    }

    var current: Progress { self.progress.current }

    /// Records that the service has settled everything on the open connection.
    func markSettled() { self.progress.change { $0.isSettled = true } }

    /// Starts it; the result is complete when the run is over, or when it has nothing more to do.
    func start() -> EventLoopFuture<ClientRecord> {
        let promise = MultiThreadedEventLoopGroup.singleton.any().makePromise(of: ClientRecord.self)
        Thread.detachNewThread {
            var loop = Loop(self)
            loop.run()
            self.progress.change { $0 = Progress(isIdle: true, isDone: true) }
            promise.succeed(loop.record)
        }
        return promise.futureResult
    }
}

// MARK: - Its thread

extension LegacyClient {
    /// How a connection ended, for the client.
    private enum End {
        /// It has nothing more to do.
        case over
        case response(ErrorResponse)
        case closed(isOrderly: Bool)
    }

    private struct Loop {
        private struct Sent {
            var number: UInt32
            var identifier: UInt32?
        }

        /// After this number of writes, a notification is given up.
        private static let attemptCountMax = 12
        private static let connectSecondsMax = 40

        private let client: LegacyClient
        private let habits: ClientHabits
        private var pending: [(number: UInt32, reason: ClientRecord.Reason)]
        /// What was written on this connection.
        private var sent: [Sent] = []
        private var attempts: [UInt32: Int] = [:]
        private var connectionCount = 0
        private var isHalfClosed = false
        private var isWriteFailed = false
        private var bytes = ByteBuffer()
        private let fixedExpiry = UInt32(time(nil)) + 86_400
        var record = ClientRecord()

        init(_ client: LegacyClient) {
            self.client = client
            self.habits = client.habits
            self.pending = client.numbers.map { ($0, .first) }
        }

        private var stage: Stage { self.client.stage.withLockedValue { $0 } }

        mutating func run() {
            while !self.pending.isEmpty, let connection = self.connect() {
                self.sent = []
                self.bytes.clear()
                (self.isHalfClosed, self.isWriteFailed) = (false, false)
                self.connectionCount += 1
                let end = self.use(connection)
                self.conclude(end)
                self.client.progress.change { $0 = Progress() }
                if !self.pending.isEmpty { BlockingConnection.pause(milliseconds: self.habits.reconnectPause) }
            }
            self.record.unwritten = self.pending.map(\.number)
        }

        private func connect() -> BlockingConnection? {
            let limit = ContinuousClock.now + .seconds(Self.connectSecondsMax)
            while self.stage < .over, ContinuousClock.now < limit {
                if let connection = BlockingConnection(port: self.client.port, pem: self.client.pem) {
                    return connection
                }
                BlockingConnection.pause(milliseconds: 10)
            }
            return nil
        }

        // MARK: A connection

        private mutating func use(_ connection: BlockingConnection) -> End {
            while let (number, reason) = self.pending.first {
                if let end = self.waitForFault(connection) { return end }
                if self.habits.pause > 0 { BlockingConnection.pause(milliseconds: self.habits.pause) }
                guard self.write(number, reason, connection) else {
                    self.isWriteFailed = true
                    self.pending[0].reason = .unproved
                    return self.habits.reading == .never ? .closed(isOrderly: false) : self.readToEnd(connection)
                }
                if self.habits.reading == .afterEachWrite, let end = self.look(connection, within: 0) { return end }
                if let count = self.habits.halfClosesAfter, self.sent.count >= count { break }
            }
            return self.habits.halfClosesAfter == nil ? self.stay(connection) : self.halfClose(connection)
        }

        private mutating func write(
            _ number: UInt32,
            _ reason: ClientRecord.Reason,
            _ connection: BlockingConnection
        ) -> Bool {
            self.attempts[number, default: 0] += 1
            let place = self.sent.count
            let isSimple = self.habits.simpleEvery > 0 && number % UInt32(self.habits.simpleEvery) == 0
            let identifier = isSimple ? nil : self.habits.numbering.identifier(of: place)
            let frame = HabitRun.frame(
                number,
                identifier: identifier,
                expiry: self.habits.renewsExpiry ? UInt32(time(nil)) + 3600 : self.fixedExpiry,
                usesItems: self.habits.usesItems
            )
            let isWritten = connection.write(frame)
            self.record.writes.append(
                ClientRecord.Write(
                    number: number,
                    connection: self.connectionCount,
                    identifier: identifier,
                    reason: reason,
                    isFailed: !isWritten,
                    instant: .now
                )
            )
            guard isWritten else { return false }
            self.record.beliefs[number] = .unknown
            self.sent.append(Sent(number: number, identifier: identifier))
            self.pending.removeFirst()
            return true
        }

        /// Waits until the fault is over, if it idles during the fault and has written half.
        private mutating func waitForFault(_ connection: BlockingConnection) -> End? {
            guard self.habits.isIdleDuringFault, self.stage == .beforeFault,
                2 * self.pending.count <= self.client.numbers.count
            else { return nil }
            self.becomeIdle()
            defer { self.client.progress.change { $0.isIdle = false } }
            while self.stage == .beforeFault {
                if self.habits.reading == .never {
                    BlockingConnection.pause(milliseconds: 10)
                } else if let end = self.look(connection, within: 10) {
                    return end
                }
            }
            return nil
        }

        private func becomeIdle() {
            let outstanding = self.sent.map(\.number)
            self.client.progress.change { $0 = Progress(isIdle: true, outstanding: outstanding) }
        }

        /// Keeps the connection open after everything is written.
        private mutating func stay(_ connection: BlockingConnection) -> End {
            self.becomeIdle()
            while self.stage < .over {
                if self.habits.reading == .never {
                    // It does not notice the end, but has nothing more to write either.
                    if connection.isEnded(within: 10) { return .over }
                } else if let end = self.look(connection, within: 10) {
                    return end
                }
            }
            return .over
        }

        private mutating func halfClose(_ connection: BlockingConnection) -> End {
            connection.closeOutput()
            self.isHalfClosed = true
            return self.habits.reading == .never ? .over : self.readToEnd(connection)
        }

        private mutating func readToEnd(_ connection: BlockingConnection) -> End {
            self.look(connection, within: 30_000) ?? .closed(isOrderly: false)
        }

        /// Reads an error response or the end.
        private mutating func look(_ connection: BlockingConnection, within milliseconds: CInt) -> End? {
            while true {
                switch connection.read(within: milliseconds) {
                case .none: return nil
                case .end(let isOrderly): return .closed(isOrderly: isOrderly)
                case .bytes(let arrived):
                    self.bytes.writeBytes(arrived)
                    if let response = try? ErrorResponse(parsing: &self.bytes) { return .response(response) }
                }
            }
        }

        // MARK: Its end

        private mutating func conclude(_ end: End) {
            var ending = ClientRecord.Ending(
                connection: self.connectionCount,
                isOrderly: false,
                isWriteFailed: self.isWriteFailed,
                useCount: 0,
                isSettled: self.client.current.isSettled
            )
            switch end {
            case .over: return
            case .response(let response):
                ending.response = response
                ending.useCount = self.sent.count { $0.identifier == response.identifier }
                self.place(response, isUnique: ending.useCount == 1)
            case .closed(let isOrderly):
                ending.isOrderly = isOrderly
                // After it has closed its side, an orderly end without an error response means success.
                if !(isOrderly && self.isHalfClosed), self.habits.afterClose == .resendsAll {
                    self.resend(self.sent[...], .unproved)
                }
            }
            self.record.endings.append(ending)
        }

        /// Acts on an error response: the newest notification with its identifier is the one that it names.
        private mutating func place(_ response: ErrorResponse, isUnique: Bool) {
            let kept = self.sent.suffix(self.habits.keptCount)
            guard let index = kept.lastIndex(where: { $0.identifier == response.identifier }) else {
                guard self.habits.resendsAllForUnknown else {
                    for sent in self.sent { self.record.beliefs[sent.number] = .abandoned(.unknownIdentifier) }
                    return
                }
                return self.resend(self.sent[...], .toldToResend)
            }
            let status = response.status.rawValue
            for sent in self.sent[..<index] {
                self.record.beliefs[sent.number] = .accepted(status: status, isUnique: isUnique)
            }
            if response.status == .processingError, self.habits.retriesProcessingError {
                return self.resend(self.sent[index...], .toldToResend)
            }
            self.record.beliefs[self.sent[index].number] =
                response.status == .shutdown
                ? .accepted(status: status, isUnique: isUnique) : .rejected(status: status, isUnique: isUnique)
            self.resend(self.sent[(index + 1)...], .toldToResend)
        }

        /// Puts what it still keeps before what is not written yet.
        private mutating func resend(_ all: ArraySlice<Sent>, _ reason: ClientRecord.Reason) {
            let first = max(all.startIndex, self.sent.count - min(self.sent.count, self.habits.keptCount))
            for sent in all[..<max(first, all.startIndex)] {
                self.record.beliefs[sent.number] = .abandoned(.notKept)
            }
            var again: [(number: UInt32, reason: ClientRecord.Reason)] = []
            for sent in all[max(first, all.startIndex)...] {
                if self.attempts[sent.number, default: 0] < Self.attemptCountMax {
                    again.append((sent.number, reason))
                } else {
                    self.record.beliefs[sent.number] = .abandoned(.tooManyAttempts)
                }
            }
            self.pending.insert(contentsOf: again, at: 0)
        }
    }
}
