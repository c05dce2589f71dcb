// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSSimulator
import APNSWire
import HTTPTypes
import HummingbirdCore
import APNSJSON

/// The routes of the control API for devices, tokens and feedback.
struct DeviceRoutes: Sendable {
    let simulator: Simulator

    var routes: [ControlRoute] {
        [
            ControlRoute(.get, "/devices") { try self.list($0) },
            ControlRoute(.post, "/devices") { try await self.add($0) },
            ControlRoute(.get, "/devices/{id}") { try self.answer(self.device($0)) },
            ControlRoute(.patch, "/devices/{id}") { try await self.change($0) },
            ControlRoute(.delete, "/devices/{id}") { try self.remove($0) },
            ControlRoute(.put, "/devices/{id}/apps/{topic}") { try await self.install($0) },
            ControlRoute(.delete, "/devices/{id}/apps/{topic}") { try self.uninstall($0) },
            ControlRoute(.get, "/tokens/{token}") { try self.token($0) },
            ControlRoute(.get, "/feedback") { try self.feedback($0) },
            ControlRoute(.post, "/feedback") { try await self.addFeedback($0) },
            ControlRoute(.delete, "/feedback") { try self.clearFeedback($0) },
        ]
    }

    // MARK: Devices

    private func list(_ request: ControlRequest) throws -> Response {
        _ = try request.query([])
        return Response(json: JSONObject { $0.add("devices", elements: self.simulator.devices.map(\.json)) }.text)
    }

    private func answer(_ device: SimulatedDevice, _ status: HTTPResponse.Status = .ok) -> Response {
        Response(status: status, json: device.json)
    }

    /// Returns the device of the path, by its identifier or one of its tokens.
    private func device(_ request: ControlRequest) throws -> SimulatedDevice {
        let name = try request.parameter("id")
        if let device = self.simulator.device(name) { return device }
        if let token = try? DeviceToken(name), let device = self.simulator.device(of: token) { return device }
        throw ControlError(.notFound, "no device with the identifier or token \(name)")
    }

    private func add(_ request: ControlRequest) async throws -> Response {
        _ = try request.query([])
        let body = try await request.object(["topic", "topics", "token", "identifier", "isOnline", "environment"])
        var topics = try body.strings("topics") ?? []
        if let topic = try body.string("topic") { topics.insert(topic, at: 0) }
        guard !topics.isEmpty, Set(topics).count == topics.count else {
            throw ControlError(.badRequest, "expected topic, or topics with one or more different topics")
        }
        for topic in topics { try Self.check(topic) }
        let token = try body.token("token")
        guard token == nil || topics.count == 1 else {
            throw ControlError(.badRequest, "token requires exactly one topic; omit token or specify one topic")
        }
        let environment = try body.environment("environment")
        let identifier = try body.string("identifier")
        if let identifier { try Self.check(identifier: identifier) }
        if let identifier, self.simulator.device(identifier) != nil {
            throw ControlError(.conflict, "device \(identifier) already exists; use PUT to add an app")
        }
        if let token, self.simulator.device(of: token) != nil {
            throw ControlError(.conflict, "another device has this token; delete that device or use another token")
        }
        let isOnline = try body.boolean("isOnline") ?? true
        guard topics.count <= SimulatedDevice.appCountMax else {
            throw ControlError(.tooManyApps(countMax: SimulatedDevice.appCountMax))
        }
        var name = identifier
        for topic in topics {
            let app = try self.register(topic, token, environment, on: name)
            name = name ?? self.simulator.device(of: app.token)?.id ?? self.identifier(of: app)
        }
        guard let name, isOnline || self.simulator.setOnline(false, device: name),
            let device = self.simulator.device(name)
        else { throw ControlError(.conflict, "the device was removed during the request") }
        return self.answer(device, .created)
    }

    private static func check(_ topic: String) throws(ControlError) {
        guard TopicFamily.isTopic(topic) else {
            throw ControlError(
                .badRequest,
                "invalid topic: expected 1 to 255 letters, digits, hyphens, periods and underscores"
            )
        }
    }

    /// The maximum length of a device identifier in bytes.
    private static let identifierByteCountMax = 128

