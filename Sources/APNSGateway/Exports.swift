// SPDX-License-Identifier: Apache-2.0

// The configuration of a gateway and the protocols that its author implements use these types.
@_exported public import APNSProviderHTTP2
@_exported public import APNSServer
@_exported public import APNSSession
@_exported public import APNSTransport
@_exported public import APNSWire
@_exported public import OpenSSLTLS
