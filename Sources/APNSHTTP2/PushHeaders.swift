// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOHPACK

/// Makes the headers of requests.
///
/// What differs with each request, and what is secret, is never indexed, so that it neither pushes the rest out of the
/// table nor stays in it.
///
/// - SeeAlso: "Sending notification requests to APNs", on HPACK; RFC 7541, 7.1.
struct PushHeaders {
    private let base: HPACKHeaders

    init(authority: String) {
        self.base = HPACKHeaders([
            (":method", "POST"), (":scheme", "https"), (":authority", authority),
        ])
    }

    func headers(of request: PushRequest, authorization: String?) -> HPACKHeaders {
        var headers = self.base
        headers.reserveCapacity(Self.countMax)
        headers.add(name: ":path", value: "/3/device/" + request.token.hexadecimal, indexing: .neverIndexed)
        if let authorization { headers.add(name: "authorization", value: authorization, indexing: .neverIndexed) }
        headers.add(name: "apns-id", value: request.identifier.description, indexing: .nonIndexable)
        if let topic = request.topic { headers.add(name: "apns-topic", value: topic) }
        if let type = request.pushType { headers.add(name: "apns-push-type", value: type.rawValue) }
        if let priority = request.priority { headers.add(name: "apns-priority", value: String(priority)) }
        if let expiration = request.expiration {
            headers.add(name: "apns-expiration", value: String(expiration), indexing: .nonIndexable)
        }
        if let collapse = request.collapseIdentifier {
            headers.add(name: "apns-collapse-id", value: collapse, indexing: .nonIndexable)
        }
        return headers
    }

    /// How many headers a request has at most.
    private static let countMax = 11
}
