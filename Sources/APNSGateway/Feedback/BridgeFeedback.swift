// SPDX-License-Identifier: Apache-2.0

public import APNSServer
public import APNSSession
import APNSWire

/// Provides the list of dead tokens of each provider of a bridge.
public struct BridgeFeedback: FeedbackStore {
    private let backend: HTTP2Backend
    private let store: any FeedbackListStore

    /// Creates a feedback store.
    ///
    /// - Parameters:
    ///   - backend: identifies the providers.
    ///   - store: stores the lists.
    public init(backend: HTTP2Backend, store: any FeedbackListStore) {
        self.backend = backend
        self.store = store
    }

    /// Opens the list of a provider.
    ///
    /// - Parameter provider: the connection.
    /// - Returns: its list; `nil` if it is not admitted.
    public func open(_ provider: ProviderConnection) -> (any FeedbackList)? {
        self.backend.list(of: provider).map { BridgeFeedbackList(self.store, $0) }
    }
}

/// The list of one connection, read page by page, so that neither the list nor a delivery delays the other.
final class BridgeFeedbackList: FeedbackList {
    private let store: any FeedbackListStore
    private let list: TokenScope
    private var nextIndex = 0
    /// The current page, and how much of it was returned.
    private var page: [(key: DeviceToken, value: UInt32)] = []
    private var index = 0
    /// Finished pages; the store shares their memory while they are unchanged.
    private var finishedBuckets: [FeedbackPage.Bucket] = []
    private var pageBuckets: [FeedbackPage.Bucket] = []

    init(_ store: any FeedbackListStore, _ list: TokenScope) {
        self.store = store
        self.list = list
    }

    func next(_ countMax: Int) -> [FeedbackTuple] {
        var tuples: [FeedbackTuple] = []
        while tuples.count < countMax {
            if self.index == self.page.count, !self.loadPage(countMax) { break }
            let portion = self.page[self.index...].prefix(countMax - tuples.count)
            self.index += portion.count
            tuples += portion.map { FeedbackTuple(token: $0.key, failedAt: $0.value) }
        }
        return tuples
    }

    private func loadPage(_ countMin: Int) -> Bool {
        self.finishedBuckets += self.pageBuckets
        let page = self.store.page(of: self.list, from: self.nextIndex, countMin: max(1, countMin))
        self.nextIndex = page.nextIndex
        self.pageBuckets = page.buckets
        self.page = page.buckets.flatMap { Array($0) }
        self.index = 0
        return !self.page.isEmpty
    }

    func acknowledge() {
        var buckets = self.finishedBuckets
        let rest = self.page.prefix(self.index)
        if !rest.isEmpty { buckets.append(Dictionary(rest.map { ($0.key, $0.value) }, uniquingKeysWith: max)) }
        self.store.acknowledge(buckets, in: self.list)
        (self.finishedBuckets, self.pageBuckets, self.page, self.index) = ([], [], [], 0)
    }
}
