// SPDX-License-Identifier: Apache-2.0

import NIOCore
import NIOPosix

/// Threads for calls that wait for the disk.
struct BlockingThreads: Sendable {
    let pool: NIOThreadPool
    let group: any EventLoopGroup

    /// Makes a call also when the task is cancelled: what was read is to be kept then, too.
    func run<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
        try await self.pool.runIfActive(eventLoop: self.group.any(), body).get()
    }
}
