// SPDX-License-Identifier: Apache-2.0

package import APNSWire
package import NIOCore

/// The tokens that were rejected as invalid, so that they are not sent to again for a time.
///
/// Once it is full, further ones are not remembered; they are then rejected by the service again.
package struct RejectedTokens: Sendable {
    /// How many tokens are remembered at most: what fits a table of 65,536 places, about 8 MiB.
    package static let countMax = 49_152

    private var deadlines: [DeviceToken: NIODeadline] = [:]

    /// None of them is due before this time.
    private var firstDeadline = NIODeadline.distantFuture

    /// Remembers none.
    package init() {}

    /// Whether none is remembered, so that nothing needs to be looked up.
    package var isEmpty: Bool { self.deadlines.isEmpty }

    /// Remembers a token.
    ///
    /// - Parameters:
    ///   - bytes: the bytes of the token; others than 1 to 100 are ignored.
    ///   - deadline: until when; by default for good.
    package mutating func insert(_ bytes: UnsafeRawBufferPointer, until deadline: NIODeadline = .distantFuture) {
        guard let token = try? unsafe DeviceToken(bytes: bytes) else { return }
        self.insert(token, until: deadline)
    }

    /// Remembers a token.
    ///
    /// - Parameters:
    ///   - token: the token.
    ///   - deadline: until when; by default for good.
    package mutating func insert(_ token: DeviceToken, until deadline: NIODeadline = .distantFuture) {
        if self.deadlines.count >= Self.countMax { self.removeOverdue(at: .now()) }
        guard self.deadlines.count < Self.countMax else { return }
        self.deadlines[token] = deadline
        self.firstDeadline = min(self.firstDeadline, deadline)
    }

    /// Forgets those whose time has passed; looks at all of them only where there is one, since it takes milliseconds.
    private mutating func removeOverdue(at now: NIODeadline) {
        guard self.firstDeadline <= now else { return }
        self.deadlines = self.deadlines.filter { $0.value > now }
        self.firstDeadline = self.deadlines.values.min() ?? .distantFuture
    }

    /// Forgets a token.
    ///
    /// - Parameter token: the token.
    package mutating func remove(_ token: DeviceToken) { self.deadlines[token] = nil }

    /// Whether a token is remembered.
    ///
    /// - Parameters:
    ///   - token: the token.
    ///   - now: the time; by default one at which every one is remembered that is remembered for good.
    /// - Returns: whether it was rejected.
    package func contains(_ token: DeviceToken, at now: NIODeadline = .uptimeNanoseconds(0)) -> Bool {
        self.deadlines[token].map { $0 > now } ?? false
    }
}
