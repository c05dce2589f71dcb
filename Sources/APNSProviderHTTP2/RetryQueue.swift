// SPDX-License-Identifier: Apache-2.0

import NIOCore

/// Notifications of a batch that the service put off, until they are to be sent again.
struct RetryQueue: Sendable {
    private var waiting: [(due: NIODeadline, push: PendingPush)] = []

    /// Nothing more is taken from the source while so many wait; those that are on their way may come on top.
    static let countMax = 256

    /// Whether none waits.
    var isEmpty: Bool { self.waiting.isEmpty }

    /// Whether more may be taken from the source.
    var hasRoom: Bool { self.waiting.count < Self.countMax }

    /// Keeps a notification until it is due.
    mutating func put(_ push: PendingPush, until due: NIODeadline) { self.waiting.append((due, push)) }

    /// Takes what is due, in the order in which it was put.
    mutating func take(at now: NIODeadline) -> [PendingPush] {
        guard !self.waiting.isEmpty else { return [] }
        let pushes = self.waiting.filter { $0.due <= now }.map(\.push)
        self.waiting.removeAll { $0.due <= now }
        return pushes
    }

    /// Takes everything.
    mutating func takeAll() -> [PendingPush] {
        defer { self.waiting = [] }
        return self.waiting.map(\.push)
    }
}
