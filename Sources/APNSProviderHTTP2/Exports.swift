// SPDX-License-Identifier: Apache-2.0

// The configuration is made of its types.
@_exported public import APNSTransport
