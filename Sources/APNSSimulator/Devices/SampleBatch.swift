// SPDX-License-Identifier: Apache-2.0

package import APNSWire

/// The devices and the batch of the quick start: most notifications are good, and one of each other kind.
package struct SampleBatch {
    /// The topic of all notifications.
    package static let topic = "com.example.app"

    /// How many devices have the app.
    package static let deviceCount = 20

    /// How long ago devices deleted the app, in seconds.
    static let deadSecondCount: UInt32 = 3600

    /// What is special about a line of the batch.
    private enum Kind {
        case usual(Int)
        case foreignToken
        case sameForeignToken
        case deadDevice
        case returnedDevice
        case badBadge
    }

    package let devices: [SimulatedDevice]

    /// The device that deleted the app.
    package let dead: DeviceToken

    /// The device that deleted the app, and registered again since.
    package let returned: DeviceToken

    /// The lines of the batch in JSON, one for each notification.
    package let lines: [String]

    /// What each line is for, by its number from 1.
    package let remarks: [Int: String]

    /// Makes one with new tokens.
    ///
    /// - Parameter now: the time, in seconds since 1970.
    /// - Throws: `WireError` for a token that is none.
    package init(now: UInt32) throws {
        let tokens = try (0..<SampleBatch.deviceCount).map { _ in try SampleBatch.token() }
        let foreign = try SampleBatch.token()
        let (dead, returned) = (try SampleBatch.token(), try SampleBatch.token())
        (self.dead, self.returned) = (dead, returned)
        self.devices =
            tokens.map { SimulatedDevice(token: $0, topic: SampleBatch.topic) }
            + [dead, returned].map {
                SimulatedDevice(
                    token: $0,
                    topic: SampleBatch.topic,
                    removalTimestamp: UInt64(now - SampleBatch.deadSecondCount) * 1000
                )
            }
        var kinds = (0..<SampleBatch.deviceCount).map { Kind.usual($0) }
        kinds.insert(.foreignToken, at: 6)
        kinds.insert(.deadDevice, at: 10)
        kinds.insert(.badBadge, at: 13)
        kinds.insert(.returnedDevice, at: 16)
        kinds.append(.sameForeignToken)
        var lines: [String] = []
        var remarks: [Int: String] = [:]
        for kind in kinds {
            let (token, badge, remark) =
                switch kind {
                case .usual(let index): (tokens[index], "\(index + 1)", nil as String?)
                case .foreignToken: (foreign, "1", "a token of another app")
                case .sameForeignToken: (foreign, "2", "the same token again")
                case .deadDevice: (dead, "1", "this device deleted the app an hour ago")
                case .returnedDevice: (returned, "1", "this device deleted the app, and registered again since")
                case .badBadge: (tokens[0], "\"one\"", "a badge that is not a number")
                }
            remarks[lines.count + 1] = remark
            lines.append(
                "{\"id\":\"note-\(lines.count + 1)\",\"token\":\"\(token.hexadecimal)\",\"expiry\":\"+1h\","
                    + "\"payload\":{\"aps\":{\"alert\":\"Hello from 2009\",\"badge\":\(badge),\"sound\":\"default\"}}}"
            )
        }
        self.lines = lines
        self.remarks = remarks
    }

    private static func token() throws -> DeviceToken {
        try DeviceToken(bytes: (0..<WireLimits.tokenByteCountUsual).map { _ in UInt8.random(in: 0...255) })
    }
}
