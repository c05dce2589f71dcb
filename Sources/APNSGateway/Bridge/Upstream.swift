// SPDX-License-Identifier: Apache-2.0

public import APNSProviderHTTP2
import APNSSession
public import APNSWire

/// Where a bridge's requests go: a client of the HTTP/2 provider API.
///
/// It must not send again by itself what may have been processed; the bridge decides about that.
public protocol Upstream: Sendable {
    /// Whether another request would go out soon; where there is no room, providers are not read from.
    var hasRoom: Bool { get }

    /// Sends a request, and never waits.
    ///
    /// - Parameters:
    ///   - request: what to send; all tries of a notification have the same identifier.
    ///   - onAnswer: is called once, from any thread, also at once, with what came of this attempt, and how long the
    ///     service took for its answer, without any wait before the request went out; `nil` where it gave none.
    func send(_ request: PushRequest, onAnswer: @escaping @Sendable (DeliveryOutcome, _ latency: Duration?) -> Void)
}

extension RequestClient: Upstream {
    /// Sends a request, when there is room.
    ///
    /// - Parameters:
    ///   - request: what to send.
    ///   - onAnswer: is called once.
    public func send(
        _ request: PushRequest,
        onAnswer: @escaping @Sendable (DeliveryOutcome, _ latency: Duration?) -> Void
    ) {
        switch self.submitMeasured(request, onReport: { onAnswer($0.outcome, $0.latency) }) {
        case .taken: break
        // Few come here, since providers are not read from while there is no room.
        case .full: self.whenRoom { self.send(request, onAnswer: onAnswer) }
        case .ended(let reason): onAnswer(.unsent(reason), nil)
        }
    }
}
