// SPDX-License-Identifier: Apache-2.0

// So that a test needs to import only this module and that of the provider.
@_exported public import APNSTestKit
