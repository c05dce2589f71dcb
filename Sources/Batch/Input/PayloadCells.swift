// SPDX-License-Identifier: Apache-2.0

import APNSJSON

/// The cells of a row of CSV from which its payload is built.
///
/// They are valid as long as the row.
@safe struct PayloadCells {
    private var alert: CSVFields.Field?
    private var badge: Int?
    private var sound: CSVFields.Field?

    /// The number of bytes of a payload, besides its texts and the digits of the badge, is not greater.
    static let frameByteCountMax = 64

    /// Whether the row has none of them.
    var isEmpty: Bool { self.alert == nil && self.badge == nil && self.sound == nil }

    /// Takes a cell that is not blank.
    ///
    /// - Throws: what is wrong with the cell.
    mutating func set(_ column: BatchColumn, _ field: CSVFields.Field) throws(BatchProblem.Kind) {
        switch column {
        case .alert: self.alert = field
        case .badge:
            let text = unsafe field.bytes.trimmed
            let isNumber = unsafe text.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
            self.badge = unsafe isNumber ? Int(String(decoding: text, as: UTF8.self)) : nil
            if self.badge == nil { throw .invalidBadge }
        case .sound:
            // The name of a file, which no device finds with the white space around it.
            let text = unsafe field.bytes.trimmed
            self.sound = unsafe CSVFields.Field(bytes: text, hasDoubledQuotes: field.hasDoubledQuotes)
        default: break
        }
    }

    /// Writes the payload.
    ///
    /// Returns the payload, without white space between its parts.
    ///
    /// - Throws: what is wrong with a text.
    func write(to target: UnsafeMutableRawBufferPointer) throws(BatchProblem.Kind) -> UnsafeRawBufferPointer {
        var json = unsafe JSONWriter(target)
        json.append("{\"aps\":{")
        if let alert = self.alert {
            json.append("\"alert\":")
            guard alert.writeString(to: &json) else { throw .invalidUTF8(.alert) }
        }
        if let badge = self.badge {
            json.append(self.alert == nil ? "\"badge\":" : ",\"badge\":")
            json.append(badge)
        }
        if let sound = self.sound {
            json.append(self.alert == nil && self.badge == nil ? "\"sound\":" : ",\"sound\":")
            guard sound.writeString(to: &json) else { throw .invalidUTF8(.sound) }
        }
        json.append("}}")
        return unsafe json.bytes
    }
}
