// SPDX-License-Identifier: Apache-2.0

public import APNSPayload
public import APNSWire
import APNSProvider
import Glibc
import NIOCore

/// One notification for all devices that subscribe to a channel: an update of a Live Activity, or its end.
public struct BroadcastNotification: Hashable, Sendable {
    /// The channel.
    public var channel: BroadcastChannel

    /// The payload, whose `aps` has the keys of a Live Activity; at most ``payloadByteCountMax`` bytes.
    public var payload: Payload

    /// How long the service stores it, at most 8 hours.
    ///
    /// `.none`, the default, is as long as the policy of the channel permits. With the policy
    /// ``MessageStoragePolicy/noMessage``, every other expiry than `.immediately` is refused before sending.
    public var expiry: PushExpiry

    /// When devices receive it; `.immediate` by default.
    public var priority: PushPriority

    /// The `apns-request-id`, which the service repeats in its response; `nil`, the default, for a random one.
    public var requestID: PushIdentifier?

    /// Creates a notification from a payload, which can be a literal of JSON.
    ///
    /// - Parameters:
    ///   - channel: the channel.
    ///   - payload: the payload.
    ///   - expiry: how long it is stored; by default as long as the policy of the channel permits.
    ///   - priority: when devices receive it.
    public init(
        to channel: BroadcastChannel,
        _ payload: Payload,
        expiry: PushExpiry = .none,
        priority: PushPriority = .immediate
    ) {
        self.channel = channel
        self.payload = payload
        self.expiry = expiry
        self.priority = priority
    }

    /// Creates a notification from Apple's keys and the app's own keys.
    ///
    /// - Parameters:
    ///   - channel: the channel.
    ///   - aps: what the devices show; its `liveActivity` has the event and the content.
    ///   - custom: the keys for the app.
    ///   - expiry: how long it is stored; by default as long as the policy of the channel permits.
    ///   - priority: when devices receive it.
    public init(
        to channel: BroadcastChannel,
        _ aps: APS,
        _ custom: [String: JSONValue] = [:],
        expiry: PushExpiry = .none,
        priority: PushPriority = .immediate
    ) {
        self.init(to: channel, Payload(aps, custom), expiry: expiry, priority: priority)
    }

    /// The maximum length of ``payload`` in bytes: 5120.
    public static let payloadByteCountMax = WireLimits.payloadByteCountMaxVoIP

    /// How long the service stores the last message of a channel.
    private static let storageDuration = Duration.seconds(8 * 3600)

    /// Why it is not sent; `nil` if it can be.
    var problem: DeliveryOutcome.InvalidReason? {
        // The types of known keys are not checked: a title of a Live Activity may be an object.
        let rules = PayloadRules(byteCountMax: .max, checksKnownKeys: false)
        let count = self.payload.bytes.count
        guard count > 0 else { return .payloadEmpty }
        guard count <= Self.payloadByteCountMax else {
            return .payloadTooLong(byteCount: count, limit: Self.payloadByteCountMax)
        }
        do throws(PayloadProblem) { try self.payload.check(rules: rules) } catch { return .payload(error) }
        let traits = unsafe self.payload.bytes.withUnsafeBytes { unsafe PayloadTraits($0) }
        guard traits.hasLiveActivity else { return .liveActivityMissing }
        let isStored = self.channel.storagePolicy != .noMessage
        return isStored || self.expiry.wireValue ?? 0 == 0 ? nil : .expiry
    }

    /// The request to the service at a time in seconds since 1970.
    func request(bundleID: String, now: Int64) -> PushRequest {
        let payload = ByteBuffer(bytes: self.payload.bytes)
        let fields = ChannelFields(.send, bundleID: bundleID, channelID: self.channel.id)
        var request = PushRequest(fields, body: payload, id: self.requestID)
        request.priority = self.priority.rawValue
        request.expiry = self.expiry
        // The service requires the header.
        if self.expiry == .none {
            let isStored = self.channel.storagePolicy != .noMessage
            request.expiry = isStored ? .after(Self.storageDuration, from: now) : .immediately
        }
        return request
    }
}

extension BroadcastNotification: CustomStringConvertible, CustomReflectable {
    /// The channel and the length of the payload, which is private data.
    public var description: String { "broadcast to channel \(self.channel.id) with a \(self.payload)" }

    /// Empty, so that `dump` prints only the ``description``.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
