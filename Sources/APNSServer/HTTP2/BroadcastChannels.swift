// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOConcurrencyHelpers

/// The broadcast channels of a service, in memory.
public final class BroadcastChannels: Sendable {
    private struct App {
        var ids: [String] = []
        var storagePolicies: [String: Int] = [:]
    }

    /// The number of channels that an app may have; 0 if broadcasts are not enabled.
    public let countMax: Int

    /// The number of apps with channels.
    private static let appCountMax = 1000

    private let apps = NIOLockedValueBox<[String: App]>([:])

    /// Creates an empty set of channels.
    ///
    /// - Parameter countMax: the number of channels that an app may have; by default 10,000. With 0, all requests about
    ///   channels are rejected with FeatureNotEnabled.
    public init(countMax: Int = 10_000) { self.countMax = countMax }

    /// The identifiers of the channels of an app, in the order of their creation.
    ///
    /// - Parameter bundleID: the app.
    /// - Returns: texts in base64.
    public func ids(ofApp bundleID: String) -> [String] { self.apps.withLockedValue { $0[bundleID]?.ids ?? [] } }

    /// The number in requests for the policy of a channel: 0 if no message is stored, 1 for the most recent one.
    ///
    /// - Parameters:
    ///   - id: the identifier of the channel.
    ///   - bundleID: the app.
    /// - Returns: the number; `nil` if there is no such channel.
    public func storagePolicy(of id: String, ofApp bundleID: String) -> Int? {
        self.apps.withLockedValue { $0[bundleID]?.storagePolicies[id] }
    }

    /// Removes all channels.
    public func removeAll() { self.apps.withLockedValue { $0 = [:] } }

    /// Creates a channel; returns its identifier, `nil` at the limit.
    func create(storagePolicy: Int, ofApp bundleID: String) -> String? {
        var random = SystemRandomNumberGenerator()
        let id = Base64.text((0..<16).map { _ in UInt8.random(in: 0...255, using: &random) })
        return self.apps.withLockedValue { apps in
            guard apps[bundleID] != nil || apps.count < Self.appCountMax,
                apps[bundleID]?.ids.count ?? 0 < self.countMax
            else { return nil }
            apps[bundleID, default: App()].ids.append(id)
            apps[bundleID, default: App()].storagePolicies[id] = storagePolicy
            return id
        }
    }

    /// Removes a channel; returns whether it existed.
    func remove(_ id: String, ofApp bundleID: String) -> Bool {
        self.apps.withLockedValue { apps in
            guard apps[bundleID]?.storagePolicies.removeValue(forKey: id) != nil else { return false }
            apps[bundleID]?.ids.removeAll { $0 == id }
            if apps[bundleID]?.ids.isEmpty == true { apps[bundleID] = nil }
            return true
        }
    }
}
