// SPDX-License-Identifier: Apache-2.0

import APNSSimulator
import HTTPTypes
import HummingbirdCore
import APNSPayload
import APNSJSON
import NIOCore
import ServiceSupport

/// The routes of the control API for faults.
struct FaultRoutes: Sendable {
    let simulator: Simulator

    var routes: [ControlRoute] {
        [
            ControlRoute(.get, "/faults") { try self.list($0) },
            ControlRoute(.post, "/faults") { try await self.add($0) },
            ControlRoute(.put, "/faults") { try await self.replace($0) },
            ControlRoute(.get, "/faults/log") { try self.log($0) },
            ControlRoute(.patch, "/faults/{id}") { try await self.change($0) },
            ControlRoute(.delete, "/faults/{id}") { try self.remove($0) },
        ]
    }

    private static func answer(_ faults: [ScheduledFault]) -> Response {
        Response(json: JSONObject { $0.add("faults", elements: faults.map(\.json)) }.text)
    }

    private func list(_ request: ControlRequest) throws -> Response {
        _ = try request.query([])
        return Self.answer(self.simulator.faults)
    }

    /// Parses the body; `nil` if it is empty.
    private func document(_ request: ControlRequest) async throws -> YAMLNode? {
        _ = try request.query([])
        let body = try await request.body()
        if request.isJSON {
            do { return YAMLNode(json: try JSONValue(parsing: Array(body.readableBytesView))) } catch {
                throw ControlError(.badRequest, "invalid JSON: \(error)")
            }
        }
        guard let text = String(validating: body.readableBytesView, as: UTF8.self) else {
            throw ControlError(.badRequest, "the body is not valid UTF-8")
        }
        return try YAMLNode(yaml: text, isTrusted: false)
    }

    private func add(_ request: ControlRequest) async throws -> Response {
        do {
            let entry = try FaultsFile.entry(await self.document(request))
            let fault = try self.simulator.add(entry.fault, isEnabled: entry.isEnabled)
            return Response(status: .created, json: fault.json)
        } catch let error as YAMLNode.Problem {
            throw ControlError(.badRequest, "\(error)")
        } catch let error as SimulatorError {
            throw ControlError(error)
        }
    }

    private func replace(_ request: ControlRequest) async throws -> Response {
        do {
            guard let document = try await self.document(request) else {
                throw ControlError(.badRequest, "the body is empty; to remove all faults, send {\"faults\":[]}")
            }
            let file = try FaultsFile(document)
            return Self.answer(try self.simulator.replaceFaults(file.entries))
        } catch let error as YAMLNode.Problem { throw ControlError(.badRequest, "\(error)") }
    }

    private func log(_ request: ControlRequest) throws -> Response {
        let query = try request.query(["after"])
        guard let after = UInt64(query["after"] ?? "0") else {
            throw ControlError(.badRequest, "invalid after: expected the number of an entry")
        }
        let applications = self.simulator.faultApplications.filter { $0.number > after }.map(\.json)
        return Response(json: JSONObject { $0.add("applications", elements: applications) }.text)
    }

    private func identifier(_ request: ControlRequest) throws -> (Int, ControlError) {
        let number = try request.number("id")
        return (Int(clamping: number), ControlError(.notFound, "no fault with the ID \(number)"))
    }

    private func change(_ request: ControlRequest) async throws -> Response {
        _ = try request.query([])
        let (identifier, notFound) = try self.identifier(request)
        guard let isEnabled = try await request.object(["isEnabled"]).boolean("isEnabled") else {
            throw ControlError(.badRequest, "no change given; expected isEnabled")
        }
        guard let fault = self.simulator.setEnabled(isEnabled, fault: identifier) else { throw notFound }
        return Response(json: fault.json)
    }

    private func remove(_ request: ControlRequest) throws -> Response {
        _ = try request.query([])
        let (identifier, notFound) = try self.identifier(request)
        guard self.simulator.removeFault(identifier) else { throw notFound }
        return Response(json: "{}")
    }
}

extension ScheduledFault {
    var json: String {
        var object = JSONObject()
        object.add("id", self.id)
        object.add("isEnabled", self.isEnabled)
        object.add("occurrenceCount", self.occurrenceCount)
        object.add("warning", self.warning)
        // Encoding the fault's own keys never fails, since no value is infinite.
        if case .object(let members)? = try? JSONValue(encoding: self.fault) {
            for (name, value) in members.sorted(by: { $0.key < $1.key }) {
                object.add(name, json: String(decoding: value.bytes, as: UTF8.self))
            }
        }
        return object.text
    }
}

extension FaultApplication {
    var json: String {
        var object = JSONObject()
        object.add("number", self.number)
        object.add("fault", self.fault)
        object.add("at", time: self.timestamp)
        object.add("listener", self.listener.rawValue)
        object.add("connection", self.connectionNumber)
        object.add("notification", self.notificationNumber)
        object.add("notificationNumber", self.recordNumber)
        if let effect = try? JSONValue(encoding: self.effect) {
            object.add("effect", json: String(decoding: effect.bytes, as: UTF8.self))
        }
        return object.text
    }
}
