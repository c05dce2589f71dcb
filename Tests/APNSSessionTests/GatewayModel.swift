// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import TestSupport

/// The gateway and the network in one walk: the provider's outcomes are compared with what they did.
struct GatewayModel {
    /// How the gateway and the network misbehave in one walk.
    struct Faults {
        /// The percentage of bad tokens.
        var badPercent = 0
        /// The maximum number of faults; after that everything works.
        var budget = 0
        /// Whether the gateway never answers and closes immediately.
        var isDead = false
        /// Whether the gateway closes without an answer for bad ones (command 0).
        var isSilentOnBad = false
        /// The connection that is refused permanently after its handshake, without having read anything; 0 for none.
        var refusedConnection: UInt64 = 0
        /// Whether a gateway of command 1 answers on connections that nothing was written to.
        var answersUnasked = false
        /// Whether the answer to bad tokens may have identifier 0 or one that was never written.
        var hidesIdentifiers = false
    }

    /// A message in transit.
    struct Message {
        var number: UInt64?
        var identifier: UInt32
    }

    /// One connection with everything in transit in both directions.
    struct Connection {
        var messages: [Message] = []
        /// Numbers of messages that are complete in the kernel, at the gateway, and read by the gateway.
        var leftCount = 0
        var arrivedCount = 0
        var readCount = 0
        var isOpen = false
        /// The gateway reads no more.
        var isOver = false
        /// The gateway refused the certificate after the handshake, and has read nothing.
        var isRefused = false
        /// The answer in transit to the provider; it is followed by the end of the connection.
        var answer: ErrorResponse?
        var isEndDue = false
        var lastProcessedIdentifier: UInt32 = 0
    }

    var faults: Faults
    var random: SplitMix64
    var connections: [ConnectionNumber: Connection] = [:]
    var bad: Set<UInt64> = []
    var processed: [UInt64: Int] = [:]
    var firstProcessed: [UInt64] = []
    var refused: Set<UInt64> = []
    var transientRefusals: [UInt64: Int] = [:]

    init(faults: Faults, notificationCount: Int, random: SplitMix64) {
        self.faults = faults
        self.random = random
        for number in 0..<UInt64(notificationCount) where self.random.chance(faults.badPercent) {
            self.bad.insert(number)
        }
    }

    /// Whether a fault happens now; each reduces the budget.
    private mutating func isFaulty(_ percent: Int) -> Bool {
        guard self.faults.budget > 0, self.random.chance(percent) else { return false }
        self.faults.budget -= 1
        return true
    }

    /// Whether a connection attempt succeeds.
    mutating func opens() -> Bool { !self.isFaulty(20) }

    /// Adds a connection; it may be refused or answered immediately, before anything is read.
    mutating func open(_ name: ConnectionNumber) {
        var connection = Connection(isOpen: true)
        if name.rawValue == self.faults.refusedConnection {
            connection.isRefused = true
            connection.isOver = true
            connection.isEndDue = true
        } else if self.faults.answersUnasked, self.isFaulty(10) {
            self.end(&connection, ErrorResponse(status: .shutdown, identifier: 0))
        }
        self.connections[name] = connection
    }

    /// Moves bytes on a connection by a random amount, and lets the gateway read.
    mutating func move(_ name: ConnectionNumber) {
        guard var connection = self.connections[name], connection.isOpen else { return }
        connection.leftCount += self.random.below(connection.messages.count - connection.leftCount + 1)
        connection.arrivedCount += self.random.below(connection.leftCount - connection.arrivedCount + 1)
        if self.random.chance(50) { connection.leftCount = connection.messages.count }
        if self.random.chance(50) { connection.arrivedCount = connection.leftCount }
        if !connection.isOver, self.faults.isDead || self.isFaulty(2) { self.cut(&connection) }
        var count = self.random.below(connection.arrivedCount - connection.readCount + 1)
        if self.random.chance(50) { count = connection.arrivedCount - connection.readCount }
        while count > 0, !connection.isOver {
            count -= 1
            self.read(&connection)
        }
        self.connections[name] = connection
    }

    /// The connection fails at any byte: what has arrived may be read or not, nothing more arrives, and no answer is
    /// sent.
    private mutating func cut(_ connection: inout Connection) {
        let count = self.random.below(connection.arrivedCount - connection.readCount + 1)
        for _ in 0..<count where !connection.isOver && !self.faults.isDead { self.read(&connection) }
        connection.answer = nil
        connection.isOver = true
        connection.isEndDue = true
    }

    /// The gateway reads one message.
    private mutating func read(_ connection: inout Connection) {
        let message = connection.messages[connection.readCount]
        connection.readCount += 1
        guard let number = message.number else {
            let isAnonymous = self.random.chance(20)
            return self.end(
                &connection,
                ErrorResponse(status: .missingDeviceToken, identifier: isAnonymous ? 0 : message.identifier)
            )
        }
        if self.isFaulty(1) {
            let identifier = self.random.chance(70) ? connection.lastProcessedIdentifier : 0
            return self.end(&connection, ErrorResponse(status: .shutdown, identifier: identifier))
        }
        if self.bad.contains(number) { return self.refuse(number, message, &connection) }
        if self.transientRefusals[number, default: 0] < 2, !self.faults.isSilentOnBad, self.isFaulty(1) {
            self.transientRefusals[number, default: 0] += 1
            return self.end(&connection, ErrorResponse(status: .processingError, identifier: message.identifier))
        }
        if self.processed[number] == nil { self.firstProcessed.append(number) }
        self.processed[number, default: 0] += 1
        connection.lastProcessedIdentifier = message.identifier
    }

    private mutating func refuse(_ number: UInt64, _ message: Message, _ connection: inout Connection) {
        self.refused.insert(number)
        guard !self.faults.isSilentOnBad else { return self.end(&connection, nil) }
        let statuses: [UInt8] = [8, 8, 8, 8, 5, 7, 128, 255, 99, 1]
        let status = ErrorResponse.Status(rawValue: statuses[Int(number) % statuses.count])
        var identifier = message.identifier
        if self.faults.hidesIdentifiers, self.random.chance(50) {
            identifier = self.random.chance(50) ? 0 : 4_000_000_000
        }
        self.end(&connection, ErrorResponse(status: status, identifier: identifier))
    }

    /// The gateway sends its answer and closes; sometimes the answer is lost.
    private mutating func end(_ connection: inout Connection, _ answer: ErrorResponse?) {
        connection.isOver = true
        connection.isEndDue = true
        connection.answer = self.isFaulty(15) ? nil : answer
    }
}
