// swift-tools-version: 6.2
// SPDX-License-Identifier: Apache-2.0

import PackageDescription

/// The settings of every target: Swift 6 with the upcoming features of Swift 7, and warnings as errors.
let settings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("InferIsolatedConformances"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    .enableUpcomingFeature("ImmutableWeakCaptures"),
    .treatAllWarnings(as: .error),
]

/// The settings of targets that must mark every use of unsafe memory.
let strict: [SwiftSetting] = settings + [.strictMemorySafety()]

// Dependencies that only some users need are fetched if their trait is enabled. Each constant is a trait's condition.
let proxy: TargetDependencyCondition? = .when(traits: ["Proxy"])
let server: TargetDependencyCondition? = .when(traits: ["Server"])
let services: TargetDependencyCondition? = .when(traits: ["ServiceLifecycleSupport"])
let tokenStore: TargetDependencyCondition? = .when(traits: ["TokenStore"])
let tracing: TargetDependencyCondition? = .when(traits: ["Tracing"])
let postgreSQL: TargetDependencyCondition? = .when(traits: ["PostgreSQL"])
let mariaDB: TargetDependencyCondition? = .when(traits: ["MariaDB"])
let commandLine: TargetDependencyCondition? = .when(traits: ["CommandLine"])

let package = Package(
    name: "apns-legacy",
    // A product contains the modules whose types are in its interface; all other targets are internal to this package.
    products: [
        .library(
            name: "APNSProvider",
            targets: ["APNSProvider", "APNSPayload", "APNSSession", "APNSTransport", "APNSWire", "APNSJSON"]
        ),
        .library(name: "APNSProviderHTTP2", targets: ["APNSProviderHTTP2"]),
        .library(
            name: "APNSFeedback",
            targets: ["APNSFeedback", "APNSSession", "APNSTransport", "APNSWire", "OpenSSLTLS"]
        ),
        .library(name: "APNSGateway", targets: ["APNSGateway", "APNSServer"]),
        .library(name: "APNSTestKit", targets: ["APNSTestKit", "APNSServer", "APNSSimulator", "APNSCertificates"]),
        .library(name: "APNSTesting", targets: ["APNSTesting"]),
        .library(name: "OpenSSLTLS", targets: ["OpenSSLTLS"]),
        .library(name: "TokenStore", targets: ["TokenStore"]),
        .executable(name: "apns-legacy", targets: ["apns-legacy"]),
    ],
    traits: [
        .trait(name: "Proxy", description: "Connections through an HTTP or SOCKS 5 proxy, with swift-nio-extras."),
        .trait(
            name: "Server",
            description: "Servers: gateway, simulator and test kit, the products APNSGateway and APNSTestKit."
        ),
        .trait(
            name: "ServiceLifecycleSupport",
            description: "Clients, pollers and listeners are services of swift-service-lifecycle."
        ),
        .trait(
            name: "TokenStore",
            description: "The purge list and the gateway's stores in SQLite: the product TokenStore."
        ),
        .trait(
            name: "Tracing",
            description: "A span for each notification of a client, with swift-distributed-tracing."
        ),
        .trait(
            name: "PostgreSQL",
            description: "Purge lists and pruning of token tables in PostgreSQL, with libpq.",
            enabledTraits: ["TokenStore"]
        ),
        .trait(
            name: "MariaDB",
            description: "Pruning of token tables in MariaDB and MySQL, with libmariadb.",
            enabledTraits: ["TokenStore"]
        ),
        .trait(
            name: "CommandLine",
            description: "The command apns-legacy.",
            enabledTraits: ["Proxy", "Server", "ServiceLifecycleSupport", "TokenStore"]
        ),
        .default(enabledTraits: ["CommandLine", "Tracing"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.0"),
        .package(url: "https://github.com/apple/swift-nio-extras", from: "1.35.0"),
        .package(url: "https://github.com/apple/swift-nio-http2", from: "1.46.0"),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-collections", from: "1.6.0"),
        .package(url: "https://github.com/apple/swift-distributed-tracing", from: "1.7.0"),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0", traits: []),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.0"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-system", from: "1.6.0"),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.0", traits: []),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
        .package(url: "https://github.com/jpsim/Yams", from: "6.2.2"),
        .package(url: "https://github.com/swiftlang/swift-docc-plugin", from: "1.4.0"),
        .package(url: "https://github.com/swiftlang/swift-subprocess", from: "1.0.2", traits: []),
    ],
    targets: [
        .systemLibrary(name: "CLinux"),
        .systemLibrary(name: "COpenSSL", pkgConfig: "openssl", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(name: "CMariaDB", providers: [.apt(["libmariadb-dev"])]),
        .systemLibrary(name: "CNGHTTP2", pkgConfig: "libnghttp2", providers: [.apt(["libnghttp2-dev"])]),
        .systemLibrary(name: "CPQ", providers: [.apt(["libpq-dev"])]),
        .systemLibrary(name: "CZlib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"])]),
        .target(
            name: "FileSupport",
            dependencies: [.product(name: "SystemPackage", package: "swift-system")],
            swiftSettings: strict
        ),
        .testTarget(name: "FileSupportTests", dependencies: ["FileSupport", "TestSupport"], swiftSettings: settings),
        .target(
            name: "OpenSSLTLS",
            dependencies: [
                "COpenSSL", "FileSupport",
                .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOTLS", package: "swift-nio"),
            ],
            swiftSettings: strict
        ),
        .target(
            name: "APNSCertificates",
            dependencies: [
                "APNSTransport", "APNSWire", "COpenSSL", "FileSupport", "OpenSSLTLS",
                .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOTLS", package: "swift-nio"),
            ],
            swiftSettings: strict
        ),
        .target(
            name: "APNSTestKit",
            dependencies: [
                "APNSProvider", "APNSServer", "APNSSession", "APNSSimulator", "APNSTransport", "APNSWire",
                "APNSCertificates", "OpenSSLTLS",
                .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOTLS", package: "swift-nio"),
            ],
            swiftSettings: strict
        ),
        .target(
            name: "APNSTesting",
            dependencies: [
                "APNSCertificates", "APNSProvider", "APNSProviderHTTP2", "APNSServer", "APNSSimulator", "APNSTestKit",
                "OpenSSLTLS",
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "APNSTestingTests",
            dependencies: [
                "APNSProvider", "APNSProviderHTTP2", "APNSTestKit", "APNSTesting", "ListenerFixtures",
                .product(name: "HTTPTypes", package: "swift-http-types", condition: commandLine),
                .product(name: "Hummingbird", package: "hummingbird", condition: commandLine),
                .product(name: "InMemoryTracing", package: "swift-distributed-tracing", condition: tracing),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: services),
                .product(name: "Tracing", package: "swift-distributed-tracing", condition: tracing),
            ],
            swiftSettings: settings
        ),
        .target(
            name: "TestSupport",
            dependencies: [
                "APNSProviderHTTP2", "APNSSession", "APNSTestKit", "APNSWire", "OpenSSLTLS",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHPACK", package: "swift-nio-http2", condition: server),
                .product(name: "NIOHTTP1", package: "swift-nio", condition: commandLine),
                .product(name: "NIOHTTP2", package: "swift-nio-http2", condition: server),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOTLS", package: "swift-nio"),
            ],
            path: "Tests/TestSupport",
            swiftSettings: settings
        ),
        .testTarget(
            name: "OpenSSLTLSTests",
            dependencies: [
                "APNSTestKit", "APNSCertificates", "CLinux", "FileSupport", "OpenSSLTLS", "TestSupport",
                .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOEmbedded", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOTLS", package: "swift-nio"),
            ],
            swiftSettings: settings
        ),
        .target(
            name: "APNSWire",
            dependencies: ["APNSPayload", .product(name: "NIOCore", package: "swift-nio")],
            swiftSettings: strict
        ),
        .testTarget(
            name: "APNSWireTests",
            dependencies: [
                "APNSPayload", "APNSWire", "TestSupport",
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOTestUtils", package: "swift-nio"),
            ],
            resources: [.copy("vectors.json")],
            swiftSettings: settings
        ),
        .target(
            name: "APNSSession",
            dependencies: [
                "APNSWire",
                .product(name: "DequeModule", package: "swift-collections"),
                .product(name: "NIOCore", package: "swift-nio"),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "APNSSessionTests",
            dependencies: [
                "APNSSession", "APNSWire", "TestSupport",
                .product(name: "NIOCore", package: "swift-nio"),
            ],
            swiftSettings: settings
        ),
        .target(
            name: "APNSTransport",
            dependencies: [
                "APNSWire", "OpenSSLTLS",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOExtras", package: "swift-nio-extras", condition: proxy),
                .product(name: "NIOHTTP1", package: "swift-nio", condition: proxy),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSOCKS", package: "swift-nio-extras", condition: proxy),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: services),
            ],
            swiftSettings: strict
        ),
        .target(
            name: "APNSFeedback",
            dependencies: [
                "APNSSession", "APNSTransport", "APNSWire", "CLinux", "FileSupport", "OpenSSLTLS",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOTLS", package: "swift-nio"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: services),
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "APNSFeedbackTests",
            dependencies: [
                "APNSFeedback", "APNSServer", "APNSSession", "APNSSimulator", "APNSTestKit", "APNSTransport",
                "APNSWire",
                "ListenerFixtures", "OpenSSLTLS", "TestSupport", "TokenStore",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: services),
            ],
            swiftSettings: settings
        ),
        .target(
            name: "APNSProvider",
            dependencies: [
                "APNSJSON", "APNSPayload", "APNSSession", "APNSTransport", "APNSWire", "OpenSSLTLS",
                .product(name: "DequeModule", package: "swift-collections"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "Metrics", package: "swift-metrics"),
                .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOTLS", package: "swift-nio"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: services),
                .product(name: "Tracing", package: "swift-distributed-tracing", condition: tracing),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "APNSProviderTests",
            dependencies: [
                "APNSPayload", "APNSProvider", "APNSSession", "APNSTestKit", "APNSTransport", "APNSWire",
                "ListenerFixtures",
                "OpenSSLTLS",
                "TestSupport",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "MetricsTestKit", package: "swift-metrics"),
                .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: services),
            ],
            swiftSettings: settings
        ),
        .target(
            name: "APNSProviderHTTP2",
            dependencies: [
                "APNSPayload", "APNSProvider", "APNSSession", "APNSTransport", "APNSWire", "CNGHTTP2", "COpenSSL",
                "APNSJSON", "OpenSSLTLS",
                .product(name: "DequeModule", package: "swift-collections"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "Metrics", package: "swift-metrics"),
                .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOTLS", package: "swift-nio"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: services),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "APNSProviderHTTP2Tests",
            dependencies: [
                "APNSPayload", "APNSProvider", "APNSProviderHTTP2", "APNSServer", "APNSSession", "APNSSimulator",
                "APNSTestKit", "APNSTransport",
                "APNSWire", "ListenerFixtures", "OpenSSLTLS", "TestSupport",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "MetricsTestKit", package: "swift-metrics"),
                .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHPACK", package: "swift-nio-http2", condition: server),
                .product(name: "NIOHTTP2", package: "swift-nio-http2", condition: server),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOTLS", package: "swift-nio"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: services),
            ],
            swiftSettings: settings
        ),
        .target(
            name: "APNSServer",
            dependencies: [
                "APNSSession", "APNSTransport", "APNSWire", "APNSJSON", "OpenSSLTLS",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "Metrics", package: "swift-metrics"),
                .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHPACK", package: "swift-nio-http2", condition: server),
                .product(name: "NIOHTTP2", package: "swift-nio-http2", condition: server),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOTLS", package: "swift-nio"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: services),
            ],
            swiftSettings: strict
        ),
        .target(
            name: "ListenerFixtures",
            dependencies: [
                "APNSServer", "APNSWire", "APNSCertificates", "OpenSSLTLS",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
                .product(name: "NIOCore", package: "swift-nio"),
            ],
            path: "Tests/ListenerFixtures",
            swiftSettings: settings
        ),
        .testTarget(
            name: "APNSServerTests",
            dependencies: [
                "APNSServer", "APNSSession", "APNSTestKit", "APNSTransport", "APNSWire", "ListenerFixtures",
                "OpenSSLTLS", "TestSupport",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOEmbedded", package: "swift-nio"),
                .product(name: "NIOHPACK", package: "swift-nio-http2", condition: server),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOTLS", package: "swift-nio"),
            ],
            swiftSettings: settings
        ),
        .target(
            name: "APNSGateway",
            dependencies: [
                "APNSProvider", "APNSProviderHTTP2", "APNSServer", "APNSSession", "APNSTransport", "APNSWire",
                "OpenSSLTLS",
                .product(name: "DequeModule", package: "swift-collections"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "Metrics", package: "swift-metrics"),
                .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: services),
            ],
            swiftSettings: strict
        ),
        .target(
            name: "APNSSimulator",
            dependencies: [
                "APNSPayload", "APNSServer", "APNSSession", "APNSTransport", "APNSWire", "COpenSSL", "APNSJSON",
                "OpenSSLTLS",
                .product(name: "DequeModule", package: "swift-collections"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP2", package: "swift-nio-http2", condition: server),
                .product(name: "NIOTLS", package: "swift-nio"),
                .product(name: "OrderedCollections", package: "swift-collections"),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "APNSGatewayTests",
            dependencies: [
                "APNSGateway", "APNSProviderHTTP2", "APNSServer", "APNSSession", "APNSTestKit", "APNSTransport",
                "APNSWire", "APNSCertificates", "ListenerFixtures", "OpenSSLTLS", "TestSupport",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOEmbedded", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOTLS", package: "swift-nio"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: services),
            ],
            swiftSettings: settings
        ),
        .testTarget(
            name: "APNSSimulatorTests",
            dependencies: [
                "APNSProviderHTTP2", "APNSServer", "APNSSession", "APNSSimulator", "APNSTestKit", "APNSWire",
                "OpenSSLTLS", "TestSupport",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ],
            swiftSettings: settings
        ),
        .testTarget(name: "TidyTests", swiftSettings: settings),
        .target(name: "APNSJSON", swiftSettings: strict),
        .testTarget(name: "APNSJSONTests", dependencies: ["APNSJSON"], swiftSettings: settings),
        .target(name: "APNSPayload", dependencies: ["APNSJSON"], swiftSettings: strict),
        .target(
            name: "Batch",
            dependencies: [
                "APNSFeedback", "APNSPayload", "APNSProvider", "APNSSession", "APNSWire", "CZlib",
                "APNSCertificates", "FileSupport", "APNSJSON", "OpenSSLTLS", "TokenStore",
                .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "Subprocess", package: "swift-subprocess", condition: commandLine),
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "BatchTests",
            dependencies: [
                "APNSPayload", "APNSProvider", "APNSSession", "APNSWire", "Batch", "CZlib", "FileSupport",
                "TestSupport", "TokenStore",
                .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
                .product(name: "NIOCore", package: "swift-nio"),
            ],
            swiftSettings: settings
        ),
        .testTarget(
            name: "APNSPayloadTests",
            dependencies: ["APNSJSON", "APNSPayload", "TestSupport"],
            swiftSettings: settings
        ),
        .target(
            name: "MariaDB",
            dependencies: [.target(name: "CMariaDB", condition: mariaDB)],
            swiftSettings: strict
        ),
        .target(
            name: "PostgreSQL",
            dependencies: [.target(name: "CPQ", condition: postgreSQL)],
            swiftSettings: strict
        ),
        .target(
            name: "TokenStore",
            dependencies: [
                "APNSSession", "APNSWire", "FileSupport", "APNSJSON",
                .target(name: "MariaDB", condition: mariaDB),
                .target(name: "PostgreSQL", condition: postgreSQL),
                .product(name: "GRDB", package: "GRDB.swift", condition: tokenStore),
                .product(name: "GRDBSQLite", package: "GRDB.swift", condition: tokenStore),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "Metrics", package: "swift-metrics"),
                .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TokenStoreTests",
            dependencies: [
                "APNSGateway", "APNSSession", "APNSWire", "ListenerFixtures", "TestSupport", "TokenStore",
                .product(name: "GRDB", package: "GRDB.swift", condition: tokenStore),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
                .product(name: "NIOCore", package: "swift-nio"),
            ],
            swiftSettings: settings
        ),
        .target(
            name: "ServiceSupport",
            dependencies: [
                "APNSPayload", "APNSServer", "APNSWire",
                .product(name: "HTTPTypes", package: "swift-http-types", condition: commandLine),
                .product(name: "HummingbirdCore", package: "hummingbird", condition: commandLine),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio", condition: commandLine),
                .product(name: "NIOHTTPTypes", package: "swift-nio-extras", condition: commandLine),
                .product(name: "NIOHTTPTypesHTTP1", package: "swift-nio-extras", condition: commandLine),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "Yams", package: "Yams", condition: commandLine),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "ServiceSupportTests",
            dependencies: [
                "APNSPayload", "ServiceSupport", "TestSupport",
                .product(name: "HTTPTypes", package: "swift-http-types", condition: commandLine),
                .product(name: "HummingbirdCore", package: "hummingbird", condition: commandLine),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOEmbedded", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio", condition: commandLine),
                .product(name: "NIOHTTPTypes", package: "swift-nio-extras", condition: commandLine),
                .product(name: "NIOPosix", package: "swift-nio"),
            ],
            swiftSettings: settings
        ),
        .target(
            name: "GatewayService",
            dependencies: [
                "APNSCertificates", "APNSFeedback", "APNSGateway", "APNSJSON", "APNSPayload", "APNSProvider",
                "APNSProviderHTTP2", "APNSServer", "APNSSession", "APNSTransport", "APNSWire", "CNGHTTP2", "COpenSSL",
                "FileSupport", "OpenSSLTLS", "ServiceSupport", "TokenStore",
                .product(name: "CoreMetrics", package: "swift-metrics"),
                .product(name: "GRDBSQLite", package: "GRDB.swift", condition: tokenStore),
                .product(name: "HTTPTypes", package: "swift-http-types", condition: commandLine),
                .product(name: "HummingbirdCore", package: "hummingbird", condition: commandLine),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio", condition: commandLine),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "GatewayServiceTests",
            dependencies: [
                "APNSCertificates", "APNSGateway", "APNSProviderHTTP2", "APNSServer", "APNSSession", "APNSTestKit",
                "APNSTransport", "APNSWire", "FileSupport", "GatewayService", "ListenerFixtures", "OpenSSLTLS",
                "ServiceSupport",
                "TestSupport",
                .product(name: "CoreMetrics", package: "swift-metrics"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio", condition: commandLine),
                .product(name: "NIOPosix", package: "swift-nio"),
            ],
            swiftSettings: settings
        ),
        .target(name: "CSimulatorPage"),
        .target(
            name: "SimulatorService",
            dependencies: [
                "APNSPayload", "APNSServer", "APNSSimulator", "APNSTransport", "APNSWire", "CSimulatorPage",
                "CZlib", "APNSJSON", "FileSupport", "OpenSSLTLS", "ServiceSupport",
                .product(name: "HTTPTypes", package: "swift-http-types", condition: commandLine),
                .product(name: "HummingbirdCore", package: "hummingbird", condition: commandLine),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio", condition: commandLine),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            exclude: ["Page", "openapi.yaml"],
            swiftSettings: strict
        ),
        .testTarget(
            name: "SimulatorServiceTests",
            dependencies: [
                "APNSSimulator", "APNSTestKit", "APNSWire", "FileSupport", "ServiceSupport", "SimulatorService",
                "TestSupport",
                .product(name: "HTTPTypes", package: "swift-http-types", condition: commandLine),
                .product(name: "HummingbirdCore", package: "hummingbird", condition: commandLine),
                .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOEmbedded", package: "swift-nio"),
                .product(name: "Yams", package: "Yams", condition: commandLine),
            ],
            swiftSettings: settings
        ),
        .target(
            name: "APNSLegacyCommands",
            dependencies: [
                "APNSFeedback", "APNSGateway", "APNSPayload", "APNSProvider", "APNSProviderHTTP2", "APNSServer",
                "APNSSession", "APNSSimulator", "APNSTransport", "APNSWire", "Batch", "CLinux", "CNGHTTP2",
                "COpenSSL", "APNSCertificates", "FileSupport", "GatewayService", "APNSJSON", "OpenSSLTLS",
                "ServiceSupport", "SimulatorService", "TokenStore",
                .product(name: "ArgumentParser", package: "swift-argument-parser", condition: commandLine),
                .product(name: "GRDBSQLite", package: "GRDB.swift", condition: tokenStore),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio", condition: commandLine),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            swiftSettings: strict
        ),
        .executableTarget(
            name: "apns-legacy",
            dependencies: [
                "APNSLegacyCommands", "GatewayService",
                .product(name: "ArgumentParser", package: "swift-argument-parser", condition: commandLine),
                .product(name: "CoreMetrics", package: "swift-metrics"),
            ],
            swiftSettings: strict,
            plugins: ["CommitPlugin"]
        ),
        .plugin(name: "CommitPlugin", capability: .buildTool()),
        .target(
            name: "CSimulatedKernel",
            dependencies: ["COpenSSL"],
            path: "Tests/Simulation/CSimulatedKernel"
        ),
        .executableTarget(
            name: "Simulation",
            dependencies: [
                "APNSCertificates", "APNSFeedback", "APNSGateway", "APNSProvider", "APNSProviderHTTP2", "APNSServer",
                "APNSSession", "APNSSimulator", "APNSTestKit", "APNSWire", "Batch", "CSimulatedKernel", "OpenSSLTLS",
                "TokenStore",
                .product(name: "GRDB", package: "GRDB.swift", condition: tokenStore),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ],
            path: "Tests/Simulation/Simulation",
            swiftSettings: settings
        ),
        .target(name: "CAllocations", path: "Tests/Instructions/CAllocations"),
        .executableTarget(
            name: "Instructions",
            dependencies: [
                "APNSCertificates", "APNSGateway", "APNSProvider", "APNSProviderHTTP2", "APNSServer", "APNSSession",
                "APNSWire", "Batch", "CAllocations", "OpenSSLTLS", "TokenStore",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOEmbedded", package: "swift-nio"),
                .product(name: "NIOTLS", package: "swift-nio"),
            ],
            path: "Tests/Instructions/Instructions",
            swiftSettings: settings
        ),
        .testTarget(
            name: "APNSLegacyCommandsTests",
            dependencies: [
                "APNSGateway", "APNSJSON", "APNSLegacyCommands", "APNSPayload", "APNSProvider", "APNSSession",
                "APNSWire",
                "Batch", "APNSCertificates", "FileSupport", "GatewayService", "OpenSSLTLS", "TestSupport",
                "TokenStore",
                .product(name: "ArgumentParser", package: "swift-argument-parser", condition: commandLine),
                .product(name: "CoreMetrics", package: "swift-metrics"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ],
            swiftSettings: settings
        ),
        .testTarget(
            name: "IntegrationTests",
            dependencies: [
                "APNSFeedback", "APNSGateway", "APNSLegacyCommands", "APNSProvider", "APNSServer", "APNSSession",
                "APNSSimulator", "APNSTestKit", "APNSTransport", "APNSWire", "Batch", "COpenSSL", "GatewayService",
                "OpenSSLTLS", "TestSupport", "TokenStore", "apns-legacy",
                .product(name: "ArgumentParser", package: "swift-argument-parser", condition: commandLine),
                .product(name: "GRDB", package: "GRDB.swift", condition: tokenStore),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOTLS", package: "swift-nio"),
            ],
            swiftSettings: settings
        ),
    ]
)

// The targets of libFuzzer are in a program of their own, which requires a separate build of everything, see
// `Scripts/fuzz`; in other builds, a test runs their corpora.
let fuzzed: [Target.Dependency] = [
    "APNSCertificates", "APNSFeedback", "APNSJSON", "APNSPayload", "APNSProviderHTTP2", "APNSServer", "APNSSession",
    "APNSSimulator", "APNSWire", "Batch", "CZlib", "GatewayService", "OpenSSLTLS", "ServiceSupport", "SimulatorService",
    "TokenStore",
    .target(name: "PostgreSQL", condition: postgreSQL),
    .product(name: "GRDB", package: "GRDB.swift", condition: tokenStore),
    .product(name: "HTTPTypes", package: "swift-http-types", condition: commandLine),
    .product(name: "HummingbirdCore", package: "hummingbird", condition: commandLine),
    .product(name: "Logging", package: "swift-log"),
    .product(name: "NIOCore", package: "swift-nio"),
    .product(name: "NIOEmbedded", package: "swift-nio"),
]
if Context.environment["FUZZ"] != nil {
    package.targets.append(
        .executableTarget(
            name: "Fuzz",
            dependencies: fuzzed,
            path: "Tests/Fuzz",
            exclude: ["FuzzCorpusTests.swift", "corpora"],
            swiftSettings: settings
        )
    )
} else {
    package.targets.append(
        .testTarget(
            name: "FuzzTests",
            dependencies: fuzzed,
            path: "Tests/Fuzz",
            exclude: ["Fuzz.swift", "corpora"],
            swiftSettings: settings
        )
    )
}

// A sanitizer requires a separate build, so `Scripts/test --sanitize` only builds the tests of some targets.
if let names = Context.environment["TEST_TARGETS"]?.split(separator: " ") {
    package.targets.removeAll { target in target.isTest && !names.contains { $0 == target.name } }
}
