// SPDX-License-Identifier: Apache-2.0

import APNSWire
public import PurgeList

extension PurgeScope {
    /// The name of this scope in file names: letters, digits, dots and hyphens stay, other bytes become `%XX`.
    public var fileStem: String {
        let topic = self.topic.utf8.map { byte -> String in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "-"):
                return String(UnicodeScalar(byte))
            default:
                let digits = String(byte, radix: 16, uppercase: true)
                return "%" + (digits.count == 1 ? "0" : "") + digits
            }
        }
        return topic.joined() + "_" + self.environment.rawValue
    }

    /// Finds out whether a purge list would take tokens of this scope.
    ///
    /// - Throws: ``PurgeList/PurgeListError`` with what is wrong with the topic.
    package func check() throws(PurgeListError) {
        let entry = PurgeEntry(
            topic: self.topic,
            environment: self.environment,
            token: [0],
            failedAt: 0,
            firstSeen: 0,
            source: SpoolCursor.source
        )
        try entry.check()
    }
}
