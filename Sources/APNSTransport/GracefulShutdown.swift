// SPDX-License-Identifier: Apache-2.0

#if ServiceLifecycleSupport
import ServiceLifecycle
#endif

/// Runs something, and calls back where the service that it belongs to is shut down gracefully meanwhile.
///
/// Without the trait `ServiceLifecycleSupport` nothing is a service, and it is only run.
///
/// - Parameters:
///   - operation: what is run.
///   - handler: is called once at most, from any thread.
/// - Returns: what `operation` returns.
/// - Throws: what `operation` throws.
package func withShutdownHandler<Value>(
    operation: () async throws -> Value,
    onGracefulShutdown handler: @escaping @Sendable () -> Void
) async rethrows -> Value {
    #if ServiceLifecycleSupport
    try await withGracefulShutdownHandler(operation: operation, onGracefulShutdown: handler)
    #else
    try await operation()
    #endif
}
