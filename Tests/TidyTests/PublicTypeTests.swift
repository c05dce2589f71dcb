// SPDX-License-Identifier: Apache-2.0

import Testing

/// The public types of one Swift file, found by its lines, which `swift format` has formatted.
enum PublicTypes {
    /// The public top-level types of Foundation on Linux, as `swift symbolgraph-extract` lists them for Swift 6.3,
    /// without those that ``foundationPrefixes`` finds.
    static let foundationNames = Set(
        """
        AffineTransform AlignmentOptions AttributeContainer AttributeDynamicLookup AttributeScope \
        AttributeScopeCodableConfiguration AttributeScopes AttributedString AttributedStringAttributeMutation \
        AttributedStringKey AttributedStringProtocol AttributedSubstring BlockOperation Bundle ByteCountFormatStyle \
        ByteCountFormatter CachedURLResponse Calendar CharacterSet CocoaError CodableAttributedStringKey \
        CodableConfiguration CodableWithConfiguration ComparableComparator Comparator ComparisonResult \
        ContiguousBytes CurrencyFormatStyleConfiguration CustomNSError Data DataProtocol Date DateComponents \
        DateFormatter DateInterval DateIntervalFormatter Decimal DecodableAttributedStringKey \
        DecodableWithConfiguration DecodingConfigurationProviding DescriptiveNumberFormatConfiguration Dimension \
        DiscontiguousAttributedSubstring DiscreteFormatStyle EncodableAttributedStringKey EncodableWithConfiguration \
        EncodingConfigurationProviding EnergyFormatter Expression FileAttributeKey FileAttributeType FileHandle \
        FileManager FileManagerDelegate FileProtectionType FloatingPointFormatStyle FloatingPointParseStrategy \
        FormatStyle FormatStyleCapitalizationContext Formatter HTTPCookie HTTPCookiePropertyKey HTTPCookieStorage \
        HTTPURLResponse Host ISO8601DateFormatter IndexPath IndexSet InflectionRule InputStream IntegerFormatStyle \
        IntegerParseStrategy JSONDecoder JSONEncoder JSONSerialization KeyPathComparator LengthFormatter \
        ListFormatStyle Locale LocalizedError MarkdownDecodableAttributedStringKey MassFormatter Measurement \
        Morphology MutableDataProtocol Notification NotificationCenter NotificationQueue \
        NumberFormatStyleConfiguration NumberFormatter ObjCBool OperatingSystemVersion Operation OperationQueue \
        OutputStream POSIXError ParseStrategy ParseableFormatStyle PersonNameComponents \
        PersonNameComponentsFormatter Pipe Port PortDelegate PortMessage Predicate PredicateBindings PredicateError \
        PredicateExpression PredicateExpressions Process ProcessInfo Progress ProgressKind ProgressReporting \
        ProgressUserInfoKey PropertyListDecoder PropertyListEncoder PropertyListSerialization QualityOfService \
        RecoverableError ReferenceConvertible RunLoop Scanner ScopedAttributeContainer SocketNativeHandle SocketPort \
        SortComparator SortDescriptor SortOrder StandardPredicateExpression Stream StreamDelegate \
        StreamNetworkServiceTypeValue StreamSOCKSProxyConfiguration StreamSOCKSProxyVersion \
        StreamSocketSecurityLevel StringStyle StringTransform Thread TimeInterval TimeZone Timer UUID Unit \
        UnitAcceleration UnitAngle UnitArea UnitConcentrationMass UnitConverter UnitConverterLinear UnitDispersion \
        UnitDuration UnitElectricCharge UnitElectricCurrent UnitElectricPotentialDifference UnitElectricResistance \
        UnitEnergy UnitFrequency UnitFuelEfficiency UnitIlluminance UnitInformationStorage UnitLength UnitMass \
        UnitPower UnitPressure UnitSpeed UnitTemperature UnitVolume UserDefaults
        """
        .split(separator: " ")
    )

    /// The prefixes of Foundation's other types, which a capital letter follows.
    static let foundationPrefixes = ["CF", "CG", "NS", "URL", "XML"]

    /// The names of the top-level types.
    static func names(in file: SourceFile) -> [Substring] {
        let head = #/(?:@\w+ )*public (?:final |indirect )?(?:struct|enum|class|actor|protocol|typealias) (\w+).*/#
        return file.lines.compactMap { $0.wholeMatch(of: head)?.1 }
    }

    static func isFoundations(_ name: Substring) -> Bool {
        Self.foundationNames.contains(name)
            || Self.foundationPrefixes.contains {
                name.hasPrefix($0) && name.dropFirst($0.count).first?.isUppercase == true
            }
    }

