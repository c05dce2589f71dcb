// SPDX-License-Identifier: Apache-2.0

// The targets of libFuzzer. `Scripts/fuzz` builds them as one program, which runs the target of its own name, so that a
// link for each has the layout that OSS-Fuzz expects.

import APNSPayload
import Glibc
import NIOCore

@testable import APNSFeedback
@testable import APNSJSON
@testable import APNSProviderHTTP2
@testable import APNSSession
@testable import APNSWire
@testable import Batch
@testable import GatewayService
@testable import OpenSSLTLS
@testable import SimulatorService
@testable import TokenStore

/// A reader of bytes that are not ours: it must neither trap nor accept what it then reads differently.
enum FuzzTarget: String, CaseIterable {
    case frames, errors, feedback, payload, token, jsonl, csv, tokens, journal, spool, purge, certificate, revocations,
        gateway, faults, http2, topics
}

nonisolated(unsafe) private var target = FuzzTarget.frames

@_silgen_name("LLVMFuzzerRunDriver")
private func runDriver(
    _ count: UnsafeMutablePointer<CInt>,
    _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>,
    _ test: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

/// The package manager links a program with this function as its main function.
@_cdecl("Fuzz_main")
public func fuzzMain(_ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?) -> CInt {
    let name = CommandLine.arguments.first?.split(separator: "/").last.map(String.init) ?? ""
    guard let found = FuzzTarget(rawValue: name) else {
        print("the name of the program is none of: \(FuzzTarget.allCases.map(\.rawValue).joined(separator: " "))")
        return 64
    }
    target = found
    var (count, arguments) = (count, arguments)
    return runDriver(&count, &arguments, testOneInput)
}

private func testOneInput(_ data: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let bytes = Array(UnsafeBufferPointer(start: data, count: count))
    switch target {
    case .frames: fuzzFrames(bytes)
    case .errors: fuzzErrors(bytes)
    case .feedback: fuzzFeedback(bytes)
    case .payload: fuzzPayload(bytes)
    case .token: fuzzToken(bytes)
    case .jsonl: fuzzBatch(bytes, .jsonLines)
    case .csv: fuzzBatch(bytes, .csv)
    case .tokens: fuzzBatch(bytes, nil)
    case .journal: fuzzJournal(bytes)
    case .spool:
        fuzzFile(bytes) { path in
            guard var reader = try SpoolReader.open(path: path).reader else { return }
            for _ in 0..<bytes.count { if case .end = try reader.next() { return } }
        }
    case .purge:
        fuzzFile(bytes) { path in
            let list = try PurgeList(path: path, isMade: false)
            defer { list.close() }
            try list.checkIntegrity()
            try list.entries { _ in }
        }
    case .certificate: _ = try? CertificateFile(bytes: bytes)
    case .revocations: _ = try? CertificateVerifier(authorities: bytes, revocations: bytes)
    case .gateway: _ = try? GatewayFile(yaml: String(decoding: bytes, as: UTF8.self))
    case .faults: _ = try? FaultsFile(String(decoding: bytes, as: UTF8.self))
    case .http2: fuzzHTTP2(bytes)
    case .topics: _ = try? CertificateTopics(parsing: bytes)
    }
    return 0
}

/// A frame is what the skipper skips, in pieces too, and is written as it was read.
private func fuzzFrames(_ bytes: [UInt8]) {
    var session = GatewaySession()
    bytes.withUnsafeBytes { bytes in
        var offset = 0
        while offset < bytes.count {
            let rest = UnsafeRawBufferPointer(rebasing: bytes[offset...])
            var layout = FrameLayout(command: .simple)
            do throws(WireError) {
                guard try layout.read(rest, limits: FrameLimits()) else { break }
            } catch {
                _ = session.receive(error, command: Command(rawValue: rest[0]))
                break
            }
            precondition(layout.byteCount > 0 && layout.byteCount <= rest.count)
            precondition(layout.tokenOffset + layout.tokenByteCount <= layout.byteCount)
            precondition(layout.payloadOffset + layout.payloadByteCount <= layout.byteCount)
            _ = session.receive(layout)
            for step in [1, 7, layout.byteCount] {
                var skipper = FrameSkipper()
                var position = 0
                repeat {
                    let end = min(position + step, rest.count)
                    position += skipper.skip(UnsafeRawBufferPointer(rebasing: rest[position..<end]))
                } while !skipper.isAtFrameStart && !skipper.isLost && position < rest.count
                precondition(position == layout.byteCount, "a frame of \(layout.byteCount) bytes, skipped \(position)")
            }
            offset += layout.byteCount
        }
        _ = FrameScanner.frame(at: 0, in: bytes)
        _ = FrameScanner.offset(passing: 3, in: bytes)
    }
}

private func fuzzErrors(_ bytes: [UInt8]) {
    var rest = bytes[...]
    while let response = try? ErrorResponse(parsing: &rest) {
        var written = ByteBuffer()
        response.write(into: &written)
        precondition(Array(buffer: written).elementsEqual(bytes[(rest.startIndex - 6)..<rest.startIndex]))
    }
}

/// The list is the same, however the stream is split.
private func fuzzFeedback(_ bytes: [UInt8]) {
    func read(_ step: Int) -> [FeedbackTuple] {
        var reader = FeedbackReader(silence: nil, deadline: .seconds(10), now: .zero)
        var tuples: [FeedbackTuple] = []
        var buffer = ByteBuffer()
        _ = reader.begin()
        for start in stride(from: 0, to: bytes.count, by: step) {
            let piece = Array(bytes[start..<min(start + step, bytes.count)])
            _ = piece.withUnsafeBytes { reader.received($0, now: .zero) }
            buffer.writeBytes(piece)
            while let tuple = try? FeedbackTuple(parsing: &buffer) { tuples.append(tuple) }
        }
        _ = reader.peerClosed()
        _ = reader.connectionClosed()
        return tuples
    }
    let whole = read(max(bytes.count, 1))
    precondition(whole == read(1) && whole == read(5))
}

/// A valid payload stays valid, and no longer, when it is minified.
private func fuzzPayload(_ bytes: [UInt8]) {
    guard (try? Payload.check(bytes)) != nil else { return }
    guard let minified = try? Payload.minified(bytes) else { preconditionFailure("cannot be minified") }
    precondition(minified.count <= bytes.count && (try? Payload.minified(minified)) == minified)
    precondition((try? JSONValue(parsing: bytes)) == (try? JSONValue(parsing: minified)))
}

private func fuzzToken(_ bytes: [UInt8]) {
    guard var token = try? DeviceToken(bytes: [0]), var again = try? DeviceToken(bytes: [0]) else { return }
    guard bytes.withUnsafeBytes({ DeviceTokenText.decode($0, into: &token) }) else { return }
    let isToken = Array(token.hexadecimal.utf8).withUnsafeBytes { DeviceTokenText.decode($0, into: &again) }
    precondition(isToken && again == token)
}

/// The records are the same, however the input is split.
private func fuzzBatch(_ bytes: [UInt8], _ format: BatchFormat?) {
    func read(_ step: Int) -> [String] {
        var options = BatchOptions(now: 1_700_000_000)
        options.lineByteCountMax = 4096
        if format == nil { options.commonPayload = Array("{}".utf8) }
        guard var reader = try? BatchReader(format: format, options: options) else { return [] }
        var record = BatchRecord()
        var (offset, lines): (Int, [String]) = (0, [])
        while true {
            switch reader.next(&record) {
            case .record:
                lines.append(
                    "\(record.lineNumber) \(record.token.hexadecimal) \(Array(record.payload)) \(Array(record.id))"
                )
            case .needMore:
                reader.fill { memory in
                    let end = min(offset + min(memory.count, step), bytes.count)
                    memory.copyBytes(from: bytes[offset..<end])
                    defer { offset = end }
                    return end - offset
                }
            case .end: return lines
            default: lines.append("\(reader.problem.map { "\($0)" } ?? "")")
            }
            precondition(lines.count <= bytes.count + 1)
        }
    }
    precondition(read(65_536) == read(3))
}

private func fuzzJournal(_ bytes: [UInt8]) {
    func read(_ step: Int) -> String {
        // The batch of Tests/Fuzz/seeds/journal.
        let input = "325-6764218b0df5e4a7 c2520816bac25e29"
        var reader = SendJournalReader(path: "journal", input: input, formerInput: input, lineCount: 1000)
        do {
            for start in stride(from: 0, to: bytes.count, by: step) {
                try reader.read(bytes[start..<min(start + step, bytes.count)])
            }
            return "\(try reader.finish().outcomeCounts)"
        } catch {
            return "refused"
        }
    }
    precondition(read(max(bytes.count, 1)) == read(7))
}

private let path = "/dev/shm/apns-legacy-fuzz-\(getpid())"

private func fuzzFile(_ bytes: [UInt8], _ body: (String) throws -> Void) {
    for suffix in ["-wal", "-shm", "-journal"] { unlink(path + suffix) }
    let file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
    _ = bytes.withUnsafeBytes { write(file, $0.baseAddress, $0.count) }
    close(file)
    try? body(path)
}

/// Whatever a service sends: memory and the number of events stay bounded.
private func fuzzHTTP2(_ bytes: [UInt8]) {
    let session = HTTP2Session(streamCountMax: 10)
    let headers = HTTP2HeaderFields(authority: "localhost")
    var count = 0
    for start in stride(from: 0, to: bytes.count, by: 97) {
        if start.isMultiple(of: 3) { _ = session.submit(headers, body: ByteBuffer(string: "{}")) }
        session.receive(ByteBuffer(bytes: bytes[start..<min(start + 97, bytes.count)]))
        while let event = session.nextEvent() {
            count += 1
            if case .headers(let stream, _, _, isEnd: false) = event { session.reset(stream, code: 8) }
        }
        while let output = session.nextBytes(atMost: 4096), output.readableBytes > 0 {}
    }
    precondition(count <= 4 * bytes.count + 16)
}