    private static func check(identifier: String) throws(ControlError) {
        let isText = identifier.unicodeScalars.allSatisfy { scalar in
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .unassigned: false
            default: true
            }
        }
        guard isText, (1...self.identifierByteCountMax).contains(identifier.utf8.count) else {
            throw ControlError(
                .badRequest,
                "invalid identifier: expected 1 to \(self.identifierByteCountMax) bytes of text in one line"
            )
        }
    }

    private func register(
        _ topic: String,
        _ token: DeviceToken?,
        _ environment: PushEnvironment?,
        on identifier: String?
    ) throws(ControlError) -> SimulatedApp {
        do throws(SimulatorError) {
            return try self.simulator.register(topic: topic, token: token, environment: environment, on: identifier)
        } catch {
            throw ControlError(error)
        }
    }

    /// The device of an app of the other environment, which is not found by its token.
    private func identifier(of app: SimulatedApp) -> String? {
        self.simulator.devices.first { $0.apps.contains { $0.token == app.token } }?.id
    }

    private func change(_ request: ControlRequest) async throws -> Response {
        _ = try request.query([])
        let device = try self.device(request)
        let body = try await request.object(["isOnline"])
        guard let isOnline = try body.boolean("isOnline") else {
            throw ControlError(.badRequest, "no change given; expected isOnline")
        }
        self.simulator.setOnline(isOnline, device: device.id)
        return try self.answer(self.device(request))
    }

    private func remove(_ request: ControlRequest) throws -> Response {
        _ = try request.query([])
        self.simulator.removeDevice(try self.device(request).id)
        return Response(json: "{}")
    }

    // MARK: Apps

    private func install(_ request: ControlRequest) async throws -> Response {
        _ = try request.query([])
        let (device, topic) = (try self.device(request), try request.parameter("topic"))
        try Self.check(topic)
        let body = try await request.object(["token", "environment"])
        let (token, environment) = (try body.token("token"), try body.environment("environment"))
        _ = try self.register(topic, token, environment, on: device.id)
        return self.answer(self.simulator.device(device.id) ?? device)
    }

    private func uninstall(_ request: ControlRequest) throws -> Response {
        let query = try request.query(["at"])
        let (device, topic) = (try self.device(request), try request.parameter("topic"))
        let time = try query["at"].map { try Self.time($0, "at") }
        let environment = self.simulator.environment
        let apps = device.apps.filter { $0.topic == topic }
        guard let app = apps.first(where: { $0.environment == environment }) ?? apps.first else {
            throw ControlError(.notFound, "\(device.id) never had the app \(topic)")
        }
        guard app.environment == environment else {
            throw ControlError(
                .conflict,
                "the app on \(device.id) is for \(app.environment), but the simulator is for \(environment)"
            )
        }
        guard self.simulator.remove(app.token, at: time) || time == nil else { throw Self.deletedAlready }
        return self.answer(self.simulator.device(device.id) ?? device)
    }

    /// The error for a time given twice.
    private static var deletedAlready: ControlError {
        ControlError(.conflict, "the app was already deleted and keeps its time; use PUT to install it again")
    }

    private static func time(_ text: String, _ name: String) throws -> Timestamp {
        guard let time = TimeText(text: text) else {
            throw ControlError(.badRequest, "invalid \(name): expected a time such as 2026-01-05T10:00:00Z")
        }
        return Timestamp(secondsSince1970: time.seconds)
    }

    // MARK: Tokens and feedback

    private func token(_ request: ControlRequest) throws -> Response {
        _ = try request.query([])
        let text = try request.parameter("token")
        let token: DeviceToken
        do { token = try DeviceToken(text) } catch {
            throw ControlError(.badRequest, "invalid device token in the path: \(error)")
        }
        let found = self.simulator.devices.lazy.compactMap { device in
            device.apps.first { $0.token == token }.map { (device, $0) }
        }.first
        guard let (device, app) = found else { return try self.retired(token) }
        var object = app.object
        object.add("device", device.id)
        object.add("isOnline", device.isOnline)
        return Response(json: object.text)
    }

    /// Describes a token that HTTP/2 rejects with 410, although no app has it.
    private func retired(_ token: DeviceToken) throws -> Response {
        guard let retired = self.simulator.retiredToken(token) else {
            throw ControlError(.notFound, "no app on any device has, or had, this token")
        }
        var object = JSONObject()
        object.add("token", token.hexadecimal)
        object.add("topic", retired.topic)
        object.add("environment", self.simulator.environment.rawValue)
        object.add("isInstalled", false)
        object.add(retired.isReplaced ? "replacedAt" : "removedAt", time: retired.timestamp)
        return Response(json: object.text)
    }

    private func feedback(_ request: ControlRequest) throws -> Response {
        _ = try request.query([])
        return Response(json: self.simulator.feedbackJSON)
    }

    private func addFeedback(_ request: ControlRequest) async throws -> Response {
        _ = try request.query([])
        let body = try await request.object(["token", "failedAt"])
        guard let token = try body.token("token") else { throw ControlError(.badRequest, "missing key: token") }
        let time = try body.string("failedAt").map { try Self.time($0, "failedAt") }
        let isRemoved = self.simulator.remove(token, at: time)
        guard isRemoved || time == nil || !self.isGone(token) else { throw Self.deletedAlready }
        guard self.simulator.listFeedback(token) else {
            throw ControlError(.notFound, "no app on any device has this token; use POST /devices to register one")
        }
        return Response(status: .created, json: self.simulator.feedbackJSON)
    }

    /// Whether an app of this environment had a token and no longer has it.
    private func isGone(_ token: DeviceToken) -> Bool {
        self.simulator.retiredToken(token) != nil || self.simulator.device(of: token) != nil
    }

    private func clearFeedback(_ request: ControlRequest) throws -> Response {
        _ = try request.query([])
        self.simulator.removeAllFeedback()
        return Response(json: "{}")
    }
}

