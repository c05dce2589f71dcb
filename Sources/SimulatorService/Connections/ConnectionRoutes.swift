// SPDX-License-Identifier: Apache-2.0

import APNSSimulator
import APNSTransport
import HTTPTypes
import HummingbirdCore
import APNSJSON
import OpenSSLTLS

/// The routes of the control API for connections of providers.
struct ConnectionRoutes: Sendable {
    let simulator: Simulator

    var routes: [ControlRoute] {
        [
            ControlRoute(.get, "/connections") { try self.list($0) },
            ControlRoute(.delete, "/connections/{listener}/{number}") { try self.end($0) },
        ]
    }

    private struct Key: Hashable {
        var listener: SimulatorListener
        var number: UInt64
    }

    private func list(_ request: ControlRequest) throws -> Response {
        _ = try request.query([])
        var counts: [Key: (all: Int, rejected: Int)] = [:]
        self.simulator.visitOrigins { origin in
            let key = Key(listener: origin.listener, number: origin.connectionNumber)
            counts[key, default: (0, 0)].all += origin.numbers.count
            if origin.areRejected { counts[key]?.rejected += origin.numbers.count }
        }
        let connections = self.simulator.connections.map { connection in
            let count = counts[Key(listener: connection.listener, number: connection.number)] ?? (0, 0)
            var object = connection.object
            object.add("notificationCount", count.all)
            object.add("rejectedCount", count.rejected)
            return object
        }
        return Response(json: JSONObject { $0.add("connections", elements: connections) }.text)
    }

    private func end(_ request: ControlRequest) throws -> Response {
        let query = try request.query(["ending"])
        guard let listener = SimulatorListener(rawValue: try request.parameter("listener")) else {
            throw ControlError(.badRequest, "invalid listener in the path; valid values: binary, feedback, http2")
        }
        let number = try request.number("number")
        let text = query["ending"] ?? FaultReport.Ending.orderly.rawValue
        guard let ending = FaultReport.Ending(rawValue: text) else {
            let words = FaultReport.Ending.allCases.map(\.rawValue).joined(separator: ", ")
            throw ControlError(.badRequest, "invalid ending; valid values: \(words)")
        }
        guard self.simulator.endConnection(number, of: listener, ending) else {
            throw ControlError(.notFound, "\(listener) has no open connection \(number)")
        }
        return Response(json: "{}")
    }
}

extension ConnectionRecord {
    var json: String { self.object.text }

    fileprivate var object: JSONObject {
        var object = JSONObject()
        object.add("listener", self.listener.rawValue)
        object.add("number", self.number)
        object.add("remoteAddress", self.remoteAddress)
        object.add("openedAt", time: self.openedAt)
        object.add("closedAt", time: self.closedAt)
        if let identity = self.identity {
            var certificate = JSONObject()
            certificate.add("subject", identity.subject)
            certificate.add("fingerprint", identity.fingerprint)
            certificate.add("topics", texts: identity.topics)
            certificate.add("notAfter", time: identity.notAfter)
            object.add("certificate", certificate)
        }
        object.add("tlsVersion", self.tlsVersion?.description)
        object.add("cipher", self.cipherName)
        object.add("applicationProtocol", self.applicationProtocol)
        return object
    }
}
