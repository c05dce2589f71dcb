// SPDX-License-Identifier: Apache-2.0

#if ServiceLifecycleSupport
import ServiceLifecycle
#endif

/// Runs an operation, and calls a handler if the surrounding service is gracefully shut down meanwhile.
///
/// Without the trait `ServiceLifecycleSupport`, the handler is never called.
///
/// Returns the result of `operation`.
///
/// - Throws: the error of `operation`.
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
