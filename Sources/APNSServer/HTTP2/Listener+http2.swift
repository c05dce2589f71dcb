// SPDX-License-Identifier: Apache-2.0

public import Logging
public import NIOCore
import NIOHTTP2
public import NIOPosix
import OpenSSLTLS

extension Listener {
    /// How many control frames, or resets of streams, a client may send in a window of 30 s.
    private static let frameCountMax = 20_000

    /// Makes the service's end of the HTTP/2 provider API, as far as clients can tell, which does not listen yet.
    ///
    /// It checks a request in this order, and answers the first fault:
    /// 1. headers: `apns-id` (a UUID in either letter case), none twice, method, topic, collapse identifier, priority,
    ///    expiration, push type, what the push type asks of priority, expiration and topic, path;
    /// 2. credentials: the certificate (revoked, of the other environment, a push type that it is not for), or else
    ///    the provider token (signature and team, key of the connection, environment, age, renewal), and whether they
    ///    are for the topic;
    /// 3. the device token is there; the payload is there; the device token has 1 to 100 bytes in hexadecimal digits;
    ///    the payload is not too long; it is a JSON object, where ``PushServerConfiguration/payloadCheck`` says so;
    /// 4. whatever ``PushService/take(_:)`` checks, such as the device.
    ///
    /// On graceful shutdown it tells its clients that it goes away, and answers what it has.
    ///
    /// - Parameters:
    ///   - configuration: where it listens, whom it lets in, and how it behaves.
    ///   - service: where the requests go.
    ///   - eventLoopGroup: by default NIO's own.
    ///   - logger: is told of connections and refusals, at debug level.
    public convenience init(
        _ configuration: PushServerConfiguration,
        service: any PushService,
        eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        logger: Logger = .current
    ) {
        let validator = ProviderTokenValidator(configuration)
        let parts = Parts(
            farewell: PushServerHandler.GoAway(),
            allowsHalfClosure: false,
            configureTLS: {
                $0.clientCertificates = .optional
                $0.applicationProtocols = ["h2"]
                $0.shutdownTimeout = .seconds(1)
            },
            handlers: { connection in
                [
                    Self.frameHandler(configuration),
                    PushServerHandler(connection, configuration, service: service, validator: validator),
                ]
            }
        )
        self.init(configuration.listener, parts, eventLoopGroup: eventLoopGroup, logger: logger)
    }

    private static func frameHandler(_ configuration: PushServerConfiguration) -> NIOHTTP2Handler {
        var connection = NIOHTTP2Handler.ConnectionConfiguration()
        connection.initialSettings = [
            HTTP2Setting(parameter: .maxConcurrentStreams, value: configuration.streamCountFirst),
            HTTP2Setting(parameter: .maxHeaderListSize, value: 16_384),
        ]
        connection.controlFrameRateLimit.maximumCount = Self.frameCountMax
        var stream = NIOHTTP2Handler.StreamConfiguration()
        stream.streamResetFrameRateLimit.maximumCount = Self.frameCountMax
        stream.streamErrorRateLimit.maximumCount = Self.frameCountMax
        return NIOHTTP2Handler(mode: .server, connectionConfiguration: connection, streamConfiguration: stream)
    }
}
