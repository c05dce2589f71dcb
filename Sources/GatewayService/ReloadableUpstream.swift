// SPDX-License-Identifier: Apache-2.0

import APNSGateway
import APNSProviderHTTP2
import APNSWire
import NIOConcurrencyHelpers

/// The current client of the service for a provider.
///
/// A reload of the certificates replaces it, also for open connections.
final class ReloadableUpstream: Upstream {
    private let upstream: NIOLockedValueBox<any Upstream>

    init(_ upstream: any Upstream) { self.upstream = NIOLockedValueBox(upstream) }

    func replace(with upstream: any Upstream) { self.upstream.withLockedValue { $0 = upstream } }

    private var current: any Upstream { self.upstream.withLockedValue { $0 } }

    var hasRoom: Bool { self.current.hasRoom }

    func send(
        _ request: PushRequest,
        onAnswer: @escaping @Sendable (DeliveryOutcome, _ latency: Duration?) -> Void
    ) {
        self.current.send(request, onAnswer: onAnswer)
    }
}
