// SPDX-License-Identifier: Apache-2.0

/// Which module may import what: the arrows of the design, which nothing points against.
enum ImportRule {
    enum Others {
        case any
        case only(Set<String>)
        case anyBut(prefix: String)
    }

    struct Allowance {
        /// Modules of this package.
        let ours: Set<String>
        /// Modules of other packages, of the toolchain and of the system.
        let others: Others
    }

    static let foundations: Set<String> = [
        "OpenSSLTLS", "COpenSSL", "APNSWire", "APNSPayload", "APNSTransport", "PurgeList",
    ]
    static let clients = foundations.union(["APNSSession", "APNSProvider", "APNSFeedback", "APNSHTTP2"])
    static let servers = clients.union(["APNSGateway"])
    static let everything = servers.union(["APNSSimulator"])
    /// The quick start makes its certificates as tests do.
    static let commands = everything.union(["APNSTestKit", "BatchFiles"])

    static let allowances: [String: Allowance] = [
        "APNSWire": Allowance(ours: ["CPrefetch"], others: .only(["NIOCore"])),
        "APNSSession": Allowance(ours: ["APNSWire"], others: .only([])),
        "APNSPayload": Allowance(ours: [], others: .only([])),
        "OpenSSLTLS": Allowance(ours: ["COpenSSL"], others: .any),
        "APNSTransport": Allowance(ours: ["APNSWire", "OpenSSLTLS"], others: .any),
        "PurgeList": Allowance(ours: [], others: .anyBut(prefix: "NIO")),
        "APNSProvider": Allowance(ours: foundations.union(["APNSSession"]), others: .any),
        "APNSFeedback": Allowance(ours: foundations.union(["APNSSession", "CFallocate"]), others: .any),
        "BatchFiles": Allowance(ours: ["APNSPayload", "APNSProvider", "APNSSession", "APNSWire"], others: .any),
        "APNSHTTP2": Allowance(ours: foundations.union(["APNSSession", "APNSProvider"]), others: .any),
        "APNSGateway": Allowance(ours: clients, others: .any),
        "APNSSimulator": Allowance(ours: servers, others: .any),
        "APNSLegacyCommands": Allowance(ours: commands, others: .any),
        "apns-legacy": Allowance(ours: ["APNSLegacyCommands"], others: .only(["ArgumentParser"])),
        "APNSTestKit": Allowance(ours: everything, others: .any),
    ]

    /// Modules of this package that are C headers and import nothing.
    static let headers: Set<String> = ["CFallocate", "COpenSSL", "CPrefetch"]

    /// The folders of commands that are clients, which need no server of ours.
    static let clientFolders: Set<Substring> = ["Send", "Feedback"]
    static let serverModules: Set<String> = ["APNSServer", "APNSGateway", "GatewayService", "APNSSimulator"]

    /// There is one TLS stack.
    static let neverInSources: Set<String> = ["NIOSSL", "XCTest"]
    static let neverInTests: Set<String> = ["NIOSSL", "XCTest"]

    static func findings(in file: SourceFile) -> [Finding] {
        guard file.language == .swift else { return [] }
        let imports = Self.imports(of: file)
        if file.components.first == "Tests" {
            return imports.filter { Self.neverInTests.contains($0.module) }.map { Self.finding(file, $0, "a test") }
        }
        guard let module = file.module(in: "Sources") else { return [] }
        guard let allowance = Self.allowances[module] else {
            let sentence = "\(module) has no line in ImportRule.allowances"
            return [Finding(path: file.path, line: nil, sentence: sentence)]
        }
        if module == "APNSLegacyCommands", file.components.count > 3, Self.clientFolders.contains(file.components[2]) {
            let who = "a command that only sends or reads"
            return imports.filter { Self.serverModules.contains($0.module) }.map { Self.finding(file, $0, who) }
        }
        return imports.filter { !Self.allows(allowance, $0.module) }.map { Self.finding(file, $0, module) }
    }

    private static func finding(_ file: SourceFile, _ found: (line: Int, module: String), _ who: String) -> Finding {
        Finding(path: file.path, line: found.line, sentence: "\(who) may not import \(found.module)")
    }

    private static func allows(_ allowance: Allowance, _ module: String) -> Bool {
        if Self.neverInSources.contains(module) { return false }
        if Self.headers.contains(module) || Self.allowances[module] != nil { return allowance.ours.contains(module) }
        switch allowance.others {
        case .any: return true
        case .only(let modules): return modules.contains(module)
        case .anyBut(let prefix): return !module.hasPrefix(prefix)
        }
    }

    /// The modules that a file imports, with the lines, counted from 1.
    static func imports(of file: SourceFile) -> [(line: Int, module: String)] {
        let kinds: Set<Substring> = ["struct", "class", "enum", "protocol", "func", "var", "let", "typealias", "actor"]
        let modifiers: Set<Substring> = ["public", "package", "internal", "fileprivate", "private"]
        return CodeMask(file.text).lines.enumerated().flatMap { number, line in
            line.split(separator: ";").compactMap { statement in
                var words = statement.split(separator: " ")[...]
                words = words.drop { $0.hasPrefix("@") || modifiers.contains($0) }
                guard words.popFirst() == "import" else { return nil }
                if let kind = words.first, kinds.contains(kind) { words.removeFirst() }
                return words.first?.split(separator: ".").first.map { (number + 1, String($0)) }
            }
        }
    }
}
