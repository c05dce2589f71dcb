// SPDX-License-Identifier: Apache-2.0

import NIOCore
import NIOPosix

/// Threads for blocking file system calls.
struct BlockingThreads: Sendable {
    let pool: NIOThreadPool
    let group: any EventLoopGroup

    /// Runs a call even if the task is cancelled, so that bytes already read are still stored.
    func run<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
        try await self.pool.runIfActive(eventLoop: self.group.any(), body).get()
    }
}
