// SPDX-License-Identifier: Apache-2.0

// The public API uses its type `ProviderIdentity`.
@_exported public import APNSTransport
