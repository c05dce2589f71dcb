// SPDX-License-Identifier: Apache-2.0

package import APNSSimulator
import APNSWire
import HTTPTypes
import HummingbirdCore
package import Logging

/// The control API of a simulator and its page.
///
/// It is there before the simulator is, which is told to report to it.
package final class SimulatorControl: Sendable {
    /// Why ``requests`` has an element: somebody asked for the end.
    package enum Request: Sendable { case shutdown }

    private let configuration: ControlConfiguration
    private let facts: StatusRoutes.Facts
    private let events = EventLog()
    private let continuation: AsyncStream<Request>.Continuation

    /// What clients ask of the program itself.
    package let requests: AsyncStream<Request>

    /// - Parameters:
    ///   - configuration: where it listens, and for whom.
    ///   - version: of the program.
    ///   - simulator: is told to report what happens in it.
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
    /// - Parameters:
    ///   - simulator: what was made of the configuration.
    ///   - logger: is told what goes wrong.
    ///   - body: is given the port.
    /// - Returns: what `body` returns.
    /// - Throws: what `body` throws, or `ServerError` where it cannot listen.
    package func withRunning<Value: Sendable>(
        _ simulator: Simulator,
        logger: Logger,
        _ body: @escaping @Sendable (Int) async throws -> Value
    ) async throws -> Value {
        let listener = ControlListener(self.configuration, routes: self.routes(simulator), logger: logger)
        return try await listener.withRunning(end: { self.events.end() }, body)
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

/// What the control API says of the simulator as a whole.
private struct StatusRoutes: Sendable {
    /// What does not change.
    struct Facts: Sendable {
        var version: String
        var environment: Environment
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
        var ports = JSONObjectText()
        ports.add("binary", self.simulator.gatewayPort)
        ports.add("feedback", self.simulator.feedbackPort)
        ports.add("http2", self.simulator.pushPort)
        var counts = JSONObjectText()
        counts.add("connections", statistics.connectionCount)
        counts.add("closedConnections", statistics.closedConnectionCount)
        counts.add("received", statistics.messageCount)
        counts.add("accepted", statistics.processedCount)
        counts.add("acceptedForRemovedApps", statistics.deadCount)
        counts.add("rejected", statistics.rejectedCount)
        counts.add("discarded", statistics.discardedCount)
        var object = JSONObjectText()
        object.add("version", self.facts.version)
        object.add("environment", self.facts.environment.rawValue)
        object.add("ports", json: ports.text)
        object.add("counts", json: counts.text)
        object.add("heldCount", self.simulator.recordCount)
        object.add("heldCountMax", self.facts.notificationCountMax)
        return object.text
    }
}
