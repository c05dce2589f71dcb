// SPDX-License-Identifier: Apache-2.0

public import Logging
public import NIOCore
import NIOHTTP2
public import NIOPosix
import OpenSSLTLS

extension Listener {
    /// The number of control frames, or stream resets, that a client may send in 30 s.
    private static let frameCountMax = 20_000

    /// Creates a server of the HTTP/2 provider API that does not listen yet.
    ///
    /// It checks a request in this order, and responds with the first error:
    /// 1. headers: `apns-id` (a UUID in either letter case), duplicates, method, topic, collapse identifier, priority,
    ///    expiration, push type, the constraints of the push type on priority, expiration and topic, path;
    /// 2. credentials: the certificate (revoked, for the other environment, push type not permitted), otherwise the
    ///    provider token (key, signature and team, key of the connection, environment, times, renewal), and whether
    ///    they permit the topic;
    /// 3. device token and payload: both are present; the device token has 1 to 100 bytes in hexadecimal digits; the
    /// payload
    ///    is not too long, and is a JSON object if ``HTTP2ListenerConfiguration/payloadCheck`` is set;
    /// 4. the checks of ``PushService/handle(_:)``, such as the device.
    ///
    /// On graceful shutdown it sends GOAWAY, and responds to open requests.
    ///
    /// - Parameters:
    ///   - configuration: the address, admission rules and behavior.
    ///   - service: the destination of the requests.
    ///   - eventLoopGroup: the event loops; by default NIO's singleton.
    ///   - logger: receives connections and refusals, at debug level.
    public convenience init(
        _ configuration: HTTP2ListenerConfiguration,
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

    private static func frameHandler(_ configuration: HTTP2ListenerConfiguration) -> NIOHTTP2Handler {
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
