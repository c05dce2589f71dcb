// SPDX-License-Identifier: Apache-2.0

import NIOCore

/// The promises of the writes that end in one record, in order; usually one or none.
struct RecordPromises {
    private var first: EventLoopPromise<Void>?
    private var others: [EventLoopPromise<Void>] = []

    mutating func append(_ promise: EventLoopPromise<Void>?) {
        guard let promise else { return }
        if self.first == nil {
            self.first = promise
        } else {
            self.others.append(promise)
        }
    }

    var isEmpty: Bool { self.first == nil }

    /// One promise that completes all of them.
    func joined(on eventLoop: any EventLoop) -> EventLoopPromise<Void>? {
        guard !self.others.isEmpty else { return self.first }
        let joined = eventLoop.makePromise(of: Void.self)
        joined.futureResult.whenComplete { [self] result in
            for promise in self.all { promise.completeWith(result) }
        }
        return joined
    }

    /// Removes and returns all promises.
    mutating func take() -> Self {
        defer { self = Self() }
        return self
    }

    func fail(_ error: any Error) {
        for promise in self.all { promise.fail(error) }
    }

    func succeed() {
        for promise in self.all { promise.succeed(()) }
    }

    private var all: [EventLoopPromise<Void>] {
        (self.first.map { [$0] } ?? []) + self.others
    }
}
