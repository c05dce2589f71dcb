// SPDX-License-Identifier: Apache-2.0

import APNSWire
import APNSJSON
import NIOCore

/// An incomplete answer: the status, and the part of the body received so far.
struct PushAnswer {
    var status: Int
    var body = ByteBuffer()
    private var byteCount = 0

    /// The maximum number of stored bytes of a body; documented ones have less than 100.
    static let bodyByteCountMax = 4096

    /// The maximum length of an answer after its first header fields; a longer one is refused.
    static let byteCountMax = 32_768
    /// The size that each frame counts in addition to its payload, which limits the number of empty frames.
    private static let frameOverhead = 9

    init(status: Int) { self.status = status }

    /// Counts a frame of the answer.
    ///
    /// Returns whether the answer is still within its maximum length.
    mutating func count(_ payloadByteCount: Int) -> Bool {
        self.byteCount += payloadByteCount + Self.frameOverhead
        return self.byteCount <= Self.byteCountMax
    }

    mutating func append(_ bytes: ByteBuffer) {
        var bytes = bytes
        let count = min(Self.bodyByteCountMax - self.body.readableBytes, bytes.readableBytes)
        if let slice = bytes.readSlice(length: count) { self.body.writeImmutableBuffer(slice) }
    }

    var outcome: DeliveryOutcome {
        if self.status == 200 { return .accepted }
        let explanation = JSONFields(Array(self.body.readableBytesView))
        let reason = PushReason(text: explanation?.string("reason") ?? "")
        let timestamp: UInt64? = explanation?.integer("timestamp")
        return .rejected(.http2(PushRejection(status: self.status, reason: reason, timestamp: timestamp)))
    }

    /// The reason in the debug data of a GOAWAY frame.
    static func goAwayReason(_ data: ByteBuffer?) -> PushReason? {
        guard let data, data.readableBytes <= Self.bodyByteCountMax else { return nil }
        return JSONFields(Array(data.readableBytesView))?.string("reason").map { PushReason(text: $0) }
    }
}
