// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// Why the checks reject a request.
struct PushRefusal: Error, Equatable {
    /// The reason in the response.
    var reason: PushReason
    /// An explanation for the record and the log, without private data.
    var detail: String

    init(_ reason: PushReason, _ detail: String) {
        self.reason = reason
        self.detail = detail
    }
}
