// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOCore

/// An independent parser of frames, based on slices of buffers, for comparison with the library's.
enum ReferenceFrameReader {
    /// Reads one frame; `nil`, with `buffer` unchanged, if it is incomplete.
    static func read(_ buffer: inout ByteBuffer, _ limits: FrameLimits) throws(WireError) -> NotificationFrame? {
        var rest = buffer
        guard let first = rest.readInteger(as: UInt8.self) else { return nil }
        guard let command = Command(rawValue: first) else { throw .unknownCommand(first) }
        var frame = NotificationFrame(token: nil, payload: ByteBuffer(), command: command)
        let isWhole =
            command == .items
            ? try self.readItems(&rest, &frame, limits) : try self.readFields(&rest, &frame, limits)
        guard isWhole else { return nil }
        buffer = rest
        return frame
    }

    private static func readFields(
        _ rest: inout ByteBuffer,
        _ frame: inout NotificationFrame,
        _ limits: FrameLimits
    ) throws(WireError) -> Bool {
        if frame.command == .enhanced {
            guard let (identifier, expiry) = rest.readMultipleIntegers(as: (UInt32, UInt32).self) else { return false }
            (frame.identifier, frame.expiry) = (identifier, expiry)
        }
        guard let tokenLength = rest.readInteger(as: UInt16.self).map(Int.init) else { return false }
        guard tokenLength <= limits.tokenByteCountMax else {
            throw .tokenTooLong(announced: tokenLength, limit: limits.tokenByteCountMax, identifier: frame.identifier)
        }
        guard let token = rest.readBytes(length: tokenLength),
            let payloadLength = rest.readInteger(as: UInt16.self).map(Int.init)
        else { return false }
        guard payloadLength <= limits.payloadByteCountMax else {
            guard tokenLength > 0 else { throw .tokenMissing(identifier: frame.identifier) }
            throw .payloadTooLong(
                announced: payloadLength,
                limit: limits.payloadByteCountMax,
                identifier: frame.identifier
            )
        }
        guard let payload = rest.readSlice(length: payloadLength) else { return false }
        frame.token = token.isEmpty ? nil : try DeviceToken(bytes: token)
        frame.payload = payload
        return true
    }

    // MARK: Command 2

    private static func readItems(
        _ rest: inout ByteBuffer,
        _ frame: inout NotificationFrame,
        _ limits: FrameLimits
    ) throws(WireError) -> Bool {
        guard let announced = rest.readInteger(as: UInt32.self) else { return false }
        guard announced <= limits.frameByteCountMax else {
            throw .frameTooLong(announced: announced, limit: limits.frameByteCountMax)
        }
        guard var items = rest.readSlice(length: Int(announced)) else { return false }
        // It is determined first, so that every error can contain it.
        frame.identifier = self.identifier(items)
        var seen: Set<NotificationFrame.Item> = []
        while items.readableBytes > 0 {
            let number = items.getInteger(at: items.readerIndex, as: UInt8.self)
            guard let (number, length) = items.readMultipleIntegers(as: (UInt8, UInt16).self),
                let data = items.readSlice(length: Int(length))
            else { throw .itemOverrunsFrame(item: number, identifier: frame.identifier) }
            guard let item = NotificationFrame.Item(rawValue: number) else {
                guard limits.allowsUnknownItems else {
                    throw .itemUnknown(item: number, identifier: frame.identifier)
                }
                continue
            }
            guard seen.insert(item).inserted else {
                throw .itemRepeated(item: number, identifier: frame.identifier)
            }
            try self.take(item, data, &frame, limits)
        }
        return true
    }

    private static func take(
        _ item: NotificationFrame.Item,
        _ data: ByteBuffer,
        _ frame: inout NotificationFrame,
        _ limits: FrameLimits
    ) throws(WireError) {
        var data = data
        let count = data.readableBytes
        let widths: [NotificationFrame.Item: Int] = [.identifier: 4, .expiry: 4, .priority: 1]
        if let width = widths[item], width != count {
            throw .itemWidth(item: item.rawValue, announced: count, identifier: frame.identifier)
        }
        switch item {
        case .deviceToken:
            guard count <= limits.tokenByteCountMax else {
                throw .tokenTooLong(announced: count, limit: limits.tokenByteCountMax, identifier: frame.identifier)
            }
            frame.token = count == 0 ? nil : try DeviceToken(bytes: data.readableBytesView)
        case .payload:
            guard count <= limits.payloadByteCountMax else {
                throw .payloadTooLong(announced: count, limit: limits.payloadByteCountMax, identifier: frame.identifier)
            }
            frame.payload = data
        case .identifier: frame.identifier = data.readInteger()
        case .expiry: frame.expiry = data.readInteger()
        case .priority: frame.priority = data.readInteger()
        }
    }

    /// The identifier, from as many items as can be parsed.
    private static func identifier(_ items: ByteBuffer) -> UInt32? {
        var rest = items
        while let (number, length) = rest.readMultipleIntegers(as: (UInt8, UInt16).self),
            var data = rest.readSlice(length: Int(length))
        {
            if number == NotificationFrame.Item.identifier.rawValue, length == 4 { return data.readInteger() }
        }
        return nil
    }
}
