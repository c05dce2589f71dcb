// SPDX-License-Identifier: Apache-2.0

// The configuration and the outcomes use these types.
@_exported public import APNSSession
@_exported public import APNSTransport
@_exported public import APNSWire
@_exported public import OpenSSLTLS
