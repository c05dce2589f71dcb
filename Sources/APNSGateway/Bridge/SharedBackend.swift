// SPDX-License-Identifier: Apache-2.0

package import APNSServer
package import APNSSession
import APNSWire
package import Logging
import Metrics
import NIOConcurrencyHelpers
package import NIOCore

/// Admits the providers of a gateway that shares its store with others.
///
/// Before a connection is read, the store is asked what is expected to be resent: another gateway may have sent the
/// error response. A feedback list is read from the store when it is requested.
package final class SharedBackend: DeferredAdmission, DeferredFeedback {
    private let backend: HTTP2Backend
    private let store: any SharedGatewayStore
    private let unchecked = Counter(label: "apns.legacy.connections.unchecked")
    private let logger: Logger

    /// Creates a backend.
    package init(_ backend: HTTP2Backend, _ store: any SharedGatewayStore, logger: Logger) {
        self.backend = backend
        self.store = store
        self.logger = logger
    }

    /// Refuses the provider, since ``decide(about:until:)`` is called instead.
    package func admit(_ provider: ProviderConnection) -> Admission { .refused }

    /// Refuses the provider, since ``decideList(of:until:)`` is called instead.
    package func open(_ provider: ProviderConnection) -> (any FeedbackList)? { nil }

    package func decide(
        about provider: ProviderConnection,
        until closed: EventLoopFuture<Void>
    ) -> EventLoopFuture<@Sendable () -> Admission> {
        guard let (bridge, topic) = self.backend.find(provider) else {
            return closed.eventLoop.makeSucceededFuture { .refused }
        }
        let last = bridge.state.withLockedValue(\.lastResend)
        let loaded = closed.eventLoop.makePromise(of: [ExpectedResend]?.self)
        self.store.load(of: bridge.configuration.name) { loaded.succeed($0) }
        return loaded.futureResult.map { resends in
            {
                if let resends {
                    bridge.merge(resends, since: last)
                } else {
                    self.unchecked.increment()
                    self.logger.warning(
                        "provider admitted without the resends of other gateways, which may be delivered twice",
                        metadata: [
                            LogKey.provider: "\(bridge.configuration.name)", LogKey.topic: "\(topic)",
                            LogKey.remoteAddress: "\(provider.remoteAddress)",
                        ]
                    )
                }
                // The configuration may have changed meanwhile.
                return self.backend.admit(provider)
            }
        }
    }

    package func decideList(
        of provider: ProviderConnection,
        until closed: EventLoopFuture<Void>
    ) -> EventLoopFuture<@Sendable () -> (any FeedbackList)?> {
        guard let list = self.backend.list(of: provider) else {
            return closed.eventLoop.makeSucceededFuture { nil }
        }
        let opened = closed.eventLoop.makePromise(of: Bool.self)
        self.store.open(list) { opened.succeed($0) }
        return opened.futureResult.map { isOpen in
            {
                guard !isOpen else { return BridgeFeedbackList(self.store, list) }
                self.logger.warning(
                    "feedback refused, since the shared database does not answer",
                    metadata: [
                        LogKey.topic: "\(list.topic)", LogKey.remoteAddress: "\(provider.remoteAddress)",
                    ]
                )
                return nil
            }
        }
    }
}
