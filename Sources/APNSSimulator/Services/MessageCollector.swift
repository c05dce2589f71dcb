// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSTransport
import APNSWire

/// Collects messages of a connection that are certainly accepted and delivered, and records them together.
///
/// Locks, the clock and memory allocation then cost once per read. A message is collected if no fault can occur, and
/// its token is known to be that of an online device, or unknown tokens are accepted.
struct MessageCollector {
    private let registry: DeviceRegistry
    private let schedule: FaultSchedule
    private let source: MessageBatch.Source
    private var known = KnownTokens()
    private var batch: MessageBatch?
    /// The revision that was last checked.
    private var revision: UInt64 = 0
    /// Whether messages may be collected in that revision.
    private var isCollecting = false

    init(_ provider: ProviderConnection, _ backend: SimulatorBackend) {
        self.registry = backend.devices
        self.schedule = backend.schedule
        self.source = MessageBatch.Source(connectionNumber: provider.number, topic: provider.identity.topic)
    }

    /// Collects a message if possible.
    ///
    /// Returns whether it was collected; otherwise nothing happened.
    mutating func collect(_ message: borrowing InboundNotification) -> Bool {
        let revision = self.registry.revision.current
        if revision != self.revision { self.begin(revision) }
        guard self.isCollecting, let token = message.tokenWords,
            let entry = self.known.entry(token, revision: revision) ?? self.lookUp(message, token)
        else { return false }
        if self.batch?.isFollowed(by: message) != true {
            self.flush()
            self.batch = MessageBatch(self.source, beginning: message)
        }
        self.batch?.append(message, entry)
        return true
    }

    private mutating func begin(_ revision: UInt64) {
        // The collected messages belong to the previous revision.
        self.flush()
        self.revision = revision
        self.isCollecting = self.registry.recordsBatches && !self.schedule.hasFaults(.notification, at: .binary)
    }

    /// Looks up a token and caches the result.
    private mutating func lookUp(_ message: borrowing InboundNotification, _ token: TokenWords) -> KnownTokens.Entry? {
        guard let entry = self.registry.knownEntry(message.token, topic: self.source.topic) else { return nil }
        // The look-up may register the device of a sealed token, which invalidates the cache.
        self.known.insert(entry, token, revision: self.revision)
        return entry
    }

    /// Records the collected messages.
    mutating func flush() {
        guard let batch = self.batch else { return }
        self.batch = nil
        self.registry.record(batch, revision: self.revision)
    }
}
