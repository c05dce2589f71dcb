// SPDX-License-Identifier: Apache-2.0

public import APNSHTTP2

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
        onAnswer: @escaping @Sendable (UpstreamAnswer, _ latency: Duration?) -> Void
    ) {
        switch self.client.submit(request, onReport: { onAnswer(UpstreamAnswer($0.outcome), $0.latency) }) {
        case .taken: break
        // Few come here, since providers are not read from while there is no room.
        case .full: self.client.whenRoom { self.send(request, onAnswer: onAnswer) }
        case .ended(let trouble): onAnswer(UpstreamAnswer(unsent: trouble), nil)
        }
    }
}

extension UpstreamAnswer {
    package init(_ outcome: PushOutcome) {
        switch outcome {
        case .accepted: self = .answered(status: 200, reason: nil, timestamp: nil)
        case .rejected(let rejection):
            self = .answered(
                status: rejection.status,
                reason: rejection.reason.text,
                timestamp: rejection.timestamp
            )
        case .indeterminate: self = .lost
        case .unsent(let trouble): self.init(unsent: trouble)
        case .invalid(.payloadEmpty): self = .answered(status: 400, reason: "PayloadEmpty", timestamp: nil)
        case .invalid(.payloadTooLong): self = .answered(status: 413, reason: "PayloadTooLarge", timestamp: nil)
        case .invalid(.header("apns-push-type")):
            self = .answered(status: 400, reason: "InvalidPushType", timestamp: nil)
        case .invalid(.header): self = .answered(status: 400, reason: "BadTopic", timestamp: nil)
        }
    }

    fileprivate init(unsent trouble: PushTrouble) {
        if case .notPermitted(let detail) = trouble {
            self = .notPermitted(detail: detail)
        } else {
            self = .unprocessed
        }
    }
}
