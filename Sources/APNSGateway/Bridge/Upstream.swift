// SPDX-License-Identifier: Apache-2.0

public import APNSProviderHTTP2
import APNSSession
public import APNSWire

/// The destination of a bridge's requests: a client of the HTTP/2 provider API.
///
/// It must not retry requests that may have been processed; the bridge decides about those.
public protocol Upstream: Sendable {
    /// Whether another request would be sent soon; if not, providers are not read.
    var hasRoom: Bool { get }

    /// Sends a request without blocking.
    ///
    /// - Parameters:
    ///   - request: the request; all attempts for a notification have the same identifier.
    ///   - onAnswer: called once, from any thread, possibly before this returns, with the outcome of this attempt and
    ///     the response time of the service, without time in the queue; `nil` if there was no response.
    func send(_ request: PushRequest, onAnswer: @escaping @Sendable (DeliveryOutcome, _ latency: Duration?) -> Void)
}

extension RequestClient: Upstream {
    /// Sends a request as soon as there is room.
    ///
    /// - Parameters:
    ///   - request: the request.
    ///   - onAnswer: called once.
    public func send(
        _ request: PushRequest,
        onAnswer: @escaping @Sendable (DeliveryOutcome, _ latency: Duration?) -> Void
    ) {
        switch self.submitMeasured(request, onReport: { onAnswer($0.outcome, $0.latency) }) {
        case .taken: break
        // Rare, since providers are not read while there is no room.
        case .full: self.whenRoom { self.send(request, onAnswer: onAnswer) }
        case .ended(let reason): onAnswer(.unsent(reason), nil)
        }
    }
}
