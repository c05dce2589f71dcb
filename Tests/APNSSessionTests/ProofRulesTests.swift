// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Testing

@testable import APNSSession

/// Goal: an answer says as much as it proves, and no more.
///
/// Method: a table, one line per clause of the rules.
@Suite struct ProofRulesTests {
    struct Line: CustomTestStringConvertible, Sendable {
        var testDescription: String
        var status: ErrorResponse.Status
        var identifier: UInt32
        var count: UInt64
        var isProbed: Bool
        var meaning: ConnectionProof

        init(
            _ text: String,
            _ status: ErrorResponse.Status,
            _ identifier: UInt32,
            of count: UInt64,
            probed isProbed: Bool = false,
            is meaning: ConnectionProof
        ) {
            self.testDescription = text
            self.status = status
            self.identifier = identifier
            self.count = count
            self.isProbed = isProbed
            self.meaning = meaning
        }
    }

    static let named = [
        Line("the first of three is named", .invalidToken, 1, of: 3, is: .names(index: 0)),
        Line("the last of three is named", .invalidToken, 3, of: 3, is: .names(index: 2)),
        Line("one is named behind a probe", .invalidToken, 2, of: 3, probed: true, is: .names(index: 1)),
        Line("a missing token is named", .missingDeviceToken, 2, of: 3, probed: true, is: .names(index: 1)),
        Line("an undocumented status names, too", .init(rawValue: 99), 2, of: 3, is: .names(index: 1)),
        Line("status 0 names, too", .noErrors, 2, of: 3, is: .names(index: 1)),
        Line("status 1 names", .processingError, 2, of: 3, is: .names(index: 1)),
    ]

    static let probes = [
        Line("the probe's answer proves all", .missingDeviceToken, 4, of: 3, probed: true, is: .provesAll),
        Line("status 5 for the probe proves all, too", .invalidTokenSize, 4, of: 3, probed: true, is: .provesAll),
        Line("the probe's answer proves none of none", .missingDeviceToken, 1, of: 0, probed: true, is: .provesAll),
        Line("status 2 with id 0 answers the probe", .missingDeviceToken, 0, of: 3, probed: true, is: .provesAll),
        Line("status 2 with id 0 and no probe", .missingDeviceToken, 0, of: 3, is: .unknownIdentifier),
        Line(
            "no other status with id 0 answers the probe",
            .invalidToken,
            0,
            of: 3,
            probed: true,
            is: .unknownIdentifier
        ),
        Line("the next id without a probe", .missingDeviceToken, 4, of: 3, is: .unknownIdentifier),
    ]

    static let shutdowns = [
        Line("status 10 proves its id and all before", .shutdown, 2, of: 3, is: .proves(count: 2)),
        Line("status 10 with the first id", .shutdown, 1, of: 3, is: .proves(count: 1)),
        Line("status 10 with the last id", .shutdown, 3, of: 3, probed: true, is: .proves(count: 3)),
        Line("status 10 with id 0 says nothing", .shutdown, 0, of: 3, is: .silence),
        Line("status 10 with id 0 does not answer a probe", .shutdown, 0, of: 3, probed: true, is: .silence),
        Line("status 10 with an id that was not written", .shutdown, 9, of: 3, is: .silence),
    ]

    static let unknown = [
        Line("id 0 cannot be placed", .invalidToken, 0, of: 3, is: .unknownIdentifier),
        Line("an id never written cannot be placed", .invalidToken, 4_000_000_000, of: 3, is: .unknownIdentifier),
        Line(
            "one past the probe cannot be placed",
            .missingDeviceToken,
            5,
            of: 3,
            probed: true,
            is: .unknownIdentifier
        ),
        Line("an answer before anything was written", .invalidToken, 1, of: 0, is: .unknownIdentifier),
    ]

    @Test(arguments: named + probes + shutdowns + unknown)
    func `an answer is placed by the rules`(line: Line) {
        let response = ErrorResponse(status: line.status, identifier: line.identifier)
        #expect(ProofRules.proved.interpret(response, line.count, line.isProbed) == line.meaning)
    }

    @Test func `an end without an answer says nothing`() {
        #expect(ProofRules.proved.end == .silence)
    }
}
