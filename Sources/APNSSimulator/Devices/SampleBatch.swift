// SPDX-License-Identifier: Apache-2.0

package import APNSWire

/// The devices and the batch of the quick start: mostly valid lines, and one of each kind of error.
package struct SampleBatch {
    /// The topic of all devices.
    package static let topic = "com.example.app"

    /// The number of devices with the app.
    package static let deviceCount = 20

    /// How long ago the app was deleted from a device, in seconds.
    static let deadSecondCount: UInt32 = 3600

    /// The kind of a line.
    private enum Kind {
        case usual(Int)
        case foreignToken
        case sameForeignToken
        case deadDevice
        case returnedDevice
        case badBadge
    }

    package let devices: [SimulatedDevice]

    /// A device from which the app was deleted.
    package let dead: DeviceToken

    /// A device from which the app was deleted and on which it was registered again.
    package let returned: DeviceToken

    /// The lines of the batch in JSON, one per notification.
    package let lines: [String]

    /// A description of each line, in order.
    package let remarks: [Int: String]

    /// Creates a sample with new tokens.
    ///
    /// - Throws: `WireError` for an invalid token.
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
                    removalTimestamp: Timestamp(secondsSince1970: Int64(now - SampleBatch.deadSecondCount))
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
                case .deadDevice: (dead, "1", "the app was deleted an hour ago")
                case .returnedDevice: (returned, "1", "deleted an hour ago and registered again")
                case .badBadge: (tokens[0], "\"one\"", "a badge that is text")
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
