// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import HummingbirdCore
import APNSJSON
import NIOCore

/// A failed request: a status, and a message with the cause and the remedy.
struct ControlError: Error {
    var status: HTTPResponse.Status
    var sentence: String
    var headers: HTTPFields = [:]

    init(_ status: HTTPResponse.Status, _ sentence: String) {
        self.status = status
        self.sentence = sentence
    }

    var response: Response {
        var response = Response(status: self.status, json: JSONObject { $0.add("error", self.sentence) }.text)
        for field in self.headers { response.headers.append(field) }
        return response
    }
}

extension Response {
    /// A response in JSON.
    init(status: HTTPResponse.Status = .ok, json: String) {
        self.init(
            status: status,
            headers: [.contentType: "application/json"],
            body: ResponseBody(byteBuffer: ByteBuffer(string: json + "\n"))
        )
    }

    /// The size of the parts of a long response in bytes.
    static let partByteCount = 64 * 1024

    /// A response with a JSON array of any length, which is written in parts, so that a client that does not read uses
    /// the memory of one part.
    init(jsonElements count: Int, start: String, end: String, element: @escaping @Sendable (Int) -> String) {
        let nextPart: @Sendable (inout Int) -> ByteBuffer = { next in
            var part = ByteBuffer(string: next == 0 ? start : "")
            while next < count, part.readableBytes < Self.partByteCount {
                if next > 0 { part.writeString(",") }
                part.writeString(element(next))
                next += 1
            }
            if next == count { part.writeString(end + "\n") }
            return part
        }
        var next = 0
        let first = nextPart(&next)
        let beginning = next
        let body = ResponseBody { writer in
            try await writer.write(first)
            var next = beginning
            while next < count {
                let start = next
                let (part, end) = await PartComposer.shared.run {
                    var next = start
                    return (nextPart(&next), next)
                }
                next = end
                try await writer.write(part)
            }
            try await writer.finish(nil)
        }
        self.init(
            status: .ok,
            headers: [.contentType: "application/json"],
            body: beginning == count ? ResponseBody(byteBuffer: first) : body
        )
    }
}

/// Composes the parts of long responses one after the other, so that many readers of them do not occupy all threads.
private actor PartComposer {
    static let shared = PartComposer()

    func run<Value: Sendable>(_ body: @Sendable () -> Value) -> Value { body() }
}
