// SPDX-License-Identifier: Apache-2.0

package import APNSSimulator
import APNSWire
import HTTPTypes
import HummingbirdCore
import APNSJSON
package import Logging
import NIOCore
import ServiceSupport
import CSimulatorPage

/// The control API of a simulator, with its page.
///
/// It is created before the simulator, whose configuration it extends with an observer.
package final class SimulatorControl: Sendable {
    /// An element of ``requests``: a client asked for the shutdown.
    package enum Request: Sendable { case shutdown }

    private let configuration: ControlConfiguration
    private let facts: StatusRoutes.Facts
    private let events = EventLog()
    private let continuation: AsyncStream<Request>.Continuation

    /// The requests of clients to the program itself.
    package let requests: AsyncStream<Request>

    package init(_ configuration: ControlConfiguration, version: String, of simulator: inout SimulatorConfiguration) {
        self.configuration = configuration
        self.facts = StatusRoutes.Facts(
            version: version,
            environment: simulator.environment,
            notificationCountMax: simulator.receivedCountMax
        )
        (self.requests, self.continuation) = AsyncStream.makeStream(bufferingPolicy: .bufferingOldest(1))
        let next = simulator.onChange
        simulator.onChange = { [events] change in
            next?(change)
            events.append(change)
        }
    }

    /// Serves a simulator while `body` runs.
    ///
    /// Returns what `body` returns.
    ///
    /// - Throws: the error of `body`, or `ServerError` if it cannot listen.
    package func withRunning<Value>(
        _ simulator: Simulator,
        logger: Logger,
        _ body: (Int) async throws -> Value
    ) async throws -> Value {
        let responder = ControlResponder(self.configuration, routes: self.routes(simulator), logger: logger)
        let listener = HTTPListener(host: self.configuration.host, port: self.configuration.port, logger: logger) {
            await responder.respond(to: $0, on: $1)
        }
        return try await listener.withRunning(end: { self.events.end() }) { try await body($0.port ?? 0) }
    }

    /// All operations.
    func routes(_ simulator: Simulator) -> [ControlRoute] {
        let strings = self.configuration.strings
        return EmbeddedFiles.routes + StatusRoutes(simulator: simulator, facts: self.facts).routes
            + NotificationRoutes(simulator: simulator, events: self.events, strings: strings).routes
            + EventStream(simulator: simulator, events: self.events, strings: strings).routes
            + ConnectionRoutes(simulator: simulator).routes + RevocationRoutes(simulator: simulator).routes
            + DeviceRoutes(simulator: simulator).routes + FaultRoutes(simulator: simulator).routes
            + [
                ControlRoute(.post, "/reset") { request in
                    _ = try request.query([])
                    simulator.reset()
                    return Response(json: "{}")
                },
                ControlRoute(.post, "/shutdown") { [continuation] request in
                    _ = try request.query([])
                    continuation.yield(.shutdown)
                    return Response(status: .accepted, json: "{}")
                },
            ]
    }
}

/// The route for the status of the simulator.
private struct StatusRoutes: Sendable {
    /// Constant properties.
    struct Facts: Sendable {
        var version: String
        var environment: PushEnvironment
        var notificationCountMax: Int
    }

    let simulator: Simulator
    let facts: Facts

    var routes: [ControlRoute] {
        [
            ControlRoute(.get, "/status") { request in
                _ = try request.query([])
                return Response(json: self.status)
            }
        ]
    }

    private var status: String {
        let statistics = self.simulator.statistics
        var ports = JSONObject()
        ports.add("binary", self.simulator.gatewayPort)
        ports.add("feedback", self.simulator.feedbackPort)
        ports.add("http2", self.simulator.http2Port)
        var counts = JSONObject()
        counts.add("connections", statistics.connectionCount)
        counts.add("closedConnections", statistics.closedConnectionCount)
        counts.add("received", statistics.messageCount)
        counts.add("accepted", statistics.processedCount)
        counts.add("acceptedForRemovedApps", statistics.deadCount)
        counts.add("rejected", statistics.rejectedCount)
        counts.add("discarded", statistics.discardedCount)
        var object = JSONObject()
        object.add("version", self.facts.version)
        object.add("environment", self.facts.environment.rawValue)
        object.add("ports", ports)
        object.add("counts", counts)
        object.add("heldCount", self.simulator.recordCount)
        object.add("heldCountMax", self.facts.notificationCountMax)
        return object.text
    }
}

/// The files of the page, and the description of the API.
enum EmbeddedFiles {
    static var routes: [ControlRoute] {
        var routes: [ControlRoute] = []
        var index: UInt = 0
        while let file = unsafe embedded_file(index) {
            let path = unsafe String(cString: file.pointee.path)
            let type = unsafe String(cString: file.pointee.content_type)
            let bytes = unsafe ByteBuffer(
                bytes: UnsafeRawBufferPointer(start: file.pointee.bytes, count: Int(file.pointee.byte_count))
            )
            routes.append(
                ControlRoute(.get, path) { request in
                    // The page keeps what it shows in the query of its address.
                    if path != "/" { _ = try request.query([]) }
                    return Response(
                        status: .ok,
                        headers: [.contentType: type],
                        body: ResponseBody(byteBuffer: bytes)
                    )
                }
            )
            index += 1
        }
        return routes
    }
}
