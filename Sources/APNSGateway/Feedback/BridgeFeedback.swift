// SPDX-License-Identifier: Apache-2.0

public import APNSServer
public import APNSSession
import APNSWire

/// Gives each provider of a bridge the list of its dead tokens.
public struct BridgeFeedback: FeedbackStore {
    private let backend: HTTP2Backend
    private let store: any FeedbackListStore

    /// Makes one.
    ///
    /// - Parameters:
    ///   - backend: knows who is let in.
    ///   - store: holds the lists.
    public init(backend: HTTP2Backend, store: any FeedbackListStore) {
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

/// What one connection is given: page by page, so that neither the list nor a delivery is held up by the other.
final class BridgeFeedbackList: FeedbackList {
    private let store: any FeedbackListStore
    private let list: TokenScope
    private var nextIndex = 0
    /// What was read from the store, and how much of it was taken.
    private var page: [(key: DeviceToken, value: UInt32)] = []
    private var index = 0
    /// Pages of which all was taken; the store shares their memory as long as it does not change them.
    private var taken: [FeedbackPage.Bucket] = []
    private var pageBuckets: [FeedbackPage.Bucket] = []

    init(_ store: any FeedbackListStore, _ list: TokenScope) {
        self.store = store
        self.list = list
    }

    func next(_ countMax: Int) -> [FeedbackTuple] {
        var tuples: [FeedbackTuple] = []
        while tuples.count < countMax {
            if self.index == self.page.count, !self.turnPage(countMax) { break }
            let portion = self.page[self.index...].prefix(countMax - tuples.count)
            self.index += portion.count
            tuples += portion.map { FeedbackTuple(token: $0.key, failedAt: $0.value) }
        }
        return tuples
    }

    private func turnPage(_ countMin: Int) -> Bool {
        self.taken += self.pageBuckets
        let page = self.store.page(of: self.list, from: self.nextIndex, countMin: max(1, countMin))
        self.nextIndex = page.nextIndex
        self.pageBuckets = page.buckets
        self.page = page.buckets.flatMap { Array($0) }
        self.index = 0
        return !self.page.isEmpty
    }

    func acknowledge() {
        var taken = self.taken
        let rest = self.page.prefix(self.index)
        if !rest.isEmpty { taken.append(Dictionary(rest.map { ($0.key, $0.value) }, uniquingKeysWith: max)) }
        self.store.acknowledge(taken, in: self.list)
        (self.taken, self.pageBuckets, self.page, self.index) = ([], [], [], 0)
    }
}
