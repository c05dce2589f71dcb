// SPDX-License-Identifier: Apache-2.0

package import APNSWire

/// The tokens of a list with their times, in many buckets.
///
/// A bucket that is in use elsewhere while the list changes is copied, instead of the whole list. So a list is read
/// bucket by bucket without a copy while tokens are recorded.
package struct FeedbackBuckets: Sendable {
    /// A bucket.
    package typealias Bucket = FeedbackPage.Bucket

    /// The number of buckets; with a million tokens, each has about 250.
    package static let bucketCount = 4096

    private var buckets = [Bucket](repeating: [:], count: Self.bucketCount)

    package init() {}

    /// The number of tokens.
    package private(set) var count = 0

    /// The tokens and times, unordered.
    package var all: some Sequence<(key: DeviceToken, value: UInt32)> { self.buckets.lazy.joined() }

    /// Returns the time of a token; `nil` if it is not on the list.
    package subscript(token: DeviceToken) -> UInt32? {
        get { self.buckets[Self.index(of: token)][token] }
        set {
            let index = Self.index(of: token)
            let countBefore = self.buckets[index].count
            self.buckets[index][token] = newValue
            self.count += self.buckets[index].count - countBefore
        }
    }

    /// Reads a page of at least this many tokens, or fewer at the end.
    ///
    /// Returns the page; empty at the end of the list.
    package func page(from index: Int, countMin: Int) -> FeedbackPage {
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
