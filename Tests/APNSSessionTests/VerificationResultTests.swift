// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Testing

@testable import APNSSession

/// Goal: an answer means what it verifies, and no more.
///
/// Method: a table with one line per clause of the rules.
@Suite struct VerificationResultTests {
    struct Line: CustomTestStringConvertible, Sendable {
        var testDescription: String
        var status: ErrorResponse.Status
        var identifier: UInt32
        var count: UInt64
        var isProbed: Bool
        var result: VerificationResult

        init(
            _ text: String,
            _ status: ErrorResponse.Status,
            _ identifier: UInt32,
            of count: UInt64,
            probed isProbed: Bool = false,
            is result: VerificationResult
        ) {
            self.testDescription = text
            self.status = status
            self.identifier = identifier
            self.count = count
            self.isProbed = isProbed
            self.result = result
        }
    }

    static let named = [
        Line("the first of three is identified", .invalidToken, 1, of: 3, is: .rejected(index: 0)),
        Line("the last of three is identified", .invalidToken, 3, of: 3, is: .rejected(index: 2)),
        Line("one before a probe is identified", .invalidToken, 2, of: 3, probed: true, is: .rejected(index: 1)),
        Line("a missing token is identified", .missingDeviceToken, 2, of: 3, probed: true, is: .rejected(index: 1)),
        Line("an undocumented status identifies, too", .init(rawValue: 99), 2, of: 3, is: .rejected(index: 1)),
        Line("status 0 identifies, too", .noErrors, 2, of: 3, is: .rejected(index: 1)),
        Line("status 1 identifies", .processingError, 2, of: 3, is: .rejected(index: 1)),
    ]

    static let probes = [
        Line("the probe's answer verifies all", .missingDeviceToken, 4, of: 3, probed: true, is: .allAccepted),
        Line("status 5 for the probe verifies all, too", .invalidTokenSize, 4, of: 3, probed: true, is: .allAccepted),
        Line("the probe's answer without notifications", .missingDeviceToken, 1, of: 0, probed: true, is: .allAccepted),
        Line("status 2 with id 0 answers the probe", .missingDeviceToken, 0, of: 3, probed: true, is: .allAccepted),
        Line("status 2 with id 0 and no probe", .missingDeviceToken, 0, of: 3, is: .unidentifiedRejection),
        Line(
            "no other status with id 0 answers the probe",
            .invalidToken,
            0,
            of: 3,
            probed: true,
            is: .unidentifiedRejection
        ),
        Line("the next id without a probe", .missingDeviceToken, 4, of: 3, is: .unidentifiedRejection),
    ]

    static let shutdowns = [
        Line("status 10 verifies its id and all before", .shutdown, 2, of: 3, is: .accepted(count: 2)),
        Line("status 10 with the first id", .shutdown, 1, of: 3, is: .accepted(count: 1)),
        Line("status 10 with the last id", .shutdown, 3, of: 3, probed: true, is: .accepted(count: 3)),
        Line("status 10 with id 0 means nothing", .shutdown, 0, of: 3, is: .unknown),
        Line("status 10 with id 0 does not answer a probe", .shutdown, 0, of: 3, probed: true, is: .unknown),
        Line("status 10 with an id that was not written", .shutdown, 9, of: 3, is: .unknown),
    ]

    static let unknown = [
        Line("id 0 is unidentified", .invalidToken, 0, of: 3, is: .unidentifiedRejection),
        Line("an id never written is unidentified", .invalidToken, 4_000_000_000, of: 3, is: .unidentifiedRejection),
        Line(
            "an id after the probe is unidentified",
            .missingDeviceToken,
            5,
            of: 3,
            probed: true,
            is: .unidentifiedRejection
        ),
        Line("an answer before anything was written", .invalidToken, 1, of: 0, is: .unidentifiedRejection),
    ]

    @Test(arguments: named + probes + shutdowns + unknown)
    func `an answer is interpreted by the rules`(line: Line) {
        let response = ErrorResponse(status: line.status, identifier: line.identifier)
        #expect(VerificationResult(response, count: line.count, isProbed: line.isProbed) == line.result)
    }
}
