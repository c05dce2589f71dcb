// SPDX-License-Identifier: Apache-2.0

import APNSSimulator
import APNSWire
import HTTPTypes
import HummingbirdCore
import APNSJSON

/// The routes of the control API for revoked certificates.
struct RevocationRoutes: Sendable {
    /// The maximum number of revoked certificates.
    private static let countMax = 10_000
    /// The size of a SHA-256 digest in bytes.
    private static let byteCount = 32

    let simulator: Simulator

    var routes: [ControlRoute] {
        [
            ControlRoute(.get, "/revocations") { request in
                _ = try request.query([])
                return self.answer(.ok)
            },
            ControlRoute(.post, "/revocations") { try await self.add($0) },
            ControlRoute(.delete, "/revocations/{fingerprint}") { try self.remove($0) },
        ]
    }

    static func json(_ fingerprints: Set<String>) -> String {
        JSONObject { $0.add("fingerprints", texts: fingerprints.sorted()) }.text
    }

    private func answer(_ status: HTTPResponse.Status) -> Response {
        Response(status: status, json: Self.json(self.simulator.revokedFingerprints))
    }

    private func add(_ request: ControlRequest) async throws -> Response {
        _ = try request.query([])
        guard let text = try await request.object(["fingerprint"]).string("fingerprint"),
            Self.isFingerprint(text)
        else {
            throw ControlError(
                .badRequest,
                "invalid fingerprint: expected the SHA-256 digest of a certificate in 64 hexadecimal digits"
            )
        }
        guard self.simulator.revokedFingerprints.count < Self.countMax else {
            throw ControlError(
                HTTPResponse.Status(code: 507, reasonPhrase: "Insufficient Storage"),
                "limit of \(Self.countMax) revoked certificates reached; restore some with DELETE"
            )
        }
        self.simulator.revoke(text)
        return self.answer(.created)
    }

    private static func isFingerprint(_ text: String) -> Bool {
        let digits = text.utf8.filter { $0 != UInt8(ascii: ":") }
        return digits.count == 2 * Self.byteCount && digits.allSatisfy { Hexadecimal.value($0) < 16 }
    }

    private func remove(_ request: ControlRequest) throws -> Response {
        _ = try request.query([])
        let fingerprint = try request.parameter("fingerprint")
        guard self.simulator.restore(fingerprint) else {
            throw ControlError(.notFound, "no certificate with the fingerprint \(fingerprint) is revoked")
        }
        return self.answer(.ok)
    }
}
