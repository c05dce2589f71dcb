// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSWire
import NIOCore

/// An answer on its way: the status, and what has come of the body.
struct PushAnswer {
    var status: Int
    var body = ByteBuffer()
    private var byteCount = 0

    /// The most bytes of a body that are kept; documented ones have less than 100.
    static let bodyByteCountMax = 4096

    /// The most bytes of an answer behind its first header fields; one with more is given up.
    static let byteCountMax = 32_768
    /// What a frame counts beside its payload, so that empty ones do not go on forever.
    private static let frameOverhead = 9

    init(status: Int) { self.status = status }

    /// Counts a frame of the answer.
    ///
    /// - Returns: whether it is still as long as an answer may be.
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
