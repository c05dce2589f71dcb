// SPDX-License-Identifier: Apache-2.0

/// The two services, whose tokens are not each other's.
public enum PushEnvironment: String, Hashable, Sendable, CaseIterable {
    /// Apps from the store, from TestFlight and of enterprises.
    case production
    /// Apps that a developer put on a device.
    case sandbox
}
