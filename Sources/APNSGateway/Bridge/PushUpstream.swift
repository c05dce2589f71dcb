// SPDX-License-Identifier: Apache-2.0

public import APNSProviderHTTP2
import APNSSession
public import APNSWire

/// Sends a bridge's requests through a client of the HTTP/2 provider API.
///
/// The client must not send again by itself what may have been processed; the bridge decides about that.
public struct PushUpstream: Upstream {
    private let client: PushClient

    /// Makes one.
    ///
    /// - Parameter client: a client that runs.
    public init(_ client: PushClient) { self.client = client }

    /// Whether the client would take another request.
    public var hasRoom: Bool { self.client.hasRoom }

    /// Sends a request, when there is room.
    ///
    /// - Parameters:
    ///   - request: what to send.
    ///   - onAnswer: is called once.
    public func send(
        _ request: PushRequest,
        onAnswer: @escaping @Sendable (DeliveryOutcome, _ latency: Duration?) -> Void
    ) {
        switch self.client.submit(request, onReport: { onAnswer($0.outcome, $0.latency) }) {
        case .taken: break
        // Few come here, since providers are not read from while there is no room.
        case .full: self.client.whenRoom { self.send(request, onAnswer: onAnswer) }
        case .ended(let reason): onAnswer(.unsent(reason), nil)
        }
    }
}
