// swift-tools-version: 6.2
// SPDX-License-Identifier: Apache-2.0

import PackageDescription

/// The settings of every target: Swift 6 with the features that Swift 7 will switch on, no warnings.
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

/// The settings of the targets in which every use of unsafe memory is spelled out.
let strict: [SwiftSetting] = settings + [.strictMemorySafety()]

let package = Package(
    name: "apns-legacy",
    products: [
        .library(name: "APNSWire", targets: ["APNSWire"]),
        .library(name: "APNSSession", targets: ["APNSSession"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.0"),
        .package(url: "https://github.com/swiftlang/swift-docc-plugin", from: "1.4.0"),
    ],
    targets: [
        .target(
            name: "APNSWire",
            dependencies: [.product(name: "NIOCore", package: "swift-nio")],
            swiftSettings: strict
        ),
        .testTarget(
            name: "APNSWireTests",
            dependencies: [
                "APNSWire",
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOTestUtils", package: "swift-nio"),
            ],
            resources: [.copy("vectors.json")],
            swiftSettings: settings
        ),
        .target(
            name: "APNSSession",
            dependencies: ["APNSWire", .product(name: "NIOCore", package: "swift-nio")],
            swiftSettings: strict
        ),
        .testTarget(
            name: "APNSSessionTests",
            dependencies: ["APNSSession", "APNSWire", .product(name: "NIOCore", package: "swift-nio")],
            swiftSettings: settings
        ),
    ]
)
