// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// Gives each provider of a bridge the list of its dead tokens.
public struct BridgeFeedback: FeedbackStore {
    private let backend: HTTP2Backend
    private let store: SQLiteFeedbackStore

    /// Makes one.
    ///
    /// - Parameters:
    ///   - backend: knows who is let in.
    ///   - store: holds the lists.
    public init(backend: HTTP2Backend, store: SQLiteFeedbackStore) {
        self.backend = backend
        self.store = store
    }

    /// Opens the list of a provider.
    ///
    /// - Parameter provider: who is connected.
    /// - Returns: its list, or `nil` where it is let in nowhere.
    public func open(_ provider: ProviderConnection) -> (any FeedbackList)? {
        self.backend.list(of: provider).map { BridgeFeedbackList(self.store, $0) }
    }
}

/// What one connection is given.
final class BridgeFeedbackList: FeedbackList {
    private let store: SQLiteFeedbackStore
    private let list: FeedbackListName
    private let tokens: [DeviceToken: UInt32]
    private var rest: Dictionary<DeviceToken, UInt32>.Iterator
    private var taken: [DeviceToken: UInt32?] = [:]

    init(_ store: SQLiteFeedbackStore, _ list: FeedbackListName) {
        self.store = store
        self.list = list
        self.tokens = store.tokens(in: list)
        self.rest = self.tokens.makeIterator()
    }

    func next(_ countMax: Int) -> [FeedbackTuple] {
        var tuples: [FeedbackTuple] = []
        while tuples.count < countMax, let (token, time) = self.rest.next() {
            tuples.append(FeedbackTuple(failedAt: time, token: token))
            self.taken.updateValue(time, forKey: token)
        }
        return tuples
    }

    func acknowledge() {
        self.store.remove(self.taken, in: self.list)
        self.taken = [:]
    }
}
