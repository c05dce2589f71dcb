// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOCore
import TestSupport
import Testing

/// Goal: the parser without copies, the values based on it, and an independent parser agree on every stream.
///
/// Method: all parse frames of every kind, complete, truncated, and with random changes.
@Suite struct FrameLayoutTests {
    enum Reading: Equatable {
        case frame(NotificationFrame, byteCount: Int)
        case incomplete
        case fault(WireError)
    }

    static func byReference(_ bytes: [UInt8], _ limits: FrameLimits) -> Reading {
        var buffer = ByteBuffer(bytes: bytes)
        do {
            guard let frame = try ReferenceFrameReader.read(&buffer, limits) else { return .incomplete }
            return .frame(frame, byteCount: bytes.count - buffer.readableBytes)
        } catch { return .fault(error) }
    }

    static func byValue(_ bytes: [UInt8], _ limits: FrameLimits) -> Reading {
        var buffer = ByteBuffer(bytes: bytes)
        do {
            guard let frame = try NotificationFrame(parsing: &buffer, limits: limits) else { return .incomplete }
            return .frame(frame, byteCount: bytes.count - buffer.readableBytes)
        } catch { return .fault(error) }
    }

    /// Parses into an earlier layout, which must be replaced completely.
    static func byLayout(_ bytes: [UInt8], _ limits: FrameLimits, after layout: FrameLayout? = nil) -> Reading {
        bytes.withUnsafeBytes { raw in
            do {
                var layout = layout ?? FrameLayout(command: .simple)
                guard try layout.read(raw, limits: limits) else { return .incomplete }
                let token = Array(bytes[layout.tokenOffset..<layout.tokenOffset + layout.tokenByteCount])
                let payload = bytes[layout.payloadOffset..<layout.payloadOffset + layout.payloadByteCount]
                let frame = NotificationFrame(
                    token: token.isEmpty ? nil : try DeviceToken(bytes: token),
                    payload: ByteBuffer(bytes: payload),
                    expiry: layout.expiry,
                    priority: layout.priority,
                    identifier: layout.identifier,
                    command: layout.command
                )
                return .frame(frame, byteCount: layout.byteCount)
            } catch let error as WireError {
                return .fault(error)
            } catch {
                Issue.record(error)
                return .incomplete
            }
        }
    }

    static func limits(_ random: inout SplitMix64) -> FrameLimits {
        var limits = FrameLimits()
        limits.tokenByteCountMax = [100, 32, 200].randomElement(using: &random) ?? 100
        limits.payloadByteCountMax = [2048, 256, 10].randomElement(using: &random) ?? 2048
        limits.frameByteCountMax = [8192, 100].randomElement(using: &random) ?? 8192
        limits.allowsUnknownItems = Bool.random(using: &random)
        return limits
    }

    @Test(arguments: 0..<20 as Range<UInt64>)
    func `all parsers agree on every stream`(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        var before: FrameLayout?
        for _ in 0..<200 {
            var buffer = ByteBuffer()
            try random.frame().write(into: &buffer)
            try random.frame().write(into: &buffer)
            var bytes = Array(buffer.readableBytesView)
            for _ in 0..<Int.random(in: 0...3, using: &random) {
                let index = Int.random(in: 0..<min(bytes.count, 60), using: &random)
                bytes[index] = UInt8.random(in: 0...(Bool.random(using: &random) ? 5 : 255), using: &random)
            }
            let limits = Self.limits(&random)
            let count = Bool.random(using: &random) ? bytes.count : Int.random(in: 0...bytes.count, using: &random)
            let cut = Array(bytes[..<count])
            let expected = Self.byReference(cut, limits)
            #expect(Self.byLayout(cut, limits, after: before) == expected, "seed \(seed)")
            #expect(Self.byValue(cut, limits) == expected, "seed \(seed)")
            before = try? bytes.withUnsafeBytes { try FrameLayout(parsing: $0, limits: FrameLimits()) } ?? before
        }
    }

    @Test func `a frame is incomplete at every prefix`() throws {
        var random = SplitMix64(seed: 1)
        for _ in 0..<50 {
            var buffer = ByteBuffer()
            try random.frame().write(into: &buffer)
            let bytes = Array(buffer.readableBytesView)
            for count in 0..<bytes.count {
                let prefix = Array(bytes[..<count])
                #expect(Self.byLayout(prefix, FrameLimits()) == Self.byValue(prefix, FrameLimits()))
            }
        }
    }
}
