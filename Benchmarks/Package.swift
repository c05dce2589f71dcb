// swift-tools-version: 6.2
// SPDX-License-Identifier: Apache-2.0

import PackageDescription

let settings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    .treatAllWarnings(as: .error),
]

let package = Package(
    name: "apns-legacy-benchmarks",
    products: [
        .executable(name: "bench-send", targets: ["bench-send"]),
        .executable(name: "bench-listener", targets: ["bench-listener"]),
        .executable(name: "bench-feedback", targets: ["bench-feedback"]),
        .executable(name: "bench-push", targets: ["bench-push"]),
    ],
    dependencies: [
        .package(name: "apns-legacy", path: ".."),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.0"),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
    ],
    targets: [
        .executableTarget(
            name: "bench-send",
            dependencies: [
                .product(name: "APNSProvider", package: "apns-legacy"),
                .product(name: "OpenSSLTLS", package: "apns-legacy"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
                .product(name: "NIOCore", package: "swift-nio"),
            ],
            swiftSettings: settings
        ),
        .executableTarget(
            name: "bench-listener",
            dependencies: [
                .product(name: "APNSGateway", package: "apns-legacy"),
                .product(name: "APNSProvider", package: "apns-legacy"),
                .product(name: "OpenSSLTLS", package: "apns-legacy"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
                .product(name: "NIOCore", package: "swift-nio"),
            ],
            swiftSettings: settings
        ),
        .executableTarget(
            name: "bench-feedback",
            dependencies: [
                .product(name: "APNSGateway", package: "apns-legacy"),
                .product(name: "APNSProvider", package: "apns-legacy"),
                .product(name: "OpenSSLTLS", package: "apns-legacy"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "NIOCore", package: "swift-nio"),
            ],
            swiftSettings: settings
        ),
        .executableTarget(
            name: "bench-push",
            dependencies: [
                .product(name: "APNSProviderHTTP2", package: "apns-legacy"),
                .product(name: "APNSProvider", package: "apns-legacy"),
                .product(name: "OpenSSLTLS", package: "apns-legacy"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "NIOCore", package: "swift-nio"),
            ],
            swiftSettings: settings
        ),
    ]
)
