// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Foundation
import NIOCore
import Testing

/// One entry of vectors.json: complete messages that other software wrote or tested.
struct GoldenVector: Decodable, Sendable, CustomTestStringConvertible {
    struct Fields: Decodable, Sendable {
        var token: String?
        var payload: String?
        var identifier: Number?
        var expiry: UInt32?
        var priority: UInt8?
        var status: UInt8?
        var timestamp: UInt32?
        var topics: [[String]]?
        var item_order: String?
        var items: String?
    }

    /// A number, as a JSON number or hexadecimal text.
    struct Number: Decodable, Sendable {
        var value: UInt32

        init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            if let value = try? container.decode(UInt32.self) {
                self.value = value
            } else {
                let text = try container.decode(String.self).dropFirst(2)
                self.value = try UInt32(text, radix: 16).orThrow()
            }
        }
    }

    var id: String
    var fields: Fields
    var length: Int
    var hex: String
    var status: String

    var testDescription: String { self.id }

    static let all: [GoldenVector] = {
        do {
            let url = try Bundle.module.url(forResource: "vectors", withExtension: "json").orThrow()
            return try JSONDecoder().decode([GoldenVector].self, from: Data(contentsOf: url))
        } catch {
            return []
        }
    }()

    static func named(_ prefix: String) -> [GoldenVector] { self.all.filter { $0.id.hasPrefix(prefix) } }

    var buffer: ByteBuffer { ByteBuffer(bytes: GoldenVector.bytes(self.hex)) }

    /// The token; `aa*32` means a byte 32 times.
    var token: DeviceToken {
        get throws {
            let parts = try self.fields.token.orThrow().split(separator: "*")
            let bytes = GoldenVector.bytes(String(parts[0]))
            let count = parts.count == 2 ? Int(parts[1]) ?? 0 : 1
            return try DeviceToken(bytes: Array(repeating: bytes, count: count).flatMap { $0 })
        }
    }

    static func bytes(_ hex: String) -> [UInt8] {
        let digits = Array(hex)
        return stride(from: 0, to: digits.count, by: 2).compactMap { UInt8(String(digits[$0...($0 + 1)]), radix: 16) }
    }
}

struct MissingValue: Error {}

extension Optional {
    func orThrow() throws -> Wrapped {
        guard let self else { throw MissingValue() }
        return self
    }
}
