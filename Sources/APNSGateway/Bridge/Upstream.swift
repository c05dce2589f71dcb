// SPDX-License-Identifier: Apache-2.0

public import APNSProvider
public import APNSProviderHTTP2
import APNSSession
import APNSTransport
public import APNSWire
public import Logging
import NIOConcurrencyHelpers
public import NIOCore
public import NIOPosix

#if ServiceLifecycleSupport
public import ServiceLifecycle

extension HTTP2Upstream: Service {}
#endif

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
    ///   - onResponse: called once, from any thread, possibly before this returns, with the outcome of this attempt and
    ///     the response time of the service, without time in the queue; `nil` if there was no response.
    func send(_ request: PushRequest, onResponse: @escaping @Sendable (DeliveryOutcome, _ latency: Duration?) -> Void)
}

/// The HTTP/2 provider API as the destination of a bridge.
///
/// ``run()`` does the work; a graceful shutdown waits for all outcomes.
public final class HTTP2Upstream: Upstream {
    private let client: RequestClient

    /// Creates a destination; it connects only for the first request.
    ///
    /// - Parameters:
    ///   - configuration: the service and the options.
    ///   - eventLoopGroup: the event loops; NIO's singleton by default.
    ///   - logger: receives connections and requests that are not accepted at debug level, and other requests at trace
    ///     level, with the identifiers of the requests.
    /// - Throws: `ProviderError` of kind `configuration` for values out of range, of kind `tls` for certificates and
    ///   keys that cannot be used.
    public init(
        _ configuration: HTTP2Configuration,
        eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        logger: Logger = .current
    ) throws(ProviderError) {
        self.client = try RequestClient(configuration, eventLoopGroup: eventLoopGroup, logger: logger)
        self.description = "HTTP/2 upstream at \(configuration.endpoint)"
    }

    /// The address of the service, in one line.
    public let description: String

    /// Keeps connections open until ``finish()`` was called and everything is settled; can be called once.
    ///
    /// When the task is cancelled, sending stops immediately: what was written is indeterminate, the rest unsent.
    ///
    /// - Throws: `ProviderError` if it was called before, or if sending cannot succeed. Every request has its outcome
    ///   then, too.
    public func run() async throws {
        try await withShutdownHandler {
            try await self.client.run()
        } onGracefulShutdown: {
            self.finish()
        }
    }

    /// Whether another request can be in progress now.
    public var hasRoom: Bool { self.client.hasRoom }

    /// Sends a request.
    ///
    /// - Parameters:
    ///   - request: the request.
    ///   - onResponse: receives the outcome once, from any thread, and the time until the answer if there was one.
    public func send(
        _ request: PushRequest,
        onResponse: @escaping @Sendable (DeliveryOutcome, _ latency: Duration?) -> Void
    ) {
        switch self.client.submitMeasured(request, onReport: { onResponse($0.outcome, $0.latency) }) {
        case .submitted: break
        // Rare, since providers are not read while there is no room.
        case .full: self.client.whenRoom { self.send(request, onResponse: onResponse) }
        case .ended(let reason): onResponse(.unsent(reason), nil)
        }
    }

    /// Ends submissions: what was submitted gets its outcome, then ``run()`` returns.
    public func finish() { self.client.finish() }

    /// Stops sending: waiting requests are unsent, written ones get their outcome, then ``run()`` returns.
    public func abandon() { self.client.abandon() }
}

extension HTTP2Upstream: CustomStringConvertible, CustomReflectable {
    /// Empty, so that `dump` prints only the ``description``.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}

/// The current client of the service for a provider.
///
/// A reload of the certificates replaces it, also for open connections.
package final class ReloadableUpstream: Upstream {
    private let upstream: NIOLockedValueBox<any Upstream>

    package init(_ upstream: any Upstream) { self.upstream = NIOLockedValueBox(upstream) }

    package func replace(with upstream: any Upstream) { self.upstream.withLockedValue { $0 = upstream } }

    private var current: any Upstream { self.upstream.withLockedValue { $0 } }

    package var hasRoom: Bool { self.current.hasRoom }

    package func send(
        _ request: PushRequest,
        onResponse: @escaping @Sendable (DeliveryOutcome, _ latency: Duration?) -> Void
    ) {
        self.current.send(request, onResponse: onResponse)
    }
}
