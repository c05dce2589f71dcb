// SPDX-License-Identifier: Apache-2.0

import APNSWire
package import Logging

/// Runs a service in a child task, and an operation in the task and on the actor of the caller.
///
/// When the operation has returned or thrown, `end` asks the service to end, and its end is awaited. An error of the
/// service after it was ready does not replace the result of the operation: it is logged.
///
/// Returns the result of `operation`.
///
/// - Throws: the error of `ready` or `operation`.
package func withRunning<Value>(
    _ service: @escaping @Sendable () async throws -> Void,
    logger: Logger,
    ready: () async throws -> Void = {},
    end: () -> Void,
    operation: () async throws -> Value
) async throws -> Value {
    async let ending = ending(of: service)
    do {
        try await ready()
    } catch {
        // Usually the error of the service.
        end()
        _ = await ending
        throw error
    }
    let result: Result<Value, any Error>
    do { result = .success(try await operation()) } catch { result = .failure(error) }
    end()
    if let failure = await ending, !(failure is CancellationError) {
        logger.error("ended with an error", metadata: [LogKey.failure: "\(failure)"])
    }
    return try result.get()
}

/// The error of a service; `nil` if it returned.
private func ending(of service: @Sendable () async throws -> Void) async -> (any Error)? {
    do { try await service() } catch { return error }
    return nil
}