    /// The enumerations with cases that do not declare whether later versions may add cases.
    static func undecidedEnumerations(in file: SourceFile) -> [Finding] {
        let head = #/( *)(?:@\w+ )*public (?:indirect )?enum (\w+).*/#
        return file.lines.indices.compactMap { start in
            guard let found = file.lines[start].wholeMatch(of: head) else { return nil }
            let attributes = file.lines[..<start].reversed().prefix { $0.hasPrefix("\(found.1)@") }
            guard !(attributes + [file.lines[start]]).contains(where: Self.isDecision) else { return nil }
            let body = file.lines[(start + 1)...].prefix { !$0.hasPrefix("\(found.1)}") }
            guard body.contains(where: { $0.hasPrefix("\(found.1)    case ") }) else { return nil }
            return Finding(path: file.path, line: start + 1, sentence: "\(found.2) is neither frozen nor nonexhaustive")
        }
    }

    private static func isDecision(_ line: Substring) -> Bool {
        line.contains("@frozen") || line.contains("@nonexhaustive")
    }
}

/// Goal: a file that imports a product has no ambiguous names, and its author knows which enumerations may grow.
@Suite struct PublicTypeTests {
    /// The files of a target that is in a library product.
    private static func libraryFiles() throws -> [SourceFile] {
        let files = try SourceTree.repository.get().files
        let manifest = try #require(files.first { $0.path == "Package.swift" }).text
        let products = manifest.matches(of: #/\.library\(\s*name: "\w+",\s*targets: \[([^\]]*)\]/#)
        let targets = Set(products.flatMap { $0.1.matches(of: #/\w+/#).map { $0.0 } })
        #expect(targets.count > 10)
        return files.filter {
            $0.language == .swift && $0.components[0] == "Sources" && targets.contains($0.components[1])
        }
    }

    @Test func `no type has a name of Foundation's, of a module, or of another type`() throws {
        let files = try Self.libraryFiles()
        let modules = Set(
            try SourceTree.repository.get().files.filter { $0.components[0] == "Sources" }.map { $0.components[1] }
        )
        var places: [Substring: String] = [:]
        for file in files {
            for name in PublicTypes.names(in: file) {
                #expect(!PublicTypes.isFoundations(name), "\(file.path): \(name) is a type of Foundation")
                #expect(!modules.contains(name), "\(file.path): \(name) is a module")
                #expect(places[name] == nil, "\(file.path): \(name) is in \(places[name] ?? "") as well")
                places[name] = file.path
            }
        }
        #expect(places.count > 100)
    }

    @Test func `every enumeration declares whether there may be more cases`() throws {
        for finding in try Self.libraryFiles().flatMap(PublicTypes.undecidedEnumerations) { Issue.record("\(finding)") }
    }

    /// The compiler finds missing imports of a snippet; this finds superfluous ones.
    @Test func `one import is enough for each task`() throws {
        let snippets = try SourceTree.repository.get().files.filter {
            $0.language == .swift && $0.components[0] == "Snippets"
        }
        #expect(snippets.count > 5)
        var used: Set<Set<Substring>> = []
        for file in snippets {
            let modules = Set(Self.modules(in: file))
            #expect(
                modules.count == (Self.snippetsOfTwoTasks.contains(file.path) ? 2 : 1),
                "\(file.path) imports \(modules.sorted())"
            )
            used.insert(modules)
        }
        let tasks: [Set<Substring>] = [
            ["APNSProvider"], ["APNSProviderHTTP2"], ["APNSFeedback"], ["APNSTestKit"], ["APNSWire"],
            ["APNSProvider", "APNSTestKit"],
        ]
        for task in tasks { #expect(used.contains(task), "no snippet shows \(task.sorted())") }
    }

    /// Tests with the tested modules, and sending with feedback.
    private static let snippetsOfTwoTasks = ["Snippets/TestWithoutApple.swift", "Snippets/CallsOfOtherLibraries.swift"]

    /// The modules of this package that a file imports.
    private static func modules(in file: SourceFile) -> [Substring] {
        file.lines.compactMap { $0.wholeMatch(of: #/import (\w+)/#)?.1 }.filter {
            $0.hasPrefix("APNS") || ["OpenSSLTLS", "Certificates", "TokenStore"].contains($0)
        }
    }

    // MARK: Testing the checks

    @Test func `types of the file are found, and so are types of Foundation`() {
        let file = SourceFile(
            path: "A.swift",
            text: """
                public struct Notification: Sendable {
                    public struct Data {}
                }
                @safe public final class NSThing {}
                struct Host {}
                public typealias Number = Int
                """
        )
        #expect(PublicTypes.names(in: file) == ["Notification", "NSThing", "Number"])
        #expect(PublicTypes.names(in: file).filter(PublicTypes.isFoundations) == ["Notification", "NSThing"])
        #expect(!PublicTypes.isFoundations("URLs"))
    }

    @Test func `enumerations without a declaration are found`() {
        let file = SourceFile(
            path: "A.swift",
            text: """
                public enum Limits {
                    static let a = 1
                }
                @frozen
                public enum Frozen {
                    case a
                }
                public struct S {
                    @nonexhaustive
                    @safe public enum Open {
                        case a
                    }
                    public indirect enum Undecided: Hashable {
                        case a
                    }
                }
                """
        )
        let findings = PublicTypes.undecidedEnumerations(in: file)
        #expect(findings.map(\.line) == [13])
    }
}
