// SPDX-License-Identifier: Apache-2.0

import APNSJSON
import APNSWire
import NIOCore
import NIOHPACK

/// A request about broadcast channels.
///
/// - SeeAlso: "Sending channel management requests to APNs" and "Sending broadcast push notification requests to APNs".
struct BroadcastRequest: Equatable {
    /// What the service is asked to do.
    enum Operation { case send, create, read, delete, list }

    /// The response to a request that succeeded.
    struct Response: Equatable {
        var status = 200
        var channelID: String?
        var body: ByteBuffer?
    }

    var operation: Operation
    var bundleID: String
    var channelID: String?
    var priority: UInt8?
    var expiration: UInt32?
    var authorization: String?

    private static let pushType = "liveactivity"
    private static let (policyName, typeName) = ("message-storage-policy", "push-type")

    /// Whether a path is that of a broadcast or a channel.
    static func isPath(_ path: String) -> Bool { path.hasPrefix("/4/broadcasts/") || path.hasPrefix("/1/apps/") }

    /// The identifier of a request; `nil` if there is none, or it is not a UUID.
    static func identifier(_ headers: HPACKHeaders) -> PushIdentifier? {
        headers.first(name: "apns-request-id").flatMap { PushIdentifier($0) }
    }

    /// The app in a path, regardless of other errors; `nil` if there is none.
    static func bundleID(_ path: String) -> String? {
        let parts = path.split(separator: "/")
        let app = parts.first == "4" ? parts.dropFirst(3).first : parts.dropFirst(2).first
        return app.map { String($0.prefix(RefusedPush.tokenTextCountMax)) }
    }

    /// Parses headers.
    ///
    /// - Throws: the reason for a rejection.
    init(_ headers: HPACKHeaders) throws(PushRefusal) {
        func value(_ name: String) -> String? { headers.first(name: name) }
        if value("apns-request-id") != nil, Self.identifier(headers) == nil {
            throw PushRefusal(.badMessageId, "apns-request-id is not a UUID")
        }
        for name in ["apns-request-id", "apns-channel-id", "apns-push-type", "apns-priority", "apns-expiration"]
        where headers[name].count > 1 {
            throw PushRefusal(.duplicateHeaders, "\(name) occurs twice")
        }
        let method = value(":method")
        (self.operation, self.bundleID) = try Self.operation(value(":path") ?? "", method)
        self.authorization = value("authorization")
        if self.operation != .create, self.operation != .list {
            guard let id = value("apns-channel-id") else {
                throw PushRefusal(.missingChannelId, "there is no apns-channel-id")
            }
            guard (1...WireLimits.channelIDCharacterCountMax).contains(id.utf8.count), Base64.isText(id) else {
                let limit = WireLimits.channelIDCharacterCountMax
                throw PushRefusal(.badChannelId, "apns-channel-id is not base64 of at most \(limit) characters")
            }
            self.channelID = id
        }
        if self.operation == .send { try self.readNotification(headers) }
    }

    private mutating func readNotification(_ headers: HPACKHeaders) throws(PushRefusal) {
        guard let type = headers.first(name: "apns-push-type") else {
            throw PushRefusal(.missingPushType, "there is no apns-push-type")
        }
        guard type.lowercased() == Self.pushType else {
            throw PushRefusal(.invalidPushType, "apns-push-type is not liveactivity")
        }
        guard let priority = headers.first(name: "apns-priority"), ["10", "5", "1"].contains(priority) else {
            throw PushRefusal(.badPriority, "apns-priority is not 10, 5 or 1")
        }
        guard let text = headers.first(name: "apns-expiration"),
            text.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let seconds = UInt64(text)
        else { throw PushRefusal(.badExpirationDate, "apns-expiration is not a number of seconds") }
        self.priority = UInt8(priority)
        self.expiration = UInt32(clamping: seconds)
    }

