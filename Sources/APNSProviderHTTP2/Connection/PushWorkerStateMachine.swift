// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import OpenSSLTLS

/// What a worker knows about a connection when it ends.
protocol WorkerConnection: AnyObject {
    /// Whether the service has sent its settings, after which requests may be sent.
    var isGreeted: Bool { get }

    /// Whether any request was answered on this connection.
    var hasAnswered: Bool { get }

    /// Whether any request was accepted on this connection.
    var hasAccepted: Bool { get }

    /// Why the service closes the connection, if it gave a reason.
    var goAwayReason: PushReason? { get }
}

/// The connections of one worker: it decides when one is replaced, when the worker pauses, and when it ends.
///
/// It does no I/O and has no clock. A connection that the service closes gracefully continues until its last answer, in
/// parallel with its replacement.
struct PushWorkerStateMachine<Connection: WorkerConnection> {
    /// What the worker must do.
    enum Action {
        /// Write the waiting requests; without a connection, open one if there are any.
        case fill
        /// Let a connection finish, without further requests.
        case retire(Connection)
        /// The service rejects this client, or is not the expected one.
        case refuse(ConnectionFailure)
        /// A connection has failed.
        case count(ConnectionFailure)
        /// The service cannot be reached, or does not answer.
        case reportOutage(ConnectionFailure)
        /// Connect again only after a delay, and then call ``PushWorkerStateMachine/resume()``. This is attempt number
        /// `attempt` after failures without an answer; 0 if the service answered.
        case pause(Duration, ConnectionFailure, attempt: Int)
        /// End, after the maximum number of failures.
        case giveUp(ConnectionFailure)
        /// All connections have ended after ``PushWorkerStateMachine/end()``.
        case finish
    }

    private let endsWhenRefused: Bool
    private let names: TLSErrorNames
    private var failures: ConnectFailureCounter

    /// The connection for new requests.
    private(set) var current: Connection?
    /// The connections that only wait for answers.
    private(set) var leaving: [Connection] = []
    /// Whether the worker waits before it connects again.
    private(set) var isPausing = false
    /// Whether the worker has ended.
    private(set) var isOver = false

    init(_ failures: ConnectFailureCounter, endsWhenRefused: Bool, names: TLSErrorNames) {
        self.failures = failures
        self.endsWhenRefused = endsWhenRefused
        self.names = names
    }

    /// All connections.
    var connections: [Connection] { self.current.map { self.leaving + [$0] } ?? self.leaving }

    /// Whether requests may be written, or a connection opened for them.
    var mayFill: Bool { !self.isPausing && !self.isOver }

    /// A connection is being opened for new requests.
    mutating func connecting(_ connection: Connection) { self.current = connection }

    /// A request was accepted.
    mutating func succeeded() { self.failures.succeeded() }

    /// The delay is over.
    mutating func resume() { self.isPausing = false }

    /// The service closes a connection gracefully.
    mutating func goingAway(_ connection: Connection, jitter: @autoclosure () -> Double) -> [Action] {
        let released = self.release(connection, jitter: jitter())
        guard let reason = connection.goAwayReason, Self.isAboutIdentity(reason) else { return released }
        let text = "\(self.names.remote) refused the connection: \(reason.text)"
        return [.refuse(ConnectionFailure(.closed(reason), text))] + released
    }

    private static func isAboutIdentity(_ reason: PushReason) -> Bool {
        switch reason {
        case .badCertificate, .badCertificateEnvironment: true
        default: false
        }
    }

    /// A connection takes no more requests, and is replaced.
    ///
    /// Returns what to do.
    mutating func release(_ connection: Connection, jitter: @autoclosure () -> Double) -> [Action] {
        guard connection === self.current else { return [] }
        self.leaving.append(connection)
        self.current = nil
        if connection.hasAccepted { return [.retire(connection), .fill] }
        let reason = connection.goAwayReason
        let text = "\(self.names.remote) closed the connection: \(reason?.text ?? "it had accepted nothing")"
        let failure = ConnectionFailure(.closed(reason), text)
        return [.retire(connection)] + self.pause(failure, hasAnswered: connection.hasAnswered, jitter: jitter())
    }

    /// A connection has ended.
    ///
    /// Returns what to do.
    mutating func ended(
        _ connection: Connection,
        _ failure: ConnectionFailure,
        hadRequests: Bool,
        hasWaiting: Bool,
        jitter: @autoclosure () -> Double
    ) -> [Action] {
        let wasCurrent = connection === self.current
        if wasCurrent { self.current = nil }
        self.leaving.removeAll { $0 === connection }
        guard !self.isOver else { return self.finish() }
        let refusal: [Action] = failure.isPermanent ? [.refuse(failure)] : []
        guard wasCurrent, !failure.isPermanent || !self.endsWhenRefused else { return refusal }
        // A refusal rejects what waits. A connection that was given up has failed, even if all its requests have their
        // outcome by now.
        let wasIdle = !hadRequests && (!hasWaiting || failure.isPermanent) && failure.kind != .stalled
        if connection.hasAccepted || connection.isGreeted && wasIdle { return refusal + [.fill] }
        let count: [Action] = connection.hasAnswered ? [] : [.count(failure)]
        return refusal + count + self.pause(failure, hasAnswered: connection.hasAnswered, jitter: jitter())
    }

    private mutating func pause(
        _ failure: ConnectionFailure,
        hasAnswered: Bool,
        jitter: @autoclosure () -> Double
    ) -> [Action] {
        let outage: [Action] = hasAnswered ? [] : [.reportOutage(failure)]
        guard let pause = self.failures.failed(hasAnswered: hasAnswered, jitter: jitter()) else {
            return outage + [.giveUp(failure)]
        }
        self.isPausing = true
        return outage + [.pause(pause, failure, attempt: self.failures.silentCount)]
    }

    /// Ends: the connections are to be closed.
    ///
    /// Returns what to do, if there are none.
    mutating func end() -> [Action] {
        self.isOver = true
        return self.finish()
    }

    private func finish() -> [Action] { self.current == nil && self.leaving.isEmpty ? [.finish] : [] }
}
