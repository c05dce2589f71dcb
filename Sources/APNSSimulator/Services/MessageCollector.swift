// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSTransport
import APNSWire

/// Collects the messages of a connection that are taken and delivered whatever else they say, and records them
/// together.
///
/// Locks, the clock and memory then cost once for all messages of a read. A message is collected where no fault can
/// happen to any, and its token is known to be that of a device that is online, or of nobody where that is taken as
/// well.
struct MessageCollector {
    private let registry: DeviceRegistry
    private let schedule: FaultSchedule
    private let source: MessageBatch.Source
    private var known = KnownTokens()
    private var batch: MessageBatch?
    /// What was last looked at.
    private var revision: UInt64 = 0
    /// Whether messages may be collected in that revision.
    private var isCollecting = false

    init(_ provider: ProviderConnection, _ backend: SimulatorBackend) {
        self.registry = backend.devices
        self.schedule = backend.faults.schedule
        self.source = MessageBatch.Source(connectionNumber: provider.number, topic: provider.identity.topic)
    }

    /// Takes a message, if it is one that is collected.
    ///
    /// - Returns: whether it was taken; else nothing was done about it.
    mutating func take(_ message: borrowing InboundNotification) -> Bool {
        let revision = self.registry.revision.current
        if revision != self.revision { self.begin(revision) }
        guard self.isCollecting, let token = message.usualToken,
            let entry = self.known.entry(token, revision: revision) ?? self.look(message, token)
        else { return false }
        if self.batch?.isFollowed(by: message) != true {
            self.flush()
            self.batch = MessageBatch(self.source, beginning: message)
        }
        self.batch?.append(message, entry)
        return true
    }

    private mutating func begin(_ revision: UInt64) {
        // What was collected was known in the revision before.
        self.flush()
        self.revision = revision
        self.isCollecting = self.registry.recordsBatches && !self.schedule.hasFaults(.notification, at: .binary)
    }

    /// Asks for what is known of a token, and remembers it.
    private mutating func look(_ message: borrowing InboundNotification, _ token: UsualToken) -> KnownTokens.Entry? {
        guard let entry = self.registry.knownEntry(message.token, topic: self.source.topic) else { return nil }
        // To ask may register the device of a sealed token, which makes what was known before old.
        self.known.insert(entry, token, revision: self.revision)
        return entry
    }

    /// Records what was collected.
    mutating func flush() {
        guard let batch = self.batch else { return }
        self.batch = nil
        self.registry.take(batch, revision: self.revision)
    }
}
