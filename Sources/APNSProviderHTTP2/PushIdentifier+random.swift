// SPDX-License-Identifier: Apache-2.0

public import APNSWire
import COpenSSL
import NIOConcurrencyHelpers

extension PushIdentifier {
    /// A buffer of random numbers: a system call for each would be a large part of the cost of a request.
    private struct Pool {
        private var numbers: [UInt64] = []

        private static let numberCount = 512

        mutating func next() -> UInt64 {
            if let number = self.numbers.popLast() { return number }
            var numbers = [UInt64](repeating: 0, count: Self.numberCount)
            let result = unsafe numbers.withUnsafeMutableBytes { bytes in
                unsafe RAND_bytes(bytes.baseAddress?.assumingMemoryBound(to: UInt8.self), Int32(bytes.count))
            }
            guard result == 1 else { return .random(in: 0 ... .max) }
            self.numbers = numbers
            return self.numbers.removeLast()
        }
    }

    private static let pool = NIOLockedValueBox(Pool())

    /// Creates a random identifier (version 4).
    public init() {
        let (high, low) = Self.pool.withLockedValue { ($0.next(), $0.next()) }
        self.init(high: high, low: low)
    }
}