    private static func operation(_ path: String, _ method: String?) throws(PushRefusal) -> (Operation, String) {
        let parts = path.split(separator: "/", omittingEmptySubsequences: false).dropFirst().map(String.init)
        let (bundleID, operations): (String, [String: Operation])
        switch (parts.count, parts.dropLast(), parts.last) {
        case (4, ["4", "broadcasts", "apps"], let app?): (bundleID, operations) = (app, ["POST": .send])
        case (4, _, "channels") where parts.starts(with: ["1", "apps"]):
            (bundleID, operations) = (parts[2], ["POST": .create, "GET": .read, "DELETE": .delete])
        case (4, _, "all-channels") where parts.starts(with: ["1", "apps"]):
            (bundleID, operations) = (parts[2], ["GET": .list])
        default: throw PushRefusal(.badPath, "the path is not that of broadcasts or channels of an app")
        }
        guard TopicFamily.isTopic(bundleID) else {
            throw PushRefusal(.badPath, "the path has no bundle identifier")
        }
        guard let operation = operations[method ?? ""] else {
            throw PushRefusal(
                .methodNotAllowed,
                "the method is not \(operations.keys.sorted().joined(separator: ", "))"
            )
        }
        return (operation, bundleID)
    }

    // MARK: Carrying out

    /// Does what is requested, after the credentials were checked.
    ///
    /// - Throws: the reason for a rejection.
    func carryOut(
        _ channels: BroadcastChannels,
        _ body: ByteBuffer,
        byteCount: Int,
        isPayload: (ByteBuffer) -> Bool
    ) throws(PushRefusal) -> Response {
        guard channels.countMax > 0 else {
            throw PushRefusal(.featureNotEnabled, "broadcasts are not enabled for the app")
        }
        switch self.operation {
        case .create: return try self.create(channels, body)
        case .list:
            let ids = channels.ids(ofApp: self.bundleID)
            let list = JSONObject { object in
                object.add("channels", json: "[\(ids.map { "\"\($0)\"" }.joined(separator: ","))]")
            }
            return Response(body: ByteBuffer(bytes: list.bytes))
        case .read:
            let policy = try self.storagePolicy(channels)
            let configuration = JSONObject { object in
                object.add(Self.policyName, policy)
                object.add(Self.typeName, "LiveActivity")
            }
            return Response(body: ByteBuffer(bytes: configuration.bytes))
        case .delete:
            _ = try self.storagePolicy(channels)
            _ = channels.remove(self.channelID ?? "", ofApp: self.bundleID)
            return Response(status: 204)
        case .send:
            if byteCount == 0 { throw PushRefusal(.payloadEmpty, "there is no payload") }
            guard byteCount <= WireLimits.payloadByteCountMaxVoIP else {
                let detail = "the payload has \(byteCount) bytes, the limit is \(WireLimits.payloadByteCountMaxVoIP)"
                throw PushRefusal(.payloadTooLarge, detail)
            }
            guard isPayload(body) else { throw PushRefusal(.payloadEmpty, "the payload is not a JSON object") }
            guard try self.storagePolicy(channels) != 0 || self.expiration == 0 else {
                throw PushRefusal(.badExpirationDate, "the channel stores no message, and apns-expiration is not 0")
            }
            return Response()
        }
    }

    private func storagePolicy(_ channels: BroadcastChannels) throws(PushRefusal) -> Int {
        guard let policy = channels.storagePolicy(of: self.channelID ?? "", ofApp: self.bundleID) else {
            throw PushRefusal(.channelNotRegistered, "the app has no such channel")
        }
        return policy
    }

    private func create(_ channels: BroadcastChannels, _ body: ByteBuffer) throws(PushRefusal) -> Response {
        guard let fields = JSONFields(Array(body.readableBytesView)) else {
            throw PushRefusal(.badRequestPayload, "the body is not a JSON object")
        }
        let unknown = fields.names.subtracting([Self.policyName, Self.typeName])
        guard unknown.isEmpty else { throw PushRefusal(.badRequestParams, "the body has an unknown key") }
        guard let policy: Int = fields.integer(Self.policyName), (0...1).contains(policy) else {
            throw PushRefusal(.badRequestParams, "message-storage-policy is not 0 or 1")
        }
        guard fields.string(Self.typeName)?.lowercased() == Self.pushType else {
            throw PushRefusal(.invalidPushType, "push-type is not LiveActivity")
        }
        guard let id = channels.create(storagePolicy: policy, ofApp: self.bundleID) else {
            let detail = "the app has \(channels.countMax) channels, or the service channels of too many apps"
            throw PushRefusal(.cannotCreateChannelConfig, detail)
        }
        return Response(status: 201, channelID: id)
    }
}
