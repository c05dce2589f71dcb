// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// What a request about broadcast channels has instead of a device token.
final class ChannelFields: Sendable {
    /// What the service is asked to do.
    enum Operation: Hashable, Sendable {
        case send, create, read, delete, list

        /// The value of `:method`.
        var method: String {
            switch self {
            case .send, .create: "POST"
            case .read, .list: "GET"
            case .delete: "DELETE"
            }
        }

        /// Whether it changes nothing, so that it may be repeated.
        var isRead: Bool { self == .read || self == .list }
    }

    let operation: Operation
    /// The app, without the suffix of a push type.
    let bundleID: String
    /// The channel; `nil` for one that is created, and for all.
    let channelID: ChannelID?

    init(_ operation: Operation, bundleID: String, channelID: ChannelID? = nil) {
        self.operation = operation
        self.bundleID = bundleID
        self.channelID = channelID
    }

    /// The value of `:path`.
    ///
    /// - SeeAlso: "Sending channel management requests to APNs" and the article on sending broadcasts.
    var path: String {
        switch self.operation {
        case .send: "/4/broadcasts/apps/\(self.bundleID)"
        case .create, .read, .delete: "/1/apps/\(self.bundleID)/channels"
        case .list: "/1/apps/\(self.bundleID)/all-channels"
        }
    }
}

extension HTTP2HeaderFields {
    /// Creates the fields of one request about channels.
    ///
    /// The identifier of the request differs each time, so it is not indexed.
    init(_ request: PushRequest, _ channel: ChannelFields, authority: String, authorization: String?) {
        self.init()
        self.append(":method", channel.operation.method, isIndexed: true)
        self.append(":scheme", "https", isIndexed: true)
        self.append(":authority", authority, isIndexed: true)
        self.append(":path", channel.path, isIndexed: true)
        if let authorization { self.append("authorization", authorization, isIndexed: false) }
        self.append("apns-request-id", request.apnsID.description, isIndexed: false)
        if let id = channel.channelID { self.append("apns-channel-id", id.text, isIndexed: true) }
        guard channel.operation == .send else { return }
        if let type = request.pushType { self.append("apns-push-type", type.rawValue, isIndexed: true) }
        if let priority = request.priority { self.append("apns-priority", String(priority), isIndexed: true) }
        if let expiry = request.expiry.wireValue { self.append("apns-expiration", String(expiry), isIndexed: false) }
    }
}
