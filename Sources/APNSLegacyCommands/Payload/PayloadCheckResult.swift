// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSWire
import ArgumentParser
import Batch
import APNSJSON

/// The size limit of a payload.
struct PayloadLimitOptions: ParsableArguments, Sendable {
    @Option(help: .value("protocol", "The protocol whose limit counts: 2048, 4096 or 5120 bytes."))
    var transport = Transport.binary

    @Option(help: .value("bytes", "Another limit; devices before 2014 accept 256. (default: that of --transport)"))
    var payloadMax: Int?

    /// The protocol whose rules apply.
    enum Transport: String, ExpressibleByArgument, CaseIterable, Sendable {
        case binary
        case http2
        case voip
    }

    var rules: PayloadRules {
        var rules: PayloadRules =
            switch self.transport {
            case .binary: .binary
            case .http2: .http2
            case .voip: .voip
            }
        if let payloadMax = self.payloadMax { rules.byteCountMax = payloadMax }
        // Like apns-legacy send, which removes white space.
        rules.measuresMinified = true
        return rules
    }

    func validate() throws {
        try self.require(1...Int.max, "--payload-max", self.payloadMax)
    }
}

/// The result of checking a payload.
struct PayloadCheckResult {
    private let input: PayloadInput
    private let rules: PayloadRules
    private let result: Result<PayloadMeasure, PayloadRefusal>
    /// Content that is valid, but probably a mistake.
    let warnings: [PayloadWarning]

    init(_ input: PayloadInput, _ rules: PayloadRules) {
        self.input = input
        self.rules = rules
        self.result = input.check(rules)
        self.warnings = (try? input.payload.get().warnings()) ?? []
    }

    /// Why the payload would be rejected; `nil` if it would not.
    var problem: PayloadRefusal? {
        guard case .failure(let refusal) = self.result else { return nil }
        return refusal
    }

    /// The lines to print; for one line of several, only its problems.
    func lines(isAlone: Bool) -> [String] {
        var lines: [String] = []
        switch self.result {
        case .success(let measure) where isAlone:
            let size = measure.minifiedByteCount == measure.byteCount ? "" : ", \(measure.minifiedByteCount) minified"
            lines.append(
                "\(self.input.printableName): \(measure.byteCount.counted("byte"))\(size); at most "
                    + "\(self.rules.byteCountMax)"
            )
        case .success: break
        case .failure(let refusal): lines.append(self.input.diagnostic(of: refusal).text)
        }
        return lines + self.warnings.map { "\(self.input.printableName): warning: \($0)" }
    }

    /// The same as a JSON object.
    var json: String {
        var object = JSONObject()
        object.add("name", self.input.name)
        object.add("line", self.input.lineNumber)
        switch self.result {
        case .success(let measure):
            object.add("bytes", measure.byteCount)
            object.add("minifiedBytes", measure.minifiedByteCount)
            object.add("problem", json: "null")
        case .failure(let refusal): object.add("problem", self.input.text(of: refusal))
        }
        let warnings = self.warnings.map { warning in
            JSONObject { object in
                object.add("path", warning.path)
                object.add("text", "\(warning)")
            }
        }
        object.add("warnings", elements: warnings)
        return object.text
    }
}