extension ControlError {
    /// A limit is reached.
    init(_ error: SimulatorError) {
        self.init(HTTPResponse.Status(code: 507, reasonPhrase: "Insufficient Storage"), "\(error)")
    }
}

extension Simulator {
    /// The feedback entries.
    var feedbackJSON: String {
        let entries = self.feedback.map { entry in
            JSONObject { object in
                object.add("token", entry.tuple.token.hexadecimal)
                object.add("topic", entry.topic)
                object.add("failedAt", time: entry.tuple.failedAt)
            }
        }
        return JSONObject { $0.add("entries", elements: entries) }.text
    }
}

extension SimulatedDevice {
    var json: String {
        JSONObject { object in
            object.add("identifier", self.id)
            object.add("isOnline", self.isOnline)
            object.add("apps", elements: self.apps.map(\.object))
        }.text
    }
}

extension SimulatedApp {
    fileprivate var object: JSONObject {
        JSONObject { object in
            object.add("token", self.token.hexadecimal)
            object.add("topic", self.topic)
            object.add("environment", self.environment.rawValue)
            object.add("isInstalled", self.removalTimestamp == nil)
            object.add("removedAt", time: self.removalTimestamp)
            object.add("storedNotification", self.storedNotificationNumber)
        }
    }
}

extension [String: JSONValue] {
    /// The string of a member; `nil` if there is none.
    func string(_ name: String) throws -> String? {
        guard let value = self[name], value != .null else { return nil }
        guard let text = value.string else { throw ControlError(.badRequest, "\(name) must be a string") }
        return text
    }

    /// The strings of an array member.
    func strings(_ name: String) throws -> [String]? {
        guard let value = self[name], value != .null else { return nil }
        let texts = value.elements?.map(\.string)
        guard let texts, texts.allSatisfy({ $0 != nil }) else {
            throw ControlError(.badRequest, "\(name) must be an array of strings")
        }
        return texts.compactMap(\.self)
    }

    func boolean(_ name: String) throws -> Bool? {
        guard let value = self[name], value != .null else { return nil }
        guard case .boolean(let isTrue) = value else {
            throw ControlError(.badRequest, "\(name) must be true or false")
        }
        return isTrue
    }

    func token(_ name: String) throws -> DeviceToken? {
        guard let text = try self.string(name) else { return nil }
        do { return try DeviceToken(text) } catch {
            throw ControlError(.badRequest, "invalid \(name): \(error)")
        }
    }

    func environment(_ name: String) throws -> PushEnvironment? {
        guard let text = try self.string(name) else { return nil }
        guard let environment = PushEnvironment(rawValue: text) else {
            throw ControlError(.badRequest, "invalid \(name); valid values: production, sandbox")
        }
        return environment
    }
}
