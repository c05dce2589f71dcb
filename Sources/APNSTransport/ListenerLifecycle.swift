// SPDX-License-Identifier: Apache-2.0

import NIOConcurrencyHelpers
package import NIOCore
import ServiceLifecycle

/// The life of a server, from listening to the end of its last connection.
///
/// It listens once, until it is stopped, shut down in order, or cancelled; then its connections are told, and what is
/// left of them after a while is cut.
package final class ListenerLifecycle: Sendable {
    /// What a server throws in its own words.
    package struct Faults: Sendable {
        let notListening: any Error
        let ranAlready: any Error
        let listen: @Sendable (_ host: String, _ port: Int, _ detail: String) -> any Error

        package init(
            notListening: any Error,
            ranAlready: any Error,
            listen: @escaping @Sendable (_ host: String, _ port: Int, _ detail: String) -> any Error
        ) {
            self.notListening = notListening
            self.ranAlready = ranAlready
            self.listen = listen
        }
    }

    /// The open connections.
    package let registry: ConnectionRegistry
    private let group: any EventLoopGroup
    private let faults: Faults
    private let acceptPaused: @Sendable (_ reason: String) -> Void
    private let bound: EventLoopPromise<SocketAddress>
    private let stopped: EventLoopPromise<Void>
    private let hasRun = NIOLockedValueBox(false)

    /// Makes a life that has not begun.
    ///
    /// - Parameters:
    ///   - group: what it waits on.
    ///   - connectionCountMax: how many connections there may be.
    ///   - unauthenticatedCountMax: how many of them may be of one address and not admitted; by default all.
    ///   - faults: what it throws.
    ///   - acceptPaused: is told why it accepts nothing for a while, such as for want of descriptors.
    package init(
        group: any EventLoopGroup,
        connectionCountMax: Int,
        unauthenticatedCountMax: Int = .max,
        faults: Faults,
        acceptPaused: @escaping @Sendable (_ reason: String) -> Void
    ) {
        self.registry = ConnectionRegistry(
            countMax: connectionCountMax,
            unauthenticatedCountMax: unauthenticatedCountMax
        )
        self.group = group
        self.faults = faults
        self.acceptPaused = acceptPaused
        self.bound = group.any().makePromise()
        self.stopped = group.any().makePromise()
    }

    deinit {
        self.bound.fail(self.faults.notListening)
        self.stopped.succeed(())
    }

    /// The address, as soon as the server listens on it.
    package var boundAddress: SocketAddress {
        get async throws { try await self.bound.futureResult.get() }
    }

    /// Ends ``run(host:port:within:farewell:bind:)`` as a graceful shutdown does.
    package func stop() { self.stopped.succeed(()) }

    /// Lives.
    ///
    /// - Parameters:
    ///   - host: where to listen.
    ///   - port: where to listen; 0 for any that is free.
    ///   - duration: how long connections may go on when it ends in order.
    ///   - farewell: the event that tells a connection so, from the last handler of its pipeline on.
    ///   - bind: listens there.
    /// - Throws: one of the faults, or what `bind` throws before it listens.
    package func run(
        host: String,
        port: Int,
        within duration: Duration,
        farewell: any Sendable,
        bind: () throws -> EventLoopFuture<any Channel>
    ) async throws {
        let isFirst = self.hasRun.withLockedValue { hasRun in
            defer { hasRun = true }
            return !hasRun
        }
        guard isFirst else { throw self.faults.ranAlready }
        let listener: any Channel
        do {
            listener = try await self.listen(try bind(), host: host, port: port)
        } catch {
            self.bound.fail(error)
            throw error
        }
        await withTaskCancellationHandler {
            await withGracefulShutdownHandler {
                try? await self.stopped.futureResult.get()
            } onGracefulShutdown: {
                self.stopped.succeed(())
            }
        } onCancel: {
            self.stopped.succeed(())
        }
        try? await listener.close()
        await self.endConnections(within: Task.isCancelled ? .zero : duration, farewell: farewell)
    }

    private func listen(
        _ binding: EventLoopFuture<any Channel>,
        host: String,
        port: Int
    ) async throws -> any Channel {
        let listener: any Channel
        do {
            listener = try await binding.get()
            try await AcceptPauseHandler.add(to: listener, report: self.acceptPaused).get()
        } catch {
            throw self.faults.listen(host, port, "\(ListenError(error))")
        }
        guard let address = listener.localAddress else { throw self.faults.notListening }
        self.bound.succeed(address)
        return listener
    }

    private func endConnections(within duration: Duration, farewell: any Sendable) async {
        let eventLoop = self.group.any()
        let emptied = eventLoop.makePromise(of: Void.self)
        self.registry.close(emptied)
        if duration > .zero { self.registry.send(farewell) }
        // Also cuts those that arrived while the farewell was sent.
        let cut = eventLoop.scheduleTask(in: TimeAmount(duration)) { [registry] in
            registry.send(RawCloseHandler.Cut())
        }
        await withTaskCancellationHandler {
            try? await emptied.futureResult.get()
        } onCancel: {
            self.registry.send(RawCloseHandler.Cut())
        }
        cut.cancel()
    }

    /// Runs a server while `body` runs, and ends it on every way out.
    ///
    /// - Parameters:
    ///   - run: the server's, which lives this life.
    ///   - body: is called when the server listens.
    /// - Returns: what `body` returns.
    /// - Throws: what `body` or `run` throws.
    package func lend<Value: Sendable>(
        run: @escaping @Sendable () async throws -> Void,
        _ body: () async throws -> Value
    ) async throws -> Value {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await run() }
            let result: Result<Value, any Error>
            do {
                _ = try await self.boundAddress
                result = .success(try await body())
            } catch {
                result = .failure(error)
            }
            self.stop()
            try await group.waitForAll()
            return try result.get()
        }
    }
}
