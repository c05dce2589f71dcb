// SPDX-License-Identifier: Apache-2.0

package import APNSProviderHTTP2
package import APNSSession
package import APNSWire
package import Logging

extension RequestClient {
    /// Runs a client for the duration of a closure, and afterwards waits for all outcomes.
    package static func withClient<Value: Sendable>(
        _ configuration: HTTP2Configuration,
        logger: Logger = .current,
        _ body: @Sendable (RequestClient) async throws -> Value
    ) async throws -> Value {
        let client = try RequestClient(configuration, logger: logger)
        async let running: Void = client.run()
        let result: Result<Value, any Error>
        do { result = .success(try await body(client)) } catch { result = .failure(error) }
        client.finish()
        try await running
        return try result.get()
    }

    /// Sends a request, and waits for its outcome.
    package func send(_ request: PushRequest) async -> DeliveryOutcome { await self.report(of: request).outcome }

    /// Sends a request, and waits for its outcome with details.
    package func report(of request: PushRequest) async -> DeliveryReport {
        await withCheckedContinuation { continuation in
            self.submit(request, continuation)
        }
    }

    private func submit(_ request: PushRequest, _ continuation: CheckedContinuation<DeliveryReport, Never>) {
        switch self.submitMeasured(request, onReport: { continuation.resume(returning: $0) }) {
        case .submitted: break
        case .full: self.whenRoom { self.submit(request, continuation) }
        case .ended(let reason): continuation.resume(returning: DeliveryReport(.unsent(reason)))
        }
    }
}
