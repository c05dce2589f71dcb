// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire

/// The tokens of one list with their times, in many small parts.
///
/// Who holds on to a part while the list changes makes that part be copied, and not the whole list. So a list is read
/// part by part without a copy, whatever is recorded meanwhile.
struct FeedbackBuckets: Sendable {
    /// A part of a list.
    typealias Bucket = FeedbackPage.Bucket

    /// How many parts there are; a list of a million tokens has about 250 in each.
    static let bucketCount = 4096

    private var buckets = [Bucket](repeating: [:], count: Self.bucketCount)

    /// How many tokens there are.
    private(set) var count = 0

    /// The tokens and times, in no order.
    var all: some Sequence<(key: DeviceToken, value: UInt32)> { self.buckets.lazy.joined() }

    /// The time of a token; `nil` where it is not on the list.
    subscript(token: DeviceToken) -> UInt32? {
        get { self.buckets[Self.index(of: token)][token] }
        set {
            let index = Self.index(of: token)
            let countBefore = self.buckets[index].count
            self.buckets[index][token] = newValue
            self.count += self.buckets[index].count - countBefore
        }
    }

    /// Reads on: so many tokens or a few more, fewer only at the end.
    ///
    /// - Parameters:
    ///   - index: where the last page ended; 0 at first.
    ///   - countMin: at how many tokens the page ends.
    /// - Returns: the page; without tokens at the end of the list.
    func page(from index: Int, countMin: Int) -> FeedbackPage {
        var page = FeedbackPage(nextIndex: index)
        var count = 0
        while page.nextIndex < Self.bucketCount, count < countMin {
            let bucket = self.buckets[page.nextIndex]
            page.nextIndex += 1
            count += bucket.count
            if !bucket.isEmpty { page.buckets.append(bucket) }
        }
        return page
    }

    private static func index(of token: DeviceToken) -> Int { token.hashValue & (self.bucketCount - 1) }
}
