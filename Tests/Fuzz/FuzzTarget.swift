// SPDX-License-Identifier: Apache-2.0

import Batch

/// A reader of bytes that are not ours: it must neither trap nor accept what it then reads differently.
enum FuzzTarget: String, CaseIterable {
    case frames, errors, feedback, payload, builder, strings, token, texts, topics, jsonl, csv, tokens, gzip, journal,
        spool, outcomes, purge, store, database, certificate, revocations, keys, jwt, gateway, faults, control, http2

    /// Runs one input.
    ///
    /// - Throws: `FuzzFinding`.
    func run(_ bytes: [UInt8]) throws {
        switch self {
        case .frames: try WireFuzz.frames(bytes)
        case .errors: try WireFuzz.errors(bytes)
        case .feedback: try WireFuzz.feedback(bytes)
        case .token: try WireFuzz.token(bytes)
        case .texts: try WireFuzz.texts(bytes)
        case .topics: WireFuzz.topics(bytes)
        case .payload: try PayloadFuzz.payload(bytes)
        case .builder: try PayloadFuzz.builder(bytes)
        case .strings: try PayloadFuzz.strings(bytes)
        case .jsonl: try BatchFuzz.batch(bytes, .jsonLines)
        case .csv: try BatchFuzz.batch(bytes, .csv)
        case .tokens: try BatchFuzz.batch(bytes, nil)
        case .gzip: try BatchFuzz.gzip(bytes)
        case .journal: try BatchFuzz.journal(bytes)
        case .spool: try FileFuzz.spool(bytes)
        case .outcomes: try FileFuzz.outcomes(bytes)
        case .gateway: FileFuzz.gateway(bytes)
        case .faults: try FileFuzz.faults(bytes)
        case .purge: try StoreFuzz.purge(bytes)
        case .store: try StoreFuzz.store(bytes)
        case .database: try DatabaseFuzz.run(bytes)
        case .certificate: IdentityFuzz.certificate(bytes)
        case .revocations: try IdentityFuzz.revocations(bytes)
        case .keys: try IdentityFuzz.keys(bytes)
        case .jwt: try IdentityFuzz.providerToken(bytes)
        case .http2: try HTTP2Fuzz.run(bytes)
        // It is asynchronous, see `ControlFuzz`.
        case .control: break
        }
    }
}

/// A property that an input does not have.
struct FuzzFinding: Error, CustomStringConvertible {
    let description: String
}

func require(_ condition: Bool, _ property: @autoclosure () -> String) throws {
    if !condition { throw FuzzFinding(description: "not so: " + property()) }
}

/// Reads numbers and bytes from an input, for targets that build a file or an answer from it; zeros at its end.
struct FuzzInput {
    private var rest: ArraySlice<UInt8>

    init(_ bytes: [UInt8]) { self.rest = bytes[...] }

    var isEmpty: Bool { self.rest.isEmpty }

    mutating func byte() -> UInt8 { self.rest.popFirst() ?? 0 }

    mutating func number(byteCount: Int) -> UInt64 {
        var number: UInt64 = 0
        for _ in 0..<byteCount { number = number << 8 | UInt64(self.byte()) }
        return number
    }

    mutating func bytes(_ count: Int) -> [UInt8] {
        defer { self.rest = self.rest.dropFirst(count) }
        return Array(self.rest.prefix(count))
    }

    /// The bytes up to the next one of this value, which is skipped.
    mutating func bytes(upTo end: UInt8) -> [UInt8] {
        let bytes = Array(self.rest.prefix { $0 != end })
        self.rest = self.rest.dropFirst(bytes.count + 1)
        return bytes
    }

    mutating func all() -> [UInt8] { self.bytes(self.rest.count) }
}
