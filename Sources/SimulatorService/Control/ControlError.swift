// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import HTTPTypes
import HummingbirdCore
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
        var response = Response(status: self.status, json: #"{"error":\#(JSONWriter.quoted(self.sentence))}"#)
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
}
